package itembankfault

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Scenario holds the actions of some clients. The calls of Act may fail; those of Prepare do not.
type Scenario struct {
	Name    string
	Prepare func(w *World)
	Act     func(w *World)
}

// life is how long items and claims live in the scenarios where they end.
const life = time.Minute

// Scenarios include every operation that moves items.
var Scenarios = []Scenario{
	{"new-claim", stocked(3, itembank.Settings{}), func(w *World) {
		w.Get("", "ann")
	}},
	{"repeated-claim", stocked(3, itembank.Settings{}, "ann"), func(w *World) {
		for range 4 { // from the third request on the Bank reads the claim first
			w.Get("", "ann")
		}
		w.Get("", "bob")
	}},
	{"repeated-claim-where-items-return", stocked(3, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		for range 3 {
			w.Get("", "ann")
		}
	}},
	{"last-item", stocked(1, itembank.Settings{}), func(w *World) {
		w.Get("", "ann")
		w.Refused("", "bob", itembank.ErrSoldOut)
		w.Get("", "ann")
	}},
	{"sold-out-and-loaded", stocked(1, itembank.Settings{}, "ann"), func(w *World) {
		w.Refused("", "bob", itembank.ErrSoldOut)
		w.Refused("", "cid", itembank.ErrSoldOut)
		w.Load("", "new")
		w.settle()
		w.Get("", "cid")
		w.Get("", "ann")
	}},
	{"loaded-while-the-bank-is-read", stocked(1, itembank.Settings{}, "ann"), func(w *World) {
		w.meanwhile = func() {
			c := w.campaigns[""]
			note(w.state.Loaded, c.Name, "new")
			_, err := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock)).Load(w.ctx, c.Name, itembank.Items("new"), nil)
			w.must(err)
			w.state.Freed = w.clock.Now()
		}
		_, _ = w.Claim("", "bob")
		_, _ = w.Claim("", "cid")
	}},
	{"own-ended-claim-returned", stocked(2, itembank.Settings{ClaimLife: life, OnEnd: itembank.Return}, "ann"), afterLife(func(w *World) {
		w.Get("", "ann")
		w.Get("", "bob")
		w.Get("", "ann")
	})},
	{"own-ended-claim-burned", stocked(2, itembank.Settings{ClaimLife: life}, "ann"), afterLife(func(w *World) {
		w.Get("", "ann")
		w.Refused("", "bob", itembank.ErrSoldOut)
	})},
	{"claim-in-its-grace", stocked(2, itembank.Settings{ClaimLife: life, OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.clock.Advance(life + endGrace - 5*time.Second) // the claim has ended, but may not be closed yet
		w.Sweep("")
		w.Get("", "ann")
		w.Get("", "bob")
	}},
	{"own-ended-claim-of-the-last-item", stocked(1, itembank.Settings{ClaimLife: life, OnEnd: itembank.Return}, "ann"), afterLife(func(w *World) {
		// The item returns to a bank that a reader has just seen empty.
		_, _ = w.Claim("", "ann")
		w.settle()
		w.Get("", "ann")
		w.Refused("", "bob", itembank.ErrSoldOut)
	})},
	{"ended-items", func(w *World) {
		w.Create("", itembank.Settings{Shards: 1, PageSize: 2, ItemLife: life})
		w.Load("", "old-1", "old-2", "old-3")
		w.clock.Advance(2 * life)
		w.Load("", "new-1")
		w.settle()
	}, func(w *World) {
		w.Get("", "ann")
		w.Refused("", "bob", itembank.ErrSoldOut)
	}},
	{"page-of-items-that-end", stocked(3, itembank.Settings{ItemLife: life}), func(w *World) {
		w.Get("", "ann")
		w.clock.Advance(life) // the page has two more free items
		w.Refused("", "bob", itembank.ErrSoldOut)
		w.Get("", "ann")
	}},
	{"ended-claim-of-an-ended-item", stocked(1, itembank.Settings{ItemLife: life, ClaimLife: life, OnEnd: itembank.Return}, "ann"), afterLife(func(w *World) {
		w.Refused("", "ann", itembank.ErrSoldOut)
	})},
	{"release-and-return", stocked(1, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.Get("", "ann")
		w.Release("", "ann")
		w.settle() // a Bank remembers for a second that it is sold out
		w.Get("", "bob")
		w.Release("", "ann")
		w.Refused("", "ann", itembank.ErrSoldOut)
	}},
	{"release-and-claim-again", stocked(1, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.Release("", "ann")
		w.settle()
		w.Get("", "ann")
		w.Get("", "ann")
		w.Refused("", "bob", itembank.ErrSoldOut)
	}},
	{"release-after-repeats", stocked(3, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		var old itembank.Claim
		for range 3 { // after these the Bank reads the claim first
			old = w.Get("", "ann")
		}
		w.Release("", "ann")
		if again := w.Get("", "ann"); again.ID == old.ID {
			w.fail("ann released claim %s, and got it again", old.ID)
		}
	}},
	{"release-while-claimed-again", stocked(1, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.meanwhile = func() {
			c, old := w.campaigns[""], w.state.Told[key(w.campaigns[""].Scope, "ann")].Claim
			other := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock))
			w.state.release(c, "ann", old.ID)
			_, err := other.Release(w.ctx, c.Name, "ann", old.ID)
			w.must(err)
			grant, err := other.Claim(w.ctx, c.Name, "ann")
			w.must(err)
			w.must(w.state.checkGrant(c, "ann", grant, w.clock.Now()))
		}
		w.Release("", "ann")
		w.Get("", "ann")
		w.Refused("", "bob", itembank.ErrSoldOut)
	}},
	{"release-and-burn", stocked(2, itembank.Settings{}, "ann"), func(w *World) {
		w.Release("", "ann")
		w.Get("", "bob")
		w.Refused("", "ann", itembank.ErrSoldOut)
		w.Release("", "bob")
	}},
	{"replaced", stocked(4, itembank.Settings{Columns: true}, "ann"), func(w *World) {
		first := w.state.Told[key(w.campaigns[""].Scope, "ann")].Claim
		w.Replaced("", "ann")
		w.Get("", "ann")
		second := w.Replaced("", "ann")
		w.Get("", "bob")
		w.mustRepeat("replace the first claim again", func(ctx context.Context) error {
			again, err := w.bank.Replace(ctx, w.campaigns[""].Name, "ann", first.ID)
			if err == nil && !reflect.DeepEqual(again.Claim, second) {
				w.fail("a repeat replaced %+v by %+v", second, again.Claim)
			}
			return err
		})
		w.Refused("", "cid", itembank.ErrSoldOut)
	}},
	{"replaced-where-items-return", stocked(4, itembank.Settings{Hold: life}, "ann"), func(w *World) {
		w.Replaced("", "ann")
		w.confirmed("ann")
		w.Replaced("", "ann")
		w.clock.Advance(2 * life)
		w.SweepDue("")
		w.Get("", "ann")
		w.Get("", "bob")
		w.Refused("", "cid", itembank.ErrSoldOut)
	}},
	{"replaced-while-it-is-confirmed", stocked(2, itembank.Settings{Hold: life}, "ann"), func(w *World) {
		c := w.campaigns[""]
		w.meanwhile = func() {
			hold := w.state.Told[key(c.Scope, "ann")].Claim
			w.state.confirm(c, "ann", hold.ID)
			_, err := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock)).Confirm(w.ctx, c.Name, "ann", hold.ID)
			w.must(err)
		}
		now := w.Replaced("", "ann")
		if confirmed := w.meanwhile == nil; confirmed != now.EndsAt.IsZero() {
			w.fail("the hold was confirmed: %t, and replaced by %+v", confirmed, now)
		}
	}},
	{"replaced-while-it-is-prolonged", stocked(3, longHolds, "ann"), func(w *World) {
		w.clock.Advance(life / 2)
		w.meanwhile = w.prolongByAnother("ann")
		w.Replaced("", "ann")
		w.meanwhile = nil
		w.clock.Advance(life / 2)
		w.prolonged("ann")
		w.Replaced("", "ann")
		w.clock.Advance(endGrace + 2*time.Second)
		w.SweepDue("") // the index may still name ann's first hold
		w.Get("", "ann")
		w.clock.Advance(2 * life)
		w.SweepDue("")
		w.Get("", "bob")
		w.Refused("", "cid", itembank.ErrSoldOut)
	}},
	{"not-replaced-because-sold-out", stocked(1, itembank.Settings{}, "ann"), func(w *World) {
		for range 2 {
			if _, refused := w.Replace("", "ann"); !errors.Is(refused, itembank.ErrSoldOut) {
				w.fail("want ann's claim kept, got %w", refused)
			}
		}
		w.Get("", "ann")
		w.Load("", "new")
		w.settle()
		w.Replaced("", "ann")
		w.WantPlaces("", map[string]string{"item-0": "replaced", "new": heldBy("ann")})
	}},
	{"forgotten", stocked(2, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.Forget("", "ann")
		w.Refused("", "ann", itembank.ErrNotEligible)
		w.settle()
		w.Get("", "bob")
		w.Get("", "cid")
		w.Refused("", "ann", itembank.ErrNotEligible) // also while the bank is empty
		w.Sweep("")
		w.Forget("", "ann")
		w.Release("", "bob")
		w.Unblock("", "ann")
		w.settle()
		w.Get("", "ann")
	}},
	{"forgotten-in-slots", func(w *World) {
		w.Create("", itembank.Settings{PerClaimant: 2, Shards: 1})
		w.Load("", numbered("item", 4)...)
		w.Get("", "ann/2")
		w.Get("", "bob")
		w.settle()
	}, func(w *World) {
		w.Forget("", "ann", "ann/2")
		w.Refused("", "ann/2", itembank.ErrNotEligible)
		w.Refused("", "ann", itembank.ErrNotEligible)
		w.Get("", "bob")
	}},
	{"hold-forgotten-while-it-is-confirmed", stocked(2, itembank.Settings{Hold: life}, "ann"), func(w *World) {
		confirm, id := w.confirmByAnother("ann"), w.state.Told[key(w.campaigns[""].Scope, "ann")].Claim.ID
		w.meanwhile = func() {
			confirm()
			w.state.release(w.campaigns[""], "ann", id)
		}
		w.Forget("", "ann")
		w.meanwhile = nil
		w.Refused("", "ann", itembank.ErrNotEligible)
		w.clock.Advance(2 * life)
		w.SweepDue("")
		w.WantPlaces("", map[string]string{"item-0": isFree, "item-1": isFree})
	}},
	{"forgotten-while-released-and-claimed-again", stocked(2, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.meanwhile = func() {
			c, old := w.campaigns[""], w.state.Told[key(w.campaigns[""].Scope, "ann")].Claim
			other := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock))
			_, err := other.Release(w.ctx, c.Name, "ann", old.ID)
			w.must(err)
			grant, err := other.Claim(w.ctx, c.Name, "ann")
			if errors.Is(err, itembank.ErrNotEligible) {
				return
			}
			w.must(err)
			w.must(w.state.checkGrant(c, "ann", grant, w.clock.Now()))
			w.state.release(c, "ann", grant.Claim.ID)
		}
		w.Forget("", "ann")
		w.meanwhile = nil
		w.Refused("", "ann", itembank.ErrNotEligible)
		w.WantPlaces("", map[string]string{"item-0": isFree, "item-1": isFree})
	}},
	{"shared-scope", func(w *World) {
		// The numbers of shards differ, because claims must not depend on them.
		w.Create("-one", itembank.Settings{Scope: "-scope", Shards: 1, OnEnd: itembank.Return})
		w.Create("-two", itembank.Settings{Scope: "-scope", Shards: 3, OnEnd: itembank.Return})
		w.Load("-one", "a-1", "a-2")
		w.Load("-two", "b-1", "b-2")
		w.settle()
	}, func(w *World) {
		for _, claimant := range []string{"ann", "bob"} {
			w.Get("-one", claimant)
			w.Refused("-two", claimant, itembank.ErrClaimedElsewhere)
		}
		w.Release("-one", "ann")
		w.Get("-two", "ann")
		w.Refused("-one", "ann", itembank.ErrClaimedElsewhere)
	}},
	{"campaigns-that-share-a-scope-of-emails", func(w *World) {
		w.Create("-one", itembank.Settings{Scope: "-scope", Shards: 1, ClaimantAs: itembank.Email})
		w.Load("-one", "a-1", "a-2")
		w.settle()
	}, func(w *World) {
		w.NotCreated("-two", itembank.Settings{Scope: "-scope"})
		w.Create("-two", itembank.Settings{Scope: "-scope", ClaimantAs: itembank.Email})
		w.Load("-two", "b-1")
		w.settle()
		for range 3 { // in three spellings
			w.Get("-one", "ann")
			w.Refused("-two", "ann", itembank.ErrClaimedElsewhere)
		}
		w.Release("-one", "ann")
		w.Get("-two", "ann")
	}},
	{"claims-in-slots", stocked(4, itembank.Settings{PerClaimant: 3, OnEnd: itembank.Return}, "ann"), func(w *World) {
		for _, holder := range []string{"ann/2", "ann", "ann/2", "ann/3"} {
			w.Get("", holder)
		}
		w.Get("", "bob")
		w.Refused("", "bob/2", itembank.ErrSoldOut)
		w.Release("", "ann/2")
		w.settle()
		w.Get("", "bob/2")
		w.Get("", "ann/3")
		w.Refused("", "ann/2", itembank.ErrSoldOut)
	}},
	{"holds-in-slots", stocked(3, itembank.Settings{PerClaimant: 2, Hold: life}), func(w *World) {
		for _, holder := range []string{"ann", "ann/2", "bob"} {
			w.Get("", holder)
		}
		w.confirmed("ann/2")
		w.clock.Advance(2 * life)
		w.SweepDue("")
		w.Get("", "ann/2")
		w.settle()
		w.Get("", "bob/2")
		w.Get("", "ann")
		w.Refused("", "bob", itembank.ErrSoldOut)
	}},
	{"items-with-columns", stocked(3, itembank.Settings{Columns: true, Hold: life}), func(w *World) {
		w.Get("", "ann")
		w.Get("", "bob")
		w.Get("", "ann")
		w.confirmed("ann")
		w.clock.Advance(2 * life)
		w.SweepDue("") // bob's item goes back
		w.settle()
		w.Load("", "item-0", "item-5")
		w.settle()
		for _, claimant := range []string{"cid", "dan", "eve"} {
			w.Get("", claimant)
		}
		w.Release("", "ann")
		w.settle()
		w.Get("", "fay")
		w.SetOpen("", false)
		w.Get("", "cid")
	}},
	{"items-with-columns-repaired", stocked(3, itembank.Settings{Columns: true, OnEnd: itembank.Return}, "ann"), func(w *World) {
		c := w.campaigns[""]
		lost := w.freeItems(c)[0]
		w.must(w.engine.Raw.DropBankRow(w.ctx, lost))
		w.SetOpen("", false)
		w.Repair("", numbered("item", 3)...)
		w.SetOpen("", true)
		for _, claimant := range []string{"ann", "bob", "cid"} {
			w.Get("", claimant)
		}
	}},
	{"one-chosen-item", chosen(3, itembank.Settings{Hold: life}), func(w *World) {
		w.GetChosen("", "ann", "item-1")
		w.NotChosen("", "bob", "item-1")
		w.NotChosen("", "bob", "never-loaded")
		w.GetChosen("", "bob", "item-2")
		w.GetChosen("", "ann", "item-0") // ann holds another item, and gets that item
		w.Get("", "cid")
		if w.ReleaseHold("", "ann") == nil {
			w.settle()
			w.GetChosen("", "dan", "item-1")
		}
	}},
	{"several-chosen-items", chosen(6, itembank.Settings{Hold: life}), func(w *World) {
		w.GetChosen("", "ann", "item-0", "item-3", "item-5")
		w.NotChosen("", "bob", "item-1", "item-3")
		w.GetChosen("", "bob", "item-1", "item-2")
		w.Get("", "cid")
		w.Refused("", "dan", itembank.ErrSoldOut)
		w.confirmed("bob")
		w.Release("", "ann")
		w.settle()
		w.GetChosen("", "dan", "item-5", "item-0")
		w.Get("", "ann")
	}},
	{"several-chosen-items-that-end", chosen(4, itembank.Settings{Hold: life}, "item-0", "item-1", "item-2"), afterLife(func(w *World) {
		_, _ = w.Choose("", "bob", "item-1", "item-3") // closes ann's claim, unless the index fails
		w.SweepDue("")
		w.settle()
		w.GetChosen("", "bob", "item-1", "item-3")
		w.Get("", "ann")
		w.Get("", "cid")
	})},
	{"several-chosen-items-withdrawn", chosen(3, itembank.Settings{OnEnd: itembank.Return}, "item-0", "item-1"), func(w *World) {
		w.Withdraw("", "item-1")
		w.Release("", "ann")
		w.settle()
		w.GetChosen("", "bob", "item-0", "item-2")
		w.WantPlaces("", map[string]string{"item-0": heldBy("bob"), "item-1": "withdrawn", "item-2": heldBy("bob")})
	}},
	{"several-chosen-items-repaired", chosen(3, itembank.Settings{OnEnd: itembank.Return}, "item-0", "item-1", "item-2"), func(w *World) {
		w.SetOpen("", false)
		w.Repair("", "item-0", "item-1", "item-2")
		w.SetOpen("", true)
		w.NotChosen("", "bob", "item-2")
		w.Get("", "ann")
	}},
	{"ended-claim-of-another-campaign", func(w *World) {
		w.Create("-one", itembank.Settings{Scope: "-scope", Shards: 1, ClaimLife: life, OnEnd: itembank.Return})
		w.Create("-two", itembank.Settings{Scope: "-scope", Shards: 2})
		w.Load("-one", "a-1")
		w.Load("-two", "b-1")
		w.Get("-one", "ann")
		w.settle()
	}, afterLife(func(w *World) {
		w.Get("-two", "ann")
		w.Refused("-one", "ann", itembank.ErrClaimedElsewhere)
		w.Get("-one", "bob")
	})},
	{"load", func(w *World) {
		w.Create("", itembank.Settings{Shards: 2})
		w.Load("", numbered("known", 10)...)
	}, func(w *World) {
		w.Load("", aLoad()...)
		w.Get("", "ann")
		w.Load("", aLoad()...)
	}},
	{"resumed-load", func(w *World) {
		w.Create("", itembank.Settings{Shards: 2, Columns: true})
		w.Load("", numbered("known", 10)...)
		w.cutLoad("", aLoad())
	}, func(w *World) {
		w.Load("", aLoad()...)
	}},
	{"load-given-up", func(w *World) {
		w.Create("", itembank.Settings{Shards: 2})
		w.cutLoad("", twoTransactions())
	}, func(w *World) {
		w.GiveUp("", twoTransactions()...)
		w.Get("", "ann")
		w.Load("", twoTransactions()...)
		w.WithdrawAll("")
		w.settle()
		w.Refused("", "bob", itembank.ErrSoldOut)
	}},
	{"sweep", func(w *World) {
		w.Create("", itembank.Settings{Shards: 1, ItemLife: life, ClaimLife: life / 2, OnEnd: itembank.Return})
		w.Load("", "old-1", "old-2", "old-3")
		w.Get("", "ann")
		w.clock.Advance(life / 2)
		w.Load("", "new-1", "new-2")
		w.Get("", "bob")
		w.clock.Advance(life/2 + endGrace + 5*time.Second) // the old items and both claims have ended
	}, func(w *World) {
		w.Sweep("")
		w.WantPlaces("", map[string]string{
			"old-1": "expired", "old-2": "expired", "old-3": "expired", "new-1": isFree, "new-2": isFree,
		})
		w.clock.Advance(life / 4) // after this all items have ended
		w.Refused("", "cid", itembank.ErrSoldOut)
	}},
	{"hold-that-is-confirmed", stocked(2, itembank.Settings{Hold: life}), func(w *World) {
		w.Get("", "ann")
		w.Get("", "bob")
		w.confirmed("ann")
		w.confirmed("ann")
		w.clock.Advance(2 * life)
		w.SweepDue("") // the index may still name ann's hold
		w.Get("", "ann")
		w.settle()
		w.Get("", "cid")
		w.Refused("", "dan", itembank.ErrSoldOut)
	}},
	{"hold-confirmed-after-its-end", stocked(1, itembank.Settings{Hold: life}, "ann"), afterLife(func(w *World) {
		if w.Confirm("", "ann") == nil {
			w.SweepDue("")
			w.Get("", "ann")
		}
	})},
	{"hold-confirmed-while-it-is-swept", stocked(1, itembank.Settings{Hold: life}), func(w *World) {
		w.Get("", "ann")
		w.clock.Advance(2 * life)
		w.meanwhile = w.confirmByAnother("ann")
		w.SweepDue("")
		_, _ = w.Claim("", "ann")
		w.Sweep("")
	}},
	{"hold-confirmed-while-its-holder-releases-it", stocked(1, itembank.Settings{Hold: life}), func(w *World) {
		w.Get("", "ann")
		w.meanwhile = w.confirmByAnother("ann")
		if w.ReleaseHold("", "ann") != nil {
			w.Get("", "ann")
		}
	}},
	{"hold-that-is-prolonged", stocked(2, longHolds), func(w *World) {
		w.Get("", "ann")
		w.Get("", "bob")
		w.clock.Advance(life - time.Second)
		w.prolonged("ann")
		w.clock.Advance(endGrace + 2*time.Second)
		w.SweepDue("") // the index may still name ann's hold by its old end
		w.Get("", "ann")
		w.settle()
		w.Get("", "cid")
		w.Refused("", "dan", itembank.ErrSoldOut)
		w.clock.Advance(2 * life)
		w.Sweep("")
		w.Get("", "dan")
	}},
	{"hold-prolonged-while-it-is-swept", stocked(1, longHolds), func(w *World) {
		w.Get("", "ann")
		w.clock.Advance(2 * life)
		w.meanwhile = w.prolongByAnother("ann")
		w.SweepDue("")
		_, _ = w.Claim("", "ann")
		w.Sweep("")
	}},
	{"hold-confirmed-while-it-is-prolonged", stocked(1, longHolds), func(w *World) {
		w.Get("", "bob")
		w.clock.Advance(life / 2)
		w.meanwhile = w.confirmByAnother("bob")
		w.prolonged("bob")
		w.clock.Advance(3 * life)
		w.SweepDue("")
		_, _ = w.Claim("", "bob")
	}},
	{"confirmation-of-an-older-hold", stocked(2, itembank.Settings{Hold: life}), func(w *World) {
		old := w.Get("", "ann")
		if w.ReleaseHold("", "ann") != nil {
			w.fail("ann's hold was confirmed")
		}
		w.settle()
		w.Get("", "ann")
		if refused := w.ConfirmID("", "ann", old.ID); !errors.Is(refused, itembank.ErrClaimEnded) {
			w.fail("want %w, got %w", itembank.ErrClaimEnded, refused)
		}
		w.clock.Advance(2 * life)
		w.SweepDue("")
		w.WantPlaces("", map[string]string{"item-0": isFree, "item-1": isFree})
	}},
	{"closer-an-hour-ahead", stocked(2, itembank.Settings{Hold: life, ItemLife: 2 * life}, "ann"), func(w *World) {
		w.Ahead(time.Hour)
		w.SweepDue("")
		w.Sweep("")
		w.Get("", "ann")
		w.Get("", "bob")
		w.Refused("", "cid", itembank.ErrSoldOut)
	}},
	{"closer-an-hour-behind", stocked(1, itembank.Settings{Hold: life, ItemLife: 2 * life}, "ann"), func(w *World) {
		w.Ahead(-time.Hour)
		w.clock.Advance(life + 2*endGrace)
		w.SweepDue("")
		w.WantPlaces("", map[string]string{"item-0": isFree})
		w.clock.Advance(life)
		w.Sweep("")
		w.WantPlaces("", map[string]string{"item-0": "expired"})
	}},
	{"maker-twenty-minutes-behind", stocked(1, itembank.Settings{Hold: life}), func(w *World) {
		w.Ahead(-20 * time.Minute)
		w.Get("", "ann")
		w.Ahead(0)
		w.clock.Advance(life) // but not the grace
		w.Sweep("")
		w.SweepDue("")
		w.Get("", "ann")
	}},
	{"withdraw", stocked(4, itembank.Settings{}, "ann"), func(w *World) {
		w.Withdraw("", "item-0", "item-1", "nobody's", "item-0", "item-2")
		_, _ = w.Claim("", "bob")
		w.WithdrawAll("")
		_, _ = w.Claim("", "cid")
	}},
	{"withdrawal-of-a-held-item", stocked(2, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.Withdraw("", "item-0", "item-1")
		w.Get("", "ann")
		w.Release("", "ann")
		w.settle()
		w.Refused("", "ann", itembank.ErrSoldOut)
		w.WantPlaces("", map[string]string{"item-0": "withdrawn", "item-1": "withdrawn"})
	}},
	{"ended-claim-of-a-withdrawn-item", stocked(1, itembank.Settings{ClaimLife: life, OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.Withdraw("", "item-0")
		w.clock.Advance(2 * life)
		w.Refused("", "ann", itembank.ErrSoldOut)
		w.WantPlaces("", map[string]string{"item-0": "withdrawn"})
	}},
	{"withdrawn-while-released", stocked(1, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.meanwhile = func() {
			c, id := w.campaigns[""], w.state.Told[key(w.campaigns[""].Scope, "ann")].Claim.ID
			w.state.release(c, "ann", id)
			_, err := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock)).Release(w.ctx, c.Name, "ann", id)
			w.must(err)
		}
		w.Withdraw("", "item-0")
		w.meanwhile = nil
		w.Release("", "ann")
		w.settle()
		w.Refused("", "bob", itembank.ErrSoldOut)
		w.WantPlaces("", map[string]string{"item-0": "withdrawn"})
	}},
	{"released-while-withdrawn", stocked(1, itembank.Settings{OnEnd: itembank.Return}, "ann"), func(w *World) {
		w.meanwhile = withdrawItem0(w)
		w.Release("", "ann")
		w.settle()
		_, _ = w.Claim("", "bob")
	}},
	{"claimed-while-withdrawn", stocked(1, itembank.Settings{OnEnd: itembank.Return}), func(w *World) {
		w.meanwhile = withdrawItem0(w)
		_, _ = w.Claim("", "ann")
		w.meanwhile = nil
		w.Withdraw("", "item-0")
		_, _ = w.Claim("", "bob")
	}},
	{"repair", plantedInconsistencies, func(w *World) {
		w.Repair("", numbered("item", 8)...)
		w.SetOpen("", true)
		w.Get("", "cid")
	}},
	{"claims-restored-and-replayed", restoredClaims(2), func(w *World) {
		w.Replay("", w.lost...)
		w.Repair("", numbered("item", 8)...)
		w.SetOpen("", true)
		for _, claimant := range []string{"ann", "bob", "cid", "dan"} {
			w.Get("", claimant)
		}
	}},
	{"claims-restored-and-not-known", restoredClaims(0), func(w *World) {
		for _, c := range w.lost {
			w.state.release(w.campaigns[""], c.Claimant, c.ID)
		}
		w.Repair("", numbered("item", 8)...)
		w.SetOpen("", true)
		for _, claimant := range []string{"eve", "fay", "gus", "hal"} {
			w.Get("", claimant)
		}
		w.Refused("", "ann", itembank.ErrSoldOut)
	}},
	{"create-close-open", func(*World) {}, func(w *World) {
		w.Create("", itembank.Settings{Shards: 1})
		w.Load("", "item-0")
		w.SetOpen("", false)
		w.Refused("", "ann", itembank.ErrClosed)
		w.SetOpen("", true)
		w.Get("", "ann")
		w.SetOpen("", false)
		w.Get("", "ann")
	}},
}

