package itembank_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var releaseCases = []testCase{
	{"release", release},
	{"release-of-an-item-that-has-ended", releaseOfEndedItem},
	{"release-in-a-shared-scope", releaseInSharedScope},
	{"release-meets-other-transactions", releaseMeetsOthers},
	{"release-finds-an-inconsistency", releaseFindsInconsistency},
	{"release-of-an-item-that-is-marked-as-ended", releaseOfMarkedItem},
}

// release: by default the item is burned, because its holder has seen it.
func release(f *fixture) {
	for _, test := range []struct {
		onEnd  itembank.OnEnd
		want   itembank.Released
		where  string
		counts itembank.Counts
	}{
		{"", itembank.Released{Ended: "burned"}, "burned", itembank.Counts{Loaded: 2, Claimed: 1, Ended: 1}},
		{itembank.Burn, itembank.Released{Ended: "burned"}, "burned", itembank.Counts{Loaded: 2, Claimed: 1, Ended: 1}},
		{itembank.Return, itembank.Released{Returned: true}, "free", itembank.Counts{Loaded: 2, Free: 1, Claimed: 1}},
	} {
		f.named(string(test.onEnd)).release(test.onEnd, test.want, test.where, test.counts)
	}
}

func (f *fixture) release(onEnd itembank.OnEnd, want itembank.Released, where string, counts itembank.Counts) {
	f.Helper()
	c, items := f.stocked(2, itembank.Settings{OnEnd: onEnd})
	b := f.bank()
	first := f.claim(b, "ann").Claim
	f.released(b, rowOf(first), want)
	f.WantWhere(where, c, first.Items[0], "ann")
	f.released(b, rowOf(first), itembank.Released{Already: true})
	if _, err := b.HeldClaim(f.ctx, f.name, "ann"); !errors.Is(err, itembank.ErrNoClaim) {
		f.Errorf("after its release: want %v, got %v", itembank.ErrNoClaim, err)
	}
	second := f.claim(b, "ann")
	if second.Replayed || second.Claim.ID == first.ID || onEnd != itembank.Return && second.Claim.Items[0] == first.Items[0] {
		f.Errorf("want a new claim after %+v, got %+v", first, second)
	}
	f.released(b, rowOf(first), itembank.Released{Already: true}) // the new claim stays
	if again := f.claim(b, "ann"); !reflect.DeepEqual(again.Claim, second.Claim) {
		f.Errorf("want %+v, got %+v", second.Claim, again.Claim)
	}
	f.wantCounts(engine.Counts(counts))
	f.wantTally(itembank.Tally{Rows: 2, Known: 2}, items...)
	f.wantCounts(engine.Counts(counts))
}

// releaseOfEndedItem: an item whose own life is over expires. It neither returns nor is burned.
func releaseOfEndedItem(f *fixture) {
	for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
		one := f.named(string(onEnd))
		c, _ := one.stocked(1, itembank.Settings{OnEnd: onEnd, ItemLife: time.Hour})
		clock := itembankfault.NewClock()
		b := f.bank(itembank.WithClock(clock))
		claim := one.claim(b, "ann").Claim
		clock.Advance(time.Hour)
		one.released(b, rowOf(claim), itembank.Released{Ended: "expired"})
		one.WantWhere("expired", c, claim.Items[0], "ann")
		one.wantCounts(engine.Counts{Loaded: 1, Ended: 1})
	}
}

// releaseInSharedScope: a claim is released through its own campaign only.
func releaseInSharedScope(f *fixture) {
	monday, _ := f.stocked(1, itembank.Settings{Scope: f.name + "-term", OnEnd: itembank.Return, Shards: 1})
	tuesday := f.createNamed(f.name+"-tuesday", itembank.Settings{Scope: monday.Scope, Shards: 37})
	b := f.bank()
	f.loadInto(tuesday.Name, "seat")
	claim := f.claim(b, "ann").Claim
	var elsewhere *itembank.ClaimedElsewhereError
	if _, err := b.Release(f.ctx, tuesday.Name, "ann", claim.ID); !errors.As(err, &elsewhere) || elsewhere.Campaign != monday.Name {
		f.Errorf("released through another campaign: want it said that the claim is of %s, got %v", monday.Name, err)
	}
	f.WantWhere("held by ann", monday, claim.Items[0], "ann")
	if _, err := b.Claim(f.ctx, tuesday.Name, "ann"); !errors.Is(err, itembank.ErrClaimedElsewhere) {
		f.Errorf("want %v, got %v", itembank.ErrClaimedElsewhere, err)
	}
	f.released(b, rowOf(claim), itembank.Released{Returned: true})
	grant, err := b.Claim(f.ctx, tuesday.Name, "ann")
	if err != nil || grant.Claim.Items[0] != "seat" || grant.Replayed {
		f.Errorf("want the seat of the other day, got %+v, %v", grant, err)
	}
	f.WantWhere("free", monday, claim.Items[0], "ann")
}

