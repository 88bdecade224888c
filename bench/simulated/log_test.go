package simulated

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/records/cost"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// play plays a load that begins some time after midnight, when an epoch begins.
func (l LogLoad) play(t *testing.T, after time.Duration) (report LogReport) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(after)
		var err error
		if report, err = l.Run(); err != nil {
			t.Fatal(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return report
}

// near compares two numbers.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	t.Logf("%s: %.4f and %.4f", what, got, want)
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s: got %.4f, which is not within %.0f %% of %.4f", what, got, 100*tolerance, want)
	}
}

// agree compares the units of the real ledgers with the formulas of package cost, and with the model of a day.
func agree(t *testing.T, l LogLoad, r LogReport) {
	t.Helper()
	formula := cost.Load{
		Rate: l.Rate, Window: time.Hour, Horizon: 14 * 24 * time.Hour, Batch: l.Batch, Shards: l.Shards,
		Parallelization: 1, Lanes: l.Lanes, Copies: l.Copies,
	}
	write, read := r.PerRecord()
	near(t, "attempts by the table", formula.Attempts(), r.Cost.Attempts(), 0.15)
	near(t, "write units by the formula", formula.LogUnits().Write, write, 0.15)
	near(t, "read units by the formula", formula.LogUnits().Read, read, 0.15)

	var model LogStretch
	LogDay{
		Seed: 1, Rate: func(time.Duration) float64 { return l.Rate }, Shards: l.Shards, Lanes: l.Lanes, Batch: l.Batch,
		Rest: l.Rest, Times: l.Times, Length: time.Minute, Stretch: 20 * time.Second,
		Each: func(s LogStretch) { model = s },
	}.Run()
	records := float64(model.Records)
	near(t, "attempts of the model", model.Cost.Attempts(), r.Cost.Attempts(), 0.1)
	near(t, "write units of the model", model.Cost.WriteUnits/records, write, 0.1)
	near(t, "read units of the model", model.Cost.ReadUnits/records, read, 0.1)
}

// smallLog is a fifth of the stream of the goals.
func smallLog() LogLoad {
	l := LogGoal{Batch: 1000}.Load()
	l.Rate, l.Batch = l.Rate/5, l.Batch/5
	return l
}

// TestLogLoad checks that the same seed makes the same requests, and that the units agree with the formulas and the
// model.
func TestLogLoad(t *testing.T) {
	t.Parallel()
	l := smallLog()
	r := l.play(t, 0)
	if again := l.play(t, 0); again.Cost != r.Cost {
		t.Errorf("the same seed made %+v and %+v", r.Cost, again.Cost)
	}
	near(t, "rows", float64(r.Cost.Rows), float64(r.Records), 0.02)
	agree(t, l, r)
}

// TestLogGoals: the real ledgers take no more write units than the goals say.
func TestLogGoals(t *testing.T) {
	testengine.CheckOnly(t)
	for _, goal := range LogGoals {
		t.Run(fmt.Sprint(goal.Batch), func(t *testing.T) {
			l := goal.Load()
			r := l.play(t, 0)
			agree(t, l, r)
			if write, _ := r.PerRecord(); goal.WriteUnits > 0 && write > goal.WriteUnits {
				t.Errorf("a record takes %.4f write units, want at most %.3f", write, goal.WriteUnits)
			}
		})
	}
}

// TestLogEpoch: an epoch ends while 40 environments append. All records are answered, and its end costs little.
func TestLogEpoch(t *testing.T) {
	testengine.CheckOnly(t)
	l := smallLog()
	l.Window = 16 * time.Minute // an epoch lasts a minute
	without, with := l.play(t, 0), l.play(t, 53*time.Second)
	more, reads := with.Cost.WriteUnits-without.Cost.WriteUnits, with.Cost.ReadUnits-without.Cost.ReadUnits
	t.Logf("the end of an epoch takes %.0f write units and %.0f read units; %+v", more, reads, with.Cost)
	if without.Cost.Epochs != 0 || with.Cost.Epochs < l.Lanes || more > 0.1*without.Cost.WriteUnits {
		t.Errorf("without the end of an epoch %+v, with it %+v", without.Cost, with.Cost)
	}
}
