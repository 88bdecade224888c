package itembankfault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/testkit/commandpairs"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// pairing is the world of a pair, with what operators may believe about its campaign.
type pairing struct {
	*World
	mutant    *Mutant
	copyStore CopyStore
	moments   bool
	broken    error // what was wrong after a call

	mode    []engine.Mode // those that the campaign may have
	opens   int           // the number of opens that began
	closes  int           // the number of closes that were answered
	closing int           // the number of closes that have begun, and are neither answered nor killed
	// wrong: an item is missing, or a claim is lost, as after a restore.
	wrong bool

	begun   int                       // the number of items that were loaded before the pair began
	reports map[string]itembank.Tally // of the loads that were answered, by the id of the load
	gaveUp  bool                      // a command began to give loads up

	deleting, deleted bool            // a deletion has begun; it was answered
	forgetting        map[string]bool // the holders whom a command began to forget
	customers         int             // the number of customers who asked
}

// What operators may believe about the mode of a campaign.
var (
	opened      = []engine.Mode{engine.ByTimes, engine.OpenByHand}
	closed      = []engine.Mode{engine.ClosedByHand, engine.ClosedUntilReconciled}
	closedUntil = []engine.Mode{engine.ClosedUntilReconciled}
	anyMode     = slices.Concat(opened, closed)
)

func newPairing(ctx context.Context, e enginetest.Engine, o PairOptions, m *Mutant) *pairing {
	w := &pairing{
		World: newWorld(ctx, e), mutant: m, copyStore: o.copyStore, moments: o.Moments, mode: opened,
		reports: map[string]itembank.Tally{}, forgetting: map[string]bool{},
	}
	w.random = Seeded()
	w.newBank()
	return w
}

// c returns the campaign of a pair.
func (w *pairing) c() engine.Campaign { return w.campaigns[""] }

// loseItem takes a free item out of its place, as a restore of one table does.
func (w *pairing) loseItem() {
	if w.wrong {
		return
	}
	w.wrong = true
	w.must(w.engine.Raw.DropBankRow(w.ctx, w.freeItems(w.c())[0]))
}

// claim claims for a holder. The answer is right if it was right when the request began, or is right now: another
// command may have run in between.
func (p *process) claim(holder string) (refused error) {
	w, c := p.w, p.w.c()
	note(w.state.Asked, c.Scope, holder)
	before, k := w.state.clone(), keyOf(c, holder)
	var grant itembank.Grant
	refused = p.ask("claim for "+holder, func(ctx context.Context) (err error) {
		grant, err = p.bank.Claim(ctx, c.Name, k.Claimant, itembank.InSlot(k.Slot))
		return err
	})
	now := w.clock.Now()
	switch {
	case refused == nil:
		w.told(before, holder, grant)
	case w.deleting && errors.Is(refused, itembank.ErrNoCampaign):
	case !errors.Is(refused, itembank.ErrRefused):
		w.fail("%s got an error: %w", holder, refused)
	case before.checkRefusal(c, holder, refused, now) != nil:
		w.must(w.state.checkRefusal(c, holder, refused, now))
	}
	return refused
}

// told checks and records a grant. before is the state when the request began.
func (w *pairing) told(before State, holder string, g itembank.Grant) {
	c, now := w.c(), w.clock.Now()
	w.trace[len(w.trace)-1] += fmt.Sprintf(", %v in claim %s", g.Claim.Items, g.Claim.ID)
	k := key(c.Scope, holder)
	late := w.state.clone().checkGrant(c, holder, g, now)
	if late == nil {
		w.must(w.state.checkGrant(c, holder, g, now))
	} else {
		w.must(before.checkGrant(c, holder, g, now))
	}
	if late != nil && w.state.Told[k].Claim.ID != g.Claim.ID {
		w.state.Told[k] = Told{Claim: g.Claim}
		for _, item := range g.Claim.Items {
			w.state.Given[key(c.Name, item)] = g.Claim.ID
		}
	}
	if w.forgetting[holder] {
		w.state.release(c, holder, w.state.Told[k].Claim.ID)
	}
}

