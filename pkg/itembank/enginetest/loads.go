package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var loadCases = []testCase{
	{"item-row", itemRow},
	{"item-rows", itemRows},
	{"add-items", addItems},
	{"add-items-finds-orphans", addItemsFindsOrphans},
	{"load-rows", loadRows},
	{"first-load-needs-the-campaign", firstLoadNeedsCampaign},
	{"first-load-against-a-change", firstLoadAgainstChange},
	{"load-rows-move-forward-only", loadRowsMoveForwardOnly},
	{"load-that-is-given-up", loadGivenUp},
}

func itemRow(f *fixture) {
	c := f.create(f.campaign(16))
	free := enginerows.FreeItem(c, "a")
	free.EndsAt = end
	f.Add([]engine.AddRequest{{Item: free, LoadID: "l1", Row: 7}}, engine.AddDone)
	want := engine.ItemRow{LoadID: "l1", Row: 7, EndsAt: end}
	if got := f.ItemRow(c, "a"); got == nil || *got != want {
		f.Errorf("want %+v, got %+v", want, got)
	}
	f.Take(c, "ann", "a")
	if got := f.ItemRow(c, "a"); got == nil || *got != want {
		f.Errorf("a claim changed the item's row: %+v", got)
	}
	other := c
	other.Name += "-other"
	for _, absent := range []*engine.ItemRow{f.ItemRow(c, "b"), f.ItemRow(other, "a")} {
		if absent != nil {
			f.Errorf("an item that was never loaded has the row %+v", absent)
		}
	}
}

// itemRows: the rows come in the order of the hashes, with nil for an absent row, also for the longest list.
func itemRows(f *fixture) {
	c, items := f.stocked(engine.MaxItemRows, 16)
	other := f.campaign(16)
	other.Name += "-other"
	f.load(f.create(other), "elsewhere")
	f.Close(enginerows.BurnOf(c, f.Take(c, "ann", items[3])))
	slices.Reverse(items)
	items[7], items[9] = "elsewhere", "nowhere"
	hashes := make([]engine.Hash, len(items))
	for i, item := range items {
		hashes[i] = engine.HashItem(item)
	}
	for _, n := range []int{len(hashes), 1} {
		rows, err := f.Store.ItemRows(f.Context(), c.Name, hashes[:n], engine.Strong)
		f.Must(err)
		if len(rows) != n {
			f.Fatalf("want %d rows, got %d", n, len(rows))
		}
		for i, got := range rows {
			want := f.ItemRow(c, items[i])
			if (got == nil) != (want == nil) || want != nil && *got != *want {
				f.Errorf("%s: want %+v, got %+v", items[i], want, got)
			}
		}
	}
}

func addItems(f *fixture) {
	c := f.create(f.campaign(16))
	add := func(item, load string, row int64) engine.AddRequest {
		free := enginerows.FreeItem(c, item)
		free.EndsAt = end
		return engine.AddRequest{Item: free, LoadID: load, Row: row}
	}
	f.Add([]engine.AddRequest{add("a", "l1", 1), add("b", "l1", 2)}, engine.AddDone, engine.AddDone)
	f.Add([]engine.AddRequest{add("c", "l2", 1), add("b", "l2", 2), add("d", "l2", 3)},
		engine.AddDone, engine.AddKnown, engine.AddDone)
	added := f.Add([]engine.AddRequest{add("b", "l3", 9)}, engine.AddKnown)
	if want := (engine.ItemRow{LoadID: "l1", Row: 2, EndsAt: end}); added[0].Existing != want {
		f.Errorf("want the row of the first load, %+v, got %+v", want, added[0].Existing)
	}
	f.WantCounts(c, engine.Counts{Loaded: 4, Free: 4})

	full := make([]engine.AddRequest, engine.MaxAddItems)
	want := make([]engine.AddOutcome, len(full))
	for i := range full {
		full[i], want[i] = add(fmt.Sprintf("%d-%s", i, strings.Repeat("x", engine.MaxItem-4)), "l4", int64(i)), engine.AddDone
	}
	f.Add(full, want...)
}

