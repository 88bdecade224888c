package logledger

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// lane is the state of a lane in this process: the entries of its last epochs, up to some item of the last epoch. Other
// processes append too. Items that they have appended since are read when they are needed.
type lane struct {
	LaneID
	ledger *Ledger
	turn   chan struct{} // has room for one element: only one call at a time works on the lane

	// epochs are the last epochs, without gaps. Their entries are in memory. If it is empty, no entries are.
	epochs []Epoch
	rows   []int // by epoch in epochs: the number of its entries in memory
	// floor is the earliest arrival that can be decided: no epoch before the first of epochs counts for it.
	floor int64
	// complete is the earliest arrival for which all items of epochs that count are in memory.
	complete int64
	// next is the index after the last item of the last epoch that this process has read or appended.
	next   int
	sealed bool // the item before next is the seal
	// alone says that no other process had appended anything when the lane was last read. The lane is then not read
	// before each decision: if another process appends meanwhile, the next append finds its item.
	alone bool
	// raced says that another process has appended since the present run was first decided.
	raced bool

	entries table
	items   heldItems
	// wanted is the earliest arrival of the records that are being entered. Epochs that do not count for it may be
	// evicted.
	wanted int64
	opened map[ref]item // items whose tags were read for the present records

	counting atomic.Int64 // bytes of the entries that count for the last wanted arrival, for Stats
}

// beginning is an arrival before all others.
const beginning = math.MinInt64