// releaseMeetsOthers: after a conflict the row is unknown. While another close is running, the bank row may exist while
// the claim row is still busy. That is no inconsistency: the next attempt finds out.
func releaseMeetsOthers(f *fixture) {
	c, _ := f.stocked(8, itembank.Settings{OnEnd: itembank.Return})
	clock := itembankfault.NewClock()
	busy := func(results ...engine.CloseResult) *itembankfault.Store {
		return &itembankfault.Store{Store: f.Store, CloseResults: results}
	}
	for i, once := range []engine.CloseResult{
		{Conflict: true}, {Throttled: true}, {Conflict: true, ItemFree: true}, {Conflict: true, ItemChanged: true}, {ItemChanged: true},
	} {
		claim := f.claim(f.bank(), fmt.Sprintf("claimant-%d", i)).Claim
		f.released(itembank.NewOperator(busy(once, once), itembank.WithClock(clock)), rowOf(claim), itembank.Released{Returned: true})
		f.WantWhere("free", c, claim.Items[0], claim.Claimant)
	}

	claim := f.claim(f.bank(), "ann").Claim
	other := busy(engine.CloseResult{Conflict: true, ItemFree: true})
	other.After = func(method string) error {
		if method == "CloseClaim" && f.Held(c, "ann") != nil { // the transaction that this one conflicts with
			f.released(f.bank(), rowOf(claim), itembank.Released{Returned: true})
		}
		return nil
	}
	f.released(itembank.NewOperator(other, itembank.WithClock(clock)), rowOf(claim), itembank.Released{Already: true})

	claim = f.claim(f.bank(), "bob").Claim
	always := busy(slices.Repeat([]engine.CloseResult{{Throttled: true}}, 100)...)
	begin := clock.Now()
	_, err := itembank.NewOperator(always, itembank.WithClock(clock)).Release(f.ctx, f.name, "bob", claim.ID)
	if !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("an engine that stays busy: want %v, got %v", itembank.ErrTryAgain, err)
	}
	if waited := clock.Now().Sub(begin); waited == 0 || waited > 5*time.Second {
		f.Errorf("waited %s for an engine that stayed busy", waited)
	}
	f.WantWhere("held by bob", c, claim.Items[0], "bob")
}

// releaseFindsInconsistency: rows that contradict each other stay as they are.
func releaseFindsInconsistency(f *fixture) {
	c, items := f.stocked(3, itembank.Settings{OnEnd: itembank.Return})
	for i, test := range []struct {
		name  string
		plant func(item string)
		want  error
		where string
	}{
		{"also free", func(item string) { f.putBankRow(enginerows.FreeItem(c, item)) }, &itembank.InconsistentError{Kind: "held-and-free"}, "free, held by ann"},
		{"never loaded", func(item string) { f.Must(f.raw.DropItemRow(f.ctx, c.Name, engine.HashItem(item))) }, &itembank.InconsistentError{Kind: "held-not-loaded"}, "held by ann, not loaded"},
	} {
		claim := f.Take(c, "ann", items[i])
		test.plant(items[i])
		got, err := f.bank().Release(f.ctx, f.name, "ann", claim.ID)
		if !errors.Is(err, test.want) || !errors.Is(err, itembank.ErrInconsistent) || got != (itembank.Released{}) {
			f.Errorf("%s: want %v, got %+v, %v", test.name, test.want, got, err)
		}
		f.WantWhere(test.where, c, items[i], "ann")
		f.Must(f.raw.DropClaim(f.ctx, engine.ClaimKey{Scope: c.Scope, Claimant: "ann", Slot: 1}))
	}
}

// releaseOfMarkedItem: if the item of a claim is marked as ended, a release deletes only the claim. The item keeps its
// mark, whatever the campaign's OnEnd.
func releaseOfMarkedItem(f *fixture) {
	for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
		one := f.named(string(onEnd))
		c, items := one.stocked(1, itembank.Settings{OnEnd: onEnd})
		claim := one.Take(c, "ann", items[0])
		one.putState(c, items[0], engine.Withdrawn)
		one.released(one.bank(), claim, itembank.Released{Ended: "withdrawn"})
		one.WantWhere("withdrawn", c, items[0], "ann")
		one.released(one.bank(), claim, itembank.Released{Already: true})
	}
}
