package dedupe_test

import (
	"context"
	"errors"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var objectCases = []testCase{
	{"objects/once", objectsOnce},
	{"objects/whole-aggregates", objectsWholeAggregates},
	{"objects/another-writer", objectsAnotherWriter},
	{"objects/unknown-chain", objectsUnknown},
}

// chains is an ObjectSink in memory: it remembers which records are done.
type chains struct {
	*bench
	handled map[string]bool
	letters map[string]bool
	err     error
	// before is called before each commit.
	before func()
}

func (b *bench) withObjects() *chains {
	c := &chains{bench: b, handled: map[string]bool{}, letters: map[string]bool{}, before: func() {}}
	b.objects = c
	return c
}

func (c *chains) Check(context.Context, dedupe.Output) error { return nil }

func (c *chains) Open(context.Context, dedupe.ChainKey, string, string) (dedupe.Chain, error) {
	return c, c.err
}

func (c *chains) Done(sequence string) bool { return c.handled[sequence] }

func (c *chains) Commit(ctx context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
	c.before()
	written := make([]bool, len(records))
	for i, r := range records {
		if written[i] = !c.handled[r.Sequence]; written[i] {
			_, _ = c.sink.Send(ctx, r.Outputs) // it cannot fail
		}
		c.handled[r.Sequence] = true
	}
	return dedupe.Committed{Done: len(records), Written: written}, nil
}

func (c *chains) CommitLetter(
	ctx context.Context, _ dedupe.ChainKey, letter string, outputs []dedupe.Output,
) (bool, error) {
	if c.letters[letter] {
		return false, nil
	}
	c.letters[letter] = true
	_, err := c.sink.Send(ctx, outputs)
	return true, err
}

// objectsOnce: a record that an object has handled is skipped, without an ack and without an entry of its own.
func objectsOnce(f *fixture) {
	b := f.bench()
	b.withObjects()
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "a", "y"), rawRec(4, "?")}
	b.wantTally(b.done(batch...), dedupe.Tally{In: 4, New: 1, Natural: 1, Synthetic: 1, DeadLettered: 1, Out: 2})
	b.wantTally(b.done(append(batch, rec(5, "b", "x"))...), dedupe.Tally{In: 5, New: 1, Skipped: 4, Out: 1})
	b.wantDelivered(delivery{"a", 1}, delivery{format.DerivedID("a", "y"), 3}, delivery{"b", 5})
	b.wantDeadLetters(4)
}

// objectsWholeAggregates: an object never has only a part of an aggregate.
func objectsWholeAggregates(f *fixture) {
	b := f.bench()
	c := b.withObjects()
	b.format = failingFormat{b.format, `"id":"c"`, dedupe.ErrTryAgain}
	batch := []dedupe.Record{rec(1, "a", "x"), aggregate(2, payload(2, "b", "x"), payload(3, "c", "x"))}
	b.fails(2, batch...)
	b.wantDelivered(delivery{"a", 1})
	if c.handled["2"] {
		b.Error("a part of the aggregate counts as done")
	}
}

// objectsAnotherWriter: records that another invocation has written meanwhile are skipped.
func objectsAnotherWriter(f *fixture) {
	b := f.bench()
	c := b.withObjects()
	c.before = func() { c.handled["1"] = true }
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "b", "x")), dedupe.Tally{In: 2, New: 1, Skipped: 1, Out: 1})
	b.wantDelivered(delivery{"b", 2})
}

// objectsUnknown: if the objects cannot be read, no record is processed.
func objectsUnknown(f *fixture) {
	b := f.bench()
	c := b.withObjects()
	c.err = errCrash
	if r := b.fails(1, rec(1, "a", "x")); !errors.Is(r.Err, errCrash) {
		b.Error(r.Err)
	}
	b.wantDelivered()
}
