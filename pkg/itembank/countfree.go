package itembank

import (
	"context"
	"encoding/binary"
	"math"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	// countedItems is up to how many free items all are counted, and about how many a sample has. On DynamoDB 4,000 rows
	// of 100 bytes are 100 read units.
	countedItems = 4000
	// sampleSpans is in how many parts a sample is read, at least one in each shard. Claims take the items of a page, so
	// that what is left lies in clusters: many small parts meet more of them than few large ones.
	sampleSpans = 64
	countAtOnce = 8 // parts that are read at the same time

	// A first sample says how large the bank is. If it finds too few items, it is taken again with a larger share.
	firstSpans = 16
	firstItems = 30
	firstShare = 1. / 4096
	nextShare  = 1. / 64
)

// FreeCount is the result of CountFree.
type FreeCount struct {
	Items   int64 // free items that have not ended
	Expired int64 // those whose life is over and that no sweep has taken out of the bank yet
	Exact   bool  // all were counted; else Items and Expired are estimates
	Loaded  bool  // a load was started; else there are no items yet
}

// CountFree counts the free items of a campaign, whatever its state, at a price that does not grow with the bank. It
// counts all items of a bank of up to about 4,000. Of a larger bank it reads about 4,000, and estimates. Where the
// estimate, with items that have ended, is below 4,000, it counts all after all. Counts counts exactly.
//
// Estimates are right on average. Their standard deviation is up to 15 % of what is left, and up to 30 % in a campaign
// of 256 shards. A count reads about 5,000 items on average, and rarely 14,000 (TestCountFreeOfALargeBank).
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) CountFree(ctx context.Context, campaign string) (FreeCount, error) {
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return FreeCount{}, err
	}
	found, err := b.sampleFree(ctx, c, firstSpans, firstShare)
	if err == nil && found.rows < firstItems {
		found, err = b.sampleFree(ctx, c, firstSpans, nextShare)
	}
	if size := found.all(found.rows); err == nil && size > countedItems {
		found, err = b.sampleFree(ctx, c, max(sampleSpans, c.Shards), countedItems/size)
	}
	exact := found.all(found.rows) <= countedItems
	if err == nil && exact {
		found, err = b.readFree(ctx, c)
	}
	if err != nil {
		return FreeCount{}, err
	}
	live, rows := math.Round(found.all(found.live)), math.Round(found.all(found.rows))
	count := FreeCount{Items: int64(live), Expired: int64(rows - live), Exact: exact, Loaded: found.rows > 0}
	if !count.Loaded {
		count.Loaded, _, err = b.store.Loads(ctx, c.Name)
	}
	return count, err
}

// freeSample is what was found in a share of a bank.
type freeSample struct {
	share      float64
	rows, live int // live: those that have not ended
}

// all estimates a number of the whole bank.
func (s freeSample) all(found int) float64 { return float64(found) / s.share }

// readFree reads all shards.
func (b *Bank) readFree(ctx context.Context, c Campaign) (freeSample, error) {
	return b.countScans(ctx, 1, c.Shards, func(n int) *shardScan {
		return scanAll(engine.Shard{Campaign: c.Name, Number: n})
	})
}

// sampleFree reads a share of a bank, in spans of one length at equal distances.
func (b *Bank) sampleFree(ctx context.Context, c Campaign, spans int, share float64) (freeSample, error) {
	begin, err := b.sampleBegin()
	if err != nil {
		return freeSample{}, err
	}
	apart := float64(c.Shards) / float64(spans) // in shards
	return b.countScans(ctx, share, spans, func(i int) *shardScan {
		shard, place := math.Modf((float64(i) + begin) * apart)
		return scanSpan(engine.Shard{Campaign: c.Name, Number: int(shard)}, place, share*apart)
	})
}

// sampleBegin returns where samples begin, as a share of the distance between spans. It is random, and always the same
// in a Bank, so that the difference of two estimates is more exact than each of them.
func (b *Bank) sampleBegin() (float64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.samples == 0 {
		random, err := b.generator()
		if err != nil {
			return 0, err
		}
		b.samples = random.Float64()
	}
	return b.samples, nil
}

// scanSpan reads a part of a shard, from a place to its end and on from its beginning. The place and the length are
// shares of the shard, since hashes are spread evenly.
func scanSpan(s engine.Shard, place, length float64) *shardScan {
	after, through := hashAt(place), hashAt(math.Mod(place+length, 1))
	if place+length < 1 {
		return &shardScan{s, []engine.Range{{After: &after, Through: &through}}}
	}
	return &shardScan{s, []engine.Range{{After: &after}, {Through: &through}}}
}

// hashAt is a hash that fraction maps to a share below 1.
func hashAt(share float64) (h engine.Hash) {
	binary.BigEndian.PutUint64(h[:], uint64(share*(1<<64)))
	return h
}

// countScans counts what n scans read, several at a time. Together they read a share of the bank.
func (b *Bank) countScans(
	ctx context.Context, share float64, n int, scanOf func(i int) *shardScan,
) (freeSample, error) {
	var mu sync.Mutex // guards found
	found := freeSample{share: share}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(countAtOnce)
	for i := range n {
		all.Go(func() error {
			for scan := scanOf(i); !scan.done(); {
				items, err := scan.next(ctx, b.store, listPage)
				if err == nil {
					err = b.pace(ctx, len(items))
				}
				if err != nil {
					return err
				}
				live, _ := splitEnded(items, b.serverNow())
				mu.Lock()
				found.rows, found.live = found.rows+len(items), found.live+len(live)
				mu.Unlock()
			}
			return nil
		})
	}
	err := all.Wait()
	return found, err
}
