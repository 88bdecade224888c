package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var publishedCases = []testCase{
	{"all-free-items-once", publishedOnce},
	{"only-where-the-campaign-says-so", publishedOnly},
	{"bounded-reads", publishedBounded},
	{"one-part-a-second", publishedParts},
	{"columns-are-read-once", publishedColumns},
	{"old-parts-and-failed-reads", publishedOld},
	{"one-read-at-a-time", publishedTogether},
	{"reader-that-disconnects", publishedDisconnected},
}

// pages reads all pages of free items, with one of the two methods.
func (f *fixture) pages(
	clock *itembankfault.Clock, limit int, read func(cursor string, limit int) (itembank.ItemPage, error),
) (items []string, pages int) {
	f.Helper()
	for cursor := ""; ; {
		page, err := read(cursor, limit)
		if errors.Is(err, itembank.ErrNotListedYet) {
			clock.Advance(time.Second)
			continue
		}
		f.Must(err)
		if len(page.Items) > limit {
			f.Errorf("a page of %d items has %d", limit, len(page.Items))
		}
		for _, item := range page.Items {
			items = append(items, item.Item)
		}
		if pages++; page.Next == "" {
			slices.Sort(items)
			return items, pages
		}
		if cursor = page.Next; pages > 1000 {
			f.Fatalf("the pages have no end")
		}
	}
}

// published returns PublishedItems of the fixture's campaign.
func (f *fixture) published(b *itembank.Operator) func(cursor string, limit int) (itembank.ItemPage, error) {
	return func(cursor string, limit int) (itembank.ItemPage, error) {
		return b.PublishedItems(f.ctx, f.name, cursor, limit)
	}
}

func publishedOnce(f *fixture) {
	clock := itembankfault.NewClock()
	f.create(itembank.Settings{Publish: true, Shards: 5, ItemLife: time.Minute})
	f.loadAt(clock, codes("old", 30)...)
	clock.Advance(time.Hour)
	want := codes("seat", 40)
	f.loadAt(clock, append([]string{"taken"}, want...)...)
	b := f.bank(itembank.WithClock(clock))
	grant := f.claim(b, "ann")
	want = slices.DeleteFunc(append(want, "taken"), func(item string) bool { return item == grant.Claim.Items[0] })
	all := func(cursor string, limit int) (itembank.ItemPage, error) {
		return b.FreeItems(f.ctx, f.name, cursor, limit)
	}
	for _, limit := range []int{1, 3, 7, 500} {
		for name, read := range map[string]func(string, int) (itembank.ItemPage, error){"FreeItems": all, "PublishedItems": f.published(b)} {
			if got, pages := f.pages(clock, limit, read); !slices.Equal(got, want) {
				f.Errorf("%s, %d at a time: want %v, got %v in %d pages", name, limit, want, got, pages)
			}
		}
	}
	clock.Advance(59*time.Second + 500*time.Millisecond)
	if page, err := f.published(b)("", 1); len(page.Items) != 1 || err != nil {
		f.Errorf("before the end: got %+v, %v", page, err)
	}
	clock.Advance(time.Second - time.Millisecond) // the same part, without the items that have ended
	if page, err := f.published(b)("", 500); len(page.Items) != 0 || err != nil {
		f.Errorf("all items have ended: got %+v, %v", page, err)
	}
}

func publishedOnly(f *fixture) {
	f.stocked(3, itembank.Settings{})
	b := f.bank()
	if _, err := b.PublishedItems(f.ctx, f.name, "", 10); !errors.Is(err, itembank.ErrNotPublished) {
		f.Errorf("want %v, got %v", itembank.ErrNotPublished, err)
	}
	if page, err := b.FreeItems(f.ctx, f.name, "", 10); err != nil || len(page.Items)+len(page.Next) == 0 {
		f.Errorf("for an operator: got %+v, %v", page, err)
	}
	for _, cursor := range []string{"x", "-1", "16", "0-", "0-zz", "1-2-3", " 1"} {
		if _, err := b.FreeItems(f.ctx, f.name, cursor, 10); !errors.Is(err, itembank.ErrInvalid) {
			f.Errorf("cursor %q: want %v, got %v", cursor, itembank.ErrInvalid, err)
		}
	}
	for _, limit := range []int{0, -1, itembank.MaxItemPage + 1} {
		if _, err := b.FreeItems(f.ctx, f.name, "", limit); !errors.Is(err, itembank.ErrInvalid) {
			f.Errorf("limit %d: want %v, got %v", limit, itembank.ErrInvalid, err)
		}
	}
	if _, err := b.FreeItems(f.ctx, f.name+"-other", "", 1); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
}