func addItemsFindsOrphans(f *fixture) {
	c := f.create(f.campaign(16))
	f.Must(f.raw.PutBankRow(f.Context(), enginerows.FreeItem(c, "orphan")))
	f.Add([]engine.AddRequest{
		{Item: enginerows.FreeItem(c, "good"), LoadID: "l1", Row: 1},
		{Item: enginerows.FreeItem(c, "orphan"), LoadID: "l1", Row: 2},
	}, engine.AddDone, engine.AddOrphan)
	f.WantCounts(c, engine.Counts{Loaded: 1, Free: 2})
}

func loadRows(f *fixture) {
	none, err := f.Store.LatestLoad(f.Context(), f.name, "digest")
	if none != nil || err != nil {
		f.Fatalf("absent load: want nil and no error, got %+v, %v", none, err)
	}
	f.wantLoads(f.name, false, false)
	for n := 1; n <= 11; n++ { // beyond 9, because texts and numbers sort differently from there
		l := engine.Load{Campaign: f.name, Digest: "digest", Number: n}
		started, _, err := f.Store.StartLoad(f.Context(), l, false)
		f.Must(err)
		again, _, err := f.Store.StartLoad(f.Context(), l, false)
		f.Must(err)
		if !started || again {
			f.Errorf("load %d: want started once, got %t and %t", n, started, again)
		}
		got, err := f.Store.LatestLoad(f.Context(), f.name, "digest")
		f.Must(err)
		if got == nil || *got != l {
			f.Errorf("want %+v, got %+v", l, got)
		}
		f.wantLoads(f.name, true, true)
	}
	_, _, err = f.Store.StartLoad(f.Context(), engine.Load{Campaign: f.name, Digest: "digest2", Number: 40}, false)
	f.Must(err)
	got, err := f.Store.LatestLoad(f.Context(), f.name, "digest")
	f.Must(err)
	if got.Number != 11 {
		f.Errorf("another digest's load was found: %+v", got)
	}
	f.wantLoads(f.name+"-other", false, false)
}

// firstLoadNeedsCampaign: the first load row is put together with the next version of the campaign, or not at all.
func firstLoadNeedsCampaign(f *fixture) {
	l := engine.Load{Campaign: f.name, Digest: "digest", Number: 1}
	start := func(want bool) {
		f.Helper()
		started, conflict, err := f.Store.StartLoad(f.Context(), l, true)
		if started != want || conflict || err != nil {
			f.Errorf("want started %t, got %t, conflict %t, %v", want, started, conflict, err)
		}
	}
	start(false)
	want := f.campaign(16)
	want.Mode = engine.Deleted
	f.create(want)
	start(false)
	f.wantLoads(f.name, false, false)
	deleted := want
	want.Mode, want.Version = engine.ByTimes, 1
	if replaced, err := f.Store.ReplaceCampaign(f.Context(), deleted, want); err != nil || !replaced {
		f.Fatalf("not replaced: %v", err)
	}
	start(true)
	f.wantLoads(f.name, true, true)
	start(false)
	want.Version++
	if got, err := f.Store.Campaign(f.Context(), f.name); err != nil || *got != want {
		f.Errorf("want %+v, got %+v, %v", want, got, err)
	}
	if got, err := f.Store.LatestLoad(f.Context(), f.name, "digest"); err != nil || *got != l {
		f.Errorf("want %+v, got %+v, %v", l, got, err)
	}
}

// firstLoadAgainstChange: of a first load and a change of the same campaign row, at most one is made.
func firstLoadAgainstChange(f *fixture) {
	old := f.create(f.campaign(16))
	deleted := old
	deleted.Mode, deleted.Version = engine.Deleted, 1
	var started, replaced bool
	var startErr, replaceErr error
	enginerows.AtOnce(func() {
		started, _, startErr = f.Store.StartLoad(f.Context(), engine.Load{Campaign: f.name, Digest: "digest", Number: 1}, true)
	}, func() { replaced, replaceErr = f.Store.ReplaceCampaign(f.Context(), old, deleted) })
	if startErr != nil || replaceErr != nil && !errors.Is(replaceErr, engine.ErrTryAgain) { // a conflict is allowed
		f.Fatal(startErr, replaceErr)
	}
	if started && replaced {
		f.Error("a load started in a campaign that was deleted")
	}
	f.wantLoads(f.name, started, started)
}

