package itembankfault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// TestHistoriesAreChecked checks that a possible history is accepted, and that one which breaks a guarantee is
// refused with the name of the guarantee.
func TestHistoriesAreChecked(t *testing.T) {
	t.Parallel()
	const ends = int64(historyClaimLife / time.Millisecond)   // the end of every claim
	const soonest = ends - int64(mostBehind/time.Millisecond) // the end of a claim that a server made whose time is behind
	const tooEarly = soonest - 1
	at := func(clock int64, o op) op {
		if o.kind == claimOp && o.endsAt == ends {
			o.endsAt += clock
		}
		o.clockCall, o.clockDone = clock, clock
		return o
	}
	load := op{kind: loadOp, items: []string{"item-0", "item-1"}, result: ok}
	claim := func(claimant, id, item string) op {
		return op{kind: claimOp, claimant: claimant, id: id, item: item, endsAt: ends, result: ok}
	}
	replayed := func(o op) op { o.replayed = true; return o }
	answer := func(kind opKind, claimant string, r result) op { return op{kind: kind, claimant: claimant, result: r} }
	release := func(of op) op { of.kind, of.returned = releaseOp, true; return of }
	ann, bob := claim("ann", "1", "item-0"), claim("bob", "2", "item-0")
	annAgain := claim("ann", "3", "item-1")
	lost := answer(claimOp, "ann", unknown)
	found := op{kind: claimOp, campaign: second, claimant: "ann", result: elsewhere} // the claim of the lost reply
	confirm := func(of op) op { of.kind = confirmOp; return of }
	prolong := func(of op, end int64) op {
		of.kind, of.seen, of.endsAt = prolongOp, of.endsAt, end
		return of
	}
	replace := func(of op, next granted) op { of.kind, of.next = replaceOp, next; return of }
	replaced := replace(ann, granted{"1.a", "item-1", ends})
	until := func(of op, end int64) op { of.endsAt = end; return of }
	longer := at(ends, prolong(ann, 2*ends))
	permanent := func(of op) op { of.endsAt = 0; return of }
	giveUp := func(of op, r result) op { of.kind, of.returned, of.result = giveUpOp, r == ok, r; return of }
	withResult := func(of op, r result) op { of.result = r; return of }
	withdrawn := op{kind: withdrawOp, items: []string{"item-0"}, result: ok}
	marked := withResult(withdrawn, alreadyReleased)
	during := func(long op, ops ...op) []op { // one after the other, after a load and while a long request runs
		all := append([]op{load, long}, ops...)
		for i := range all {
			all[i].call, all[i].done = int64(2*i+1), int64(2*i+2)
		}
		all[1].done = int64(2*len(all) + 1)
		return all
	}
	for _, test := range []struct {
		name string
		ops  []op
		want string // a part of the violation's text; "": no violation
	}{
		{"one holder after the other", []op{load, ann, release(ann), bob}, ""},
		{"two holders of one item", []op{load, ann, bob}, "G1: item item-0"},
		{"an item that nobody loaded", []op{ann}, "G1: item item-0"},
		{"a withdrawn item", []op{load, withdrawn, ann}, "G1: item item-0"},
		{"a withdrawn item in a lost claim that closed the claim before", []op{
			load, bob, at(9*ends, lost), at(9*ends, marked), at(9*ends, replayed(ann)),
		}, ""},
		{"a withdrawn item in a lost claim while the claim before lives", []op{load, bob, lost, marked, replayed(ann)}, "G1: item item-0"},
		{"a withdrawn item that is claimed after the end of its claim", []op{load, bob, at(9*ends, marked), at(9*ends, ann)}, "G1: item item-0"},
		{"a second claim after the first's end", []op{load, ann, at(ends+graceMillis+1, annAgain)}, ""},
		{"a second claim in the first's grace", []op{load, ann, at(ends+graceMillis, annAgain)}, "G2: claimant ann"},
		{"a second claim while the first lives", []op{load, ann, annAgain}, "G2: claimant ann"},
		{"a lost reply, then the claim", []op{load, lost, replayed(ann)}, ""},
		{"a second claim after the soonest end of a lost reply's", []op{load, lost, found, at(soonest+graceMillis+1, annAgain)}, ""},
		{"a second claim in the soonest grace of a lost reply's", []op{load, lost, found, at(soonest+graceMillis, annAgain)}, "G2: claimant ann"},
		{"a lost reply of a request that finds the next claim", during(replayed(annAgain), replayed(ann), release(ann), annAgain), ""},
		{"a lost reply of no request", []op{load, replayed(ann), release(ann), annAgain, replayed(annAgain)}, "G2: claimant ann"},
		{"a request that finds a claim of no request", during(replayed(annAgain), ann, replayed(ann), release(ann)), "G2: claimant ann"},
		{"a replay of nothing", []op{load, replayed(ann)}, "G2: claimant ann"},
		{"a replay of another claim", []op{load, ann, replayed(annAgain)}, "G2: claimant ann"},
		{"sold out for a holder", []op{load, ann, answer(claimOp, "ann", soldOut)}, "G2: claimant ann"},
		{"sold out, and all are held", []op{load, ann, claim("cid", "4", "item-1"), at(2000, answer(claimOp, "bob", soldOut))}, ""},
		{"sold out half a second after a load", []op{load, at(500, answer(claimOp, "bob", soldOut))}, ""},
		{"sold out two seconds after a load", []op{load, at(2000, answer(claimOp, "bob", soldOut))}, "G5: item-0"},
		{"sold out beside the own claim of the last item", during(at(2000, ann), at(2000, answer(claimOp, "ann", soldOut))), "G5: item-0"},
		{"claim and release in either order", during(release(ann), ann), ""},
		{"two claims of one item, together", during(ann, bob), "G1: item item-0"},
		{"a hold that is confirmed, long after its end", []op{load, ann, confirm(ann), at(9*ends, replayed(permanent(ann)))}, ""},
		{"a hold that is confirmed after its end", []op{load, ann, at(9*ends, confirm(ann)), at(9*ends, replayed(permanent(ann)))}, ""},
		{"a confirmed hold that ended", []op{load, ann, confirm(ann), at(9*ends, annAgain)}, "G2: claimant ann"},
		{"the item of a confirmed hold", []op{load, ann, confirm(ann), at(9*ends, bob)}, "G1: item item-0"},
		{"a confirmed hold that keeps its end", []op{load, ann, confirm(ann), replayed(ann)}, "G2: claimant ann"},
		{"a confirmation without an answer", []op{load, ann, withResult(confirm(ann), unknown), at(9*ends, annAgain)}, ""},
		{"a confirmation of a hold that was closed", []op{load, ann, at(9*ends, bob), at(9*ends, withResult(confirm(ann), noClaim))}, ""},
		{"a confirmation refused to a holder", []op{load, ann, withResult(confirm(ann), noClaim)}, "G2: claimant ann"},
		{"a confirmation of another's item", []op{load, ann, at(9*ends, bob), at(9*ends, confirm(ann))}, "G1: item item-0"},
		{"a prolonged hold in its old grace", []op{load, ann, longer, at(ends+graceMillis+1, replayed(until(ann, 2*ends)))}, ""},
		{"a prolonged hold that ended", []op{load, ann, longer, at(2*ends+graceMillis+1, bob)}, ""},
		{"a prolonged hold that ended at its old end", []op{load, ann, longer, at(ends+graceMillis+1, annAgain)}, "G2: claimant ann"},
		{"the item of a prolonged hold", []op{load, ann, longer, at(ends+graceMillis+1, bob)}, "G1: item item-0"},
		{"a prolonged hold that keeps its end", []op{load, ann, longer, replayed(ann)}, "G2: claimant ann"},
		{"a prolongation, and again", []op{load, ann, longer, at(ends+5, prolong(ann, 2*ends))}, ""},
		{"two prolongations from one end", []op{load, ann, longer, at(2*ends, prolong(ann, 3*ends))}, "G2: claimant ann"},
		{"a prolongation of a confirmed hold", []op{load, ann, confirm(ann), at(ends, prolong(ann, 0))}, ""},
		{"a confirmed hold that gets an end", []op{load, ann, confirm(ann), longer}, "G2: claimant ann"},
		{"a prolongation without an answer", []op{load, ann, withResult(longer, unknown), at(ends+graceMillis+1, replayed(until(ann, 2*ends)))}, ""},
		{"a prolongation without an effect", []op{load, ann, withResult(longer, unknown), at(ends+graceMillis+1, bob)}, ""},
		{"a prolongation by more than a hold", []op{load, ann, at(ends-1, prolong(ann, 2*ends))}, "by more than its length"},
		{"a replacement", []op{load, ann, replaced, replayed(until(claim("ann", "1.a", "item-1"), ends))}, ""},
		{"a replaced item that returns", []op{load, ann, replaced, bob}, "G1: item item-0"},
		{"a replacement by another's item", []op{load, ann, claim("bob", "2", "item-1"), replaced}, "G1: item item-1"},
		{"a replacement that moves the end", []op{load, ann, replace(ann, granted{"1.a", "item-1", 2 * ends})}, "G2: claimant ann"},
		{"a prolongation of a replaced hold", []op{load, ann, replaced, longer}, "G2: claimant ann"},
		{"a replacement of a prolonged hold", []op{load, ann, longer, at(ends, replace(until(ann, 2*ends), granted{"1.a", "item-1", 2 * ends}))}, ""},
		{"a replacement after a prolongation without an answer", []op{
			load, ann, withResult(at(ends, prolong(ann, ends)), unknown), at(ends, replace(ann, granted{"1.a", "item-1", 2 * ends})),
		}, ""},
		{"an ended hold that is not replaced and not closed", []op{load, ann, at(ends+1, withResult(replace(ann, granted{}), noClaim)), annAgain}, "G2: claimant ann"},
		{"a prolongation of another's item", []op{load, ann, at(9*ends, bob), at(9*ends, prolong(ann, 10*ends))}, "G1: item item-0"},
		{"a hold that its holder released", []op{load, ann, giveUp(ann, ok), bob}, ""},
		{"a confirmed hold that its holder released", []op{load, ann, confirm(ann), giveUp(ann, ok)}, "G2: claimant ann"},
		{"a confirmed hold that stays", []op{load, ann, confirm(ann), giveUp(ann, isPermanent), replayed(permanent(ann))}, ""},
		{"a hold that stays as if it were confirmed", []op{load, ann, giveUp(ann, isPermanent)}, "G2: claimant ann"},
		{"a claim that ends too early", []op{load, {kind: claimOp, claimant: "ann", id: "1", item: "item-0", endsAt: tooEarly, result: ok}}, "length"},
		{"a claim that ends too late", []op{load, {kind: claimOp, claimant: "ann", id: "1", item: "item-0", endsAt: ends + 1, result: ok}}, "length"},
		{"refused without a reason", []op{load, answer(claimOp, "ann", refused)}, "a request failed"},
	} {
		h := &history{World: &World{}, program: program{onEnd: itembank.Return}, ops: slices.Clone(test.ops)}
		for i := range h.ops {
			if h.ops[i].call == 0 { // one after the other
				h.ops[i].call, h.ops[i].done = int64(2*i+1), int64(2*i+2)
			}
		}
		wantViolation(t, test.name, h.violated(h.checkResults), test.want)
	}
}

