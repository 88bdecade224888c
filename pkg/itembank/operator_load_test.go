package itembank_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var loadCases = []testCase{
	{"claimed-items-are-known", claimedItemsAreKnown},
	{"repeated-lines", loadRepeatedLines},
	{"cut-at-every-call", loadCutAtEveryCall},
	{"beside-another-load", besideAnotherLoad},
	{"beside-a-load-of-the-same-file", besideSameFile},
	{"invalid-input-changes-nothing", invalidLoads},
	{"input-that-changes", inputThatChanges},
	{"digests", digests},
	{"orphan-item", loadOrphanItem},
	{"progress", loadProgress},
	{"busy-engine", loadOnBusyEngine},
	{"known-items-are-looked-up", knownItemsAreLookedUp},
	{"own-sold-out-ends-at-once", ownSoldOutEnds},
	{"cut-load-is-given-up", cutLoadIsGivenUp},
	{"given-up-items-are-loaded-again", givenUpItemsAreLoadedAgain},
	{"given-up-load-that-never-was", givenUpLoadThatNeverWas},
	{"given-up-while-a-container-asks", givenUpWhileAContainerAsks},
}

// wantTally loads items, and compares the tally.
func (f *fixture) wantTally(want itembank.Tally, items ...string) {
	f.Helper()
	if got := f.load(items...).Tally; got != want {
		f.Errorf("want tally %+v, got %+v", want, got)
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

// loadRepeatedLines: it does not matter whether a line is repeated in the same transaction or in another one.
func loadRepeatedLines(f *fixture) {
	f.create(itembank.Settings{})
	items := slices.Concat([]string{"a", "a", "b"}, codes("code", 100), []string{"a", "c", "c", "b"})
	f.wantTally(itembank.Tally{Rows: 107, Added: 103, Repeated: 4}, items...)
	f.wantCounts(engine.Counts{Loaded: 103, Free: 103})
	f.wantTally(itembank.Tally{Rows: 107, Known: 107}, items...)
	f.wantTally(itembank.Tally{Rows: 4, Added: 1, Known: 2, Repeated: 1}, "a", "x", "x", "b")
}

// loadCutAtEveryCall interrupts a load at each of its calls, before and after its effect, and loads again. Each item
// is loaded once, and the tally is the same as without the interruption. If the first load had finished, the second
// one knows all items.
func loadCutAtEveryCall(f *fixture) {
	items := slices.Concat(codes("code", 101), []string{"known-00001", "code-00000", "code-00100", "other", "other", "known-00000"})
	rows := int64(len(items))
	want := itembank.Tally{Rows: rows, Added: 102, Known: 2, Repeated: 3}
	f.create(itembank.Settings{Shards: 2})
	_, digest := f.loadAlone(items)
	for _, after := range []bool{false, true} {
		for call, more := 1, true; more; call++ {
			what := fmt.Sprintf("cut at call %d (after its effect: %t)", call, after)
			one := f.named(fmt.Sprintf("%t-%d", after, call))
			c := one.create(itembank.Settings{Shards: 2})
			one.load(codes("known", 2)...)
			report, err := itembank.NewOperator(f.cutAt(call, after)).Load(f.ctx, one.name, itembank.Items(items...), nil)
			if more = errors.Is(err, errCut); !more {
				f.Must(err)
			}
			counted, finished := f.latestTally(one.name, digest)
			if finished && counted != want {
				f.Errorf("%s: the finished load has %+v, want %+v", what, counted, want)
			}
			if report.Rows > counted.Rows || !after && report.Tally != counted {
				f.Errorf("%s: it reports %+v, and resumes at %+v", what, report.Tally, counted)
			}
			again := itembank.LoadReport{Tally: want, Resumed: counted.Rows}
			if finished {
				again = itembank.LoadReport{Tally: itembank.Tally{Rows: rows, Known: rows}}
			}
			got := one.load(items...)
			if got.LoadID = ""; got != again {
				f.Errorf("%s: want %+v, got %+v", what, again, got)
			}
			if free := f.CountFree(c); free != 104 {
				f.Errorf("%s: want 104 free items, got %d", what, free)
			}
		}
	}
}

// loadAlone loads items into the fixture's campaign. It returns the number of calls, and the digest of the items,
// which is the same in loads of other campaigns.
func (f *fixture) loadAlone(items []string) (calls int, digest string) {
	f.Helper()
	counted := f.counted()
	report, err := itembank.NewOperator(counted).Load(f.ctx, f.name, itembank.Items(items...), nil)
	f.Must(err)
	digest, _, _ = strings.Cut(report.LoadID, "#")
	return len(counted.Calls()), digest
}

// latestTally reads the tally of the latest load of a digest.
func (f *fixture) latestTally(campaign, digest string) (t itembank.Tally, finished bool) {
	f.Helper()
	latest, err := f.Store.LatestLoad(f.ctx, campaign, digest)
	f.Must(err)
	if latest == nil {
		return t, false
	}
	return itembank.Tally(latest.Tally), latest.Finished
}

// interruption is the call of a load at which another load runs.
type interruption struct {
	call       int
	after, cut bool // the other load runs after the call's effect; the first load stops there
}

// interruptions returns all interruptions of a load with a given number of calls.
func interruptions(calls int) (all []interruption) {
	for call := 1; call <= calls; call++ {
		all = append(all, interruption{call, false, false}, interruption{call, false, true}, interruption{call, true, true})
	}
	return all
}

func (i interruption) String() string {
	return fmt.Sprintf("%d-%t-%t", i.call, i.after, i.cut)
}

// loadInterrupted loads items and runs a function at a call. If that interrupts the load, it resumes it.
func (f *fixture) loadInterrupted(items []string, i interruption, meanwhile func()) itembank.Tally {
	f.Helper()
	interrupted := f.interruptedAt(i.call, i.after, func() error {
		if meanwhile(); i.cut {
			return errCut
		}
		return nil
	})
	report, err := itembank.NewOperator(interrupted).Load(f.ctx, f.name, itembank.Items(items...), nil)
	if errors.Is(err, errCut) {
		return f.load(items...).Tally
	}
	f.Must(err)
	return report.Tally
}

// besideAnotherLoad loads an overlapping file at a call of a load, which continues or stops there. Each item belongs
// to the load that added it first, and both reports are exact.
func besideAnotherLoad(f *fixture) {
	shared := codes("shared", 30)
	file := slices.Concat(codes("one", 40), shared[:15], []string{"one-00000", "shared-00000", "known", "end", "end"})
	other := slices.Concat([]string{"other", "other", "known"}, shared)
	f.create(itembank.Settings{Shards: 2})
	f.load("known")
	calls, digest := f.loadAlone(file)
	for _, i := range interruptions(calls) {
		one := f.named(i.String())
		c := one.create(itembank.Settings{Shards: 2})
		one.load("known")
		bank := modelBank{}
		bank.add("before", 0, "known")
		var want itembank.Tally
		got := one.loadInterrupted(file, i, func() {
			done := 0 // rows of the file that were added by complete transactions
			for rows, item := range map[int]string{engine.MaxAddItems: "one-00000", len(file): "end"} {
				if f.ItemRow(c, item) != nil {
					done = max(done, rows)
				}
			}
			first := bank.add("file", 0, file[:done]...)
			beside := bank.add("other", 0, other...)
			last := bank.add("file", done, file[done:]...)
			want = itembank.Tally{
				Rows: first.Rows + last.Rows, Added: first.Added + last.Added,
				Known: first.Known + last.Known, Repeated: first.Repeated + last.Repeated,
			}
			if _, finished := f.latestTally(one.name, digest); finished && i.cut {
				want = itembank.Tally{Rows: want.Rows, Known: want.Rows} // this is another load
			}
			if got := one.load(other...).Tally; got != beside {
				f.Errorf("%+v: the other load: want %+v, got %+v", i, beside, got)
			}
		})
		if got != want {
			f.Errorf("%+v: want %+v, got %+v", i, want, got)
		}
		if free := f.CountFree(c); free != len(bank) {
			f.Errorf("%+v: want %d free items, got %d", i, len(bank), free)
		}
	}
}

// modelBank models a bank to which loads add items. For each item it has the load and the row that added it.
type modelBank map[string]struct {
	load string
	row  int
}

// add adds the items of a load from a row onward, and counts them.
func (m modelBank) add(load string, from int, items ...string) (t itembank.Tally) {
	for i, item := range items {
		row := from + i
		added, known := m[item]
		t.Rows++
		switch {
		case !known:
			added.load, added.row = load, row
			m[item] = added
			t.Added++
		case added.load == load:
			t.Repeated++
		default:
			t.Known++
		}
	}
	return t
}

// besideSameFile loads the same file at a call of a load, which continues or stops there. Both are the same load
// until it has finished. After that all items are known.
func besideSameFile(f *fixture) {
	items := slices.Concat(codes("code", 55), []string{"code-00000", "end", "end"})
	rows := int64(len(items))
	whole := itembank.Tally{Rows: rows, Added: 56, Repeated: 2}
	known := itembank.Tally{Rows: rows, Known: rows}
	f.create(itembank.Settings{Shards: 2})
	calls, digest := f.loadAlone(items)
	for _, i := range interruptions(calls) {
		one := f.named(i.String())
		c := one.create(itembank.Settings{Shards: 2})
		var want itembank.Tally
		got := one.loadInterrupted(items, i, func() {
			latest, err := f.Store.LatestLoad(f.ctx, one.name, digest)
			f.Must(err)
			beside := whole
			if latest != nil && latest.Finished {
				beside = known
			}
			if want = whole; latest == nil || i.cut {
				want = known
			}
			if got := one.load(items...).Tally; got != beside {
				f.Errorf("%+v: the other load: want %+v, got %+v", i, beside, got)
			}
		})
		if got != want {
			f.Errorf("%+v: want %+v, got %+v", i, want, got)
		}
		if free := f.CountFree(c); free != 56 {
			f.Errorf("%+v: want 56 free items, got %d", i, free)
		}
	}
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

// changing returns a source whose second reading differs.
func changing(first, second itembank.Source) itembank.Source {
	readings := []itembank.Source{first, second}
	return func() iter.Seq2[itembank.Line, error] {
		now := readings[0]
		readings = readings[1:]
		return now()
	}
}

// inputThatChanges: no row is written or counted that was not checked. Loading the first reading again resumes the
// load.
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

// digests: two loads differ if their items differ, even if all items together have the same bytes.
func digests(f *fixture) {
	f.create(itembank.Settings{})
	if a, b := f.load("ab", "c"), f.load("a", "bc"); a.LoadID[:32] == b.LoadID[:32] {
		f.Errorf("two loads of other items share a digest: %s", a.LoadID)
	}
}

// loadOrphanItem: a load stops at an item in the bank that has no item row.
func loadOrphanItem(f *fixture) {
	c := f.create(itembank.Settings{})
	f.putBankRow(enginerows.FreeItem(c, "orphan"))
	_, err := f.bank().Load(f.ctx, f.name, itembank.Items("good", "orphan"), nil)
	if !errors.Is(err, &itembank.InconsistentError{Kind: "free-not-loaded"}) || !errors.Is(err, itembank.ErrInconsistent) {
		f.Errorf("want an inconsistency, got %v", err)
	}
	f.wantCounts(engine.Counts{Loaded: 1, Free: 2})
}

// loadProgress: progress is reported when the load begins and after every transaction.
func loadProgress(f *fixture) {
	f.create(itembank.Settings{})
	items := itembank.Items(codes("code", 120)...)
	for _, run := range []struct {
		on   engine.Store
		want []int64
	}{{f.cutAt(3, false, "AddItems"), []int64{0, 50, 100}}, {f.Store, []int64{100, 120}}, {f.Store, []int64{0, 50, 100, 120}}} {
		var seen []int64
		_, err := itembank.NewOperator(run.on).Load(f.ctx, f.name, items, func(done, total int64) {
			if total != 120 {
				f.Errorf("want a total of 120, got %d", total)
			}
			seen = append(seen, done)
		})
		if !errors.Is(err, errCut) {
			f.Must(err)
		}
		if !slices.Equal(seen, run.want) {
			f.Errorf("want progress %v, got %v", run.want, seen)
		}
	}
}

// loadOnBusyEngine: rows that conflicted with another transaction are sent again. The number of waits is limited, and
// the load can then be resumed.
func loadOnBusyEngine(f *fixture) {
	f.create(itembank.Settings{})
	items := itembank.Items(codes("code", 60)...)
	clock := itembankfault.NewClock()
	busy := func(times int) *itembank.Operator { // this many calls of AddItems settle nothing
		s := &itembankfault.Store{Store: f.Store, Plan: func(_ int, method string) itembankfault.Fault {
			if method != "AddItems" || times == 0 {
				return itembankfault.None
			}
			times--
			return itembankfault.ItemConflict
		}}
		return itembank.NewOperator(s, itembank.WithClock(clock))
	}
	if _, err := busy(1<<30).Load(f.ctx, f.name, items, nil); !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("an engine that stays busy: want %v, got %v", itembank.ErrTryAgain, err)
	}
	begin := clock.Now()
	report, err := busy(5).Load(f.ctx, f.name, items, nil)
	f.Must(err)
	if want := (itembank.Tally{Rows: 60, Added: 60}); report.Tally != want {
		f.Errorf("want %+v, got %+v", want, report.Tally)
	}
	if clock.Now().Equal(begin) {
		f.Error("rows were sent again without a pause")
	}
	f.wantCounts(engine.Counts{Loaded: 60, Free: 60})
}

// knownItemsAreLookedUp: a load of known items reads them and adds nothing. New items are looked up in the first chunk,
// and in a chunk after known items.
func knownItemsAreLookedUp(f *fixture) {
	f.create(itembank.Settings{})
	const n = engine.MaxAddItems
	known, fresh := codes("known", 3*n), codes("new", 4*n)
	counted := f.counted()
	for _, test := range []struct {
		name    string
		items   []string
		lookups []bool // of each chunk
		adds    int
		want    itembank.Tally
	}{
		{"new items", known, []bool{true, false, false}, 3, itembank.Tally{Rows: 3 * n, Added: 3 * n}},
		{"known items", known, []bool{true, true, true}, 0, itembank.Tally{Rows: 3 * n, Known: 3 * n}},
		{"known items after new ones", slices.Concat(fresh[:2*n], known, fresh[2*n:]),
			[]bool{true, false, false, true, true, true, false}, 4, itembank.Tally{Rows: 7 * n, Added: 4 * n, Known: 3 * n}},
	} {
		counted.Calls()
		var lookups []bool
		adds, lookedUp := 0, false
		counted.Before = func(method string) error {
			lookedUp = lookedUp || method == "ItemRows"
			return nil
		}
		chunkDone := func(done, _ int64) {
			if done > 0 {
				lookups, lookedUp = append(lookups, lookedUp), false
			}
		}
		report, err := itembank.NewOperator(counted).Load(f.ctx, f.name, itembank.Items(test.items...), chunkDone)
		if err != nil || report.Tally != test.want || !slices.Equal(lookups, test.lookups) {
			f.Errorf("%s: want %+v, looked up %v, got %+v, %v, %v", test.name, test.want, test.lookups, report.Tally, lookups, err)
		}
		for _, call := range counted.Calls() {
			if call == "AddItems" {
				adds++
			}
		}
		if test.adds == 0 && adds > 0 || adds < test.adds { // an engine may need several calls for a chunk with known items
			f.Errorf("%s: want %d calls of AddItems, got %d", test.name, test.adds, adds)
		}
	}
}

// ownSoldOutEnds: a Bank that loads forgets that it saw the bank empty.
func ownSoldOutEnds(f *fixture) {
	f.create(itembank.Settings{Shards: 2})
	b := f.bank(itembank.WithClock(itembankfault.NewClock())) // no time passes
	f.refused(b, "ann", itembank.ErrSoldOut)
	_, err := b.Load(f.ctx, f.name, itembank.Items("late"), nil)
	f.Must(err)
	f.claim(b, "ann")
}

// TestLoadCountsSeldom: a load writes few counts. After an interruption it processes few rows again, however often
// that happens, and its tally stays exact. An engine that needs several calls to settle a chunk cannot be interrupted
// after a given number of chunks.
func TestLoadCountsSeldom(t *testing.T) {
	t.Parallel()
	f := inMemory(t)
	f.create(itembank.Settings{})
	items := make([]string, 2600)
	distinct := map[string]bool{}
	for i := range items {
		items[i] = fmt.Sprintf("code-%d", i)
		if i%10 == 0 {
			items[i] = fmt.Sprintf("code-%d", i/3) // new or repeated
		}
		distinct[items[i]] = true
	}
	want := itembank.Tally{Rows: 2600, Added: int64(len(distinct)), Repeated: int64(2600 - len(distinct))}
	var resumed int64
	counts := 0
	for _, chunks := range []int64{0, 1, 2, 9, 16, 5, 19, 60} { // completed before the interruption
		left := chunks + 1 // progress is reported at the start and after each chunk
		counting := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
			switch method {
			case "ItemRows", "AddItems":
				if left == 0 {
					return errCut
				}
			case "UpdateLoad":
				counts++
			}
			return nil
		}}
		report, err := itembank.NewOperator(counting).Load(f.ctx, f.name, itembank.Items(items...), func(int64, int64) { left-- })
		if report.Resumed != resumed {
			f.Errorf("want it resumed after %d rows, got %d", resumed, report.Resumed)
		}
		if left > 0 { // the last run completes the load
			if err != nil || report.Tally != want {
				f.Errorf("want %+v, got %+v, %v", want, report.Tally, err)
			}
			continue
		}
		done := resumed + chunks*engine.MaxAddItems
		if again := done - report.Rows; !errors.Is(err, errCut) || again < 0 || again > 0 && again >= min(report.Rows, 1000) {
			f.Errorf("of %d rows %d would be done again: %v", done, again, err)
		}
		resumed = report.Rows
	}
	if counts > 12 {
		f.Errorf("counts were written %d times", counts)
	}
}
