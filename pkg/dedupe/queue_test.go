package dedupe_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var queueCases = []testCase{
	{"queue/done-once", queueDoneOnce},
	{"queue/in-progress", queueInProgress},
	{"queue/copy-behind-its-original", queueCopyBehind},
	{"queue/mark-that-fails", queueMarkFails},
	{"queue/taken-over-meanwhile", queueTakenOver},
	{"queue/stands-still-past-its-lease", queueStandsStill},
	{"queue/entries-of-others", queueEntriesOfOthers},
	{"queue/purge-time-of-a-take-over", queuePurgeTime},
	{"queue/key-that-is-free-again", queueKeyFreeAgain},
	{"queue/dead-letters", queueDeadLetters},
	{"queue/off", queueOff},
	{"queue/engine-without-a-time", queueNoTime},
	{"queue/time-that-is-read-again", queueTimeAgain},
}

// lease is longer than the lease of a batch whose context has no deadline.
const lease = 16 * time.Minute

func (b *bench) queue(o dedupe.Order, records ...dedupe.Record) dedupe.Result {
	b.acks = true
	return b.processor().Process(b.ctx, dedupe.Batch{Stream: stream, Order: o, Queue: true, Records: records})
}

// queueDone processes messages of a standard queue, and fails the test unless all are done.
func (b *bench) queueDone(want dedupe.Tally, records ...dedupe.Record) {
	b.Helper()
	r := b.queue(dedupe.None, records...)
	if r.Err != nil {
		b.Fatalf("%v", r.Err)
	}
	b.wantTally(r.Tally, want)
}

// queueFails processes messages of a standard queue, and fails the test unless these are not done, with this error; nil:
// with any error.
func (b *bench) queueFails(want error, undone []string, records ...dedupe.Record) {
	b.Helper()
	r := b.queue(dedupe.None, records...)
	if want = cmp.Or(want, r.Err); r.Err == nil || !errors.Is(r.Err, want) || !slices.Equal(r.Undone, undone) {
		b.Errorf("want %v undone with %v, got %v with %v", undone, want, r.Undone, r.Err)
	}
}

// msg is message n of the queue, which arrived at the epoch.
func msg(n int, id, fp string) dedupe.Record { return queued(fmt.Sprint("m-", n), rec(n, id, fp)) }

var errLater = errors.New("not now")

// queueDoneOnce: a message that is done is not sent again, and a copy of it is dropped, also under a derived id. It
// costs two writes.
func queueDoneOnce(f *fixture) {
	for _, o := range []dedupe.Order{dedupe.None, dedupe.AsGiven} {
		b := f.bench()
		ay := format.DerivedID("a", "y")
		r := b.queue(o, msg(1, "a", "x"), msg(2, "a", "y"), msg(3, "a", "x"))
		b.must(r.Err)
		b.wantTally(r.Tally, dedupe.Tally{In: 3, New: 1, Synthetic: 1, Natural: 1, Out: 2})
		b.clock.now = b.clock.now.Add(lease)
		r = b.queue(o, msg(2, "a", "y"), msg(4, "a", "y"), msg(1, "a", "x"))
		b.must(r.Err)
		b.wantTally(r.Tally, dedupe.Tally{In: 3, Skipped: 2, Natural: 1})
		b.wantDelivered(delivery{"a", 1}, delivery{ay, 2})
		if n := b.calls[dedupefault.Finish]; n != 1 || b.calls[dedupefault.TakeOver] > 0 {
			b.Errorf("%d calls to mark, and %d to take over", n, b.calls[dedupefault.TakeOver])
		}
	}
}

