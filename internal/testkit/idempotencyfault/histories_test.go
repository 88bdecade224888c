package idempotencyfault

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	firstSeed = flag.Int("seed", -1, "TestHistories begins with this seed, and plays one history if -seeds is not given")
	seeds     = flag.Int("seeds", 0, "how many histories TestHistories plays, from any seed on")
)

// TestSeedDecidesAll: the seed of a violation is enough to see it again.
func TestSeedDecidesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(200) {
			var first, second strings.Builder
			if _ = play(newHistory(seed), &first); first.Len() == 0 {
				t.Errorf("seed %d: nothing happens", seed)
			}
			if _ = play(newHistory(seed), &second); first.String() != second.String() {
				t.Errorf("seed %d: two plays differ:\n%s\n%s", seed, &first, &second)
			}
		}
	})
}

// TestHistories plays random histories. A seed always plays the same history. Without flags it plays the first 20,000
// seeds, or 500 with -short.
func TestHistories(t *testing.T) {
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
	synctest.Test(t, func(t *testing.T) {
		for seed := uint64(first); seed < uint64(first+plays); seed++ {
			var trace *strings.Builder
			if plays == 1 {
				trace = &strings.Builder{}
			}
			err := play(newHistory(seed), trace)
			if trace != nil {
				t.Log(trace)
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	})
}
