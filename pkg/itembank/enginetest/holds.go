package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var holdCases = []testCase{
	{"confirm-claim", confirmClaim},
	{"confirm-race", confirmRace},
	{"confirm-against-close", confirmAgainstClose},
	{"prolong-claim", prolongClaim},
	{"prolong-against-close-and-confirm", prolongAgainstOthers},
	{"due-claims", dueClaims},
	{"due-claims-that-are-over", dueClaimsThatAreOver},
	{"due-claims-in-pages", dueClaimsInPages},
}

// confirm confirms a claim while other transactions may work on its row.
func (f *fixture) confirm(claim engine.Claim) *engine.Claim {
	for {
		result, err := f.Store.ConfirmClaim(f.Context(), claim)
		if err != nil {
			f.Error(err)
			return nil
		}
		if !result.Conflict {
			return result.Held
		}
	}
}

// confirmed confirms a claim, which must succeed.
func (f *fixture) confirmed(claim engine.Claim) {
	f.Helper()
	claim.EndsAt = time.Time{}
	if got := f.confirm(claim); got == nil || *got != claim {
		f.Errorf("confirmed: want %+v, got %+v", claim, got)
	}
}

// confirmClaim: only the end of the claim changes, and only if the row has the id and the campaign. The result is the
// row after the call.
func confirmClaim(f *fixture) {
	c, items := f.stocked(2, 16)
	hold := f.TakeUntil(c, "ann", items[0], end)
	permanent := hold
	permanent.EndsAt = time.Time{}
	for _, test := range []struct {
		name   string
		change func(*engine.Claim)
		want   *engine.Claim
	}{
		{"another id", func(c *engine.Claim) { c.ID += "x" }, &hold},
		{"another campaign", func(c *engine.Claim) { c.Campaign += "x" }, &hold},
		{"another claimant", func(c *engine.Claim) { c.Claimant = "bob" }, nil},
		{"another scope", func(c *engine.Claim) { c.Scope += "x" }, nil},
		{"the hold", func(*engine.Claim) {}, &permanent},
		{"the hold again", func(*engine.Claim) {}, &permanent},
		{"another id again", func(c *engine.Claim) { c.ID += "x" }, &permanent},
	} {
		asked := engine.Claim{ID: hold.ID, Campaign: hold.Campaign, Scope: hold.Scope, Claimant: hold.Claimant, Slot: hold.Slot}
		test.change(&asked)
		got := f.confirm(asked)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			f.Errorf("%s: want %+v, got %+v", test.name, test.want, got)
		}
		if asked.Claimant == "ann" && asked.Scope == c.Scope {
			if held := f.Held(c, "ann"); held == nil || *held != *test.want {
				f.Errorf("%s: want the row %+v, got %+v", test.name, test.want, held)
			}
		}
	}
	f.WantCounts(c, engine.Counts{Loaded: 2, Free: 1, Claimed: 1})
	f.Close(enginerows.ReturnOf(c, permanent))
	if got := f.confirm(hold); got != nil {
		f.Errorf("a claim that was closed: want none, got %+v", got)
	}
	if got := f.Held(c, "ann"); got != nil {
		f.Errorf("confirming a claim that was closed made %+v", got)
	}
}

// confirmRace: if several callers confirm one claim at once, all succeed.
func confirmRace(f *fixture) {
	c, items := f.stocked(1, 16)
	hold := f.TakeUntil(c, "ann", items[0], end)
	race(racers, func(int) { f.confirmed(hold) })
}

// confirmAgainstClose: a hold is either confirmed or closed, never both.
func confirmAgainstClose(f *fixture) {
	c, items := f.stocked(20, 1)
	for i, item := range items {
		hold := f.TakeUntil(c, "ann", item, end)
		request := enginerows.ReturnOf(c, hold)
		if request.EndedBy = end.Add(time.Millisecond); i%2 > 0 {
			request.EndedBy, request.IfHold = time.Time{}, true
		}
		var held *engine.Claim
		var closed engine.CloseResult
		both := []func(){
			func() { held = f.confirm(hold) },
			func() { closed = f.closeSettled(request) },
		}
		if i%4 > 1 { // the call that is started last often runs first
			slices.Reverse(both)
		}
		enginerows.AtOnce(both...)
		if closed.Closed() == (held != nil) || !closed.Closed() && !closed.ClaimChanged {
			f.Errorf("item %s: closed %+v, confirmed %+v", item, closed, held)
		}
		if closed.Closed() {
			f.WantWhere("free", c, item, "ann")
			continue
		}
		f.WantWhere("held by ann", c, item, "ann")
		f.Close(enginerows.ReturnOf(c, hold))
	}
}

