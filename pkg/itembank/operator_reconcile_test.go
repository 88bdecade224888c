package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var reconcileCases = []testCase{
	{"consistent-campaign", reconcileConsistent},
	{"each-inconsistency", reconcileEachInconsistency},
	{"all-inconsistencies-together", reconcileAllInconsistencies},
	{"worst-inconsistency-is-reported", reconcileWorst},
	{"items-that-move-once", reconcileItemsThatMoveOnce},
	{"items-that-keep-moving", reconcileItemsThatKeepMoving},
	{"many-inconsistencies", reconcileManyInconsistencies},
	{"closed-until-reconciled", closedUntilReconciled},
	{"busy-items", reconcileBusyItems},
}

// flaw is an inconsistency that a case creates in the rows of one free item.
type flaw struct {
	name     string // also the text of the item
	plant    func(f *fixture, c engine.Campaign, item string)
	kind     string
	where    string // the places of the item by its rows
	repaired string // its places after Repair; "": unchanged
}

// holder names the claimant who holds an item.
func holder(item string) string { return "holder of " + item }

// misplaced returns a bank row of an item in another shard than its own.
func (f *fixture) misplaced(c engine.Campaign, item string) engine.FreeItem {
	free := enginerows.FreeItem(c, item)
	free.Shard.Number = (free.Shard.Number + 1) % c.Shards
	return free
}

const missingItem = "missing"

