package itembank_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// The old store of these cases is in memory, and the new store is the engine of the case.
var replayStoreCases = []testCase{
	{"claimed-since-the-copy", replaysClaims},
	{"burned-since-the-copy", replaysBurns},
	{"replaced-since-the-copy", replaysReplacements},
	{"replaced-and-confirmed", replaysConfirmedReplacements},
	{"returned-since-the-copy", replaysReturns},
	{"forgotten-since-the-copy", replaysErasures},
	{"blocked-since-the-copy", replaysBlocks},
	{"confirmed-in-the-new-store", replaysAfterConfirmations},
	{"confirmed-since-the-copy", replaysConfirmations},
	{"prolonged-since-the-copy", replaysProlongations},
	{"claimant-with-another-claim", replaysOtherClaims},
	{"changes-of-operators", replaysOperators},
	{"loaded-since-the-copy", replaysLoads},
	{"refused", replayStoreRefuses},
	{"old-store-that-lost-an-item", replayKeepsClaims},
	{"withdrawn-before-the-copy", replaysOldWithdrawals},
	{"confirmed-during-the-replay", confirmedDuringReplay},
	{"half-a-release-in-the-copy", replaysHalfRelease},
	{"needs-two-closed-campaigns", replayStoreNeedsClosed},
	{"mark-is-cleared-at-the-end-only", replayClearsMark},
	{"mark-stays-after-a-file", fileClearsNoMark},
	{"killed-at-every-call", replayStoreKilled},
}

// restore is a case of a restored store: f has the old store.
type restore struct {
	*fixture
	c     engine.Campaign
	fresh *fixture // the new store
	clock *itembankfault.Clock
}

// restored creates a campaign in the old store, loads it, lets before act, and copies the rows into the new store. Then
// it lets after act on the old store, and closes the campaign in both as the runbook says.
func (f *fixture) restored(s itembank.Settings, before, after func(r *restore, b *itembank.Operator)) *restore {
	f.Helper()
	old := newFixture(f, itembankengines.Memory(f))
	r := &restore{fixture: old, fresh: f, clock: itembankfault.NewClock()}
	old.name = f.name
	r.c = old.create(s)
	b := old.bank(itembank.WithClock(r.clock))
	before(r, b)
	f.Must(itembankfault.CopyCampaign(f.ctx, old.Store, enginetest.Engine{Store: f.Store, Raw: f.raw}, f.name))
	after(r, b)
	f.Must(f.bank().CloseRestored(f.ctx, f.name))
	f.Must(old.bank().CloseMoved(f.ctx, f.name))
	return r
}

func (r *restore) oldBank() *itembank.Operator { return r.bank(itembank.WithClock(r.clock)) }

func (r *restore) newBank() *itembank.Operator { return r.fresh.bank(itembank.WithClock(r.clock)) }

// replayed replays the old store into the new one. A dry run before it must say the same and change nothing.
func (r *restore) replayed(o itembank.ReplayOptions) itembank.ReplayReport {
	r.fresh.Helper()
	dry, began := o, r.clock.Now()
	dry.DryRun = true
	would, err := r.newBank().ReplayStore(r.ctx, r.name, r.oldBank(), dry)
	r.fresh.Must(err)
	if r.clock.Now().Sub(began) >= itembank.DrainTime { // it waits for rows that look wrong
		r.fresh.Error("the dry run waited for requests")
	}
	began = r.clock.Now()
	report, err := r.newBank().ReplayStore(r.ctx, r.name, r.oldBank(), o)
	r.fresh.Must(err)
	would.DryRun = false
	if a, b := asJSON(r.fresh, would), asJSON(r.fresh, report); a != b {
		r.fresh.Errorf("the dry run said\n%s, the replay did\n%s", a, b)
	}
	if r.clock.Now().Sub(began) < itembank.DrainTime {
		r.fresh.Errorf("the replay waited for less than %s", itembank.DrainTime)
	}
	return report
}

func asJSON(f *fixture, v any) string {
	text, err := json.Marshal(v)
	f.Must(err)
	return string(text)
}

// want compares the numbers of a report, which refused nothing, and then opens the campaign, which reconciles it.
func (r *restore) want(report itembank.ReplayReport, replayed, already int64, store itembank.StoreReplay) {
	r.fresh.Helper()
	store.Settings, store.Mark = []string{}, itembank.MarkCleared
	if report.Replayed != replayed || report.Already != already || report.Refused != 0 || asJSON(r.fresh, report.Store) != asJSON(r.fresh, store) {
		r.fresh.Errorf("want %d replayed, %d already, %s; got %s", replayed, already, asJSON(r.fresh, store), asJSON(r.fresh, report))
	}
	r.fresh.Must(r.newBank().OpenCampaign(r.ctx, r.name))
}

// nothing is for cases in which nobody acts.
func nothing(*restore, *itembank.Operator) {}

// loads returns a function that loads items into the old store.
func loads(items ...string) func(*restore, *itembank.Operator) {
	return func(r *restore, _ *itembank.Operator) { r.loadInto(r.name, items...) }
}

// replaysClaims: a claim that was made since the copy comes back exactly.
func replaysClaims(f *fixture) {
	var ann itembank.Claim
	r := f.restored(itembank.Settings{Shards: 2}, loads("a", "b"), func(r *restore, b *itembank.Operator) {
		ann = r.claim(b, "ann").Claim
	})
	r.want(r.replayed(itembank.ReplayOptions{}), 1, 0, itembank.StoreReplay{})
	if held := f.Held(r.c, "ann"); held == nil || *held != rowOf(ann) {
		f.Errorf("want %+v, got %+v", rowOf(ann), held)
	}
}

