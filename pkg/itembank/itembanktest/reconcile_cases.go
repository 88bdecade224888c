package itembanktest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// reconcileCases pin what Reconcile sees and what Repair repairs, over the engine.
var reconcileCases = []testCase{
	{"reconcile/healthy", reconcileHealthy},
	{"reconcile/each-difference", reconcileEachInconsistency},
	{"reconcile/all-differences-together", reconcileAllInconsistencies},
	{"reconcile/the-worst-is-said", reconcileWorst},
	{"reconcile/generations", reconcileGenerations},
	{"reconcile/settles", reconcileSettles},
	{"reconcile/an-item-that-keeps-moving", reconcileMoving},
	{"reconcile/live", reconcileLive},
	{"repair/each-difference", repairEachInconsistency},
	{"repair/lost-needs-its-text", repairLost},
	{"repair/nothing-by-a-guess", repairNoGuess},
	{"repair/refuses-open-campaigns", repairRefusesOpen},
	{"repair/waits-for-requests-under-way", repairWaits},
	{"repair/moved-meanwhile", repairMovedMeanwhile},
	{"repair/reopened-meanwhile", repairReopened},
	{"repair/interval-of-an-error", repairIntervalOfError},
}

// flaw is a difference planted in the rows of one free item.
type flaw struct {
	name     string
	plant    func(f *fixture, c engine.Campaign, item string)
	kind     string
	where    string // as the rows show it
	repaired string // as Repair leaves it; "" is as it was
}

// holder is who holds an item in these cases.
func holder(item string) string { return "holder of " + item }

// misplaced is a bank row where the item does not belong.
func (f *fixture) misplaced(c engine.Campaign, item string) engine.FreeItem {
	free := f.freeItem(c, item)
	free.Shard.Number = (free.Shard.Number + 1) % c.Shards
	return free
}

func (f *fixture) dropItemRow(c engine.Campaign, item string) {
	f.Helper()
	f.must(f.Raw.DropItemRow(f.ctx, c.Name, engine.HashItem(item)))
}

var flaws = []flaw{
	{"lost", func(f *fixture, c engine.Campaign, item string) {
		f.must(f.Raw.DropBankRow(f.ctx, f.freeItem(c, item)))
	}, "missing", "", "free"},
	{"held twice", func(f *fixture, c engine.Campaign, item string) {
		f.take(c, holder(item), item)
		f.must(f.Raw.PutClaim(f.ctx, f.newClaim(c, "other "+holder(item), item)))
	}, "held-twice", "held by holder, held by other holder", ""},
	{"held and free", func(f *fixture, c engine.Campaign, item string) {
		f.take(c, holder(item), item)
		f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(c, item)))
	}, "held-and-free", "free, held by holder", "held by holder"},
	{"held and ended", func(f *fixture, c engine.Campaign, item string) {
		f.take(c, holder(item), item)
		f.putState(c, item, engine.Burned)
	}, "held-and-ended", "held by holder, burned", ""},
	{"free and ended", func(f *fixture, c engine.Campaign, item string) {
		f.putState(c, item, engine.Withdrawn)
	}, "free-and-ended", "free, withdrawn", "withdrawn"},
	{"free twice", func(f *fixture, c engine.Campaign, item string) {
		f.must(f.Raw.PutBankRow(f.ctx, f.misplaced(c, item)))
	}, "free-twice", "free, misplaced", "free"},
	{"in another shard", func(f *fixture, c engine.Campaign, item string) {
		f.must(f.Raw.DropBankRow(f.ctx, f.freeItem(c, item)))
		f.must(f.Raw.PutBankRow(f.ctx, f.misplaced(c, item)))
	}, "misplaced", "misplaced", ""},
	{"of another generation", func(f *fixture, c engine.Campaign, item string) {
		row := *f.itemRow(c, item)
		row.Generation++
		f.must(f.Raw.PutItemRow(f.ctx, c.Name, engine.ListedItem{Hash: engine.HashItem(item), ItemRow: row}))
	}, "misplaced", "free", ""},
	{"in another item's row", func(f *fixture, c engine.Campaign, item string) {
		free := f.freeItem(c, item)
		free.Value = "another item"
		f.must(f.Raw.PutBankRow(f.ctx, free))
	}, "misplaced", "free", ""},
	{"claimed by another hash", func(f *fixture, c engine.Campaign, item string) {
		claim := f.take(c, holder(item), item)
		claim.Item = "yet another item"
		f.must(f.Raw.PutClaim(f.ctx, claim))
	}, "misplaced", "", ""},
	{"free and not loaded", func(f *fixture, c engine.Campaign, item string) { f.dropItemRow(c, item) },
		"free-not-loaded", "free, not loaded", "free"},
	{"held and not loaded", func(f *fixture, c engine.Campaign, item string) {
		f.take(c, holder(item), item)
		f.dropItemRow(c, item)
	}, "held-not-loaded", "held by holder, not loaded", "held by holder"},
	{"free with an end", func(f *fixture, c engine.Campaign, item string) {
		f.putEnds(c, item, inAnHour, time.Time{})
	}, "ends-differ", "free", ""},
	{"free without its end", func(f *fixture, c engine.Campaign, item string) {
		f.putEnds(c, item, time.Time{}, inAnHour)
	}, "ends-differ", "free", ""},
	{"free with another end", func(f *fixture, c engine.Campaign, item string) {
		f.putEnds(c, item, inAnHour, inAnHour.Add(time.Millisecond))
	}, "ends-differ", "free", ""},
}