// wantViolation compares a violation with the text that it must have. An empty text means that there must be no
// violation.
func wantViolation(t *testing.T, name string, violated error, want string) {
	t.Helper()
	if (violated == nil) != (want == "") || violated != nil && !strings.Contains(violated.Error(), want) {
		t.Errorf("%s: want the violation %q, got %v", name, want, violated)
	}
}

// TestAnswersAreChecked tests the checks of a State.
func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := engine.Campaign{Name: "c", Scope: "s", OnEnd: engine.Return}
	grant := func(claimant, id, item string) itembank.Grant {
		return itembank.Grant{Claim: itembank.Claim{
			ID: id, Campaign: c.Name, Scope: c.Scope, Claimant: claimant, Slot: 1, Items: []string{item}, EndsAt: now.Add(life),
		}}
	}
	replay := grant("ann", "1", "item-0")
	replay.Replayed = true
	changed := replay
	changed.Claim.EndsAt = now
	confirmed := replay
	confirmed.Claim.EndsAt = time.Time{}
	burns := c
	burns.OnEnd = engine.Burn
	over := now.Add(life + endGrace + time.Millisecond)
	for _, test := range []struct {
		name     string
		campaign engine.Campaign
		grant    itembank.Grant
		now      time.Time
		want     string
	}{
		{"another item for another", c, grant("bob", "2", "item-1"), now, ""},
		{"an item of a load without an answer", c, grant("bob", "2", "item-2"), now, ""},
		{"an item that nobody loaded", c, grant("bob", "2", "item-3"), now, "was not loaded"},
		{"an item that is held", c, grant("bob", "2", "item-0"), now, "G1"},
		{"an item whose claim is over", c, grant("bob", "2", "item-0"), over, ""},
		{"a burned item whose claim is over", burns, grant("bob", "2", "item-0"), over, "G1"},
		{"the same claim", c, replay, now, ""},
		{"the same claim as new", c, grant("ann", "1", "item-0"), now, "as new twice"},
		{"the same claim, changed", c, changed, now, "G2"},
		{"the same claim, without its end", c, confirmed, now, "G2"},
		{"a second claim", c, grant("ann", "2", "item-1"), now, "G2"},
		{"a second claim in the first's grace", c, grant("ann", "2", "item-1"), over.Add(-1), "G2"},
		{"a second claim after the first", c, grant("ann", "2", "item-1"), over, ""},
	} {
		s := newState()
		note(s.Loaded, c.Name, "item-0", "item-1")
		note(s.Loading, c.Name, "item-2")
		if err := s.checkGrant(c, "ann", grant("ann", "1", "item-0"), now); err != nil {
			t.Fatal(err)
		}
		wantViolation(t, test.name, s.checkGrant(test.campaign, test.grant.Claim.Claimant, test.grant, test.now), test.want)
	}

	s := newState()
	note(s.Loaded, c.Name, "item-0")
	if err := s.checkGrant(c, "ann", grant("ann", "1", "item-0"), now); err != nil {
		t.Fatal(err)
	}
	s.confirm(c, "ann", "1")
	wantViolation(t, "a claim that may be confirmed", s.checkGrant(c, "ann", replay, now), "")
	wantViolation(t, "a confirmed claim", s.checkGrant(c, "ann", confirmed, now), "")
	wantViolation(t, "a confirmed claim that has an end again", s.checkGrant(c, "ann", replay, now), "G2")
	wantViolation(t, "a claim after a confirmed one", s.checkGrant(c, "ann", grant("ann", "2", "item-0"), over), "G2")

	s = newState()
	note(s.Loaded, c.Name, "item-0")
	if err := s.checkGrant(c, "ann", grant("ann", "1", "item-0"), now); err != nil {
		t.Fatal(err)
	}
	other := engine.Campaign{Name: "d", Scope: c.Scope}
	wantViolation(t, "a refusal of one without a claim", s.checkRefusal(c, "bob", itembank.ErrSoldOut, now), "")
	wantViolation(t, "a refusal of a holder", s.checkRefusal(c, "ann", itembank.ErrSoldOut, now), "G2")
	wantViolation(t, "a refusal after the claim", s.checkRefusal(c, "ann", itembank.ErrSoldOut, over), "")
	wantViolation(t, "a refusal for a claim elsewhere", s.checkRefusal(other, "ann", &itembank.ClaimedElsewhereError{Campaign: c.Name}, now), "")
	wantViolation(t, "a refusal for a claim in a third campaign", s.checkRefusal(other, "ann", &itembank.ClaimedElsewhereError{Campaign: "e"}, now), "G2")
	s.release(c, "ann", "another")
	wantViolation(t, "a refusal after the release of another claim", s.checkRefusal(c, "ann", itembank.ErrSoldOut, now), "G2")
	s.release(c, "ann", "1")
	wantViolation(t, "a refusal after a release", s.checkRefusal(c, "ann", itembank.ErrSoldOut, now), "")
	note(s.Withdrawn, c.Name, "item-0")
	wantViolation(t, "a withdrawn item, after a release", s.checkGrant(c, "bob", grant("bob", "2", "item-0"), now), "G1")
}

