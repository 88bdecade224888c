package dynamostore_test

import (
	"errors"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestDeleteScratchCanBeRepeated: a sweep or another doctor may be working on the rows. Local engines never report
// this.
func TestDeleteScratchCanBeRepeated(t *testing.T) {
	t.Parallel()
	store := dynamostore.New(cancelled(conflicted, none, none), bankTable, dedupeTable)
	scratch := engine.Campaign{Name: "scratch", Scope: "scratch", Shards: 1}
	err := store.DeleteScratch(t.Context(), scratch, []string{"A-1"}, []string{"a"})
	if !errors.Is(err, engine.ErrTryAgain) {
		t.Errorf("want ErrTryAgain, got %v", err)
	}
	scratch.Scope = "spring"
	if err := store.DeleteScratch(t.Context(), scratch, nil, nil); err == nil || errors.Is(err, engine.ErrTryAgain) {
		t.Errorf("a campaign that shares its scope: %v", err)
	}
}
