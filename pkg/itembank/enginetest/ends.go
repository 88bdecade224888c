package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var endCases = []testCase{
	{"read-items", readItems},
	{"close-claim", closeClaim},
	{"close-claim-conditions", closeClaimConditions},
	{"close-claim-of-a-marked-item", closeClaimOfMarkedItem},
	{"close-claim-names-all-failed-conditions", closeClaimNamesAllFailedConditions},
	{"close-claim-with-a-context-that-ends", closeClaimWithContextThatEnds},
	{"close-race", closeRace},
	{"close-against-take", closeAgainstTake},
	{"close-against-load", closeAgainstLoad},
	{"close-against-end", closeAgainstEnd},
	{"end-items", endItems},
	{"end-items-together", endItemsTogether},
	{"end-items-against-take", endItemsAgainstTake},
	{"mark-withdrawn", markWithdrawn},
	{"close-claim-of-a-withdrawn-item", closeClaimOfWithdrawnItem},
	{"mark-against-close", markAgainstClose},
	{"mark-against-take", markAgainstTake},
}

// closeSettled repeats a close while other transactions work on its rows.
func (f *fixture) closeSettled(request engine.CloseRequest) engine.CloseResult {
	for {
		result, err := f.Store.CloseClaim(f.Context(), request)
		if err != nil {
			f.Error(err)
			return result
		}
		if !result.Conflict && !result.Throttled {
			return result
		}
	}
}

// readItems: ReadItems returns both rows of each item in the order of the keys, also of items that are not free or were
// never loaded.
func readItems(f *fixture) {
	c, items := f.stocked(engine.MaxAddItems-1, 3)
	f.Take(c, "ann", items[1])
	f.putState(c, items[2], engine.Expired)
	ends := enginerows.FreeItem(c, items[3])
	ends.EndsAt = end
	f.Must(f.raw.PutBankRow(f.Context(), ends))
	f.dropItemRow(c, items[4])
	var keys []engine.FreeItem
	for _, item := range append(slices.Clone(items), "unknown") {
		key := enginerows.FreeItem(c, item)
		key.Value = "" // the key is shard and hash
		keys = append(keys, key)
	}
	reads, err := f.Store.ReadItems(f.Context(), keys)
	f.Must(err)
	if len(reads) != len(keys) {
		f.Fatalf("want %d results, got %d", len(keys), len(reads))
	}
	for i, read := range reads {
		var row *engine.ItemRow
		if i < len(items) {
			row = f.ItemRow(c, items[i])
		}
		free := f.BankRow(keys[i])
		if read.Conflict || !equal(read.Row, row) || !equal(read.Free, free) {
			f.Errorf("item %d: want %+v and %+v, got %+v", i, row, free, read)
		}
	}
	if reads[1].Free != nil || reads[2].Row.State != engine.Expired || reads[3].Free.EndsAt != end || reads[4].Row != nil || reads[len(items)].Row != nil {
		f.Errorf("want one held, one ended, one with an end, one without its item row, and none: %+v", reads)
	}
}

// equal compares two rows, which may be absent.
func equal[R comparable](a, b *R) bool { return a == b || a != nil && b != nil && *a == *b }

func closeClaim(f *fixture) {
	c, items := f.stocked(3, 16)
	for i, test := range []struct {
		name    string
		request engine.CloseRequest
		where   string
		again   engine.CloseResult
	}{
		{"return", enginerows.ReturnOf(c, f.Take(c, "ann", items[0])), "free", engine.CloseResult{ClaimChanged: true, ItemFree: true}},
		{"burn", enginerows.BurnOf(c, f.Take(c, "bob", items[1])), "burned", engine.CloseResult{ClaimChanged: true, ItemChanged: true}},
	} {
		row := *f.ItemRow(c, items[i])
		f.Close(test.request)
		f.WantWhere(test.where, c, items[i], test.request.Claim.Claimant)
		row.State = test.request.State
		if test.request.Return != nil {
			row.Returns++
		}
		if got := f.ItemRow(c, items[i]); *got != row {
			f.Errorf("%s: want the row %+v, got %+v", test.name, row, got)
		}
		if again, err := f.Store.CloseClaim(f.Context(), test.request); err != nil || again != test.again {
			f.Errorf("%s again: want %+v, got %+v, %v", test.name, test.again, again, err)
		}
	}
	back := enginerows.ReturnOf(c, f.TakeUntil(c, "ann", items[2], end))
	back.Return.EndsAt, back.IfHold = end, true
	f.Close(back)
	if got := f.BankRow(*back.Return); got == nil || *got != *back.Return {
		f.Errorf("want %+v in the bank, got %+v", *back.Return, got)
	}
	f.WantCounts(c, engine.Counts{Loaded: 3, Free: 2, Ended: 1})
}

