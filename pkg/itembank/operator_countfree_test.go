package itembank_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var countCases = []testCase{
	{"free-items-of-each-state", countFreeInEachState},
	{"ended-items-are-not-free", countFreeOfEnded},
}

// wantFree counts the free items of a bank that is small enough for an exact count.
func (f *fixture) wantFree(items, expired int64, loaded bool) {
	f.Helper()
	got, err := f.bank().CountFree(f.ctx, f.name)
	f.Must(err)
	if want := (itembank.FreeCount{Items: items, Expired: expired, Exact: true, Loaded: loaded}); got != want {
		f.Errorf("got %+v, want %+v", got, want)
	}
}

func countFreeInEachState(f *fixture) {
	f.create(itembank.Settings{Shards: 20}) // more shards than a first sample has spans
	f.wantFree(0, 0, false)
	var items []string
	for i := range 30 {
		items = append(items, fmt.Sprint("item-", i))
	}
	f.load(items...)
	f.wantFree(30, 0, true)
	b := f.bank()
	for i := range 30 {
		f.claim(b, fmt.Sprint("claimant-", i))
		if i == 9 {
			f.wantFree(20, 0, true)
		}
	}
	f.wantFree(0, 0, true)
	f.Must(b.CloseCampaign(f.ctx, f.name))
	f.wantFree(0, 0, true)
}

func countFreeOfEnded(f *fixture) {
	f.create(itembank.Settings{Shards: 2, ItemLife: time.Hour})
	clock := itembankfault.NewClock()
	past := f.bank(itembank.WithClock(clock))
	clock.Advance(-2 * time.Hour)
	_, err := past.Load(f.ctx, f.name, itembank.Items("old-1", "old-2"), nil)
	f.Must(err)
	f.load("young")
	f.wantFree(1, 2, true)
}

// countedRows is an engine that counts the free items that were read.
type countedRows struct {
	engine.Store
	rows atomic.Int64
}

func (s *countedRows) FreeItems(
	ctx context.Context, shard engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	page, err := s.Store.FreeItems(ctx, shard, r, limit, how)
	s.rows.Add(int64(len(page.Items)))
	return page, err
}

// seeded is a random source that returns the same bytes each time.
type seeded struct {
	mu     sync.Mutex
	source *rand.ChaCha8
}

func newSeeded() *seeded { return &seeded{source: rand.NewChaCha8([32]byte{})} }

func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Read(p)
}

// TestCountFreeOfALargeBank measures the errors of the estimates, and the number of rows that counts read. 20 Banks
// claim with pages as containers do, until half of a bank is left, and then a sixth. The doc comment has the limits.
func TestCountFreeOfALargeBank(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for shards, deviation := range map[int]float64{1: 0.15, 16: 0.15, 256: 0.3} {
		f := inMemory(t)
		random := itembank.WithRandom(newSeeded())
		const all, counts = 60_000, 100
		f.stocked(all, itembank.Settings{Shards: shards})
		banks := make([]*itembank.Operator, 20)
		for i := range banks {
			banks[i] = f.bank(random)
		}
		left := all
		for _, until := range []int{30_000, 10_000} {
			for ; left > until; left-- {
				f.claim(banks[left%len(banks)], fmt.Sprint("claimant-", left))
			}
			read := &countedRows{Store: f.Store}
			sum, squares, most, before := 0., 0., int64(0), int64(0)
			for range counts {
				got, err := itembank.NewOperator(read, random).CountFree(f.ctx, f.name)
				f.Must(err)
				off := float64(got.Items)/float64(left) - 1
				sum, squares = sum+off, squares+off*off
				most, before = max(most, read.rows.Load()-before), read.rows.Load()
			}
			mean, spread, rows := sum/counts, math.Sqrt(squares/counts), before/counts
			t.Logf("%d shards, %d left: mean %+.3f, deviation %.3f, rows %d, at most %d", shards, left, mean, spread, rows, most)
			if math.Abs(mean) > deviation/3 || spread > deviation || rows > 6000 || most > 14_000 {
				t.Errorf("%d shards, %d left: worse than the doc comment says", shards, left)
			}
		}
	}
}
