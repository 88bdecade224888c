package logledger_test

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// TestBetweenCalls: another process enters a record between any two storage calls of this process. The record has the
// same id as the last record of this process, and begins an epoch. One of the two is new, and the other one is its
// copy.
func TestBetweenCalls(t *testing.T) {
	t.Parallel()
	met := true
	for n := 0; met; n++ {
		log := memlog.New()
		other := newLedger(t, log, logledger.Options{Lanes: 1})
		enter(t, other, candidate("a", "1", "x", 0))
		var theirs dedupe.Answer
		met = false
		l := newLedger(t, &betweenCalls{Log: log, at: n, work: func() {
			met = true
			theirs = enter(t, other, candidate("c", "2", "x", time.Hour))[0]
		}}, logledger.Options{Lanes: 1})
		enter(t, l, candidate("b", "3", "x", time.Minute))
		mine := enter(t, l, candidate("c", "4", "x", time.Hour))[0]
		if !met {
			theirs = enter(t, other, candidate("c", "2", "x", time.Hour))[0]
		}
		first, second := dedupe.Answer{Found: dedupe.Put}, dedupe.Answer{Found: dedupe.Same}
		if (mine != first || theirs != second) && (mine != second || theirs != first) {
			t.Errorf("before call %d: this process got %+v, the other one %+v", n, mine, theirs)
		}
	}
}