var inAnHour = time.Now().Add(time.Hour).Truncate(time.Millisecond)

// putEnds writes when a free item ends, into its bank row and its item row.
func (f *fixture) putEnds(c engine.Campaign, item string, inBank, inItemRow time.Time) {
	f.Helper()
	free, row := f.freeItem(c, item), *f.itemRow(c, item)
	free.EndsAt, row.EndsAt = inBank, inItemRow
	f.must(f.Raw.PutBankRow(f.ctx, free))
	f.must(f.Raw.PutItemRow(f.ctx, c.Name, engine.ListedItem{Hash: engine.HashItem(item), ItemRow: row}))
}

// seen is where the rows show an item, with the names of these cases.
func (f *fixture) seen(c engine.Campaign, item string) string {
	f.Helper()
	where := f.where(c, item, holder(item), "other "+holder(item))
	where = strings.ReplaceAll(where, holder(item), "holder")
	if f.bankRow(f.misplaced(c, item)) != nil {
		where = strings.TrimPrefix(where+", misplaced", ", ")
	}
	return where
}

func (f *fixture) wantSeen(want string, c engine.Campaign, item string) {
	f.Helper()
	if got := f.seen(c, item); got != want {
		f.Errorf("item %s: want it %q, got %q", item, want, got)
	}
}

// healthy makes a campaign with a free, a held and an ended item, beside those given.
func (f *fixture) healthy(items ...string) engine.Campaign {
	f.Helper()
	c := f.create(itembank.Settings{Shards: 2, Scope: f.name + "-scope", OnEnd: itembank.Return})
	f.load(append(items, "healthy and free", "healthy and held", "healthy and ended")...)
	f.take(c, "ann", "healthy and held")
	f.closed(burning(c, f.take(c, "bob", "healthy and ended")))
	return c
}

// expected is the difference that a flaw makes, as the rows have it.
func (f *fixture) expected(c engine.Campaign, w flaw) itembank.Inconsistency {
	f.Helper()
	want := itembank.Inconsistency{Kind: w.kind, Hash: engine.HashItem(w.name).String()}
	if row := f.itemRow(c, w.name); row != nil {
		want.LoadID, want.Row = row.LoadID, row.Row
	}
	for _, free := range []engine.FreeItem{f.freeItem(c, w.name), f.misplaced(c, w.name)} {
		if row := f.bankRow(free); row != nil {
			want.Item = row.Value
		}
	}
	for _, claimant := range []string{holder(w.name), "other " + holder(w.name)} {
		if held := f.held(c, claimant); held != nil {
			want.Item, want.Claims = held.Item, append(want.Claims, held.ID)
		}
	}
	slices.Sort(want.Claims)
	return want
}

// reconciled reconciles and compares the differences, in any order.
func (f *fixture) reconciled(want ...itembank.Inconsistency) itembank.ReconcileReport {
	f.Helper()
	report, err := f.bank(itembank.WithClock(NewClock())).Reconcile(f.ctx, f.name)
	f.must(err)
	f.wantInconsistencies(report, want...)
	return report
}

