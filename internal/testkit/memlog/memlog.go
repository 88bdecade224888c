// Package memlog is the storage of a log ledger in memory, for tests and simulations.
package memlog

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// Log is a log in memory. It is safe for concurrent use. If a call's context has ended, the call has no effect. It
// remembers deleted items and chain rows: Ever reads them.
type Log struct {
	Page int // the number of items that fit into one answer; 0: all items

	mu       sync.Mutex
	scopes   map[string][]lane
	appends  int
	refilled *logledger.Place
}

type lane struct {
	chain  []chainRow
	epochs [][]cell
}

type chainRow struct {
	logledger.Epoch
	exists, deleted bool
}

// cell is the place of one item.
type cell struct {
	data            []byte
	seal            []byte // a seal that was appended after the item had been deleted
	purgeAt         int64  // epoch seconds
	order           int
	exists, deleted bool
}

var _ logledger.Storage = (*Log)(nil)

// New returns an empty log.
func New() *Log { return &Log{scopes: map[string][]lane{}} }

func grown[T any](all []T, n int) []T {
	if n < len(all) {
		return all
	}
	return append(all, make([]T, n+1-len(all))...)
}

func (l *Log) lane(of logledger.LaneID) *lane {
	l.scopes[of.Scope] = grown(l.scopes[of.Scope], of.Lane)
	return &l.scopes[of.Scope][of.Lane]
}

func (l *Log) cell(at logledger.Place) *cell {
	of := l.lane(at.LaneID)
	of.epochs = grown(of.epochs, at.Epoch)
	of.epochs[at.Epoch] = grown(of.epochs[at.Epoch], at.Index)
	return &of.epochs[at.Epoch][at.Index]
}

// Epochs implements logledger.Storage.
func (l *Log) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	return l.rows(ctx, lane, below, limit, false)
}

func (l *Log) rows(
	ctx context.Context, lane logledger.LaneID, below, limit int, deleted bool,
) (page []logledger.Epoch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, row := range slices.Backward(l.lane(lane).chain) {
		if row.exists && (deleted || !row.deleted) && row.Number < below && len(page) < limit {
			page = append(page, row.Epoch)
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
	of := l.lane(lane)
	of.chain = grown(of.chain, e.Number)
	if row := of.chain[e.Number]; row.exists && !row.deleted {
		return &row.Epoch, nil
	}
	of.chain[e.Number] = chainRow{Epoch: e, exists: true}
	return nil, nil
}

// Append implements logledger.Storage.
func (l *Log) Append(ctx context.Context, at logledger.Place, data []byte, purgeAt int64) (existing []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := l.cell(at)
	switch {
	case c.seal != nil:
		return bytes.Clone(c.seal), nil
	case c.exists && !c.deleted:
		return bytes.Clone(c.data), nil
	case c.deleted && IsSeal(data):
		c.seal = bytes.Clone(data) // harmless: the entries of this epoch no longer count
		return nil, nil
	case c.deleted:
		l.refilled = &at
	}
	l.put(c, data, purgeAt)
	return nil, nil
}

// IsSeal reports whether an item is a seal.
func IsSeal(data []byte) bool { return len(data) > 1 && data[1] == 's' }

func (l *Log) put(c *cell, data []byte, purgeAt int64) {
	l.appends++
	*c = cell{data: bytes.Clone(data), purgeAt: purgeAt, order: l.appends, exists: true}
}

// Put puts an item even if its place is taken, which no storage may do.
func (l *Log) Put(at logledger.Place, data []byte, purgeAt int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(l.cell(at), data, purgeAt)
}

// Read implements logledger.Storage. All reads are consistent.
func (l *Log) Read(ctx context.Context, from logledger.Place, limit int, _ bool) ([]logledger.Item, bool, error) {
	return l.items(ctx, from, limit, false)
}

func (l *Log) items(
	ctx context.Context, from logledger.Place, limit int, deleted bool,
) (items []logledger.Item, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if limit == 0 {
		limit = l.Page
	}
	epochs := l.lane(from.LaneID).epochs
	if from.Epoch >= len(epochs) || from.Index >= len(epochs[from.Epoch]) {
		return nil, false, nil
	}
	for n, c := range epochs[from.Epoch][from.Index:] {
		data := c.data
		if c.deleted && !deleted {
			data = c.seal
		}
		switch {
		case data == nil:
		case limit > 0 && len(items) == limit:
			return items, true, nil
		default:
			items = append(items, logledger.Item{Index: from.Index + n, Data: bytes.Clone(data)})
		}
	}
	return items, false, nil
}

// Ever returns the log with all that was ever put into it. Its reads find deleted items and chain rows, too.
func (l *Log) Ever() logledger.Storage { return ever{l} }

type ever struct{ *Log }

func (e ever) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	return e.rows(ctx, lane, below, limit, true)
}

func (e ever) Read(ctx context.Context, from logledger.Place, limit int, _ bool) ([]logledger.Item, bool, error) {
	return e.items(ctx, from, limit, true)
}

// Appends returns how many items have been appended.
func (l *Log) Appends() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appends
}

// Order returns how many items had been appended when the item at a place was, including this one.
func (l *Log) Order(at logledger.Place) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cell(at).order
}

// Refilled returns a place at which an item, not a seal, was appended after another one had been deleted. It returns
// nil if there is no such place.
func (l *Log) Refilled() *logledger.Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refilled
}

// Purge deletes the items of a scope whose purge time is before now, in epoch seconds, if deleted returns true for
// them. It asks for them lane by lane, in order.
func (l *Log) Purge(scope string, now int64, deleted func(logledger.Place) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, lane := range l.scopes[scope] {
		for epoch, items := range lane.epochs {
			for index := range items {
				at := logledger.Place{LaneID: logledger.LaneID{Scope: scope, Lane: n}, Epoch: epoch, Index: index}
				if c := &items[index]; c.exists && !c.deleted && c.purgeAt < now && deleted(at) {
					c.deleted = true
				}
			}
		}
	}
}

// PurgeEpochs deletes the chain rows of a scope's epochs that are past their purge time, which no storage may do.
func (l *Log) PurgeEpochs(scope string, now int64, deleted func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range l.scopes[scope] {
		for n := range lane.chain {
			if row := &lane.chain[n]; row.exists && row.PurgeAt() < now && deleted() {
				row.deleted = true
			}
		}
	}
}
