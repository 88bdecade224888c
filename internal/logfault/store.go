package logfault

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// store is the storage of a scope. Its reads are consistent. It remembers deleted items.
type store struct {
	lanes   [mostLanes]laneStore
	appends int
	refill  *logledger.Place // rows were appended where an item had been deleted
}

const mostLanes = 3

type laneStore struct {
	chain  []chainRow
	epochs []epochStore
}

type chainRow struct {
	logledger.Epoch
	exists, deleted bool
}

type epochStore []cell

// cell is the place of one item.
type cell struct {
	data            []byte
	seal            []byte // a seal that was put after the item had been deleted
	purgeAt         int64
	order           int // the number of items that had been appended, including this one
	exists, deleted bool
}

func grown[T any](all []T, n int) []T {
	if n < len(all) {
		return all
	}
	return append(all, make([]T, n+1-len(all))...)
}

func (s *store) putEpoch(lane int, e logledger.Epoch) (existing *logledger.Epoch) {
	l := &s.lanes[lane]
	l.chain = grown(l.chain, e.Number)
	row := &l.chain[e.Number]
	if row.exists && !row.deleted {
		existing := row.Epoch
		return &existing
	}
	*row = chainRow{e, true, false}
	return nil
}

// lanesOfScope returns the number of lanes in the first chain row, or 0 without such a row.
func (s *store) lanesOfScope() int {
	if len(s.lanes[0].chain) == 0 {
		return 0
	}
	return s.lanes[0].chain[0].Lanes
}

func (s *store) cell(at logledger.Place) *cell {
	l := &s.lanes[at.Lane]
	l.epochs = grown(l.epochs, at.Epoch)
	l.epochs[at.Epoch] = grown(l.epochs[at.Epoch], at.Index)
	return &l.epochs[at.Epoch][at.Index]
}

func (s *store) append(at logledger.Place, data []byte, purgeAt int64) (existing []byte) {
	c := s.cell(at)
	switch {
	case c.seal != nil:
		return c.seal
	case c.exists && !c.deleted:
		return c.data
	case c.deleted && isSeal(data):
		c.seal = data // harmless: the entries of this epoch no longer count
	case c.deleted:
		s.refill = &at
		s.put(c, data, purgeAt)
	default:
		s.put(c, data, purgeAt)
	}
	return nil
}

// isSeal reports whether an item is a seal.
func isSeal(data []byte) bool { return data[1] == 's' }

// These are the sizes of the parts of items, in bytes.
const (
	headerSize = 98
	rowSize    = 26
)

// rowsOf returns the number of rows of an item.
func rowsOf(data []byte) int { return (len(data) - headerSize) / rowSize }

func (s *store) put(c *cell, data []byte, purgeAt int64) {
	s.appends++
	*c = cell{data: data, purgeAt: purgeAt, order: s.appends, exists: true}
}

// purge deletes items past their purge time, if deleted returns true for them.
func (s *store) purge(now time.Time, deleted func() bool) {
	for n := range s.lanes {
		for _, items := range s.lanes[n].epochs {
			for i := range items {
				if c := &items[i]; c.exists && !c.deleted && c.purgeAt < now.Unix() && deleted() {
					c.deleted = true
				}
			}
		}
	}
}

// view is the store as a logledger.Storage for reading only.
type view struct {
	*store
	deleted bool // the view includes deleted items
}

var errReadOnly = errors.New("this storage is only read")

func (v view) Epochs(_ context.Context, lane logledger.LaneID, below, limit int) (page []logledger.Epoch, err error) {
	for _, row := range slices.Backward(v.lanes[lane.Lane].chain) {
		if row.exists && (v.deleted || !row.deleted) && row.Number < below && len(page) < limit {
			page = append(page, row.Epoch)
		}
	}
	return page, nil
}

func (v view) PutEpoch(context.Context, logledger.LaneID, logledger.Epoch) (*logledger.Epoch, error) {
	return nil, errReadOnly
}

func (v view) Append(context.Context, logledger.Place, []byte, int64) ([]byte, error) {
	return nil, errReadOnly
}

func (v view) Read(
	_ context.Context, from logledger.Place, limit int, _ bool,
) (items []logledger.Item, more bool, err error) {
	epochs := v.lanes[from.Lane].epochs
	if from.Epoch >= len(epochs) || from.Index >= len(epochs[from.Epoch]) {
		return nil, false, nil
	}
	for n, c := range epochs[from.Epoch][from.Index:] {
		data := c.data
		if c.deleted && !v.deleted {
			data = c.seal
		}
		switch {
		case data == nil:
		case limit > 0 && len(items) == limit:
			return items, true, nil
		default:
			items = append(items, logledger.Item{Index: from.Index + n, Data: data})
		}
	}
	return items, false, nil
}
