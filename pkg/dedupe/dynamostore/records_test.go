package dynamostore_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
)

// TestFaults fails calls of the record function in every way.
func TestFaults(t *testing.T)                { dedupefault.Run(t, dynamostore.OnDynoxide, 100) }
func TestFaultsOnDynamoDBLocal(t *testing.T) { dedupefault.Run(t, dynamostore.OnDynamoDBLocal, 1000) }

// TestFaultHistories plays random scenarios with random faults.
func TestFaultHistories(t *testing.T) { dedupefault.RunHistories(t, dynamostore.OnDynoxide, 8) }

// TestOneByOne compares batches of all shapes with one record at a time.
func TestOneByOne(t *testing.T) { dedupefault.RunOneByOne(t, dynamostore.OnDynoxide, 4) }
func TestOneByOneOnDynamoDBLocal(t *testing.T) {
	dedupefault.RunOneByOne(t, dynamostore.OnDynamoDBLocal, 10)
}