// obstacle is a state of the rows that prevents that a claim is closed.
type obstacle struct {
	name string
	put  func(*fixture, engine.Campaign, *engine.CloseRequest)
	want engine.CloseResult
}

var obstacles = []obstacle{
	{"another id", func(_ *fixture, _ engine.Campaign, r *engine.CloseRequest) { r.Claim.ID += "x" }, engine.CloseResult{ClaimChanged: true}},
	{"no claim", func(f *fixture, _ engine.Campaign, r *engine.CloseRequest) {
		f.Must(f.raw.DropClaim(f.Context(), r.Claim.Key()))
	}, engine.CloseResult{ClaimChanged: true}},
	{"ends at the bound", func(_ *fixture, _ engine.Campaign, r *engine.CloseRequest) {
		r.EndedBy = r.Claim.EndsAt
	}, engine.CloseResult{ClaimChanged: true}},
	{"ends after the bound", func(_ *fixture, _ engine.Campaign, r *engine.CloseRequest) {
		r.EndedBy = r.Claim.EndsAt.Add(-time.Hour)
	}, engine.CloseResult{ClaimChanged: true}},
	{"never ends", func(f *fixture, _ engine.Campaign, r *engine.CloseRequest) {
		r.Claim.EndsAt, r.EndedBy = time.Time{}, end
		f.Must(f.raw.PutClaim(f.Context(), r.Claim))
	}, engine.CloseResult{ClaimChanged: true}},
	{"confirmed", func(f *fixture, _ engine.Campaign, r *engine.CloseRequest) {
		r.EndedBy, r.IfHold = time.Time{}, true
		f.confirmed(r.Claim)
	}, engine.CloseResult{ClaimChanged: true}},
	{"confirmed, and the end matters", func(f *fixture, _ engine.Campaign, r *engine.CloseRequest) {
		r.EndedBy = end.Add(time.Millisecond)
		f.confirmed(r.Claim)
	}, engine.CloseResult{ClaimChanged: true}},
	{"no item row", func(f *fixture, c engine.Campaign, r *engine.CloseRequest) {
		f.dropItemRow(c, r.Claim.Item)
	}, engine.CloseResult{ItemChanged: true}},
	{"item ended", func(f *fixture, c engine.Campaign, r *engine.CloseRequest) {
		f.putState(c, r.Claim.Item, engine.Withdrawn)
	}, engine.CloseResult{ItemChanged: true}},
	{"item withdrawn", func(f *fixture, c engine.Campaign, r *engine.CloseRequest) {
		f.mustMark(c, r.Claim.Item)
	}, engine.CloseResult{ItemChanged: true}},
	{"item not withdrawn", func(_ *fixture, _ engine.Campaign, r *engine.CloseRequest) {
		r.Row.Withdraw = true
	}, engine.CloseResult{ItemChanged: true}},
	{"item free", func(f *fixture, _ engine.Campaign, r *engine.CloseRequest) {
		f.Must(f.raw.PutBankRow(f.Context(), *r.Return))
	}, engine.CloseResult{ItemFree: true}},
}

