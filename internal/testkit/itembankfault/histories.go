package itembankfault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// In a history several clients send requests at the same time, through two Banks, to two campaigns that share a
// scope. Some calls of the store fail. A client whose call failed does not know whether the call took effect.

var claimants = []string{"ann", "bob", "cid"}

// slotHolders are the holders in a campaign whose claimants have two claims.
var slotHolders = []string{"ann", "ann/2", "bob"}

// program holds the requests of the clients of a history, and its options.
type program struct {
	onEnd   itembank.OnEnd
	holds   bool     // claims are holds
	emails  bool     // claimants are spelt in several ways
	choice  bool     // claimants may name items
	columns bool     // items have columns
	slots   bool     // claimants have two claims, in one campaign
	loaded  []string // the items that are loaded into each campaign before the clients begin
	clients [][]op
	faults  []Fault // the faults of the calls of the store, in turn
	// ahead is how far the clocks of the two Banks are ahead of the server's.
	ahead [2]time.Duration
	full  bool // the last check reads all rows

	// half is a run on an engine whose transactions are partly visible for a while, in a synctest bubble. If it is
	// nil, each transaction becomes visible at once.
	half *halfRun
}

// holders lists the holders that the clients claim for.
func (p program) holders() []string {
	if p.slots {
		return slotHolders
	}
	return claimants
}

// second is the end of the name of the second campaign of a history.
const second = "-1"

var bothCampaigns = []string{"", second}

const (
	historyClaimLife = 30 * time.Second
	historyMaxHold   = 75 * time.Second
)

var (
	programs     = rapid.Custom(func(t *rapid.T) program { return drawProgram(t, claimants, "item-0", "item-1") })
	halfPrograms = rapid.Custom(func(t *rapid.T) program {
		p := drawProgram(t, claimants[:2], "item-0")
		if p.half = drawHalfRun(t); rapid.Bool().Draw(t, "no faults") {
			p.faults = []Fault{None}
		}
		return p
	})
)

func drawProgram(t *rapid.T, claimants []string, loaded ...string) program {
	p := program{loaded: loaded, onEnd: rapid.SampledFrom([]itembank.OnEnd{itembank.Return, itembank.Burn}).Draw(t, "on end")}
	p.emails = rapid.Bool().Draw(t, "emails")
	p.choice = rapid.Bool().Draw(t, "choice")
	p.columns = rapid.Bool().Draw(t, "columns")
	p.slots = rapid.IntRange(0, 3).Draw(t, "slots") == 0
	holders := p.holders()[:len(claimants)]
	p.holds = p.onEnd == itembank.Return && rapid.Bool().Draw(t, "holds")
	kinds := []opKind{claimOp, claimOp, claimOp, claimOp, releaseOp, releaseOp, replaceOp, loadOp, withdrawOp, sweepOp, sweepDueOp, advanceOp}
	if p.holds {
		kinds = append(kinds, confirmOp, confirmOp, prolongOp, prolongOp, giveUpOp, advanceOp)
	}
	item := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("item-%d", rapid.IntRange(0, 5).Draw(t, "item")) })
	request := rapid.Custom(func(t *rapid.T) op {
		o := op{
			kind: rapid.SampledFrom(kinds).Draw(t, "kind"), bank: rapid.IntRange(0, 1).Draw(t, "bank"),
			campaign: rapid.SampledFrom([]string{"", "", "", second}).Draw(t, "campaign"),
		}
		if p.slots {
			o.campaign = "" // the second campaign has another scope
		}
		switch o.kind {
		case claimOp, releaseOp, confirmOp, prolongOp, giveUpOp, replaceOp:
			o.claimant = rapid.SampledFrom(holders).Draw(t, "claimant")
			if o.kind == claimOp && p.choice {
				o.chosen = rapid.SliceOfNDistinct(item, 0, 3, rapid.ID[string]).Draw(t, "chosen")
			}
		case loadOp:
			o.items = rapid.SliceOfN(item, 1, 3).Draw(t, "items")
		case withdrawOp:
			o.items = []string{item.Draw(t, "item")}
		case advanceOp:
			o.forward = rapid.SampledFrom([]time.Duration{600 * time.Millisecond, 1100 * time.Millisecond, 12 * time.Second, 31 * time.Second}).Draw(t, "forward")
		}
		return o
	})
	p.clients = rapid.SliceOfN(rapid.SliceOfN(request, 4, 10), 3, 4).Draw(t, "clients")
	fault := rapid.SampledFrom([]Fault{
		None, None, None, None, None, None,
		FailedBefore, LostReply, SlowReply, Throttled, ClaimConflict, ItemConflict, BothConflict, CancelledBefore, CancelledAfter,
	})
	p.faults = rapid.SliceOfN(fault, 7, 41).Draw(t, "faults")
	for i := range p.ahead {
		p.ahead[i] = rapid.SampledFrom([]time.Duration{0, 0, -20 * time.Minute, time.Hour}).Draw(t, "ahead")
	}
	p.full = rapid.IntRange(1, fullCheckEvery).Draw(t, "full check") == fullCheckEvery
	return p
}