// prolong prolongs a claim while other transactions may work on its row.
func (f *fixture) prolong(claim engine.Claim, endsAt time.Time) *engine.Claim {
	for {
		result, err := f.Store.ProlongClaim(f.Context(), claim, endsAt)
		f.Must(err)
		if !result.Conflict {
			return result.Held
		}
	}
}

// prolongClaim: only the end of the claim changes, and only if the row has the id, the campaign and the end that the
// request names. The index names the new end. A close that names the old end closes nothing.
func prolongClaim(f *fixture) {
	c, items := f.stocked(2, 1)
	hold := f.TakeUntil(c, "ann", items[0], end)
	later := hold
	later.EndsAt = end.Add(time.Minute)
	for _, test := range []struct {
		name   string
		change func(*engine.Claim)
		want   *engine.Claim
	}{
		{"another id", func(c *engine.Claim) { c.ID += "x" }, &hold},
		{"another campaign", func(c *engine.Claim) { c.Campaign += "x" }, &hold},
		{"another end", func(c *engine.Claim) { c.EndsAt = c.EndsAt.Add(time.Millisecond) }, &hold},
		{"no end", func(c *engine.Claim) { c.EndsAt = time.Time{} }, &hold},
		{"another claimant", func(c *engine.Claim) { c.Claimant = "bob" }, nil},
		{"the hold", func(*engine.Claim) {}, &later},
		{"the hold again", func(*engine.Claim) {}, &later},
	} {
		asked := hold
		test.change(&asked)
		got := f.prolong(asked, later.EndsAt)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			f.Fatalf("%s: want %+v, got %+v", test.name, test.want, got)
		}
	}
	if held := f.Held(c, "ann"); held == nil || *held != later {
		f.Fatalf("want the row %+v, got %+v", later, held)
	}
	f.wantDue(c, dueOf(later)...)
	early := enginerows.ReturnOf(c, hold)
	early.EndedBy = end.Add(time.Second)
	if closed := f.closeSettled(early); !closed.ClaimChanged {
		f.Errorf("a close of the old end: %+v", closed)
	}
	f.confirmed(later)
	permanent := later
	permanent.EndsAt = time.Time{}
	if got := f.prolong(later, end.Add(time.Hour)); got == nil || *got != permanent {
		f.Errorf("a confirmed claim: want %+v, got %+v", permanent, got)
	}
	f.Close(enginerows.ReturnOf(c, permanent))
	if got := f.prolong(later, end.Add(time.Hour)); got != nil {
		f.Errorf("a claim that was closed: want none, got %+v", got)
	}
}

// prolongAgainstOthers: a hold is either prolonged and confirmed, or closed at its old end. A confirmed hold gets no end.
func prolongAgainstOthers(f *fixture) {
	c, items := f.stocked(20, 1)
	for i, item := range items {
		hold := f.TakeUntil(c, "ann", item, end)
		atOldEnd := enginerows.ReturnOf(c, hold)
		atOldEnd.EndedBy = end.Add(time.Millisecond)
		var prolonged, confirmed *engine.Claim
		closed := engine.CloseResult{ClaimChanged: true}
		calls := []func(){
			func() { prolonged = f.prolong(hold, end.Add(time.Minute)) },
			func() { confirmed = f.confirm(hold) },
			func() { closed = f.closeSettled(atOldEnd) },
		}
		if i%2 > 0 { // without the close, prolongations and confirmations meet each time
			calls = calls[:2]
		}
		if i%4 > 1 { // the call that is started last often runs first
			slices.Reverse(calls)
		}
		enginerows.AtOnce(calls...)
		switch held := f.Held(c, "ann"); {
		case closed.Closed() && (prolonged != nil || confirmed != nil || held != nil):
			f.Errorf("item %s was closed: prolonged %+v, confirmed %+v, held %+v", item, prolonged, confirmed, held)
		case !closed.Closed() && (prolonged == nil || confirmed == nil || held == nil || !held.EndsAt.IsZero()):
			f.Errorf("item %s: prolonged %+v, confirmed %+v, held %+v", item, prolonged, confirmed, held)
		case held != nil:
			f.Close(enginerows.ReturnOf(c, hold))
		}
	}
}

// due lists the due claims of a campaign's first shard, in one page.
func (f *fixture) due(c engine.Campaign, after, before time.Time) []engine.DueClaim {
	f.Helper()
	page, err := f.Store.DueClaims(f.Context(), engine.Shard{Campaign: c.Name}, after, before, 1000)
	f.Must(err)
	if page.More {
		f.Errorf("a page of %d of at most 1,000 claims has more", len(page.Claims))
	}
	return page.Claims
}

