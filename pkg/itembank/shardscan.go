package itembank

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// listPage is how many free items are read at a time where all are read.
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

// next reads up to limit items of the range that the scan has come to.
func (s *shardScan) next(ctx context.Context, store engine.Store, limit int) ([]engine.FreeItem, error) {
	page, err := store.FreeItems(ctx, s.shard, s.left[0], limit)
	if err != nil {
		return nil, err
	}
	if !page.More {
		s.left = s.left[1:]
	} else if n := len(page.Items); n > 0 { // a page may be empty and not the last
		last := page.Items[n-1].Hash
		s.left[0].After = &last
	}
	return page.Items, nil
}