// replaysBurns: ann saw a code since the copy, and her claim was released. No other customer gets the code. It was free
// at the moment of the copy, or bob's claim is older than the copy.
func replaysBurns(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "bob's")
		r.claim(b, "bob")
		r.loadInto(r.name, "ann's")
	}, func(r *restore, b *itembank.Operator) {
		r.releaseAll(b, "bob")
		r.claim(b, "ann")
		r.releaseAll(b, "ann")
	})
	r.want(r.replayed(itembank.ReplayOptions{}), 0, 0, itembank.StoreReplay{Closed: 1, Ended: 1})
	for _, item := range []string{"ann's", "bob's"} {
		f.WantWhere("burned", r.c, item, "ann", "bob")
	}
	f.refused(r.newBank(), "cid", itembank.ErrSoldOut)
}

// releaseAll releases the claim of a claimant in the old store.
func (r *restore) releaseAll(b *itembank.Operator, claimant string) {
	r.Helper()
	held, err := b.HeldClaim(r.ctx, r.name, claimant)
	r.Must(err)
	_, err = b.Release(r.ctx, r.name, claimant, held.ID)
	r.Must(err)
}

// replaysReplacements: the items of ann, who had hers before the copy, and of bob were replaced since. They have the other
// items in the new store, too, nobody gets the old ones, also where items return, and a repeat of the request finds its
// result.
func replaysReplacements(f *fixture) {
	for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
		var old, now, bobs itembank.Claim
		r := f.named(string(onEnd)).restored(itembank.Settings{Shards: 1, OnEnd: onEnd}, func(r *restore, b *itembank.Operator) {
			r.loadInto(r.name, "1", "2", "3", "4")
			old = r.claim(b, "ann").Claim
		}, func(r *restore, b *itembank.Operator) {
			now, bobs = r.replaced(b, old, false), r.claim(b, "bob").Claim
			r.replaced(b, bobs, false)
		})
		r.fresh.notReplaced(r.newBank(), old.ID, itembank.ErrRestored)
		r.want(r.replayed(itembank.ReplayOptions{}), 2, 0, itembank.StoreReplay{Closed: 1, Ended: 1})
		for _, item := range []string{old.Items[0], bobs.Items[0]} {
			r.fresh.WantWhere("replaced", r.c, item, "ann", "bob")
		}
		if again := r.fresh.replaced(r.newBank(), old, true); again.ID != now.ID || again.Items[0] != now.Items[0] {
			f.Errorf("want %+v, got %+v", now, again)
		}
	}
}

// replaysConfirmedReplacements: the holds of ann, bob and cid were replaced since the copy. Ann had paid before the copy.
// Cid paid in the old store for his replacement, and in the new one, during the replay, for what he had before. Both have
// their replacements in the new store. Bob paid in the new store only, so a person decides.
func replaysConfirmedReplacements(f *fixture) {
	held := map[string]itembank.Claim{}
	confirm := func(r *fixture, b *itembank.Operator, claimant, id string) (claim itembank.Claim) {
		claim, err := b.Confirm(f.ctx, f.name, claimant, id)
		r.Must(err)
		return claim
	}
	r := f.restored(itembank.Settings{Shards: 1, Hold: time.Hour}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "1", "2", "3", "4", "5", "6")
		for _, claimant := range []string{"ann", "bob", "cid"} {
			held[claimant] = r.claim(b, claimant).Claim
		}
		confirm(r.fixture, b, "ann", held["ann"].ID)
	}, func(r *restore, b *itembank.Operator) {
		for claimant, claim := range held {
			held[claimant] = r.replaced(b, claim, false)
		}
		held["cid"] = confirm(r.fixture, b, "cid", held["cid"].ID)
	})
	confirm(f, r.newBank(), "bob", f.Held(r.c, "bob").ID)
	cid := f.Held(r.c, "cid").ID
	store := f.interruptedAt(1, false, func() error {
		_, err := f.bank(itembank.WithClock(r.clock)).Confirm(f.ctx, f.name, "cid", cid)
		return err
	}, "CloseClaim")
	b := itembank.NewOperator(store, itembank.WithClock(r.clock))
	report, err := b.ReplayStore(f.ctx, f.name, r.oldBank(), itembank.ReplayOptions{})
	f.Must(err)
	if first := report.Lines[0]; first.Outcome+first.Claimant != "confirmed-herebob" || report.Refused != 1 || report.Replayed != 2 {
		f.Errorf("want the hold of bob refused, got %s", asJSON(f, report))
	}
	for _, claimant := range []string{"ann", "cid"} {
		if now := f.Held(r.c, claimant); now == nil || *now != rowOf(held[claimant]) {
			f.Errorf("want %+v, got %+v", held[claimant], now)
		}
	}
	r.want(r.replayed(itembank.ReplayOptions{Releases: true}), 1, 2, itembank.StoreReplay{Closed: 1})
}

// replaysReturns: ann's seat went back to the bank since the copy, so that others can claim it.
func replaysReturns(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1, OnEnd: itembank.Return}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "12A")
		r.claim(b, "ann")
	}, func(r *restore, b *itembank.Operator) { r.releaseAll(b, "ann") })
	r.want(r.replayed(itembank.ReplayOptions{}), 0, 0, itembank.StoreReplay{Closed: 1})
	f.WantWhere("free", r.c, "12A", "ann")
}

