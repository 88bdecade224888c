package itembanktest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// endStoreCases pin the contract of the methods that end claims and items.
var endStoreCases = []testCase{
	{"store/item-row", itemRowRead},
	{"store/peek-claim", peekClaim},
	{"store/take-of-an-ended-item", takeOfEndedItem},
	{"store/close-claim", closeClaim},
	{"store/close-claim-conditions", closeClaimConditions},
	{"store/close-claim-of-a-marked-item", closeClaimMarked},
	{"store/close-claim-reports-all-evidence", closeClaimReportsAll},
	{"store/close-claim-cut-by-its-context", closeClaimCut},
	{"store/close-race", closeRace},
	{"store/close-against-take", closeAgainstTake},
	{"store/close-against-load", closeAgainstLoad},
	{"store/close-against-end", closeAgainstEnd},
	{"store/end-items", endItems},
	{"store/end-items-together", endItemsTogether},
	{"store/end-items-against-take", endAgainstTake},
}

// anEnd is an end of claims and items in store cases, which ask no clock.
var anEnd = time.Date(2033, 1, 1, 0, 0, 0, 5e6, time.UTC)

func itemRowRead(f *fixture) {
	c := f.create(itembank.Settings{})
	free := f.freeItem(c, "a")
	free.EndsAt = anEnd
	f.wantOutcomes([]engine.AddRequest{{Item: free, LoadID: "l1", Row: 7}}, engine.AddDone)
	want := engine.ItemRow{LoadID: "l1", Row: 7, Generation: 1, EndsAt: anEnd}
	if got := f.itemRow(c, "a"); got == nil || *got != want {
		f.Errorf("want %+v, got %+v", want, got)
	}
	f.take(c, "ann", "a")
	if got := f.itemRow(c, "a"); got == nil || *got != want {
		f.Errorf("a claim changed the item's row: %+v", got)
	}
	other := c
	other.Name += "-other"
	for _, absent := range []*engine.ItemRow{f.itemRow(c, "b"), f.itemRow(other, "a")} {
		if absent != nil {
			f.Errorf("an item that was never loaded has the row %+v", absent)
		}
	}
}

// peekClaim: the answer may be a little old, and not for ever.
func peekClaim(f *fixture) {
	c, items := f.stocked(1, itembank.Settings{})
	peeked := func(want *engine.Claim) {
		f.Helper()
		var got *engine.Claim
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
			var err error
			got, err = f.Store.HeldClaimEventuallyConsistent(f.ctx, c.Scope, "ann")
			f.must(err)
			if got == want || got != nil && want != nil && *got == *want {
				return
			}
		}
		f.Errorf("want %+v at last, got %+v", want, got)
	}
	peeked(nil)
	claim := f.takeUntil(c, "ann", items[0], anEnd)
	peeked(&claim)
	f.closed(returning(c, claim))
	peeked(nil)
}

func takeOfEndedItem(f *fixture) {
	c := f.create(itembank.Settings{})
	for i, test := range []struct {
		name  string
		end   time.Time
		at    time.Time
		taken bool
	}{
		{"without an end", time.Time{}, anEnd, true},
		{"before its end", anEnd, anEnd.Add(-time.Millisecond), true},
		{"at its end", anEnd, anEnd, false},
		{"after its end", anEnd, anEnd.Add(time.Hour), false},
	} {
		free := f.freeItem(c, test.name)
		free.EndsAt = test.end
		f.wantOutcomes([]engine.AddRequest{{Item: free, LoadID: "l", Row: int64(i)}}, engine.AddDone)
		claim := f.newClaim(c, test.name, test.name)
		claim.ClaimedAt = test.at
		found, err := f.Store.Take(f.ctx, free, claim)
		f.must(err)
		if found.Taken() != test.taken || found.ItemGone == test.taken {
			f.Errorf("%s: want taken %t, got %+v", test.name, test.taken, found)
		}
		want := "free"
		if test.taken {
			want = "held by " + test.name
		}
		f.wantWhere(want, c, test.name, test.name)
	}
}