// RunHistories plays random programs. rapid's flag -rapid.checks sets their number.
//
// A failure prints all requests and results, because another run may not show it: clients are not scheduled in the
// same way twice.
func RunHistories(t *testing.T, newEngine func(testing.TB) enginetest.Engine) {
	e := newEngine(t)
	rapid.Check(t, func(rt *rapid.T) {
		if err := playProgram(t.Context(), e, programs.Draw(rt, "program"), nil); err != nil {
			rt.Fatal(err)
		}
	})
}

// history is the state of a program while it runs.
type history struct {
	*World
	program program
	banks   []*itembank.Operator
	moment  atomic.Int64
	mu      sync.Mutex // guards the rest
	told    map[string]op
	ops     []op
}

func playProgram(ctx context.Context, e enginetest.Engine, p program, m *Mutant) error {
	h := &history{World: newWorld(ctx, e), program: p, told: map[string]op{}}
	clients := e.Store
	if p.half != nil {
		clients = p.half.start(h.World)
	}
	return h.violated(func() {
		s := itembank.Settings{Scope: "-scope", Shards: 1, OnEnd: p.onEnd}
		s.Choice, s.Columns = p.choice, p.columns
		if p.choice {
			s.MaxItems = engine.MaxClaimItems
		}
		if p.slots {
			s.Scope, s.PerClaimant = "", 2
		}
		if p.emails {
			s.ClaimantAs = itembank.Email
		}
		if p.holds {
			s.Hold, s.MaxHold = historyClaimLife, historyMaxHold
		} else {
			s.ClaimLife = historyClaimLife
		}
		h.Create("", s)
		s.Shards = 2 // claims must not depend on the number of shards
		h.Create(second, s)
		for i := range 2 {
			h.banks = append(h.banks, h.brokenBank(i, clients, m))
		}
		for _, campaign := range bothCampaigns {
			h.do(h.bank, op{kind: loadOp, campaign: campaign, items: p.loaded})
		}
		if p.half != nil {
			h.clock.Advance(2 * emptyMemory) // from now on no answer may be "sold out" while an item is free
		}
		var all sync.WaitGroup
		for i, requests := range p.clients {
			all.Go(func() {
				if p.half != nil {
					p.half.begin(i)
				}
				for _, o := range requests {
					h.do(h.banks[o.bank], o)
				}
			})
		}
		all.Wait()
		h.newBank()
		for _, claimant := range p.holders() {
			h.do(h.bank, op{kind: claimOp, claimant: claimant})
		}
		h.trace = nil
		for _, o := range h.ops {
			h.trace = append(h.trace, o.String())
		}
		h.check()
	})
}