// replaysErasures: ann was forgotten since the copy. No row of the new store names her.
func replaysErasures(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "12A")
		r.claim(b, "ann")
	}, func(r *restore, b *itembank.Operator) {
		_, err := b.Forget(r.ctx, r.c.Scope, "ann", itembank.ForgetOptions{WithoutBlock: true})
		r.Must(err)
	})
	report := r.replayed(itembank.ReplayOptions{})
	r.want(report, 0, 0, itembank.StoreReplay{Closed: 1})
	if len(report.Lines) > 0 {
		f.Errorf("the report names %+v", report.Lines)
	}
	if _, err := r.newBank().HeldClaim(f.ctx, f.name, "ann"); !errors.Is(err, itembank.ErrNoClaim) {
		f.Errorf("want ann forgotten, got %v", err)
	}
	f.WantWhere("burned", r.c, "12A", "ann")
}

// replaysBlocks: since the copy ann was forgotten and bob was blocked, and cid's block was removed.
func replaysBlocks(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1, PerClaimant: 2, OnEnd: itembank.Return}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "1", "2")
		r.claim(b, "ann")
		_, err := b.Block(r.ctx, r.c.Scope, "cid")
		r.Must(err)
	}, func(r *restore, b *itembank.Operator) {
		_, err := b.Forget(r.ctx, r.c.Scope, "ann", itembank.ForgetOptions{})
		r.Must(err)
		_, err = b.Block(r.ctx, r.c.Scope, "bob")
		r.Must(err)
		_, err = b.Unblock(r.ctx, r.c.Scope, "cid")
		r.Must(err)
		r.claim(b, "cid")
	})
	r.want(r.replayed(itembank.ReplayOptions{}), 1, 0, itembank.StoreReplay{Closed: 1, Blocked: 3, Unblocked: 2})
	for _, claimant := range []string{"ann", "bob"} {
		f.refused(r.newBank(), claimant, itembank.ErrNotEligible)
	}
	if grant := f.claim(r.newBank(), "cid"); !grant.Replayed {
		f.Errorf("want the claim of cid, got %+v", grant)
	}
	again := r.replayedAgain()
	if s := again.Store; s.Blocked+s.Unblocked+s.Closed != 0 {
		f.Errorf("a second replay changed %+v", *s)
	}
}

// replayedAgain closes the campaign in the new store, and replays once more.
func (r *restore) replayedAgain() itembank.ReplayReport {
	r.fresh.Must(r.newBank().CloseRestored(r.ctx, r.name))
	return r.replayed(itembank.ReplayOptions{})
}

// replaysAfterConfirmations: the functions use the new store before the replay. Ann, whose hold is older than the copy,
// pays there, and her hold stays confirmed. Bob's hold was released in the old store, and he pays in the new one: his
// seat may be another customer's, so a person decides.
func replaysAfterConfirmations(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1, Hold: time.Hour, Choice: true}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "1", "2")
		for claimant, item := range map[string]string{"ann": "1", "bob": "2"} {
			_, err := b.Claim(r.ctx, r.name, claimant, itembank.Choosing(item))
			r.Must(err)
		}
	}, func(r *restore, b *itembank.Operator) {
		r.releaseAll(b, "bob")
		_, err := b.Claim(r.ctx, r.name, "cid", itembank.Choosing("2"))
		r.Must(err)
	})
	for _, claimant := range []string{"ann", "bob"} {
		_, err := r.newBank().Confirm(f.ctx, f.name, claimant, f.Held(r.c, claimant).ID)
		f.Must(err)
	}
	if _, err := r.newBank().Confirm(f.ctx, f.name, "cid", r.Held(r.c, "cid").ID); !errors.Is(err, itembank.ErrRestored) {
		f.Errorf("want the hold of cid confirmed later, got %v", err)
	}
	report := r.replayed(itembank.ReplayOptions{})
	var refused []string
	for _, line := range report.Lines {
		if line.Outcome != "already" {
			refused = append(refused, line.Claimant+" "+line.Outcome)
		}
	}
	if want := []string{"bob confirmed-here", "cid item-held"}; !slices.Equal(refused, want) || report.Store.Mark != itembank.MarkRefused {
		f.Errorf("want %v refused, got %s", want, asJSON(f, report))
	}
	r.want(r.replayed(itembank.ReplayOptions{Releases: true}), 1, 1, itembank.StoreReplay{Closed: 1})
	if held := f.Held(r.c, "ann"); !held.EndsAt.IsZero() {
		f.Errorf("ann's confirmation is lost: %+v", held)
	}
	f.WantWhere("held by cid", r.c, "2", "bob", "cid")
}

// replaysConfirmations: ann paid since the copy. Her hold does not end.
func replaysConfirmations(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1, Hold: time.Minute}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "12A")
		r.claim(b, "ann")
	}, func(r *restore, b *itembank.Operator) {
		held, err := b.HeldClaim(r.ctx, r.name, "ann")
		r.Must(err)
		_, err = b.Confirm(r.ctx, r.name, "ann", held.ID)
		r.Must(err)
	})
	r.want(r.replayed(itembank.ReplayOptions{}), 1, 0, itembank.StoreReplay{})
	r.clock.Advance(time.Hour)
	_, err := r.newBank().Sweep(f.ctx, f.name, nil)
	f.Must(err)
	f.WantWhere("held by ann", r.c, "12A", "ann")
	f.refused(r.newBank(), "bob", itembank.ErrSoldOut)
}

