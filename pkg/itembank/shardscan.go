package itembank

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// listPage is how many free items one read returns if all are to be read.
const listPage = 1000

// shardScan reads a shard page by page.
type shardScan struct {
	shard engine.Shard
	left  []engine.Range // still to be read, in this order
}

// scanAll reads a shard from its beginning.
func scanAll(s engine.Shard) *shardScan { return &shardScan{s, []engine.Range{{}}} }

// scanFrom reads a shard from a place to its end, and then from its beginning to that
// place.
func scanFrom(s engine.Shard, place engine.Hash) *shardScan {
	return &shardScan{s, []engine.Range{{After: &place}, {Through: &place}}}
}

func (s *shardScan) done() bool { return len(s.left) == 0 }

// next reads up to limit items from the current range of the scan.
func (s *shardScan) next(ctx context.Context, store engine.Store, limit int) ([]engine.FreeItem, error) {
	page, err := store.FreeItems(ctx, s.shard, s.left[0], limit, engine.Strong)
	if err != nil {
		return nil, err
	}
	if !page.More {
		s.left = s.left[1:]
	} else if n := len(page.Items); n > 0 { // a page may be empty without being the last
		last := page.Items[n-1].Hash
		s.left[0].After = &last
	}
	return page.Items, nil
}

// shardReader reads items of one shard for a search. Several shardReaders work at the same time.
type shardReader struct {
	list     *freeList
	campaign Campaign
	shard    engine.Shard
	size     bankSize // first the old estimate, then the new one
	claims   int      // the claims that the Bank works on
	skips    int      // how many ended items it may read past
}

// shardResult is the result of a shardReader. If it has neither live items nor an error, the shard is empty.
type shardResult struct {
	read    shardRead
	size    bankSize
	live    []engine.FreeItem // in random order
	ended   []engine.FreeItem // of the last page that had only ended items
	skipped int
	err     error
}

// read reads a page of the shard. While all items of a page have ended, it reads the next page.
func (r *shardReader) read(ctx context.Context) (result shardResult) {
	result.read = r.list.startRead(r.campaign, r.shard.Number)
	scan, items, err := r.first(ctx)
	for err == nil {
		live, ended := splitEnded(items, r.list.bank.serverNow())
		if len(live) > 0 {
			result.live, err = live, r.list.bank.shuffle(live)
			break
		}
		if err = r.list.bank.shuffle(ended); err != nil { // so that Banks rarely take out the same items
			break
		}
		result.ended = append(result.ended, ended[:min(len(ended), maxEnded)]...)
		result.skipped += max(len(ended), 1) // counts 1 for an empty page, which need not be the last
		if scan.done() {
			break
		}
		if result.skipped >= r.skips {
			err = errTooManyEnded
			break
		}
		r.list.slow.set(true)
		items, err = scan.next(ctx, r.list.bank.store, listPage)
	}
	result.size, result.err = r.size, err
	return result
}

// first reads the first page and returns the scan that continues after it.
func (r *shardReader) first(ctx context.Context) (*shardScan, []engine.FreeItem, error) {
	if r.size.smallShards(r.campaign, r.claims) {
		return r.whole(ctx)
	}
	return r.part(ctx)
}

// part reads a page from a random place of the shard to its end, and then from its beginning to
// that place, so that Banks rarely read the same items.
func (r *shardReader) part(ctx context.Context) (*shardScan, []engine.FreeItem, error) {
	place, err := r.list.bank.randomHash()
	if err != nil {
		return nil, nil, err
	}
	scan, limit := scanFrom(r.shard, place), r.size.pageSize(r.campaign, r.claims)
	items, err := scan.next(ctx, r.list.bank.store, limit)
	if err != nil {
		return nil, nil, err
	}
	if len(scan.left) == 1 && len(items) < limit { // after a full page the beginning is still unread
		beginning, err := scan.next(ctx, r.list.bank.store, limit-len(items))
		if err != nil {
			return nil, nil, err
		}
		items = append(items, beginning...)
	}
	r.measure(scan, items, place)
	return scan, items, nil
}

// whole reads a shard that is estimated to be small, in one request instead of two. If the shard has more items than
// the limit, this page begins at the same place as those of other Banks. The new estimate prevents a second such
// page.
func (r *shardReader) whole(ctx context.Context) (*shardScan, []engine.FreeItem, error) {
	scan := scanAll(r.shard)
	items, err := scan.next(ctx, r.list.bank.store, r.size.wholeLimit(r.campaign, r.claims))
	if err != nil {
		return nil, nil, err
	}
	r.measure(scan, items, engine.Hash{})
	return scan, items, nil
}

// measure estimates the size of the bank from items that were read from a place onward.
func (r *shardReader) measure(scan *shardScan, items []engine.FreeItem, place engine.Hash) {
	if scan.done() {
		r.size.measureWhole(r.campaign, items)
	} else {
		r.size.measure(r.campaign, items, place)
	}
}

// shardRead is the state before a read that may show a shard empty.
type shardRead struct {
	shard   int
	started time.Time
	returns int   // emptyShards.returns when the read started
	version int64 // of the campaign, read before
}
