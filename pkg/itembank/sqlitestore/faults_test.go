package sqlitestore

import (
	"testing"

	"github.com/oncebox/oncebox/internal/itembankfault"
	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

// TestFaults fails every call of every scenario in every way, on the file a part of
// them at a time.
func TestFaults(t *testing.T)       { itembankfault.Run(t, inMemory, 1) }
func TestFaultsInFile(t *testing.T) { itembankfault.Run(t, newEngine, 8) }

// inMemory is an engine without a disk, which searches do not wait for.
func inMemory(t *testing.T) itembanktest.Engine {
	db, err := sqlite.OpenMemory(t.Context(), part)
	check(t, err)
	s := &Store{db}
	t.Cleanup(func() { check(t, s.Close()) })
	return itembanktest.Engine{Store: s, Raw: raw{s}}
}

// TestHistories plays requests of several clients at the same time.
func TestHistories(t *testing.T)       { itembankfault.RunHistories(t, inMemory) }
func TestHistoriesInFile(t *testing.T) { itembankfault.RunHistories(t, newEngine) }

// TestFaultMutants breaks rules for claims: faults or histories must find them.
func TestFaultMutants(t *testing.T) { itembankfault.RunMutants(t, inMemory) }

// TestSequences plays requests one after the other against a model.
func TestSequences(t *testing.T)       { itembankfault.RunSequences(t, inMemory) }
func TestSequencesInFile(t *testing.T) { itembankfault.RunSequences(t, newEngine) }
