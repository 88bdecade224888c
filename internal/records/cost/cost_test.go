package cost

import (
	"math"
	"strings"
	"testing"
	"time"
)

// base is a load that suits the log ledger.
var base = Load{
	Rate: 33_000, Window: time.Hour, Horizon: 14 * 24 * time.Hour, Batch: 2500, Shards: 40, Parallelization: 1, Lanes: 8,
	ColdStarts: UsualColdStarts, Rest: 200 * time.Millisecond,
}

func (l Load) with(change func(l *Load)) Load {
	change(&l)
	return l
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := base.Check(); err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]Load{
		"--records-per-second 0: use":   base.with(func(l *Load) { l.Rate = 0 }),
		"--records-per-second NaN: use": base.with(func(l *Load) { l.Rate = math.NaN() }),
		"--window 0s: use":              base.with(func(l *Load) { l.Window = 0 }),
		"--horizon -1ns: use":           base.with(func(l *Load) { l.Horizon = -1 }),
		"--batch 10001: use 1 to":       base.with(func(l *Load) { l.Batch = 10_001 }),
		"--shards 0: use":               base.with(func(l *Load) { l.Shards = 0 }),
		"--parallelization 11: use":     base.with(func(l *Load) { l.Parallelization = 11 }),
		"--lanes 257: use 1 to 256":     base.with(func(l *Load) { l.Lanes = 257 }),
		"--copies 1: use":               base.with(func(l *Load) { l.Copies = 1 }),
		"--function-memory 64: use":     base.with(func(l *Load) { l.FunctionMemory = 64 }),
		"--cold-starts 1e+07: use 0":    base.with(func(l *Load) { l.ColdStarts = 1e7 }),
		"--cold-starts -2: use 0 to":    base.with(func(l *Load) { l.ColdStarts = -2 }),
		"--rest -1ns: use":              base.with(func(l *Load) { l.Rest = -1 }),
	} {
		if err := l.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestChoice checks which ledger is recommended, and the reason why the log ledger cannot be used.
func TestChoice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		load    Load
		use     string
		problem string
	}{
		{"the goal", base, Log, ""},
		{"few records", base.with(func(l *Load) { l.Rate, l.Batch, l.Shards = 10, 10, 1 }), Keys, ""},
		{"a long window", base.with(func(l *Load) { l.Window = 48 * time.Hour }), Keys, "the longest window that fits is 1h35m"},
		{"little memory", base.with(func(l *Load) { l.FunctionMemory = 2048 }), Valkey, "60% of 2048 MB are for entries"},
		{"small batches", base.with(func(l *Load) { l.Batch = 100 }), Valkey, "use larger batches"},
		{"one lane", base.with(func(l *Load) { l.Lanes = 1 }), Valkey, "more lanes"},
		{"many environments", base.with(func(l *Load) { l.Parallelization = 10 }), Valkey, "after a deployment 400 environments"},
		{"many environments, little to load", base.with(func(l *Load) { l.Parallelization, l.Window = 10, 10*time.Minute }),
			Valkey, "400 environments read"},
		{"a short horizon", base.with(func(l *Load) { l.Horizon = 24 * time.Hour }), Valkey, ""},
	} {
		got := Compare(c.load)
		if got.Use != c.use || (c.problem == "") != (got.Log.Problem == "") || !strings.Contains(got.Log.Problem, c.problem) {
			t.Errorf("%s: use %s because %s; log: %q", c.name, got.Use, got.Because, got.Log.Problem)
		}
	}
}

// TestSums checks that a day is the sum of its parts, and that copies need no write units of the log.
func TestSums(t *testing.T) {
	t.Parallel()
	c := Compare(base)
	for _, e := range []Estimate{c.Keys, c.Log, c.Valkey} {
		if math.Abs(e.Total-e.Day.Sum()) > 1e-9 || e.Total <= 0 {
			t.Errorf("%+v", e)
		}
	}
	units := base.Rate * day * (c.Keys.PerRecord.Write*WriteUnit + c.Keys.PerRecord.Read*ReadUnit)
	if math.Abs(c.Keys.Day.Units-units) > 1e-6 {
		t.Errorf("want %f USD of units, got %f", units, c.Keys.Day.Units)
	}
	half := base.with(func(l *Load) { l.Copies = 0.5 })
	if few, all := half.LogUnits().Write, base.LogUnits().Write; few > 0.6*all {
		t.Errorf("a record takes %f write units with copies, and %f without", few, all)
	}
}

// TestItem checks that the mean of the units of an item is above the units of its mean size, since each started unit
// counts.
func TestItem(t *testing.T) {
	t.Parallel()
	size, units := base.item()
	if want := logItem + 2500.0/8*logRow; math.Abs(size-want) > 1 || units < size/kB || units > size/kB+1 {
		t.Errorf("want %f bytes, got %f in %f units", want, size, units)
	}
	if size, units = base.with(func(l *Load) { l.Lanes = 1 }).item(); size != logItem+2500*logRow || units != 64 {
		t.Errorf("one lane: %f bytes in %f units", size, units)
	}
}
