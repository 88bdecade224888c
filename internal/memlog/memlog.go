// Package memlog is the storage of a log ledger in memory, for tests.
package memlog

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// Log is a log in memory. It is safe for concurrent use. If a call's context has ended, the call has no effect.
type Log struct {
	Page int // the number of items that fit into one answer; 0: all items

	mu    sync.Mutex
	chain map[logledger.LaneID][]logledger.Epoch
	items map[stretch]map[int]Item // by index
}

// stretch is an epoch of a lane.
type stretch struct {
	logledger.LaneID
	epoch int
}

// Item is an item with its purge time.
type Item struct {
	Data    []byte
	PurgeAt int64 // epoch seconds
}

var _ logledger.Storage = (*Log)(nil)

// New returns an empty log.
func New() *Log {
	return &Log{chain: map[logledger.LaneID][]logledger.Epoch{}, items: map[stretch]map[int]Item{}}
}

// Epochs implements logledger.Storage.
func (l *Log) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var page []logledger.Epoch
	for _, e := range slices.Backward(l.chain[lane]) {
		if e.Number < below && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, nil
}

// PutEpoch implements logledger.Storage.
func (l *Log) PutEpoch(ctx context.Context, lane logledger.LaneID, e logledger.Epoch) (*logledger.Epoch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.Number < len(l.chain[lane]) {
		there := l.chain[lane][e.Number]
		return &there, nil
	}
	l.chain[lane] = append(l.chain[lane], e)
	return nil, nil
}

// Append implements logledger.Storage.
func (l *Log) Append(ctx context.Context, at logledger.Place, data []byte, purgeAt int64) (existing []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	of := stretch{at.LaneID, at.Epoch}
	if there, ok := l.items[of][at.Index]; ok {
		return bytes.Clone(there.Data), nil
	}
	if l.items[of] == nil {
		l.items[of] = map[int]Item{}
	}
	l.items[of][at.Index] = Item{bytes.Clone(data), purgeAt}
	return nil, nil
}

// Read implements logledger.Storage. All reads are consistent.
func (l *Log) Read(ctx context.Context, from logledger.Place, limit int, _ bool) (items []logledger.Item, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if limit == 0 {
		limit = l.Page
	}
	for index, i := range l.items[stretch{from.LaneID, from.Epoch}] {
		if index >= from.Index {
			items = append(items, logledger.Item{Index: index, Data: bytes.Clone(i.Data)})
		}
	}
	slices.SortFunc(items, func(a, b logledger.Item) int { return a.Index - b.Index })
	if limit > 0 && len(items) > limit {
		items, more = items[:limit], true
	}
	return items, more, nil
}

// Purge deletes the items whose purge time is before now, in epoch seconds, if deleted returns true for them.
func (l *Log) Purge(now int64, deleted func(logledger.Place) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, items := range l.items {
		for index, i := range items {
			if i.PurgeAt < now && deleted(logledger.Place{LaneID: of.LaneID, Epoch: of.epoch, Index: index}) {
				delete(items, index)
			}
		}
	}
}