// wantDue waits until the index lists the claims in want.
func (f *fixture) wantDue(c engine.Campaign, want ...engine.DueClaim) {
	f.Helper()
	var got []engine.DueClaim
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if got = f.due(c, time.Time{}, end.Add(time.Hour)); slices.Equal(got, want) {
			return
		}
	}
	f.Errorf("want %+v due in the end, got %+v", want, got)
}

func dueOf(claims ...engine.Claim) (all []engine.DueClaim) {
	for _, c := range claims {
		all = append(all, engine.DueClaim{ClaimKey: c.Key(), EndsAt: c.EndsAt})
	}
	return all
}

// dueClaims: DueClaims lists the claims of one shard of one campaign that end in a range of times, in the order of
// their ends.
func dueClaims(f *fixture) {
	c := f.create(f.campaign(1))
	other, wide := f.campaign(1), f.campaign(2)
	other.Name += "-other" // in the same scope
	wide.Name += "-wide"
	at := func(ms int) time.Time { return end.Add(time.Duration(ms) * time.Millisecond) }
	var want []engine.Claim
	for i, claimant := range []string{"zoe", "a#b 1#", "ÿ💶"} {
		item := fmt.Sprintf("item-%d", i)
		f.load(c, item)
		want = append(want, f.TakeUntil(c, claimant, item, at(i)))
	}
	f.load(c, "for ever")
	f.Take(c, "for ever", "for ever")
	f.load(f.create(other), "x")
	f.TakeUntil(other, "of another campaign", "x", at(1))
	f.load(f.create(wide), enginerows.Texts("code", 20)...)
	var first []engine.Claim
	for _, item := range enginerows.Texts("code", 20) {
		claim := f.TakeUntil(wide, item, item, at(1))
		if enginerows.FreeItem(wide, item).Shard.Number == 0 {
			first = append(first, claim)
		}
	}
	f.wantDue(c, dueOf(want...)...)
	for _, test := range []struct {
		name          string
		after, before time.Time
		want          []engine.DueClaim
	}{
		{"from an end on", at(1), at(9), dueOf(want[1:]...)},
		{"before an end", time.Time{}, at(2), dueOf(want[:2]...)},
		{"one moment", at(1), at(2), dueOf(want[1])},
		{"no time", at(1), at(1), nil},
		{"a wrong order", at(2), at(1), nil},
		{"before all", time.Time{}, at(0), nil},
	} {
		if got := f.due(c, test.after, test.before); !slices.Equal(got, test.want) {
			f.Errorf("%s: want %+v, got %+v", test.name, test.want, got)
		}
	}
	if got := f.due(wide, time.Time{}, at(9)); len(got) != len(first) || len(got) == 0 || len(got) == 20 {
		f.Errorf("want the %d claims of one shard of two, got %d", len(first), len(got))
	}
}

// dueClaimsThatAreOver: after some time the index no longer has claims that were confirmed or closed.
func dueClaimsThatAreOver(f *fixture) {
	c, items := f.stocked(3, 1)
	ann := f.TakeUntil(c, "ann", items[0], end)
	bob := f.TakeUntil(c, "bob", items[1], end.Add(time.Millisecond))
	cid := f.TakeUntil(c, "cid", items[2], end.Add(time.Minute))
	f.wantDue(c, dueOf(ann, bob, cid)...)
	f.confirmed(ann)
	f.Close(enginerows.ReturnOf(c, bob))
	f.wantDue(c, dueOf(cid)...)
}

// dueClaimsInPages: pages that each begin at the last end of the page before have all claims.
func dueClaimsInPages(f *fixture) {
	c, items := f.stocked(9, 1)
	var want []engine.DueClaim
	for i, item := range items {
		want = append(want, dueOf(f.TakeUntil(c, item, item, end.Add(time.Duration(i)*time.Millisecond)))...)
	}
	f.wantDue(c, want...)
	var got []engine.DueClaim
	for after := (time.Time{}); ; {
		page, err := f.Store.DueClaims(f.Context(), engine.Shard{Campaign: c.Name}, after, end.Add(time.Hour), 4)
		f.Must(err)
		if len(page.Claims) > 4 || page.More && len(page.Claims) == 0 {
			f.Fatalf("want 1 to 4 claims, or no more; got %+v", page)
		}
		got = append(got, page.Claims...)
		if !page.More {
			break
		}
		after = page.Claims[len(page.Claims)-1].EndsAt.Add(time.Millisecond)
	}
	if !slices.Equal(got, want) {
		f.Errorf("want %+v, got %+v", want, got)
	}
}
