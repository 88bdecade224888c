package dynamostore_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/itembankfault"
)

// TestFaults fails the calls of every scenario in every way, a part of them at a time.
func TestFaults(t *testing.T)                { itembankfault.Run(t, onDynoxide, 8) }
func TestFaultsOnDynamoDBLocal(t *testing.T) { itembankfault.Run(t, onDynamoDBLocal, 60) }

// TestHistories plays requests of several clients at the same time.
func TestHistories(t *testing.T) { itembankfault.RunHistories(t, onDynoxide) }

// TestSequences plays requests one after the other against a model.
func TestSequences(t *testing.T) { itembankfault.RunSequences(t, onDynoxide) }
