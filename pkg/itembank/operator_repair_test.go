package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var repairCases = []testCase{
	{"repair-by-a-clock-that-is-ahead", repairByFastClock},
	{"each-inconsistency", repairEachInconsistency},
	{"missing-item-needs-its-text", repairMissing},
	{"missing-item-that-somebody-saw", repairMissingSeen},
	{"seen-item-put-back-on-purpose", repairReturnsSeen},
	{"missing-item-that-was-withdrawn", repairMissingWithdrawn},
	{"nothing-by-a-guess", repairNothingByGuess},
	{"open-campaign-is-refused", repairRefusesOpen},
	{"repair-waits-for-requests-under-way", repairWaits},
	{"rows-that-change-before-a-repair", repairRowsThatChange},
	{"campaign-opened-during-a-repair", repairReopened},
	{"report-of-an-error", repairReportOfError},
	{"item-with-several-inconsistencies", repairSeveralInconsistencies},
	{"rows-with-the-text-of-another-item", repairTextsOfOthers},
	{"life-of-an-item-whose-row-is-put", repairLife},
	{"own-sold-out-ends-at-once", ownSoldOutEndsWithRepair},
}

// repairSeveralInconsistencies: each Repair repairs the worst inconsistency of an item, and reports the remaining one.
func repairSeveralInconsistencies(f *fixture) {
	c := f.consistent("held, free, burned", "held, free, not loaded", "free twice, withdrawn", "misplaced, not loaded")
	held := func(item string) {
		f.Take(c, holder(item), item)
		f.putBankRow(enginerows.FreeItem(c, item))
	}
	held("held, free, burned")
	f.putState(c, "held, free, burned", engine.Burned)
	held("held, free, not loaded")
	f.dropItemRow(c, "held, free, not loaded")
	f.putBankRow(f.misplaced(c, "free twice, withdrawn"))
	f.putState(c, "free twice, withdrawn", engine.Withdrawn)
	f.dropBankRow(enginerows.FreeItem(c, "misplaced, not loaded"))
	f.putBankRow(f.misplaced(c, "misplaced, not loaded"))
	f.dropItemRow(c, "misplaced, not loaded")
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))

	left := []struct {
		item  string
		kinds [3]string // after each Repair
	}{
		{"held, free, burned", [3]string{"held-and-ended", "held-and-ended", "held-and-ended"}},
		{"held, free, not loaded", [3]string{"held-not-loaded", "", ""}},
		{"free twice, withdrawn", [3]string{"free-and-ended", "", ""}},
		{"misplaced, not loaded", [3]string{"free-not-loaded", "free-not-loaded", "free-not-loaded"}},
	}
	for n := range 3 {
		report, err := f.bank(itembank.WithClock(itembankfault.NewClock())).Repair(f.ctx, f.name, itembank.RepairOptions{})
		f.Must(err)
		got := map[string]itembank.Inconsistency{}
		for _, d := range report.Inconsistencies {
			got[d.Hash] = d
		}
		for _, want := range left {
			d, reported := got[engine.HashItem(want.item).String()]
			wrongBefore := n == 0 || want.kinds[n-1] != ""
			switch {
			case reported != wrongBefore, d.Repaired != (reported && want.kinds[n] == ""), reported && !d.Repaired && d.Kind != want.kinds[n]:
				f.Errorf("%s, Repair %d: want it reported %t with %q left, got %+v", want.item, n+1, wrongBefore, want.kinds[n], d)
			}
		}
	}
}

// repairTextsOfOthers: a row with the text of another item stays, whatever else is wrong, because it may be the only
// row with that text.
func repairTextsOfOthers(f *fixture) {
	c := f.consistent("withdrawn", "held", "not loaded")
	put := func(item string) engine.FreeItem {
		row := enginerows.FreeItem(c, item)
		row.Value = "the only copy, in the row of " + item
		f.putBankRow(row)
		return row
	}
	rows := []engine.FreeItem{put("withdrawn"), put("not loaded")}
	f.putState(c, "withdrawn", engine.Withdrawn)
	f.dropItemRow(c, "not loaded")
	claim := f.Take(c, holder("held"), "held")
	claim.Item = "another item"
	f.putClaim(claim)
	free := enginerows.FreeItem(c, "held")
	f.putBankRow(free)
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))

	report, err := f.bank(itembank.WithClock(itembankfault.NewClock())).Repair(f.ctx, f.name, itembank.RepairOptions{})
	f.Must(err)
	if len(report.Inconsistencies) != 3 {
		f.Errorf("want three inconsistencies, got %+v", report.Inconsistencies)
	}
	for _, d := range report.Inconsistencies {
		if d.Repaired {
			f.Errorf("repaired: %+v", d)
		}
	}
	for _, row := range append(rows, free) {
		if got := f.BankRow(row); got == nil || *got != row {
			f.Errorf("want the row %+v, got %+v", row, got)
		}
	}
	row, err := f.Store.ItemRow(f.ctx, c.Name, engine.HashItem("not loaded"))
	f.Must(err)
	if row != nil {
		f.Errorf("an item that was never loaded got the row %+v", row)
	}
}