// replaysProlongations: ann got more time since the copy. Her hold does not end before it is over.
func replaysProlongations(f *fixture) {
	var seen itembank.Claim
	r := f.restored(itembank.Settings{Shards: 1, Hold: time.Minute, MaxHold: time.Hour}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "12A")
		r.claim(b, "ann")
	}, func(r *restore, b *itembank.Operator) {
		held, err := b.HeldClaim(r.ctx, r.name, "ann")
		r.Must(err)
		r.clock.SetTo(held.EndsAt)
		seen, err = b.Prolong(r.ctx, r.name, "ann", held.ID, held.EndsAt)
		r.Must(err)
	})
	r.want(r.replayed(itembank.ReplayOptions{}), 1, 0, itembank.StoreReplay{})
	r.clock.SetTo(seen.EndsAt)
	for _, want := range []string{"held by ann", "free"} {
		_, err := r.newBank().Sweep(f.ctx, f.name, nil)
		f.Must(err)
		f.WantWhere(want, r.c, "12A", "ann")
		r.clock.Advance(endGrace + time.Millisecond)
	}
}

// replaysOtherClaims: since the copy ann and bob changed their seats, and cid claimed the same seat again.
func replaysOtherClaims(f *fixture) {
	claims := map[string]itembank.Claim{}
	choose := func(r *restore, b *itembank.Operator, claimant string, items ...string) {
		grant, err := b.Claim(r.ctx, r.name, claimant, itembank.Choosing(items...))
		r.Must(err)
		claims[claimant] = grant.Claim
	}
	for _, onEnd := range []itembank.OnEnd{itembank.Return, itembank.Burn} {
		r := f.named(string(onEnd)).restored(itembank.Settings{Shards: 2, OnEnd: onEnd, Choice: true}, func(r *restore, b *itembank.Operator) {
			r.loadInto(r.name, "1", "2", "3", "4", "5", "6")
			choose(r, b, "ann", "1", "2")
			choose(r, b, "bob", "3")
			choose(r, b, "cid", "4")
		}, func(r *restore, b *itembank.Operator) {
			for _, claimant := range []string{"ann", "bob", "cid"} {
				r.releaseAll(b, claimant)
			}
			if onEnd == itembank.Return {
				choose(r, b, "ann", "3", "5")
				choose(r, b, "bob", "2")
				choose(r, b, "cid", "4")
			} else {
				choose(r, b, "ann", "6")
			}
		})
		report := r.replayed(itembank.ReplayOptions{})
		if onEnd == itembank.Burn {
			r.want(report, 1, 0, itembank.StoreReplay{Closed: 3})
			r.fresh.WantWhere("burned", r.c, "1", "ann", "bob")
			r.fresh.WantWhere("held by ann", r.c, "6", "ann")
			continue
		}
		r.want(report, 3, 0, itembank.StoreReplay{Closed: 3})
		for claimant, claim := range claims {
			if held := r.fresh.Held(r.c, claimant); held == nil || *held != rowOf(claim) {
				f.Errorf("want %+v, got %+v", rowOf(claim), held)
			}
		}
		r.fresh.WantWhere("free", r.c, "1", "ann", "bob", "cid")
	}
}

// replaysOperators: withdrawals and settings are counted, and withdrawals are taken over by choice.
func replaysOperators(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1, OnEnd: itembank.Return, Choice: true}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "free", "held", "released")
		for claimant, item := range map[string]string{"ann": "held", "bob": "released"} {
			_, err := b.Claim(r.ctx, r.name, claimant, itembank.Choosing(item))
			r.Must(err)
		}
	}, func(r *restore, b *itembank.Operator) {
		_, err := b.Withdraw(r.ctx, r.name, itembank.Items("free", "held", "released"))
		r.Must(err)
		r.releaseAll(b, "bob")
		pageSize := 7
		_, err = b.ChangeCampaign(r.ctx, r.name, itembank.CampaignChange{PageSize: &pageSize})
		r.Must(err)
	})
	report := r.replayed(itembank.ReplayOptions{})
	store := itembank.StoreReplay{
		Closed: 1, Withdrawals: itembank.OperatorChanges{Found: 3}, Settings: []string{"page-size"}, Mark: itembank.MarkCleared,
	}
	if asJSON(f, report.Store) != asJSON(f, store) {
		f.Errorf("want %s, got %s", asJSON(f, store), asJSON(f, report.Store))
	}
	f.WantWhere("free", r.c, "free", "ann")
	f.WantWhere("free", r.c, "released", "bob")

	f.Must(f.bank().CloseRestored(f.ctx, f.name))
	report = r.replayed(itembank.ReplayOptions{Withdrawals: true})
	if got := report.Store.Withdrawals; got != (itembank.OperatorChanges{Found: 3, Taken: 3}) {
		f.Errorf("want the withdrawals taken, got %+v", got)
	}
	f.WantWhere("withdrawn", r.c, "free", "ann")
	f.WantWhere("withdrawn", r.c, "released", "bob")
	f.WantWhere("held by ann", r.c, "held", "ann")
	if !f.ItemRow(r.c, "held").Withdraw {
		f.Error("want the held item marked as withdrawn")
	}
}