// publishedBounded: a read looks into 32 shards at most.
func publishedBounded(f *fixture) {
	f.create(itembank.Settings{Publish: true, Shards: 100})
	counted, clock := f.counted(), itembankfault.NewClock()
	b := itembank.NewOperator(counted, itembank.WithClock(clock))
	page, err := b.PublishedItems(f.ctx, f.name, "", 10)
	if calls := counted.Calls(); err != nil || page.Next == "" || len(calls) != 33 {
		f.Errorf("got %+v, %v after %d calls", page, err, len(calls))
	}
	if got, pages := f.pages(clock, 10, f.published(b)); len(got) > 0 || pages != 4 {
		f.Errorf("got %v in %d pages", got, pages)
	}
}

// publishedParts: whatever is asked for, a Bank reads one part of a campaign in a second, without consistent reads. What
// is in no part is refused for that second.
func publishedParts(f *fixture) {
	const seats = 5000
	f.create(itembank.Settings{Publish: true, Shards: 2})
	f.load(codes("seat", seats)...)
	other := f.named("other")
	other.stocked(3, itembank.Settings{Publish: true, Shards: 1})
	counted, clock := f.counted(), itembankfault.NewClock()
	b := itembank.NewOperator(counted, itembank.WithClock(clock), itembank.WithCampaignCache(0))
	first, err := b.PublishedItems(f.ctx, f.name, "", 500)
	f.Must(err)
	f.wantCalls("the first page", counted, "Campaign", "FreeItemsEventuallyConsistent")
	last := "1-" + strings.Repeat("f", 2*engine.HashSize)
	for second := range 6 {
		for _, limit := range []int{1, 17, 500} {
			for _, cursor := range []string{"", first.Next, "0", last} {
				_, err := b.PublishedItems(f.ctx, f.name, cursor, limit)
				if missed := second == 0 && cursor == last; missed != errors.Is(err, itembank.ErrNotListedYet) || !missed && err != nil {
					f.Errorf("second %d, cursor %q: got %v", second, cursor, err)
				}
			}
		}
		var want []string
		// In second 1 the place that was missed comes before the first page, which is asked for earlier. Three seconds
		// after the miss, pages are read again each second.
		if second == 1 || second >= 3 {
			want = []string{"FreeItemsEventuallyConsistent"}
		}
		f.wantCalls(fmt.Sprintf("second %d", second), counted, want...)
		clock.Advance(time.Second)
	}
	_, err = other.published(b)("", 500)
	f.Must(err)
	f.wantCalls("another campaign", counted, "Campaign", "FreeItemsEventuallyConsistent")
	if got, _ := f.pages(clock, 500, f.published(b)); len(got) != seats || len(slices.Compact(got)) != seats {
		f.Errorf("listed %d items, of which %d differ", len(got), len(slices.Compact(got)))
	}
}

// publishedColumns: the first part of a campaign with columns reads the rows of 500 items at most, and later parts only
// those of other items. An item whose row is not visible yet is left out.
func publishedColumns(f *fixture) {
	c := f.create(itembank.Settings{Publish: true, Columns: true, Choice: true, Shards: 1})
	var lines []itembank.Line
	for i, seat := range codes("seat", 1000) {
		lines = append(lines, line(seat, fmt.Sprintf("row=%d", i)))
	}
	f.loadOf(lines...)
	counted, clock := f.counted(), itembankfault.NewClock()
	b := itembank.NewOperator(counted, itembank.WithClock(clock))
	rows := func() (requests int) {
		for _, call := range counted.Calls() {
			switch call {
			case "ItemRowsEventuallyConsistent": // of 100 items
				requests++
			case "Campaign", "FreeItemsEventuallyConsistent":
			default:
				f.Errorf("called %s", call)
			}
		}
		return requests
	}
	read := func(cursor string) (page itembank.ItemPage) {
		f.Helper()
		page, err := b.PublishedItems(f.ctx, f.name, cursor, 500)
		f.Must(err)
		for _, item := range page.Items {
			if !strings.HasPrefix(string(item.Columns), "row") {
				f.Errorf("%s has the columns %q", item.Item, item.Columns)
			}
		}
		return page
	}
	first := read("")
	if n := rows(); n != 5 {
		f.Errorf("the first part read rows in %d requests", n)
	}
	for range 3 {
		clock.Advance(time.Second)
		f.choose(f.bank(), "ann", first.Items[0].Item)
		if page := read(""); page.Items[0] == first.Items[0] || len(page.Items) != 500 {
			f.Errorf("%d items, and the first is %s", len(page.Items), page.Items[0].Item)
		}
		_, err := f.bank().Release(f.ctx, f.name, "ann", f.claim(f.bank(), "ann").Claim.ID)
		f.Must(err)
		first.Items = first.Items[1:]
	}
	if n := rows(); n > 3 {
		f.Errorf("parts of known items read rows in %d requests", n)
	}
	f.dropItemRow(c, first.Items[100].Item)
	b = f.bank()
	if page := read(""); slices.Contains(page.Items, first.Items[100]) || len(page.Items) != 499 {
		f.Errorf("listed %d items", len(page.Items))
	}
}

