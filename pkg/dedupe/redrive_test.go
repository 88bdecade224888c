package dedupe_test

import (
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

var redriveCases = []testCase{
	{"redrive/original-owner", redriveOwner},
	{"redrive/still-poison", redriveStillPoison},
	{"redrive/aggregate", redriveAggregate},
	{"redrive/objects", redriveObjects},
	{"redrive/objects-only-when-ready", redriveObjectsOnlyWhenReady},
	{"redrive/corrected-aggregate", redriveCorrectedAggregate},
	{"redrive/part-of-a-frame", redriveFramed},
	{"redrive/part-that-looks-like-a-frame", redrivePartOnce},
	{"redrive/letter-of-a-queue", redriveMessage},
	{"redrive/inspected", redriveInspected},
}

func (b *bench) redrive(d dedupe.DeadLetter) dedupe.Result {
	return b.processor().Redrive(b.ctx, d, fmt.Sprint(d.Owner, d.Reason))
}

// letter returns the only dead letter of the bench.
func (b *bench) letter() (letter dedupe.DeadLetter) {
	b.Helper()
	if len(b.deadLetters.byOwner) != 1 {
		b.Fatalf("want one dead letter, got %+v", b.deadLetters.byOwner)
	}
	for _, letter = range b.deadLetters.byOwner {
	}
	return letter
}

// redriveOwner: a redriven dead letter has its original owner, also if an ack says that it is done. If a copy of it
// came in between, the copy is the original.
func redriveOwner(f *fixture) {
	b := f.withAcks()
	good := b.format
	b.format = failingFormat{good, `"n":1`, errors.New("cannot be read")}
	b.done(rec(1, "a", "x"), rec(2, "b", "x"))
	b.format = good
	letter := b.letter()
	if letter.Scope != b.settings.Scope {
		b.Errorf("the letter has scope %q", letter.Scope)
	}
	b.wantTally(b.redrive(letter).Tally, dedupe.Tally{In: 1, New: 1, Out: 1})
	b.wantTally(b.redrive(letter).Tally, dedupe.Tally{In: 1, Retry: 1, Out: 1})
	b.wantTally(b.done(rec(3, "a", "x")), dedupe.Tally{In: 1, Natural: 1})
}

// redriveStillPoison: a record that is still poison stays a dead letter, and is not stored again.
func redriveStillPoison(f *fixture) {
	b := f.bench()
	b.done(rawRec(1, "?"))
	stored := b.calls[dedupefault.PutDeadLetters]
	r := b.redrive(b.letter())
	var poison *dedupe.PoisonError
	if !errors.As(r.Err, &poison) || poison.Reason == "" || b.calls[dedupefault.PutDeadLetters] != stored {
		b.Errorf("%v, %d puts", r.Err, b.calls[dedupefault.PutDeadLetters])
	}
}

// redriveAggregate: a part of an aggregate is redriven alone, under its own owner.
func redriveAggregate(f *fixture) {
	b := f.bench()
	good := b.format
	b.format = failingFormat{good, `"id":"b"`, errors.New("cannot be read")}
	r := aggregate(1, payload(1, "a", "x"), payload(2, "b", "x"), payload(3, "c", "x"))
	b.done(r)
	b.format = good
	b.wantTally(b.redrive(b.letter()).Tally, dedupe.Tally{In: 1, New: 1, Out: 1})
	b.wantTally(b.done(r), dedupe.Tally{In: 3, Retry: 3, Out: 3})
	last := b.sink.outputs[2]
	if last.PartitionKey != "own" || last.ExplicitHashKey != "7" || !last.Aggregated {
		b.Errorf("the redriven record has the keys %q and %q", last.PartitionKey, last.ExplicitHashKey)
	}
}

// redriveObjects: an object that covers the position of a dead letter does not mean that the letter is done. The
// letter's own object does.
func redriveObjects(f *fixture) {
	b := f.bench()
	b.withObjects()
	good := b.format
	b.format = failingFormat{good, `"id":"b"`, errors.New("cannot be read")}
	b.done(rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"))
	b.format = good
	letter := b.letter()
	b.wantTally(b.redrive(letter).Tally, dedupe.Tally{In: 1, New: 1, Out: 1})
	b.wantTally(b.redrive(letter).Tally, dedupe.Tally{In: 1, Skipped: 1})
	b.wantDelivered(delivery{"a", 1}, delivery{"c", 3}, delivery{"b", 2})
}

// redriveObjectsOnlyWhenReady: the object of a letter is written once, so it is not written before all of the letter
// can be delivered.
func redriveObjectsOnlyWhenReady(f *fixture) {
	b := f.bench()
	c := b.withObjects()
	good := b.format
	b.format = failingFormat{good, `"id":"a"`, errors.New("cannot be read")}
	b.done(rec(1, "a", "x"))
	letter := b.letter()
	var poison *dedupe.PoisonError
	if r := b.redrive(letter); !errors.As(r.Err, &poison) {
		b.Errorf("still poison: %v", r.Err)
	}
	b.format = failingFormat{good, `"id":"a"`, dedupe.ErrTryAgain}
	if r := b.redrive(letter); !errors.Is(r.Err, dedupe.ErrTryAgain) {
		b.Errorf("not readable now: %v", r.Err)
	}
	if len(c.letters) != 0 {
		b.Fatal("a letter that is not delivered has an object")
	}
	b.format = good
	b.wantTally(b.redrive(letter).Tally, dedupe.Tally{In: 1, New: 1, Out: 1})
	b.wantDelivered(delivery{"a", 1})
}

// redriveCorrectedAggregate: a payload was poison as a whole, and a corrected program can open it. Its parts have
// their own owners. A part that is poison is a dead letter of its own, and is redriven alone.
func redriveCorrectedAggregate(f *fixture) {
	b := f.framedBench()
	b.done(rawRec(1, lineMark+"broken"))
	whole := b.letter()
	whole.Data = frame(payload(1, "a", "x"), payload(2, "b", "x"), payload(3, "a", "x"))
	good := b.format
	b.format = failingFormat{good, `"id":"b"`, errors.New("cannot be read")}
	clear(b.deadLetters.byOwner)
	for _, want := range []dedupe.Tally{
		{In: 3, New: 1, Natural: 1, DeadLettered: 1, Out: 1}, {In: 3, Retry: 1, Natural: 1, DeadLettered: 1, Out: 1},
	} {
		r := b.redrive(whole)
		b.must(r.Err)
		b.wantTally(r.Tally, want)
	}
	part := b.letter()
	if part.Position.Sub != 1 || part.Position.Sequence != whole.Position.Sequence {
		b.Errorf("the part is at %+v", part.Position)
	}
	b.format = good
	b.wantTally(b.redrive(part).Tally, dedupe.Tally{In: 1, New: 1, Out: 1})
	b.wantTally(b.redrive(whole).Tally, dedupe.Tally{In: 3, Retry: 2, Natural: 1, Out: 2})
}

// redriveFramed: a redriven record of a frame is not sent as a part of a KPL aggregate.
func redriveFramed(f *fixture) {
	b := f.framedBench()
	good := b.format
	b.format = failingFormat{good, `"id":"b"`, errors.New("cannot be read")}
	b.done(frameRec(1, payload(1, "a", "x"), payload(2, "b", "x")))
	b.format = good
	b.wantTally(b.redrive(b.letter()).Tally, dedupe.Tally{In: 1, New: 1, Out: 1})
	if last := b.sink.outputs[1]; last.Aggregated || string(last.Data) != string(payload(2, "b", "x")) {
		b.Errorf("sent %+v", last)
	}
}

// redrivePartOnce: a redriven part of an aggregate is not opened again. Otherwise its records would get the owners of
// other parts.
func redrivePartOnce(f *fixture) {
	b := f.framedBench()
	b.done(aggregate(1, payload(1, "a", "x"), []byte(lineMark+"broken")))
	letter := b.letter()
	letter.Data = frame(payload(2, "b", "x"), payload(3, "c", "x"))
	var poison *dedupe.PoisonError
	if r := b.redrive(letter); !errors.As(r.Err, &poison) || r.Tally.In != 1 {
		b.Errorf("%+v, %v", r.Tally, r.Err)
	}
}

// redriveMessage: the letter of a queue message has a text instead of a sequence number, and is redriven too.
func redriveMessage(f *fixture) {
	b := f.bench()
	good := b.format
	b.format = failingFormat{good, `"n":1`, errors.New("cannot be read")}
	message := rec(1, "a", "x")
	message.Sequence = "059f36b4-87a3-44ab-83d2-661975830a7d"
	batch := dedupe.Batch{Stream: stream, Order: dedupe.None, Records: []dedupe.Record{message}}
	b.must(b.processor().Process(b.ctx, batch).Err)
	b.format = good
	r := b.redrive(b.letter())
	b.must(r.Err)
	b.wantTally(r.Tally, dedupe.Tally{In: 1, New: 1, Out: 1})
	b.wantTally(b.processor().Process(b.ctx, batch).Tally, dedupe.Tally{In: 1, Retry: 1, Out: 1})
}

// redriveInspected: InspectLetter reports what would happen, and does nothing.
func redriveInspected(f *fixture) {
	b := f.framedBench()
	b.done(rawRec(1, "?"), rec(2, "a", "x"))
	clear(b.calls)
	letter := b.letter()
	var poison *dedupe.PoisonError
	if r := b.processor().InspectLetter(b.ctx, letter); !errors.As(r.Err, &poison) {
		b.Errorf("still poison: %v", r.Err)
	}
	letter.Data = frame(payload(1, "b", "x"), payload(2, "", "x"))
	r := b.processor().InspectLetter(b.ctx, letter)
	b.must(r.Err)
	b.wantTally(r.Tally, dedupe.Tally{In: 2, DeadLettered: 1})
	records := []dedupe.Record{rec(2, "a", "x"), rawRec(3, "?")}
	r = b.processor().Inspect(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: records})
	b.must(r.Err)
	b.wantTally(r.Tally, dedupe.Tally{In: 2, DeadLettered: 1})
	if len(r.Reasons) != 1 || r.Done != 2 || len(b.calls) != 0 {
		b.Errorf("%+v, calls %v", r, b.calls)
	}
}