// returning is the closing of a claim whose item goes back to the bank.
func returning(c engine.Campaign, claim engine.Claim) engine.CloseRequest {
	shard := engine.Shard{Campaign: c.Name, Generation: c.Generation, Number: claim.ItemHash.ShardOf(c.Shards)}
	return engine.CloseRequest{
		Claim: claim, Generation: c.Generation,
		Return: &engine.FreeItem{Shard: shard, Hash: claim.ItemHash, Value: claim.Item},
	}
}

// burning is the closing of a claim whose item ends.
func burning(c engine.Campaign, claim engine.Claim) engine.CloseRequest {
	return engine.CloseRequest{Claim: claim, Generation: c.Generation, State: engine.Burned}
}

// closed closes a claim, which must succeed.
func (f *fixture) closed(closing engine.CloseRequest) {
	f.Helper()
	if found, err := f.Store.CloseClaim(f.ctx, closing); err != nil || !found.Closed() {
		f.Fatalf("not closed: %+v, %v", found, err)
	}
}

// closeSettled repeats a close that only met other transactions.
func (f *fixture) closeSettled(closing engine.CloseRequest) engine.CloseResult {
	for {
		found, err := f.Store.CloseClaim(f.ctx, closing)
		if err != nil {
			f.Error(err)
			return found
		}
		if !found.Conflict && !found.Throttled {
			return found
		}
	}
}

func closeClaim(f *fixture) {
	c, items := f.stocked(3, itembank.Settings{})
	for i, test := range []struct {
		name    string
		closing engine.CloseRequest
		where   string
		again   engine.CloseResult
	}{
		{"return", returning(c, f.take(c, "ann", items[0])), "free", engine.CloseResult{ClaimChanged: true, ItemFree: true}},
		{"burn", burning(c, f.take(c, "bob", items[1])), "burned", engine.CloseResult{ClaimChanged: true, ItemChanged: true}},
	} {
		row := *f.itemRow(c, items[i])
		f.closed(test.closing)
		f.wantWhere(test.where, c, items[i], test.closing.Claim.Claimant)
		row.State = test.closing.State
		if test.closing.Return != nil {
			row.Returns++
		}
		if got := f.itemRow(c, items[i]); *got != row {
			f.Errorf("%s: want the row %+v, got %+v", test.name, row, got)
		}
		if again, err := f.Store.CloseClaim(f.ctx, test.closing); err != nil || again != test.again {
			f.Errorf("%s again: want %+v, got %+v, %v", test.name, test.again, again, err)
		}
	}
	back := returning(c, f.take(c, "ann", items[2]))
	back.Return.EndsAt = anEnd
	f.closed(back)
	if got := f.bankRow(*back.Return); got == nil || *got != *back.Return {
		f.Errorf("want %+v in the bank, got %+v", *back.Return, got)
	}
	f.wantCounts(engine.Counts{Loaded: 3, Free: 2, Ended: 1})
}

// obstacle keeps a claim from being closed.
type obstacle struct {
	name string
	put  func(*fixture, engine.Campaign, *engine.CloseRequest)
	want engine.CloseResult
}

