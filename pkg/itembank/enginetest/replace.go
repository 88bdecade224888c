package enginetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var replaceCases = []testCase{
	{"replace-claim", replaceClaim},
	{"replace-claim-conditions", replaceClaimConditions},
	{"replace-race", replaceRace},
	{"replace-against-confirm", replaceAgainstConfirm},
	{"replace-against-take", replaceAgainstTake},
}

// replacement returns the request that replaces a claim by one of another item, with the same end.
func replacement(c engine.Campaign, claim engine.Claim, item string) engine.CloseRequest {
	next, free := enginerows.NewClaim(c, claim.Claimant, item), enginerows.FreeItem(c, item)
	next.EndsAt = claim.EndsAt
	return engine.CloseRequest{Claim: claim, State: engine.Replaced, Next: &next, NextItem: &free}
}

// replaceClaim: the claimant has the next claim, whose item left the bank, and the item of the claim before has ended. A
// repeat finds another claim.
func replaceClaim(f *fixture) {
	c, items := f.stocked(4, 1)
	for i, endsAt := range []time.Time{{}, end} {
		claimant := fmt.Sprintf("claimant-%d", i)
		request := replacement(c, f.TakeUntil(c, claimant, items[2*i], endsAt), items[2*i+1])
		f.Close(request)
		f.wantSlot(request.Next.Key(), *request.Next)
		f.WantWhere("replaced", c, items[2*i], claimant)
		f.WantWhere("held by "+claimant, c, items[2*i+1], claimant)
		if row := f.ItemRow(c, items[2*i+1]); row.Returns != 0 || row.State != "" {
			f.Errorf("the row of the next item has changed: %+v", row)
		}
		if again, err := f.Store.CloseClaim(f.Context(), request); err != nil || !again.ClaimChanged {
			f.Errorf("a repeat: got %+v, %v", again, err)
		}
		f.wantSlot(request.Next.Key(), *request.Next)
		if i == 1 { // a claim without an end is not in the index
			f.wantDue(c, dueOf(*request.Next)...)
		}
	}
	f.WantCounts(c, engine.Counts{Loaded: 4, Claimed: 2, Ended: 2})
}

// replaceClaimConditions: each condition that fails prevents that the claim is replaced. All rows then stay as they were.
func replaceClaimConditions(f *fixture) {
	c := f.create(f.campaign(2))
	changed, gone := engine.CloseResult{ClaimChanged: true}, engine.CloseResult{ItemGone: true}
	for _, o := range []obstacle{
		{"another id", func(_ *fixture, _ engine.Campaign, r *engine.CloseRequest) { r.Claim.ID += "x" }, changed},
		{"no claim", func(f *fixture, _ engine.Campaign, r *engine.CloseRequest) {
			f.Must(f.raw.DropClaim(f.Context(), r.Claim.Key()))
		}, changed},
		{"confirmed", func(f *fixture, _ engine.Campaign, r *engine.CloseRequest) { f.confirmed(r.Claim) }, changed},
		{"another end", func(_ *fixture, _ engine.Campaign, r *engine.CloseRequest) {
			r.Claim.EndsAt = end.Add(-time.Millisecond)
		}, changed},
		{"an end, and the request has none", func(_ *fixture, _ engine.Campaign, r *engine.CloseRequest) {
			r.Claim.EndsAt = time.Time{}
		}, changed},
		{"item row of another state", func(f *fixture, c engine.Campaign, r *engine.CloseRequest) {
			f.putState(c, r.Claim.Item, engine.Withdrawn)
		}, engine.CloseResult{ItemChanged: true}},
		{"next item held", func(f *fixture, c engine.Campaign, r *engine.CloseRequest) {
			f.Take(c, "bob "+r.Next.Item, r.Next.Item)
		}, gone},
		{"next item ended", func(f *fixture, _ engine.Campaign, r *engine.CloseRequest) {
			over := *r.NextItem
			over.EndsAt = r.Next.ClaimedAt
			f.Must(f.raw.PutBankRow(f.Context(), over))
		}, gone},
		{"another id, and next item held", func(f *fixture, c engine.Campaign, r *engine.CloseRequest) {
			r.Claim.ID += "x"
			f.Take(c, "bob "+r.Next.Item, r.Next.Item)
		}, engine.CloseResult{ClaimChanged: true, ItemGone: true}},
	} {
		item, next := o.name, o.name+", next"
		f.load(c, item, next)
		request := replacement(c, f.TakeUntil(c, item, item, end), next)
		o.put(f, c, &request)
		before, beforeNext := f.Where(c, item, item), f.Where(c, next, item)
		if result, err := f.Store.CloseClaim(f.Context(), request); err != nil || result != o.want {
			f.Errorf("%s: want %+v, got %+v, %v", o.name, o.want, result, err)
		}
		f.WantWhere(before, c, item, item)
		f.WantWhere(beforeNext, c, next, item)
	}
}