// queueInProgress: a message that another run has in progress comes again, and so does a copy. After the lease the
// first of them takes it over, and the others are its copies.
func queueInProgress(f *fixture) {
	b := f.bench()
	b.sink.answers = map[int]error{1: errLater}
	b.queueFails(errLater, []string{"m-1"}, msg(1, "a", "x"), msg(2, "b", "x"))
	b.sink.answers = nil
	b.queueFails(dedupe.ErrInWork, []string{"m-1", "m-3"}, msg(1, "a", "x"), msg(3, "a", "x"), msg(2, "b", "x"))
	for _, chunk := range []int{1, 500} { // that is no failure, and hides none
		b.settings.Chunk = chunk
		n := 10 + chunk
		b.sink.answers = map[int]error{n: errLater}
		b.queueFails(errLater, []string{"m-1", fmt.Sprint("m-", n)}, msg(1, "a", "x"), msg(n, fmt.Sprint(n), "x"))
	}
	b.sink.answers = nil
	r := b.queue(dedupe.AsGiven, msg(4, "c", "x"), msg(3, "a", "x"), msg(5, "d", "x"))
	if r.Failed != "m-3" || r.Done != 1 {
		b.Errorf("failed at %s: %v", r.Failed, r.Err)
	}
	// A reply that takes long says only that the lease was not over when it was sent.
	b.clock.now = b.clock.now.Add(14*time.Minute + 20*time.Second)
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.PutIfAbsent {
			b.clock.now = b.clock.now.Add(30 * time.Second)
		}
		return c.Do(ctx)
	}
	b.queueFails(dedupe.ErrInWork, []string{"m-3"}, msg(3, "a", "x"))
	b.hook = nil
	b.wantDelivered(delivery{"b", 2}, delivery{"c", 4})
	b.clock.now = b.clock.now.Add(lease)
	b.queueDone(dedupe.Tally{In: 1, Retry: 1, Out: 1}, msg(3, "a", "x"))
	b.queueDone(dedupe.Tally{In: 3, Natural: 1, Skipped: 1, Retry: 1, Out: 1},
		msg(1, "a", "x"), msg(3, "a", "x"), msg(5, "d", "x"))
	b.wantDelivered(delivery{"b", 2}, delivery{"c", 4}, delivery{"a", 3}, delivery{"d", 5})
}

// queueCopyBehind: a copy in the same batch is done with its original, and comes again with it.
func queueCopyBehind(f *fixture) {
	for _, chunk := range []int{1, 2, 500} {
		b := f.bench()
		b.settings.Chunk = chunk
		b.sink.answers = map[int]error{1: errLater}
		b.queueFails(errLater, []string{"m-1", "m-2"}, msg(1, "a", "x"), msg(2, "a", "x"), msg(3, "b", "x"))
		b.sink.answers = nil
		b.clock.now = b.clock.now.Add(lease)
		b.queueDone(dedupe.Tally{In: 2, Retry: 1, Natural: 1, Out: 1}, msg(1, "a", "x"), msg(2, "a", "x"))
		b.wantDelivered(delivery{"b", 3}, delivery{"a", 1})
	}
}

// queueMarkFails: a message whose mark is not stored is not done. A mark is tried again.
func queueMarkFails(f *fixture) {
	for name, fails := range map[string]dedupefault.Hook{
		"before":   failBefore(dedupefault.Finish, dedupe.ErrTryAgain),
		"after":    failAfter(dedupefault.Finish, dedupe.ErrTryAgain),
		"for good": failBefore(dedupefault.Finish, errCrash),
	} {
		b := f.bench()
		b.hook = fails
		b.queueFails(nil, []string{"m-1"}, msg(1, "a", "x"))
		if tried := b.calls[dedupefault.Finish]; (tried > 1) != (name != "for good") {
			b.Errorf("%s: a mark was tried %d times", name, tried)
		}
		b.hook = nil
		b.clock.now = b.clock.now.Add(lease)
		want := dedupe.Tally{In: 1, Retry: 1, Out: 1}
		if name == "after" { // it was stored
			want = dedupe.Tally{In: 1, Skipped: 1}
		}
		b.queueDone(want, msg(1, "a", "x"))
		calls := b.calls[dedupefault.Finish]
		b.hook = func(ctx context.Context, c *dedupefault.Call) error {
			if c.Method == dedupefault.Finish && b.calls[dedupefault.Finish] == calls+1 {
				return dedupe.ErrTryAgain
			}
			return c.Do(ctx)
		}
		b.queueDone(dedupe.Tally{In: 1, New: 1, Out: 1}, msg(2, "b", "x"))
	}
}