// publishedOld: a part that cannot be read again is used for ten seconds. Failed reads are not more frequent.
func publishedOld(f *fixture) {
	f.stocked(3, itembank.Settings{Publish: true, Shards: 1})
	clock, fails := itembankfault.NewClock(), false
	store := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
		if fails && method == "FreeItemsEventuallyConsistent" {
			return engine.ErrThrottled
		}
		return nil
	}}
	b := itembank.NewOperator(store, itembank.WithClock(clock))
	_, err := f.published(b)("", 500)
	f.Must(err)
	fails = true
	for second := 1; second < 12; second++ {
		clock.Advance(time.Second)
		store.Calls()
		if _, err := f.published(b)("", 500); !errors.Is(err, engine.ErrThrottled) {
			f.Errorf("second %d: want %v, got %v", second, engine.ErrThrottled, err)
		}
		for range 3 {
			page, err := f.published(b)("", 500)
			if kept := second < 10; kept && (err != nil || len(page.Items) != 3) || !kept && !errors.Is(err, itembank.ErrNotListedYet) {
				f.Errorf("second %d: got %+v, %v", second, page, err)
			}
		}
		if calls := store.Calls(); len(slices.DeleteFunc(calls, func(call string) bool { return call == "Campaign" })) != 1 {
			f.Errorf("second %d: read %v", second, calls)
		}
	}
}

// publishedTogether: a request that comes while a part is read waits for it.
func publishedTogether(f *fixture) {
	f.stocked(30, itembank.Settings{Publish: true, Shards: 1})
	var b *itembank.Operator
	var second error
	reads, answered := 0, make(chan struct{})
	store := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
		if method != "FreeItemsEventuallyConsistent" {
			return nil
		}
		reads++
		waits := waiting{f.ctx, make(chan struct{}), new(sync.Once)}
		go func() {
			defer close(answered)
			_, second = b.PublishedItems(waits, f.name, "", 500)
		}()
		select {
		case <-waits.begun:
		case <-answered:
		}
		return nil
	}}
	b = itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock()))
	if _, err := f.published(b)("", 7); err != nil || reads != 1 {
		f.Fatalf("%d reads: %v", reads, err)
	}
	if <-answered; second != nil || reads != 1 {
		f.Errorf("%d reads: %v", reads, second)
	}
}

// publishedDisconnected: a client disconnects while its request reads a part. The part is read all the same.
func publishedDisconnected(f *fixture) {
	f.stocked(3, itembank.Settings{Publish: true, Shards: 1})
	ctx, disconnect := context.WithCancel(f.ctx)
	store := &itembankfault.Store{Store: canceled{f.Store}, Before: func(method string) error {
		if method == "FreeItemsEventuallyConsistent" {
			disconnect()
		}
		return nil
	}}
	b := itembank.NewOperator(store, itembank.WithClock(itembankfault.NewClock()))
	_, _ = b.PublishedItems(ctx, f.name, "", 500) // nobody gets this answer
	if page, err := f.published(b)("", 500); err != nil || len(page.Items) != 3 {
		f.Errorf("the next caller got %+v, %v", page, err)
	}
}

// canceled is an engine whose reads of free items end with their context, as requests to DynamoDB do.
type canceled struct{ engine.Store }

func (c canceled) FreeItems(
	ctx context.Context, s engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	if err := ctx.Err(); err != nil {
		return engine.FreePage{}, err
	}
	return c.Store.FreeItems(ctx, s, r, limit, how)
}

// waiting is a context that tells when a call begins to wait for its end.
type waiting struct {
	context.Context
	begun chan struct{}
	once  *sync.Once
}

func (w waiting) Done() <-chan struct{} {
	w.once.Do(func() { close(w.begun) })
	return w.Context.Done()
}