// rows is a store in which the test sets the places of the items.
type rows struct {
	engine.Store
	free []string
	held map[string]string // the held items, by claimant
	gone []string
}

func (r rows) FreeItems(
	context.Context, engine.Shard, engine.Range, int, engine.Consistency,
) (page engine.FreePage, err error) {
	for _, item := range r.free {
		page.Items = append(page.Items, engine.FreeItem{Value: item})
	}
	return page, nil
}

func (r rows) HeldClaim(
	_ context.Context, key engine.ClaimKey, _ engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	if r.held[key.Claimant] == "" {
		return nil, false, nil
	}
	return &engine.Claim{ID: key.Claimant, Campaign: "c", Item: r.held[key.Claimant], Claimant: key.Claimant}, false, nil
}

func (r rows) ItemRow(_ context.Context, _ string, h engine.Hash) (*engine.ItemRow, error) {
	is := func(item string) bool { return engine.HashItem(item) == h }
	switch {
	case slices.ContainsFunc(r.gone, is):
		return &engine.ItemRow{State: engine.Withdrawn}, nil
	case slices.ContainsFunc(r.free, is) || slices.ContainsFunc(slices.Collect(maps.Values(r.held)), is):
		return &engine.ItemRow{}, nil
	}
	return nil, nil
}