// brokenBank returns a Bank on a store whose calls fail as the faults of the program say.
func (h *history) brokenBank(i int, store engine.Store, m *Mutant) *itembank.Operator {
	broken := &Store{
		Store: store, MaxCalls: maxCalls, Server: h.clock, indexBehind: true,
		Plan: func(call int, method string) Fault {
			fault := h.program.faults[(call+i*3)%len(h.program.faults)]
			if fault == SlowReply && method != "FreeItems" {
				return None
			}
			return fault
		},
		Slow: func() {
			h.clock.Advance(600 * time.Millisecond)
			time.Sleep(200 * time.Microsecond)
		},
	}
	if h.program.half == nil {
		broken.Before, broken.Server = pause, &steppingBack{Clock: h.clock}
	}
	through := engine.Store(broken)
	if m != nil && m.aboveFaults {
		through = m.Wrap(enginetest.Engine{Store: broken, Raw: h.engine.Raw}, h.clock)
	} else if m != nil {
		broken.Store = m.Wrap(enginetest.Engine{Store: store, Raw: h.engine.Raw}, h.clock)
	}
	return itembank.NewOperator(through, itembank.WithClock(ahead{h.clock, h.program.ahead[i]}), itembank.WithRandom(h.random))
}

// pause waits for a moment before a write, so that other requests come between a request's reads and its write.
func pause(method string) error {
	if slices.Contains([]string{"Take", "CloseClaim", "ConfirmClaim", "ProlongClaim"}, method) {
		time.Sleep(rand.N(400 * time.Microsecond))
	}
	return nil
}

