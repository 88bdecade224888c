package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var replayCases = []testCase{
	{"free-missing-and-lost-items", replayClaims},
	{"hold-that-was-confirmed", replayConfirms},
	{"what-is-refused", replayRefuses},
	{"conflicting-lines", replayConflictingLines},
	{"busy-rows", replayBusyRows},
	{"invalid-lines", replayInvalidLines},
	{"open-campaign-is-refused", replayRefusesOpen},
	{"replay-waits-for-requests-under-way", replayWaits},
}

// replayOf returns a source of claims.
func replayOf(claims ...itembank.Claim) itembank.ClaimSource {
	return func() iter.Seq2[itembank.ClaimLine, error] {
		return func(yield func(itembank.ClaimLine, error) bool) {
			for i, c := range claims {
				if !yield(itembank.ClaimLine{Number: int64(i) + 1, Claim: c}, nil) {
					return
				}
			}
		}
	}
}

// replayed replays claims, and compares the lines of the report. Before that it checks that a dry run reports the
// same and changes nothing.
func (f *fixture) replayed(claims []itembank.Claim, want ...itembank.ReplayedLine) {
	f.Helper()
	b := f.bank(itembank.WithClock(itembankfault.NewClock()))
	counts, err := b.Counts(f.ctx, f.name)
	f.Must(err)
	would, err := b.ReplayDryRun(f.ctx, f.name, replayOf(claims...))
	f.Must(err)
	f.wantCounts(engine.Counts(counts))
	report, err := b.Replay(f.ctx, f.name, replayOf(claims...))
	f.Must(err)
	for i := range want {
		want[i].Line, want[i].Claimant, want[i].ClaimID = int64(i)+1, claims[i].Claimant, claims[i].ID
	}
	if !slices.Equal(report.Lines, want) {
		f.Errorf("want the lines\n%+v, got\n%+v", want, report.Lines)
	}
	if would.DryRun = false; fmt.Sprint(would) != fmt.Sprint(report) {
		f.Errorf("the dry run said\n%+v, the replay did\n%+v", would, report)
	}
	if n := report.Replayed + report.Already + report.OtherCampaign + report.Refused; n != int64(len(report.Lines)) {
		f.Errorf("%d of %d lines are counted: %+v", n, len(report.Lines), report)
	}
}

// claimOf returns a lost claim, with the fields that its customer knows.
func claimOf(claimant, item string) itembank.Claim {
	at := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Hour)
	return itembank.Claim{ID: enginerows.NewName(), Claimant: claimant, Slot: 1, Items: []string{item}, ClaimedAt: at, EndsAt: at.Add(24 * time.Hour)}
}

// replayClaims: each claimant gets exactly the claim of the line, whether a restore left its item free or missing,
// and also after a Repair.
func replayClaims(f *fixture) {
	c := f.create(itembank.Settings{Shards: 2})
	f.load("free", "missing", "lost", "other")
	claims := []itembank.Claim{claimOf("ann", "free"), claimOf("bob", "missing"), claimOf("cid", "lost")}
	f.dropBankRow(enginerows.FreeItem(c, "missing"))
	f.dropBankRow(enginerows.FreeItem(c, "lost"))
	f.putState(c, "lost", engine.Lost)
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))

	var done, again []itembank.ReplayedLine
	for _, claim := range claims {
		done = append(done, itembank.ReplayedLine{Outcome: "replayed"})
		again = append(again, itembank.ReplayedLine{Outcome: "already", HeldClaimID: claim.ID})
	}
	f.replayed(claims, done...)
	for _, claim := range claims {
		f.WantWhere("held by "+claim.Claimant, c, claim.Items[0], claim.Claimant)
		claim.Campaign, claim.Scope = c.Name, c.Scope
		if held := f.Held(c, claim.Claimant); *held != rowOf(claim) {
			f.Errorf("want %+v, got %+v", rowOf(claim), held)
		}
	}
	f.reconciled()
	f.replayed(claims, again...)
	f.wantCounts(engine.Counts{Loaded: 4, Free: 1, Claimed: 3})

	// Only the claimant and the item of a claim are required.
	report, err := f.bank(itembank.WithClock(itembankfault.NewClock())).Replay(f.ctx, f.name,
		replayOf(itembank.Claim{Claimant: "dan", Items: []string{"other"}}))
	f.Must(err)
	held := f.Held(c, "dan")
	if held == nil || held.ID == "" || held.ID != report.Lines[0].ClaimID || held.ClaimedAt.IsZero() || !held.EndsAt.IsZero() {
		f.Errorf("want a claim with a new id and no end, got %+v, %+v", held, report)
	}
}