// TestSequencesAreChecked checks that a sequence compares the rows with its model.
func TestSequencesAreChecked(t *testing.T) {
	t.Parallel()
	c := engine.Campaign{Name: "c", Scope: "c", Shards: 1}
	model := newState()
	note(model.Loaded, "c", "item-0", "item-1", "item-2")
	note(model.Withdrawn, "c", "item-2")
	model.Told[key("c", "ann")] = Told{Claim: itembank.Claim{ID: "ann", Items: []string{"item-1"}}}
	model.Given[key("c", "item-1")] = "ann"
	for _, test := range []struct {
		store rows
		want  string
	}{
		{rows{free: []string{"item-0"}, held: map[string]string{"ann": "item-1"}, gone: []string{"item-2"}}, ""},
		{rows{free: []string{"item-0"}, held: map[string]string{"bob": "item-1"}, gone: []string{"item-2"}}, "item-1"},
		{rows{free: []string{"item-0", "item-1"}, held: map[string]string{"ann": "item-1"}, gone: []string{"item-2"}}, "item-1"},
		{rows{free: []string{"item-0", "item-2"}, held: map[string]string{"ann": "item-1"}, gone: []string{"item-2"}}, "item-2"},
		{rows{held: map[string]string{"ann": "item-1"}, gone: []string{"item-2"}}, "item-0"},
	} {
		s := &sequence{World: &World{engine: enginetest.Engine{Store: test.store}, clock: NewClock(), state: model}, c: c}
		wantViolation(t, fmt.Sprintf("%+v", test.store), s.violated(s.compare), test.want)
	}
}

// TestTooManyCalls checks that a request that would never end fails.
func TestTooManyCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t.Context(), enginetest.Engine{Store: &Store{Store: rows{}, number: maxCalls, MaxCalls: maxCalls}})
	err := w.violated(func() { w.Create("", itembank.Settings{}) })
	wantViolation(t, "one call more", err, "for ever")
}