// replaceRace: if several callers replace one claim at once, one of them succeeds.
func replaceRace(f *fixture) {
	const callers = 3
	c, items := f.stocked(8*(callers+1), 1)
	for n := range 8 {
		own := items[n*(callers+1):]
		claim := f.Take(c, own[0], own[0])
		var replaced atomic.Int32
		race(callers, func(i int) {
			if result := f.closeSettled(replacement(c, claim, own[i+1])); result.Closed() {
				replaced.Add(1)
			} else if !result.ClaimChanged {
				f.Errorf("a loser must find the claim changed, got %+v", result)
			}
		})
		if replaced.Load() != 1 {
			f.Errorf("a claim was replaced %d times", replaced.Load())
		}
		f.WantWhere("replaced", c, own[0], own[0])
	}
	f.WantCounts(c, engine.Counts{Loaded: int64(len(items)), Free: 8 * (callers - 1), Claimed: 8, Ended: 8})
}

// replaceAgainstConfirm: a hold is either confirmed or replaced, and no confirmation is lost.
func replaceAgainstConfirm(f *fixture) {
	c, items := f.stocked(20, 1)
	for i := 0; i < len(items); i += 2 {
		hold := f.TakeUntil(c, items[i], items[i], end)
		request := replacement(c, hold, items[i+1])
		var held *engine.Claim
		var result engine.CloseResult
		enginerows.AtOnce(
			func() { held = f.confirm(hold) },
			func() { result = f.closeSettled(request) },
		)
		confirmed := held != nil && held.ID == hold.ID
		if result.Closed() == confirmed || !result.Closed() && !result.ClaimChanged {
			f.Errorf("item %s: replaced %+v, confirmed %+v", items[i], result, held)
		}
		if want := *request.Next; confirmed {
			hold.EndsAt = time.Time{}
			f.wantSlot(hold.Key(), hold)
		} else {
			f.wantSlot(want.Key(), want)
		}
	}
}

// replaceAgainstTake: the next item goes to one claimant, and a claim that is not replaced stays.
func replaceAgainstTake(f *fixture) {
	c, items := f.stocked(20, 1)
	for i := 0; i < len(items); i += 2 {
		item, next := items[i], items[i+1]
		request := replacement(c, f.Take(c, "ann "+item, item), next)
		var result engine.CloseResult
		var taken engine.TakeResult
		enginerows.AtOnce(
			func() { result = f.closeSettled(request) },
			func() { taken = f.takeSettled(c, "bob "+item, next) },
		)
		want, wantNext := "held by ann "+item, "held by bob "+item
		if result.Closed() {
			want, wantNext = "replaced", "held by ann "+item
		}
		if result.Closed() == taken.Taken() || !result.Closed() && !result.ItemGone {
			f.Errorf("item %s: replaced %+v, taken %+v", next, result, taken)
		}
		f.WantWhere(want, c, item, "ann "+item, "bob "+item)
		f.WantWhere(wantNext, c, next, "ann "+item, "bob "+item)
	}
}