// withdrawItem0 returns a function that withdraws item-0 through another Bank.
func withdrawItem0(w *World) func() {
	return func() {
		c := w.campaigns[""]
		_, err := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock)).Withdraw(w.ctx, c.Name, itembank.Items("item-0"))
		w.must(err)
		w.noteWithdrawn(c, "item-0")
	}
}

// confirmed confirms the hold of a claimant. It fails the scenario if the claimant has no hold.
func (w *World) confirmed(claimant string) {
	if refused := w.Confirm("", claimant); refused != nil {
		w.fail("%s: %w", claimant, refused)
	}
}

// confirmByAnother returns a function that confirms the hold of a claimant through another Bank.
func (w *World) confirmByAnother(claimant string) func() {
	return func() {
		c := w.campaigns[""]
		told := w.state.Told[key(c.Scope, claimant)]
		w.state.confirm(c, claimant, told.Claim.ID)
		confirmed, err := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock)).Confirm(w.ctx, c.Name, claimant, told.Claim.ID)
		if errors.Is(err, itembank.ErrNoClaim) { // the hold was closed before
			return
		}
		w.must(err)
		w.state.Told[key(c.Scope, claimant)] = Told{Claim: confirmed, Asked: []opKind{confirmOp}}
	}
}

// longHolds are holds that can be prolonged.
var longHolds = itembank.Settings{Hold: life, MaxHold: 3 * life}

