package itembankfault

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// World runs a scenario. Its clients repeat their calls until they have an answer, and it checks every answer. A
// violation ends the scenario.
type World struct {
	ctx       context.Context
	engine    enginetest.Engine // the engine that the checks read
	through   engine.Store      // the store that the Banks use
	callOver  func()            // called when a client's call is over
	random    io.Reader
	clock     *Clock
	name      string
	state     State
	killed    bool          // a call of a killed process may still be running
	keep      func(State)   // called with the state before and after every call
	ahead     time.Duration // how far the Banks' clock is ahead of clock, which is the server's
	fresh     bool          // replace a Bank after it has failed, as Lambda replaces containers
	bank      *itembank.Operator
	campaigns map[string]engine.Campaign
	trace     []string
	lost      []itembank.Claim // claims that are missing in a restored table
	meanwhile func()           // runs once, during a slow reply
	spellings atomic.Int64     // the number of spellings used
}

// violation is the value with which a scenario panics.
type violation struct{ error }

func (w *World) fail(format string, args ...any) {
	panic(violation{fmt.Errorf(format, args...)})
}

func (w *World) must(err error) {
	if err != nil {
		w.fail("%w", err)
	}
}

// violated returns the violation that ended f.
func (w *World) violated(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case violation:
			err = fmt.Errorf("%w; the calls:\n  %s", p.error, strings.Join(w.trace, "\n  "))
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

func newWorld(ctx context.Context, e enginetest.Engine) *World {
	w := &World{
		ctx: ctx, engine: e, callOver: func() {}, keep: func(State) {}, random: rand.Reader, clock: NewClock(),
		name: enginerows.NewName(), state: newState(), campaigns: map[string]engine.Campaign{},
	}
	w.through = e.Store
	w.newBank()
	return w
}

// mutate places a mutant below the faults or above them.
func (w *World) mutate(m *Mutant, broken *Store) engine.Store {
	if m.aboveFaults {
		return m.Wrap(enginetest.Engine{Store: broken, Raw: w.engine.Raw}, w.clock)
	}
	w.through = m.Wrap(w.engine, w.clock)
	broken.Store = w.through
	w.newBank()
	return broken
}

func (w *World) newBank() {
	w.bank = itembank.NewOperator(w.through, itembank.WithClock(ahead{w.clock, w.ahead}), itembank.WithRandom(w.random))
}

// Ahead replaces the Bank by one whose clock is ahead of the server's.
func (w *World) Ahead(by time.Duration) {
	w.ahead = by
	w.newBank()
}

// slow runs during a slow reply. The reply takes so long that every proof that the bank is empty is too old
// afterwards.
func (w *World) slow() {
	if meanwhile := w.meanwhile; meanwhile != nil {
		w.meanwhile = nil
		meanwhile()
	}
	w.clock.Advance(emptyMemory * 3 / 2)
}

// mostTries is how often a client makes its call at most. One fault fails one try. If faults come at random, most
// tries of a sweep of many claims fail.
const mostTries = 20

// repeat makes a call until it has an answer, and returns the number of tries.
func (w *World) repeat(what string, call func(context.Context) error) (tries int, err error) {
	for tries = 1; tries <= mostTries; tries++ {
		w.state.Now = w.clock.Now()
		w.keep(w.state)
		ctx, cancel := cancellable(w.ctx)
		err := call(ctx)
		cancel()
		w.callOver()
		w.trace = append(w.trace, fmt.Sprintf("%s: %v", what, err))
		switch {
		case err == nil || errors.Is(err, itembank.ErrRefused) || errors.Is(err, itembank.ErrInvalid):
			w.keep(w.state)
			return tries, err
		case !errors.Is(err, itembank.ErrTryAgain) && !errors.Is(err, context.Canceled):
			w.fail("%s: an error that is no answer and of no family: %w", what, err)
		}
		if w.fresh {
			w.newBank()
		}
		w.clock.Advance(100 * time.Millisecond)
	}
	w.fail("%s has no answer after %d tries", what, mostTries)
	return 0, nil
}

// mustRepeat makes a call until it succeeds, and returns the number of tries.
func (w *World) mustRepeat(what string, call func(context.Context) error) (tries int) {
	tries, err := w.repeat(what, call)
	w.must(err)
	return tries
}

// Create creates a campaign of the world. The suffix becomes the end of its name. The first campaign has an empty
// suffix.
func (w *World) Create(suffix string, s itembank.Settings) {
	if s.Scope != "" {
		s.Scope = w.name + s.Scope
	}
	name := w.name + suffix
	w.mustRepeat("create "+name, func(ctx context.Context) error {
		_, _, err := w.bank.CreateCampaign(ctx, name, s)
		return err
	})
	row, err := w.engine.Store.Campaign(w.ctx, name)
	w.must(err)
	w.campaigns[suffix] = *row
}

// dropCampaigns deletes the rows of the world's campaigns. Thousands of plays share a store, and a campaign with a
// rule for its scope may have to read the rows of all others.
func (w *World) dropCampaigns() {
	if w.engine.Raw == nil {
		return
	}
	for _, c := range w.campaigns {
		w.must(w.engine.Raw.DropCampaign(w.ctx, c.Name))
	}
}

// NotCreated creates a campaign that must be refused. It checks that nothing is left of it.
func (w *World) NotCreated(suffix string, s itembank.Settings) {
	s.Scope = w.name + s.Scope
	_, refused := w.repeat("create "+suffix, func(ctx context.Context) error {
		_, _, err := w.bank.CreateCampaign(ctx, w.name+suffix, s)
		return err
	})
	if row, err := w.engine.Store.Campaign(w.ctx, w.name+suffix); !errors.Is(refused, itembank.ErrInvalid) || row != nil || err != nil {
		w.fail("the scope has other rules: got %w, and campaign %+v, %w", refused, row, err)
	}
}

// A holder names a claim: "ann" has the claim in her first slot, "ann/2" the claim in her second. Claims in two slots
// are as independent as the claims of two claimants.

// keyOf returns the key of a holder's claim.
func keyOf(c engine.Campaign, holder string) engine.ClaimKey {
	claimant, slot, several := strings.Cut(holder, "/")
	if !several {
		return engine.ClaimKey{Scope: c.Scope, Claimant: claimant, Slot: 1}
	}
	return engine.ClaimKey{Scope: c.Scope, Claimant: claimant, Slot: int(slot[0] - '0')}
}

// holderOf is the inverse of keyOf.
func holderOf(claimant string, slot int) string {
	if slot == 1 {
		return claimant
	}
	return fmt.Sprintf("%s/%d", claimant, slot)
}

// spelling returns the slot of a holder, and its claimant in one of several spellings that mean the same claimant.
func (w *World) spelling(c engine.Campaign, holder string) (claimant string, slot itembank.ClaimOption) {
	k := keyOf(c, holder)
	claimant, slot = k.Claimant, itembank.InSlot(k.Slot)
	if c.Claimants != "" {
		spellings := []string{claimant, strings.ToUpper(claimant), " " + claimant + "\u3000"}
		claimant = spellings[int(w.spellings.Add(1))%len(spellings)]
	}
	return claimant, slot
}

// Load loads items, and compares the report with the items that were loaded before.
func (w *World) Load(suffix string, items ...string) {
	c := w.campaigns[suffix]
	before := w.state.Loaded[c.Name]
	cut := w.state.Loading[c.Name][items[0]] // a kill interrupted this load
	note(w.state.Loading, c.Name, items...)
	var report itembank.LoadReport
	tries := w.mustRepeat(fmt.Sprintf("load %d items", len(items)), func(ctx context.Context) (err error) {
		report, err = w.bank.Load(ctx, c.Name, itemsFor(c, items...), nil)
		return err
	})
	w.state.Freed = w.clock.Now()
	var want itembank.Tally
	for _, item := range items {
		want.Rows++
		switch {
		case before[item]:
			want.Known++
		case slices.Contains(items[:want.Rows-1], item):
			want.Repeated++
		default:
			want.Added++
		}
	}
	// A load is finished even if its last reply was lost. Then its repetition knows all items.
	again := itembank.Tally{Rows: want.Rows, Known: want.Rows}
	if report.OtherColumns > 0 {
		w.fail("%d items are known with other columns than those of all loads", report.OtherColumns)
	}
	if report.Tally != want && (tries == 1 && !cut || report.Tally != again) {
		w.fail("G4: want the tally %+v, got %+v in try %d", want, report.Tally, tries)
	}
	delete(w.state.Loading, c.Name)
	note(w.state.Loaded, c.Name, items...)
}

// GiveUp gives up the unfinished load of these items. Items that it added stay loaded.
func (w *World) GiveUp(suffix string, items ...string) {
	c := w.campaigns[suffix]
	_, unfinished, err := w.engine.Store.Loads(w.ctx, c.Name)
	w.must(err)
	for _, l := range unfinished {
		w.mustRepeat("give up load", func(ctx context.Context) error {
			_, err := w.bank.GiveUpLoad(ctx, c.Name, l.ID())
			return err
		})
	}
	if _, unfinished, err = w.engine.Store.Loads(w.ctx, c.Name); len(unfinished) > 0 || err != nil {
		w.fail("given up, and unfinished: %+v, %w", unfinished, err)
	}
	for _, item := range items {
		row, err := w.engine.Store.ItemRow(w.ctx, c.Name, engine.HashItem(item))
		if w.must(err); row != nil {
			note(w.state.Loaded, c.Name, item)
		}
	}
	w.state.Freed = w.clock.Now()
}

// Claim claims for a claimant. It returns either a grant or a refusal.
func (w *World) Claim(suffix, claimant string) (grant itembank.Grant, refused error) {
	return w.Choose(suffix, claimant)
}

// Choose claims the named items for a claimant. Without names, the claimant gets any item.
func (w *World) Choose(suffix, claimant string, items ...string) (grant itembank.Grant, refused error) {
	c := w.campaigns[suffix]
	note(w.state.Asked, c.Scope, claimant)
	var start time.Time
	var before string // the id of the claimant's claim when the call began
	var closable bool
	alone := w.meanwhile == nil
	tries, refused := w.repeat(fmt.Sprintf("claim %s for %s", suffix, claimant), func(ctx context.Context) (err error) {
		start, closable = w.clock.Now(), w.mayReturnItem()
		before = w.heldID(c, claimant)
		who, slot := w.spelling(c, claimant)
		grant, err = w.bank.Claim(ctx, c.Name, who, slot, itembank.Choosing(items...))
		return err
	})
	now := w.clock.Now()
	if closable {
		defer func() { w.state.Freed = now }()
	}
	if refused == nil {
		id := grant.Claim.ID
		w.trace[len(w.trace)-1] += fmt.Sprintf(", %v in claim %s", grant.Claim.Items, id)
		if len(items) > 0 && !grant.Replayed && !slices.Equal(grant.Claim.Items, items) {
			w.fail("%s chose %v, and was given %v", claimant, items, grant.Claim.Items)
		}
		w.must(w.state.checkGrant(c, claimant, grant, now))
		// A call that failed may still run, and make the claim during this one.
		if existed := before == id; existed && !grant.Replayed || !existed && grant.Replayed && alone && tries == 1 && !w.killed {
			w.fail("G2: claim %s of %s was there when the call began: %t, and is told as replayed: %t", id, claimant, existed, grant.Replayed)
		}
		w.checkLength(c, grant, start, now)
		w.keep(w.state)
		return grant, nil
	}
	w.must(w.state.checkRefusal(c, claimant, refused, now))
	if alone && tries == 1 && !closable && !w.killed && errors.Is(refused, itembank.ErrItemTaken) && w.allFree(c, items, now) {
		w.fail("%s chose %v, which are free, and was told that they are taken", claimant, items)
	}
	if errors.Is(refused, itembank.ErrSoldOut) {
		w.checkSoldOut(c, claimant, closable, start, now)
	}
	return itembank.Grant{}, refused
}

// checkSoldOut checks G5 after a request that began at start was refused because the campaign is sold out. closable: a
// request may have put an item into the bank meanwhile.
func (w *World) checkSoldOut(c engine.Campaign, claimant string, closable bool, start, now time.Time) {
	if closable || !w.state.Freed.Before(start.Add(-emptyMemory)) {
		return
	}
	for _, i := range w.freeItems(c) {
		if i.EndsAt.IsZero() || i.EndsAt.After(now) {
			w.fail("G5: %s was told sold out, and %s is free", claimant, i.Value)
		}
	}
}

// allFree reports whether all items are free.
func (w *World) allFree(c engine.Campaign, items []string, now time.Time) bool {
	free := map[string]bool{}
	for _, i := range w.freeItems(c) {
		free[i.Value] = i.EndsAt.IsZero() || i.EndsAt.After(now)
	}
	return !slices.ContainsFunc(items, func(item string) bool { return !free[item] })
}

// GetChosen claims items for a claimant who must get them.
func (w *World) GetChosen(suffix, claimant string, items ...string) itembank.Claim {
	grant, refused := w.Choose(suffix, claimant, items...)
	if refused != nil {
		w.fail("%s chose %v, and was refused: %w", claimant, items, refused)
	}
	return grant.Claim
}

// NotChosen claims items for a claimant. At least one of the items is not free, so that the claim must be refused.
func (w *World) NotChosen(suffix, claimant string, items ...string) {
	if grant, refused := w.Choose(suffix, claimant, items...); !errors.Is(refused, itembank.ErrItemTaken) {
		w.fail("%s chose %v: want %w, got %+v, %w", claimant, items, itembank.ErrItemTaken, grant, refused)
	}
}

// checkLength checks, by the server's clock, that a new claim with an end has its full length.
func (w *World) checkLength(c engine.Campaign, g itembank.Grant, start, now time.Time) {
	length := max(c.ClaimLife, c.Hold)
	if end := g.Claim.EndsAt; !g.Replayed && length > 0 &&
		(end.Before(start.Truncate(time.Millisecond).Add(length)) || end.After(now.Add(length))) {
		w.fail("a claim that %s was told between %s and %s ends at %s", g.Claim.Claimant, start, now, end)
	}
}

// heldID returns the id of the claim that a claimant holds, or "" if the claimant holds none.
func (w *World) heldID(c engine.Campaign, claimant string) string {
	held, _, err := w.engine.Store.HeldClaim(w.ctx, keyOf(c, claimant), engine.Strong)
	w.must(err)
	if held == nil {
		return ""
	}
	return held.ID
}

// mayReturnItem reports whether a request may put an item into a bank: it does if it finds a claim that has ended, and
// closes it.
func (w *World) mayReturnItem() bool {
	for _, t := range w.state.Told {
		if !t.asked(releaseOp) && t.mayBeClosed(w.clock.Now()) {
			return true
		}
	}
	return false
}

// Get claims for a claimant who must get an item.
func (w *World) Get(suffix, claimant string) itembank.Claim {
	grant, refused := w.Claim(suffix, claimant)
	if refused != nil {
		w.fail("%s was refused: %w", claimant, refused)
	}
	return grant.Claim
}

// Refused claims for a claimant who must be refused.
func (w *World) Refused(suffix, claimant string, want error) {
	if grant, refused := w.Claim(suffix, claimant); !errors.Is(refused, want) {
		w.fail("%s: want %w, got %+v, %w", claimant, want, grant, refused)
	}
}

// Release releases the latest claim that the claimant got.
func (w *World) Release(suffix, claimant string) {
	c := w.campaigns[suffix]
	id := w.state.Told[key(c.Scope, claimant)].Claim.ID
	w.state.release(c, claimant, id)
	alone := w.meanwhile == nil
	var existed bool // the claim existed when the call began
	var released itembank.Released
	tries := w.mustRepeat("release of "+claimant, func(ctx context.Context) (err error) {
		existed = w.heldID(c, claimant) == id
		who, slot := w.spelling(c, claimant)
		released, err = w.bank.Release(ctx, c.Name, who, id, slot)
		return err
	})
	w.state.Freed = w.clock.Now()
	if !existed && !released.Already || existed && released.Already && alone && tries == 1 && !w.killed {
		w.fail("claim %s was there when its release began: %t, and the release says %+v", id, existed, released)
	}
	if w.heldID(c, claimant) == id {
		w.fail("claim %s is released (%+v), and there", id, released)
	}
}

// Replace replaces the latest claim that the claimant got. It returns either a grant or a refusal.
func (w *World) Replace(suffix, claimant string) (grant itembank.Grant, refused error) {
	c := w.campaigns[suffix]
	told := w.state.Told[key(c.Scope, claimant)]
	alone, closable := w.meanwhile == nil, false
	var start time.Time
	tries, refused := w.repeat("replace the claim of "+claimant, func(ctx context.Context) (err error) {
		start, closable = w.clock.Now(), w.mayReturnItem()
		who, slot := w.spelling(c, claimant)
		grant, err = w.bank.Replace(ctx, c.Name, who, told.Claim.ID, slot)
		return err
	})
	now := w.clock.Now()
	if closable {
		defer func() { w.state.Freed = now }()
	}
	switch {
	case refused == nil && grant.Replayed && tries == 1 && alone && !w.killed:
		w.fail("claim %s is told as replaced before", told.Claim.ID)
	case refused == nil:
		w.must(w.state.checkReplaced(c, claimant, grant, now))
		w.keep(w.state)
	case !told.mayBeClosed(now) && w.heldID(c, claimant) != told.Claim.ID:
		w.fail("G2: the claim %+v of %s was not replaced (%w), and is gone", told.Claim, claimant, refused)
	case errors.Is(refused, itembank.ErrSoldOut):
		w.checkSoldOut(c, claimant, closable, start, now)
	}
	return grant, refused
}

// Replaced replaces the latest claim that the claimant got, which must succeed.
func (w *World) Replaced(suffix, claimant string) itembank.Claim {
	grant, refused := w.Replace(suffix, claimant)
	if refused != nil {
		w.fail("the claim of %s was not replaced: %w", claimant, refused)
	}
	return grant.Claim
}

// Forget forgets the claimant of some holders, who are all slots of the claimant. From then on they get no item.
func (w *World) Forget(suffix string, holders ...string) {
	c := w.campaigns[suffix]
	for _, holder := range holders {
		w.state.release(c, holder, w.state.Told[key(c.Scope, holder)].Claim.ID)
	}
	var report itembank.ForgetReport
	w.mustRepeat("forget "+holders[0], func(ctx context.Context) (err error) {
		who, _ := w.spelling(c, holders[0])
		report, err = w.bank.Forget(ctx, c.Scope, who, itembank.ForgetOptions{})
		return err
	})
	w.state.Freed = w.clock.Now()
	if len(report.Kept) > 0 || report.Blocked != len(holders) {
		w.fail("want %v forgotten and blocked, got %+v", holders, report)
	}
	note(w.state.Blocked, c.Scope, holders...)
	w.checkBlocked(c)
}

// Unblock lets the claimant of some holders claim again.
func (w *World) Unblock(suffix string, holders ...string) {
	c := w.campaigns[suffix]
	for _, holder := range holders {
		delete(w.state.Blocked[c.Scope], holder)
	}
	w.mustRepeat("unblock "+holders[0], func(ctx context.Context) error {
		who, _ := w.spelling(c, holders[0])
		_, err := w.bank.Unblock(ctx, c.Scope, who)
		return err
	})
}

// checkBlocked checks that each blocked holder has a block.
func (w *World) checkBlocked(c engine.Campaign) {
	for holder := range w.state.Blocked[c.Scope] {
		held, _, err := w.engine.Store.HeldClaim(w.ctx, keyOf(c, holder), engine.Strong)
		w.must(err)
		if held == nil || !held.IsBlock() {
			w.fail("%s is blocked, and the store has %+v", holder, held)
		}
	}
}

// Sweep sweeps a campaign. It checks that no claim is left that had ended before.
func (w *World) Sweep(suffix string) {
	c := w.campaigns[suffix]
	var start time.Time
	w.mustRepeat("sweep", func(ctx context.Context) error {
		start = w.clock.Now()
		_, err := w.bank.Sweep(ctx, c.Name, nil)
		return err
	})
	w.state.Freed = w.clock.Now()
	w.checkSwept(c, start)
	for _, i := range w.freeItems(c) {
		if !i.EndsAt.IsZero() && i.EndsAt.Before(start) {
			w.fail("swept, and %s is free, which ended at %v", i.Value, i.EndsAt)
		}
	}
}

// SweepDue sweeps the due claims of a campaign. It checks that no claim is left that had ended before.
func (w *World) SweepDue(suffix string) {
	c := w.campaigns[suffix]
	var start time.Time
	w.mustRepeat("sweep of what is due", func(ctx context.Context) error {
		start = w.clock.Now()
		_, err := w.bank.SweepDue(ctx, c.Name, nil)
		return err
	})
	w.state.Freed = w.clock.Now()
	w.checkSwept(c, start)
}

// checkSwept checks that no claim is left that had ended when a sweep began. It ignores claims that a client asked to
// confirm or prolong without an answer, because they may not have ended.
func (w *World) checkSwept(c engine.Campaign, start time.Time) {
	for _, t := range w.state.Told {
		if t.Claim.Campaign == c.Name && len(t.Asked) == 0 && t.Until.IsZero() && t.mayBeClosed(start) && w.heldID(c, holderOf(t.Claim.Claimant, t.Claim.Slot)) == t.Claim.ID {
			w.fail("swept, but claim %+v still exists", t.Claim)
		}
	}
}

// Confirm confirms the latest claim that the claimant got. It returns the refusal, if it is refused.
func (w *World) Confirm(suffix, claimant string) (refused error) {
	return w.ConfirmID(suffix, claimant, w.state.Told[key(w.campaigns[suffix].Scope, claimant)].Claim.ID)
}

// ConfirmID confirms a claim that the claimant may no longer hold.
func (w *World) ConfirmID(suffix, claimant, id string) (refused error) {
	c := w.campaigns[suffix]
	k := key(c.Scope, claimant)
	w.state.confirm(c, claimant, id)
	var claim itembank.Claim
	_, refused = w.repeat("confirmation of "+claimant, func(ctx context.Context) (err error) {
		who, slot := w.spelling(c, claimant)
		claim, err = w.bank.Confirm(ctx, c.Name, who, id, slot)
		return err
	})
	told := w.state.Told[k]
	switch {
	case refused == nil && (told.Claim.ID != id || !reflect.DeepEqual(claim, permanent(told.Claim))):
		w.fail("%s was told of %+v, and confirmed %+v", claimant, told.Claim, claim)
	case refused == nil:
		told.Claim = claim
		w.state.Told[k] = told
		w.keep(w.state)
		if held, _, err := w.engine.Store.HeldClaim(w.ctx, keyOf(c, claimant), engine.Strong); err != nil || !told.asked(releaseOp) && (held == nil || !reflect.DeepEqual(w.claimOf(*held), claim)) {
			w.fail("%+v is confirmed, and the store holds %+v, %w", claim, held, err)
		}
	case told.Claim.ID == id && !told.mayBeClosed(w.clock.Now()):
		w.fail("G2: %s holds %+v, and its confirmation was refused: %w", claimant, told.Claim, refused)
	case w.heldID(c, claimant) == id:
		w.fail("claim %s of %s exists, but its confirmation was refused: %w", id, claimant, refused)
	}
	return refused
}

// Prolong prolongs the latest hold that the claimant got. It returns the refusal, if it is refused.
func (w *World) Prolong(suffix, claimant string) (refused error) {
	c, k := w.campaigns[suffix], key(w.campaigns[suffix].Scope, claimant)
	seen := w.state.Told[k].Claim
	if seen.EndsAt.IsZero() {
		return nil // the claimant has no hold, or has paid
	}
	w.state.prolong(c, claimant)
	start, alone := w.clock.Now(), w.meanwhile == nil && !w.killed
	var claim itembank.Claim
	_, refused = w.repeat("prolongation of "+claimant, func(ctx context.Context) (err error) {
		who, slot := w.spelling(c, claimant)
		claim, err = w.bank.Prolong(ctx, c.Name, who, seen.ID, seen.EndsAt, slot)
		return err
	})
	told, now := w.state.Told[k], w.clock.Now()
	switch {
	case refused == nil:
		w.must(w.state.prolonged(c, claimant, seen, claim))
		w.keep(w.state)
		if alone {
			w.checkProlonged(c, seen, claim, start, now)
		}
		if held, _, err := w.engine.Store.HeldClaim(w.ctx, keyOf(c, claimant), engine.Strong); err != nil || !told.asked(releaseOp) && (held == nil || !reflect.DeepEqual(w.claimOf(*held), claim)) {
			w.fail("%+v is prolonged, and the store holds %+v, %w", claim, held, err)
		}
	case !told.mayBeClosed(now):
		w.fail("G2: %s holds %+v, and its prolongation was refused: %w", claimant, told.Claim, refused)
	case w.heldID(c, claimant) == seen.ID:
		w.fail("claim %s of %s exists, but its prolongation was refused: %w", seen.ID, claimant, refused)
	}
	return refused
}

// checkProlonged checks, by the server's clock, that a hold that was prolonged has its full length again, but is no longer
// than the longest hold.
func (w *World) checkProlonged(c engine.Campaign, seen, claim itembank.Claim, start, now time.Time) {
	if claim.EndsAt.IsZero() { // confirmed
		return
	}
	ends := func(from time.Time) time.Time {
		last := seen.ClaimedAt.Add(c.MaxHold)
		if end := from.Add(c.Hold); end.Before(last) {
			last = end
		}
		if seen.EndsAt.After(last) {
			return seen.EndsAt
		}
		return last
	}
	if claim.EndsAt.Before(ends(start.Truncate(time.Millisecond))) || claim.EndsAt.After(ends(now)) {
		w.fail("hold %+v was prolonged between %s and %s: %+v", seen, start, now, claim)
	}
}

// ReleaseHold releases the latest claim that the claimant got, as its holder. It returns the refusal: a confirmed
// claim stays.
func (w *World) ReleaseHold(suffix, claimant string) (refused error) {
	c := w.campaigns[suffix]
	told := w.state.Told[key(c.Scope, claimant)]
	id := told.Claim.ID
	if !told.Claim.EndsAt.IsZero() {
		w.state.release(c, claimant, id)
	}
	_, refused = w.repeat("release by "+claimant, func(ctx context.Context) error {
		who, slot := w.spelling(c, claimant)
		_, err := w.bank.ReleaseHold(ctx, c.Name, who, id, slot)
		return err
	})
	w.state.Freed = w.clock.Now()
	held, _, err := w.engine.Store.HeldClaim(w.ctx, keyOf(c, claimant), engine.Strong)
	w.must(err)
	there := held != nil && held.ID == id
	switch {
	case refused == nil && there:
		w.fail("hold %s is released, and there", id)
	case refused != nil && (!errors.Is(refused, itembank.ErrConfirmed) || !there || !held.EndsAt.IsZero()):
		w.fail("the release by %s was refused, and there is %+v: %w", claimant, held, refused)
	case refused != nil:
		w.state.Told[key(c.Scope, claimant)] = Told{Claim: permanent(told.Claim), Asked: []opKind{confirmOp}}
	}
	return refused
}

// Withdraw withdraws items. It checks that none of the items is free. It also checks the report, if no call failed
// and no other client moved the items.
func (w *World) Withdraw(suffix string, items ...string) {
	c := w.campaigns[suffix]
	want := w.withdrawal(c, items)
	alone := w.meanwhile == nil
	var report itembank.WithdrawReport
	tries := w.mustRepeat("withdraw", func(ctx context.Context) (err error) {
		report, err = w.bank.Withdraw(ctx, c.Name, itembank.Items(items...))
		return err
	})
	if tries == 1 && alone && report != want {
		w.fail("want the report %+v of the withdrawal of %v, got %+v", want, items, report)
	}
	w.noteWithdrawn(c, items...)
	w.checkWithdrawn(c)
}

// noteWithdrawn records the withdrawn items. It leaves out items that are not loaded, because Withdraw does not know
// them.
func (w *World) noteWithdrawn(c engine.Campaign, items ...string) {
	for _, item := range items {
		if w.state.Loaded[c.Name][item] {
			note(w.state.Withdrawn, c.Name, item)
		}
	}
}

// checkWithdrawn checks that no withdrawn item is in the bank.
func (w *World) checkWithdrawn(c engine.Campaign) {
	for _, i := range w.freeItems(c) {
		if w.state.Withdrawn[c.Name][i.Value] {
			w.fail("%s was withdrawn, and is free", i.Value)
		}
	}
}

// withdrawal returns the report that a Withdraw must give, from the rows.
func (w *World) withdrawal(c engine.Campaign, items []string) (want itembank.WithdrawReport) {
	for n, item := range items {
		row, err := w.engine.Store.ItemRow(w.ctx, c.Name, engine.HashItem(item))
		w.must(err)
		free := slices.ContainsFunc(w.freeItems(c), func(i engine.FreeItem) bool { return i.Value == item })
		switch {
		case row == nil:
			want.Unknown++
		case row.State != "" || free && slices.Contains(items[:n], item):
			want.Already++
		case free:
			want.Withdrawn++
		default:
			want.Held++
		}
	}
	return want
}

// WithdrawAll withdraws all free items.
func (w *World) WithdrawAll(suffix string) {
	w.mustRepeat("withdraw all", func(ctx context.Context) error {
		_, err := w.bank.WithdrawAll(ctx, w.campaigns[suffix].Name, nil)
		return err
	})
}

// SetOpen opens or closes a campaign. It waits until every Bank knows.
func (w *World) SetOpen(suffix string, open bool) {
	w.mustRepeat(fmt.Sprintf("open %t", open), func(ctx context.Context) error {
		if open {
			return w.bank.OpenCampaign(ctx, w.campaigns[suffix].Name)
		}
		return w.bank.CloseCampaign(ctx, w.campaigns[suffix].Name)
	})
	w.clock.Advance(itembank.DefaultCampaignCache)
}

// Repair repairs a closed campaign. It repeats the repair while the report names items as moving, as operators do.
func (w *World) Repair(suffix string, items ...string) {
	w.mustRepeat("repair", func(ctx context.Context) error {
		report, err := w.bank.Repair(ctx, w.campaigns[suffix].Name, itembank.RepairOptions{Items: itembank.Items(items...)})
		if err == nil && slices.ContainsFunc(report.Inconsistencies, isMoving) {
			err = fmt.Errorf("%w: items are moving", itembank.ErrTryAgain)
		}
		return err
	})
}

// Replay replays claims in a closed campaign. It repeats the replay while the report names items that have moved, as
// operators do. Afterwards every claimant must hold the claim.
func (w *World) Replay(suffix string, claims ...itembank.Claim) {
	var report itembank.ReplayReport
	tries := w.mustRepeat("replay", func(ctx context.Context) (err error) {
		report, err = w.bank.Replay(ctx, w.campaigns[suffix].Name, linesOf(claims))
		if err == nil && slices.ContainsFunc(report.Lines, hasMoved) {
			err = fmt.Errorf("%w: items have moved", itembank.ErrTryAgain)
		}
		return err
	})
	if n := int64(len(claims)); report.Replayed+report.Already != n || tries == 1 && report.Replayed != n {
		w.fail("replayed %d claims in %d tries: %+v", n, tries, report)
	}
}

// linesOf returns a source of claims.
func linesOf(claims []itembank.Claim) itembank.ClaimSource {
	return func() iter.Seq2[itembank.ClaimLine, error] {
		return func(yield func(itembank.ClaimLine, error) bool) {
			for n, c := range claims {
				if !yield(itembank.ClaimLine{Number: int64(n) + 1, Claim: c}, nil) {
					return
				}
			}
		}
	}
}

func hasMoved(l itembank.ReplayedLine) bool { return l.Outcome == "moved" }

func isMoving(i itembank.Inconsistency) bool { return i.Kind == "moving" }

// freeItems lists the free items. Its calls do not fail.
func (w *World) freeItems(c engine.Campaign) (all []engine.FreeItem) {
	for n := range c.Shards {
		shard := engine.Shard{Campaign: c.Name, Number: n}
		page, err := w.engine.Store.FreeItems(w.ctx, shard, engine.Range{}, 1000, engine.Strong)
		w.must(err)
		all = append(all, page.Items...)
	}
	return all
}

// checkRows checks G1 to G4 on the rows, after all calls have ended. A full check reads all rows. Other checks read
// only the rows whose keys the world knows.
func (w *World) checkRows(full bool) {
	for _, suffix := range slices.Sorted(maps.Keys(w.campaigns)) {
		c := w.campaigns[suffix]
		if full {
			w.reconcile(c)
		}
		w.checkPlaces(c)
		w.checkWithdrawn(c)
		w.checkBlocked(c)
		w.checkMark(c)
	}
	w.checkTold()
}

// checkTold checks that each claimant holds the claim that she was told of, unless it may be closed.
func (w *World) checkTold() {
	for _, k := range slices.Sorted(maps.Keys(w.state.Told)) {
		t := w.state.Told[k]
		if t.mayBeClosed(w.clock.Now()) {
			continue
		}
		held, _, err := w.engine.Store.HeldClaim(w.ctx, engine.ClaimKey{Scope: t.Claim.Scope, Claimant: t.Claim.Claimant, Slot: t.Claim.Slot}, engine.Strong)
		w.must(err)
		if held == nil || !t.resolved(held.EndsAt).same(w.claimOf(*held)) || held.ItemHash != engine.HashItem(held.Item) {
			w.fail("G2: %s was told of %+v, and the store holds %+v", t.Claim.Claimant, t.Claim, held)
		}
	}
}

// checkMark checks G5 on the row of a campaign that burns items: it does not say that the bank is empty while an item is
// free.
func (w *World) checkMark(c engine.Campaign) {
	row, err := w.engine.Store.Campaign(w.ctx, c.Name)
	w.must(err)
	if row.OnEnd != engine.Burn || row.EmptyVersion == 0 || row.EmptyVersion != row.Version {
		return
	}
	for _, i := range w.freeItems(c) {
		if i.EndsAt.IsZero() || i.EndsAt.After(w.clock.Now()) {
			w.fail("G5: the row of %s says that the bank is empty, and %s is free", c.Name, i.Value)
		}
	}
}

// permanent returns the claim that a hold becomes when it is confirmed.
func permanent(c itembank.Claim) itembank.Claim {
	c.EndsAt = time.Time{}
	return c
}

// claimOf returns the claim of a row, with the columns that its items must have.
func (w *World) claimOf(c engine.Claim) itembank.Claim {
	claim := itembank.Claim{
		ID: c.ID, Campaign: c.Campaign, Scope: c.Scope, Claimant: c.Claimant, Slot: c.Slot, Items: c.Items(),
		ClaimedAt: c.ClaimedAt, EndsAt: c.EndsAt,
	}
	claim.Columns = wantColumns(w.campaigns[strings.TrimPrefix(c.Campaign, w.name)], claim)
	return claim
}

// reconcile checks with the Bank's own Reconcile that every loaded item is in one place.
func (w *World) reconcile(c engine.Campaign) {
	report, err := itembank.NewOperator(w.engine.Store, itembank.WithClock(w.clock)).Reconcile(w.ctx, c.Name)
	w.must(err)
	n, loaded := report.Counts, int64(len(w.state.Loaded[c.Name]))
	if len(report.Inconsistencies) > 0 || n.Loaded != n.Free+n.Claimed+n.Ended || n.Loaded != loaded {
		w.fail("G3: %d items were loaded; counts %+v, inconsistencies %+v", loaded, n, report.Inconsistencies)
	}
}

// checkPlaces checks that every loaded item is in one place. It reads the keys of all items and claimants that the
// world knows.
func (w *World) checkPlaces(c engine.Campaign) {
	places := w.places(c)
	for item, found := range places {
		if !w.state.loads(c.Name, item) {
			w.fail("G4: %s is %v, but was not loaded", item, found)
		}
	}
	for item := range w.state.Loaded[c.Name] {
		if len(places[item]) != 1 {
			w.fail("G3: item %s is in %d places: %v", item, len(places[item]), places[item])
		}
	}
}

// someFree is the number of free items whose item rows a check reads. In a large load the other free items were
// written together with these.
const someFree = 5

// places reads the places of the items of a campaign.
func (w *World) places(c engine.Campaign) map[string][]string {
	places := map[string][]string{}
	for _, i := range w.freeItems(c) {
		places[i.Value] = append(places[i.Value], isFree)
	}
	for claimant := range w.state.Asked[c.Scope] {
		held, _, err := w.engine.Store.HeldClaim(w.ctx, keyOf(c, claimant), engine.Strong)
		w.must(err)
		if held != nil && held.Campaign == c.Name {
			for _, item := range held.Items() {
				places[item] = append(places[item], heldBy(claimant))
			}
		}
	}
	free := 0
	for item := range w.state.Loaded[c.Name] {
		if slices.Equal(places[item], []string{isFree}) {
			if free++; free > someFree {
				continue
			}
		}
		row, err := w.engine.Store.ItemRow(w.ctx, c.Name, engine.HashItem(item))
		w.must(err)
		if row == nil {
			places[item] = append(places[item], "not loaded")
		} else if row.State != "" {
			places[item] = append(places[item], string(row.State))
		}
	}
	return places
}

const isFree = "free"

func heldBy(claimant string) string { return "held by " + claimant }

// WantPlaces compares the places of all items of a campaign with want.
func (w *World) WantPlaces(suffix string, want map[string]string) {
	got := w.places(w.campaigns[suffix])
	for item, place := range want {
		if !slices.Equal(got[item], []string{place}) {
			w.fail("want item %s %s, it is %v", item, place, got[item])
		}
	}
	if len(got) != len(want) {
		w.fail("want the items %v, got %v", want, got)
	}
}