// repairLife: if the row of a held item is put, the item ends as if it had been loaded when it was claimed: as late as
// possible.
func repairLife(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1, ItemLife: time.Hour})
	f.load("held")
	claim := f.Take(c, holder("held"), "held")
	f.dropItemRow(c, "held")
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	want := f.expected(c, flaw{name: "held", kind: "held-not-loaded"})
	want.Repaired = true
	f.repaired(f.bank(itembank.WithClock(itembankfault.NewClock())), nil, want)
	if end := f.ItemRow(c, "held").EndsAt; !end.Equal(claim.ClaimedAt.Add(time.Hour)) {
		f.Errorf("claimed at %s, and it ends at %s", claim.ClaimedAt, end)
	}
}

// repaired repairs the closed campaign, and compares the inconsistencies in any order.
func (f *fixture) repaired(b *itembank.Operator, items itembank.Source, want ...itembank.Inconsistency) {
	f.Helper()
	report, err := b.Repair(f.ctx, f.name, itembank.RepairOptions{Items: items})
	f.Must(err)
	f.wantInconsistencies(report, want...)
}

// repairEachInconsistency: everything that can be repaired without a guess is repaired, and the rest stays. After
// that no held item is handed out.
func repairEachInconsistency(f *fixture) {
	c, inconsistencies := f.withFlaws()
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	var left []itembank.Inconsistency
	for i, w := range flaws {
		inconsistencies[i].Repaired = w.repaired != ""
		if w.repaired == "" {
			left = append(left, inconsistencies[i])
		}
	}
	f.repaired(f.bank(itembank.WithClock(itembankfault.NewClock())), itembank.Items("not-loaded", missingItem, "other held", ""), inconsistencies...)
	for _, w := range flaws {
		want := w.repaired
		if want == "" {
			want = w.where
		}
		f.wantWhereOfFlaw(want, c, w.name)
	}
	f.reconciled(left...)

	f.dropBankRow(f.misplaced(c, "free twice")) // people have to do this by hand
	f.Must(f.bank().OpenCampaign(f.ctx, f.name))
	held, _ := enginerows.List(f.Rows, c.Scope, f.Store.ListClaims)
	holders := map[string]string{}
	for _, claim := range held {
		holders[claim.Item] = claim.Claimant
	}
	b := f.bank()
	for i := 0; ; i++ {
		claimant := fmt.Sprintf("late-%d", i)
		grant, err := b.Claim(f.ctx, f.name, claimant)
		if errors.Is(err, itembank.ErrSoldOut) {
			break
		}
		f.Must(err)
		if other := holders[grant.Claim.Items[0]]; other != "" {
			f.Errorf("item %q is held by %s and was given to %s", grant.Claim.Items[0], other, claimant)
		}
		holders[grant.Claim.Items[0]] = claimant
	}
	if holders[missingItem] == "" {
		f.Errorf("the item that was put back was given to no claimant: %v", holders)
	}
}

// repairMissing: no row has the text of a missing item, so Repair needs a source with the text. The item comes back
// with its own end.
func repairMissing(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1, ItemLife: 24 * time.Hour, OnEnd: itembank.Return})
	f.load(missingItem, "free")
	end := f.ItemRow(c, missingItem).EndsAt
	w := flaws[0]
	w.plant(f, c, missingItem)
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	want := f.expected(c, w)
	b := f.bank(itembank.WithClock(itembankfault.NewClock()))
	broken := errors.New("read error")
	failing := func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) { yield(itembank.Line{}, broken) }
	}
	if _, err := b.Repair(f.ctx, f.name, itembank.RepairOptions{Items: failing}); !errors.Is(err, broken) {
		f.Errorf("want the source's error, got %v", err)
	}
	f.WantWhere("", c, missingItem)
	want.Repaired = true
	f.repaired(b, itembank.Items("free", missingItem), want)
	if row := f.BankRow(enginerows.FreeItem(c, missingItem)); row == nil || row.Value != missingItem || !row.EndsAt.Equal(end) {
		f.Errorf("want it back with its end %s, got %+v", end, row)
	}
}