var flaws = []flaw{
	{missingItem, func(f *fixture, c engine.Campaign, item string) {
		f.dropBankRow(enginerows.FreeItem(c, item))
	}, "missing", "", "free"},
	{"held twice", func(f *fixture, c engine.Campaign, item string) {
		f.Take(c, holder(item), item)
		f.putClaim(enginerows.NewClaim(c, "other "+holder(item), item))
	}, "held-twice", "held by holder, held by other holder", ""},
	{"held and free", func(f *fixture, c engine.Campaign, item string) {
		f.Take(c, holder(item), item)
		f.putBankRow(enginerows.FreeItem(c, item))
	}, "held-and-free", "free, held by holder", "held by holder"},
	{"held and ended", func(f *fixture, c engine.Campaign, item string) {
		f.Take(c, holder(item), item)
		f.putState(c, item, engine.Burned)
	}, "held-and-ended", "held by holder, burned", ""},
	{"free and ended", func(f *fixture, c engine.Campaign, item string) {
		f.putState(c, item, engine.Withdrawn)
	}, "free-and-ended", "free, withdrawn", "withdrawn"},
	{"free twice", func(f *fixture, c engine.Campaign, item string) {
		f.putBankRow(f.misplaced(c, item))
	}, "free-twice", "free, misplaced", ""},
	{"in another shard", func(f *fixture, c engine.Campaign, item string) {
		f.dropBankRow(enginerows.FreeItem(c, item))
		f.putBankRow(f.misplaced(c, item))
	}, "misplaced", "misplaced", ""},
	{"in another item's row", func(f *fixture, c engine.Campaign, item string) {
		free := enginerows.FreeItem(c, item)
		free.Value = "another item"
		f.putBankRow(free)
	}, "misplaced", "free", ""},
	{"claimed by another hash", func(f *fixture, c engine.Campaign, item string) {
		claim := f.Take(c, holder(item), item)
		claim.Item = "yet another item"
		f.putClaim(claim)
	}, "misplaced", "", ""},
	{"free and not loaded", (*fixture).dropItemRow, "free-not-loaded", "free, not loaded", ""},
	{"held and not loaded", func(f *fixture, c engine.Campaign, item string) {
		f.Take(c, holder(item), item)
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

// putEnds writes the end of a free item into its bank row and its item row.
func (f *fixture) putEnds(c engine.Campaign, item string, inBank, inItemRow time.Time) {
	f.Helper()
	free, row := enginerows.FreeItem(c, item), *f.ItemRow(c, item)
	free.EndsAt, row.EndsAt = inBank, inItemRow
	f.putBankRow(free)
	f.Must(f.raw.PutItemRow(f.ctx, c.Name, engine.ListedItem{Hash: engine.HashItem(item), ItemRow: row}))
}

// whereOfFlaw returns the places of an item in the form of a flaw.
func (f *fixture) whereOfFlaw(c engine.Campaign, item string) string {
	f.Helper()
	where := f.Where(c, item, holder(item), "other "+holder(item))
	where = strings.ReplaceAll(where, holder(item), "holder")
	if f.BankRow(f.misplaced(c, item)) != nil {
		where = strings.TrimPrefix(where+", misplaced", ", ")
	}
	return where
}

func (f *fixture) wantWhereOfFlaw(want string, c engine.Campaign, item string) {
	f.Helper()
	if got := f.whereOfFlaw(c, item); got != want {
		f.Errorf("item %s: want it %q, got %q", item, want, got)
	}
}

// consistent creates a campaign with the given items, and also a free, a held and an ended item.
func (f *fixture) consistent(items ...string) engine.Campaign {
	f.Helper()
	c := f.create(itembank.Settings{Shards: 2, Scope: f.name + "-scope", OnEnd: itembank.Return})
	f.load(append(items, "other free", "other held", "other ended")...)
	f.Take(c, "ann", "other held")
	f.Close(enginerows.BurnOf(c, f.Take(c, "bob", "other ended")))
	return c
}

// expected returns the inconsistency that Reconcile must report for a flaw, from the rows.
func (f *fixture) expected(c engine.Campaign, w flaw) itembank.Inconsistency {
	f.Helper()
	want := itembank.Inconsistency{Kind: w.kind, Hash: engine.HashItem(w.name).String()}
	if row := f.ItemRow(c, w.name); row != nil {
		want.LoadID, want.Row = row.LoadID, row.Row
	}
	for _, free := range []engine.FreeItem{enginerows.FreeItem(c, w.name), f.misplaced(c, w.name)} {
		if row := f.BankRow(free); row != nil {
			want.Item = row.Value
		}
	}
	for _, claimant := range []string{holder(w.name), "other " + holder(w.name)} {
		if held := f.Held(c, claimant); held != nil {
			want.Item, want.Claims = held.Item, append(want.Claims, held.ID)
		}
	}
	slices.Sort(want.Claims)
	return want
}

// reconciled runs Reconcile, and compares the inconsistencies in any order.
func (f *fixture) reconciled(want ...itembank.Inconsistency) itembank.ReconcileReport {
	f.Helper()
	report, err := f.bank(itembank.WithClock(itembankfault.NewClock())).Reconcile(f.ctx, f.name)
	f.Must(err)
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
		f.Errorf("want %d inconsistencies, got %d", len(want), len(report.Inconsistencies))
	}
}

func reconcileConsistent(f *fixture) {
	f.create(itembank.Settings{Shards: 1})
	f.reconciled()
	c := f.named("filled").consistent("a")
	other := f.createNamed(c.Name+"-other", itembank.Settings{Scope: c.Scope})
	f.loadInto(other.Name, "a", "other free")
	f.Take(other, "zoe", "other free") // an item of the same name in another campaign is another item
	counted := f.counted()
	clock := itembankfault.NewClock()
	report, err := itembank.NewOperator(counted, itembank.WithClock(clock)).Reconcile(f.ctx, c.Name)
	f.Must(err)
	if want := (itembank.Counts{Loaded: 4, Free: 2, Claimed: 1, Ended: 1}); report.Counts != want || len(report.Inconsistencies) > 0 {
		f.Errorf("want %+v and no inconsistency, got %+v", want, report)
	}
	if report.To.Before(report.From) || !report.To.Equal(clock.Now().UTC().Truncate(time.Millisecond)) {
		f.Errorf("want an interval that ends now, got %+v", report)
	}
	if calls := counted.Calls(); slices.Contains(calls, "ReadItems") {
		f.Errorf("nothing looked wrong: want one pass, got %v", calls)
	}
}

// reconcileEachInconsistency: each kind occurs alone, among consistent items.
func reconcileEachInconsistency(f *fixture) {
	var last string
	for i, w := range flaws {
		if w.kind == last { // one flaw of each kind; reconcileAllInconsistencies has all flaws
			continue
		}
		last = w.kind
		one := f.named(fmt.Sprint(i))
		c := one.consistent(w.name)
		w.plant(one, c, w.name)
		one.wantWhereOfFlaw(w.where, c, w.name)
		one.reconciled(one.expected(c, w))
		one.wantWhereOfFlaw(w.where, c, w.name)
	}
}

// withFlaws creates a campaign with all flaws, and returns the inconsistencies that Reconcile must report.
func (f *fixture) withFlaws() (c engine.Campaign, want []itembank.Inconsistency) {
	f.Helper()
	var names []string
	for _, w := range flaws {
		names = append(names, w.name)
	}
	c = f.consistent(names...)
	for _, w := range flaws {
		w.plant(f, c, w.name)
		want = append(want, f.expected(c, w))
	}
	return c, want
}

func reconcileAllInconsistencies(f *fixture) {
	c, want := f.withFlaws()
	report := f.reconciled(want...)
	if !slices.IsSortedFunc(report.Inconsistencies, func(x, y itembank.Inconsistency) int { return strings.Compare(x.Hash, y.Hash) }) {
		f.Error("the inconsistencies are not in the order of their hashes")
	}
	counts, err := f.bank().ConsistentCounts(f.ctx, c.Name)
	f.Must(err)
	if report.Counts != counts {
		f.Errorf("want the counts %+v, got %+v", counts, report.Counts)
	}
}

// reconcileWorst: if an item has several inconsistencies, the worst is reported.
func reconcileWorst(f *fixture) {
	c := f.consistent("a", "b")
	f.Take(c, holder("a"), "a")
	f.putClaim(enginerows.NewClaim(c, "other "+holder("a"), "a"))
	f.putBankRow(enginerows.FreeItem(c, "a"))
	f.putState(c, "a", engine.Expired)
	f.Take(c, holder("b"), "b")
	f.putBankRow(f.misplaced(c, "b"))
	f.dropItemRow(c, "b")
	f.reconciled(f.expected(c, flaw{name: "a", kind: "held-twice"}), f.expected(c, flaw{name: "b", kind: "held-and-free"}))
}

// moving is an engine on which items move while a pass reads them.
type moving struct {
	itembankfault.Store
	last         string
	beforeBank   func() // runs before each read of the bank
	beforeClaims func() // runs before each read of the claims
	beforeItems  func() // runs before each read of single items
}

func (f *fixture) moving() *moving {
	m := &moving{Store: itembankfault.Store{Store: f.Store}, beforeItems: func() {}}
	m.Before = func(method string) error {
		switch begins := method != m.last; {
		case begins && method == "FreeItems":
			m.beforeBank()
		case begins && method == "ListClaims":
			m.beforeClaims()
		case begins && method == "ReadItems":
			m.beforeItems()
		}
		m.last = method
		return nil
	}
	return m
}

// mover moves one item between the bank and a claimant.
type mover struct {
	f     *fixture
	c     engine.Campaign
	item  string
	claim *engine.Claim
}

func (m *mover) take() {
	if m.claim == nil {
		claim := m.f.Take(m.c, "mover of "+m.item, m.item)
		m.claim = &claim
	}
}

func (m *mover) release() {
	if m.claim != nil {
		m.f.Close(enginerows.ReturnOf(m.c, *m.claim))
		m.claim = nil
	}
}

// reconcileItemsThatMoveOnce: two items move during the first pass, so that one seems to be in two places and the
// other in none. The second pass shows that both are right.
func reconcileItemsThatMoveOnce(f *fixture) {
	c := f.consistent("twice", "nowhere")
	twice, nowhere := &mover{f: f, c: c, item: "twice"}, &mover{f: f, c: c, item: "nowhere"}
	m := f.moving()
	stop := func() { m.beforeBank, m.beforeClaims = func() {}, func() {} }
	m.beforeClaims = twice.take
	m.beforeBank = func() {
		twice.release()
		nowhere.take()
		stop()
	}
	clock := itembankfault.NewClock()
	begun := clock.Now()
	report, err := itembank.NewOperator(m, itembank.WithClock(clock)).Reconcile(f.ctx, f.name)
	f.Must(err)
	f.wantInconsistencies(report)
	if calls := m.Calls(); !slices.Contains(calls, "ReadItems") || !clock.Now().Equal(begun) {
		f.Errorf("want one more pass and no pause, got calls %v", calls)
	}
}

// reconcileItemsThatKeepMoving: items that move during every pass are reported as moving, whether a pass sees them in
// two places or in none.
func reconcileItemsThatKeepMoving(f *fixture) {
	c := f.consistent("twice", "nowhere")
	twice, nowhere := &mover{f: f, c: c, item: "twice"}, &mover{f: f, c: c, item: "nowhere"}
	m := f.moving()
	m.beforeBank = func() { twice.release(); nowhere.take() }
	m.beforeClaims = func() { twice.take(); nowhere.release() }
	var seen string // the claim that the latest pass read
	m.beforeItems = func() {
		seen = twice.claim.ID
		twice.release()
		nowhere.take()
	}
	clock := itembankfault.NewClock()
	begun := clock.Now()
	report, err := itembank.NewOperator(m, itembank.WithClock(clock)).Reconcile(f.ctx, f.name)
	f.Must(err)
	f.wantInconsistencies(report, itembank.Inconsistency{
		Kind: "moving", Hash: engine.HashItem("twice").String(), Item: "twice",
		LoadID: f.ItemRow(c, "twice").LoadID, Row: 1, Claims: []string{seen},
	}, itembank.Inconsistency{
		Kind: "moving", Hash: engine.HashItem("nowhere").String(), LoadID: f.ItemRow(c, "nowhere").LoadID, Row: 2,
	})
	if waited := clock.Now().Sub(begun); waited < 5*time.Second {
		f.Errorf("want some pauses before that is reported, waited %s", waited)
	}
	f.reconciled() // when nothing moves, nothing is wrong
}

// withoutBank is an engine without its bank rows, as if only one of two tables was restored. It counts the reads of
// items.
type withoutBank struct {
	engine.Store
	reads int
}

func (*withoutBank) FreeItems(
	context.Context, engine.Shard, engine.Range, int, engine.Consistency,
) (engine.FreePage, error) {
	return engine.FreePage{}, nil
}

func (s *withoutBank) ReadItems(ctx context.Context, keys []engine.FreeItem) ([]engine.ItemRead, error) {
	s.reads++
	reads, err := s.Store.ReadItems(ctx, keys)
	for i := range reads {
		reads[i].Free = nil
	}
	return reads, err
}

// reconcileManyInconsistencies: items that look wrong are read in large requests, in each of two passes.
func reconcileManyInconsistencies(f *fixture) {
	const items, requests = 1_001, 21
	f.stocked(items, itembank.Settings{})
	s := &withoutBank{Store: f.Store}
	report, err := itembank.NewOperator(s, itembank.WithClock(itembankfault.NewClock())).Reconcile(f.ctx, f.name)
	if err != nil || len(report.Inconsistencies) != items || s.reads != 2*requests {
		f.Errorf("got %d inconsistencies after %d reads, %v; want %d reads", len(report.Inconsistencies), s.reads, err, 2*requests)
	}
	for _, d := range report.Inconsistencies {
		if d.Kind != "missing" || d.LoadID == "" || d.Row == 0 {
			f.Fatalf("want it missing, with its load and row: %+v", d)
		}
	}
}

// reconcileBusyItems: if a transaction is working on an item at every pass, the item is moving, whatever its rows
// show. If a transaction is working on it once, the item is read again.
func reconcileBusyItems(f *fixture) {
	f.dropBankRow(enginerows.FreeItem(f.consistent("a"), "a"))
	for _, test := range []struct {
		busy int // passes
		kind string
	}{{1, "missing"}, {100, "moving"}} {
		left := test.busy
		s := &itembankfault.Store{Store: f.Store, Plan: func(_ int, method string) itembankfault.Fault {
			if method != "ReadItems" || left == 0 {
				return itembankfault.None
			}
			left--
			return itembankfault.ItemConflict
		}}
		report, err := itembank.NewOperator(s, itembank.WithClock(itembankfault.NewClock())).Reconcile(f.ctx, f.name)
		if err != nil || len(report.Inconsistencies) != 1 || report.Inconsistencies[0].Kind != test.kind {
			f.Errorf("busy at %d passes: want it %s, got %+v, %v", test.busy, test.kind, report, err)
		}
	}
}

// closedUntilReconciled: a campaign that was closed by CloseUntilReconciled is opened only if nothing is wrong.
func closedUntilReconciled(f *fixture) {
	c := f.consistent("a")
	b := f.bank(itembank.WithClock(itembankfault.NewClock()))
	f.Must(b.CloseUntilReconciled(f.ctx, f.name))
	f.wantState(b, itembank.Closed)
	if got, err := b.Campaign(f.ctx, f.name); err != nil || !got.UntilReconciled || got.Override != itembank.Closed {
		f.Errorf("unexpected %+v, %v", got, err)
	}
	f.putState(c, "a", engine.Burned)
	if err := b.OpenCampaign(f.ctx, f.name); !errors.Is(err, itembank.ErrNotReconciled) || !errors.Is(err, itembank.ErrRefused) {
		f.Errorf("want it refused, got %v", err)
	}
	f.wantState(b, itembank.Closed)
	f.repairAll(nil)
	f.Must(b.OpenCampaign(f.ctx, f.name))
	f.wantState(b, itembank.Open)

	// A plain CloseCampaign removes the condition.
	f.Must(b.CloseUntilReconciled(f.ctx, f.name))
	f.putBankRow(enginerows.FreeItem(c, "a"))
	f.Must(b.CloseCampaign(f.ctx, f.name))
	f.Must(b.OpenCampaign(f.ctx, f.name))
	f.wantState(b, itembank.Open)
}