func (f *fixture) wantInconsistencies(report itembank.ReconcileReport, want ...itembank.Inconsistency) {
	f.Helper()
	for _, side := range []struct {
		what string
		a, b []itembank.Inconsistency
	}{{"not reported", want, report.Inconsistencies}, {"reported", report.Inconsistencies, want}} {
		for _, d := range side.a {
			if !slices.ContainsFunc(side.b, func(o itembank.Inconsistency) bool { return fmt.Sprint(d) == fmt.Sprint(o) }) {
				f.Errorf("%s: %+v", side.what, d)
			}
		}
	}
	if len(report.Inconsistencies) != len(want) {
		f.Errorf("want %d differences, got %d", len(want), len(report.Inconsistencies))
	}
}

func reconcileHealthy(f *fixture) {
	f.create(itembank.Settings{Shards: 1})
	f.reconciled()
	one := *f
	one.name += "-filled"
	c := one.healthy("a")
	other := f.createNamed(one.name+"-other", itembank.Settings{Scope: c.Scope})
	_, err := f.bank().Load(f.ctx, other.Name, itembank.Items("a", "healthy and free"), nil)
	f.must(err)
	f.take(other, "zoe", "healthy and free") // another campaign's item of that name is another item
	counted := &Hooked{Store: f.Store}
	clock := NewClock()
	report, err := itembank.New(counted, itembank.WithClock(clock)).Reconcile(f.ctx, c.Name)
	f.must(err)
	if want := (itembank.Counts{Loaded: 4, Free: 2, Claimed: 1, Ended: 1}); report.Counts != want || len(report.Inconsistencies) > 0 {
		f.Errorf("want %+v and no difference, got %+v", want, report)
	}
	if report.To.Before(report.From) || !report.To.Equal(clock.Now().UTC().Truncate(time.Millisecond)) {
		f.Errorf("want an interval that ends now, got %+v", report)
	}
	if calls := counted.Calls(); slices.Contains(calls, "ItemRow") {
		f.Errorf("nothing looked wrong: want one look, got %v", calls)
	}
}

// reconcileEachInconsistency: each kind alone among healthy items, with its evidence.
func reconcileEachInconsistency(f *fixture) {
	var last string
	for i, w := range flaws {
		if w.kind == last { // one of a kind is enough here; all are together below
			continue
		}
		last = w.kind
		one := *f
		one.name = fmt.Sprintf("%s-%d", f.name, i)
		c := one.healthy(w.name)
		w.plant(&one, c, w.name)
		one.wantSeen(w.where, c, w.name)
		one.reconciled(one.expected(c, w))
		one.wantSeen(w.where, c, w.name)
	}
}

// flawed makes a campaign with all flaws, and says what they make.
func (f *fixture) flawed() (c engine.Campaign, want []itembank.Inconsistency) {
	f.Helper()
	var names []string
	for _, w := range flaws {
		names = append(names, w.name)
	}
	c = f.healthy(names...)
	for _, w := range flaws {
		w.plant(f, c, w.name)
		want = append(want, f.expected(c, w))
	}
	return c, want
}

func reconcileAllInconsistencies(f *fixture) {
	c, want := f.flawed()
	report := f.reconciled(want...)
	if !slices.IsSortedFunc(report.Inconsistencies, func(x, y itembank.Inconsistency) int { return strings.Compare(x.Hash, y.Hash) }) {
		f.Error("the differences are not in the order of their hashes")
	}
	counts, err := f.bank().Counts(f.ctx, c.Name)
	f.must(err)
	if report.Counts != counts {
		f.Errorf("want the counts %+v, got %+v", counts, report.Counts)
	}
}

// reconcileWorst: of several contradictions of one item the worst is named.
func reconcileWorst(f *fixture) {
	c := f.healthy("a", "b")
	f.take(c, holder("a"), "a")
	f.must(f.Raw.PutClaim(f.ctx, f.newClaim(c, "other "+holder("a"), "a")))
	f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(c, "a")))
	f.putState(c, "a", engine.Expired)
	f.take(c, holder("b"), "b")
	f.must(f.Raw.PutBankRow(f.ctx, f.misplaced(c, "b")))
	f.dropItemRow(c, "b")
	f.reconciled(f.expected(c, flaw{name: "a", kind: "held-twice"}), f.expected(c, flaw{name: "b", kind: "held-and-free"}))
}

