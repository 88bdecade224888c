package logledger

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// lane is what this process knows of a lane: the entries of its last epochs, up to an item of the last one. Other
// processes append as well; what they have appended since then is read when it is needed.
type lane struct {
	LaneID
	ledger *Ledger
	turn   chan struct{} // has room for the one call that works on the lane

	// epochs are the last ones, without gaps, and their entries are in memory. If there are none, nothing is.
	epochs []Epoch
	rows   []int // how many entries each of epochs has in memory
	// floor is the least arrival that can be decided: no epoch before the first of epochs counts for it.
	floor int64
	// complete is the least arrival for which all items of epochs are in memory that count for it.
	complete int64
	// next is the index behind the last item of the last epoch that was read, or appended by this process.
	next   int
	sealed bool // the item before next is the seal
	// alone says that no other process had appended anything when the lane was last read. Then it is not read before each
	// decision: if another process appends meanwhile, the next append finds its item.
	alone bool
	// raced says that another process has appended since the run that is being entered was first decided.
	raced bool

	entries table
	items   heldItems
	// wanted is the least arrival of the records that are being entered. Epochs that do not count for it may be evicted.
	wanted int64
	opened map[ref]item // items whose tags were read for these records

	counting atomic.Int64 // bytes of the entries that count for what was wanted last, for Stats
}

// beginning is before all arrivals.
const beginning = math.MinInt64

// lock waits for the call before.
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

// tryLock locks the lane if no call works on it.
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

// prepare makes the memory complete for the arrivals that are wanted, up to the end of the log at some time.
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

// load begins with the last epoch, if there is one. It always counts, up to its end: an entry near an arrival may have
// been appended at any later time.
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

// loadEarlier reads the epochs before those in memory that count for what is wanted, from the last one back. After an
// error those that were read stay, so that a load that takes longer than a call goes on in the next one.
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

// chainPage is how many chain rows are read at a time.
const chainPage = 64

// epochsBefore returns the epochs below a number that count for an arrival, in order, and at least one if there is any.
// The floor is the least arrival for which no earlier one counts.
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

// readSealed reads an epoch whose seal has this index. An item that is missing is an error, and not the end.
func (l *lane) readSealed(ctx context.Context, e Epoch, seal int) (rows int, err error) {
	consistent := false
	for next := 0; next <= seal; {
		items, _, err := l.ledger.storage.Read(ctx, l.place(e.Number, next), 0, consistent)
		if err != nil {
			return rows, err
		}
		items = inSequence(items, next)
		if len(items) == 0 && consistent {
			return rows, l.purged(e, next)
		}
		consistent = len(items) == 0
		for _, i := range items {
			it, err := l.decode(i)
			if err != nil {
				return rows, err
			}
			if it.seal != (i.Index == seal) {
				return rows, l.purged(e, i.Index)
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

// inSequence returns the items from an index on, up to the first one that is missing: it may have been appended, and the
// read was too early for it.
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

// muchToRead is more than the answer of a read that takes no longer than an empty one.
const muchToRead = 16 << 10 // bytes

// catchUp reads what was appended since the lane was last read. While it reads much, others append: so it reads again,
// consistently. A read costs much less than an append that fails.
func (l *lane) catchUp(ctx context.Context, consistent bool) error {
	l.alone = false
	for total := 0; ; {
		if l.sealed {
			next, err := l.following(ctx)
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

// current reports whether nothing was appended since the lane was last read. Otherwise the records are to be decided
// again: a record whose fingerprint has changed may have a row there, and is not the duplicate that it seems to be.
func (l *lane) current(ctx context.Context) (bool, error) {
	epoch, next := l.last().Number, l.next
	if err := l.catchUp(ctx, true); err != nil {
		return false, err
	}
	return len(l.epochs) > 0 && l.last().Number == epoch && l.next == next, nil
}

// apply takes items of the last epoch into memory, and returns how many.
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

// following returns the epoch after the last one, if it has begun.
func (l *lane) following(ctx context.Context) (*Epoch, error) {
	number := l.last().Number + 1
	page, err := l.ledger.storage.Epochs(ctx, l.LaneID, number+1, 1)
	if err != nil || len(page) == 0 || page[0].Number != number {
		return nil, err
	}
	return &page[0], l.ledger.check(l.LaneID, page[0])
}

// begin goes on to the next epoch.
func (l *lane) begin(e Epoch) {
	l.epochs, l.rows = append(l.epochs, e), append(l.rows, 0)
	l.next, l.sealed = 0, false
}

// append appends an item. If it is not done and there is no error, the records are to be decided again: another process
// has appended, or an epoch has begun.
func (l *lane) append(ctx context.Context, it item, keep dedupe.Retention) (done bool, err error) {
	if len(l.epochs) == 0 {
		return false, l.found(ctx, it.at, keep)
	}
	last := l.last()
	if l.sealed || it.at.greatest >= last.Ends || keep.Window > last.Window || keep.Horizon > last.Horizon {
		return false, l.roll(ctx, it.at.greatest, keep)
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

// put is the fence: one item for each index. If the place is taken, the item there is taken into memory.
func (l *lane) put(ctx context.Context, it item) (done bool, err error) {
	last, data := l.last(), it.encode()
	existing, err := l.ledger.storage.Append(ctx, l.place(last.Number, l.next), data, last.PurgeAt())
	l.ledger.counts.appended(l.Lane, len(data))
	switch {
	case err != nil:
		l.alone = false
		return false, err
	case existing == nil, bytes.Equal(existing, data): // equal: a reply was lost, and the client has sent it again
		return true, nil
	}
	l.alone, l.raced = false, true
	l.ledger.counts.conflicts.Add(1)
	_, err = l.apply([]Item{{l.next, existing}})
	return false, err
}

// found begins the first epoch. Lane 0 has one first, since it says how many lanes the scope has.
func (l *lane) found(ctx context.Context, at arrivals, keep dedupe.Retention) error {
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

// roll ends the last epoch and begins the next one, unless another process does.
func (l *lane) roll(ctx context.Context, greatest int64, keep dedupe.Retention) error {
	last := l.last()
	begun, err := l.following(ctx) // before the seal is searched: it is put before the next epoch begins
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
		l.alone = false // the lane is read before it is decided again
		return err
	}
	l.begin(next)
	return nil
}

// skip passes over the last epoch, whose next items are purged although the following epoch has begun. If it counts for
// what is wanted, that is an error. Otherwise the lane is loaded again, from the first epoch that counts.
func (l *lane) skip() error {
	if last := l.last(); last.Until > l.wanted {
		return l.purged(last, l.next)
	}
	l.forget()
	return nil
}