// replaysLoads: of the items that were loaded since the copy, those that customers saw are taken over: the held item
// with its claim, and the burned item so that no later load brings it back. The free item is loaded by choice.
func replaysLoads(f *fixture) {
	columns := []itembank.Column{{Name: "row", Value: "12"}}
	r := f.restored(itembank.Settings{Shards: 1, Choice: true, Columns: true}, loads("old"), func(r *restore, b *itembank.Operator) {
		_, err := b.Load(r.ctx, r.name, linesWith(columns, "held", "burned", "free"), nil)
		r.Must(err)
		for claimant, item := range map[string]string{"ann": "burned", "bob": "held"} {
			_, err := b.Claim(r.ctx, r.name, claimant, itembank.Choosing(item))
			r.Must(err)
		}
		r.releaseAll(b, "ann")
	})
	r.want(r.replayed(itembank.ReplayOptions{}), 1, 0, itembank.StoreReplay{Ended: 1, Loads: itembank.OperatorChanges{Found: 2, Taken: 1}})
	f.WantWhere("held by bob", r.c, "held", "bob")
	f.WantWhere("burned", r.c, "burned")
	if row := f.ItemRow(r.c, "free"); row != nil {
		f.Errorf("want the free item unknown, got %+v", row)
	}
	f.Must(f.bank().CloseRestored(f.ctx, f.name))
	r.want(r.replayed(itembank.ReplayOptions{Loads: true}), 0, 1, itembank.StoreReplay{Loads: itembank.OperatorChanges{Found: 1, Taken: 1}})
	f.WantWhere("free", r.c, "free")
	for _, item := range []string{"held", "free"} {
		if row := f.ItemRow(r.c, item); itembank.Columns(row.Columns) != itembank.NewColumns(columns...) {
			f.Errorf("%s has the columns %q", item, row.Columns)
		}
	}
	f.loadInto(f.name, "old", "held", "burned", "free")
	f.WantWhere("burned", r.c, "burned")
}

// linesWith returns a source of items with the same columns.
func linesWith(columns []itembank.Column, items ...string) itembank.Source {
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			for i, item := range items {
				if !yield(itembank.Line{Number: int64(i) + 1, Item: item, Columns: columns}, nil) {
					return
				}
			}
		}
	}
}

// replaysOldWithdrawals: the seat was withdrawn before the copy, while ann held it. So no replay hands it out.
func replaysOldWithdrawals(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1, OnEnd: itembank.Return}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "12A")
		r.claim(b, "ann")
		_, err := b.Withdraw(r.ctx, r.name, itembank.Items("12A"))
		r.Must(err)
	}, func(r *restore, b *itembank.Operator) { r.releaseAll(b, "ann") })
	r.want(r.replayed(itembank.ReplayOptions{}), 0, 0, itembank.StoreReplay{Closed: 1})
	f.WantWhere("withdrawn", r.c, "12A", "ann")
}

// confirmedDuringReplay: ann's hold was released in the old store, and cid holds the seat there. Ann pays in the new
// store after the replay has read her hold. Her claim stays, and the replay says that something moved.
func confirmedDuringReplay(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1, Hold: time.Hour}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "12A")
		r.claim(b, "ann")
	}, func(r *restore, b *itembank.Operator) {
		r.releaseAll(b, "ann")
		r.claim(b, "cid")
	})
	ann := f.Held(r.c, "ann")
	store := f.interruptedAt(1, false, func() error {
		_, err := f.bank(itembank.WithClock(r.clock)).Confirm(f.ctx, f.name, "ann", ann.ID)
		return err
	}, "CloseClaim")
	report, err := itembank.NewOperator(store, itembank.WithClock(r.clock)).ReplayStore(f.ctx, f.name, r.oldBank(), itembank.ReplayOptions{})
	f.Must(err)
	if report.Store.Mark != itembank.MarkRefused || report.Lines[0].Outcome != "moved" {
		f.Errorf("got %s", asJSON(f, report))
	}
	f.WantWhere("held by ann", r.c, "12A", "ann", "cid")
	if report = r.replayed(itembank.ReplayOptions{}); report.Lines[0].Outcome != "confirmed-here" {
		f.Errorf("got %s", asJSON(f, report))
	}
}

// replaysHalfRelease: the moment of the copy was in the middle of a release, so that the code is burned and ann still
// holds it. An operator finishes the release.
func replaysHalfRelease(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "a")
		r.claim(b, "ann")
	}, func(r *restore, b *itembank.Operator) { r.releaseAll(b, "ann") })
	f.putState(r.c, "a", engine.Burned)
	report := r.replayed(itembank.ReplayOptions{})
	if line := report.Lines[0]; line.Outcome != "inconsistent" || line.Kind != "held-and-ended" || report.Store.Mark != itembank.MarkRefused {
		f.Errorf("got %s", asJSON(f, report))
	}
	f.released(r.newBank(), *f.Held(r.c, "ann"), itembank.Released{Ended: "burned"})
	r.want(r.replayed(itembank.ReplayOptions{}), 0, 0, itembank.StoreReplay{})
}

// replayStoreRefuses: what the rows of the stores do not decide stays as it is, and a line names it.
func replayStoreRefuses(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1, OnEnd: itembank.Return, Choice: true}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "a", "b", "c", "d", "e")
		_, err := b.Claim(r.ctx, r.name, "ann", itembank.Choosing("a"))
		r.Must(err)
	}, func(r *restore, b *itembank.Operator) {
		r.releaseAll(b, "ann")
		_, err := b.Claim(r.ctx, r.name, "bob", itembank.Choosing("b"))
		r.Must(err)
		r.dropBankRow(enginerows.FreeItem(r.c, "a")) // missing in the old store, which may have lost the claim
		r.dropBankRow(enginerows.FreeItem(r.c, "c"))
	})
	f.loadInto(f.name, "new")
	cid := f.Take(r.c, "cid", "new") // somebody opened the new store
	f.putState(r.c, "b", engine.Withdrawn)
	f.dropBankRow(enginerows.FreeItem(r.c, "b"))
	ann, bob := f.Held(r.c, "ann"), r.Held(r.c, "bob")
	report := r.replayed(itembank.ReplayOptions{})
	want := map[string]itembank.ReplayedLine{
		"ann": {Claimant: "ann", ClaimID: ann.ID, Outcome: "old-inconsistent", Kind: "missing"},
		"bob": {Claimant: "bob", ClaimID: bob.ID, Outcome: "item-ended", State: "withdrawn"},
		"cid": {Claimant: "cid", ClaimID: cid.ID, Outcome: "not-in-old-store"},
		"":    {Hash: engine.HashItem("c").String(), Outcome: "old-inconsistent", Kind: "missing"},
	}
	for i, line := range report.Lines {
		number := line.Line
		line.Line = 0
		if want[line.Claimant] != line || number != int64(i)+1 {
			f.Errorf("want %+v, got line %d %+v", want[line.Claimant], number, line)
		}
	}
	if report.Refused != int64(len(want)) || len(report.Lines) != len(want) {
		f.Errorf("want %d lines refused, got %s", len(want), asJSON(f, report))
	}
	f.WantWhere("held by ann", r.c, "a", "ann")
	f.WantWhere("held by cid", r.c, "new", "cid")
}