// queueTakenOver: a run that another one has taken over is not done. What the other one has marked stays.
func queueTakenOver(f *fixture) {
	b := f.bench()
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.Send && c.Outputs[0].ID == "a" && len(b.sink.got) == 0 {
			err := c.Do(ctx)
			b.clock.now = b.clock.now.Add(lease)
			b.queueDone(dedupe.Tally{In: 1, Retry: 1, Out: 1}, msg(2, "a", "x"))
			return err
		}
		return c.Do(ctx)
	}
	b.queueFails(dedupe.ErrTryAgain, []string{"m-1"}, msg(1, "a", "x"))
	b.queueDone(dedupe.Tally{In: 2, Natural: 1, Skipped: 1}, msg(1, "a", "x"), msg(2, "a", "x"))
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 2}) // a process that stands still can send after its lease
}

// queueStandsStill: nothing is sent after the lease.
func queueStandsStill(f *fixture) {
	b := f.bench()
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		err := c.Do(ctx)
		if c.Method == dedupefault.PutIfAbsent {
			b.clock.now = b.clock.now.Add(lease)
		}
		return err
	}
	b.queueFails(dedupe.ErrTryAgain, []string{"m-1"}, msg(1, "a", "x"))
	b.wantDelivered()
}

// queueEntriesOfOthers: of an entry that no queue has made it is not known whether it is done. The record that holds it
// is sent again, and then marked. A copy of it is dropped.
func queueEntriesOfOthers(f *fixture) {
	b := f.bench()
	r := b.processOrder(dedupe.None, msg(1, "a", "x"))
	b.must(r.Err)
	b.queueDone(dedupe.Tally{In: 1, Natural: 1}, msg(2, "a", "x"))
	b.queueDone(dedupe.Tally{In: 1, Retry: 1, Out: 1}, msg(1, "a", "x"))
	b.queueDone(dedupe.Tally{In: 2, Skipped: 1, Natural: 1}, msg(1, "a", "x"), msg(2, "a", "x"))
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 1})

	// A stream in the same scope drops a copy of a message that is in progress.
	b.sink.answers = map[int]error{3: errLater}
	b.queueFails(errLater, []string{"m-3"}, msg(3, "b", "x"))
	b.wantTally(b.done(rec(4, "b", "x")), dedupe.Tally{In: 1, Natural: 1})
}

// queuePurgeTime: a take-over never lowers the purge time of an entry.
func queuePurgeTime(f *fixture) {
	for _, forward := range []bool{false, true} {
		b := f.bench()
		b.sink.answers = map[int]error{1: errLater, 2: errLater}
		early, late := msg(1, "a", "x"), msg(2, "a", "x")
		late.Arrival = epoch.Add(window / 2)
		first, second := late, early
		if forward {
			first, second = early, late
		}
		b.queueFails(errLater, []string{first.Sequence}, first)
		b.clock.now = b.clock.now.Add(lease)
		b.queueFails(errLater, []string{second.Sequence}, second)
		want := b.settings.Retention.PurgeAt(late.Arrival)
		e := b.entry("a", "asks", epoch)
		if got := b.put(e); got == nil || got.PurgeAt != want || got.Owner != (dedupe.Position{
			Stream: stream, Sequence: second.Sequence, Sub: dedupe.Plain,
		}).Owner().Digest() {
			b.Errorf("want an entry of %s until %d, got %+v", second.Sequence, want, got)
		}
	}
}

// queueKeyFreeAgain: a message takes the key of one that arrived before the horizon, in the same batch. What is done for
// that one says nothing about the later one and its copies.
func queueKeyFreeAgain(f *fixture) {
	for _, chunk := range []int{1, 500} {
		b := f.bench()
		b.settings.Chunk = chunk
		later, copied := msg(2, "a", "y"), msg(3, "a", "y")
		later.Arrival = epoch.Add(2 * window)
		copied.Arrival = later.Arrival
		b.sink.answers = map[int]error{2: errLater}
		r := b.queue(dedupe.None, msg(1, "a", "x"), later, copied)
		for _, m := range []dedupe.Record{later, copied} {
			if !slices.Contains(r.Undone, m.Sequence) {
				b.Errorf("%s is done: %v with %v", m.Sequence, r.Undone, r.Err)
			}
		}
		b.sink.answers = nil
		b.clock.now = b.clock.now.Add(lease)
		b.queueDone(dedupe.Tally{In: 2, Retry: 1, Natural: 1, Out: 1}, later, copied)
		b.wantDelivered(delivery{"a", 1}, delivery{"a", 2})
	}
}

