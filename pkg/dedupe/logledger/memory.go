package logledger

import (
	"context"
	"slices"
	"time"
)

// hold adds the entries of an item to the memory.
func (l *lane) hold(e Epoch, index int, it item) error {
	if len(it.rows) == 0 {
		return nil
	}
	if err := l.makeRoom(len(it.rows)); err != nil {
		return err
	}
	window := e.Window.Milliseconds()
	r := l.items.add(held{
		since: it.at.least - window, until: it.at.greatest + window,
		epoch: int32(e.Number), index: int32(index), span: it.span,
	})
	l.account(func() {
		for n, row := range it.rows {
			if n == it.plain {
				r |= derivedMark
			}
			l.entries.add(row.key, row.content, r)
		}
	})
	return nil
}

// read reads an item of which the entries are in memory again from the storage, with its tags.
func (l *lane) read(ctx context.Context, h *held) (item, error) {
	epoch, index := int(h.epoch), int(h.index)
	for _, consistent := range []bool{false, true} {
		items, _, err := l.ledger.storage.Read(ctx, l.place(epoch, index), 1, consistent)
		if err != nil {
			return item{}, err
		}
		if items = inSequence(items, index); len(items) > 0 {
			return l.decode(items[0])
		}
	}
	return item{}, l.purgedError(l.epochs[epoch-l.epochs[0].Number], index)
}

// makeRoom makes room for an item with a number of entries. If the memory is full, it first drops whole epochs that
// do not count for the wanted arrivals, and then items that do not count. If that is not enough, it returns an error
// with the numbers. All entries that count are still in memory.
func (l *lane) makeRoom(rows int) error {
	for _, drop := range []func(){func() { l.evict(rows) }, l.evictItems, nil} {
		if l.hasRoom(rows) {
			return nil
		}
		if drop != nil {
			drop()
		}
	}
	return l.memoryError(rows)
}

// hasRoom takes memory for an item with a number of entries. It reports whether there was enough.
func (l *lane) hasRoom(rows int) bool {
	if l.items.needsPage() {
		if !l.ledger.memory.take(heldPageItems * heldSize) {
			return false
		}
		l.items.grow()
	}
	least, usual := l.entries.pagesNeeded(rows)
	for _, pages := range []int{usual, least} {
		if pages == 0 {
			return true
		}
		if l.ledger.memory.take(pages * pageSize) {
			l.entries.grow(pages)
			return true
		}
	}
	return false
}

// evict drops the entries of the oldest epochs that do not count for the wanted arrivals. It drops enough epochs for
// the new entries, and at least an eighth of all entries, because it goes through all of them.
func (l *lane) evict(rows int) {
	freed, n := 0, 0
	for n < len(l.epochs)-1 && l.epochs[n].Until <= l.wanted && freed < max(rows, l.entries.count/8) {
		freed += l.rows[n]
		n++
	}
	l.dropEpochs(n)
}

// dropEpochs drops the entries of the oldest epochs.
func (l *lane) dropEpochs(n int) {
	if n == 0 {
		return
	}
	l.floor = l.epochs[n-1].Until
	l.epochs, l.rows = l.epochs[n:], l.rows[n:]
	first := l.epochs[0].Number
	l.drop(func(h *held) bool { return int(h.epoch) < first })
	l.ledger.counts.evictions.Add(1)
}

// evictItems drops the items of late batches, which do not count for the wanted arrivals although their epochs do.
// The memory is then complete for the wanted arrivals, and for arrivals a little earlier.
func (l *lane) evictItems() {
	complete := l.wanted - epochLength(l.last().Window).Milliseconds()
	l.drop(func(h *held) bool { return h.until < complete })
	l.complete = max(l.complete, complete)
	clear(l.rows)
	l.entries.walk(func(s *slot) {
		if n := int(l.items.at(s.ref).epoch) - l.epochs[0].Number; n >= 0 { // below 0: the epoch is being loaded
			l.rows[n]++
		}
	})
	l.ledger.counts.evictions.Add(1)
}

// drop drops the items for which dropped returns true, with their entries.
func (l *lane) drop(dropped func(*held) bool) {
	clear(l.opened)
	l.account(func() {
		l.entries.drop(func(r ref) bool { return dropped(l.items.at(r)) })
		l.items.drop(dropped)
	})
}

// giveBack drops the epochs that do not count for arrivals from this one on, and releases the memory that the others
// do not need.
func (l *lane) giveBack(arrival int64) {
	n := slices.IndexFunc(l.epochs, func(e Epoch) bool { return e.Until > arrival })
	if n < 0 {
		l.forget()
		return
	}
	l.dropEpochs(n)
	clear(l.opened)
	l.account(func() { l.entries.shrink(l.items.shrink()) })
}

// forget empties the memory of the lane.
func (l *lane) forget() {
	l.account(func() { l.entries, l.items = table{}, heldItems{} })
	l.epochs, l.rows, l.alone = nil, nil, false
	l.counting.Store(0)
	clear(l.opened)
}

// account adjusts the budget by the memory that work takes or releases.
func (l *lane) account(work func()) {
	before := l.bytes()
	work()
	l.ledger.memory.add(l.bytes() - before)
}

func (l *lane) bytes() int {
	return len(l.entries.pages)*pageSize + len(l.items.pages)*heldPageItems*heldSize
}

// memoryError returns the MemoryError of the lane.
func (l *lane) memoryError(rows int) error {
	l.noteCounting(rows)
	return &MemoryError{
		LaneID: l.LaneID, Entries: l.entries.count, More: rows, Since: time.UnixMilli(l.wanted).UTC(),
		Used: l.ledger.memory.used.Load(), Limit: l.ledger.memory.limit,
	}
}