// prolonged prolongs the hold of a claimant. It fails the scenario if the claimant has no hold.
func (w *World) prolonged(claimant string) {
	if refused := w.Prolong("", claimant); refused != nil {
		w.fail("%s: %w", claimant, refused)
	}
}

// prolongByAnother returns a function that prolongs the hold of a claimant through another Bank.
func (w *World) prolongByAnother(claimant string) func() {
	return func() {
		c := w.campaigns[""]
		seen := w.state.Told[key(c.Scope, claimant)].Claim
		w.state.prolong(c, claimant)
		claim, err := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock)).Prolong(w.ctx, c.Name, claimant, seen.ID, seen.EndsAt)
		if errors.Is(err, itembank.ErrNoClaim) { // the hold was closed before
			return
		}
		w.must(err)
		w.must(w.state.prolonged(c, claimant, seen, claim))
	}
}

func numbered(prefix string, n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return items
}

// aLoad returns 120 items, which need three transactions. Some are known. Some are repeated, in the same transaction
// or in another.
func aLoad() []string {
	items := append(numbered("line", 112), "line-111", "line-0", "line-60", "line-60")
	return slices.Insert(items, 45, "known-0", "line-1", "known-9", "known-0")
}

// twoTransactions returns the least number of items that need two transactions, some of them repeated.
func twoTransactions() []string {
	return slices.Insert(numbered("line", engine.MaxAddItems+1), 45, "line-1", "line-9")
}

