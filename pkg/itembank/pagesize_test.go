package itembank_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// evenBank is a store of one campaign. Its free items are spread evenly and are never used up. It records how many
// items each read asks for.
type evenBank struct {
	engine.Store
	campaign engine.Campaign
	items    int
	asked    []int
	whole    []bool // by read: it asked for the whole shard
}

func (s *evenBank) ServerTime() time.Time { return time.Time{} }

func (s *evenBank) Campaign(context.Context, string) (*engine.Campaign, error) {
	return &s.campaign, nil
}

func (s *evenBank) FreeItems(
	_ context.Context, shard engine.Shard, r engine.Range, limit int, _ engine.Consistency,
) (page engine.FreePage, err error) {
	s.asked, s.whole = append(s.asked, limit), append(s.whole, r == engine.Range{})
	apart := uint64(1<<63) / uint64(s.items/s.campaign.Shards) * 2
	from := uint64(0)
	if r.After != nil {
		from = binary.BigEndian.Uint64(r.After[:8])
	}
	for at := from/apart*apart + apart; at >= apart; at += apart {
		if len(page.Items) == limit {
			page.More = true
			return page, nil
		}
		item := engine.FreeItem{Shard: shard, Value: fmt.Sprint(at)}
		binary.BigEndian.PutUint64(item.Hash[:], at)
		page.Items = append(page.Items, item)
	}
	return page, nil
}

func (s *evenBank) Take(context.Context, []engine.FreeItem, engine.Claim) (engine.TakeResult, error) {
	return engine.TakeResult{}, nil
}

func (s *evenBank) HeldClaim(context.Context, engine.ClaimKey, engine.Consistency) (*engine.Claim, bool, error) {
	return nil, false, nil
}

// TestPageSizeByBankSize: the first page has the campaign's page size, and shows how large the bank is. The next
// pages are a small share of the bank, within limits. If a shard has only a few pages, the read asks for more, so
// that it reads the whole shard.
func TestPageSizeByBankSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ items, pageSize, least, most int }{
		{160, 30, 120, 120},
		{2_000, 30, 30, 30},
		{8_000, 30, 38, 42},
		{16_000, 30, 76, 84},
		{100_000, 30, 100, 100},
		{1_000_000, 30, 100, 100},
		{1_000_000, 10, 100, 100},
		{1_000_000, 500, 500, 500}, // never less than the campaign's page size
	} {
		store := &evenBank{items: test.items, campaign: engine.Campaign{
			Name: "spring", Mode: engine.OpenByHand, Scope: "spring", Shards: 4, PageSize: test.pageSize,
		}}
		place := bytes.NewReader(bytes.Repeat([]byte{0x10}, 1<<20)) // near the beginning of a shard
		bank := itembank.NewOperator(store, itembank.WithRandom(place))
		for i := range test.pageSize + 1 {
			if _, err := bank.Claim(t.Context(), "spring", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if got := store.asked; len(got) != 2 || got[0] != test.pageSize || got[1] < test.least || got[1] > test.most {
			t.Errorf("%d items, pages of %d: want a next page of %d to %d, asked for %v", test.items, test.pageSize, test.least, test.most, got)
		}
	}
}

// TestSmallShardsAreReadWhole: a small shard is read in one request from its beginning, where all Banks meet. A shard
// that has more items than estimated is read so only once.
func TestSmallShardsAreReadWhole(t *testing.T) {
	t.Parallel()
	store := &evenBank{items: 50, campaign: engine.Campaign{
		Name: "spring", Mode: engine.OpenByHand, Scope: "spring", Shards: 1, PageSize: 30,
	}}
	bank := itembank.NewOperator(store, itembank.WithRandom(bytes.NewReader(bytes.Repeat([]byte{0x10}, 1<<20))))
	claim := func(n int) {
		t.Helper()
		for i := range n {
			if _, err := bank.Claim(t.Context(), "spring", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	claim(31) // a page, and one more read of all items, whose number seems not to decrease
	store.items = 100_000
	claim(200) // the rest of that read, then a page of the largest size, then another
	if want := []bool{false, true, true, false}; !slices.Equal(store.whole, want) {
		t.Errorf("want the whole shard asked for as in %v, got %v", want, store.whole)
	}
}