// replayKeepsClaims: the old store lost ann's claim, and a repair marked her code as lost. The copy still has the claim.
func replayKeepsClaims(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1}, func(r *restore, b *itembank.Operator) {
		r.loadInto(r.name, "a")
		r.claim(b, "ann")
	}, func(r *restore, b *itembank.Operator) {
		r.Must(r.raw.DropClaim(r.ctx, enginerows.FirstSlot(r.c, "ann")))
		r.putState(r.c, "a", engine.Lost)
	})
	r.want(r.replayed(itembank.ReplayOptions{}), 0, 0, itembank.StoreReplay{Kept: 1})
	f.WantWhere("held by ann", r.c, "a", "ann")
}

// replayStoreNeedsClosed: a replay needs the same campaign in both stores, closed in both.
func replayStoreNeedsClosed(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1}, loads("a"), nothing)
	replay := func(want error) {
		f.Helper()
		before := r.clock.Now()
		if _, err := r.newBank().ReplayStore(f.ctx, f.name, r.oldBank(), itembank.ReplayOptions{}); !errors.Is(err, want) || !r.clock.Now().Equal(before) {
			f.Errorf("want it refused at once, got %v", err)
		}
	}
	f.Must(r.bank().OpenWithoutReplay(f.ctx, f.name))
	replay(itembank.ErrInvalid)
	f.Must(r.bank().CloseCampaign(f.ctx, f.name))
	f.Must(r.newBank().OpenWithoutReplay(f.ctx, f.name))
	replay(itembank.ErrInvalid)
	f.Must(r.newBank().CloseCampaign(f.ctx, f.name)) // it was open, so it may know newer claims
	replay(itembank.ErrInvalid)
	f.Must(r.newBank().CloseRestored(f.ctx, f.name))
	f.Must(r.bank().CloseRestored(f.ctx, f.name)) // the old store is a copy itself
	replay(itembank.ErrInvalid)

	one := f.named("other-settings")
	one.create(itembank.Settings{Shards: 2})
	other := newFixture(f, itembankengines.Memory(f))
	other.name = one.name
	other.create(itembank.Settings{Shards: 3})
	f.Must(one.bank().CloseCampaign(f.ctx, one.name))
	if _, err := one.bank().ReplayStore(f.ctx, one.name, other.bank(), itembank.ReplayOptions{}); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("want the open old store refused, got %v", err)
	}
	f.Must(other.bank().CloseCampaign(f.ctx, one.name))
	if _, err := one.bank().ReplayStore(f.ctx, one.name, other.bank(), itembank.ReplayOptions{}); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("want other settings refused, got %v", err)
	}
	_, err := f.named("unknown").bank().ReplayStore(f.ctx, f.name+"-unknown", other.bank(), itembank.ReplayOptions{})
	if !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("got %v", err)
	}
}

// replayClearsMark: the mark is cleared by a replay that began to read after all campaigns of the scope were moved in the
// old store, and that refused nothing. A dry run says so and clears nothing.
func replayClearsMark(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1}, loads("a", "b"), nothing)
	other := r.named("other")
	other.create(itembank.Settings{Shards: 1, Scope: r.c.Scope})
	want := func(report itembank.ReplayReport, err error, mark itembank.MarkOutcome) {
		f.Helper()
		f.Must(err)
		now, err := f.bank().Campaign(f.ctx, f.name)
		f.Must(err)
		if report.Store.Mark != mark || now.Restored != (mark != itembank.MarkCleared) {
			f.Errorf("want %s, got %s, restored %t", mark, asJSON(f, report), now.Restored)
		}
		if err := f.bank().OpenCampaign(f.ctx, f.name); errors.Is(err, itembank.ErrRestored) != now.Restored {
			f.Errorf("restored %t, opened with %v", now.Restored, err)
		}
	}
	replay := func(old *itembank.Operator) (itembank.ReplayReport, error) {
		return r.newBank().ReplayStore(f.ctx, f.name, old, itembank.ReplayOptions{})
	}
	report, err := replay(r.oldBank())
	want(report, err, itembank.MarkUnmoved)

	waits := &hookedClock{Clock: r.clock, sleep: func() { f.Must(r.bank().CloseMoved(f.ctx, other.name)) }}
	late := f.bank(itembank.WithClock(waits))
	report, err = late.ReplayStore(f.ctx, f.name, r.oldBank(), itembank.ReplayOptions{})
	want(report, err, itembank.MarkUnmoved) // it was moved after the replay began to wait

	missing := enginerows.FreeItem(r.c, "b")
	r.dropBankRow(missing)
	report, err = replay(r.oldBank())
	want(report, err, itembank.MarkRefused)
	r.putBankRow(missing)

	waits.sleep = func() { // the old store was in use again meanwhile
		f.Must(r.bank().CloseWithoutReplay(f.ctx, other.name))
		f.Must(r.bank().CloseMoved(f.ctx, other.name))
	}
	report, err = late.ReplayStore(f.ctx, f.name, r.oldBank(), itembank.ReplayOptions{})
	want(report, err, itembank.MarkUnmoved)

	waits.sleep = func() { f.Must(r.bank().CloseWithoutReplay(f.ctx, other.name)) }
	report, err = late.ReplayStore(f.ctx, f.name, r.oldBank(), itembank.ReplayOptions{})
	want(report, err, itembank.MarkUnmoved)
	f.Must(r.bank().CloseMoved(f.ctx, other.name))

	waits.sleep = func() { otherPageSize(f) }
	report, err = late.ReplayStore(f.ctx, f.name, r.oldBank(), itembank.ReplayOptions{})
	want(report, err, itembank.MarkChanged)

	dry, err := r.newBank().ReplayStore(f.ctx, f.name, r.oldBank(), itembank.ReplayOptions{DryRun: true})
	f.Must(err)
	if row, err := f.Store.Campaign(f.ctx, f.name); err != nil || dry.Store.Mark != itembank.MarkCleared || !row.Restored {
		f.Errorf("the dry run said %q, and left %+v, %v", dry.Store.Mark, row, err)
	}
	report, err = replay(r.oldBank())
	want(report, err, itembank.MarkCleared)
}

