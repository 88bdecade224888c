package itembanktest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// storeCases pin the contract of each store method.
var storeCases = []testCase{
	{"store/campaign-round-trip", campaignRoundTrip},
	{"store/campaign-is-put-if-absent", campaignPutIfAbsent},
	{"store/campaigns-are-listed", campaignsListed},
	{"store/mode-changes-nothing-else", modeChangesNothingElse},
	{"store/free-items-in-ranges", freeItemsInRanges},
	{"store/take-moves-the-item", takeMovesTheItem},
	{"store/take-reports-all-evidence", takeReportsAllEvidence},
	{"store/take-race-for-item", takeRaceForItem},
	{"store/take-race-for-claimant", takeRaceForClaimant},
	{"store/claim-round-trip", claimRoundTrip},
	{"store/add-items", addItems},
	{"store/add-items-finds-strays", addItemsFindsStrays},
	{"store/load-rows", loadRows},
	{"store/load-rows-move-forward-only", loadRowsMoveForward},
	{"store/counts", counts},
}

func campaignRoundTrip(f *fixture) {
	opens := time.Date(2031, 2, 3, 4, 5, 6, 789e6, time.UTC)
	want := engine.Campaign{
		Name: f.name, Mode: engine.ByTimes, OpensAt: opens, ClosesAt: opens.Add(time.Millisecond), Scope: "s" + f.name,
		Shards: 256, PageSize: 1000, ItemLife: 100 * 365 * 24 * time.Hour, ClaimLife: 90*time.Minute + time.Millisecond,
		OnEnd: engine.Return, Generation: 3, CreatedAt: opens.Add(-time.Hour),
	}
	existing, err := f.Store.CreateCampaign(f.ctx, want)
	f.must(err)
	if existing != nil {
		f.Fatalf("a new campaign existed: %+v", existing)
	}
	got, err := f.Store.Campaign(f.ctx, f.name)
	f.must(err)
	if got == nil || *got != want {
		f.Errorf("want %+v, got %+v", want, got)
	}
	none, err := f.Store.Campaign(f.ctx, f.name+"-other")
	if none != nil || err != nil {
		f.Errorf("absent campaign: want nil and no error, got %+v, %v", none, err)
	}
}

func campaignPutIfAbsent(f *fixture) {
	first := f.create(itembank.Settings{PageSize: 7})
	second := first
	second.PageSize = 8
	existing, err := f.Store.CreateCampaign(f.ctx, second)
	f.must(err)
	if existing == nil || *existing != first {
		f.Errorf("want the campaign that was there, %+v, got %+v", first, existing)
	}
	got, err := f.Store.Campaign(f.ctx, f.name)
	f.must(err)
	if *got != first {
		f.Errorf("the campaign was changed to %+v", got)
	}
}

func campaignsListed(f *fixture) {
	a := f.createNamed(f.name+"-a", itembank.Settings{})
	b := f.createNamed(f.name+"-b", itembank.Settings{})
	all, err := f.Store.Campaigns(f.ctx)
	f.must(err)
	if !slices.IsSortedFunc(all, func(x, y engine.Campaign) int { return strings.Compare(x.Name, y.Name) }) {
		f.Error("campaigns are not sorted by name")
	}
	if !slices.Contains(all, a) || !slices.Contains(all, b) {
		f.Errorf("campaigns are missing from the list of %d", len(all))
	}
}

func modeChangesNothingElse(f *fixture) {
	want := f.create(itembank.Settings{ClosesAt: time.Now().Add(time.Hour)})
	found, err := f.Store.SetMode(f.ctx, f.name, engine.ClosedByHand)
	f.must(err)
	got, err := f.Store.Campaign(f.ctx, f.name)
	f.must(err)
	if want.Mode = engine.ClosedByHand; !found || *got != want {
		f.Errorf("want found and %+v, got %t and %+v", want, found, got)
	}
	found, err = f.Store.SetMode(f.ctx, f.name+"-other", engine.OpenByHand)
	if found || err != nil {
		f.Errorf("absent campaign: want not found, got %t, %v", found, err)
	}
	if none, err := f.Store.Campaign(f.ctx, f.name+"-other"); none != nil || err != nil {
		f.Errorf("setting the mode of an absent campaign made %+v (%v)", none, err)
	}
}

