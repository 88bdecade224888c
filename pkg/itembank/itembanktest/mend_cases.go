package itembanktest

import (
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// repairCases pin what Repair does about items with several things wrong, and beside
// another Repair.
var repairCases = []testCase{
	{"repair/two-at-once", repairTwoAtOnce},
	{"repair/several-things-wrong", repairSeveralThings},
	{"repair/texts-of-other-items", repairForeignTexts},
	{"repair/life-of-the-item", repairLife},
}

// repairTwoAtOnce: one Repair is slow. Meanwhile another one puts the lost item back, the
// campaign is opened, and somebody gets the item. It is not put back again.
func repairTwoAtOnce(f *fixture) {
	c := f.healthy("lost")
	flaws[0].plant(f, c, "lost")
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	want := f.expected(c, flaws[0])
	slow := movedBefore{f.Store, map[engine.Hash]func(){engine.HashItem("lost"): func() {
		quick := want
		quick.Repaired = true
		f.repaired(f.bank(itembank.WithClock(NewClock())), itembank.Items("lost"), quick)
		f.must(f.bank().OpenCampaign(f.ctx, f.name))
		f.take(c, "cid", "lost")
		f.must(f.bank().CloseCampaign(f.ctx, f.name))
	}}}
	f.repaired(itembank.New(slow, itembank.WithClock(NewClock())), itembank.Items("lost"), want)
	f.wantWhere("held by cid", c, "lost", "cid")
	f.reconciled()
}

// repairSeveralThings: each Repair repairs the worst of an item, and says what is left.
func repairSeveralThings(f *fixture) {
	c := f.healthy("held, free, burned", "held, free, not loaded", "free twice, withdrawn", "misplaced, not loaded")
	held := func(item string) {
		f.take(c, holder(item), item)
		f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(c, item)))
	}
	held("held, free, burned")
	f.putState(c, "held, free, burned", engine.Burned)
	held("held, free, not loaded")
	f.dropItemRow(c, "held, free, not loaded")
	f.must(f.Raw.PutBankRow(f.ctx, f.misplaced(c, "free twice, withdrawn")))
	f.putState(c, "free twice, withdrawn", engine.Withdrawn)
	f.must(f.Raw.DropBankRow(f.ctx, f.freeItem(c, "misplaced, not loaded")))
	f.must(f.Raw.PutBankRow(f.ctx, f.misplaced(c, "misplaced, not loaded")))
	f.dropItemRow(c, "misplaced, not loaded")
	f.must(f.bank().CloseCampaign(f.ctx, f.name))

	left := []struct {
		item  string
		kinds [3]string // after each Repair
	}{
		{"held, free, burned", [3]string{"held-and-ended", "held-and-ended", "held-and-ended"}},
		{"held, free, not loaded", [3]string{"held-not-loaded", "", ""}},
		{"free twice, withdrawn", [3]string{"free-and-ended", "", ""}},
		{"misplaced, not loaded", [3]string{"misplaced", "misplaced", "misplaced"}},
	}
	for n := range 3 {
		report, err := f.bank(itembank.WithClock(NewClock())).Repair(f.ctx, f.name, nil)
		f.must(err)
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

// repairForeignTexts: a row with the text of another item may be the only one that
// holds it, whatever else is wrong.
func repairForeignTexts(f *fixture) {
	c := f.healthy("withdrawn", "held", "not loaded")
	put := func(item string) engine.FreeItem {
		row := f.freeItem(c, item)
		row.Value = "the only copy, in the row of " + item
		f.must(f.Raw.PutBankRow(f.ctx, row))
		return row
	}
	rows := []engine.FreeItem{put("withdrawn"), put("not loaded")}
	f.putState(c, "withdrawn", engine.Withdrawn)
	f.dropItemRow(c, "not loaded")
	claim := f.take(c, holder("held"), "held")
	claim.Item = "another item"
	f.must(f.Raw.PutClaim(f.ctx, claim))
	free := f.freeItem(c, "held")
	f.must(f.Raw.PutBankRow(f.ctx, free))
	f.must(f.bank().CloseCampaign(f.ctx, f.name))

	report, err := f.bank(itembank.WithClock(NewClock())).Repair(f.ctx, f.name, nil)
	f.must(err)
	if len(report.Inconsistencies) != 3 {
		f.Errorf("want three differences, got %+v", report.Inconsistencies)
	}
	for _, d := range report.Inconsistencies {
		if d.Repaired {
			f.Errorf("repaired: %+v", d)
		}
	}
	for _, row := range append(rows, free) {
		if got := f.bankRow(row); got == nil || *got != row {
			f.Errorf("want the row %+v, got %+v", row, got)
		}
	}
	row, err := f.Store.ItemRow(f.ctx, c.Name, engine.HashItem("not loaded"))
	f.must(err)
	if row != nil {
		f.Errorf("an item that nobody loaded got the row %+v", row)
	}
}

// repairLife: an item whose row is put while it is held ends when the latest that could
// have been loaded before it was claimed does.
func repairLife(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1, ItemLife: time.Hour})
	f.load("held")
	claim := f.take(c, holder("held"), "held")
	f.dropItemRow(c, "held")
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	want := f.expected(c, flaw{name: "held", kind: "held-not-loaded"})
	want.Repaired = true
	f.repaired(f.bank(itembank.WithClock(NewClock())), nil, want)
	if end := f.itemRow(c, "held").EndsAt; !end.Equal(claim.ClaimedAt.Add(time.Hour)) {
		f.Errorf("claimed at %s, and it ends at %s", claim.ClaimedAt, end)
	}
}
