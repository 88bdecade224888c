package logledger_test

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// TestSurvey: Survey finds the same entries as a process has in memory that decides about a record with the arrival.
func TestSurvey(t *testing.T) {
	t.Parallel()
	log := aLog(t)
	for _, hours := range []int{0, 7, 15, 138} {
		arrival := now.Add(time.Duration(hours) * time.Hour)
		l := newLedger(t, log, logledger.Options{Lanes: 1, Clock: dedupe.Clock{Now: func() time.Time { return arrival }}})
		if err := l.Warm(t.Context(), "orders", retention); err != nil {
			t.Fatal(err)
		}
		lanes, err := logledger.Survey(t.Context(), log, "orders", arrival)
		if err != nil || len(lanes) != 1 {
			t.Fatal(lanes, err)
		}
		s, want := lanes[0], l.Stats() // each item, and each seal, is one unit
		if s.Memory != want.Needed || int64(s.Items) != s.Entries || s.Units != want.ItemsRead {
			t.Errorf("at %d hours: %+v, and a process has %+v", hours, s, want)
		}
		if s.Latest != now.Add(138*time.Hour+time.Second) || s.Epochs != 70 || s.Window != retention.Window.Milliseconds() {
			t.Errorf("at %d hours: %+v", hours, s)
		}
	}
	if lanes, err := logledger.Survey(t.Context(), memlog.New(), "orders", now); err != nil || len(lanes) != 0 {
		t.Errorf("no log: %+v, %v", lanes, err)
	}
}