// closeClaimConditions: each condition that fails prevents that the claim is closed, whether its item would return or
// end. All rows then stay as they were.
func closeClaimConditions(f *fixture) {
	c := f.create(f.campaign(16))
	for _, o := range obstacles {
		for _, burn := range []bool{false, true} {
			item := fmt.Sprintf("%s, burn %t", o.name, burn)
			f.load(c, item)
			request := enginerows.ReturnOf(c, f.TakeUntil(c, item, item, end))
			request.EndedBy = end.Add(time.Millisecond)
			o.put(f, c, &request)
			want := o.want
			if burn { // an item can end whether it is in the bank or not
				request.Return, request.State = nil, engine.Burned
				want.ItemFree = false
			}
			before := f.Where(c, item, item)
			result, err := f.Store.CloseClaim(f.Context(), request)
			f.Must(err)
			if result != want {
				f.Errorf("%s: want %+v, got %+v", item, want, result)
			}
			if !want.Closed() {
				f.WantWhere(before, c, item, item)
			}
		}
	}
}

// closeClaimOfMarkedItem: if the item has ended already, only the claim row is deleted, and only if the item row has
// the state of the request.
func closeClaimOfMarkedItem(f *fixture) {
	c, items := f.stocked(1, 16)
	request := enginerows.BurnOf(c, f.Take(c, "ann", items[0]))
	request.Row.State = engine.Burned
	for _, test := range []struct {
		row  engine.ItemState
		want engine.CloseResult
	}{
		{"", engine.CloseResult{ItemChanged: true}},
		{engine.Withdrawn, engine.CloseResult{ItemChanged: true}},
		{engine.Burned, engine.CloseResult{}},
	} {
		f.putState(c, items[0], test.row)
		row := *f.ItemRow(c, items[0])
		if result, err := f.Store.CloseClaim(f.Context(), request); err != nil || result != test.want {
			f.Errorf("marked as %q: want %+v, got %+v, %v", test.row, test.want, result, err)
		}
		if got := f.ItemRow(c, items[0]); *got != row {
			f.Errorf("marked as %q: want the row %+v, got %+v", test.row, row, got)
		}
	}
	f.WantWhere("burned", c, items[0], "ann")
}

func closeClaimNamesAllFailedConditions(f *fixture) {
	c := f.create(f.campaign(16))
	for i, one := range obstacles {
		for _, other := range obstacles[i+1:] {
			if one.want == other.want {
				continue
			}
			item := one.name + ", " + other.name
			f.load(c, item)
			request := enginerows.ReturnOf(c, f.TakeUntil(c, item, item, end))
			one.put(f, c, &request)
			other.put(f, c, &request)
			before := f.Where(c, item, item)
			want := engine.CloseResult{
				ClaimChanged: one.want.ClaimChanged || other.want.ClaimChanged,
				ItemChanged:  one.want.ItemChanged || other.want.ItemChanged,
				ItemFree:     one.want.ItemFree || other.want.ItemFree,
			}
			if result, err := f.Store.CloseClaim(f.Context(), request); err != nil || result != want {
				f.Errorf("%s: want %+v, got %+v, %v", item, want, result, err)
			}
			f.WantWhere(before, c, item, item)
		}
	}
}

// closeClaimWithContextThatEnds: if the context of a close ends, the close happens completely or not at all, and can be
// repeated.
func closeClaimWithContextThatEnds(f *fixture) {
	c, items := f.stocked(8, 1)
	for i, item := range items {
		request, want := enginerows.ReturnOf(c, f.Take(c, "ann", item)), "free"
		if i%2 > 0 {
			request, want = enginerows.BurnOf(c, request.Claim), "burned"
		}
		ctx, cancel := context.WithTimeout(f.Context(), time.Duration(i)*time.Millisecond/2)
		_, err := f.Store.CloseClaim(ctx, request)
		cancel()
		const held = "held by ann"
		where := f.Where(c, item, "ann")
		for deadline := time.Now().Add(2 * time.Second); where != want && where != held && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
			where = f.Where(c, item, "ann") // the item may have moved between the reads
		}
		if where != want && (where != held || err == nil) {
			f.Fatalf("item %s is %q after a close whose context ended (%v)", item, where, err)
		}
		if result := f.closeSettled(request); !result.Closed() && !result.ClaimChanged {
			f.Errorf("item %s: closed again: %+v", item, result)
		}
		f.WantWhere(want, c, item, "ann")
	}
}

