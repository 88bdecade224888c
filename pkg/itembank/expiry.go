package itembank

import (
	"context"
	"fmt"
	"time"
)

// maxEndedPages bounds how often a request reads the bank: at least once a shard,
// and for pages on which every item has ended. Those it expires, so that the next
// request finds them gone.
const maxEndedPages = MaxShards + 64

var errTooManyEnded = fmt.Errorf("%w: the bank is full of ended items; sweep it", ErrTryAgain)

// partition parts items that can be handed out from those that have ended.
func partition(items []FreeItem, now time.Time) (live, ended []FreeItem) {
	for _, i := range items {
		if i.ended(now) {
			ended = append(ended, i)
		} else {
			live = append(live, i)
		}
	}
	return live, ended
}

// expire takes ended items out of the bank. That somebody else was faster, or that
// an item row is missing, is no matter of the request that met them.
func (b *Bank) expire(ctx context.Context, items []FreeItem) error {
	for len(items) > 0 {
		n := min(len(items), MaxAddItems)
		if _, err := b.endItems(ctx, endings(items[:n], Expired, b.now())); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

func endings(items []FreeItem, state ItemState, endedBy time.Time) []Ending {
	all := make([]Ending, len(items))
	for i, item := range items {
		all[i] = Ending{item, endedBy, state}
	}
	return all
}
