package itembanktest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// loadCases pin the life of a load, over the engine.
var loadCases = []testCase{
	{"loads/each-item-once", loadEachOnce},
	{"loads/claimed-items-are-known", claimedItemsAreKnown},
	{"loads/repeated-lines", repeatedLines},
	{"loads/overlapping-files", overlappingFiles},
	{"loads/two-loaders-of-one-file", twoLoaders},
	{"loads/overlapping-loaders-at-once", overlappingLoaders},
	{"loads/cut-at-every-call", cutAtEveryCall},
	{"loads/invalid-input-changes-nothing", invalidLoads},
	{"loads/input-that-changes", inputThatChanges},
	{"loads/digests", digests},
	{"loads/stray-item", strayItem},
	{"loads/overtaken", overtaken},
	{"loads/progress", loadProgress},
	{"loads/busy-store", busyLoad},
}

// wantTally loads and compares the report.
func (f *fixture) wantTally(want itembank.Tally, items ...string) {
	f.Helper()
	if got := f.load(items...).Tally; got != want {
		f.Errorf("want tally %+v, got %+v", want, got)
	}
}

func loadEachOnce(f *fixture) {
	f.create(itembank.Settings{})
	items := codes("code", 130)
	f.wantTally(itembank.Tally{Rows: 130, Added: 130}, items...)
	f.wantCounts(itembank.Counts{Loaded: 130, Free: 130})
	for range 2 {
		f.wantTally(itembank.Tally{Rows: 130, Known: 130}, items...)
		f.wantCounts(itembank.Counts{Loaded: 130, Free: 130})
	}
	if grant := f.claim(f.bank(), "ann"); !slices.Contains(items, grant.Claim.Item) {
		f.Errorf("an item that was never loaded was given: %+v", grant)
	}
}

func claimedItemsAreKnown(f *fixture) {
	_, items := f.stocked(4, itembank.Settings{Shards: 1})
	b := f.bank()
	for i := range items {
		f.claim(b, fmt.Sprintf("claimant-%d", i))
	}
	f.wantTally(itembank.Tally{Rows: 4, Known: 4}, items...)
	f.wantTally(itembank.Tally{Rows: 5, Added: 1, Known: 4}, append(items, "new")...)
	f.wantCounts(itembank.Counts{Loaded: 5, Free: 1, Claimed: 4})
}

// repeatedLines: within a transaction's rows and far apart, which must not
// make a difference.
func repeatedLines(f *fixture) {
	f.create(itembank.Settings{})
	items := slices.Concat([]string{"a", "a", "b"}, codes("code", 100), []string{"a", "c", "c", "b"})
	f.wantTally(itembank.Tally{Rows: 107, Added: 103, Repeated: 4}, items...)
	f.wantCounts(itembank.Counts{Loaded: 103, Free: 103})
	f.wantTally(itembank.Tally{Rows: 107, Known: 107}, items...)
	f.wantTally(itembank.Tally{Rows: 4, Added: 1, Known: 2, Repeated: 1}, "a", "x", "x", "b")
}

func overlappingFiles(f *fixture) {
	f.create(itembank.Settings{})
	items := codes("code", 120)
	f.wantTally(itembank.Tally{Rows: 80, Added: 80}, items[:80]...)
	f.wantTally(itembank.Tally{Rows: 80, Added: 40, Known: 40}, items[40:]...)
	f.wantCounts(itembank.Counts{Loaded: 120, Free: 120})
}

// twoLoaders: two processes on one file are one load, and each reports it whole.
func twoLoaders(f *fixture) {
	f.create(itembank.Settings{})
	items := append(codes("code", 60*scale), "code-00000", "code-00001")
	n := int64(len(items))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			report, err := f.bank().Load(f.ctx, f.name, itembank.Items(items...), nil)
			if err != nil {
				f.Error(err)
			}
			first := itembank.Tally{Rows: n, Added: n - 2, Repeated: 2}
			late := itembank.Tally{Rows: n, Known: n} // it began after the other had ended
			if report.Tally != first && report.Tally != late {
				f.Errorf("want %+v or %+v, got %+v", first, late, report.Tally)
			}
		})
	}
	wg.Wait()
	f.wantCounts(itembank.Counts{Loaded: n - 2, Free: n - 2})
}

