package itembank_test

import (
	"errors"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
)

var publishedCases = []testCase{
	{"all-free-items-once", publishedOnce},
	{"only-where-the-campaign-says-so", publishedOnly},
	{"bounded-reads", publishedBounded},
}

// pages reads all pages of FreeItems.
func (f *fixture) pages(b *itembank.Bank, limit int) (items []string, pages int) {
	f.Helper()
	for cursor := ""; ; {
		page, err := b.PublishedItems(f.ctx, f.name, cursor, limit)
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

func publishedOnce(f *fixture) {
	clock := itembankfault.NewClock()
	f.create(itembank.Settings{Publish: true, Shards: 5, ItemLife: time.Minute})
	f.loadAt(clock, codes("old", 30)...)
	clock.Advance(time.Hour)
	want := codes("seat", 40)
	f.loadAt(clock, append([]string{"taken"}, want...)...)
	b := f.bank(itembank.WithClock(clock))
	grant := f.claim(b, "ann")
	want = slices.DeleteFunc(append(want, "taken"), func(item string) bool { return item == grant.Claim.Item })
	for _, limit := range []int{1, 3, 7, 500} {
		if got, pages := f.pages(b, limit); !slices.Equal(got, want) {
			f.Errorf("%d at a time: want %v, got %v in %d pages", limit, want, got, pages)
		}
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

// publishedBounded: a page reads at most 32 shards.
func publishedBounded(f *fixture) {
	f.create(itembank.Settings{Publish: true, Shards: 100})
	counted := f.counted()
	b := itembank.New(counted)
	page, err := b.PublishedItems(f.ctx, f.name, "", 10)
	if calls := counted.Calls(); err != nil || page.Next == "" || len(calls) != 33 {
		f.Errorf("got %+v, %v after %d calls", page, err, len(calls))
	}
	if got, pages := f.pages(b, 10); len(got) > 0 || pages != 4 {
		f.Errorf("got %v in %d pages", got, pages)
	}
}