// do makes a request once, and records the result.
func (h *history) do(bank *itembank.Operator, o op) {
	ctx, cancel := cancellable(h.ctx)
	defer cancel()
	if !h.address(&o) {
		return // nothing to release, confirm or prolong
	}
	o.clockCall, o.call = h.clock.Now().UnixMilli(), h.moment.Add(1)
	err := h.request(ctx, bank, &o)
	o.done, o.clockDone = h.moment.Add(1), h.clock.Now().UnixMilli()
	h.judge(ctx, &o, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
	if told := h.told[o.claimant]; (o.kind == claimOp || o.kind == replaceOp) && o.result == ok {
		h.told[o.claimant] = o.answered()
	} else if o.kind == prolongOp && o.result == ok && told.id == o.id {
		told.endsAt = o.endsAt
		h.told[o.claimant] = told
	}
}

// address gives a request about a claim the claim that its claimant was told of. It reports whether there is one that the
// request can be about: one with an end for a prolongation, and one of a single item for a replacement.
func (h *history) address(o *op) bool {
	if o.claimant == "" || o.kind == claimOp {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if told, ok := h.told[o.claimant]; ok {
		o.id, o.item, o.more, o.campaign, o.endsAt = told.id, told.item, told.more, told.campaign, told.endsAt
		o.seen = told.endsAt
	}
	return o.id != "" && (o.kind != prolongOp || o.seen != 0) && (o.kind != replaceOp || len(o.more) == 0)
}

// request sends a request, and notes in it what its answer says.
func (h *history) request(ctx context.Context, bank *itembank.Operator, o *op) (err error) {
	c := h.campaigns[o.campaign]
	who, slot := h.spelling(c, o.claimant)
	switch o.kind {
	case claimOp:
		g, err := bank.Claim(ctx, c.Name, who, slot, itembank.Choosing(o.chosen...))
		return h.granted(o, g, err)
	case releaseOp:
		r, err := bank.Release(ctx, c.Name, who, o.id, slot)
		return o.released(r, err)
	case giveUpOp:
		r, err := bank.ReleaseHold(ctx, c.Name, who, o.id, slot)
		return o.released(r, err)
	case confirmOp:
		claim, err := bank.Confirm(ctx, c.Name, who, o.id, slot)
		return h.confirmed(o, claim, err)
	case prolongOp:
		claim, err := bank.Prolong(ctx, c.Name, who, o.id, time.UnixMilli(o.seen), slot)
		return h.prolonged(o, claim, err)
	case replaceOp:
		g, err := bank.Replace(ctx, c.Name, who, o.id, slot)
		if err != nil {
			return err
		}
		o.next, o.replayed = grantedBy(g.Claim), g.Replayed
		return h.checkColumns(*o, g.Claim)
	case loadOp:
		_, err = bank.Load(ctx, c.Name, itemsFor(c, o.items...), nil)
	case withdrawOp:
		var r itembank.WithdrawReport
		if r, err = bank.Withdraw(ctx, c.Name, itembank.Items(o.items...)); r.Withdrawn == 0 && err == nil {
			o.result = alreadyReleased
		}
	case sweepOp:
		_, err = bank.Sweep(ctx, c.Name, nil)
	case sweepDueOp:
		_, err = bank.SweepDue(ctx, c.Name, nil)
	case advanceOp:
		h.clock.Advance(o.forward)
	}
	return err
}

// granted notes the claim of an answer. It returns an error if the claim has wrong columns.
func (h *history) granted(o *op, g itembank.Grant, err error) error {
	if err != nil {
		return err
	}
	o.names(g.Claim)
	o.replayed = g.Replayed
	return h.checkColumns(*o, g.Claim)
}

// released notes the answer to a release.
func (o *op) released(r itembank.Released, err error) error {
	if o.returned = r.Returned; r.Already {
		o.result = alreadyReleased
	}
	return err
}

// confirmed returns an error if a confirmation answers with a claim that is not the request's, or that has an end.
func (h *history) confirmed(o *op, claim itembank.Claim, err error) error {
	switch {
	case err != nil:
		return err
	case claim.ID != o.id || claim.Items[0] != o.item || !slices.Equal(claim.Items[1:], o.more) || !claim.EndsAt.IsZero():
		return fmt.Errorf("confirmed %+v", claim)
	}
	return h.checkColumns(*o, claim)
}

// prolonged notes the end in the answer to a prolongation. It returns an error if the answer has a claim that is not the
// request's, or one that ended earlier or ends too late.
func (h *history) prolonged(o *op, claim itembank.Claim, err error) error {
	if err != nil {
		return err
	}
	asked := *o
	o.names(claim)
	last := claim.ClaimedAt.Add(historyMaxHold).UnixMilli()
	if o.id != asked.id || o.item != asked.item || !slices.Equal(o.more, asked.more) || o.endsAt != 0 && o.endsAt < o.seen || o.endsAt > last {
		return fmt.Errorf("prolonged %+v", claim)
	}
	return h.checkColumns(*o, claim)
}

// results are the results of errors. The first error that matches counts.
var results = []struct {
	err    error
	result result
}{
	{itembank.ErrItemTaken, notFree},
	{itembank.ErrSoldOut, soldOut},
	{itembank.ErrNoClaim, noClaim},
	{itembank.ErrClaimEnded, otherID},
	{itembank.ErrConfirmed, isPermanent},
	{itembank.ErrRefused, refused},
}

// judge sets the result of a request that has ended with err.
func (h *history) judge(ctx context.Context, o *op, err error) {
	if err == nil {
		o.result = cmp.Or(o.result, ok)
		return
	}
	cancelled := ctx.Err() != nil && errors.Is(err, context.Canceled) // the request's own context ended
	if !errors.Is(err, itembank.ErrTryAgain) && !errors.Is(err, itembank.ErrRefused) && !cancelled {
		o.item, o.result = err.Error(), unexpected
		return
	}
	var other *itembank.ClaimedElsewhereError
	if errors.As(err, &other) {
		o.result = elsewhere
		o.elsewhere = strings.TrimPrefix(other.Campaign, h.name)
		return
	}
	o.result = unknown
	for _, r := range results {
		if errors.Is(err, r.err) {
			o.result = r.result
			return
		}
	}
}

// checkColumns checks the columns of a claim in an answer.
func (h *history) checkColumns(o op, claim itembank.Claim) error {
	if want := wantColumns(h.campaigns[o.campaign], claim); !slices.Equal(claim.Columns, want) {
		return fmt.Errorf("%v have the columns %q, and were loaded with %q", claim.Items, claim.Columns, want)
	}
	return nil
}

// check checks the results, and then the rows.
func (h *history) check() {
	h.checkResults()
	h.checkRest()
}

// checkResults looks for an order of all requests that explains their results, for each
// claimant and for each item.
func (h *history) checkResults() {
	h.splitLost()
	h.findEnds()
	for _, o := range h.ops {
		if o.result == unexpected || (o.kind == claimOp || o.kind == replaceOp) && o.result == refused {
			h.fail("a request failed: %s", o)
		}
		life, behind := historyClaimLife.Milliseconds(), mostBehind.Milliseconds()
		made := o.kind == claimOp && o.result == ok && !o.replayed
		if made && (o.endsAt < o.clockCall+life-behind || o.endsAt > o.clockDone+life) {
			h.fail("a claim has not the length of all others: %s", o)
		}
		if o.kind == prolongOp && o.result == ok && o.endsAt > max(o.seen, o.clockDone+life) {
			h.fail("a hold was prolonged by more than its length: %s", o)
		}
	}
	rules := rules{onEnd: h.program.onEnd, stale: h.program.half != nil && h.program.onEnd == itembank.Burn}
	for _, claimant := range h.program.holders() {
		of := slices.DeleteFunc(slices.Clone(h.ops), func(o op) bool { return o.claimant != claimant })
		explain(h, "G2: claimant "+claimant, of, register{}, rules.stepClaimant)
	}
	for _, campaign := range bothCampaigns {
		for i := range 6 {
			item := fmt.Sprintf("item-%d", i)
			of := slices.DeleteFunc(slices.Clone(h.ops), func(o op) bool {
				return o.campaign != campaign || !o.isAbout(item)
			})
			rules.item = item
			explain(h, fmt.Sprintf("G1: item %s of campaign %q", item, campaign), of, place{}, rules.stepItem)
		}
	}
	h.checkSoldOut()
}

// splitLost handles a request that made a claim, lost the reply, and then found that other requests had confirmed,
// prolonged, replaced or ended the claim. It replaces it by two requests: one with a lost reply, and its repetition.
func (h *history) splitLost() {
	for i, o := range h.ops {
		changed := !o.replayed && h.mayBeChanged(o)
		another := o.replayed && h.mayBeAnother(o)
		if o.kind != claimOp || o.result != ok || !changed && !another {
			continue
		}
		lost := op{
			kind: claimOp, bank: o.bank, campaign: o.campaign, claimant: o.claimant, result: unknown,
			call: o.call, done: o.done, clockCall: o.clockCall, clockDone: o.clockDone,
		}
		h.ops[i].replayed = true
		h.ops = append(h.ops, lost)
	}
}

// mayBeChanged reports whether a client asked to confirm the claim, if it has no end, or to prolong it, if it has one,
// before the answer with that claim came.
func (h *history) mayBeChanged(claim op) bool {
	kind := prolongOp
	if claim.endsAt == 0 {
		kind = confirmOp
	}
	return slices.ContainsFunc(h.ops, func(o op) bool { return o.kind == kind && o.id == claim.id && o.call < claim.done })
}

// findEnds notes in each prolongation without an answer the ends that it may have given the claim. A claim that replaced
// the claim has its end.
func (h *history) findEnds() {
	for i := range h.ops {
		o := &h.ops[i]
		if o.kind != prolongOp || o.result != unknown {
			continue
		}
		for _, other := range h.ops {
			for _, claim := range []granted{{other.id, other.item, other.endsAt}, other.next} {
				mine := claim.id == o.id || replaces(claim.id, o.id)
				if mine && claim.endsAt > o.seen && claim.endsAt <= o.clockDone+historyClaimLife.Milliseconds() &&
					!slices.Contains(o.ends, claim.endsAt) {
					o.ends = append(o.ends, claim.endsAt)
				}
			}
		}
	}
}

// mayBeAnother reports whether a request that found a claim may have made another one before. While the request ran, a
// client asked to replace a claim of the claimant, or found a claim that no request was answered to have made.
func (h *history) mayBeAnother(claim op) bool {
	return slices.ContainsFunc(h.ops, func(o op) bool {
		during := o.claimant == claim.claimant && o.call < claim.done && claim.call < o.done
		return during && (o.kind == replaceOp || o.kind == claimOp && o.replayed && o.id != claim.id && !h.isMade(o.id))
	})
}

// isMade reports whether a request was answered that it made the claim.
func (h *history) isMade(id string) bool {
	return slices.ContainsFunc(h.ops, func(o op) bool {
		made := o.answered()
		return made.kind == claimOp && made.id == id && !made.replayed
	})
}

// checkRest checks G3 and G4 on the rows. If the result of a load is unknown, the item's row says whether the load
// added the item.
func (h *history) checkRest() {
	for _, suffix := range bothCampaigns {
		c := h.campaigns[suffix]
		for i := range 6 {
			item := fmt.Sprintf("item-%d", i)
			row, err := h.engine.Store.ItemRow(h.ctx, c.Name, engine.HashItem(item))
			h.must(err)
			loaded := slices.ContainsFunc(h.ops, func(o op) bool {
				return o.kind == loadOp && o.result == ok && o.campaign == suffix && slices.Contains(o.items, item)
			})
			if row != nil || loaded {
				note(h.state.Loaded, c.Name, item)
			}
		}
		note(h.state.Asked, c.Scope, h.program.holders()...)
	}
	h.checkRows(h.program.full)
}

// explain checks the requests of one claimant, or of one item, with porcupine.
//
// A request with an unknown result has taken effect by its return, or never does. The faults of a program ensure
// this: LostReply returns after the effect, FailedBefore returns without an effect, and no context ends during a
// call. So every request ends with its return.
func explain[S any](h *history, what string, ops []op, initial S, step func(S, op) []S) {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{initial} },
		Step: func(state, input, _ any) (all []any) {
			for _, s := range step(state.(S), input.(op)) {
				all = append(all, s)
			}
			return all
		},
	}
	operations := make([]porcupine.Operation, len(ops))
	texts := make([]string, len(ops))
	for i, o := range ops {
		operations[i] = porcupine.Operation{ClientId: i, Input: o, Call: o.call, Return: o.done}
		texts[i] = o.String()
	}
	if !porcupine.CheckOperations(model.ToModel(), operations) {
		h.fail("%s: no order explains\n  %s", what, strings.Join(texts, "\n  "))
	}
}