func freeItemsInRanges(f *fixture) {
	c, items := f.stocked(20, itembank.Settings{Shards: 1})
	shard := engine.Shard{Campaign: c.Name, Generation: 1}
	hashes := make([]engine.Hash, len(items))
	for i, item := range items {
		hashes[i] = engine.HashItem(item)
	}
	slices.SortFunc(hashes, func(a, b engine.Hash) int { return slices.Compare(a[:], b[:]) })
	between := hashes[9]
	between[engine.HashSize-1]++ // a place where no item is
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
		{"after no item", engine.Range{After: &between}, 4, hashes[10:14], true},
		{"through an item", engine.Range{Through: &hashes[3]}, 30, hashes[:4], false},
		{"between", engine.Range{After: &hashes[3], Through: &hashes[6]}, 30, hashes[4:7], false},
		{"after the last", engine.Range{After: &hashes[19]}, 30, nil, false},
	} {
		page, err := f.Store.FreeItems(f.ctx, shard, test.r, test.limit)
		f.must(err)
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
	page, err := f.Store.FreeItems(f.ctx, engine.Shard{Campaign: c.Name, Generation: 2}, engine.Range{}, 1)
	if len(page.Items) != 0 || page.More || err != nil {
		f.Errorf("an empty shard: want nothing, got %+v, %v", page, err)
	}
}

func takeMovesTheItem(f *fixture) {
	c, items := f.stocked(3, itembank.Settings{Shards: 2})
	want := f.newClaim(c, "ann", items[0])
	found, err := f.Store.Take(f.ctx, f.freeItem(c, items[0]), want)
	f.must(err)
	if !found.Taken() {
		f.Fatalf("not taken: %+v", found)
	}
	if got := f.held(c, "ann"); got == nil || *got != want {
		f.Errorf("want claim %+v, got %+v", want, got)
	}
	f.wantCounts(engine.Counts{Loaded: 3, Free: 2, Claimed: 1})
}

func takeReportsAllEvidence(f *fixture) {
	c, items := f.stocked(3, itembank.Settings{Shards: 2})
	first := f.newClaim(c, "ann", items[0])
	_, err := f.Store.Take(f.ctx, f.freeItem(c, items[0]), first)
	f.must(err)
	for _, test := range []struct {
		name, claimant, item string
		held, gone           bool
	}{
		{"claim exists", "ann", items[1], true, false},
		{"item gone", "bob", items[0], false, true},
		{"both", "ann", items[0], true, true},
		{"an item never loaded", "bob", "unsent-of", false, true},
	} {
		found, err := f.Store.Take(f.ctx, f.freeItem(c, test.item), f.newClaim(c, test.claimant, test.item))
		f.must(err)
		if found.ItemGone != test.gone || (found.Held != nil) != test.held {
			f.Errorf("%s: want held %t, gone %t; got %+v", test.name, test.held, test.gone, found)
		}
		if found.Held != nil && *found.Held != first {
			f.Errorf("%s: want the old claim %+v, got %+v", test.name, first, *found.Held)
		}
	}
	if got := f.held(c, "bob"); got != nil {
		f.Errorf("a refused take left a claim: %+v", got)
	}
	f.wantCounts(engine.Counts{Loaded: 3, Free: 2, Claimed: 1})
}

// takeRaceForItem lets claimants who share nothing ask for one item at once.
func takeRaceForItem(f *fixture) {
	c, items := f.stocked(1, itembank.Settings{})
	racers := 4 + 4*scale
	var taken atomic.Int32
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			found := f.takeSettled(c, fmt.Sprintf("racer-%d", i), items[0])
			if found.Taken() {
				taken.Add(1)
			} else if !found.ItemGone || found.Held != nil {
				f.Errorf("a loser must find the item gone, got %+v", found)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		f.Errorf("%d claimants got one item", taken.Load())
	}
	f.wantCounts(engine.Counts{Loaded: 1, Claimed: 1})
}

// takeRaceForClaimant lets one claimant ask for different items at once.
func takeRaceForClaimant(f *fixture) {
	racers := 4 + 4*scale
	c, items := f.stocked(racers, itembank.Settings{})
	var taken atomic.Int32
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			found := f.takeSettled(c, "ann", items[i])
			if found.Taken() {
				taken.Add(1)
			} else if found.ItemGone || found.Held == nil {
				f.Errorf("a loser must find the claim and its item free, got %+v", found)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		f.Errorf("one claimant got %d items", taken.Load())
	}
	f.wantCounts(engine.Counts{Loaded: int64(racers), Free: int64(racers - 1), Claimed: 1})
}