// replayConfirms: after a restore, a hold that was confirmed later is not confirmed. If the line is of that claim, the
// replay confirms it and reports so. A line with a later end prolongs it, and a line with an earlier end changes nothing.
func replayConfirms(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1, Hold: time.Hour})
	f.load("a", "b", "c", "d")
	hold := func(claimant, item string) itembank.Claim {
		claim := enginerows.NewClaim(c, claimant, item)
		claim.EndsAt = claim.ClaimedAt.Add(c.Hold)
		result, err := f.Store.Take(f.ctx, []engine.FreeItem{enginerows.FreeItem(c, item)}, claim)
		f.Must(err)
		if !result.Taken() {
			f.Fatalf("not taken: %+v", result)
		}
		return itembank.Claim{ID: claim.ID, Claimant: claimant, Items: []string{item}, ClaimedAt: claim.ClaimedAt, EndsAt: claim.EndsAt}
	}
	anns, bobs, cids, dans := hold("ann", "a"), hold("bob", "b"), hold("cid", "c"), hold("dan", "d")
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	confirmed, other := anns, cids
	confirmed.EndsAt = time.Time{}
	other.ID, other.EndsAt = "another", time.Time{}
	prolonged := dans
	prolonged.EndsAt = dans.EndsAt.Add(time.Minute)
	f.replayed([]itembank.Claim{anns, confirmed, bobs, other, confirmed, dans, prolonged, dans},
		itembank.ReplayedLine{Outcome: "already", HeldClaimID: anns.ID},
		itembank.ReplayedLine{Outcome: "confirmed", HeldClaimID: anns.ID},
		itembank.ReplayedLine{Outcome: "already", HeldClaimID: bobs.ID},
		itembank.ReplayedLine{Outcome: "already", HeldClaimID: cids.ID},
		itembank.ReplayedLine{Outcome: "already", HeldClaimID: anns.ID},
		itembank.ReplayedLine{Outcome: "already", HeldClaimID: dans.ID},
		itembank.ReplayedLine{Outcome: "prolonged", HeldClaimID: dans.ID},
		itembank.ReplayedLine{Outcome: "already", HeldClaimID: dans.ID},
	)
	if end := f.Held(c, "dan").EndsAt; !end.Equal(prolonged.EndsAt) {
		f.Errorf("want the hold of dan prolonged until %s, it ends at %s", prolonged.EndsAt, end)
	}
	if !f.Held(c, "ann").EndsAt.IsZero() || f.Held(c, "bob").EndsAt.IsZero() || f.Held(c, "cid").EndsAt.IsZero() {
		f.Error("want the hold of ann confirmed, and no other")
	}
}

// replayRefuses: no claimant loses an item or gets a second one, and no claimant gets an item that has ended or was
// never loaded.
func replayRefuses(f *fixture) {
	c := f.create(itembank.Settings{Shards: 2, Scope: f.name + "-scope", ItemLife: 2 * time.Hour})
	f.load("a", "b", "free", "burned", "old", "twice")
	other := f.createNamed(c.Name+"-other", itembank.Settings{Scope: c.Scope})
	f.loadInto(other.Name, "elsewhere")
	f.Take(other, "eve", "elsewhere")
	anns := f.Take(c, "ann", "a")
	bobs := f.Take(c, "bob", "b")
	f.Close(enginerows.BurnOf(c, f.Take(c, "zoe", "burned")))
	f.putBankRow(f.misplaced(c, "twice"))
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	late := claimOf("fay", "old")
	late.ClaimedAt = time.Now().Add(3 * time.Hour)
	otherClaim := claimOf("gus", "free")
	otherClaim.Campaign = other.Name

	f.replayed([]itembank.Claim{
		claimOf("ann", "free"), claimOf("cid", "b"), claimOf("eve", "free"), claimOf("dan", "burned"), late,
		claimOf("dan", "never loaded"), claimOf("dan", "twice"), otherClaim,
	},
		itembank.ReplayedLine{Outcome: "holds-another", HeldClaimID: anns.ID},
		itembank.ReplayedLine{Outcome: "item-held", HeldClaimID: bobs.ID, HeldBy: "bob"},
		itembank.ReplayedLine{Outcome: "claimed-elsewhere", Campaign: other.Name},
		itembank.ReplayedLine{Outcome: "item-ended", State: "burned"},
		itembank.ReplayedLine{Outcome: "item-ended"},
		itembank.ReplayedLine{Outcome: "not-loaded"},
		itembank.ReplayedLine{Outcome: "inconsistent", Kind: "free-twice"},
		itembank.ReplayedLine{Outcome: "other-campaign", Campaign: other.Name},
	)
	f.wantCounts(engine.Counts{Loaded: 6, Free: 4, Claimed: 2, Ended: 1})
}

// replayConflictingLines: if two lines exclude each other, the first one counts.
func replayConflictingLines(f *fixture) {
	c := f.create(itembank.Settings{Shards: 2})
	f.load("a", "b")
	f.dropBankRow(enginerows.FreeItem(c, "b"))
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	ann, bob := claimOf("ann", "a"), claimOf("bob", "b")
	f.replayed([]itembank.Claim{ann, claimOf("ann", "b"), claimOf("bob", "a"), bob, claimOf("cid", "b")},
		itembank.ReplayedLine{Outcome: "replayed"},
		itembank.ReplayedLine{Outcome: "holds-another", HeldClaimID: ann.ID},
		itembank.ReplayedLine{Outcome: "item-held", HeldClaimID: ann.ID, HeldBy: "ann"},
		itembank.ReplayedLine{Outcome: "replayed"},
		itembank.ReplayedLine{Outcome: "item-held", HeldClaimID: bob.ID, HeldBy: "bob"},
	)
}

