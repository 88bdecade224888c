package itembankfault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/commandpairs"
	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// In a pair two commands change the same rows. Each is killed after each of its calls, and run again after the other
// command. Each is also suspended after each of its calls, while the other command runs from begin to end. A wait counts
// as a call. Each command has a Bank of its own, as each process has. The clock moves only when a command waits, so no
// play sleeps.
//
// Package commandpairs makes the schedules. Commands that work on files can use it, too. The model is State, and
// what operators may believe about the campaign (paircommands.go):
//
//   - No item is in two places. Each item of a load that was answered is in one.
//   - After the answer of a close the campaign is closed until an open begins. An open that began before the close does
//     not open it.
//   - If the rows are wrong after the campaign was closed until it is reconciled, nothing opens it.
//   - No claimant gets an item after the answer that it was withdrawn.
//   - A claimant who was forgotten has no claim and gets none.
//   - A claim that was told stays until it is released, forgotten, or has ended. A confirmed one never ends.
//   - A deleted campaign has no load and no item. A campaign with a load is not deleted.
//   - A backup has each claim that was told before the backup began, and reconcile finds nothing in it.
//   - Nobody hears "sold out" long after an item was added, and no row says so.

// Pair is two commands that change the same rows.
type Pair struct {
	Name    string
	Prepare func(w *pairing)
	A, B    func(p *process)
	// After runs after both commands, in a process that is not stopped. It may be nil. Afterwards a customer asks, and
	// all rows are checked.
	After func(p *process)
	// Copies means that the pair copies the store.
	Copies bool
}