// get claims for a holder, who must get an item.
func (p *process) get(holder string) {
	if refused := p.claim(holder); refused != nil {
		p.w.fail("%s was refused: %w", holder, refused)
	}
}

// refused claims for a holder, who must be refused.
func (p *process) refused(holder string, want error) {
	if refused := p.claim(holder); !errors.Is(refused, want) {
		p.w.fail("%s: want %w, got %w", holder, want, refused)
	}
}

// sellOut lets customers claim until one is refused.
func (p *process) sellOut() {
	for p.claim(p.w.newCustomer()) == nil {
	}
}

// confirm confirms the hold that was told to a holder.
func (p *process) confirm(holder string) {
	w, c := p.w, p.w.c()
	k, at := keyOf(c, holder), key(c.Scope, holder)
	before := w.state.Told[at]
	hold := before.Claim
	w.state.confirm(c, holder, hold.ID)
	var claim itembank.Claim
	refused := p.ask("confirmation of "+holder, func(ctx context.Context) (err error) {
		claim, err = p.bank.Confirm(ctx, c.Name, k.Claimant, hold.ID, itembank.InSlot(k.Slot))
		return err
	})
	told, now := w.state.Told[at], w.clock.Now()
	switch {
	case refused == nil && !reflect.DeepEqual(claim, permanent(hold)):
		w.fail("%s confirmed %+v, and got %+v", holder, hold, claim)
	case refused == nil:
		told.Claim = claim
		w.state.Told[at] = told
	case !errors.Is(refused, itembank.ErrRefused):
		w.fail("%s got an error: %w", holder, refused)
	case !before.mayBeClosed(now) && !told.mayBeClosed(now):
		w.fail("G2: %s holds %+v, and its confirmation was refused: %w", holder, told.Claim, refused)
	}
}

// prolong prolongs the hold that was told to a holder.
func (p *process) prolong(holder string) {
	w, c := p.w, p.w.c()
	k, at := keyOf(c, holder), key(c.Scope, holder)
	before := w.state.Told[at]
	w.state.prolong(c, holder)
	var claim itembank.Claim
	refused := p.ask("prolongation of "+holder, func(ctx context.Context) (err error) {
		claim, err = p.bank.Prolong(ctx, c.Name, k.Claimant, before.Claim.ID, before.Claim.EndsAt, itembank.InSlot(k.Slot))
		return err
	})
	told, now := w.state.Told[at], w.clock.Now()
	switch {
	case refused == nil:
		w.must(w.state.prolonged(c, holder, before.Claim, claim))
	case !errors.Is(refused, itembank.ErrRefused):
		w.fail("%s got an error: %w", holder, refused)
	case !before.mayBeClosed(now) && !told.mayBeClosed(now):
		w.fail("G2: %s holds %+v, and its prolongation was refused: %w", holder, told.Claim, refused)
	}
}

// giveBack releases the hold that was told to a holder, for the holder.
func (p *process) giveBack(holder string) {
	w, c := p.w, p.w.c()
	k, hold := keyOf(c, holder), w.state.Told[key(c.Scope, holder)].Claim
	w.state.release(c, holder, hold.ID)
	p.must("release by "+holder, func(ctx context.Context) error {
		_, err := p.bank.ReleaseHold(ctx, c.Name, k.Claimant, hold.ID, itembank.InSlot(k.Slot))
		return err
	})
	if w.heldID(c, holder) == hold.ID {
		w.fail("hold %s is released, and there", hold.ID)
	}
}