var obstacles = []obstacle{
	{"another id", func(_ *fixture, _ engine.Campaign, c *engine.CloseRequest) { c.Claim.ID += "x" }, engine.CloseResult{ClaimChanged: true}},
	{"no claim", func(f *fixture, _ engine.Campaign, c *engine.CloseRequest) {
		f.must(f.Raw.DropClaim(f.ctx, c.Claim.Scope, c.Claim.Claimant))
	}, engine.CloseResult{ClaimChanged: true}},
	{"ended at the bound", func(_ *fixture, _ engine.Campaign, c *engine.CloseRequest) { c.EndedBy = c.Claim.EndsAt }, engine.CloseResult{ClaimChanged: true}},
	{"not ended", func(_ *fixture, _ engine.Campaign, c *engine.CloseRequest) {
		c.EndedBy = c.Claim.EndsAt.Add(-time.Hour)
	}, engine.CloseResult{ClaimChanged: true}},
	{"never ends", func(f *fixture, _ engine.Campaign, c *engine.CloseRequest) {
		c.Claim.EndsAt, c.EndedBy = time.Time{}, anEnd
		f.must(f.Raw.PutClaim(f.ctx, c.Claim))
	}, engine.CloseResult{ClaimChanged: true}},
	{"no item row", func(f *fixture, c engine.Campaign, closing *engine.CloseRequest) {
		f.must(f.Raw.DropItemRow(f.ctx, c.Name, closing.Claim.ItemHash))
	}, engine.CloseResult{ItemChanged: true}},
	{"another generation", func(_ *fixture, _ engine.Campaign, c *engine.CloseRequest) { c.Generation++ }, engine.CloseResult{ItemChanged: true}},
	{"item ended", func(f *fixture, c engine.Campaign, closing *engine.CloseRequest) {
		f.putState(c, closing.Claim.Item, engine.Withdrawn)
	}, engine.CloseResult{ItemChanged: true}},
	{"item free", func(f *fixture, _ engine.Campaign, c *engine.CloseRequest) {
		f.must(f.Raw.PutBankRow(f.ctx, *c.Return))
	}, engine.CloseResult{ItemFree: true}},
}

// putState marks an item's row without any condition.
func (f *fixture) putState(c engine.Campaign, item string, state engine.ItemState) {
	f.Helper()
	row := *f.itemRow(c, item)
	row.State = state
	f.must(f.Raw.PutItemRow(f.ctx, c.Name, engine.ListedItem{Hash: engine.HashItem(item), ItemRow: row}))
}

// closeClaimConditions: each condition alone keeps a claim from being closed,
// whether its item would return or end; then everything stays as it was.
func closeClaimConditions(f *fixture) {
	c := f.create(itembank.Settings{})
	for _, o := range obstacles {
		for _, burn := range []bool{false, true} {
			what := fmt.Sprintf("%s, burn %t", o.name, burn)
			f.load(what)
			closing := returning(c, f.takeUntil(c, what, what, anEnd))
			closing.EndedBy = anEnd.Add(time.Millisecond)
			o.put(f, c, &closing)
			want := o.want
			if burn { // to end an item nobody looks into the bank
				closing.Return, closing.State = nil, engine.Burned
				want.ItemFree = false
			}
			before := f.where(c, what, what)
			found, err := f.Store.CloseClaim(f.ctx, closing)
			f.must(err)
			if found != want {
				f.Errorf("%s: want %+v, got %+v", what, want, found)
			}
			if !want.Closed() {
				f.wantWhere(before, c, what, what)
			}
		}
	}
}

// closeClaimMarked: where the item has ended already only the claim goes, and only
// if the item is marked as the closing says.
func closeClaimMarked(f *fixture) {
	c, items := f.stocked(1, itembank.Settings{})
	closing := burning(c, f.take(c, "ann", items[0]))
	closing.Marked = true
	for _, test := range []struct {
		row  engine.ItemState
		want engine.CloseResult
	}{
		{"", engine.CloseResult{ItemChanged: true}},
		{engine.Withdrawn, engine.CloseResult{ItemChanged: true}},
		{engine.Burned, engine.CloseResult{}},
	} {
		f.putState(c, items[0], test.row)
		row := *f.itemRow(c, items[0])
		if found, err := f.Store.CloseClaim(f.ctx, closing); err != nil || found != test.want {
			f.Errorf("marked as %q: want %+v, got %+v, %v", test.row, test.want, found, err)
		}
		if got := f.itemRow(c, items[0]); *got != row {
			f.Errorf("marked as %q: want the row %+v, got %+v", test.row, row, got)
		}
	}
	f.wantWhere("burned", c, items[0], "ann")
}

