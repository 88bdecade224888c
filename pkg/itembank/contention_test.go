package itembank_test

import (
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestContention: each transaction that made no claim is counted once under each of its reasons, unless it found the
// claimant's own claim. All claims succeed.
func TestContention(t *testing.T) {
	t.Parallel()
	f := inMemory(t)
	f.stocked(10, itembank.Settings{Shards: 1})
	held := rowOf(f.claim(f.bank(), "ann").Claim)
	store := &itembankfault.Store{Store: f.Store}
	b := itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock()))
	total := itembank.Contention{}
	for i, c := range []struct {
		claimant string
		results  []engine.TakeResult
		want     itembank.Contention
	}{
		{"bob", nil, itembank.Contention{}},
		{"carol", []engine.TakeResult{{ItemGone: true}, {ItemGone: true}}, itembank.Contention{LostRaces: 2}},
		{"dave", []engine.TakeResult{{ItemConflict: true}, {ClaimConflict: true}}, itembank.Contention{Conflicts: 2}},
		{"eve", []engine.TakeResult{{ItemThrottled: true}, {ClaimThrottled: true}}, itembank.Contention{Throttles: 2}},
		{"fred", []engine.TakeResult{{ItemConflict: true, ClaimThrottled: true}}, itembank.Contention{Conflicts: 1, Throttles: 1}},
		{"ann", []engine.TakeResult{{Held: &held, ItemGone: true}}, itembank.Contention{}},
	} {
		before := b.Contention()
		store.TakeResults = c.results
		f.claim(b, c.claimant)
		got := b.Contention().Since(before)
		if got != c.want {
			t.Errorf("claim %d: counted %+v, want %+v", i, got, c.want)
		}
		total.LostRaces += got.LostRaces
		total.Conflicts += got.Conflicts
		total.Throttles += got.Throttles
	}
	if b.Contention() != total {
		t.Errorf("counted %+v in all, want %+v", b.Contention(), total)
	}
}

// TestContentionOfChosenItems: a chosen item that another claimant holds is not counted as a lost race.
func TestContentionOfChosenItems(t *testing.T) {
	t.Parallel()
	f := inMemory(t)
	f.seats(3, itembank.Settings{OnEnd: itembank.Return})
	store := &itembankfault.Store{Store: f.Store, TakeResults: []engine.TakeResult{{ItemConflict: true}, {ItemThrottled: true}}}
	b := itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock()))
	f.choose(b, "ann", "seat-1")
	f.notChosen(b, "bob", "seat-1")
	if got, want := b.Contention(), (itembank.Contention{Conflicts: 1, Throttles: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