// Pairs are all pairs of commands.
var Pairs = []Pair{
	{Name: "load-and-load", Prepare: func(w *pairing) {
		w.Create("", itembank.Settings{Shards: 1})
		w.Load("", numbered("line", 10)...)
	}, A: func(p *process) {
		p.load(numbered("line", 60)...)
	}, B: func(p *process) {
		p.load(append(numbered("line", 40), numbered("other", 20)...)...)
	}},
	{Name: "load-and-load-of-the-same-file", Prepare: emptied, A: loadNew, B: loadNew, After: func(p *process) {
		p.w.sellOut()
	}},
	{Name: "load-and-load-until-sold-out", Prepare: emptied, A: loadNew, B: func(p *process) {
		p.load("other-0", "new-0")
		p.sellOut()
	}},
	{Name: "load-and-give-up", Prepare: func(w *pairing) {
		emptied(w)
		note(w.state.Loading, w.name, newItems...)
		cut := &Store{Store: w.engine.Store, Before: func(method string) error {
			if method == "AddItems" {
				return itembank.ErrTryAgain
			}
			return nil
		}}
		_, err := itembank.NewOperator(cut, itembank.WithClock(w.clock)).Load(w.ctx, w.name, itembank.Items(newItems...), nil)
		if !errors.Is(err, itembank.ErrTryAgain) {
			w.fail("the load was not cut: %w", err)
		}
	}, A: loadNew, B: func(p *process) {
		p.giveUp()
		p.sellOut()
	}},
	{Name: "load-and-repair", Prepare: missingItem(itembank.Return), A: loadAll, B: repairAll, After: openIt},
	{Name: "load-and-repair-where-items-are-burned", Prepare: missingItem(itembank.Burn), A: loadAll, B: repairAll, After: openIt},
	{Name: "load-and-close", Prepare: func(w *pairing) {
		stocked(2, itembank.Settings{})(w.World)
	}, A: loadNew, B: closeIt, After: openIt},
	{Name: "open-and-close", Prepare: func(w *pairing) {
		stocked(3, itembank.Settings{}, "ann")(w.World)
		w.SetOpen("", false)
		w.mode = closed
	}, A: openIt, B: closeIt, After: openIt},
	{Name: "close-and-reconcile", Prepare: func(w *pairing) {
		stocked(4, itembank.Settings{OnEnd: itembank.Return}, "ann")(w.World)
		w.must(w.bank.CloseUntilReconciled(w.ctx, w.name))
		w.mode = closedUntil
	}, A: func(p *process) {
		for p.closeUntilReconciled(); !slices.Equal(p.w.mode, closedUntil); { // another operator has opened it since
			p.closeUntilReconciled()
		}
		p.w.loseItem() // a restore does this
	}, B: openIt, After: func(p *process) {
		p.open()
		p.repair(numbered("item", 4)...)
		p.open()
		if !slices.Equal(p.w.mode, opened) {
			p.w.fail("repaired, and not opened")
		}
	}},
	{Name: "repair-and-open", Prepare: func(w *pairing) {
		stocked(3, itembank.Settings{}, "ann")(w.World)
		w.loseItem()
		w.sellOut()
		w.SetOpen("", false)
		w.mode = closed
	}, A: func(p *process) {
		for p.close(); !p.repaired(itembank.RepairOptions{Items: itembank.Items(allItems...), ReturnSeenItems: true}); {
			p.close()
		}
	}, B: func(p *process) {
		p.open()
		p.sellOut()
	}, After: openIt},
	{Name: "withdraw-and-load", Prepare: func(w *pairing) {
		stocked(4, itembank.Settings{OnEnd: itembank.Return}, "ann")(w.World)
	}, A: func(p *process) {
		held := p.w.state.Told[key(p.w.name, "ann")].Claim.Items[0]
		p.withdraw(held, "item-0", "item-1", "new-0")
	}, B: func(p *process) {
		p.load("item-0", "item-1", "new-0", "new-1")
	}, After: func(p *process) {
		p.get("ann")
		p.w.Release("", "ann")
		p.w.sellOut()
	}},
	{Name: "withdraw-and-repair", Prepare: missingItem(itembank.Return), A: func(p *process) {
		p.withdraw(numbered("item", 5)...)
	}, B: repairAll, After: func(p *process) {
		p.open()
		p.w.Release("", "ann")
		p.w.sellOut()
	}},
	{Name: "replay-and-claims", Prepare: lostClaims, A: func(p *process) {
		p.replay(p.w.lost...)
	}, B: func(p *process) {
		_ = p.claim("ann")
		p.confirm("ann")
		p.confirm("eve")
		p.giveBack("fay")
		p.refused("gus", itembank.ErrClosed)
		_ = p.claim("cid")
	}, After: func(p *process) {
		p.open()
		for _, holder := range []string{"ann", "bob", "cid", "dan", "eve"} {
			p.get(holder)
		}
	}},
	{Name: "replay-and-repair", Prepare: lostClaims, A: func(p *process) {
		p.replay(p.w.lost...)
	}, B: func(p *process) {
		p.repair(numbered("item", 10)...)
	}, After: func(p *process) {
		p.open()
		for _, holder := range []string{"ann", "bob", "cid", "dan", "eve"} {
			p.get(holder)
		}
	}},
	{Name: "forget-and-replay", Prepare: lostClaims, A: func(p *process) {
		p.forget("ann")
		p.forget("cid")
		p.forget("eve")
	}, B: func(p *process) {
		p.replay(p.w.lost...)
	}, After: func(p *process) {
		p.repair(numbered("item", 10)...)
		p.open()
		for _, holder := range []string{"ann", "cid", "eve"} {
			p.refused(holder, itembank.ErrNotEligible)
		}
		p.get("bob")
		p.get("dan")
	}},
	{Name: "backup-and-claims", Copies: true, Prepare: func(w *pairing) {
		stocked(12, itembank.Settings{Hold: life}, "ann", "bob", "cid")(w.World)
	}, A: func(p *process) {
		p.backUp()
	}, B: func(p *process) {
		p.get("dan")
		p.confirm("ann")
		p.giveBack("bob")
		p.load("new-0", "item-0")
		p.forget("cid")
		p.get("bob")
	}},
	{Name: "delete-and-load", Prepare: func(w *pairing) {
		w.Create("", itembank.Settings{Shards: 1})
	}, A: func(p *process) {
		p.delete()
	}, B: func(p *process) {
		p.load("item-0", "item-1", "item-2", "item-3")
	}},
	{Name: "forget-and-claims", Prepare: func(w *pairing) {
		stocked(8, itembank.Settings{PerClaimant: 2, OnEnd: itembank.Return}, "ann", "bob")(w.World)
	}, A: func(p *process) {
		p.forget("ann", "ann/2")
	}, B: func(p *process) {
		_ = p.claim("ann")
		_ = p.claim("ann/2")
		p.get("bob")
		p.get("bob/2")
	}, After: func(p *process) {
		p.refused("ann", itembank.ErrNotEligible)
		p.refused("ann/2", itembank.ErrNotEligible)
		p.get("bob")
		p.get("bob/2")
	}},
	{Name: "sweep-and-confirm", Prepare: endedHolds, A: func(p *process) {
		p.sweep("sweep", (*itembank.Operator).Sweep)
	}, B: confirmAndClaim, After: keepConfirmed},
	{Name: "sweep-due-and-confirm", Prepare: endedHolds, A: func(p *process) {
		p.sweep("sweep of what is due", (*itembank.Operator).SweepDue)
	}, B: confirmAndClaim, After: keepConfirmed},
	{Name: "sweep-due-and-prolong", Prepare: endedHolds, A: func(p *process) {
		p.sweep("sweep of what is due", (*itembank.Operator).SweepDue)
	}, B: func(p *process) {
		p.prolong("ann")
		p.get("bob")
		p.get("dan")
	}, After: keepConfirmed},
}

