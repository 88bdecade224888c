package idempotencyfault

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/oncebox/oncebox/internal/testkit/search"
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

// TestHistories plays random histories: the first 20,000 seeds, or 500 with -short.
func TestHistories(t *testing.T) { playAll(t, 20_000, newHistory) }

// TestMixedFleets plays histories in which functions with Powertools have the same keys: a tenth as many.
func TestMixedFleets(t *testing.T) { playAll(t, 2_000, newMixed) }

func playAll(t *testing.T, usual int, of func(seed uint64) history) {
	t.Helper()
	if testing.Short() {
		usual /= 40
	}
	synctest.Test(t, func(t *testing.T) {
		search.Histories(t, 0, usual, func(seed int) error {
			var trace *strings.Builder
			if search.Alone() {
				trace = &strings.Builder{}
				defer func() { t.Log(trace) }()
			}
			return play(of(uint64(seed)), trace)
		})
	})
}