// load loads items. If the load was given up meanwhile, it is repeated.
func (p *process) load(items ...string) {
	w, c := p.w, p.w.c()
	note(w.state.Loading, c.Name, items...)
	var report itembank.LoadReport
	load := func(ctx context.Context) (err error) {
		report, err = p.bank.Load(ctx, c.Name, itemsFor(c, items...), nil)
		return err
	}
	err := p.ask("load", load)
	if errors.Is(err, itembank.ErrLoadGivenUp) && w.gaveUp {
		err = p.ask("load again", load)
	}
	if w.deleting && errors.Is(err, itembank.ErrNoCampaign) {
		return
	}
	w.must(err)
	n := report.Tally
	if n.Rows != int64(len(items)) || n.Rows != n.Added+n.Known+n.Repeated || report.OtherColumns > 0 {
		w.fail("G4: a load of %d items: %+v", len(items), report)
	}
	if !isFirst(report.LoadID) && n.Added > 0 && !w.gaveUp {
		w.fail("G4: load %s added %d items, though the load before it was finished", report.LoadID, n.Added)
	}
	w.reports[report.LoadID] = n
	note(w.state.Loaded, c.Name, items...)
}

// isFirst reports whether a load is the first one of its items.
func isFirst(id string) bool {
	_, number, _ := strings.Cut(id, "#")
	return strings.TrimLeft(number, "0") == "1"
}

// giveUp gives up all unfinished loads.
func (p *process) giveUp() {
	w := p.w
	w.gaveUp = true
	var loads []itembank.UnfinishedLoad
	p.must("unfinished loads", func(ctx context.Context) (err error) {
		loads, err = p.bank.UnfinishedLoads(ctx, w.name)
		return err
	})
	for _, l := range loads {
		p.must("give up "+l.LoadID, func(ctx context.Context) error {
			_, err := p.bank.GiveUpLoad(ctx, w.name, l.LoadID)
			return err
		})
	}
}

// close closes the campaign. Afterwards it is closed, unless an open began meanwhile.
func (p *process) close() { p.closeBy("close", closed, (*itembank.Operator).CloseCampaign) }

func (p *process) closeUntilReconciled() {
	p.closeBy("close until reconciled", closedUntil, (*itembank.Operator).CloseUntilReconciled)
}

func (p *process) closeBy(what string, mode []engine.Mode, do func(*itembank.Operator, context.Context, string) error) {
	w := p.w
	opens := w.opens
	w.closing++
	defer func() { w.closing-- }()
	switch {
	case slices.Contains(w.mode, engine.OpenByHand):
		w.mode = anyMode
	case !slices.Equal(w.mode, mode):
		w.mode = closed
	}
	p.must(what, func(ctx context.Context) error { return do(p.bank, ctx, w.name) })
	w.closes++
	if w.opens == opens {
		w.mode = mode
	}
}

// open opens the campaign. The open fails if its rows are wrong, or if a close was answered meanwhile.
func (p *process) open() {
	w := p.w
	closes, until := w.closes, slices.Equal(w.mode, closedUntil)
	w.opens++
	if !w.wrong || !until {
		w.mode = anyMode
	}
	err := p.ask("open", func(ctx context.Context) error { return p.bank.OpenCampaign(ctx, w.name) })
	switch {
	case err == nil && w.closes == closes && w.wrong && until:
		w.fail("opened, and its rows are wrong")
	case err == nil && w.closes == closes && w.closing == 0:
		w.mode = opened
	case err == nil:
	case errors.Is(err, itembank.ErrNotReconciled) && w.wrong:
	case errors.Is(err, itembank.ErrChanged) && w.closes != closes:
	default:
		w.fail("open: %w", err)
	}
}

// delete deletes the campaign, unless a load has begun.
func (p *process) delete() {
	w := p.w
	w.deleting = true
	err := p.ask("delete", func(ctx context.Context) error { return p.bank.DeleteCampaign(ctx, w.name) })
	switch {
	case err == nil || errors.Is(err, itembank.ErrNoCampaign):
		w.deleted = true
	case !errors.Is(err, itembank.ErrLoaded) || len(w.state.Loading[w.name]) == 0:
		w.fail("delete: %w", err)
	}
}

// withdraw withdraws items. Those that were loaded before are not handed out after the answer.
func (p *process) withdraw(items ...string) {
	w, c := p.w, p.w.c()
	loaded := maps.Clone(w.state.Loaded[c.Name])
	p.must("withdraw", func(ctx context.Context) error {
		_, err := p.bank.Withdraw(ctx, c.Name, itembank.Items(items...))
		return err
	})
	for _, item := range items {
		if loaded[item] {
			note(w.state.Withdrawn, c.Name, item)
		}
	}
}