// closeClaimReportsAll: what stands in the way together is reported together.
func closeClaimReportsAll(f *fixture) {
	c := f.create(itembank.Settings{})
	for i, one := range obstacles {
		for _, other := range obstacles[i+1:] {
			if one.want == other.want {
				continue
			}
			what := one.name + ", " + other.name
			f.load(what)
			closing := returning(c, f.takeUntil(c, what, what, anEnd))
			one.put(f, c, &closing)
			other.put(f, c, &closing)
			before := f.where(c, what, what)
			want := engine.CloseResult{
				ClaimChanged: one.want.ClaimChanged || other.want.ClaimChanged,
				ItemChanged:  one.want.ItemChanged || other.want.ItemChanged,
				ItemFree:     one.want.ItemFree || other.want.ItemFree,
			}
			if found, err := f.Store.CloseClaim(f.ctx, closing); err != nil || found != want {
				f.Errorf("%s: want %+v, got %+v, %v", what, want, found, err)
			}
			f.wantWhere(before, c, what, what)
		}
	}
}

// closeClaimCut: a close whose caller goes away happens whole or not at all, and can
// be repeated.
func closeClaimCut(f *fixture) {
	c, items := f.stocked(8, itembank.Settings{Shards: 1})
	for i, item := range items {
		closing, want := returning(c, f.take(c, "ann", item)), "free"
		if i%2 > 0 {
			closing, want = burning(c, closing.Claim), "burned"
		}
		ctx, cancel := context.WithTimeout(f.ctx, time.Duration(i)*time.Millisecond/2)
		_, err := f.Store.CloseClaim(ctx, closing)
		cancel()
		where := f.where(c, item, "ann")
		for deadline := time.Now().Add(2 * time.Second); where == "" && time.Now().Before(deadline); {
			where = f.where(c, item, "ann") // it may have moved while it was looked for
		}
		if where != want && (where != "held by ann" || err == nil) {
			f.Fatalf("item %s is %q after a close that was cut (%v)", item, where, err)
		}
		if found := f.closeSettled(closing); !found.Closed() && !found.ClaimChanged {
			f.Errorf("item %s: closed again: %+v", item, found)
		}
		f.wantWhere(want, c, item, "ann")
	}
}

// together does things at the same time.
func together(things ...func()) {
	var wg sync.WaitGroup
	for _, do := range things {
		wg.Go(do)
	}
	wg.Wait()
}

func closeRace(f *fixture) {
	c, items := f.stocked(4*scale, itembank.Settings{Shards: 1})
	for i, item := range items {
		closing := returning(c, f.take(c, "ann", item))
		want := "free"
		if i%2 > 0 {
			closing, want = burning(c, closing.Claim), "burned"
		}
		var closed atomic.Int32
		racer := func() {
			if found := f.closeSettled(closing); found.Closed() {
				closed.Add(1)
			} else if !found.ClaimChanged {
				f.Errorf("a loser must find the claim changed, got %+v", found)
			}
		}
		together(racer, racer, racer, racer)
		if closed.Load() != 1 {
			f.Errorf("a claim was closed %d times", closed.Load())
		}
		f.wantWhere(want, c, item, "ann")
	}
}

// closeAgainstTake: the next claimant gets the item after the release or not at all.
func closeAgainstTake(f *fixture) {
	c, items := f.stocked(5*scale, itembank.Settings{Shards: 1})
	for i, item := range items {
		closing := returning(c, f.take(c, "ann", item))
		next := fmt.Sprintf("next-%d", i)
		var found engine.TakeResult
		together(
			func() {
				if found := f.closeSettled(closing); !found.Closed() {
					f.Errorf("not closed: %+v", found)
				}
			},
			func() { found = f.takeSettled(c, next, item) },
		)
		want := "free"
		if found.Taken() {
			want = "held by " + next
		}
		f.wantWhere(want, c, item, "ann", next)
	}
}