// emptied prepares a campaign whose row says that its bank is empty.
func emptied(w *pairing) {
	stocked(1, itembank.Settings{}, "ann")(w.World)
	w.sellOut()
}

var newItems = []string{"new-0", "new-1", "item-0"}

func loadNew(p *process) { p.load(newItems...) }

func openIt(p *process) { p.open() }

func closeIt(p *process) { p.close() }

// missingItem prepares a closed campaign in which an item is missing.
func missingItem(onEnd itembank.OnEnd) func(w *pairing) {
	return func(w *pairing) {
		stocked(5, itembank.Settings{OnEnd: onEnd}, "ann")(w.World)
		w.SetOpen("", false)
		w.mode = closed
		w.loseItem()
	}
}

// allItems are the items of missingItem, and two new ones.
var allItems = append(numbered("item", 5), "new-0", "new-1")

func loadAll(p *process) { p.load(allItems...) }

func repairAll(p *process) { p.repair(allItems...) }

// lostClaims prepares a closed campaign of holds whose claims were restored to an earlier moment. The claims of ann and
// bob are lost, and their items are in the bank. The claims of cid and dan are lost, and their items are in no place. Eve
// and fay have their holds.
func lostClaims(w *pairing) {
	stocked(10, itembank.Settings{Hold: time.Hour}, "ann", "bob", "cid", "dan", "eve", "fay")(w.World)
	w.SetOpen("", false)
	w.mode = closed
	c := w.c()
	for n, holder := range []string{"ann", "bob", "cid", "dan"} {
		claim := w.state.Told[key(c.Scope, holder)].Claim
		w.lost = append(w.lost, claim)
		w.state.release(c, holder, claim.ID)
		w.must(w.engine.Raw.DropClaim(w.ctx, keyOf(c, holder)))
		if n < 2 {
			w.must(w.engine.Raw.PutBankRow(w.ctx, enginerows.FreeItem(c, claim.Items[0])))
		}
	}
	w.lost = append(w.lost, w.state.Told[key(c.Scope, "eve")].Claim)
	w.wrong = true
}

// endedHolds prepares three holds that have ended.
func endedHolds(w *pairing) {
	stocked(6, longHolds, "ann", "bob", "cid")(w.World)
	w.clock.Advance(2 * life)
}

func confirmAndClaim(p *process) {
	p.confirm("ann")
	p.get("bob")
	p.get("dan")
}

// keepConfirmed sweeps long afterwards. A confirmed claim stays, and the others end.
func keepConfirmed(p *process) {
	p.w.clock.Advance(2 * life)
	p.w.Sweep("")
	p.w.SweepDue("")
}

// PairOptions are the options of RunPairs.
type PairOptions struct {
	// Share: one call in so many is played (see Share).
	Share int
	// Moments checks the rows after each call, and not only after each command.
	Moments   bool
	copyStore CopyStore
}

// CopyStore copies the store of a test and opens the copy.
type CopyStore func(context.Context) (enginetest.Engine, error)

// RunPairs plays the Pairs with every schedule, without those that copy the store.
func RunPairs(t *testing.T, newEngine func(testing.TB) enginetest.Engine, o PairOptions) {
	o.Share = search.Share(o.Share)
	for _, pair := range Pairs {
		if pair.Copies {
			continue
		}
		t.Run(pair.Name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			for _, s := range schedules {
				plays, err := pair.plays(t.Context(), e, s, rand.IntN(o.Share), o, nil)
				if err != nil {
					t.Errorf("%v\n%s", err, search.Replay(t))
				}
				t.Logf("%s: %d plays", s.name, plays)
			}
		})
	}
}

// PlayCopies plays the Pairs that copy the store. It returns the first violation as an error.
func PlayCopies(ctx context.Context, e enginetest.Engine, copyStore CopyStore) error {
	for _, pair := range Pairs {
		for _, s := range schedules {
			if !pair.Copies {
				continue
			}
			if _, err := pair.plays(ctx, e, s, 0, PairOptions{Share: 1, copyStore: copyStore}, nil); err != nil {
				return fmt.Errorf("%s: %w", pair.Name, err)
			}
		}
	}
	return nil
}

// MustBeFoundByPair fails the test if no play of a pair finds the mutant.
func (m Mutant) MustBeFoundByPair(t testing.TB, name string, e enginetest.Engine) {
	t.Helper()
	pair := mutanttest.Named(t, Pairs, name, func(p Pair) string { return p.Name })
	for _, s := range schedules {
		if _, err := pair.plays(t.Context(), e, s, 0, PairOptions{Share: 1, Moments: true}, &m); err != nil {
			t.Logf("found: %s", search.FirstLine(err))
			return
		}
	}
	t.Error("survived all plays")
}

