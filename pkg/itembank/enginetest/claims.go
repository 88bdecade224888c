package enginetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var claimCases = []testCase{
	{"free-items-in-ranges", freeItemsInRanges},
	{"take-moves-the-item", takeMovesTheItem},
	{"take-names-all-failed-conditions", takeNamesAllFailedConditions},
	{"take-of-an-ended-item", takeOfEndedItem},
	{"take-race-for-item", takeRaceForItem},
	{"take-race-for-claimant", takeRaceForClaimant},
	{"claim-is-read-as-it-was-written", claimRoundTrip},
	{"eventually-consistent-read-of-a-claim", eventuallyConsistentRead},
	{"eventually-consistent-reads-of-items", eventuallyConsistentItems},
}

// end is the end of claims and items. The cases compare it with given times, never with a clock.
var end = time.Date(2033, 1, 1, 0, 0, 0, 5e6, time.UTC)

func freeItemsInRanges(f *fixture) {
	c, items := f.stocked(20, 1)
	shard := engine.Shard{Campaign: c.Name}
	hashes := make([]engine.Hash, len(items))
	for i, item := range items {
		hashes[i] = engine.HashItem(item)
	}
	slices.SortFunc(hashes, func(a, b engine.Hash) int { return slices.Compare(a[:], b[:]) })
	between := hashes[9]
	between[engine.HashSize-1]++ // a place without an item
	for _, test := range []struct {
		name  string
		r     engine.Range
		limit int
		want  []engine.Hash
		more  bool
	}{
		{"all", engine.Range{}, 30, hashes, false},
		{"limited", engine.Range{}, 5, hashes[:5], true},
		{"after an item", engine.Range{After: &hashes[14]}, 30, hashes[15:], false},
		{"after a place without an item", engine.Range{After: &between}, 4, hashes[10:14], true},
		{"through an item", engine.Range{Through: &hashes[3]}, 30, hashes[:4], false},
		{"between", engine.Range{After: &hashes[3], Through: &hashes[6]}, 30, hashes[4:7], false},
		{"after the last", engine.Range{After: &hashes[19]}, 30, nil, false},
	} {
		page, err := f.Store.FreeItems(f.Context(), shard, test.r, test.limit, engine.Strong)
		f.Must(err)
		var got []engine.Hash
		for _, item := range page.Items {
			if engine.HashItem(item.Value) != item.Hash || item.Shard != shard {
				f.Errorf("%s: item does not fit its hash or shard: %+v", test.name, item)
			}
			got = append(got, item.Hash)
		}
		if !slices.Equal(got, test.want) || page.More != test.more {
			f.Errorf("%s: want %d items, more %t; got %d, more %t", test.name, len(test.want), test.more, len(got), page.More)
		}
	}
	page, err := f.Store.FreeItems(f.Context(), engine.Shard{Campaign: c.Name, Number: c.Shards}, engine.Range{}, 1, engine.Strong)
	if len(page.Items) != 0 || page.More || err != nil {
		f.Errorf("an empty shard: want nothing, got %+v, %v", page, err)
	}
}

func takeMovesTheItem(f *fixture) {
	c, items := f.stocked(3, 2)
	want := enginerows.NewClaim(c, "ann", items[0])
	result, err := f.Store.Take(f.Context(), []engine.FreeItem{enginerows.FreeItem(c, items[0])}, want)
	f.Must(err)
	if !result.Taken() {
		f.Fatalf("not taken: %+v", result)
	}
	if got := f.Held(c, "ann"); got == nil || *got != want {
		f.Errorf("want claim %+v, got %+v", want, got)
	}
	f.WantCounts(c, engine.Counts{Loaded: 3, Free: 2, Claimed: 1})
}