// reconcileGenerations: an item may wait in the bank of an older generation, where
// its row says that it does.
func reconcileGenerations(f *fixture) {
	c, older := f.secondGeneration()
	f.load("new", "moved")
	f.wantOutcomes([]engine.AddRequest{{Item: f.freeItem(older, "waiting"), LoadID: "l", Row: 1}}, engine.AddDone)
	f.reconciled()
	f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(older, "moved")))
	f.reconciled(f.expected(c, flaw{name: "moved", kind: "free-twice"}))
	f.must(f.Raw.DropBankRow(f.ctx, f.freeItem(c, "moved")))
	row := *f.itemRow(c, "moved")
	f.reconciled(itembank.Inconsistency{
		Kind: "misplaced", Hash: engine.HashItem("moved").String(), Item: "moved", LoadID: row.LoadID, Row: row.Row,
	})
}

// moving is a store on which things move while they are read: before each reading
// of the bank, and before each of the claims.
type moving struct {
	Hooked
	last         string
	bank, claims func()
}

func (f *fixture) moving() *moving {
	m := &moving{Hooked: Hooked{Store: f.Store}}
	m.Before = func(method string) error {
		switch begins := method != m.last; {
		case begins && method == "FreeItems":
			m.bank()
		case begins && method == "ListClaims":
			m.claims()
		}
		m.last = method
		return nil
	}
	return m
}

// juggler moves one item between the bank and a claimant.
type juggler struct {
	f     *fixture
	c     engine.Campaign
	item  string
	claim *engine.Claim
}

func (j *juggler) take() {
	if j.claim == nil {
		claim := j.f.take(j.c, "juggler of "+j.item, j.item)
		j.claim = &claim
	}
}

func (j *juggler) release() {
	if j.claim != nil {
		j.f.closed(returning(j.c, *j.claim))
		j.claim = nil
	}
}

// reconcileSettles: what moves while it is read looks wrong once, in both ways, and
// is looked at again.
func reconcileSettles(f *fixture) {
	c := f.healthy("twice", "nowhere")
	twice, nowhere := &juggler{f: f, c: c, item: "twice"}, &juggler{f: f, c: c, item: "nowhere"}
	m := f.moving()
	stop := func() { m.bank, m.claims = func() {}, func() {} }
	m.claims = twice.take
	m.bank = func() {
		twice.release()
		nowhere.take()
		stop()
	}
	clock := NewClock()
	begun := clock.Now()
	report, err := itembank.New(m, itembank.WithClock(clock)).Reconcile(f.ctx, f.name)
	f.must(err)
	f.wantInconsistencies(report)
	if calls := m.Calls(); !slices.Contains(calls, "ItemRow") || !clock.Now().Equal(begun) {
		f.Errorf("want one more look and no pause, got calls %v", calls)
	}
}

// reconcileMoving: somewhere else at every look is no proof of anything but that,
// whether it is seen in two places each time or in none.
func reconcileMoving(f *fixture) {
	c := f.healthy("twice", "nowhere")
	twice, nowhere := &juggler{f: f, c: c, item: "twice"}, &juggler{f: f, c: c, item: "nowhere"}
	m := f.moving()
	m.bank = func() { twice.release(); nowhere.take() }
	m.claims = func() { twice.take(); nowhere.release() }
	clock := NewClock()
	begun := clock.Now()
	report, err := itembank.New(m, itembank.WithClock(clock)).Reconcile(f.ctx, f.name)
	f.must(err)
	f.wantInconsistencies(report, itembank.Inconsistency{
		Kind: "moving", Hash: engine.HashItem("twice").String(), Item: "twice",
		LoadID: f.itemRow(c, "twice").LoadID, Row: 1, Claims: []string{twice.claim.ID},
	}, itembank.Inconsistency{
		Kind: "moving", Hash: engine.HashItem("nowhere").String(), LoadID: f.itemRow(c, "nowhere").LoadID, Row: 2,
	})
	if waited := clock.Now().Sub(begun); waited < 5*time.Second {
		f.Errorf("want some pauses before that is said, waited %s", waited)
	}
	f.reconciled() // and when they rest all is well
}

