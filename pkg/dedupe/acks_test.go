package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

var ackCases = []testCase{
	{"records/acks-skip", acksSkip},
	{"records/acks-of-a-part-of-an-aggregate", acksOfPart},
	{"records/acks-of-what-came-after-a-failure", acksAfterFailure},
	{"records/acks-for-another-sink", acksForAnotherSink},
	{"records/acks-of-poison-and-duplicates", acksOfAll},
	{"records/acks-that-cannot-be-written", acksNotWritten},
	{"records/acks-that-cannot-be-read", acksNotRead},
	{"records/acks-end-at-the-horizon", acksEnd},
	{"records/acks-at-the-deadline", acksAtDeadline},
	{"records/ack-in-rows", ackInRows},
	{"records/second-consumer", secondConsumer},
}

// acksSkip: a record that is done costs no call of the ledger or the sink, in any batch and any order.
func acksSkip(f *fixture) {
	b := f.withAcks()
	b.done(rec(8, "a", "x"), rec(9, "b", "x"), rec(100, "c", "x"))
	b.puts = 0
	b.wantTally(b.done(rec(7, "z", "x"), rec(9, "b", "x"), rec(10, "d", "x"), rec(100, "c", "x")),
		dedupe.Tally{In: 4, Skipped: 2, New: 2, Out: 2})
	if b.puts != 2 {
		b.Errorf("want 2 entries put, got %d", b.puts)
	}
	b.wantTally(b.done(rec(8, "a", "x")), dedupe.Tally{In: 1, Skipped: 1})
	b.wantDelivered(delivery{"a", 8}, delivery{"b", 9}, delivery{"c", 100}, delivery{"z", 7}, delivery{"d", 10})
}

// acksOfPart: if an aggregate was delivered in part, the rest is delivered. After that the aggregate counts as one
// record, and is not even opened.
func acksOfPart(f *fixture) {
	b := f.withAcks()
	whole := aggregate(6, payload(60, "f", "x"), payload(61, "g", "x"), payload(62, "f", "x"))
	b.hook = sends(1, errCrash)
	b.wantTally(b.fails(6, whole).Tally, dedupe.Tally{In: 3, New: 1, Natural: 1, Failed: 1, Out: 1})
	b.hook = nil
	b.wantTally(b.done(whole), dedupe.Tally{In: 3, Skipped: 2, Retry: 1, Out: 1})
	b.wantTally(b.done(whole), dedupe.Tally{In: 1, Skipped: 1})
	b.wantDelivered(delivery{"f", 60}, delivery{"g", 61})
}

// acksAfterFailure: a sink delivers the records around one that it refuses, as a stream with one hot shard does. The
// delivered records are not sent again.
func acksAfterFailure(f *fixture) {
	b := f.withAcks()
	batch := []dedupe.Record{rec(1, "hot", "x"), rec(2, "b", "x"), rec(3, "c", "x")}
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method != dedupefault.Send {
			return c.Do(ctx)
		}
		c.Outputs = c.Outputs[1:]
		err := c.Do(ctx)
		c.Sent = dedupe.Sent{Delivered: []bool{false, true, true}, Repeated: 5}
		return errors.Join(err, dedupe.ErrTryAgain)
	}
	b.wantTally(b.fails(1, batch...).Tally, dedupe.Tally{In: 3, New: 2, Failed: 1, Out: 2, Repeated: 5})
	b.hook = nil
	b.wantTally(b.done(batch...), dedupe.Tally{In: 3, Skipped: 2, Retry: 1, Out: 1})
	b.wantDelivered(delivery{"b", 2}, delivery{"c", 3}, delivery{"hot", 1})
}

func acksForAnotherSink(f *fixture) {
	b := f.withAcks()
	b.done(rec(1, "a", "x"))
	b.settings.Sink = "another"
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, Retry: 1, Out: 1})
}

// acksOfAll: poison records and duplicates are acknowledged too.
func acksOfAll(f *fixture) {
	b := f.withAcks()
	batch := []dedupe.Record{rec(1, "a", "x"), rawRec(2, "?"), rec(3, "a", "x")}
	b.wantTally(b.done(batch...), dedupe.Tally{In: 3, New: 1, DeadLettered: 1, Natural: 1, Out: 1})
	b.wantTally(b.done(batch...), dedupe.Tally{In: 3, Skipped: 3})
}

func acksNotWritten(f *fixture) {
	b := f.withAcks()
	b.hook = failBefore(dedupefault.WriteAck, dedupe.ErrTryAgain)
	if r := b.process(rec(1, "a", "x")); r.Err != nil || !errors.Is(r.AckErr, dedupe.ErrTryAgain) {
		b.Errorf("want no failure, and the error of the ack, got %+v", r)
	}
	b.hook = nil
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, Retry: 1, Out: 1})
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, Skipped: 1})
}