// hookedClock calls sleep before it sleeps for DrainTime.
type hookedClock struct {
	itembank.Clock
	sleep func()
}

func (c *hookedClock) Sleep(ctx context.Context, d time.Duration) error {
	if d >= itembank.DrainTime {
		c.sleep()
	}
	return c.Clock.Sleep(ctx, d)
}

// fileClearsNoMark: a file of claims does not say what was released or burned.
func fileClearsNoMark(f *fixture) {
	r := f.restored(itembank.Settings{Shards: 1}, loads("a"), func(r *restore, b *itembank.Operator) { r.claim(b, "ann") })
	held := r.Held(r.c, "ann")
	report, err := r.newBank().Replay(f.ctx, f.name, replayOf(itembank.Claim{ID: held.ID, Claimant: "ann", Items: []string{"a"}}))
	f.Must(err)
	if report.Replayed != 1 {
		f.Errorf("got %+v", report)
	}
	if err := r.newBank().OpenCampaign(f.ctx, f.name); !errors.Is(err, itembank.ErrRestored) {
		f.Errorf("want the campaign restored, got %v", err)
	}
}

// replayStoreKilled: a replay is killed before each of its calls, or after it, and repeated until it ends. The next call
// of the same replay continues where it was killed.
func replayStoreKilled(f *fixture) {
	for _, after := range []bool{false, true} {
		one := f.named(map[bool]string{false: "before", true: "after"}[after])
		r := one.restored(itembank.Settings{Shards: 1, Hold: time.Hour, Choice: true}, func(r *restore, b *itembank.Operator) {
			r.loadInto(r.name, "1", "2", "3")
			for claimant, item := range map[string]string{"ann": "1", "bob": "2", "cid": "3"} {
				_, err := b.Claim(r.ctx, r.name, claimant, itembank.Choosing(item))
				r.Must(err)
			}
		}, func(r *restore, b *itembank.Operator) {
			r.releaseAll(b, "ann")
			r.releaseAll(b, "bob")
			r.loadInto(r.name, "4", "5")
			_, err := b.Claim(r.ctx, r.name, "bob", itembank.Choosing("1", "4"))
			r.Must(err)
			held, err := b.HeldClaim(r.ctx, r.name, "cid")
			r.Must(err)
			_, err = b.Confirm(r.ctx, r.name, "cid", held.ID)
			r.Must(err)
			_, err = b.Withdraw(r.ctx, r.name, itembank.Items("2"))
			r.Must(err)
		})
		o := itembank.ReplayOptions{Withdrawals: true, Loads: true}
		cuts := 0
		for call := 1; ; call++ {
			cut := itembank.NewOperator(one.cutAt(call, after), itembank.WithClock(r.clock))
			_, err := cut.ReplayStore(f.ctx, one.name, r.oldBank(), o)
			if err == nil {
				break
			}
			if cuts++; !errors.Is(err, errCut) || cuts > 200 {
				f.Fatal(err)
			}
		}
		if cuts < 10 {
			f.Errorf("only %d calls", cuts)
		}
		one.Must(r.newBank().OpenCampaign(f.ctx, one.name))
		for item, where := range map[string]string{"1": "held by bob", "2": "withdrawn", "3": "held by cid", "5": "free"} {
			one.WantWhere(where, r.c, item, "ann", "bob", "cid")
		}
		if bob := one.Held(r.c, "bob"); *bob != *r.Held(r.c, "bob") || !one.Held(r.c, "cid").EndsAt.IsZero() {
			f.Errorf("want bob's newer claim and cid's hold confirmed, got %+v", bob)
		}
	}
}