// reconcileLive: everything moves, nothing is wrong, and nothing is reported.
func reconcileLive(f *fixture) {
	n := 120
	f.stocked(n, itembank.Settings{Shards: 2, OnEnd: itembank.Return, ClaimLife: time.Minute, ItemLife: 2 * time.Minute})
	clock := NewClock()
	var done atomic.Bool
	var moves atomic.Int64
	var all sync.WaitGroup
	forever := func(do func(b *itembank.Bank, round int) error) {
		b := f.bank(itembank.WithClock(clock))
		all.Go(func() {
			for round := 0; !done.Load(); round++ {
				if err := do(b, round); err != nil && !errors.Is(err, itembank.ErrSoldOut) {
					f.Error(err)
					return
				}
				moves.Add(1)
				clock.Advance(time.Second)
			}
		})
	}
	for i := range 2 {
		forever(func(b *itembank.Bank, round int) error {
			claimant := fmt.Sprintf("claimant-%d-%d", i, round%20)
			grant, err := b.Claim(f.ctx, f.name, claimant)
			switch {
			case err == nil && round%3 > 0:
				_, err = b.Release(f.ctx, f.name, claimant, grant.Claim.ID)
			case round%15 == 0:
				_, err = b.Sweep(f.ctx, f.name, nil)
			}
			return err
		})
	}
	forever(func(b *itembank.Bank, round int) error {
		_, err := b.Load(f.ctx, f.name, itembank.Items(fmt.Sprintf("later-%d", round)), nil)
		return err
	})
	forever(func(b *itembank.Bank, round int) error {
		_, err := b.Withdraw(f.ctx, f.name, itembank.Items(fmt.Sprintf("later-%d", round), fmt.Sprintf("code-%05d", round%n)))
		return err
	})
	b := f.bank(itembank.WithClock(clock))
	for rounds := 0; !f.Failed() && (rounds < 2 || moves.Load() < 100); rounds++ {
		report, err := b.Reconcile(f.ctx, f.name)
		if err != nil || len(report.Inconsistencies) > 0 {
			f.Errorf("a live campaign: %+v, %v", report, err)
		}
	}
	done.Store(true)
	all.Wait()
	report := f.reconciled()
	if got := report.Counts; got.Loaded != got.Free+got.Claimed+got.Ended || got.Ended == 0 {
		f.Errorf("at rest: %+v", got)
	}
}

// repaired repairs the closed campaign and compares the differences, in any order.
func (f *fixture) repaired(b *itembank.Bank, items itembank.Source, want ...itembank.Inconsistency) {
	f.Helper()
	report, err := b.Repair(f.ctx, f.name, items)
	f.must(err)
	f.wantInconsistencies(report, want...)
}

// repairEachInconsistency: what can be repaired without a guess is, and all else stays.
// Then nobody gets what somebody holds.
func repairEachInconsistency(f *fixture) {
	c, differences := f.flawed()
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	var left []itembank.Inconsistency
	for i, w := range flaws {
		differences[i].Repaired = w.repaired != ""
		if w.repaired == "" {
			left = append(left, differences[i])
		}
	}
	f.repaired(f.bank(itembank.WithClock(NewClock())), itembank.Items("unsent-of", "lost", "healthy and held", ""), differences...)
	for _, w := range flaws {
		want := w.repaired
		if want == "" {
			want = w.where
		}
		f.wantSeen(want, c, w.name)
	}
	f.reconciled(left...)

	f.must(f.bank().OpenCampaign(f.ctx, f.name))
	held, _ := listed(f, c.Scope, f.Store.ListClaims)
	holders := map[string]string{}
	for _, claim := range held {
		holders[claim.Item] = claim.Claimant
	}
	b := f.bank()
	for i := 0; ; i++ {
		claimant := fmt.Sprintf("late-%d", i)
		grant, err := b.Claim(f.ctx, f.name, claimant)
		if errors.Is(err, itembank.ErrSoldOut) {
			break
		}
		f.must(err)
		if other := holders[grant.Claim.Item]; other != "" {
			f.Errorf("item %q is held by %s and was given to %s", grant.Claim.Item, other, claimant)
		}
		holders[grant.Claim.Item] = claimant
	}
	if holders["lost"] == "" || holders["free twice"] == "" || holders["free and not loaded"] == "" {
		f.Errorf("an item that was repaired is given to nobody: %v", holders)
	}
}