// closeRace: if several callers close one claim at once, one of them succeeds.
func closeRace(f *fixture) {
	c, items := f.stocked(16, 1)
	for i, item := range items {
		request := enginerows.ReturnOf(c, f.Take(c, "ann", item))
		want := "free"
		if i%2 > 0 {
			request, want = enginerows.BurnOf(c, request.Claim), "burned"
		}
		var closed atomic.Int32
		race(4, func(int) {
			if result := f.closeSettled(request); result.Closed() {
				closed.Add(1)
			} else if !result.ClaimChanged {
				f.Errorf("a loser must find the claim changed, got %+v", result)
			}
		})
		if closed.Load() != 1 {
			f.Errorf("a claim was closed %d times", closed.Load())
		}
		f.WantWhere(want, c, item, "ann")
	}
}

// mustClose closes a claim while other transactions may work on its rows.
func (f *fixture) mustClose(request engine.CloseRequest) {
	if result := f.closeSettled(request); !result.Closed() {
		f.Errorf("not closed: %+v", result)
	}
}

// closeAgainstTake: the next claimant gets the item after the release, or not at all.
func closeAgainstTake(f *fixture) {
	c, items := f.stocked(20, 1)
	for i, item := range items {
		request := enginerows.ReturnOf(c, f.Take(c, "ann", item))
		next := fmt.Sprintf("next-%d", i)
		var result engine.TakeResult
		enginerows.AtOnce(
			func() { f.mustClose(request) },
			func() { result = f.takeSettled(c, next, item) },
		)
		want := "free"
		if result.Taken() {
			want = "held by " + next
		}
		f.WantWhere(want, c, item, "ann", next)
	}
}

// closeAgainstLoad: an item that is loaded again while it returns is in the bank once.
func closeAgainstLoad(f *fixture) {
	c, items := f.stocked(20, 1)
	for i, item := range items {
		request := enginerows.ReturnOf(c, f.Take(c, "ann", item))
		want := "free"
		if i%2 > 0 {
			request, want = enginerows.BurnOf(c, request.Claim), "burned"
		}
		again := engine.AddRequest{Item: enginerows.FreeItem(c, item), LoadID: "again", Row: 1}
		enginerows.AtOnce(
			func() { f.mustClose(request) },
			func() { f.Add([]engine.AddRequest{again}, engine.AddKnown) },
		)
		f.WantWhere(want, c, item, "ann")
	}
}

// closeAgainstEnd: an item that is withdrawn while it returns is free or withdrawn.
func closeAgainstEnd(f *fixture) {
	c, items := f.stocked(20, 1)
	for _, item := range items {
		request := enginerows.ReturnOf(c, f.Take(c, "ann", item))
		var result engine.EndResult
		enginerows.AtOnce(
			func() { f.mustClose(request) },
			func() { result = f.End(withdrawOf(c, item))[0] },
		)
		want := map[engine.EndResult]string{engine.EndNotFree: "free", engine.EndDone: "withdrawn"}[result]
		f.WantWhere(want, c, item, "ann")
	}
}

func withdrawOf(c engine.Campaign, item string) engine.EndRequest {
	return engine.EndRequest{Item: enginerows.FreeItem(c, item), State: engine.Withdrawn}
}

// endTest is an item and a request to end it.
type endTest struct {
	item    string
	prepare func(f *fixture, c engine.Campaign, item string)
	endsAt  time.Time
	endedBy time.Time
	want    engine.EndResult
	where   string // where the item is afterwards
}