// closeAgainstLoad: an item that is loaded again while it returns is in the bank once.
func closeAgainstLoad(f *fixture) {
	c, items := f.stocked(5*scale, itembank.Settings{Shards: 1})
	for i, item := range items {
		closing := returning(c, f.take(c, "ann", item))
		want := "free"
		if i%2 > 0 {
			closing, want = burning(c, closing.Claim), "burned"
		}
		again := engine.AddRequest{Item: f.freeItem(c, item), LoadID: "again", Row: 1}
		together(
			func() {
				if found := f.closeSettled(closing); !found.Closed() {
					f.Errorf("not closed: %+v", found)
				}
			},
			func() { f.wantOutcomes([]engine.AddRequest{again}, engine.AddKnown) },
		)
		f.wantWhere(want, c, item, "ann")
	}
}

// closeAgainstEnd: an item that is withdrawn while it returns is free or withdrawn.
func closeAgainstEnd(f *fixture) {
	c, items := f.stocked(5*scale, itembank.Settings{Shards: 1})
	for _, item := range items {
		closing := returning(c, f.take(c, "ann", item))
		var ended engine.EndResult
		together(
			func() {
				if found := f.closeSettled(closing); !found.Closed() {
					f.Errorf("not closed: %+v", found)
				}
			},
			func() {
				ended = f.endSettled(engine.EndRequest{Item: f.freeItem(c, item), State: engine.Withdrawn})[0]
			},
		)
		want := map[engine.EndResult]string{engine.EndNotFree: "free", engine.EndDone: "withdrawn"}[ended]
		f.wantWhere(want, c, item, "ann")
	}
}

// endSettled sends endings until all are settled.
func (f *fixture) endSettled(endings ...engine.EndRequest) []engine.EndResult {
	answers := make([]engine.EndResult, len(endings))
	for rounds := 0; rounds <= len(endings)+1; rounds++ {
		var open []int
		var part []engine.EndRequest
		for i, a := range answers {
			if a == engine.EndUnsettled {
				open, part = append(open, i), append(part, endings[i])
			}
		}
		if len(open) == 0 {
			return answers
		}
		got, err := f.Store.EndItems(f.ctx, part)
		if err != nil {
			f.Error(err)
			return answers
		}
		for i, j := range open {
			answers[j] = got[i]
		}
	}
	f.Errorf("endings stay unsettled: %v", answers)
	return answers
}

// ending is one item of a campaign on its way to an end.
type ending struct {
	name    string
	prepare func(*fixture, engine.Campaign, string)
	endsAt  time.Time
	endedBy time.Time
	want    engine.EndResult
	where   string
}

func unprepared(*fixture, engine.Campaign, string) {}

var endingsOfItems = []ending{
	{"free", unprepared, time.Time{}, time.Time{}, engine.EndDone, "expired"},
	{"free with an end", unprepared, anEnd, time.Time{}, engine.EndDone, "expired"},
	{"ended before the bound", unprepared, anEnd, anEnd.Add(time.Hour), engine.EndDone, "expired"},
	{"ended at the bound", unprepared, anEnd, anEnd, engine.EndDone, "expired"},
	{"ends after the bound", unprepared, anEnd, anEnd.Add(-time.Millisecond), engine.EndNotFree, "free"},
	{"never ends", unprepared, time.Time{}, anEnd, engine.EndNotFree, "free"},
	{"held", func(f *fixture, c engine.Campaign, item string) { f.take(c, item, item) }, time.Time{}, time.Time{}, engine.EndNotFree, "held by held"},
	{"burned", func(f *fixture, c engine.Campaign, item string) { f.closed(burning(c, f.take(c, item, item))) }, time.Time{}, time.Time{}, engine.EndNotFree, "burned"},
	{"row gone", func(f *fixture, c engine.Campaign, item string) {
		f.must(f.Raw.DropItemRow(f.ctx, c.Name, engine.HashItem(item)))
	}, time.Time{}, time.Time{}, engine.EndInconsistent, "free, not loaded"},
	{"row has a state", func(f *fixture, c engine.Campaign, item string) { f.putState(c, item, engine.Burned) }, time.Time{}, time.Time{}, engine.EndInconsistent, "free, burned"},
	{"row gone, not ended", func(f *fixture, c engine.Campaign, item string) {
		f.must(f.Raw.DropItemRow(f.ctx, c.Name, engine.HashItem(item)))
	}, time.Time{}, anEnd, engine.EndNotFree, "free, not loaded"},
}

