package dedupe_test

import (
	"errors"
	"slices"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

var orderCases = []testCase{
	{"order/none", noOrder},
	{"order/none-and-an-aggregate-behind-a-failure", noOrderAggregate},
	{"order/none-and-a-failing-sink", noOrderFailingSink},
	{"order/as-given", orderAsGiven},
	{"order/records-that-cannot-be-told-apart", orderShared},
	{"order/twice-in-a-batch", orderRepeated},
	{"order/twice-in-a-batch-that-fails", orderRepeatedFails},
}

func (b *bench) processOrder(o dedupe.Order, records ...dedupe.Record) dedupe.Result {
	return b.processor().Process(b.ctx, dedupe.Batch{Stream: stream, Order: o, Records: records})
}

func queued(id string, r dedupe.Record) dedupe.Record {
	r.Sequence = id
	return r
}

// noOrder: a record that fails does not stop the others.
func noOrder(f *fixture) {
	b := f.withAcks()
	b.format = failingFormat{b.format, `"id":"c"`, dedupe.ErrTryAgain}
	b.settings.Chunk = 2
	batch := []dedupe.Record{
		queued("m-9", rec(1, "a", "x")), queued("m-2", rec(2, "c", "x")), queued("m-5", rec(3, "a", "x")),
		queued("m-1", rec(4, "b", "x")),
	}
	r := b.processOrder(dedupe.None, batch...)
	b.wantTally(r.Tally, dedupe.Tally{In: 4, New: 2, Natural: 1, Failed: 1, Out: 2})
	if !slices.Equal(r.Undone, []string{"m-2"}) || r.Failed != "m-2" || r.Done != 1 || !errors.Is(r.Err, dedupe.ErrTryAgain) {
		b.Errorf("undone %v, failed %s, done %d: %v", r.Undone, r.Failed, r.Done, r.Err)
	}
	if b.calls[dedupefault.WriteAck]+b.calls[dedupefault.ReadAcks] > 0 {
		b.Error("acks name positions, and these records have none")
	}
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 4})
}

// noOrderAggregate: an aggregate behind a record that fails is opened and sent. If a part of it fails, it comes again.
func noOrderAggregate(f *fixture) {
	b := f.bench()
	b.format = failingFormat{b.format, `"id":"c"`, dedupe.ErrTryAgain}
	r := b.processOrder(dedupe.None,
		queued("m-1", rec(1, "c", "x")), queued("m-2", aggregate(2, payload(2, "d", "x"), payload(3, "e", "x"))),
		queued("m-3", aggregate(4, payload(4, "f", "x"), payload(5, "c", "x"))), queued("m-4", rec(6, "b", "x")))
	if !slices.Equal(r.Undone, []string{"m-1", "m-3"}) || !errors.Is(r.Err, dedupe.ErrTryAgain) {
		b.Errorf("undone %v: %v", r.Undone, r.Err)
	}
	b.wantDelivered(delivery{"d", 2}, delivery{"e", 3}, delivery{"f", 4}, delivery{"b", 6})
}

// noOrderFailingSink: only the records that the sink did not take come again.
func noOrderFailingSink(f *fixture) {
	b := f.bench()
	b.hook = sends(2, errCrash)
	r := b.processOrder(dedupe.None, queued("m-1", rec(1, "a", "x")), queued("m-2", rec(2, "b", "x")))
	if !slices.Equal(r.Undone, []string{"m-2"}) {
		b.Errorf("undone %v: %v", r.Undone, r.Err)
	}
}

// orderAsGiven: the order is the order of the batch, whatever the sequence numbers are.
func orderAsGiven(f *fixture) {
	b := f.bench()
	b.format = failingFormat{b.format, `"id":"c"`, dedupe.ErrTryAgain}
	r := b.processOrder(dedupe.AsGiven,
		queued("m-9", rec(1, "a", "x")), queued("m-2", rec(2, "c", "x")), queued("m-1", rec(4, "b", "x")))
	if r.Failed != "m-2" || r.Done != 1 || r.Undone != nil {
		b.Errorf("failed %s, done %d, undone %v", r.Failed, r.Done, r.Undone)
	}
	b.wantDelivered(delivery{"a", 1})
}

// orderRepeated: a record that is in a batch several times is done with the first.
func orderRepeated(f *fixture) {
	for _, o := range []dedupe.Order{dedupe.AsGiven, dedupe.None} {
		for _, chunk := range []int{1, 2, 500} {
			b := f.bench()
			b.settings.Chunk = chunk
			one, two, poison := queued("m-1", rec(1, "a", "x")), queued("m-2", rec(2, "b", "x")), queued("m-3", rawRec(3, "poison"))
			r := b.processOrder(o, one, two, one, poison, poison, one)
			b.must(r.Err)
			b.wantTally(r.Tally, dedupe.Tally{In: 6, New: 2, DeadLettered: 1, Skipped: 3, Out: 2})
			if r.Done != 6 || len(b.deadLetters.byOwner) != 1 {
				b.Errorf("done %d, %d dead letters", r.Done, len(b.deadLetters.byOwner))
			}
			b.wantDelivered(delivery{"a", 1}, delivery{"b", 2})
		}
	}
}

// orderRepeatedFails: a record that is in a batch several times fails with the first, and is named once.
func orderRepeatedFails(f *fixture) {
	b := f.bench()
	one, two, three := queued("m-1", rec(1, "a", "x")), queued("m-2", rec(2, "c", "x")), queued("m-3", rec(3, "b", "x"))
	works := b.format
	for _, chunk := range []int{1, 2, 500} {
		b = f.bench()
		b.settings.Chunk, b.format = chunk, failingFormat{works, `"id":"c"`, dedupe.ErrTryAgain}
		r := b.processOrder(dedupe.None, one, two, one, three, two, one)
		b.wantTally(r.Tally, dedupe.Tally{In: 6, New: 2, Skipped: 2, Failed: 2, Out: 2})
		if !slices.Equal(r.Undone, []string{"m-2"}) || r.Done != 1 {
			b.Errorf("undone %v, done %d: %v", r.Undone, r.Done, r.Err)
		}
		r = b.processOrder(dedupe.AsGiven, one, two, one, three, two)
		if r.Failed != "m-2" || r.Done != 1 || r.Tally.Failed != 3 || r.Tally.Skipped != 1 {
			b.Errorf("failed %s, done %d, tally %+v", r.Failed, r.Done, r.Tally)
		}
	}
}

// orderShared: different records that share a sequence number, or have none, are refused.
func orderShared(f *fixture) {
	b := f.bench()
	for _, o := range []dedupe.Order{dedupe.AsGiven, dedupe.None} {
		r := b.processOrder(o, queued("m", rec(1, "a", "x")), queued("m", rec(2, "b", "x")))
		if !errors.Is(r.Err, dedupe.ErrSharedSequence) {
			b.Error(r.Err)
		}
		if r = b.processOrder(o, queued("", rec(1, "a", "x"))); !errors.Is(r.Err, dedupe.ErrNotABatch) {
			b.Error(r.Err)
		}
	}
	b.wantDelivered()
}
