package itembanktest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
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
	{"loads/beside-another", besideAnother},
	{"loads/beside-itself", besideItself},
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
	f.wantCounts(engine.Counts{Loaded: 130, Free: 130})
	for range 2 {
		f.wantTally(itembank.Tally{Rows: 130, Known: 130}, items...)
		f.wantCounts(engine.Counts{Loaded: 130, Free: 130})
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
	f.wantCounts(engine.Counts{Loaded: 5, Free: 1, Claimed: 4})
}

// repeatedLines: within a transaction's rows and far apart, which must not
// make a difference.
func repeatedLines(f *fixture) {
	f.create(itembank.Settings{})
	items := slices.Concat([]string{"a", "a", "b"}, codes("code", 100), []string{"a", "c", "c", "b"})
	f.wantTally(itembank.Tally{Rows: 107, Added: 103, Repeated: 4}, items...)
	f.wantCounts(engine.Counts{Loaded: 103, Free: 103})
	f.wantTally(itembank.Tally{Rows: 107, Known: 107}, items...)
	f.wantTally(itembank.Tally{Rows: 4, Added: 1, Known: 2, Repeated: 1}, "a", "x", "x", "b")
}

func overlappingFiles(f *fixture) {
	f.create(itembank.Settings{})
	items := codes("code", 120)
	f.wantTally(itembank.Tally{Rows: 80, Added: 80}, items[:80]...)
	f.wantTally(itembank.Tally{Rows: 80, Added: 40, Known: 40}, items[40:]...)
	f.wantCounts(engine.Counts{Loaded: 120, Free: 120})
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
	f.wantCounts(engine.Counts{Loaded: n - 2, Free: n - 2})
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
	f.wantCounts(engine.Counts{Loaded: int64(2 * n), Free: int64(2 * n)})
}

// errCut ends a load on its way.
var errCut = errors.New("cut")

// atCall is a hook that does something at one call.
func atCall(call int, do func() error) func(string) error {
	return func(string) error {
		if call--; call != 0 {
			return nil
		}
		return do()
	}
}

// cutAtEveryCall cuts a load at each of its store calls, before the effect and
// after it, and runs it again: each item is there once and the tally is as if
// nothing had happened. If the load had finished, its lines are known to the next.
func cutAtEveryCall(f *fixture) {
	items := slices.Concat(codes("code", 101), []string{"known-00001", "code-00000", "code-00100", "other", "other", "known-00000"})
	rows := int64(len(items))
	want := itembank.Tally{Rows: rows, Added: 102, Known: 2, Repeated: 3}
	f.create(itembank.Settings{Shards: 2})
	_, digest := f.undisturbed(items)
	for _, after := range []bool{false, true} {
		for call, more := 1, true; more; call++ {
			what := fmt.Sprintf("cut at call %d (after its effect: %t)", call, after)
			name := fmt.Sprintf("%s-%t-%d", f.name, after, call)
			c := f.createNamed(name, itembank.Settings{Shards: 2})
			f.loadInto(name, codes("known", 2))
			cut := atCall(call, func() error { return errCut })
			hooked := &Hooked{Store: f.Store, Before: cut}
			if after {
				hooked.Before, hooked.After = nil, cut
			}
			report, err := itembank.New(hooked).Load(f.ctx, name, itembank.Items(items...), nil)
			if more = errors.Is(err, errCut); !more {
				f.must(err)
			}
			counted, finished := f.counted(name, digest)
			if finished && counted != want {
				f.Errorf("%s: the finished load has %+v, want %+v", what, counted, want)
			}
			if report.Rows > counted.Rows || !after && report.Tally != counted {
				f.Errorf("%s: it says that it came to %+v, and resumes at %+v", what, report.Tally, counted)
			}
			again := itembank.LoadReport{Tally: want, Resumed: counted.Rows}
			if finished {
				again = itembank.LoadReport{Tally: itembank.Tally{Rows: rows, Known: rows}}
			}
			got := f.loadInto(name, items)
			if got.LoadID = ""; got != again {
				f.Errorf("%s: want %+v, got %+v", what, again, got)
			}
			if free := f.countFree(c); free != 104 {
				f.Errorf("%s: want 104 free items, got %d", what, free)
			}
		}
	}
}

// loadInto loads into another campaign than the fixture's.
func (f *fixture) loadInto(campaign string, items []string) itembank.LoadReport {
	f.Helper()
	report, err := f.bank().Load(f.ctx, campaign, itembank.Items(items...), nil)
	f.must(err)
	return report
}