// settle waits until every proof that the bank is empty is too old to use.
func (w *World) settle() { w.clock.Advance(2 * emptyMemory) }

// stocked prepares a campaign of one shard with n items. Each of the holders holds an item.
func stocked(n int, s itembank.Settings, holders ...string) func(*World) {
	s.Shards = 1
	return func(w *World) {
		w.Create("", s)
		w.Load("", numbered("item", n)...)
		for _, h := range holders {
			w.Get("", h)
		}
		w.settle()
	}
}

// chosen prepares a campaign whose claimants choose their items. Ann holds the items in anns.
func chosen(n int, s itembank.Settings, anns ...string) func(*World) {
	s.Shards, s.Choice, s.Columns = 2, true, true
	return func(w *World) {
		w.Create("", s)
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf("item-%d", i))
		}
		w.Load("", items...)
		if len(anns) > 0 {
			w.GetChosen("", "ann", anns...)
		}
		w.settle()
	}
}

// afterLife runs act after the time when all items and claims with an end may be closed.
func afterLife(act func(*World)) func(*World) {
	return func(w *World) {
		w.clock.Advance(2 * life)
		act(w)
	}
}

// cutLoad leaves an unfinished load: its second transaction was done but not counted.
func (w *World) cutLoad(suffix string, items []string) {
	n := 0
	cut := &Store{Store: w.engine.Store, Plan: func(_ int, method string) Fault {
		if method == "UpdateLoad" {
			if n++; n == 2 {
				return FailedBefore
			}
		}
		return None
	}}
	bank := itembank.NewOperator(cut, itembank.WithClock(w.clock))
	c := w.campaigns[suffix]
	if _, err := bank.Load(w.ctx, c.Name, itemsFor(c, items...), nil); err == nil {
		w.fail("the load was not cut")
	}
}