// takeSettled repeats a take that only met other transactions.
func (f *fixture) takeSettled(c engine.Campaign, claimant, item string) engine.TakeResult {
	claim := f.newClaim(c, claimant, item)
	for {
		found, err := f.Store.Take(f.ctx, f.freeItem(c, item), claim)
		if err != nil {
			f.Error(err)
			return found
		}
		if !found.ClaimConflict && !found.ItemConflict && !found.Throttled {
			return found
		}
	}
}

func claimRoundTrip(f *fixture) {
	c, _ := f.stocked(1, itembank.Settings{})
	for _, test := range []struct{ claimant, item string }{
		{strings.Repeat("c", engine.MaxClaimant), strings.Repeat("i", engine.MaxItem)},
		{"ann#1 %2F/?&'\"\\", "Zoë — ½ 💶 'quoted' \"item\"; --"},
		{"ANN", "a"}, {"ann", " a "},
		{"é", "composed"}, {"e\u0301", "decomposed"}, // ids compare byte for byte
	} {
		f.load(test.item)
		want := f.newClaim(c, test.claimant, test.item)
		want.EndsAt = time.Date(2033, 1, 1, 0, 0, 0, 5e6, time.UTC)
		found, err := f.Store.Take(f.ctx, f.freeItem(c, test.item), want)
		f.must(err)
		if !found.Taken() {
			f.Errorf("claimant %q: not taken: %+v", test.claimant, found)
		}
		if got := f.held(c, test.claimant); got == nil || *got != want {
			f.Errorf("want %+v, got %+v", want, got)
		}
	}
	if got := f.held(c, "Ann"); got != nil {
		f.Errorf("a claimant of other case got %+v", got)
	}
}

func addItems(f *fixture) {
	c := f.create(itembank.Settings{})
	ends := time.Date(2033, 1, 1, 0, 0, 0, 5e6, time.UTC)
	addition := func(item, load string, row int64) engine.AddRequest {
		free := f.freeItem(c, item)
		free.EndsAt = ends
		return engine.AddRequest{Item: free, LoadID: load, Row: row}
	}
	f.wantOutcomes([]engine.AddRequest{addition("a", "l1", 1), addition("b", "l1", 2)}, engine.AddDone, engine.AddDone)
	f.wantOutcomes([]engine.AddRequest{addition("c", "l2", 1), addition("b", "l2", 2), addition("d", "l2", 3)},
		engine.AddDone, engine.AddKnown, engine.AddDone)
	added := f.wantOutcomes([]engine.AddRequest{addition("b", "l3", 9)}, engine.AddKnown)
	if want := (engine.ItemRow{LoadID: "l1", Row: 2, Generation: 1, EndsAt: ends}); added[0].Existing != want {
		f.Errorf("want the row of the first load, %+v, got %+v", want, added[0].Existing)
	}
	f.wantCounts(engine.Counts{Loaded: 4, Free: 4})

	full := make([]engine.AddRequest, engine.MaxAddItems)
	want := make([]engine.AddOutcome, len(full))
	for i := range full {
		full[i], want[i] = addition(fmt.Sprintf("%d-%s", i, strings.Repeat("x", engine.MaxItem-4)), "l4", int64(i)), engine.AddDone
	}
	f.wantOutcomes(full, want...)
}

// wantOutcomes sends additions until they are settled.
func (f *fixture) wantOutcomes(additions []engine.AddRequest, want ...engine.AddOutcome) []engine.AddResult {
	f.Helper()
	answers := make([]engine.AddResult, len(additions))
	open := additions
	index := map[engine.Hash]int{}
	for i, a := range additions {
		index[a.Item.Hash] = i
	}
	for rounds := 0; len(open) > 0; rounds++ {
		if rounds > len(additions)+1 {
			f.Fatalf("%d additions stay unsettled", len(open))
		}
		added, err := f.Store.AddItems(f.ctx, open)
		f.must(err)
		var rest []engine.AddRequest
		for i, a := range added {
			if a.Outcome == engine.AddUnsettled {
				rest = append(rest, open[i])
			}
			answers[index[open[i].Item.Hash]] = a
		}
		open = rest
	}
	for i, a := range answers {
		if a.Outcome != want[i] {
			f.Errorf("addition %d: want outcome %d, got %d", i, want[i], a.Outcome)
		}
	}
	return answers
}