var endTests = []endTest{
	{"free", asLoaded, time.Time{}, time.Time{}, engine.EndDone, "expired"},
	{"free with an end", asLoaded, end, time.Time{}, engine.EndDone, "expired"},
	{"ended before the bound", asLoaded, end, end.Add(time.Hour), engine.EndDone, "expired"},
	{"ended at the bound", asLoaded, end, end, engine.EndDone, "expired"},
	{"ends after the bound", asLoaded, end, end.Add(-time.Millisecond), engine.EndNotFree, "free"},
	{"never ends", asLoaded, time.Time{}, end, engine.EndNotFree, "free"},
	{"held", func(f *fixture, c engine.Campaign, item string) {
		f.Take(c, item, item)
	}, time.Time{}, time.Time{}, engine.EndNotFree, "held by held"},
	{"burned", func(f *fixture, c engine.Campaign, item string) {
		f.Close(enginerows.BurnOf(c, f.Take(c, item, item)))
	}, time.Time{}, time.Time{}, engine.EndNotFree, "burned"},
	{"row gone", (*fixture).dropItemRow, time.Time{}, time.Time{}, engine.EndInconsistent, "free, not loaded"},
	{"row has a state", func(f *fixture, c engine.Campaign, item string) {
		f.putState(c, item, engine.Burned)
	}, time.Time{}, time.Time{}, engine.EndInconsistent, "free, burned"},
	{"row gone, not ended", (*fixture).dropItemRow, time.Time{}, end, engine.EndNotFree, "free, not loaded"},
}

func asLoaded(*fixture, engine.Campaign, string) {}

// request loads the item and prepares it.
func (e endTest) request(f *fixture, c engine.Campaign) engine.EndRequest {
	f.Helper()
	free := enginerows.FreeItem(c, e.item)
	free.EndsAt = e.endsAt
	f.Add([]engine.AddRequest{{Item: free, LoadID: "l", Row: 1}}, engine.AddDone)
	e.prepare(f, c, e.item)
	return engine.EndRequest{Item: free, EndedBy: e.endedBy, State: engine.Expired}
}

func endItems(f *fixture) {
	c := f.create(f.campaign(2))
	for _, e := range endTests {
		request := e.request(f, c)
		if got := f.End(request); got[0] != e.want {
			f.Errorf("%s: want %d, got %d", e.item, e.want, got[0])
		}
		f.WantWhere(e.where, c, e.item, e.item)
		if e.want == engine.EndDone {
			if again := f.End(request); again[0] != engine.EndNotFree {
				f.Errorf("%s again: want %d, got %d", e.item, engine.EndNotFree, again[0])
			}
		}
	}
	if got := f.End(withdrawOf(c, "not-loaded")); got[0] != engine.EndNotFree || f.ItemRow(c, "not-loaded") != nil {
		f.Errorf("an item that was never loaded: want %d and no row, got %d and %+v", engine.EndNotFree, got[0], f.ItemRow(c, "not-loaded"))
	}
}

// endItemsTogether: items that cannot end do not prevent the end of other items in the same call.
func endItemsTogether(f *fixture) {
	c := f.create(f.campaign(2))
	var requests []engine.EndRequest
	for _, e := range endTests {
		requests = append(requests, e.request(f, c))
	}
	for i, got := range f.End(requests...) {
		if e := endTests[i]; got != e.want {
			f.Errorf("%s: want %d, got %d", e.item, e.want, got)
		} else {
			f.WantWhere(e.where, c, e.item, e.item)
		}
	}
	full := enginerows.Texts("code", engine.MaxAddItems)
	f.load(c, full...)
	requests = requests[:0]
	for _, item := range full {
		requests = append(requests, withdrawOf(c, item))
	}
	for i, got := range f.End(requests...) {
		if got != engine.EndDone {
			f.Errorf("item %d of %d: want %d, got %d", i, len(full), engine.EndDone, got)
		}
	}
}

// endItemsAgainstTake: an item is either taken or ended, never both.
func endItemsAgainstTake(f *fixture) {
	c, items := f.stocked(20, 1)
	for i, item := range items {
		claimant := fmt.Sprintf("claimant-%d", i)
		var taken engine.TakeResult
		var ended engine.EndResult
		enginerows.AtOnce(
			func() { taken = f.takeSettled(c, claimant, item) },
			func() { ended = f.End(withdrawOf(c, item))[0] },
		)
		want := "withdrawn"
		if taken.Taken() {
			want = "held by " + claimant
		}
		if taken.Taken() == (ended == engine.EndDone) {
			f.Errorf("item %s: taken %t, and its end is %d", item, taken.Taken(), ended)
		}
		f.WantWhere(want, c, item, claimant)
	}
}

// mustMark marks an item that a claim holds.
func (f *fixture) mustMark(c engine.Campaign, item string) {
	f.Helper()
	if !f.markSettled(c, item) {
		f.Errorf("%s is not marked", item)
	}
}