// queueDeadLetters: a refused message is done with its letter, and not before. A message that cannot be read has no
// entry, and its letter is stored again.
func queueDeadLetters(f *fixture) {
	b := f.bench()
	b.sink.answers = map[int]error{1: &dedupe.PoisonError{Reason: "declined"}}
	poison := queued("m-2", rawRec(2, "poison"))
	b.hook = failBefore(dedupefault.PutDeadLetters, errCrash)
	b.queueFails(errCrash, []string{"m-1", "m-2"}, msg(1, "a", "x"), poison)
	b.hook = nil
	b.clock.now = b.clock.now.Add(lease)
	b.queueDone(dedupe.Tally{In: 2, DeadLettered: 2}, msg(1, "a", "x"), poison)
	b.queueDone(dedupe.Tally{In: 3, Skipped: 1, Natural: 1, DeadLettered: 1}, msg(1, "a", "x"), msg(3, "a", "x"), poison)
	b.wantDelivered()
}

// queueOff: without acks, with PassNatural, for a batch that is no queue and for dead letters, nothing is marked.
func queueOff(f *fixture) {
	b := f.bench()
	batch := dedupe.Batch{Stream: stream, Order: dedupe.None, Queue: true, Records: []dedupe.Record{msg(1, "a", "x")}}
	b.must(b.processor().Process(b.ctx, batch).Err) // without acks
	b.acks = true
	letter := dedupe.DeadLetter{
		Position: dedupe.Position{Stream: stream, Sequence: "m-2", Sub: dedupe.Plain},
		Arrival:  epoch, Data: payload(2, "b", "x"),
	}
	b.must(b.processor().Redrive(b.ctx, letter, "letter").Err)
	b.settings.PassNatural = true
	batch.Records = append(batch.Records, msg(3, "a", "x"))
	b.must(b.processor().Process(b.ctx, batch).Err)
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 2}, delivery{"a", 1}, delivery{"a", 3})
	if n := b.calls[dedupefault.Finish] + b.calls[dedupefault.ServerTime]; n > 0 {
		b.Errorf("%d calls of holds", n)
	}
}

// queueNoTime: an engine that does not say its time decides nothing about the entries of others.
func queueNoTime(f *fixture) {
	b := f.bench()
	b.sink.answers = map[int]error{1: errLater}
	b.queueFails(errLater, []string{"m-1"}, msg(1, "a", "x"))
	b.clock.now = b.clock.now.Add(lease)
	b.noDate = true
	b.queueFails(nil, []string{"m-1"}, msg(1, "a", "x"))
	b.wantDelivered()
}

// queueTimeAgain: the time is read again while the engine is busy. Without a time nothing is sent.
func queueTimeAgain(f *fixture) {
	b := f.bench()
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.ServerTime && b.calls[dedupefault.ServerTime] < 3 {
			b.clock.now = b.clock.now.Add(time.Second)
			return dedupe.ErrTryAgain
		}
		return c.Do(ctx)
	}
	b.queueDone(dedupe.Tally{In: 1, New: 1, Out: 1}, msg(1, "a", "x"))
	for err, again := range map[error]bool{dedupe.ErrTryAgain: true, errCrash: false} {
		b.hook = failBefore(dedupefault.ServerTime, err)
		before := b.calls[dedupefault.ServerTime]
		b.queueFails(err, []string{"m-2"}, msg(2, "b", "x"))
		if tried := b.calls[dedupefault.ServerTime] - before; (tried > 1) != again {
			b.Errorf("%v: the time was read %d times", err, tried)
		}
	}
	b.wantDelivered(delivery{"a", 1})
}