// forget forgets the claimant of some holders, who are all slots of the claimant.
func (p *process) forget(holders ...string) {
	w, c := p.w, p.w.c()
	note(w.state.Asked, c.Scope, holders...)
	for _, holder := range holders {
		w.forgetting[holder] = true
		w.state.release(c, holder, w.state.Told[key(c.Scope, holder)].Claim.ID)
	}
	var report itembank.ForgetReport
	p.must("forget "+holders[0], func(ctx context.Context) (err error) {
		report, err = p.bank.Forget(ctx, c.Scope, keyOf(c, holders[0]).Claimant, itembank.ForgetOptions{})
		return err
	})
	if len(report.Kept) > 0 || report.Blocked != len(holders) {
		w.fail("want %v forgotten and blocked, got %+v", holders, report)
	}
	note(w.state.Blocked, c.Scope, holders...)
}

// sweep sweeps the campaign.
func (p *process) sweep(
	what string, do func(*itembank.Operator, context.Context, string, itembank.Progress) (itembank.SweepReport, error),
) {
	start := p.w.clock.Now()
	p.must(what, func(ctx context.Context) error {
		_, err := do(p.bank, ctx, p.w.name, nil)
		return err
	})
	p.w.checkSwept(p.w.c(), start)
}

// repair repairs the closed campaign, until its rows are right.
func (p *process) repair(items ...string) {
	if !p.repaired(itembank.RepairOptions{Items: itembank.Items(items...)}) {
		p.w.fail("the campaign was opened during a repair")
	}
}

// repaired repairs the campaign, until its rows are right. It returns false if the campaign was opened meanwhile.
func (p *process) repaired(o itembank.RepairOptions) bool {
	err := p.ask("repair", func(ctx context.Context) error {
		report, err := p.bank.Repair(ctx, p.w.name, o)
		for _, i := range report.Inconsistencies {
			if err == nil && (isMoving(i) || !i.Repaired) { // another command has changed its rows, or is changing them
				err = fmt.Errorf("%w: %+v", itembank.ErrTryAgain, i)
			}
		}
		return err
	})
	mayBeOpen := slices.Contains(p.w.mode, engine.OpenByHand)
	if mayBeOpen && (errors.Is(err, itembank.ErrReopened) || errors.Is(err, itembank.ErrInvalid)) {
		return false
	}
	p.w.must(err)
	p.w.wrong = false
	return true
}

// replay replays claims. Afterwards every claimant holds the claim, unless a command forgets the claimant.
func (p *process) replay(claims ...itembank.Claim) {
	w, c := p.w, p.w.c()
	var report itembank.ReplayReport
	p.must("replay", func(ctx context.Context) (err error) {
		report, err = p.bank.Replay(ctx, c.Name, linesOf(claims))
		if err == nil && slices.ContainsFunc(report.Lines, hasMoved) {
			err = fmt.Errorf("%w: items have moved", itembank.ErrTryAgain)
		}
		return err
	})
	complete := true
	for _, line := range report.Lines {
		k := key(c.Scope, line.Claimant)
		told := w.state.Told[k]
		switch {
		case w.forgetting[line.Claimant] && line.Outcome == "blocked":
			complete = false
		case line.Outcome != "replayed" && line.Outcome != "confirmed" && line.Outcome != "already":
			w.fail("a claim was not replayed: %+v", line)
		case !w.forgetting[line.Claimant]:
			told.Asked = slices.DeleteFunc(slices.Clone(told.Asked), func(k opKind) bool { return k == releaseOp })
			w.state.Told[k] = told
		}
	}
	w.wrong = w.wrong && !complete
}