// overlappingLoaders: different files with common items, at once.
func overlappingLoaders(f *fixture) {
	f.create(itembank.Settings{})
	n := 50 * scale
	items := codes("code", 2*n)
	var added, known atomic.Int64
	var wg sync.WaitGroup
	for _, part := range [][]string{items[:n+n/2], items[n/2:], slices.Concat(items[n:], items[:n/4])} {
		wg.Go(func() {
			report, err := f.bank().Load(f.ctx, f.name, itembank.Items(part...), nil)
			if err != nil {
				f.Error(err)
			}
			if report.Rows != int64(len(part)) || report.Added+report.Known != report.Rows {
				f.Errorf("the report does not add up: %+v for %d lines", report, len(part))
			}
			added.Add(report.Added)
			known.Add(report.Known)
		})
	}
	wg.Wait()
	if added.Load() != int64(2*n) {
		f.Errorf("want %d items added by all together, got %d", 2*n, added.Load())
	}
	f.wantCounts(itembank.Counts{Loaded: int64(2 * n), Free: int64(2 * n)})
}

// cutAtEveryCall cuts a load at each of its store calls, before the effect and
// after it, and runs it again: each item is there once and the tally is as if
// nothing had happened.
func cutAtEveryCall(f *fixture) {
	items := slices.Concat(codes("code", 101), []string{"code-00000", "code-00100", "other", "other"})
	want := itembank.Tally{Rows: 105, Added: 102, Repeated: 3}
	cut := errors.New("cut")
	for _, after := range []bool{false, true} {
		for call, more := 1, true; more; call++ {
			name := fmt.Sprintf("%s-%t-%d", f.name, after, call)
			c := f.createNamed(name, itembank.Settings{Shards: 2})
			var calls atomic.Int32
			fault := func(string) error {
				if int(calls.Add(1)) == call {
					return cut
				}
				return nil
			}
			hooked := &Hooked{Store: f.Store, Before: fault}
			if after {
				hooked.Before, hooked.After = nil, fault
			}
			report, err := itembank.New(hooked).Load(f.ctx, name, itembank.Items(items...), nil)
			if more = errors.Is(err, cut); !more {
				f.must(err)
			}
			again, err := f.bank().Load(f.ctx, name, itembank.Items(items...), nil)
			f.must(err)
			if free := f.countFree(c); free != 102 {
				f.Errorf("cut at call %d (after its effect: %t): want 102 free items, got %d", call, after, free)
			}
			finished := report.Tally == want // cut while or after its end was written
			if again.Tally != want && (!finished || again.Tally != itembank.Tally{Rows: 105, Known: 105}) {
				f.Errorf("cut at call %d (after its effect: %t): want %+v, got %+v", call, after, want, again.Tally)
			}
		}
	}
}

// countFree counts a bank with few reads, where Counts would be slow.
func (f *fixture) countFree(c itembank.Campaign) (free int) {
	f.Helper()
	for shard := range c.Shards {
		page, err := f.Store.FreeItems(f.ctx, itembank.Shard{Campaign: c.Name, Generation: c.Generation, Number: shard}, itembank.Range{}, itembank.MaxPageSize)
		f.must(err)
		free += len(page.Items)
	}
	return free
}

func invalidLoads(f *fixture) {
	f.create(itembank.Settings{})
	good := codes("code", 60)
	for _, test := range []struct {
		name string
		bad  string
	}{
		{"empty", ""},
		{"too long", string(slices.Repeat([]byte{'x'}, itembank.MaxItem+1))},
		{"control character", "a\tb"},
		{"invalid UTF-8", "caf\xe9"},
	} {
		_, err := f.bank().Load(f.ctx, f.name, itembank.Items(append(slices.Clone(good), test.bad)...), nil)
		var line *itembank.LineError
		if !errors.Is(err, itembank.ErrInvalid) || !errors.As(err, &line) || line.Line != 61 {
			f.Errorf("%s: want invalid line 61, got %v", test.name, err)
		}
	}
	if _, err := f.bank().Load(f.ctx, f.name, itembank.Items(), nil); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("no items: want invalid input, got %v", err)
	}
	if _, err := f.bank().Load(f.ctx, f.name+"-other", itembank.Items(good...), nil); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want no such campaign, got %v", err)
	}
	broken := errors.New("read error")
	failing := func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			_ = yield(itembank.Line{Number: 1, Item: "a"}, nil) && yield(itembank.Line{}, broken)
		}
	}
	if _, err := f.bank().Load(f.ctx, f.name, failing, nil); !errors.Is(err, broken) {
		f.Errorf("want the source's error, got %v", err)
	}
	f.wantCounts(itembank.Counts{})
}

// changing is a source that is another one on its second reading.
func changing(first, second itembank.Source) itembank.Source {
	readings := []itembank.Source{first, second}
	return func() iter.Seq2[itembank.Line, error] {
		now := readings[0]
		readings = readings[1:]
		return now()
	}
}