// restoredClaims creates a campaign that burns two items, and restores its claims to a moment before ann claimed one
// item: the restore loses her claim, and does not change the bank. The campaign is closed.
func (f *fixture) restoredClaims() (c engine.Campaign, lost engine.Claim) {
	f.Helper()
	c = f.create(itembank.Settings{Shards: 1})
	f.load("CODE-1", "CODE-2")
	lost = rowOf(f.claim(f.bank(), "ann").Claim)
	f.Must(f.raw.DropClaim(f.ctx, engine.ClaimKey{Scope: c.Scope, Claimant: "ann", Slot: 1}))
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	return c, lost
}

// repairMissingSeen: a missing item of a campaign that burns items may have been in a claim. No other claimant gets it,
// even if Repair has its text, and it cannot be loaded again.
func repairMissingSeen(f *fixture) {
	c, lost := f.restoredClaims()
	want := f.expected(c, flaw{name: lost.Item, kind: "missing"})
	want.Repaired = true
	f.repaired(f.bank(itembank.WithClock(itembankfault.NewClock())), itembank.Items("CODE-1", "CODE-2"), want)
	f.WantWhere("lost", c, lost.Item)
	f.reconciled()

	f.Must(f.bank().OpenCampaign(f.ctx, f.name))
	f.load("CODE-1", "CODE-2")
	if grant := f.claim(f.bank(), "bob"); grant.Claim.Items[0] == lost.Item {
		f.Errorf("bob got %s, which ann has seen", lost.Item)
	}
	f.refused(f.bank(), "cid", itembank.ErrSoldOut)
	f.wantCounts(engine.Counts{Loaded: 2, Claimed: 1, Ended: 1})
}

// repairReturnsSeen: missing items of a campaign that burns items go back only with ReturnSeenItems, and only with
// their text. A Bank that puts them back knows that its bank is not empty.
func repairReturnsSeen(f *fixture) {
	c, lost := f.restoredClaims()
	want := f.expected(c, flaw{name: lost.Item, kind: "missing"})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	repair := func(items itembank.Source) {
		f.Helper()
		report, err := b.Repair(f.ctx, f.name, itembank.RepairOptions{Items: items, ReturnSeenItems: true})
		f.Must(err)
		f.wantInconsistencies(report, want)
	}
	repair(nil)
	f.WantWhere("", c, lost.Item)
	want.Repaired = true
	repair(itembank.Items("CODE-1", "CODE-2"))
	f.WantWhere("free", c, lost.Item)
	f.reconciled()
}

// repairMissingWithdrawn: an item that was withdrawn while a claim held it does not come back if the claim is lost. Its
// claimant can get the claim back, and the item ends with the claim.
func repairMissingWithdrawn(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1, OnEnd: itembank.Return})
	f.load("a", "b")
	lost := f.Take(c, "ann", "a")
	_, err := f.bank().Withdraw(f.ctx, f.name, itembank.Items("a"))
	f.Must(err)
	f.Must(f.raw.DropClaim(f.ctx, engine.ClaimKey{Scope: c.Scope, Claimant: "ann", Slot: 1}))
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	row := f.ItemRow(c, "a")

	f.replayed([]itembank.Claim{{ID: lost.ID, Claimant: "ann", Items: []string{"a"}, ClaimedAt: lost.ClaimedAt}}, itembank.ReplayedLine{Outcome: "replayed"})
	if now := f.ItemRow(c, "a"); !now.Withdraw || now.State != "" || now.Returns != row.Returns+1 {
		f.Errorf("want the mark to stay, got %+v", now)
	}
	f.Must(f.raw.DropClaim(f.ctx, engine.ClaimKey{Scope: c.Scope, Claimant: "ann", Slot: 1}))
	for range 2 {
		report, err := f.bank(itembank.WithClock(itembankfault.NewClock())).Repair(f.ctx, f.name,
			itembank.RepairOptions{Items: itembank.Items("a", "b"), ReturnSeenItems: true})
		f.Must(err)
		f.WantWhere("withdrawn", c, "a", "ann")
		for _, i := range report.Inconsistencies {
			if !i.Repaired {
				f.Errorf("not repaired: %+v", i)
			}
		}
	}
}