// plantedInconsistencies prepares a closed campaign with one inconsistency of each kind that Repair can repair.
func plantedInconsistencies(w *World) {
	w.Create("", itembank.Settings{Shards: 2})
	c := w.campaigns[""]
	items := numbered("item", 8)
	w.Load("", items...)
	w.Get("", "ann")
	w.Get("", "bob")
	w.Withdraw("", w.freeItems(c)[0].Value)
	free := w.freeItems(c)
	raw := w.engine.Raw
	w.must(raw.DropBankRow(w.ctx, free[0]))                               // missing
	ann := w.state.Told[key(c.Scope, "ann")].Claim                        // held and free
	w.must(raw.PutBankRow(w.ctx, enginerows.FreeItem(c, ann.Items[0])))   //
	bob := w.state.Told[key(c.Scope, "bob")].Claim                        // held and not loaded
	w.must(raw.DropItemRow(w.ctx, c.Name, engine.HashItem(bob.Items[0]))) //
	for _, item := range items {
		row, err := w.engine.Store.ItemRow(w.ctx, c.Name, engine.HashItem(item))
		w.must(err)
		if row != nil && row.State != "" { // free and ended
			w.must(raw.PutBankRow(w.ctx, enginerows.FreeItem(c, item)))
		}
	}
	w.SetOpen("", false)
}

// restoredClaims prepares a closed campaign with 8 items and four claims. Then it restores the table of claims to a
// moment before the claims, so that they are lost. The items of the first claims are in the bank, as if the table of
// items were restored too. The items of the other claims are in no place.
func restoredClaims(free int) func(*World) {
	return func(w *World) {
		w.Create("", itembank.Settings{Shards: 2, Columns: true})
		c := w.campaigns[""]
		w.Load("", numbered("item", 8)...)
		for n, claimant := range []string{"ann", "bob", "cid", "dan"} {
			claim := w.Get("", claimant)
			w.lost = append(w.lost, claim)
			w.must(w.engine.Raw.DropClaim(w.ctx, keyOf(c, claimant)))
			if n < free {
				w.must(w.engine.Raw.PutBankRow(w.ctx, enginerows.FreeItem(c, claim.Items[0])))
			}
		}
		w.SetOpen("", false)
	}
}