// inputThatChanges: nothing of what was not checked is written or counted, and
// the load of the first reading is resumed as if nothing had happened.
func inputThatChanges(f *fixture) {
	f.create(itembank.Settings{})
	items := codes("code", 120)
	malformed := func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			for i, item := range items[:110] {
				if !yield(itembank.Line{Number: int64(i) + 1, Item: item}, nil) {
					return
				}
			}
			yield(itembank.Line{}, &itembank.LineError{Line: 111, Err: &itembank.InvalidError{Field: "CSV", Detail: "bare quote"}})
		}
	}
	for _, test := range []struct {
		what    string
		second  itembank.Source
		counted int64 // rows before the change, in whole chunks
	}{
		{"another item", itembank.Items(slices.Replace(slices.Clone(items), 110, 111, "other")...), 100},
		{"fewer", itembank.Items(items[:110]...), 100},
		{"fewer by a chunk", itembank.Items(items[:100]...), 100},
		{"an empty one", itembank.Items(slices.Replace(slices.Clone(items), 110, 111, "")...), 100},
		{"malformed", malformed, 100},
		{"more", itembank.Items(append(slices.Clone(items), "more")...), 120},
	} {
		report, err := f.bank().Load(f.ctx, f.name, changing(itembank.Items(items...), test.second), nil)
		if !errors.Is(err, itembank.ErrInputChanged) || errors.Is(err, itembank.ErrInvalid) {
			f.Errorf("%s: want that the input changed, got %v", test.what, err)
		}
		if report.Rows != test.counted {
			f.Errorf("%s: want %d rows counted, got %+v", test.what, test.counted, report)
		}
	}
	f.wantTally(itembank.Tally{Rows: 120, Added: 120}, items...)
	f.wantCounts(itembank.Counts{Loaded: 120, Free: 120})
}

// digests: loads are told apart by their items, not by their bytes.
func digests(f *fixture) {
	f.create(itembank.Settings{})
	if a, b := f.load("ab", "c"), f.load("a", "bc"); a.LoadID[:32] == b.LoadID[:32] {
		f.Errorf("two loads of other items share a digest: %s", a.LoadID)
	}
}

func strayItem(f *fixture) {
	c := f.create(itembank.Settings{})
	f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(c, "stray")))
	_, err := f.bank().Load(f.ctx, f.name, itembank.Items("good", "stray"), nil)
	if !errors.Is(err, itembank.ErrStrayItem) || !errors.Is(err, itembank.ErrDifference) {
		f.Errorf("want a difference, got %v", err)
	}
	f.wantCounts(itembank.Counts{Loaded: 1, Free: 2})
}

func overtaken(f *fixture) {
	f.create(itembank.Settings{})
	switching := &generations{Store: f.Store}
	switching.current.Store(1)
	switched := func(int64, int64) { switching.current.Store(2) }
	report, err := itembank.New(switching).Load(f.ctx, f.name, itembank.Items("a", "b"), switched)
	if !errors.Is(err, itembank.ErrOvertaken) || report.Added != 2 {
		f.Errorf("want overtaken with 2 added, got %+v, %v", report, err)
	}
	f.wantCounts(itembank.Counts{Loaded: 2, Free: 2})
}

func loadProgress(f *fixture) {
	f.create(itembank.Settings{})
	var seen []int64
	_, err := f.bank().Load(f.ctx, f.name, itembank.Items(codes("code", 120)...), func(done, total int64) {
		if total != 120 {
			f.Errorf("want a total of 120, got %d", total)
		}
		seen = append(seen, done)
	})
	f.must(err)
	if !slices.Equal(seen, []int64{50, 100, 120}) {
		f.Errorf("want progress after every 50 rows, got %v", seen)
	}
}

// contended lets additions meet another transaction, a number of times.
type contended struct {
	itembank.Store
	times int
}

func (c *contended) AddItems(ctx context.Context, additions []itembank.Addition) ([]itembank.Added, error) {
	if c.times == 0 {
		return c.Store.AddItems(ctx, additions)
	}
	c.times--
	return make([]itembank.Added, len(additions)), nil // all unsettled
}

// busyLoad: rows that met another transaction are sent again, and waiting has
// an end, after which the load resumes.
func busyLoad(f *fixture) {
	f.create(itembank.Settings{})
	items := codes("code", 60)
	clock := NewClock()
	_, err := itembank.New(&contended{f.Store, 1 << 30}, itembank.WithClock(clock)).Load(f.ctx, f.name, itembank.Items(items...), nil)
	if !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("a store that stays busy: want %v, got %v", itembank.ErrTryAgain, err)
	}
	begun := clock.Now()
	report, err := itembank.New(&contended{f.Store, 5}, itembank.WithClock(clock)).Load(f.ctx, f.name, itembank.Items(items...), nil)
	f.must(err)
	if want := (itembank.Tally{Rows: 60, Added: 60}); report.Tally != want {
		f.Errorf("want %+v, got %+v", want, report.Tally)
	}
	if clock.Now().Equal(begun) {
		f.Error("rows were sent again without a pause")
	}
	f.wantCounts(itembank.Counts{Loaded: 60, Free: 60})
}