// undisturbed loads the items into the fixture's campaign, and returns how many calls
// that took, and the digest, which loads of other campaigns have as well.
func (f *fixture) undisturbed(items []string) (calls int, digest string) {
	f.Helper()
	hooked := &Hooked{Store: f.Store}
	report, err := itembank.New(hooked).Load(f.ctx, f.name, itembank.Items(items...), nil)
	f.must(err)
	digest, _, _ = strings.Cut(report.LoadID, "#")
	return len(hooked.Calls()), digest
}

// counted is what the store has of the latest load of a digest.
func (f *fixture) counted(campaign, digest string) (t itembank.Tally, finished bool) {
	f.Helper()
	latest, err := f.Store.LatestLoad(f.ctx, campaign, digest)
	f.must(err)
	if latest == nil {
		return t, false
	}
	return itembank.Tally(latest.Tally), latest.Finished
}

// interruption is at which call of a load another one is done, and what becomes of
// the first.
type interruption struct {
	call       int
	after, cut bool // after the call's effect; the load is cut there
}

// interruptions are all of a load that makes so many calls. With the race detector,
// where they would take long, it is one in four of them.
func interruptions(calls int) iter.Seq[interruption] {
	return func(yield func(interruption) bool) {
		for call := range calls {
			for _, i := range []interruption{{call + 1, false, false}, {call + 1, false, true}, {call + 1, true, true}} {
				if (scale > 1 || rand.IntN(4) == 0) && !yield(i) {
					return
				}
			}
		}
	}
}

// interrupted loads items, does something at a call, and resumes the load if that cut it.
func (f *fixture) interrupted(campaign string, items []string, i interruption, meanwhile func()) itembank.Tally {
	f.Helper()
	hook := atCall(i.call, func() error {
		if meanwhile(); i.cut {
			return errCut
		}
		return nil
	})
	hooked := &Hooked{Store: f.Store, Before: hook}
	if i.after {
		hooked.Before, hooked.After = nil, hook
	}
	report, err := itembank.New(hooked).Load(f.ctx, campaign, itembank.Items(items...), nil)
	if errors.Is(err, errCut) {
		return f.loadInto(campaign, items).Tally
	}
	f.must(err)
	return report.Tally
}

// besideAnother loads an overlapping file at a call of a load, which goes on or is
// cut there: each item belongs to the one that came to it first, and both reports are
// exact.
func besideAnother(f *fixture) {
	shared := codes("shared", 30)
	one := slices.Concat(codes("one", 40), shared[:15], []string{"one-00000", "shared-00000", "known", "end", "end"})
	other := slices.Concat([]string{"other", "other", "known"}, shared)
	f.create(itembank.Settings{Shards: 2})
	f.load("known")
	calls, digest := f.undisturbed(one)
	for i := range interruptions(calls) {
		name := fmt.Sprintf("%s-%d-%t-%t", f.name, i.call, i.after, i.cut)
		c := f.createNamed(name, itembank.Settings{Shards: 2})
		f.loadInto(name, []string{"known"})
		bank := held{}
		bank.add("before", 0, "known")
		var want itembank.Tally
		got := f.interrupted(name, one, i, func() {
			done := 0 // of the one, in transactions
			for rows, item := range map[int]string{engine.MaxAddItems: "one-00000", len(one): "end"} {
				row, err := f.Store.ItemRow(f.ctx, name, engine.HashItem(item))
				f.must(err)
				if row != nil {
					done = max(done, rows)
				}
			}
			first := bank.add("one", 0, one[:done]...)
			beside := bank.add("other", 0, other...)
			last := bank.add("one", done, one[done:]...)
			want = itembank.Tally{
				Rows: first.Rows + last.Rows, Added: first.Added + last.Added,
				Known: first.Known + last.Known, Repeated: first.Repeated + last.Repeated,
			}
			if _, finished := f.counted(name, digest); finished && i.cut {
				want = itembank.Tally{Rows: want.Rows, Known: want.Rows} // it is another load
			}
			if got := f.loadInto(name, other).Tally; got != beside {
				f.Errorf("%+v: the other load: want %+v, got %+v", i, beside, got)
			}
		})
		if got != want {
			f.Errorf("%+v: want %+v, got %+v", i, want, got)
		}
		if free := f.countFree(c); free != len(bank) {
			f.Errorf("%+v: want %d free items, got %d", i, len(bank), free)
		}
	}
}