// TestReplayDecisions has every pair of places in the two stores that decides something.
func TestReplayDecisions(t *testing.T) {
	t.Parallel()
	all := itembank.ReplayOptions{Withdrawals: true, Loads: true}
	for _, test := range []struct {
		was, now, none, all string
	}{
		{"unknown", "free", "", ""},
		{"free", "free", "", ""},
		{"free", "held", "", ""}, // the claim decides
		{"free", "burned", "", ""},
		{"free", "unknown", "count a load", "add, count a load"},
		{"held", "free", "", ""},
		{"held", "unknown", "add, count a load", "add, count a load"},
		{"held", "held", "", ""},
		{"held, withdrawn", "held", "count a withdrawal", "mark, count a withdrawal"},
		{"held, withdrawn", "free", "count a withdrawal", "mark, count a withdrawal"},
		{"held, withdrawn", "held, withdrawn", "", ""},
		{"burned", "free", "end as burned", "end as burned"},
		{"burned", "unknown", "end as burned", "end as burned"},
		{"burned", "held", "", ""},
		{"burned", "lost", "", ""},
		{"expired", "free", "end as expired", "end as expired"},
		{"lost", "free", "end as lost", "end as lost"},
		{"withdrawn", "free", "count a withdrawal", "end as withdrawn, count a withdrawal"},
		{"withdrawn", "unknown", "count a withdrawal", "end as withdrawn, count a withdrawal"},
		{"withdrawn", "held", "count a withdrawal", "count a withdrawal"},
		{"withdrawn", "withdrawn", "", ""},
		{"withdrawn, held", "free", "end as withdrawn, count a withdrawal", "end as withdrawn, count a withdrawal"}, // seen
		{"missing", "free", "refuse: old-inconsistent", "refuse: old-inconsistent"},
		{"missing", "unknown", "refuse: old-inconsistent", "refuse: old-inconsistent"},
		{"missing", "held", "", ""},
		{"missing", "burned", "", ""},
		{"burned", "missing", "refuse: inconsistent", "refuse: inconsistent"},
		{"held", "missing", "", ""},
		{"free", "missing", "", ""},
	} {
		if got := itembank.DecideItem(itembank.ReplayOptions{}, itembank.Burn, test.was, test.now); got != test.none {
			t.Errorf("%s in the old store, %s in the new one: want %q, got %q", test.was, test.now, test.none, got)
		}
		if got := itembank.DecideItem(all, itembank.Burn, test.was, test.now); got != test.all {
			t.Errorf("%s in the old store, %s in the new one, with all options: want %q, got %q", test.was, test.now, test.all, got)
		}
	}
	if got := itembank.DecideItem(itembank.ReplayOptions{}, itembank.Return, "withdrawn, held", "free"); got != "count a withdrawal" {
		t.Errorf("a seat that was withdrawn while it was held: got %q", got)
	}
	for _, test := range []struct {
		slot itembank.Slot
		want string
	}{
		{itembank.Slot{Now: "1", Was: "1", Old: "held", Here: "held", Wanted: "held"}, ""},
		{itembank.Slot{Now: "1", Was: "1", Old: "held", Here: "held", Wanted: "held", Confirmed: true}, ""},
		{itembank.Slot{Now: "1", Was: "2", Old: "free", Here: "held", Wanted: "free"}, "close"},
		{itembank.Slot{Now: "1", Was: "2", Old: "free", Here: "held", Wanted: "free", Confirmed: true}, "refuse: confirmed-here"},
		{itembank.Slot{Now: "1", Old: "free", Here: "held", Wanted: "free"}, "close"},
		{itembank.Slot{Now: "1", Old: "free", Here: "held", Wanted: "free", Confirmed: true}, "refuse: confirmed-here"},
		{itembank.Slot{Now: "1", Old: "free", Here: "held", Wanted: "free", Confirmed: true, Blocked: true}, "close"},
		{itembank.Slot{Now: "1", Old: "burned", Here: "held", Wanted: "free"}, "close"},
		{itembank.Slot{Now: "1", Old: "lost", Here: "held", Wanted: "free"}, "keep"},
		{itembank.Slot{Now: "1", Old: "lost", Here: "held", Wanted: "free", Blocked: true}, "close"},
		{itembank.Slot{Now: "1", Was: "2", Old: "lost", Here: "held", Wanted: "free"}, "close"},
		{itembank.Slot{Now: "1", Old: "unknown", Here: "held", Wanted: "free"}, "refuse: not-in-old-store"},
		{itembank.Slot{Now: "1", Old: "missing", Here: "held", Wanted: "free"}, "refuse: old-inconsistent"},
		{itembank.Slot{Now: "1", Old: "free", Here: "missing", Wanted: "free"}, "refuse: inconsistent"},
		{itembank.Slot{Now: "1", Was: "2", Old: "held", Here: "held", Wanted: "missing"}, "close"},
		{itembank.Slot{Now: "1", Was: "2", Old: "held", Here: "held", Wanted: "burned"}, "refuse: item-ended"},
		{itembank.Slot{Now: "1", Was: "2", Old: "held", Here: "held", Wanted: "lost"}, "close"},
	} {
		if got := itembank.DecideClaim(test.slot); got != test.want {
			t.Errorf("%+v: got %q", test, got)
		}
	}
	for was, want := range map[string][2]string{ // where items return, and where they are burned
		"free": {"returned", "burned"}, "held": {"returned", "lost"}, "burned": {"burned", "burned"},
		"expired": {"expired", "expired"}, "withdrawn": {"returned", "burned"}, "withdrawn, held": {"returned", "withdrawn"},
	} {
		got := [2]string{
			itembank.CloseAs(itembank.ReplayOptions{}, itembank.Return, was), itembank.CloseAs(itembank.ReplayOptions{}, itembank.Burn, was),
		}
		if got != want {
			t.Errorf("a claim is closed whose item is %s in the old store: want %v, got %v", was, want, got)
		}
	}
	if got := itembank.CloseAs(all, itembank.Return, "withdrawn"); got != "withdrawn" {
		t.Errorf("got %q", got)
	}
}