func takeNamesAllFailedConditions(f *fixture) {
	c, items := f.stocked(3, 2)
	first := f.Take(c, "ann", items[0])
	for _, test := range []struct {
		name, claimant, item string
		held, gone           bool
	}{
		{"claim exists", "ann", items[1], true, false},
		{"item gone", "bob", items[0], false, true},
		{"both", "ann", items[0], true, true},
		{"an item that was never loaded", "bob", "not-loaded", false, true},
	} {
		result, err := f.Store.Take(f.Context(), []engine.FreeItem{enginerows.FreeItem(c, test.item)}, enginerows.NewClaim(c, test.claimant, test.item))
		f.Must(err)
		if result.ItemGone != test.gone || (result.Held != nil) != test.held {
			f.Errorf("%s: want held %t, gone %t; got %+v", test.name, test.held, test.gone, result)
		}
		if result.Held != nil && *result.Held != first {
			f.Errorf("%s: want the old claim %+v, got %+v", test.name, first, *result.Held)
		}
	}
	if got := f.Held(c, "bob"); got != nil {
		f.Errorf("a refused take left a claim: %+v", got)
	}
	f.WantCounts(c, engine.Counts{Loaded: 3, Free: 2, Claimed: 1})
}

func takeOfEndedItem(f *fixture) {
	c := f.create(f.campaign(16))
	for i, test := range []struct {
		name  string
		end   time.Time
		at    time.Time
		taken bool
	}{
		{"without an end", time.Time{}, end, true},
		{"before its end", end, end.Add(-time.Millisecond), true},
		{"at its end", end, end, false},
		{"after its end", end, end.Add(time.Hour), false},
	} {
		free := enginerows.FreeItem(c, test.name)
		free.EndsAt = test.end
		f.Add([]engine.AddRequest{{Item: free, LoadID: "l", Row: int64(i)}}, engine.AddDone)
		claim := enginerows.NewClaim(c, test.name, test.name)
		claim.ClaimedAt = test.at
		result, err := f.Store.Take(f.Context(), []engine.FreeItem{free}, claim)
		f.Must(err)
		if result.Taken() != test.taken || result.ItemGone == test.taken {
			f.Errorf("%s: want taken %t, got %+v", test.name, test.taken, result)
		}
		want := "free"
		if test.taken {
			want = "held by " + test.name
		}
		f.WantWhere(want, c, test.name, test.name)
	}
}

// racers is the number of callers who work on the same row at once.
const racers = 20

// takeRaceForItem: several claimants take one item at once. One gets it.
func takeRaceForItem(f *fixture) {
	c, items := f.stocked(1, 16)
	var taken atomic.Int32
	race(racers, func(n int) {
		result := f.takeSettled(c, fmt.Sprintf("racer-%d", n), items[0])
		if result.Taken() {
			taken.Add(1)
		} else if !result.ItemGone || result.Held != nil {
			f.Errorf("a loser must find the item gone, got %+v", result)
		}
	})
	if taken.Load() != 1 {
		f.Errorf("%d claimants got one item", taken.Load())
	}
	f.WantCounts(c, engine.Counts{Loaded: 1, Claimed: 1})
}

// takeRaceForClaimant: one claimant takes several items at once, and gets one.
func takeRaceForClaimant(f *fixture) {
	c, items := f.stocked(racers, 16)
	var taken atomic.Int32
	race(racers, func(n int) {
		result := f.takeSettled(c, "ann", items[n])
		if result.Taken() {
			taken.Add(1)
		} else if result.ItemGone || result.Held == nil {
			f.Errorf("a loser must find the claim and its item free, got %+v", result)
		}
	})
	if taken.Load() != 1 {
		f.Errorf("one claimant got %d items", taken.Load())
	}
	f.WantCounts(c, engine.Counts{Loaded: racers, Free: racers - 1, Claimed: 1})
}

// race runs a function n times at once.
func race(n int, run func(n int)) {
	all := make([]func(), n)
	for i := range all {
		all[i] = func() { run(i) }
	}
	enginerows.AtOnce(all...)
}