func acksNotRead(f *fixture) {
	b := f.withAcks()
	b.done(rec(1, "a", "x"))
	b.hook = failBefore(dedupefault.ReadAcks, dedupe.ErrTryAgain)
	if r := b.process(rec(1, "a", "x")); r.Err != nil || !errors.Is(r.AckErr, dedupe.ErrTryAgain) || r.Tally.Retry != 1 {
		b.Errorf("want a retry, and the error of the acks, got %+v", r)
	}
}

// acksEnd: an ack is kept exactly as long as its records may be processed. Older records are counted, because copies of
// them may be delivered.
func acksEnd(f *fixture) {
	b := f.withAcks()
	var acks []dedupe.Ack
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.WriteAck {
			acks = append(acks, c.Acks...)
		}
		return c.Do(ctx)
	}
	b.clock.now = epoch.Add(horizon + 1500*time.Millisecond)
	b.wantTally(b.done(recAt(1, time.Second, "a", "x"), recAt(2, 1500*time.Millisecond, "b", "x")),
		dedupe.Tally{In: 2, New: 2, Out: 2, PastHorizon: 1})
	if len(acks) != 1 || acks[0].First != "1" || acks[0].Last != "2" ||
		acks[0].PurgeAt != epoch.Add(horizon+2*time.Second).Unix() {
		b.Errorf("got %+v", acks)
	}
}

// acksAtDeadline: if a sink uses up its time, enough time is left for the ack.
func acksAtDeadline(f *fixture) {
	b := f.withAcks()
	b.clock.now = time.Now() // contexts end in real time
	var cancel context.CancelFunc
	b.ctx, cancel = context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	end, _ := b.ctx.Deadline()
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		until, ok := ctx.Deadline()
		switch {
		case c.Method == dedupefault.Send && (!ok || end.Sub(until) < 100*time.Millisecond):
			b.Errorf("the sink has time until %v before the end", end.Sub(until))
		case c.Method == dedupefault.WriteAck && !until.Equal(end):
			b.Errorf("the ack has time until %v before the end", end.Sub(until))
		}
		return c.Do(ctx)
	}
	b.done(rec(1, "a", "x"))
	if b.calls[dedupefault.Send] != 1 || b.calls[dedupefault.WriteAck] != 1 {
		b.Errorf("got calls %v", b.calls)
	}
}

// ackInRows: the acks of an aggregate that is partly done may need more than one row.
func ackInRows(f *fixture) {
	if f.mutant == nil && f.store == nil {
		return
	}
	b := f.withAcks()
	const n = 40_002
	payloads := [][]byte{[]byte(`{"id":"first","fp":"x","n":1}`)}
	for range n {
		payloads = append(payloads, []byte(`{"id":"a","fp":"x","n":2}`))
	}
	var rows []int
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.WriteAck {
			rows = append(rows, len(c.Acks[0].Owners)/dedupe.OwnerMarkSize)
		}
		if c.Method == dedupefault.Send {
			return errCrash
		}
		return c.Do(ctx)
	}
	whole := aggregate(1, payloads...)
	b.fails(1, whole)
	if fmt.Sprint(rows) != "[40000 1]" { // all records except the first of each of the two keys
		b.Errorf("want rows of 40000 and 1, got %v", rows)
	}
	b.hook = nil
	b.wantTally(b.done(whole), dedupe.Tally{In: n + 1, Skipped: n - 1, Retry: 2, Out: 2})
}

// secondConsumer: two functions on one stream and scope would take each other's entries for their own, and deliver
// every record twice.
func secondConsumer(f *fixture) {
	b := f.withAcks()
	b.done(rec(1, "a", "x"))
	b.settings.Consumer = "you"
	if r := b.fails(1, rec(1, "a", "x"), rec(2, "b", "x")); !errors.Is(r.Err, dedupe.ErrOtherConsumer) {
		b.Errorf("want %v, got %v", dedupe.ErrOtherConsumer, r.Err)
	}
	b.wantDelivered(delivery{"a", 1})
	b.settings.Consumer = "me"
	b.hook = failBefore(dedupefault.ClaimConsumer, dedupe.ErrTryAgain)
	b.fails(2, rec(2, "b", "x"))
	b.hook = nil
	p := b.processor()
	for n := 2; n < 4; n++ { // the consumer is claimed only once
		if r := p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: []dedupe.Record{rec(n, "b", "x")}}); r.Err != nil {
			b.Error(r.Err)
		}
	}
	if n := b.calls[dedupefault.ClaimConsumer]; n != 4 {
		b.Errorf("want 4 claims, got %d", n)
	}
}
