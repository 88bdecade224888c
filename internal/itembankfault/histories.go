package itembankfault

import (
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

// opKind is the kind of a request.
type opKind string

const (
	claimOp    opKind = "claim"
	releaseOp  opKind = "release"
	loadOp     opKind = "load"
	withdrawOp opKind = "withdraw"
	sweepOp    opKind = "sweep"
	sweepDueOp opKind = "sweep what is due"
	confirmOp  opKind = "confirm"
	giveUpOp   opKind = "release by the holder"
	advanceOp  opKind = "advance"
)

// op is one request and its result.
type op struct {
	kind     opKind
	bank     int // the number of the Bank that gets the request
	campaign int
	claimant string
	items    []string
	forward  time.Duration // how far the request moves the clock forward

	chosen []string // the items that a claim names
	more   []string // the other items of a claim with several

	id                   string // the id of the claim that was granted, or that the client wants to release or confirm
	item                 string
	endsAt               int64 // milliseconds; 0: never
	replayed, returned   bool
	result               result
	elsewhere            int
	call, done           int64 // when the call began and ended, as places in the order of all events
	clockCall, clockDone int64 // the clock's times then, in milliseconds
}

func (o op) String() string {
	return fmt.Sprintf("[%d-%d, clock %d-%d] %s %d %s%v%v %s -> %s %s%v %s replayed %t returned %t",
		o.call, o.done, o.clockCall, o.clockDone, o.kind, o.campaign, o.claimant, o.items, o.chosen, o.forward, o.result, o.item, o.more, o.id, o.replayed, o.returned)
}

type result string

const (
	ok              result = "ok"
	refused         result = "refused"
	soldOut         result = "sold out"
	elsewhere       result = "claimed elsewhere"
	notFree         result = "item taken"
	alreadyReleased result = "already released"
	noClaim         result = "no claim"
	otherID         result = "another claim"
	isPermanent     result = "confirmed"
	unknown         result = "unknown"

	unexpected result = "unexpected error"
)

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

const historyClaimLife = 30 * time.Second

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
	kinds := []opKind{claimOp, claimOp, claimOp, claimOp, releaseOp, releaseOp, loadOp, withdrawOp, sweepOp, sweepDueOp, advanceOp}
	if p.holds {
		kinds = append(kinds, confirmOp, confirmOp, giveUpOp, advanceOp)
	}
	item := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("item-%d", rapid.IntRange(0, 5).Draw(t, "item")) })
	request := rapid.Custom(func(t *rapid.T) op {
		o := op{
			kind: rapid.SampledFrom(kinds).Draw(t, "kind"), bank: rapid.IntRange(0, 1).Draw(t, "bank"),
			campaign: rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "campaign"),
		}
		if p.slots {
			o.campaign = 0 // campaign 1 has another scope
		}
		switch o.kind {
		case claimOp, releaseOp, confirmOp, giveUpOp:
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
			s.Hold = historyClaimLife
		} else {
			s.ClaimLife = historyClaimLife
		}
		h.Create("-0", s)
		s.Shards = 2 // claims must not depend on the number of shards
		h.Create("-1", s)
		for i := range 2 {
			h.banks = append(h.banks, h.brokenBank(i, clients, m))
		}
		for campaign := range 2 {
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
	if m != nil && m.layer == aboveFaults {
		through = m.Wrap(enginetest.Engine{Store: broken, Raw: h.engine.Raw}, h.clock)
	} else if m != nil {
		broken.Store = m.Wrap(enginetest.Engine{Store: store, Raw: h.engine.Raw}, h.clock)
	}
	return itembank.NewOperator(through, itembank.WithClock(ahead{h.clock, h.program.ahead[i]}), itembank.WithRandom(h.random))
}

// pause waits for a moment before a write, so that other requests come between a request's reads and its write.
func pause(method string) error {
	if method == "Take" || method == "CloseClaim" || method == "ConfirmClaim" {
		time.Sleep(rand.N(400 * time.Microsecond))
	}
	return nil
}

// do makes a request once, and records the result.
func (h *history) do(bank *itembank.Operator, o op) {
	name := h.campaignOf(o).Name
	ctx, cancel := cancellable(h.ctx)
	defer cancel()
	var err error
	h.mu.Lock()
	if told, ok := h.told[o.claimant]; ok && o.kind != claimOp {
		o.id, o.item, o.more, o.campaign, o.endsAt = told.id, told.item, told.more, told.campaign, told.endsAt
		name = h.campaignOf(o).Name
	}
	h.mu.Unlock()
	if o.claimant != "" && o.kind != claimOp && o.id == "" {
		return // nothing to release or confirm
	}
	who, slot := h.spelling(h.campaignOf(o), o.claimant)
	o.clockCall, o.call = h.clock.Now().UnixMilli(), h.moment.Add(1)
	switch o.kind {
	case claimOp:
		var g itembank.Grant
		if g, err = bank.Claim(withCampaign(ctx, name), name, who, slot, itembank.Choosing(o.chosen...)); err == nil {
			o.more = g.Claim.Items[1:]
			o.id, o.item, o.replayed, o.endsAt = g.Claim.ID, g.Claim.Items[0], g.Replayed, 0
			if !g.Claim.EndsAt.IsZero() {
				o.endsAt = g.Claim.EndsAt.UnixMilli()
			}
			err = h.checkColumns(o, g.Claim)
		}
	case releaseOp:
		var r itembank.Released
		r, err = bank.Release(ctx, name, who, o.id, slot)
		if o.returned = r.Returned; r.Already {
			o.result = alreadyReleased
		}
	case giveUpOp:
		var r itembank.Released
		r, err = bank.ReleaseHold(ctx, name, who, o.id, slot)
		if o.returned = r.Returned; r.Already {
			o.result = alreadyReleased
		}
	case confirmOp:
		var claim itembank.Claim
		if claim, err = bank.Confirm(ctx, name, who, o.id, slot); err == nil && (claim.ID != o.id || claim.Items[0] != o.item || !slices.Equal(claim.Items[1:], o.more) || !claim.EndsAt.IsZero()) {
			err = fmt.Errorf("confirmed %+v", claim)
		} else if err == nil {
			err = h.checkColumns(o, claim)
		}
	case loadOp:
		_, err = bank.Load(ctx, name, itemsFor(h.campaignOf(o), o.items...), nil)
	case withdrawOp:
		var r itembank.WithdrawReport
		if r, err = bank.Withdraw(ctx, name, itembank.Items(o.items...)); r.Withdrawn == 0 && err == nil {
			o.result = alreadyReleased
		}
	case sweepOp:
		_, err = bank.Sweep(ctx, name, nil)
	case sweepDueOp:
		_, err = bank.SweepDue(ctx, name, nil)
	case advanceOp:
		h.clock.Advance(o.forward)
	}
	o.done, o.clockDone = h.moment.Add(1), h.clock.Now().UnixMilli()
	var other *itembank.ClaimedElsewhereError
	switch {
	case errors.As(err, &other):
		o.result = elsewhere
		if other.Campaign == h.campaigns["-1"].Name {
			o.elsewhere = 1
		}
	case errors.Is(err, itembank.ErrItemTaken):
		o.result = notFree
	case errors.Is(err, itembank.ErrSoldOut):
		o.result = soldOut
	case errors.Is(err, itembank.ErrNoClaim):
		o.result = noClaim
	case errors.Is(err, itembank.ErrClaimEnded):
		o.result = otherID
	case errors.Is(err, itembank.ErrConfirmed):
		o.result = isPermanent
	case errors.Is(err, itembank.ErrRefused):
		o.result = refused
	case err != nil:
		o.result = unknown
	case o.result == "":
		o.result = ok
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	cancelled := ctx.Err() != nil && errors.Is(err, context.Canceled) // the request's own context ended
	if err != nil && !errors.Is(err, itembank.ErrTryAgain) && !errors.Is(err, itembank.ErrRefused) && !cancelled {
		o.item = err.Error()
		o.result = unexpected
	}
	h.ops = append(h.ops, o)
	if o.kind == claimOp && o.result == ok {
		h.told[o.claimant] = o
	}
}

// checkColumns checks the columns of a claim in an answer.
func (h *history) checkColumns(o op, claim itembank.Claim) error {
	if want := wantColumns(h.campaignOf(o), claim); !slices.Equal(claim.Columns, want) {
		return fmt.Errorf("%v have the columns %q, and were loaded with %q", claim.Items, claim.Columns, want)
	}
	return nil
}

func (h *history) campaignOf(o op) engine.Campaign {
	return h.campaigns[fmt.Sprintf("-%d", o.campaign)]
}

// check checks the results, and then the rows.
func (h *history) check() {
	h.checkResults()
	h.checkRest()
}

// checkResults looks for an order of all requests that explains their results, for each
// claimant and for each item.
func (h *history) checkResults() {
	h.splitConfirmed()
	for _, o := range h.ops {
		if o.result == unexpected || o.kind == claimOp && o.result == refused {
			h.fail("a request failed: %s", o)
		}
		life, behind := historyClaimLife.Milliseconds(), mostBehind.Milliseconds()
		made := o.kind == claimOp && o.result == ok && !o.replayed
		if made && (o.endsAt < o.clockCall+life-behind || o.endsAt > o.clockDone+life) {
			h.fail("a claim has not the length of all others: %s", o)
		}
	}
	for _, claimant := range h.program.holders() {
		of := slices.DeleteFunc(slices.Clone(h.ops), func(o op) bool { return o.claimant != claimant })
		stale := h.program.half != nil && h.program.onEnd == itembank.Burn
		step := func(r register, o op) []register { return stepClaimant(r, o, stale) }
		explain(h, "G2: claimant "+claimant, of, register{}, step)
	}
	for campaign := range 2 {
		for i := range 6 {
			item := fmt.Sprintf("item-%d", i)
			of := slices.DeleteFunc(slices.Clone(h.ops), func(o op) bool {
				return o.campaign != campaign || !o.isAbout(item)
			})
			step := func(p place, o op) []place { return stepItem(p, o, h.program.onEnd, h.program.half != nil) }
			explain(h, fmt.Sprintf("G1: item %s of campaign %d", item, campaign), of, place{}, step)
		}
	}
	h.checkSoldOut()
}

// splitConfirmed handles a request that made a hold, lost the reply, and then found its claim confirmed by another
// request. It replaces it by two requests: one with a lost reply, and its repetition.
func (h *history) splitConfirmed() {
	for i, o := range h.ops {
		if o.kind != claimOp || o.result != ok || o.replayed || o.endsAt != 0 || !h.mayBeConfirmed(o) {
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

// mayBeConfirmed reports whether a client asked to confirm the claim before the answer with that claim came.
func (h *history) mayBeConfirmed(claim op) bool {
	return slices.ContainsFunc(h.ops, func(o op) bool {
		return o.kind == confirmOp && o.id == claim.id && o.call < claim.done
	})
}

// checkRest checks G3 and G4 on the rows. If the result of a load is unknown, the item's row says whether the load
// added the item.
func (h *history) checkRest() {
	for _, suffix := range []string{"-0", "-1"} {
		c := h.campaigns[suffix]
		for i := range 6 {
			item := fmt.Sprintf("item-%d", i)
			row, err := h.engine.Store.ItemRow(h.ctx, c.Name, engine.HashItem(item))
			h.must(err)
			loaded := slices.ContainsFunc(h.ops, func(o op) bool {
				return o.kind == loadOp && o.result == ok && h.campaignOf(o).Name == c.Name && slices.Contains(o.items, item)
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

// isAbout reports whether a request names the item, or is about a claim that holds it.
func (o op) isAbout(item string) bool {
	return o.item == item || slices.Contains(o.more, item) || slices.Contains(o.items, item)
}

// register is the model of one claimant's claim.
type register struct {
	held     bool
	id       string // "": the reply with the claim was lost
	campaign int
	item     string
	endsAt   int64

	over  bool   // a claim was held before
	older string // the id of that claim; "": the reply with it was lost
}

const graceMillis = int64(endGrace / time.Millisecond)

// mayBeClosed reports whether a request may have found the ended claim and closed it.
func mayBeClosed(endsAt int64, o op) bool { return endsAt != 0 && endsAt+graceMillis < o.clockDone }

// releases reports whether a request is a release.
func (o op) releases() bool { return o.kind == releaseOp || o.kind == giveUpOp }

// mayRelease reports whether a release may end a claim with this end. A holder can release only holds.
func mayRelease(o op, endsAt int64) bool { return o.kind == releaseOp || endsAt != 0 }

// stepClaimant plays one request of a claimant. With stale, the answer may be the claimant's earlier claim, for about
// a second. The documents say so for campaigns that burn items.
func stepClaimant(s register, o op, stale bool) []register {
	if stale && s.over && o.kind == claimOp && o.replayed && (s.older == o.id || s.older == "") {
		s.older = o.id
		return append([]register{s}, playClaimant(s, o)...)
	}
	return playClaimant(s, o)
}

// playClaimant plays one request, and records the claim that it ended.
func playClaimant(s register, o op) []register {
	after := nextOfClaimant(s, o)
	for i := range after {
		if n := &after[i]; s.held && (!n.held || n.id != s.id && s.id != "") {
			n.over, n.older = true, s.id
		} else {
			n.over, n.older = s.over, s.older
		}
	}
	return after
}

func nextOfClaimant(s register, o op) []register {
	if o.kind == confirmOp {
		return stepConfirmed(s, o)
	}
	none := register{}
	granted := register{held: true, id: o.id, campaign: o.campaign, item: o.item, endsAt: o.endsAt}
	free := !s.held || mayBeClosed(s.endsAt, o)
	switch {
	case o.kind == claimOp && o.result == ok && o.replayed:
		same := s
		same.over, same.older = false, ""
		if same == granted || s.held && s.id == "" && s.campaign == o.campaign {
			return []register{granted}
		}
	case o.kind == claimOp && o.result == ok:
		if free {
			return []register{granted}
		}
	case o.kind == claimOp && (o.result == soldOut || o.result == notFree):
		if free {
			return []register{none}
		}
	case o.kind == claimOp && o.result == elsewhere:
		if s.held && s.campaign == o.elsewhere && s.campaign != o.campaign {
			return []register{s}
		}
	case o.kind == claimOp: // unknown
		if free {
			lost := register{held: true, campaign: o.campaign, endsAt: o.clockCall + historyClaimLife.Milliseconds()}
			return []register{s, none, lost}
		}
		return []register{s}
	case o.result == isPermanent:
		if s.held && s.id == o.id && s.endsAt == 0 {
			return []register{s}
		}
	case o.result == ok: // released
		if s.held && s.id == o.id && mayRelease(o, s.endsAt) {
			return []register{none}
		}
	case o.result == alreadyReleased:
		if s.id != o.id {
			return []register{s}
		}
		if free {
			return []register{none}
		}
	default: // a release whose reply was lost
		if s.id == o.id && mayRelease(o, s.endsAt) {
			return []register{s, none}
		}
		return []register{s}
	}
	return nil
}

// stepConfirmed plays a confirmation of a claimant.
func stepConfirmed(s register, o op) []register {
	mine, free := s.held && s.id == o.id, !s.held || mayBeClosed(s.endsAt, o)
	confirmed := s
	confirmed.endsAt = 0
	switch {
	case o.result == ok && mine:
		return []register{confirmed}
	case o.result == noClaim && free:
		return []register{{}}
	case o.result == otherID && s.held && !mine && s.campaign == o.campaign,
		o.result == elsewhere && s.held && !mine && s.campaign == o.elsewhere:
		return []register{s}
	case o.result == unknown && mine:
		return []register{s, confirmed}
	case o.result == unknown:
		return []register{s}
	}
	return nil
}

// place says where an item is, as far as clients know. An item in the bank may also be in a claim whose reply was
// lost.
type place struct {
	where  where
	id     string // the id of the claim
	endsAt int64
	marked bool // it was withdrawn while a claim held it, and ends with the claim
}

type where int

const (
	notLoaded where = iota
	inBank
	held
	ended
)

// stepItem plays one request for an item. With stale, a holder may still get a burned item as an answer, for about a
// second.
func stepItem(s place, o op, onEnd itembank.OnEnd, stale bool) []place {
	free, over := place{where: inBank}, place{where: ended}
	after := free // the item's place after its claim ends
	if onEnd == itembank.Burn || s.marked {
		after = over
	}
	closable := s.where == held && mayBeClosed(s.endsAt, o)
	available := (s.where == inBank || closable && onEnd == itembank.Return) && !s.marked
	switch {
	case o.kind == loadOp && s.where == notLoaded && o.result == ok:
		return []place{free}
	case o.kind == loadOp && s.where == notLoaded:
		return []place{s, free}
	case o.kind == loadOp:
		return []place{s}
	case o.kind == claimOp:
		lost := s.where == inBank && o.replayed // the claim was made, and its reply was lost
		if available || lost || s.where == held && s.id == o.id && s.endsAt == o.endsAt {
			return []place{{held, o.id, o.endsAt, s.marked}}
		}
		if stale && s.where == ended && onEnd == itembank.Burn && o.replayed {
			return []place{s}
		}
	case o.kind == confirmOp:
		return stepConfirmedItem(s, o, closable, after)
	case o.releases() && o.result == isPermanent:
		if s.where == held && s.id == o.id && s.endsAt == 0 {
			return []place{s}
		}
	case o.releases() && o.result == ok:
		if s.where == held && s.id == o.id && mayRelease(o, s.endsAt) && (len(o.more) > 0 || o.returned == (after == free)) {
			return []place{after}
		}
	case o.releases() && o.result == alreadyReleased:
		if s.where != held || s.id != o.id {
			return []place{s}
		}
		if closable {
			return []place{after}
		}
	case o.releases():
		if s.where == held && s.id == o.id && mayRelease(o, s.endsAt) {
			return []place{s, after}
		}
		return []place{s}
	case o.kind == withdrawOp && o.result == ok:
		if available {
			return []place{over}
		}
	case o.kind == withdrawOp && (s.where == inBank || s.where == held):
		// A claim holds the item, or held it until it ended. The reply with that claim may have been lost.
		marked := s
		marked.marked = true
		next := []place{marked}
		if o.result == unknown {
			next = append(next, s)
		}
		if s.where == inBank || closable {
			next = append(next, over)
		}
		return next
	case o.kind == withdrawOp:
		return []place{s}
	}
	return nil
}

// stepConfirmedItem plays a confirmation of a claim on the item. after is the item's place after its claim is closed.
func stepConfirmedItem(s place, o op, closable bool, after place) []place {
	mine := s.where == held && s.id == o.id
	switch confirmed := (place{held, o.id, 0, s.marked}); {
	case o.result == ok && mine:
		return []place{confirmed}
	case o.result == ok:
		return nil
	case o.result == unknown && mine:
		return []place{s, confirmed}
	case o.result != unknown && mine && closable:
		return []place{after}
	case o.result != unknown && mine:
		return nil
	}
	return []place{s}
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
		return o.item == item || slices.Contains(o.more, item) || o.kind == claimOp && o.result == unknown || o.kind == withdrawOp && o.items[0] == item
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
// not over by then. If that claim emptied the bank, the claimant must get the claim and not "sold out".
func (h *history) heldThroughout(o, soldOut op) bool {
	if o.kind != claimOp || o.result != ok || o.claimant != soldOut.claimant || mayBeClosed(o.endsAt, soldOut) {
		return false
	}
	return !slices.ContainsFunc(h.ops, func(r op) bool { return r.releases() && r.id == o.id && r.call < soldOut.done })
}