// put loads the item of an ending and prepares it.
func (e ending) put(f *fixture, c engine.Campaign) engine.EndRequest {
	f.Helper()
	free := f.freeItem(c, e.name)
	free.EndsAt = e.endsAt
	f.wantOutcomes([]engine.AddRequest{{Item: free, LoadID: "l", Row: 1}}, engine.AddDone)
	e.prepare(f, c, e.name)
	return engine.EndRequest{Item: free, EndedBy: e.endedBy, State: engine.Expired}
}

func endItems(f *fixture) {
	c := f.create(itembank.Settings{Shards: 2})
	for _, e := range endingsOfItems {
		sent := e.put(f, c)
		if got := f.endSettled(sent); got[0] != e.want {
			f.Errorf("%s: want %d, got %d", e.name, e.want, got[0])
		}
		f.wantWhere(e.where, c, e.name, e.name)
		if e.want == engine.EndDone {
			if again := f.endSettled(sent); again[0] != engine.EndNotFree {
				f.Errorf("%s again: want %d, got %d", e.name, engine.EndNotFree, again[0])
			}
		}
	}
	unknown := engine.EndRequest{Item: f.freeItem(c, "unsent-of"), State: engine.Withdrawn}
	if got := f.endSettled(unknown); got[0] != engine.EndNotFree || f.itemRow(c, "unsent-of") != nil {
		f.Errorf("an item that was never loaded: want %d and no row, got %d and %+v", engine.EndNotFree, got[0], f.itemRow(c, "unsent-of"))
	}
}

// endItemsTogether: items that cannot end keep no others from it.
func endItemsTogether(f *fixture) {
	c := f.create(itembank.Settings{Shards: 2})
	var all []engine.EndRequest
	for _, e := range endingsOfItems {
		all = append(all, e.put(f, c))
	}
	for i, got := range f.endSettled(all...) {
		if e := endingsOfItems[i]; got != e.want {
			f.Errorf("%s: want %d, got %d", e.name, e.want, got)
		} else {
			f.wantWhere(e.where, c, e.name, e.name)
		}
	}
	full := codes("full", engine.MaxAddItems)
	f.load(full...)
	all = all[:0]
	for _, item := range full {
		all = append(all, engine.EndRequest{Item: f.freeItem(c, item), State: engine.Withdrawn})
	}
	for i, got := range f.endSettled(all...) {
		if got != engine.EndDone {
			f.Errorf("item %d of %d: want %d, got %d", i, len(full), engine.EndDone, got)
		}
	}
}

// endAgainstTake: an item is never held and ended.
func endAgainstTake(f *fixture) {
	c, items := f.stocked(5*scale, itembank.Settings{Shards: 1})
	for i, item := range items {
		claimant := fmt.Sprintf("claimant-%d", i)
		var found engine.TakeResult
		var ended engine.EndResult
		together(
			func() { found = f.takeSettled(c, claimant, item) },
			func() {
				ended = f.endSettled(engine.EndRequest{Item: f.freeItem(c, item), State: engine.Withdrawn})[0]
			},
		)
		want := "withdrawn"
		if found.Taken() {
			want = "held by " + claimant
		}
		if found.Taken() == (ended == engine.EndDone) {
			f.Errorf("item %s: taken %t, and its end is %d", item, found.Taken(), ended)
		}
		f.wantWhere(want, c, item, claimant)
	}
}