// repairLost: no row holds the text of a lost item. It comes back with its own end.
func repairLost(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1, ItemLife: 24 * time.Hour})
	f.load("lost", "free")
	end := f.itemRow(c, "lost").EndsAt
	w := flaws[0]
	w.plant(f, c, "lost")
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	want := f.expected(c, w)
	b := f.bank(itembank.WithClock(NewClock()))
	broken := errors.New("read error")
	failing := func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) { yield(itembank.Line{}, broken) }
	}
	if _, err := b.Repair(f.ctx, f.name, failing); !errors.Is(err, broken) {
		f.Errorf("want the source's error, got %v", err)
	}
	f.wantWhere("", c, "lost")
	want.Repaired = true
	f.repaired(b, itembank.Items("free", "lost"), want)
	if row := f.bankRow(f.freeItem(c, "lost")); row == nil || row.Value != "lost" || !row.EndsAt.Equal(end) {
		f.Errorf("want it back with its end %s, got %+v", end, row)
	}
}

// repairNoGuess: which of two wrong places is to go, and what a lost item was that no
// line names, would be guesses.
func repairNoGuess(f *fixture) {
	c := f.create(itembank.Settings{Shards: 3})
	f.load("a", "lost")
	first, second := f.misplaced(c, "a"), f.misplaced(c, "a")
	second.Shard.Number = (second.Shard.Number + 1) % 3
	f.must(f.Raw.DropBankRow(f.ctx, f.freeItem(c, "a")))
	f.must(f.Raw.PutBankRow(f.ctx, first))
	f.must(f.Raw.PutBankRow(f.ctx, second))
	flaws[0].plant(f, c, "lost")
	lost := f.expected(c, flaws[0])
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	twice := f.expected(c, flaw{name: "a", kind: "free-twice"})
	for _, items := range []itembank.Source{nil, itembank.Items("Lost", "lost ", "a")} {
		f.repaired(f.bank(itembank.WithClock(NewClock())), items, twice, lost)
	}
	f.wantWhere("", c, "lost")
	if f.bankRow(first) == nil || f.bankRow(second) == nil {
		f.Error("a row is gone")
	}
}

func repairRefusesOpen(f *fixture) {
	soon := time.Now().Add(time.Hour)
	c := f.create(itembank.Settings{OpensAt: soon, ClosesAt: soon.Add(time.Hour), Shards: 1})
	f.load("a")
	f.putState(c, "a", engine.Burned)
	clock := NewClock()
	b := f.bank(itembank.WithClock(clock))
	refused := func(state string) {
		f.Helper()
		begun := clock.Now()
		report, err := b.Repair(f.ctx, f.name, nil)
		if !errors.Is(err, itembank.ErrInvalid) || len(report.Inconsistencies) > 0 || !clock.Now().Equal(begun) {
			f.Errorf("%s: want it refused at once, got %+v, %v", state, report, err)
		}
		f.wantWhere("free, burned", c, "a")
	}
	refused("scheduled")
	setTo(clock, soon)
	refused("open")
	setTo(clock, soon.Add(time.Hour)) // closed by its times
	want := f.expected(c, flaw{name: "a", kind: "free-and-ended"})
	want.Repaired = true
	f.repaired(b, nil, want)
}

// interrupted is a clock on which something happens while one sleeps.
type interrupted struct {
	*Clock
	asleep func(time.Duration)
}

func (c interrupted) Sleep(ctx context.Context, d time.Duration) error {
	c.asleep(d)
	return c.Clock.Sleep(ctx, d)
}

// repairWaits: a container that has not heard of the closing hands out an item. Repair
// reads nothing before that is over.
func repairWaits(f *fixture) {
	c := f.healthy("a")
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	counted := &Hooked{Store: f.Store}
	clock := interrupted{Clock: NewClock()}
	clock.asleep = func(d time.Duration) {
		f.wantCalls("before the wait", counted, "Campaign")
		if longest := itembank.DefaultCampaignCache + 30*time.Second; d < longest || d != itembank.DrainTime {
			f.Errorf("requests can take %s, it waits %s, and says %s", longest, d, itembank.DrainTime)
		}
		f.take(c, "late", "a")
	}
	f.repaired(itembank.New(counted, itembank.WithClock(clock)), itembank.Items("a"))
	f.wantWhere("held by late", c, "a", "late")
	f.reconciled()
}