func (f *fixture) wantLoads(campaign string, want, wantUnfinished bool) {
	f.Helper()
	some, unfinished, err := f.Store.Loads(f.Context(), campaign)
	f.Must(err)
	if some != want || len(unfinished) > 0 != wantUnfinished {
		f.Errorf("campaign %s has loads: want %t, unfinished %t; got %t, %+v", campaign, want, wantUnfinished, some, unfinished)
	}
}

func loadRowsMoveForwardOnly(f *fixture) {
	l := engine.Load{Campaign: f.name, Digest: "digest", Number: 1}
	_, _, err := f.Store.StartLoad(f.Context(), l, false)
	f.Must(err)
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
		if givenUp, err := f.Store.UpdateLoad(f.Context(), step.write); givenUp || err != nil {
			f.Errorf("progress %+v: given up %t, %v", step.write, givenUp, err)
		}
		got, err := f.Store.LatestLoad(f.Context(), f.name, "digest")
		f.Must(err)
		if *got != step.want {
			f.Errorf("after writing %+v: want %+v, got %+v", step.write, step.want, *got)
		}
	}
	l.Number = 2
	if _, err := f.Store.UpdateLoad(f.Context(), l); err == nil {
		f.Error("progress of a load that was never started was accepted")
	}
}

// loadGivenUp: a load that is given up is unfinished until it is finished, too. It makes no progress.
func loadGivenUp(f *fixture) {
	at := func(rows int64) engine.Load {
		return engine.Load{
			Campaign: f.name, Digest: "digest", Number: 1, Tally: engine.Tally{Rows: rows, Added: rows}, StartedAt: end,
		}
	}
	giveUp := func(l engine.Load, finished, want bool) {
		f.Helper()
		l.GivenUp, l.Finished = true, finished
		if over, err := f.Store.UpdateLoad(f.Context(), l); over == want || err != nil {
			f.Errorf("want given up %t, got %t, %v", want, !over, err)
		}
	}
	advance := func(l engine.Load, finished, want bool) {
		f.Helper()
		l.Finished = finished
		if givenUp, err := f.Store.UpdateLoad(f.Context(), l); givenUp != want || err != nil {
			f.Errorf("progress %+v: want given up %t, got %t, %v", l, want, givenUp, err)
		}
	}
	row := func(want engine.Load) {
		f.Helper()
		if got, err := f.Store.LatestLoad(f.Context(), f.name, "digest"); err != nil || got == nil || *got != want {
			f.Errorf("want %+v, got %+v, %v", want, got, err)
		}
		_, unfinished, err := f.Store.Loads(f.Context(), f.name)
		if f.Must(err); !want.Finished && (len(unfinished) != 1 || unfinished[0] != want) {
			f.Errorf("want the unfinished load %+v, got %+v", want, unfinished)
		}
		f.wantLoads(f.name, true, !want.Finished)
	}
	giveUp(at(0), false, false)
	f.wantLoads(f.name, false, false)
	_, _, err := f.Store.StartLoad(f.Context(), at(0), false)
	f.Must(err)
	advance(at(100), false, false)
	giveUp(at(50), false, true) // it does not change the tally
	givenUp := at(100)
	givenUp.GivenUp = true
	row(givenUp)
	giveUp(at(50), false, true)
	for _, finished := range []bool{false, true} {
		for _, rows := range []int64{50, 100, 150} {
			advance(at(rows), finished, true)
		}
	}
	row(givenUp)
	giveUp(at(50), true, true)
	givenUp.Finished = true
	row(givenUp)
	giveUp(at(50), true, false)
	giveUp(at(50), false, false)
	advance(at(150), true, true)
	row(givenUp)

	other := at(0)
	other.Number = 2
	_, _, err = f.Store.StartLoad(f.Context(), other, false)
	f.Must(err)
	advance(other, true, false)
	giveUp(other, false, false)
	other.Finished = true
	if got, err := f.Store.LatestLoad(f.Context(), f.name, "digest"); err != nil || *got != other {
		f.Errorf("a finished load was given up: %+v, %v", got, err)
	}
}