// takeSettled repeats a take while other transactions work on its rows.
func (f *fixture) takeSettled(c engine.Campaign, claimant, item string) engine.TakeResult {
	claim := enginerows.NewClaim(c, claimant, item)
	for {
		result, err := f.Store.Take(f.Context(), []engine.FreeItem{enginerows.FreeItem(c, item)}, claim)
		if err != nil {
			f.Error(err)
			return result
		}
		if !result.ClaimConflict && !result.ItemConflict && !result.ItemThrottled && !result.ClaimThrottled {
			return result
		}
	}
}

func claimRoundTrip(f *fixture) {
	c, _ := f.stocked(1, 16)
	for _, test := range []struct{ claimant, item string }{
		{strings.Repeat("c", engine.MaxClaimant), strings.Repeat("i", engine.MaxItem)},
		{"ann#1 %2F/?&'\"\\", "Zoë — ½ 💶 'quoted' \"item\"; --"},
		{"ANN", "a"}, {"ann", " a "},
		{"é", "composed"}, {"e\u0301", "decomposed"}, // ids compare byte for byte
	} {
		f.load(c, test.item)
		want := enginerows.NewClaim(c, test.claimant, test.item)
		want.EndsAt = end
		result, err := f.Store.Take(f.Context(), []engine.FreeItem{enginerows.FreeItem(c, test.item)}, want)
		f.Must(err)
		if !result.Taken() {
			f.Errorf("claimant %q: not taken: %+v", test.claimant, result)
		}
		if got := f.Held(c, test.claimant); got == nil || *got != want {
			f.Errorf("want %+v, got %+v", want, got)
		}
	}
	if got := f.Held(c, "Ann"); got != nil {
		f.Errorf("a claimant of other case got %+v", got)
	}
}

// patience is how long a case waits on a busy machine for a result that becomes current later.
const patience = 5 * time.Minute

// eventuallyConsistentRead: the result may be a little old, but becomes current.
func eventuallyConsistentRead(f *fixture) {
	c, items := f.stocked(1, 16)
	becomes := func(want *engine.Claim) {
		f.Helper()
		var got *engine.Claim
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			var err error
			got, _, err = f.Store.HeldClaim(f.Context(), enginerows.FirstSlot(c, "ann"), engine.Eventual)
			f.Must(err)
			if got == want || got != nil && want != nil && *got == *want {
				return
			}
		}
		f.Errorf("want %+v in the end, got %+v", want, got)
	}
	becomes(nil)
	claim := f.TakeUntil(c, "ann", items[0], end)
	becomes(&claim)
	f.Close(enginerows.ReturnOf(c, claim))
	becomes(nil)
}

// eventuallyConsistentItems: the cheap reads of items become the same as the consistent ones, also in their limits.
func eventuallyConsistentItems(f *fixture) {
	c, items := f.stocked(5, 1)
	shard := engine.Shard{Campaign: c.Name}
	var hashes []engine.Hash
	for _, item := range append(items, "none") {
		hashes = append(hashes, engine.HashItem(item))
	}
	same := func() bool {
		for _, limit := range []int{2, 5, 30} {
			want, err := f.Store.FreeItems(f.Context(), shard, engine.Range{After: &hashes[0]}, limit, engine.Strong)
			f.Must(err)
			got, err := f.Store.FreeItems(f.Context(), shard, engine.Range{After: &hashes[0]}, limit, engine.Eventual)
			f.Must(err)
			if !reflect.DeepEqual(got, want) {
				return false
			}
		}
		want, err := f.Store.ItemRows(f.Context(), c.Name, hashes, engine.Strong)
		f.Must(err)
		got, err := f.Store.ItemRows(f.Context(), c.Name, hashes, engine.Eventual)
		f.Must(err)
		return reflect.DeepEqual(got, want)
	}
	becomesSame := func() {
		f.Helper()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			if same() {
				return
			}
		}
		f.Errorf("the reads never become the same")
	}
	becomesSame()
	f.TakeUntil(c, "ann", items[3], end)
	becomesSame()
}