func addItemsFindsStrays(f *fixture) {
	c := f.create(itembank.Settings{})
	f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(c, "stray")))
	f.wantOutcomes([]engine.AddRequest{
		{Item: f.freeItem(c, "good"), LoadID: "l1", Row: 1},
		{Item: f.freeItem(c, "stray"), LoadID: "l1", Row: 2},
	}, engine.AddDone, engine.AddOrphan)
	f.wantCounts(engine.Counts{Loaded: 1, Free: 2})
}

func loadRows(f *fixture) {
	none, err := f.Store.LatestLoad(f.ctx, f.name, "digest")
	if none != nil || err != nil {
		f.Fatalf("absent load: want nil and no error, got %+v, %v", none, err)
	}
	f.wantLoaded(f.name, false)
	for n := 1; n <= 11; n++ { // past 9, where texts and numbers order differently
		l := engine.Load{Campaign: f.name, Digest: "digest", Number: n, Generation: 2}
		started, err := f.Store.StartLoad(f.ctx, l)
		f.must(err)
		again, err := f.Store.StartLoad(f.ctx, l)
		f.must(err)
		if !started || again {
			f.Errorf("load %d: want started once, got %t and %t", n, started, again)
		}
		got, err := f.Store.LatestLoad(f.ctx, f.name, "digest")
		f.must(err)
		if got == nil || *got != l {
			f.Errorf("want %+v, got %+v", l, got)
		}
	}
	_, err = f.Store.StartLoad(f.ctx, engine.Load{Campaign: f.name, Digest: "digest2", Number: 40, Generation: 1})
	f.must(err)
	got, err := f.Store.LatestLoad(f.ctx, f.name, "digest")
	f.must(err)
	if got.Number != 11 {
		f.Errorf("another digest's load was found: %+v", got)
	}
	f.wantLoaded(f.name, true)
	f.wantLoaded(f.name+"-other", false)
}

// wantLoaded checks whether a campaign has a load.
func (f *fixture) wantLoaded(campaign string, want bool) {
	f.Helper()
	if got, err := f.Store.Loaded(f.ctx, campaign); got != want || err != nil {
		f.Errorf("%s is loaded: want %t, got %t, %v", campaign, want, got, err)
	}
}

func loadRowsMoveForward(f *fixture) {
	l := engine.Load{Campaign: f.name, Digest: "digest", Number: 1, Generation: 1}
	_, err := f.Store.StartLoad(f.ctx, l)
	f.must(err)
	at := func(rows int64, finished bool) engine.Load {
		next := l
		next.Tally = engine.Tally{Rows: rows, Added: rows - 2, Known: 1, Repeated: 1}
		next.Finished = finished
		return next
	}
	for _, step := range []struct{ write, want engine.Load }{
		{at(100, false), at(100, false)},
		{at(50, false), at(100, false)},
		{at(150, false), at(150, false)},
		{at(150, true), at(150, true)},
		{at(150, false), at(150, true)},
		{at(100, false), at(150, true)},
		{at(150, true), at(150, true)},
	} {
		f.must(f.Store.AdvanceLoad(f.ctx, step.write))
		got, err := f.Store.LatestLoad(f.ctx, f.name, "digest")
		f.must(err)
		if *got != step.want {
			f.Errorf("after writing %+v: want %+v, got %+v", step.write, step.want, *got)
		}
	}
	l.Number = 2
	if err := f.Store.AdvanceLoad(f.ctx, l); err == nil {
		f.Error("progress of a load that was never started was accepted")
	}
}

func counts(f *fixture) {
	f.create(itembank.Settings{Shards: 3, Scope: f.name})
	f.wantCounts(engine.Counts{})
	items := codes("code", 10*scale)
	f.load(items...)
	other := f.createNamed(f.name+"-other", itembank.Settings{Scope: f.name})
	_, err := f.bank().Load(f.ctx, other.Name, itembank.Items("x", "y"), nil)
	f.must(err)
	_, err = f.bank().Claim(f.ctx, other.Name, "zoe")
	f.must(err)
	for i := range 3 {
		f.claim(f.bank(), fmt.Sprintf("claimant-%d", i))
	}
	n := int64(len(items))
	f.wantCounts(engine.Counts{Loaded: n, Free: n - 3, Claimed: 3})
}
