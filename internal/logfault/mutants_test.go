package logfault

import (
	"testing"
)

// mostPlays is how many histories may pass before a mutant must be found.
const mostPlays = 20_000

// TestMutants: the histories find each broken rule of the storage.
func TestMutants(t *testing.T) {
	for _, m := range Mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(mostPlays) {
				if err := play(newHistory(seed), &m); err != nil {
					t.Logf("found after %d histories: %v", seed+1, err)
					return
				}
			}
			t.Errorf("%d histories do not find it", mostPlays)
		})
	}
}