// movedBefore lets things happen to an item just before it is repaired.
type movedBefore struct {
	engine.Store
	moves map[engine.Hash]func()
}

func (s movedBefore) Repair(ctx context.Context, m engine.RepairRequest) (bool, error) {
	s.moves[m.Hash]()
	return s.Store.Repair(ctx, m)
}

// repairMovedMeanwhile: what a remedy rests on is gone when it is to be made, and so
// it is not made.
func repairMovedMeanwhile(f *fixture) {
	c, differences := f.flawed()
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	dropFree := func(item string) { f.must(f.Raw.DropBankRow(f.ctx, f.freeItem(c, item))) }
	dropClaim := func(item string) { f.must(f.Raw.DropClaim(f.ctx, c.Scope, holder(item))) }
	moving := movedBefore{f.Store, map[engine.Hash]func(){}}
	after := map[string]string{}
	for _, test := range []struct {
		flaw  string
		move  func(item string)
		where string
	}{
		{"lost", func(item string) { f.putState(c, item, engine.Burned) }, "burned"},
		{"held and free", dropClaim, "free"},
		{"free and ended", func(item string) { f.putState(c, item, "") }, "free"},
		{"free twice", dropFree, "misplaced"},
		{"free and not loaded", dropFree, "not loaded"},
		{"held and not loaded", dropClaim, "not loaded"},
	} {
		moving.moves[engine.HashItem(test.flaw)] = func() { test.move(test.flaw) }
		after[test.flaw] = test.where
	}
	f.repaired(itembank.New(moving, itembank.WithClock(NewClock())), itembank.Items("lost"), differences...)
	for _, w := range flaws {
		if want, moved := after[w.name]; moved {
			f.wantSeen(want, c, w.name)
		} else {
			f.wantSeen(w.where, c, w.name)
		}
	}
}

// repairReopened: an item that is claimed and released between the looks would look
// lost, so that nothing is repaired where claims may go on.
func repairReopened(f *fixture) {
	c := f.healthy("a")
	f.putState(c, "a", engine.Burned)
	for method, where := range map[string]string{"ItemRow": "free, burned", "Repair": "burned"} {
		f.must(f.bank().CloseCampaign(f.ctx, f.name))
		f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(c, "a")))
		opened := &Hooked{Store: f.Store, Before: func(called string) error {
			if called == method {
				return f.bank().OpenCampaign(f.ctx, f.name)
			}
			return nil
		}}
		_, err := itembank.New(opened, itembank.WithClock(NewClock())).Repair(f.ctx, f.name, nil)
		if !errors.Is(err, itembank.ErrReopened) || !errors.Is(err, itembank.ErrInconsistent) {
			f.Errorf("opened at %s: want %v, got %v", method, itembank.ErrReopened, err)
		}
		f.wantWhere(where, c, "a")
	}
}

// repairIntervalOfError: wherever a Repair stops, its report says what was done, and
// between which moments.
func repairIntervalOfError(f *fixture) {
	c := f.healthy("a", "b")
	f.putState(c, "a", engine.Burned)
	f.putState(c, "b", engine.Burned)
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	cut := errors.New("cut")
	repairs, repaired := 0, 0
	for _, method := range []string{"Campaign", "ItemRow", "Repair"} {
		clock := NewClock()
		begun := clock.Now().UTC().Truncate(time.Millisecond)
		failing := &Hooked{Store: f.Store, Before: func(called string) error {
			if called == "Repair" {
				repairs++
			}
			if called != method || called == "Repair" && repairs < 2 {
				return nil
			}
			clock.Advance(time.Second) // it takes a moment to fail
			return cut
		}}
		report, err := itembank.New(failing, itembank.WithClock(clock)).Repair(f.ctx, f.name, nil)
		now := clock.Now().UTC().Truncate(time.Millisecond)
		if !errors.Is(err, cut) || !report.From.Equal(begun) || !report.To.Equal(now) || !now.After(begun) {
			f.Errorf("cut at %s: want an interval from %s to %s, got %+v, %v", method, begun, now, report, err)
		}
		repaired += len(report.Inconsistencies)
	}
	if repaired != 1 {
		f.Errorf("one of two was repaired before the cut, and %d were reported", repaired)
	}
}
