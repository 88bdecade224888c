package sqlitestore_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// TestFaults fails calls of the record function in every way.
func TestFaults(t *testing.T) { dedupefault.Run(t, sqlitestore.InMemory, 4) }

// TestFaultMutants breaks rules for records: the faults must find them.
func TestFaultMutants(t *testing.T) { dedupefault.RunMutants(t, sqlitestore.InMemory) }

// TestFaultHistories plays random scenarios with random faults.
func TestFaultHistories(t *testing.T) { dedupefault.RunHistories(t, sqlitestore.InMemory, 1) }

// TestOneByOne compares batches of all shapes with one record at a time.
func TestOneByOne(t *testing.T)       { dedupefault.RunOneByOne(t, sqlitestore.InMemory, 1) }
func TestOneByOneInFile(t *testing.T) { dedupefault.RunOneByOne(t, sqlitestore.InFile, 8) }