// pairSchedule is a schedule for the commands of a pair, in one of the two orders.
type pairSchedule struct {
	name   string
	play   commandpairs.Schedule
	mirror bool // B is stopped
}

var schedules = []pairSchedule{
	{"A is killed", commandpairs.Kill, false},
	{"B is killed", commandpairs.Kill, true},
	{"A is suspended", commandpairs.Suspend, false},
	{"B is suspended", commandpairs.Suspend, true},
}

// plays plays a pair for the call first and each call in o.Share after it.
func (pair Pair) plays(
	ctx context.Context, e enginetest.Engine, s pairSchedule, first int, o PairOptions, m *Mutant,
) (plays int, err error) {
	return commandpairs.AtEachCall(first, o.Share, func(n int) (bool, error) {
		stopped, err := pair.play(ctx, e, s, n, o, m)
		if err != nil {
			err = fmt.Errorf("%s after call %d: %w", s.name, n, err)
		}
		return stopped, err
	})
}

// play plays a pair once, in a new campaign. It returns the first violation of the model as an error.
func (pair Pair) play(
	ctx context.Context, e enginetest.Engine, s pairSchedule, n int, o PairOptions, m *Mutant,
) (stopped bool, err error) {
	w := newPairing(ctx, e, o, m)
	violated := w.violated(func() {
		pair.Prepare(w)
		w.trace, w.begun = nil, len(w.state.Loaded[w.name])
		a, b := w.command("A", pair.A), w.command("B", pair.B)
		if s.mirror {
			a, b = b, a
		}
		stopped, err = s.play(n, a, b)
		w.must(err)
		if pair.After != nil {
			w.must(w.command("after", pair.After)(new(commandpairs.Process)))
		}
		_ = w.ask()
		w.checkEnd()
		w.must(w.broken)
		w.dropCampaigns()
	})
	return stopped, violated
}

// process is the process of one command.
type process struct {
	w    *pairing
	name string
	run  *commandpairs.Process
	bank *itembank.Operator
}

// start starts a process whose calls and waits go through run. A mutant is above these hooks: a process can be stopped
// between two calls of it.
func (w *pairing) start(name string, run *commandpairs.Process) *process {
	store := engine.Store(&Store{
		Store: w.engine.Store, Server: w.clock, MaxCalls: maxCalls,
		Before: func(string) error { return run.Before() },
		After: func(method string) error {
			w.checkMoment(name, method)
			return run.After()
		},
	})
	if w.mutant != nil {
		store = w.mutant.Wrap(enginetest.Engine{Store: store, Raw: w.engine.Raw}, w.clock)
	}
	bank := itembank.NewOperator(store, itembank.WithClock(hookedClock{w.clock, run}), itembank.WithRandom(w.random))
	return &process{w, name, run, bank}
}

// hookedClock is a clock whose waits are calls of a process.
type hookedClock struct {
	*Clock
	run *commandpairs.Process
}

// Sleep moves the clock.
func (c hookedClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := c.run.Before(); err != nil {
		return err
	}
	return errors.Join(c.Clock.Sleep(ctx, d), c.run.After())
}

// stoppedProcess is the value with which a process panics that was killed, or whose play is over.
type stoppedProcess struct{ by error }

// command makes a command of a play. When it has come to its end, the rows are checked, and a customer asks.
func (w *pairing) command(name string, do func(*process)) commandpairs.Command {
	return func(run *commandpairs.Process) (err error) {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case violation:
				err = p.error
			case stoppedProcess:
				err = p.by
			default:
				panic(p)
			}
		}()
		do(w.start(name, run))
		_ = w.ask()
		return nil
	}
}

// ask makes a call until it has an answer.
func (p *process) ask(what string, call func(context.Context) error) error {
	what = p.name + ": " + what
	for range mostTries {
		err := call(p.w.ctx)
		if over := p.run.Over(); over != nil {
			p.w.trace = append(p.w.trace, what+": no answer")
			panic(stoppedProcess{over})
		}
		p.w.trace = append(p.w.trace, fmt.Sprintf("%s: %v", what, err))
		if !errors.Is(err, itembank.ErrTryAgain) {
			return err
		}
		p.w.clock.Advance(100 * time.Millisecond)
	}
	p.w.fail("%s has no answer after %d tries", what, mostTries)
	return nil
}

// must makes a call that must succeed.
func (p *process) must(what string, call func(context.Context) error) {
	if err := p.ask(what, call); err != nil {
		p.w.fail("%s: %w", what, err)
	}
}