// repairNothingByGuess: Repair does not guess which of two bank rows is wrong, or what text a missing item had that
// is not in the source.
func repairNothingByGuess(f *fixture) {
	c := f.consistent("a", missingItem)
	f.putBankRow(f.misplaced(c, "a"))
	flaws[0].plant(f, c, missingItem)
	missing := f.expected(c, flaws[0])
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	twice := f.expected(c, flaw{name: "a", kind: "free-twice"})
	for _, items := range []itembank.Source{nil, itembank.Items("Missing", "missing ", "a")} {
		f.repaired(f.bank(itembank.WithClock(itembankfault.NewClock())), items, twice, missing)
	}
	f.WantWhere("", c, missingItem)
	f.wantWhereOfFlaw("free, misplaced", c, "a")
}

func repairRefusesOpen(f *fixture) {
	soon := time.Now().Add(time.Hour)
	c := f.create(itembank.Settings{OpensAt: soon, ClosesAt: soon.Add(time.Hour), Shards: 1})
	f.load("a")
	f.putState(c, "a", engine.Burned)
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	refused := func(state string) {
		f.Helper()
		begun := clock.Now()
		report, err := b.Repair(f.ctx, f.name, itembank.RepairOptions{})
		if !errors.Is(err, itembank.ErrInvalid) || len(report.Inconsistencies) > 0 || !clock.Now().Equal(begun) {
			f.Errorf("%s: want it refused at once, got %+v, %v", state, report, err)
		}
		f.WantWhere("free, burned", c, "a")
	}
	refused("scheduled")
	clock.SetTo(soon)
	refused("open")
	clock.SetTo(soon.Add(time.Hour)) // closed by its times
	want := f.expected(c, flaw{name: "a", kind: "free-and-ended"})
	want.Repaired = true
	f.repaired(b, nil, want)
}

// interruptedClock is a clock that runs a function during each Sleep.
type interruptedClock struct {
	*itembankfault.Clock
	asleep func(time.Duration)
}

func (c interruptedClock) Sleep(ctx context.Context, d time.Duration) error {
	c.asleep(d)
	return c.Clock.Sleep(ctx, d)
}

// repairWaits: a container that does not know yet that the campaign is closed hands out an item. Repair reads no row
// before this request has finished.
func repairWaits(f *fixture) {
	c := f.consistent("a")
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	counted := f.counted()
	clock := interruptedClock{Clock: itembankfault.NewClock()}
	clock.asleep = func(d time.Duration) {
		f.wantCalls("before the wait", counted, "Campaign", "Loads")
		if longest := itembank.DefaultCampaignCache + 30*time.Second; d < longest || d != itembank.DrainTime {
			f.Errorf("requests can take %s, it waits %s, and says %s", longest, d, itembank.DrainTime)
		}
		f.Take(c, "late", "a")
	}
	f.repaired(itembank.NewOperator(counted, itembank.WithClock(clock)), itembank.Items("a"))
	f.WantWhere("held by late", c, "a", "late")
	f.reconciled()
}

// beforeRepair is an engine that runs a function just before an item is repaired.
type beforeRepair struct {
	engine.Store
	actions map[engine.Hash]func()
}

func (s beforeRepair) Repair(ctx context.Context, r engine.RepairRequest) (bool, error) {
	s.actions[r.Hash]()
	return s.Store.Repair(ctx, r)
}

// repairRowsThatChange: just before each repair its condition becomes false, so no repair is made.
func repairRowsThatChange(f *fixture) {
	c, inconsistencies := f.withFlaws()
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	dropClaim := func(item string) { f.Must(f.raw.DropClaim(f.ctx, enginerows.FirstSlot(c, holder(item)))) }
	changing := beforeRepair{f.Store, map[engine.Hash]func(){}}
	after := map[string]string{}
	for _, test := range []struct {
		flaw   string
		change func(item string)
		where  string
	}{
		{missingItem, func(item string) { f.putState(c, item, engine.Burned) }, "burned"},
		{"held and free", dropClaim, "free"},
		{"free and ended", func(item string) { f.putState(c, item, "") }, "free"},
		{"held and not loaded", dropClaim, "not loaded"},
	} {
		changing.actions[engine.HashItem(test.flaw)] = func() { test.change(test.flaw) }
		after[test.flaw] = test.where
	}
	f.repaired(itembank.NewOperator(changing, itembank.WithClock(itembankfault.NewClock())), itembank.Items(missingItem), inconsistencies...)
	for _, w := range flaws {
		if want, changed := after[w.name]; changed {
			f.wantWhereOfFlaw(want, c, w.name)
		} else {
			f.wantWhereOfFlaw(w.where, c, w.name)
		}
	}
}