// lock waits until no other call works on the lane.
func (l *lane) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryLock locks the lane if no other call works on it.
func (l *lane) tryLock() bool {
	select {
	case l.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *lane) unlock() { <-l.turn }

func (l *lane) last() Epoch { return l.epochs[len(l.epochs)-1] }

func (l *lane) place(epoch, index int) Place { return Place{l.LaneID, epoch, index} }

// prepare loads all entries that count for the wanted arrivals, up to an item that was the end of the log meanwhile.
func (l *lane) prepare(ctx context.Context) error {
	if l.wanted < l.complete {
		l.forget()
	}
	if len(l.epochs) == 0 {
		if err := l.load(ctx); err != nil || len(l.epochs) == 0 {
			return err
		}
	}
	if l.wanted < l.floor {
		if err := l.loadEarlier(ctx); err != nil {
			return err
		}
	}
	if l.alone {
		return nil
	}
	return l.catchUp(ctx, l.raced)
}

// load begins with the last epoch, if there is one. The last epoch always counts, up to its end: an entry with any
// arrival may have been appended at any later time.
func (l *lane) load(ctx context.Context) error {
	epochs, floor, err := l.epochsBefore(ctx, math.MaxInt32, math.MaxInt64)
	if err != nil || len(epochs) == 0 {
		return err
	}
	l.ledger.counts.loads.Add(1)
	l.epochs, l.rows, l.floor, l.complete = epochs, []int{0}, floor, beginning
	l.next, l.sealed, l.alone = 0, false, false
	return nil
}

// loadEarlier reads, from the latest back, the epochs before those in memory that count for the wanted arrivals.
// After an error it keeps the epochs that it has read, so that a load that takes longer than a call continues in the
// next call.
func (l *lane) loadEarlier(ctx context.Context) error {
	epochs, floor, err := l.epochsBefore(ctx, l.epochs[0].Number, l.wanted)
	if err != nil {
		return err
	}
	l.ledger.counts.loads.Add(1)
	for i, e := range slices.Backward(epochs) {
		rows, err := l.readSealed(ctx, e, l.epochs[0].Sealed)
		if err != nil {
			l.drop(func(h *held) bool { return int(h.epoch) == e.Number })
			return err
		}
		l.epochs, l.rows = slices.Insert(l.epochs, 0, e), slices.Insert(l.rows, 0, rows)
		if l.floor = floor; i > 0 {
			l.floor = epochs[i-1].Until
		}
	}
	return nil
}

// chainPage is the number of chain rows in one read.
const chainPage = 64

// epochsBefore returns the epochs with numbers below below that count for an arrival, in order. It returns at least
// one if there is any. floor is the earliest arrival for which no epoch before these counts.
func (l *lane) epochsBefore(ctx context.Context, below int, arrival int64) (epochs []Epoch, floor int64, err error) {
	for {
		page, err := l.ledger.storage.Epochs(ctx, l.LaneID, below, chainPage)
		if err != nil {
			return nil, 0, err
		}
		for _, e := range page {
			if err := l.ledger.check(l.LaneID, e); err != nil {
				return nil, 0, err
			}
			if len(epochs) > 0 && e.Until <= arrival {
				slices.Reverse(epochs)
				return epochs, e.Until, nil
			}
			epochs, below = append(epochs, e), e.Number
		}
		if len(page) < chainPage {
			slices.Reverse(epochs)
			return epochs, beginning, nil
		}
	}
}

// readSealed reads an epoch whose seal has this index. A missing item is an error, not the end.
func (l *lane) readSealed(ctx context.Context, e Epoch, seal int) (rows int, err error) {
	consistent := false
	for next := 0; next <= seal; {
		items, _, err := l.ledger.storage.Read(ctx, l.place(e.Number, next), 0, consistent)
		if err != nil {
			return rows, err
		}
		items = inSequence(items, next)
		if len(items) == 0 && consistent {
			return rows, l.purgedError(e, next)
		}
		consistent = len(items) == 0
		for _, i := range items {
			it, err := l.decode(i)
			if err != nil {
				return rows, err
			}
			if it.seal != (i.Index == seal) {
				return rows, l.purgedError(e, i.Index)
			}
			if next = i.Index + 1; it.seal {
				return rows, nil
			}
			if err := l.hold(e, i.Index, it); err != nil {
				return rows, err
			}
			rows += len(it.rows)
		}
	}
	return rows, nil
}

// inSequence returns the items from index next on, up to the first missing one. That item may exist although this read
// missed it.
func inSequence(items []Item, next int) []Item {
	for n := range items {
		if items[n].Index != next+n {
			return items[:n]
		}
	}
	return items
}

func (l *lane) decode(i Item) (item, error) {
	l.ledger.counts.itemsRead.Add(1)
	return decode(i.Data)
}

// muchToRead is a size in bytes. An answer up to this size takes no longer than an empty one.
const muchToRead = 16 << 10

// catchUp reads the items that were appended since the lane was last read. If it reads much, other processes are
// probably appending meanwhile, so it reads again, consistently. A read costs much less than an append that fails.
func (l *lane) catchUp(ctx context.Context, consistent bool) error {
	l.alone = false
	for total := 0; ; {
		if l.sealed {
			next, err := l.nextEpoch(ctx)
			if err != nil || next == nil {
				return err
			}
			if next.Sealed != l.next-1 {
				return l.skip()
			}
			l.begin(*next)
		}
		items, more, err := l.ledger.storage.Read(ctx, l.place(l.last().Number, l.next), 0, consistent)
		if err != nil {
			return err
		}
		read, err := l.apply(items)
		if err != nil {
			return err
		}
		much := sizeOf(items) > muchToRead
		consistent = consistent || much && !more
		if total += read; read == 0 || !more && !much && !l.sealed {
			l.alone = total == 0 && !l.raced
			return nil
		}
	}
}

func sizeOf(items []Item) (bytes int) {
	for _, i := range items {
		bytes += len(i.Data)
	}
	return bytes
}

// current reports whether nothing was appended since the lane was last read. If something was, the records have to be
// decided again: a record whose fingerprint has changed may have a row there, and may only look like a duplicate.
func (l *lane) current(ctx context.Context) (bool, error) {
	epoch, next := l.last().Number, l.next
	if err := l.catchUp(ctx, true); err != nil {
		return false, err
	}
	return len(l.epochs) > 0 && l.last().Number == epoch && l.next == next, nil
}

// apply adds items of the last epoch to the memory, and returns how many.
func (l *lane) apply(items []Item) (read int, err error) {
	for _, i := range inSequence(items, l.next) {
		it, err := l.decode(i)
		if err != nil {
			return read, err
		}
		if err := l.hold(l.last(), i.Index, it); err != nil {
			return read, err
		}
		l.rows[len(l.rows)-1] += len(it.rows)
		l.next++
		read++
		if it.seal {
			l.sealed = true
			return read, nil
		}
	}
	return read, nil
}

// nextEpoch reads the epoch after the last one. It returns nil if that has not begun.
func (l *lane) nextEpoch(ctx context.Context) (*Epoch, error) {
	number := l.last().Number + 1
	page, err := l.ledger.storage.Epochs(ctx, l.LaneID, number+1, 1)
	if err != nil || len(page) == 0 || page[0].Number != number {
		return nil, err
	}
	return &page[0], l.ledger.check(l.LaneID, page[0])
}

// begin makes e the last epoch.
func (l *lane) begin(e Epoch) {
	l.epochs, l.rows = append(l.epochs, e), append(l.rows, 0)
	l.next, l.sealed = 0, false
}

// append appends an item. If it returns neither done nor an error, another process has appended or a new epoch has
// begun, and the records have to be decided again.
func (l *lane) append(ctx context.Context, it item, keep dedupe.Retention) (done bool, err error) {
	if len(l.epochs) == 0 {
		return false, l.createLog(ctx, it.at, keep)
	}
	last := l.last()
	if l.sealed || it.at.greatest >= last.Ends || keep.Window > last.Window || keep.Horizon > last.Horizon {
		return false, l.rollEpoch(ctx, it.at.greatest, keep)
	}
	if err := l.makeRoom(len(it.rows)); err != nil {
		return false, err
	}
	if done, err = l.put(ctx, it); !done {
		return false, err
	}
	l.rows[len(l.rows)-1] += len(it.rows)
	l.next++
	return true, l.hold(last, l.next-1, it)
}

// put is the fence: each index takes one item. If another item has the index, put adds that item to the memory.
func (l *lane) put(ctx context.Context, it item) (done bool, err error) {
	last, data := l.last(), it.encode()
	existing, err := l.ledger.storage.Append(ctx, l.place(last.Number, l.next), data, last.PurgeAt())
	l.ledger.counts.appended(l.Lane, len(data))
	switch {
	case err != nil:
		l.alone = false
		return false, err
	case existing == nil, bytes.Equal(existing, data): // equal if the client sent the item again after a lost reply
		return true, nil
	}
	l.alone, l.raced = false, true
	l.ledger.counts.conflicts.Add(1)
	_, err = l.apply([]Item{{l.next, existing}})
	return false, err
}

// createLog begins the first epoch. It first does so for lane 0, which says how many lanes the scope has.
func (l *lane) createLog(ctx context.Context, at arrivals, keep dedupe.Retention) error {
	e := l.ledger.epochAfter(nil, 0, at, keep)
	for _, n := range slices.Compact([]int{0, l.Lane}) {
		existing, err := l.ledger.storage.PutEpoch(ctx, LaneID{l.Scope, n}, e)
		if err != nil {
			return err
		}
		if existing == nil {
			continue
		}
		if err := l.ledger.check(LaneID{l.Scope, n}, *existing); err != nil {
			return err
		}
	}
	return nil
}

// rollEpoch ends the last epoch and begins the next one, unless another process does it.
func (l *lane) rollEpoch(ctx context.Context, greatest int64, keep dedupe.Retention) error {
	last := l.last()
	begun, err := l.nextEpoch(ctx) // before the search for the seal, because the seal is put before the next epoch begins
	if err != nil {
		return err
	}
	if err := l.catchUp(ctx, true); err != nil || len(l.epochs) == 0 || l.last().Number != last.Number {
		return err
	}
	if !l.sealed {
		if begun != nil {
			return l.skip()
		}
		if done, err := l.put(ctx, item{seal: true, nonce: l.ledger.nonce()}); !done {
			return err
		}
		l.next++
		l.sealed = true
	}
	next := l.ledger.epochAfter(&last, l.next-1, arrivals{greatest, greatest}, keep)
	existing, err := l.ledger.storage.PutEpoch(ctx, l.LaneID, next)
	if err != nil || existing != nil {
		l.alone = false // so that the lane is read before the next decision
		return err
	}
	l.begin(next)
	return nil
}

// skip abandons the last epoch, whose next items are purged although the following epoch has begun. If the last epoch
// counts for the wanted arrivals, skip returns an error. Otherwise the lane is loaded again, from the first epoch
// that counts.
func (l *lane) skip() error {
	if last := l.last(); last.Until > l.wanted {
		return l.purgedError(last, l.next)
	}
	l.forget()
	return nil
}
