package itembankfault

import (
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// These tests use an engine in memory. The packages of the other engines run the same searches on theirs.

func inMemory(testing.TB) enginetest.Engine {
	s := memstore.NewItems()
	return enginetest.Engine{Store: s, Raw: s}
}

func TestFaults(t *testing.T) { RunFaults(t, inMemory, 1) }

// rounds multiplies the number of histories and sequences: other engines are slower and play fewer.
const rounds = 20

func TestHistories(t *testing.T) {
	t.Parallel()
	for range rounds {
		RunHistories(t, inMemory)
	}
}

func TestRestores(t *testing.T) {
	t.Parallel()
	for range rounds {
		RunRestores(t, inMemory(t), inMemory(t))
	}
}

func TestPairs(t *testing.T) { RunPairs(t, inMemory, PairOptions{Share: 1, Moments: true}) }

func TestHalfVisible(t *testing.T) { RunHalfVisible(t) }

func TestSequences(t *testing.T) {
	t.Parallel()
	for range rounds {
		RunSequences(t, inMemory)
	}
}