// repairReopened: if the campaign is opened, nothing is repaired. An item that is claimed and released between two
// passes would look missing.
func repairReopened(f *fixture) {
	c := f.consistent("a")
	f.putState(c, "a", engine.Burned)
	for method, where := range map[string]string{"ReadItems": "free, burned", "Repair": "burned"} {
		f.Must(f.bank().CloseCampaign(f.ctx, f.name))
		f.putBankRow(enginerows.FreeItem(c, "a"))
		opened := &itembankfault.Store{Store: f.Store, Before: func(called string) error {
			if called == method {
				return f.bank().OpenCampaign(f.ctx, f.name)
			}
			return nil
		}}
		_, err := itembank.NewOperator(opened, itembank.WithClock(itembankfault.NewClock())).Repair(f.ctx, f.name, itembank.RepairOptions{})
		if !errors.Is(err, itembank.ErrReopened) || !errors.Is(err, itembank.ErrInconsistent) {
			f.Errorf("opened at %s: want %v, got %v", method, itembank.ErrReopened, err)
		}
		f.WantWhere(where, c, "a")
	}
}

// repairReportOfError: if a Repair fails at any call, its report has the repairs up to then, and the interval of time.
func repairReportOfError(f *fixture) {
	c := f.consistent("a", "b")
	f.putState(c, "a", engine.Burned)
	f.putState(c, "b", engine.Burned)
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	repairs, repaired := 0, 0
	for _, method := range []string{"Campaign", "ReadItems", "Repair"} {
		clock := itembankfault.NewClock()
		begun := clock.Now().UTC().Truncate(time.Millisecond)
		failing := &itembankfault.Store{Store: f.Store, Before: func(called string) error {
			if called == "Repair" {
				repairs++
			}
			if called != method || called == "Repair" && repairs < 2 {
				return nil
			}
			clock.Advance(time.Second) // the failure takes a moment
			return errCut
		}}
		report, err := itembank.NewOperator(failing, itembank.WithClock(clock)).Repair(f.ctx, f.name, itembank.RepairOptions{})
		now := clock.Now().UTC().Truncate(time.Millisecond)
		if !errors.Is(err, errCut) || !report.From.Equal(begun) || !report.To.Equal(now) || !now.After(begun) {
			f.Errorf("cut at %s: want an interval from %s to %s, got %+v, %v", method, begun, now, report, err)
		}
		repaired += len(report.Inconsistencies)
	}
	if repaired != 1 {
		f.Errorf("one of two was repaired before the cut, and %d were reported", repaired)
	}
}

// ownSoldOutEndsWithRepair: a Bank that puts an item back forgets that it saw the bank empty.
func ownSoldOutEndsWithRepair(f *fixture) {
	c := f.create(itembank.Settings{OnEnd: itembank.Return})
	f.load(missingItem)
	f.dropBankRow(enginerows.FreeItem(c, missingItem))
	var b *itembank.Operator
	soldOut := f.interruptedAt(1, false, func() error {
		f.Must(b.OpenCampaign(f.ctx, f.name))
		f.refused(b, "ann", itembank.ErrSoldOut)
		return b.CloseCampaign(f.ctx, f.name)
	}, "Repair")
	b = itembank.NewOperator(soldOut, itembank.WithClock(itembankfault.NewClock()))
	f.Must(b.CloseCampaign(f.ctx, f.name))
	_, err := b.Repair(f.ctx, f.name, itembank.RepairOptions{Items: itembank.Items(missingItem)})
	f.Must(err)
	f.Must(b.OpenCampaign(f.ctx, f.name))
	f.claim(b, "ann")
}

// repairByFastClock: a laptop whose clock is an hour ahead takes an open campaign for closed.
func repairByFastClock(f *fixture) {
	server, laptop := itembankfault.NewClock(), itembankfault.NewClock()
	laptop.Advance(time.Hour)
	f.create(itembank.Settings{ClosesAt: server.Now().Add(30 * time.Minute)})
	store := &itembankfault.Store{Store: f.Store, Server: server}
	_, err := itembank.NewOperator(store, itembank.WithClock(laptop)).Repair(f.ctx, f.name, itembank.RepairOptions{})
	if !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("want the repair refused, got %v", err)
	}
}