// backUp copies the store. The copy has all that was answered before.
func (p *process) backUp() {
	w := p.w
	other := newWorld(w.ctx, w.engine)
	other.name, other.clock, other.campaigns, other.state = w.name, w.clock, w.campaigns, w.state.clone()
	p.must("backup", func(ctx context.Context) error {
		err := p.run.Before()
		if err == nil {
			other.engine, err = w.copyStore(ctx)
			err = errors.Join(err, p.run.After())
		}
		return err
	})
	other.through = other.engine.Store
	other.newBank()
	other.checkRows(false)
	report, err := other.bank.Reconcile(w.ctx, w.name)
	w.must(err)
	if len(report.Inconsistencies) > 0 {
		w.fail("the backup has %+v", report.Inconsistencies)
	}
}

// ask claims for a new customer, in a new container, long after all changes. The answer is "sold out" only if no item is
// free.
func (w *pairing) ask() (refused error) {
	w.check()
	w.settle()
	free := len(w.freeItems(w.c()))
	customer := w.newCustomer()
	refused = w.start("customer", new(commandpairs.Process)).claim(customer)
	switch {
	case refused == nil && !slices.Contains(w.mode, engine.OpenByHand):
		w.fail("the campaign is closed, and %s got an item", customer)
	case refused == nil:
	case errors.Is(refused, itembank.ErrSoldOut) && free == 0:
	case errors.Is(refused, itembank.ErrClosed) && slices.Contains(w.mode, engine.ClosedUntilReconciled):
	case errors.Is(refused, itembank.ErrNoCampaign) && w.deleting:
	default:
		w.fail("%d items are free, and %s was refused: %w", free, customer, refused)
	}
	return refused
}

func (w *pairing) newCustomer() string {
	w.customers++
	return fmt.Sprintf("customer-%d", w.customers)
}

// sellOut lets customers claim until all items are claimed.
func (w *pairing) sellOut() {
	for w.ask() == nil {
	}
}

// checkMoment checks the rows after a call, and notes the first violation.
func (w *pairing) checkMoment(process, method string) {
	if !w.moments || w.broken != nil {
		return
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case violation:
			w.trace = append(w.trace, "wrong after this "+method+" of "+process)
			w.broken = p.error
		default:
			panic(p)
		}
	}()
	w.check()
}

// check checks the rows at any moment between two calls.
func (w *pairing) check() {
	c := w.c()
	row, err := w.engine.Store.Campaign(w.ctx, c.Name)
	w.must(err)
	if mode := row.Mode; !w.deleting && !slices.Contains(w.mode, mode) {
		w.fail("the mode is %q, and must be one of %q", mode, w.mode)
	}
	if w.deleted {
		w.checkDeleted(row)
	}
	if !w.wrong {
		w.checkRows(false)
		return
	}
	for item, places := range w.places(c) {
		if len(places) > 1 {
			w.fail("G3: item %s is in %d places: %v", item, len(places), places)
		}
	}
	w.checkWithdrawn(c)
	w.checkBlocked(c)
	w.checkMark(c)
	w.checkTold()
}

// checkDeleted checks that nothing is left of a deleted campaign.
func (w *pairing) checkDeleted(row *engine.Campaign) {
	some, _, err := w.engine.Store.Loads(w.ctx, row.Name)
	w.must(err)
	counts, err := w.engine.Store.Counts(w.ctx, *row, true)
	w.must(err)
	if row.Mode != engine.Deleted || some || counts != (engine.Counts{}) {
		w.fail("deleted, and in mode %q; has loads: %t; %+v", row.Mode, some, counts)
	}
}

// checkEnd checks all rows when both commands have ended.
func (w *pairing) checkEnd() {
	w.check()
	if w.wrong {
		w.fail("the rows are still wrong")
	}
	if w.deleted {
		return
	}
	w.reconcile(w.c())
	added := int64(w.begun)
	for id, n := range w.reports {
		if added += n.Added; !isFirst(id) {
			return // the answer of an earlier load of these items was lost
		}
	}
	if loaded := len(w.state.Loaded[w.name]); int64(loaded) != added {
		w.fail("G4: %d items are loaded, and all loads say that they added %d", loaded, added)
	}
}