// markSettled repeats a mark until no other transaction prevents it.
func (f *fixture) markSettled(c engine.Campaign, item string) (done bool) {
	for try := 0; try < 20 && !done; try++ {
		var err error
		if done, err = f.Store.MarkWithdrawn(f.Context(), enginerows.FreeItem(c, item)); err != nil {
			f.Error(err)
			return false
		}
	}
	return done
}

// markWithdrawn: only an item that is neither free nor ended is marked. Nothing else in its row changes. A second mark
// changes nothing.
func markWithdrawn(f *fixture) {
	c, items := f.stocked(3, 2)
	f.Take(c, "ann", items[0])
	f.Close(enginerows.BurnOf(c, f.Take(c, "bob", items[1])))
	for _, test := range []struct {
		item  string
		want  bool
		where string
	}{
		{items[0], true, "held by ann"},
		{items[0], true, "held by ann"},
		{items[1], false, "burned"},
		{items[2], false, "free"},
		{"never loaded", false, "not loaded"},
	} {
		var want *engine.ItemRow
		if want = f.ItemRow(c, test.item); want != nil {
			want.Withdraw = test.want
		}
		done, err := f.Store.MarkWithdrawn(f.Context(), enginerows.FreeItem(c, test.item))
		if done != test.want || err != nil {
			f.Errorf("%s: want done %t, got %t, %v", test.where, test.want, done, err)
		}
		if got := f.ItemRow(c, test.item); (got == nil) != (want == nil) || got != nil && *got != *want {
			f.Errorf("%s: want the row %+v, got %+v", test.where, want, got)
		}
		f.WantWhere(test.where, c, test.item, "ann", "bob")
	}
	listed, _ := enginerows.List(f.Rows, c.Name, f.Store.ListItemRows)
	for _, row := range listed {
		if row.Withdraw != (row.Hash == engine.HashItem(items[0])) {
			f.Errorf("the list has %+v", row)
		}
	}
}

// closeClaimOfWithdrawnItem: an item whose row is marked ends with its claim.
func closeClaimOfWithdrawnItem(f *fixture) {
	c, items := f.stocked(1, 2)
	claim := f.Take(c, "ann", items[0])
	f.mustMark(c, items[0])
	f.Close(engine.CloseRequest{Claim: claim, Row: *f.ItemRow(c, items[0]), State: engine.Withdrawn})
	f.WantWhere("withdrawn", c, items[0], "ann")
}

// markAgainstClose: if an item is marked while it returns, it is either free and not marked, or held and marked.
func markAgainstClose(f *fixture) {
	c, items := f.stocked(20, 1)
	for i, item := range items {
		claimant := fmt.Sprintf("claimant-%d", i)
		request := enginerows.ReturnOf(c, f.Take(c, claimant, item))
		var closed engine.CloseResult
		var marked bool
		enginerows.AtOnce(
			func() { closed = f.closeSettled(request) },
			func() { marked = f.markSettled(c, item) },
		)
		want := "free"
		if marked {
			want = "held by " + claimant
		}
		f.WantWhere(want, c, item, claimant)
		if row := f.ItemRow(c, item); row.Withdraw != marked || closed.Closed() == marked {
			f.Errorf("marked %t, closed %t, and the row is %+v", marked, closed.Closed(), *row)
		}
	}
}

// markAgainstTake: if an item is marked while it is taken, it is held.
func markAgainstTake(f *fixture) {
	c, items := f.stocked(20, 1)
	for i, item := range items {
		claimant := fmt.Sprintf("claimant-%d", i)
		var taken engine.TakeResult
		var marked bool
		enginerows.AtOnce(
			func() { taken = f.takeSettled(c, claimant, item) },
			func() { marked = f.markSettled(c, item) },
		)
		if row := f.ItemRow(c, item); !taken.Taken() || row.Withdraw != marked {
			f.Errorf("marked %t, taken %t, and the row is %+v", marked, taken.Taken(), *row)
		}
		f.WantWhere("held by "+claimant, c, item, claimant)
	}
}