// repairAll repairs the closed campaign.
func (f *fixture) repairAll(items itembank.Source) {
	f.Helper()
	_, err := f.bank(itembank.WithClock(itembankfault.NewClock())).Repair(f.ctx, f.name, itembank.RepairOptions{Items: items})
	f.Must(err)
}

// replayBusyRows: a Replay tries again while the store is busy or throttled.
func replayBusyRows(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1})
	f.load("a")
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	busy := &itembankfault.Store{Store: f.Store, TakeResults: []engine.TakeResult{{ItemConflict: true}, {ClaimConflict: true}, {ItemThrottled: true}}}
	report, err := itembank.NewOperator(busy, itembank.WithClock(itembankfault.NewClock())).Replay(f.ctx, f.name, replayOf(claimOf("ann", "a")))
	if err != nil || report.Replayed != 1 {
		f.Errorf("want the claim made, got %+v, %v", report, err)
	}
	f.WantWhere("held by ann", c, "a", "ann")
}

// replayInvalidLines: if one line is invalid, nothing is changed.
func replayInvalidLines(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1})
	f.load("a")
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	b := f.bank(itembank.WithClock(itembankfault.NewClock()))
	early := claimOf("bob", "b")
	early.ClaimedAt = time.Unix(0, 0)
	endless := claimOf("bob", "b")
	endless.EndsAt = time.Unix(0, 0)
	for _, bad := range []itembank.Claim{
		claimOf("", "b"), claimOf("bob", ""), claimOf("b\tb", "b"), early, endless,
		{Claimant: "bob"},
		{Claimant: "bob", Items: []string{"b"}, ID: "\n"},
		{Claimant: "bob", Items: []string{"b"}, Slot: 2}, // a claimant has one claim in the campaign
		{Claimant: "bob", Items: []string{"b"}, Slot: -1},
		{Claimant: "bob", Items: []string{"b", "c"}}, // items of the campaign cannot be chosen
	} {
		report, err := b.Replay(f.ctx, f.name, replayOf(claimOf("ann", "a"), bad))
		var line *itembank.LineError
		if !errors.As(err, &line) || line.Line != 2 || !errors.Is(err, itembank.ErrInvalid) || len(report.Lines) > 0 {
			f.Errorf("%+v: want line 2 refused, got %+v, %v", bad, report, err)
		}
	}
	broken := func() iter.Seq2[itembank.ClaimLine, error] {
		return func(yield func(itembank.ClaimLine, error) bool) { yield(itembank.ClaimLine{}, errCut) }
	}
	if _, err := b.Replay(f.ctx, f.name, broken); !errors.Is(err, errCut) {
		f.Errorf("want the source's error, got %v", err)
	}
	f.WantWhere("free", c, "a", "ann")
}

func replayRefusesOpen(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1})
	f.load("a")
	clock := itembankfault.NewClock()
	b, begun := f.bank(itembank.WithClock(clock)), clock.Now()
	for _, replay := range []func(context.Context, string, itembank.ClaimSource) (itembank.ReplayReport, error){b.Replay, b.ReplayDryRun} {
		if _, err := replay(f.ctx, f.name, replayOf(claimOf("ann", "a"))); !errors.Is(err, itembank.ErrInvalid) || !clock.Now().Equal(begun) {
			f.Errorf("want it refused at once, got %v", err)
		}
	}
	f.WantWhere("free", c, "a", "ann")

	// The campaign is opened before the first claim, or after the last.
	for method, where := range map[string]string{"ListClaims": "free", "Take": "held by ann"} {
		f.Must(f.bank().CloseCampaign(f.ctx, f.name))
		opened := f.interruptedAt(1, false, func() error { return f.bank().OpenCampaign(f.ctx, f.name) }, method)
		_, err := itembank.NewOperator(opened, itembank.WithClock(itembankfault.NewClock())).Replay(f.ctx, f.name, replayOf(claimOf("ann", "a")))
		if !errors.Is(err, itembank.ErrReopened) {
			f.Errorf("opened at %s: want %v, got %v", method, itembank.ErrReopened, err)
		}
		f.WantWhere(where, c, "a", "ann")
		f.Must(f.raw.DropClaim(f.ctx, engine.ClaimKey{Scope: c.Scope, Claimant: "ann", Slot: 1}))
		f.putBankRow(enginerows.FreeItem(c, "a"))
	}
}

// replayWaits: a container that does not know yet that the campaign is closed hands out the item.
func replayWaits(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1})
	f.load("a")
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	clock := interruptedClock{Clock: itembankfault.NewClock()}
	clock.asleep = func(d time.Duration) {
		if d != itembank.DrainTime {
			f.Errorf("want a wait of %s, got %s", itembank.DrainTime, d)
		}
		f.Take(c, "late", "a")
	}
	report, err := f.bank(itembank.WithClock(clock)).Replay(f.ctx, f.name, replayOf(claimOf("ann", "a")))
	if err != nil || report.Lines[0].Outcome != "item-held" {
		f.Errorf("want the item held, got %+v, %v", report, err)
	}
}