// checkSoldOut checks G5. A claimant may get "sold out" only if no item has been free for more than a second. Items
// that another claimant may have had do not count as free.
func (h *history) checkSoldOut() {
	for _, o := range h.ops {
		if o.result != soldOut {
			continue
		}
		for _, l := range h.ops {
			if l.kind != loadOp || l.result != ok || l.campaign != o.campaign || l.done > o.call || l.clockDone+emptyMemory.Milliseconds() >= o.clockCall {
				continue
			}
			for _, item := range l.items {
				if !h.mayHaveLeft(item, o) && !h.mayBeHalfLoaded(item, o) {
					h.fail("G5: %s was loaded long before, and no other claimant had it: %s", item, o)
				}
			}
		}
	}
}

// mayHaveLeft reports whether an item may have left the bank before a request ended.
func (h *history) mayHaveLeft(item string, by op) bool {
	return slices.ContainsFunc(h.ops, func(o op) bool {
		if h.heldThroughout(o, by) {
			return false
		}
		if o.campaign != by.campaign || o.call > by.done {
			// A repetition of a claim whose reply was lost shows later which item the claim took.
			return o.campaign == by.campaign && o.isAbout(item) && o.replayed
		}
		lost := (o.kind == claimOp || o.kind == replaceOp) && o.result == unknown
		return lost || o.item == item || o.next.item == item || slices.Contains(o.more, item) || o.kind == withdrawOp && o.items[0] == item
	})
}

// mayBeHalfLoaded reports whether the load that added an item may have had its reply less than a second before. Until
// that reply the item's bank row may be invisible, even if another load already got the answer that the item is
// known.
func (h *history) mayBeHalfLoaded(item string, soldOut op) bool {
	return h.program.half != nil && slices.ContainsFunc(h.ops, func(l op) bool {
		return l.kind == loadOp && l.campaign == soldOut.campaign && slices.Contains(l.items, item) &&
			l.call < soldOut.done && l.clockDone+emptyMemory.Milliseconds() >= soldOut.clockCall
	})
}

// heldThroughout reports whether request o gave a claim to the claimant who later got "sold out", and that claim was
// not over by then. If that claim emptied the bank, the claimant must get the claim and not "sold out", unless the
// request was to replace the claim.
func (h *history) heldThroughout(o, soldOut op) bool {
	if soldOut.kind == replaceOp || o.kind != claimOp || o.result != ok || o.claimant != soldOut.claimant || mayBeClosed(o.endsAt, soldOut) {
		return false
	}
	return !slices.ContainsFunc(h.ops, func(r op) bool { return r.releases() && r.id == o.id && r.call < soldOut.done })
}
