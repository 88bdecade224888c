package logfault

import (
	"cmp"
	"encoding/json"
	"flag"
	"testing"
)

var (
	oneSeed = flag.Int("seed", -1, "TestHistories plays the history of this seed alone")
	seeds   = flag.Int("seeds", 0, "how many histories TestHistories plays; by default 20,000, or 500 with -short")
)

// TestHistories plays histories at random. Each seed always plays the same one.
func TestHistories(t *testing.T) {
	t.Parallel()
	first, plays := 0, cmp.Or(*seeds, 20_000)
	switch {
	case *oneSeed >= 0:
		first, plays = *oneSeed, 1
	case *seeds == 0 && testing.Short():
		plays = 500
	}
	for seed := uint64(first); seed < uint64(first+plays); seed++ {
		if err := play(newHistory(seed), nil); err != nil {
			fail(t, newHistory(seed), nil)
		}
	}
}

// fail prints the history in full.
func fail(t *testing.T, h history, m *Mutant) {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := traced(h, m)
	t.Fatalf("seed %d: %v\n%s\nall that happened:\n%s", h.Seed, err, text, trace)
}