// held is a bank in which one adds after the other: by item, who added it and in
// which row.
type held map[string]struct {
	by  string
	row int
}

// add adds the items of a load after so many rows, and counts them.
func (h held) add(by string, after int, items ...string) (t itembank.Tally) {
	for i, item := range items {
		row := after + i
		holder, known := h[item]
		t.Rows++
		switch {
		case !known:
			holder.by, holder.row = by, row
			h[item] = holder
			t.Added++
		case holder.by == by:
			t.Repeated++
		default:
			t.Known++
		}
	}
	return t
}

// besideItself loads the same file at a call of a load, which goes on or is cut there:
// it is one load as long as it has not finished, and known to the next.
func besideItself(f *fixture) {
	items := slices.Concat(codes("code", 55), []string{"code-00000", "end", "end"})
	rows := int64(len(items))
	whole := itembank.Tally{Rows: rows, Added: 56, Repeated: 2}
	known := itembank.Tally{Rows: rows, Known: rows}
	f.create(itembank.Settings{Shards: 2})
	calls, digest := f.undisturbed(items)
	for i := range interruptions(calls) {
		name := fmt.Sprintf("%s-%d-%t-%t", f.name, i.call, i.after, i.cut)
		c := f.createNamed(name, itembank.Settings{Shards: 2})
		var want itembank.Tally
		got := f.interrupted(name, items, i, func() {
			latest, err := f.Store.LatestLoad(f.ctx, name, digest)
			f.must(err)
			beside := whole
			if latest != nil && latest.Finished {
				beside = known
			}
			if want = whole; latest == nil || i.cut {
				want = known
			}
			if got := f.loadInto(name, items).Tally; got != beside {
				f.Errorf("%+v: the other loader: want %+v, got %+v", i, beside, got)
			}
		})
		if got != want {
			f.Errorf("%+v: want %+v, got %+v", i, want, got)
		}
		if free := f.countFree(c); free != 56 {
			f.Errorf("%+v: want 56 free items, got %d", i, free)
		}
	}
}

// countFree counts a bank with few reads, where Counts would be slow.
func (f *fixture) countFree(c engine.Campaign) (free int) {
	f.Helper()
	for shard := range c.Shards {
		page, err := f.Store.FreeItems(f.ctx, engine.Shard{Campaign: c.Name, Generation: c.Generation, Number: shard}, engine.Range{}, 1000)
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
		{"too long", string(slices.Repeat([]byte{'x'}, engine.MaxItem+1))},
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
	f.wantCounts(engine.Counts{})
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
	f.wantCounts(engine.Counts{Loaded: 120, Free: 120})
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
	if !errors.Is(err, &itembank.InconsistentError{Kind: "free-not-loaded"}) || !errors.Is(err, itembank.ErrInconsistent) {
		f.Errorf("want a difference, got %v", err)
	}
	f.wantCounts(engine.Counts{Loaded: 1, Free: 2})
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
	f.wantCounts(engine.Counts{Loaded: 2, Free: 2})
}

// loadProgress: from where it begins, and after every transaction's rows.
func loadProgress(f *fixture) {
	f.create(itembank.Settings{})
	items := itembank.Items(codes("code", 120)...)
	calls := 0
	cut := &Hooked{Store: f.Store, Before: func(method string) error {
		if method == "AddItems" {
			if calls++; calls == 3 {
				return errCut
			}
		}
		return nil
	}}
	for _, run := range []struct {
		on   engine.Store
		want []int64
	}{{cut, []int64{0, 50, 100}}, {f.Store, []int64{100, 120}}, {f.Store, []int64{0, 50, 100, 120}}} {
		var seen []int64
		_, err := itembank.New(run.on).Load(f.ctx, f.name, items, func(done, total int64) {
			if total != 120 {
				f.Errorf("want a total of 120, got %d", total)
			}
			seen = append(seen, done)
		})
		if !errors.Is(err, errCut) {
			f.must(err)
		}
		if !slices.Equal(seen, run.want) {
			f.Errorf("want progress %v, got %v", run.want, seen)
		}
	}
}

// contended lets additions meet another transaction, a number of times.
type contended struct {
	engine.Store
	times int
}

func (c *contended) AddItems(ctx context.Context, additions []engine.AddRequest) ([]engine.AddResult, error) {
	if c.times == 0 {
		return c.Store.AddItems(ctx, additions)
	}
	c.times--
	return make([]engine.AddResult, len(additions)), nil // all unsettled
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
	f.wantCounts(engine.Counts{Loaded: 60, Free: 60})
}
