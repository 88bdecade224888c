package logfault

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

var (
	firstSeed  = flag.Int("seed", -1, "TestHistories begins with this seed, and plays one history if -seeds is not given")
	seeds      = flag.Int("seeds", 0, "how many histories TestHistories plays, from any seed on")
	byVerdicts = flag.Bool("verdicts", false, "TestHistories does not judge the log, but only what callers were told")
	shrink     = flag.Bool("shrink", true, "TestHistories makes the history smaller that it finds")
)

// TestHistories plays random histories. A seed always plays the same history. Without flags it plays the first 20,000
// seeds, or 500 with -short.
func TestHistories(t *testing.T) {
	t.Parallel()
	first, plays := max(*firstSeed, 0), 20_000
	switch {
	case *seeds > 0:
		plays = *seeds
		if *firstSeed < 0 {
			first = rand.IntN(1 << 50)
		}
	case *firstSeed >= 0:
		plays = 1
	case testing.Short():
		plays = 500
	}
	by := all
	if *byVerdicts {
		by = verdicts
	}
	for seed := uint64(first); seed < uint64(first+plays); seed++ {
		h := newHistory(seed)
		err := play(h, nil, by)
		if plays == 1 {
			t.Log(h.print(nil, by))
		}
		if err == nil {
			continue
		}
		if *shrink {
			h = h.smaller(func(h history) bool { return play(h, nil, by) != nil })
		}
		t.Fatalf("seed %d: %v\nmade smaller: %s", seed, err, h.print(nil, by))
	}
}

// TestKeptHistories plays histories that once broke a guarantee.
func TestKeptHistories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var h history
		if err := json.Unmarshal(text, &h); err != nil {
			t.Fatal(file, err)
		}
		if err := play(h, nil, all); err != nil {
			t.Errorf("%s: %v\n%s", file, err, h.print(nil, all))
		}
	}
}

// print returns a history in full: its parts, the violation, and all events.
func (h history) print(m *mutant, by judges) string {
	text, err := json.Marshal(h)
	if err != nil {
		return err.Error()
	}
	trace, err := traced(h, m, by)
	return fmt.Sprintf("%v\n%s\nall that happens:\n%s", err, text, trace)
}
