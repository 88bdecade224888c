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
	// countedItems is the largest bank, in free items, that is counted in full, and about the size of a sample.
	// On DynamoDB 4,000 rows of 100 bytes cost 100 read units.
	countedItems = 4000
	// sampleSpans is the number of spans of a sample, at least one in each shard. Claims take the items of a page
	// together, so the free items lie in clusters. Many small spans represent them better than few large ones.
	sampleSpans = 64
	countAtOnce = 8 // parts that are read at the same time

	// The first sample has this many spans and estimates the size of the bank. If it finds too few items, a second
	// sample reads a larger share.
	firstSpans = 16
	firstItems = 30
	firstShare = 1. / 4096
	nextShare  = 1. / 64
)

// FreeCount is the result of CountFree.
type FreeCount struct {
	Items   int64 // free items that have not ended
	Expired int64 // items whose life is over and that no sweep has taken out of the bank yet
	Exact   bool  // all items were counted; otherwise Items and Expired are estimates
	Loaded  bool  // a load was started; otherwise the campaign has no items yet
}

// CountFree counts the free items of a campaign in any state. Its price does not grow with the bank. It counts all
// items of a bank of up to about 4,000 items. In a larger bank it reads about 4,000 items and estimates. If the
// estimate, ended items included, is below 4,000, it counts all items. Use Counts for exact numbers.
//
// Estimates are right on average. Their standard deviation is up to 15 % of what is left, and up to 30 % in a campaign
// of 256 shards. A count reads about 5,000 items on average, and rarely 14,000 (TestCountFreeOfALargeBank).
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) CountFree(ctx context.Context, campaign string) (FreeCount, error) {
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return FreeCount{}, err
	}
	found, err := b.sampleFree(ctx, c, firstSpans, firstShare)
	if err == nil && found.rows < firstItems {
		found, err = b.sampleFree(ctx, c, firstSpans, nextShare)
	}
	if size := found.total(found.rows); err == nil && size > countedItems {
		found, err = b.sampleFree(ctx, c, max(sampleSpans, c.Shards), countedItems/size)
	}
	exact := found.total(found.rows) <= countedItems
	if err == nil && exact {
		found, err = b.readFree(ctx, c)
	}
	if err != nil {
		return FreeCount{}, err
	}
	live, rows := math.Round(found.total(found.live)), math.Round(found.total(found.rows))
	count := FreeCount{Items: int64(live), Expired: int64(rows - live), Exact: exact, Loaded: found.rows > 0}
	if !count.Loaded {
		count.Loaded, _, err = b.store.Loads(ctx, c.Name)
	}
	return count, err
}

// freeSample is the result of reading a share of a bank.
type freeSample struct {
	share      float64
	rows, live int // live: rows whose items have not ended
}

// total estimates the number in the whole bank from the number found in the sample.
func (s freeSample) total(found int) float64 { return float64(found) / s.share }

// readFree reads all shards.
func (b *Operator) readFree(ctx context.Context, c Campaign) (freeSample, error) {
	return b.countScans(ctx, 1, c.Shards, func(n int) *shardScan {
		return scanAll(engine.Shard{Campaign: c.Name, Number: n})
	})
}

// sampleFree reads a share of a bank, in spans of equal length at equal distances.
func (b *Operator) sampleFree(ctx context.Context, c Campaign, spans int, share float64) (freeSample, error) {
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

// sampleBegin returns the offset of the first span, as a share of the distance between spans. It is random, and the
// same for all samples of an Operator, so that the difference of two estimates is more exact than each of them.
func (b *Operator) sampleBegin() (float64, error) {
	b.sampling.Lock()
	defer b.sampling.Unlock()
	if b.samples == 0 {
		random, err := b.generator()
		if err != nil {
			return 0, err
		}
		b.samples = random.Float64()
	}
	return b.samples, nil
}

// scanSpan reads a part of a shard, from a place onward. At the end of the shard it continues at the beginning. Place
// and length are shares of the shard, because hashes are spread evenly.
func scanSpan(s engine.Shard, place, length float64) *shardScan {
	after, through := hashAt(place), hashAt(math.Mod(place+length, 1))
	if place+length < 1 {
		return &shardScan{s, []engine.Range{{After: &after, Through: &through}}}
	}
	return &shardScan{s, []engine.Range{{After: &after}, {Through: &through}}}
}

// hashAt returns a hash that fraction maps to share, which is below 1.
func hashAt(share float64) (h engine.Hash) {
	binary.BigEndian.PutUint64(h[:], uint64(share*(1<<64)))
	return h
}

// countScans counts the items that n scans read, up to countAtOnce scans at a time. The scans read the given share of
// the bank.
func (b *Operator) countScans(
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
