package itembankfault

import (
	"testing"

	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// These tests search an engine in memory. The packages of the engines search the others.

func inMemory(testing.TB) enginetest.Engine {
	s := memstore.NewItems()
	return enginetest.Engine{Store: s, Raw: s}
}

func TestFaults(t *testing.T) { RunFaults(t, inMemory, 1) }

// rounds is how often histories and sequences are played as many times as on other engines,
// which are slower.
const rounds = 20

func TestHistories(t *testing.T) {
	t.Parallel()
	for range rounds {
		RunHistories(t, inMemory)
	}
}

func TestHalfVisible(t *testing.T) { RunHalfVisible(t) }

func TestSequences(t *testing.T) {
	t.Parallel()
	for range rounds {
		RunSequences(t, inMemory)
	}
}
