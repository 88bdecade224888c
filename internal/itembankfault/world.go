package itembankfault

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

// World is what a scenario acts in: clients that repeat their calls until they have
// an answer, and a judge of all answers. A violation ends the scenario.
type World struct {
	ctx       context.Context
	engine    itembanktest.Engine
	through   engine.Store // the store of the Banks
	over      func()       // called when a client's call is over
	random    io.Reader
	clock     *itembanktest.Clock
	name      string
	state     State
	keep      func(State) // called with the state before and after every call
	fresh     bool        // a Bank that failed is replaced, as Lambda replaces containers
	bank      *itembank.Bank
	campaigns map[string]engine.Campaign
	trace     []string
	meanwhile func() // done once while a reply is slow
}

// violation is what a scenario panics with.
type violation struct{ error }

func (w *World) fail(format string, args ...any) {
	panic(violation{fmt.Errorf(format, args...)})
}

func (w *World) must(err error) {
	if err != nil {
		w.fail("%w", err)
	}
}

// caught returns the violation that ended f.
func (w *World) caught(f func()) (err error) {
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

func newWorld(ctx context.Context, e itembanktest.Engine) *World {
	w := &World{
		ctx: ctx, engine: e, over: func() {}, keep: func(State) {}, random: rand.Reader, clock: itembanktest.NewClock(),
		name: "f-" + strings.ToLower(rand.Text()[:16]), state: newState(), campaigns: map[string]engine.Campaign{},
	}
	w.through = e.Store
	w.newBank()
	return w
}

// mutate puts a mutant below the faults, or above them.
func (w *World) mutate(m *mutant, faulty *Faulty) engine.Store {
	if m.is == above {
		return m.wrap(itembanktest.Engine{Store: faulty, Raw: w.engine.Raw}, w.clock)
	}
	w.through = m.wrap(w.engine, w.clock)
	if faulty.Store = w.through; m.is == ownRows {
		w.engine.Store = w.through
	}
	w.newBank()
	return faulty
}

func (w *World) newBank() {
	w.bank = itembank.New(w.through, itembank.WithClock(w.clock), itembank.WithRandom(w.random))
}

// slow is what happens while a reply is slow: the proof that a bank is empty is too
// old by then.
func (w *World) slow() {
	if meanwhile := w.meanwhile; meanwhile != nil {
		w.meanwhile = nil
		meanwhile()
	}
	w.clock.Advance(emptyMemory * 3 / 2)
}

// mostTries is how often a client repeats its call. One fault fails it once.
const mostTries = 5

// repeat makes a call until it has an answer.
func (w *World) repeat(what string, call func(context.Context) error) error {
	for range mostTries {
		w.state.Now = w.clock.Now()
		w.keep(w.state)
		ctx, cancel := cancellable(w.ctx)
		err := call(ctx)
		cancel()
		w.over()
		w.trace = append(w.trace, fmt.Sprintf("%s: %v", what, err))
		switch {
		case err == nil || errors.Is(err, itembank.ErrRefused) || errors.Is(err, itembank.ErrInvalid):
			w.keep(w.state)
			return err
		case !errors.Is(err, itembank.ErrTryAgain) && !errors.Is(err, context.Canceled):
			w.fail("%s: an error that is no answer and of no family: %w", what, err)
		}
		if w.fresh {
			w.newBank()
		}
		w.clock.Advance(100 * time.Millisecond)
	}
	w.fail("%s has no answer after %d tries", what, mostTries)
	return nil
}

// Create makes a campaign of the world, "" being the first.
func (w *World) Create(suffix string, s itembank.Settings) {
	if s.Scope != "" {
		s.Scope = w.name + s.Scope
	}
	name := w.name + suffix
	w.must(w.repeat("create "+name, func(ctx context.Context) error {
		_, _, err := w.bank.CreateCampaign(ctx, name, s)
		return err
	}))
	row, err := w.engine.Store.Campaign(w.ctx, name)
	w.must(err)
	w.campaigns[suffix] = *row
}

// Load loads items, and checks the report against the items that were there before.
func (w *World) Load(suffix string, items ...string) itembank.LoadReport {
	c := w.campaigns[suffix]
	before := w.state.Loaded[c.Name]
	cut := w.state.Loading[c.Name][items[0]] // by a kill
	note(w.state.Loading, c.Name, items...)
	var report itembank.LoadReport
	tries := 0
	w.must(w.repeat(fmt.Sprintf("load %d items", len(items)), func(ctx context.Context) (err error) {
		tries++
		report, err = w.bank.Load(ctx, c.Name, itembank.Items(items...), nil)
		return err
	}))
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
	// A load whose last reply was lost is finished; repeated, all its items are known.
	again := itembank.Tally{Rows: want.Rows, Known: want.Rows}
	if report.Tally != want && (tries == 1 && !cut || report.Tally != again) {
		w.fail("G4: want the tally %+v, got %+v in try %d", want, report.Tally, tries)
	}
	delete(w.state.Loading, c.Name)
	note(w.state.Loaded, c.Name, items...)
	return report
}

// Claim claims for a claimant. A refusal is returned, and no grant.
func (w *World) Claim(suffix, claimant string) (grant itembank.Grant, refused error) {
	c := w.campaigns[suffix]
	note(w.state.Asked, c.Scope, claimant)
	var start time.Time
	var closable bool
	refused = w.repeat(fmt.Sprintf("claim %s for %s", suffix, claimant), func(ctx context.Context) (err error) {
		start, closable = w.clock.Now(), w.anyClosable()
		grant, err = w.bank.Claim(ofCampaign(ctx, c.Name), c.Name, claimant)
		return err
	})
	now := w.clock.Now()
	if closable {
		defer func() { w.state.Freed = now }()
	}
	if refused == nil {
		w.trace[len(w.trace)-1] += fmt.Sprintf(", %s in claim %s", grant.Claim.Item, grant.Claim.ID)
		w.must(w.state.grant(c, claimant, grant, now))
		w.keep(w.state)
		return grant, nil
	}
	w.must(w.state.refusal(c, claimant, refused, now))
	if errors.Is(refused, itembank.ErrSoldOut) && !closable && w.state.Freed.Before(start.Add(-emptyMemory)) {
		for _, i := range w.freeItems(c) {
			if i.EndsAt.IsZero() || i.EndsAt.After(now) {
				w.fail("G5: %s was told sold out, and %s is free", claimant, i.Value)
			}
		}
	}
	return itembank.Grant{}, refused
}

// anyClosable reports that a request may put an item into a bank, by closing a claim
// that it meets.
func (w *World) anyClosable() bool {
	for _, t := range w.state.Told {
		if !t.Released && t.gone(w.clock.Now()) {
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

// Release releases the claim that the claimant was last told of.
func (w *World) Release(suffix, claimant string) itembank.Released {
	c := w.campaigns[suffix]
	id := w.state.Told[at(c.Scope, claimant)].Claim.ID
	w.state.release(c, claimant, id)
	var released itembank.Released
	w.must(w.repeat("release of "+claimant, func(ctx context.Context) (err error) {
		released, err = w.bank.Release(ofCampaign(ctx, c.Name), c.Name, claimant, id)
		return err
	}))
	w.state.Freed = w.clock.Now()
	if held, err := w.engine.Store.HeldClaim(w.ctx, c.Scope, claimant); err != nil || held != nil && held.ID == id {
		w.fail("claim %s is released (%+v), and there: %w", id, released, err)
	}
	return released
}

// Sweep sweeps a campaign, and checks that nothing is left that had ended before.
func (w *World) Sweep(suffix string) {
	c := w.campaigns[suffix]
	var start time.Time
	w.must(w.repeat("sweep", func(ctx context.Context) error {
		start = w.clock.Now()
		_, err := w.bank.Sweep(ctx, c.Name, nil)
		return err
	}))
	w.state.Freed = w.clock.Now()
	for _, t := range w.state.Told {
		if t.Claim.Campaign != c.Name || t.Released || !t.gone(start) {
			continue
		}
		held, err := w.engine.Store.HeldClaim(w.ctx, c.Scope, t.Claim.Claimant)
		w.must(err)
		if held != nil && held.ID == t.Claim.ID {
			w.fail("swept, and claim %+v is there", *held)
		}
	}
	for _, i := range w.freeItems(c) {
		if !i.EndsAt.IsZero() && i.EndsAt.Before(start) {
			w.fail("swept, and %s is free, which ended at %v", i.Value, i.EndsAt)
		}
	}
}

// Withdraw withdraws items, and checks that none of them is free and, where nothing
// failed, the report.
func (w *World) Withdraw(suffix string, items ...string) {
	c := w.campaigns[suffix]
	want := w.withdrawal(c, items)
	var report itembank.WithdrawReport
	tries := 0
	w.must(w.repeat("withdraw", func(ctx context.Context) (err error) {
		tries++
		report, err = w.bank.Withdraw(ctx, c.Name, itembank.Items(items...))
		return err
	}))
	if tries == 1 && report != want {
		w.fail("want the report %+v of the withdrawal of %v, got %+v", want, items, report)
	}
	for _, i := range w.freeItems(c) {
		if slices.Contains(items, i.Value) {
			w.fail("%s is withdrawn, and free", i.Value)
		}
	}
}

// withdrawal says from the rows what a Withdraw must report.
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
	w.must(w.repeat("withdraw all", func(ctx context.Context) error {
		_, err := w.bank.WithdrawAll(ctx, w.campaigns[suffix].Name, nil)
		return err
	}))
}

// SetOpen opens or closes a campaign, and waits until every Bank knows.
func (w *World) SetOpen(suffix string, open bool) {
	w.must(w.repeat(fmt.Sprintf("open %t", open), func(ctx context.Context) error {
		if open {
			return w.bank.OpenCampaign(ctx, w.campaigns[suffix].Name)
		}
		return w.bank.CloseCampaign(ctx, w.campaigns[suffix].Name)
	}))
	w.clock.Advance(itembank.DefaultCampaignCache)
}

// Repair repairs a closed campaign.
func (w *World) Repair(suffix string, items ...string) {
	w.must(w.repeat("repair", func(ctx context.Context) error {
		_, err := w.bank.Repair(ctx, w.campaigns[suffix].Name, itembank.Items(items...))
		return err
	}))
}

// freeItems lists the bank round all faults.
func (w *World) freeItems(c engine.Campaign) (all []engine.FreeItem) {
	for n := range c.Shards {
		page, err := w.engine.Store.FreeItems(w.ctx, engine.Shard{Campaign: c.Name, Generation: c.Generation, Number: n}, engine.Range{}, 1000)
		w.must(err)
		all = append(all, page.Items...)
	}
	return all
}

// rest checks G1 to G4 on the rows that are there when nothing moves. A full check
// reads all rows; else those that are known of, by their keys.
func (w *World) rest(full bool) {
	for _, suffix := range slices.Sorted(maps.Keys(w.campaigns)) {
		c := w.campaigns[suffix]
		if full {
			w.reconcile(c)
		}
		w.eachItemOnce(c)
	}
	for _, key := range slices.Sorted(maps.Keys(w.state.Told)) {
		t := w.state.Told[key]
		if t.gone(w.clock.Now()) {
			continue
		}
		held, err := w.engine.Store.HeldClaim(w.ctx, t.Claim.Scope, t.Claim.Claimant)
		w.must(err)
		if held == nil || !tells(t.Claim, *held) {
			w.fail("G2: %s was told of %+v, and the store holds %+v", t.Claim.Claimant, t.Claim, held)
		}
	}
}

// tells reports that a claim says what its row does.
func tells(c itembank.Claim, row engine.Claim) bool {
	return row == engine.Claim{
		ID: c.ID, Campaign: c.Campaign, Scope: c.Scope, Claimant: c.Claimant, Item: c.Item,
		ItemHash: engine.HashItem(c.Item), ClaimedAt: c.ClaimedAt, EndsAt: c.EndsAt,
	}
}

// reconcile checks that every loaded item is in one place, by the Bank's own means.
func (w *World) reconcile(c engine.Campaign) {
	report, err := itembank.New(w.engine.Store, itembank.WithClock(w.clock)).Reconcile(w.ctx, c.Name)
	w.must(err)
	n := report.Counts
	if len(report.Inconsistencies) > 0 || n.Loaded != n.Free+n.Claimed+n.Ended || n.Loaded != int64(len(w.state.Loaded[c.Name])) {
		w.fail("G3: %d items were loaded; counts %+v, differences %+v", len(w.state.Loaded[c.Name]), n, report.Inconsistencies)
	}
}

// eachItemOnce checks the same by the keys of all items and claimants known of.
func (w *World) eachItemOnce(c engine.Campaign) {
	places := map[string][]string{}
	for _, i := range w.freeItems(c) {
		places[i.Value] = append(places[i.Value], "free")
	}
	for claimant := range w.state.Asked[c.Scope] {
		held, err := w.engine.Store.HeldClaim(w.ctx, c.Scope, claimant)
		w.must(err)
		if held != nil && held.Campaign == c.Name {
			places[held.Item] = append(places[held.Item], "held by "+claimant)
		}
	}
	const someFree = 5 // of a large load: their rows were put with the others'
	free := 0
	for item := range w.state.Loaded[c.Name] {
		if slices.Equal(places[item], []string{"free"}) {
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
	for item, found := range places {
		if !w.state.loads(c.Name, item) {
			w.fail("G4: %s is %v, and nobody loaded it", item, found)
		}
	}
	for item := range w.state.Loaded[c.Name] {
		if len(places[item]) != 1 {
			w.fail("G3: item %s is in %d places: %v", item, len(places[item]), places[item])
		}
	}
}
