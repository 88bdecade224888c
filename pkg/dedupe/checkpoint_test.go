package dedupe_test

import (
	"context"
	"errors"

	"github.com/oncebox/oncebox/internal/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

var checkpointCases = []testCase{
	{"records/checkpoint-skips", checkpointSkips},
	{"records/checkpoint-before-the-failure", checkpointBeforeFailure},
	{"records/checkpoint-before-a-failed-aggregate", checkpointBeforeAggregate},
	{"records/checkpoint-that-cannot-be-written", checkpointNotWritten},
	{"records/checkpoint-of-another-consumer", checkpointOfAnother},
	{"records/checkpoint-taken-meanwhile", checkpointTakenMeanwhile},
	{"records/checkpoint-and-the-first-record", checkpointAndFirst},
	{"records/checkpoint-that-cannot-be-read", checkpointNotRead},
}

// wantCheckpoint reads the shard's checkpoint and compares its sequence number; "" means none.
func (b *bench) wantCheckpoint(sequence string) {
	b.Helper()
	got, err := b.store.ReadCheckpoint(b.ctx, dedupe.CheckpointKey{Scope: b.settings.Scope, Stream: stream, Shard: shard})
	b.must(err)
	if sequence == "" && got != nil || sequence != "" && (got == nil || *got != dedupe.Checkpoint{Sequence: sequence, Consumer: "me"}) {
		b.Errorf("want checkpoint %q, got %+v", sequence, got)
	}
}

// checkpointSkips: a record that is done costs no call of the ledger or the sink.
func checkpointSkips(f *fixture) {
	b := f.withCheckpoints()
	b.done(rec(8, "a", "x"), rec(9, "b", "x"), rec(10, "c", "x"))
	b.puts = 0
	b.wantTally(b.done(rec(9, "b", "x"), rec(10, "c", "x"), rec(11, "d", "x"), rec(100, "e", "x")),
		dedupe.Tally{In: 4, Skipped: 2, New: 2, Out: 2})
	if b.puts != 2 {
		b.Errorf("want 2 entries put, got %d", b.puts)
	}
	b.wantTally(b.done(rec(11, "d", "x")), dedupe.Tally{In: 1, Skipped: 1})
}

// fromThirdOn makes a sink fail for the records from the third on.
func fromThirdOn(fails dedupefault.Hook) dedupefault.Hook {
	return func(ctx context.Context, c *dedupefault.Call) error {
		if len(c.Outputs) > 0 && deliveryOf(c.Outputs[0]).n >= 3 {
			return fails(ctx, c)
		}
		return c.Do(ctx)
	}
}

func checkpointBeforeFailure(f *fixture) {
	b := f.withCheckpoints()
	b.settings.Chunk = 2
	b.hook = fromThirdOn(sends(1, 1, errCrash))
	b.fails(4, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"), rec(4, "d", "x"))
	b.wantCheckpoint("3")
	b.hook = nil
	b.wantTally(b.done(rec(3, "c", "x"), rec(4, "d", "x")), dedupe.Tally{In: 2, Skipped: 1, Retry: 1, Out: 1})
}

// checkpointBeforeAggregate: the checkpoint stays before an aggregate of which a part failed.
func checkpointBeforeAggregate(f *fixture) {
	b := f.withCheckpoints()
	b.hook = sends(2, 2, errCrash)
	b.fails(6, rec(5, "e", "x"), aggregate(6, payload(60, "f", "x"), payload(61, "g", "x")))
	b.wantCheckpoint("5")
}

func checkpointNotWritten(f *fixture) {
	b := f.withCheckpoints()
	b.hook = failBefore(dedupefault.AdvanceCheckpoint, dedupe.ErrTryAgain)
	b.done(rec(1, "a", "x"))
	b.hook = nil
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, Retry: 1, Out: 1})
	b.wantCheckpoint("1")
}

// checkpointOfAnother: two consumers of one scope and stream would skip each other's records. The batch fails, and none
// is skipped.
func checkpointOfAnother(f *fixture) {
	b := f.withCheckpoints()
	b.done(rec(1, "a", "x"))
	b.settings.Consumer = "you"
	if r := b.fails(1, rec(1, "a", "x"), rec(2, "b", "x")); !errors.Is(r.Err, dedupe.ErrOtherConsumer) {
		b.Errorf("want %v, got %v", dedupe.ErrOtherConsumer, r.Err)
	}
	b.wantDelivered(delivery{"a", 1})
}

// checkpointTakenMeanwhile: another consumer writes the first checkpoint between the read and the write.
func checkpointTakenMeanwhile(f *fixture) {
	b := f.withCheckpoints()
	b.hook = failBefore(dedupefault.AdvanceCheckpoint, dedupe.ErrOtherConsumer)
	r := b.fails(1, rec(1, "a", "x"), rec(2, "b", "x"))
	if !errors.Is(r.Err, dedupe.ErrOtherConsumer) {
		b.Errorf("want %v, got %v", dedupe.ErrOtherConsumer, r.Err)
	}
	b.wantTally(r.Tally, dedupe.Tally{In: 2, Failed: 2, Out: 2})
}

// checkpointAndFirst: if the first record of a chunk fails, the checkpoint does not move. Records that were not decoded
// count as failed too.
func checkpointAndFirst(f *fixture) {
	b := f.withCheckpoints()
	b.settings.Chunk = 2
	b.hook = failBefore(dedupefault.Send, errCrash)
	b.wantTally(b.fails(1, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")).Tally, dedupe.Tally{In: 3, Failed: 3})
	b.wantCheckpoint("")
	b.hook = fromThirdOn(failBefore(dedupefault.Send, errCrash))
	b.wantTally(b.fails(3, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")).Tally, dedupe.Tally{In: 3, Retry: 2, Failed: 1, Out: 2})
	b.wantCheckpoint("2")
}

func checkpointNotRead(f *fixture) {
	b := f.withCheckpoints()
	b.hook = failBefore(dedupefault.ReadCheckpoint, dedupe.ErrTryAgain)
	b.wantTally(b.fails(1, rec(1, "a", "x"), rec(2, "b", "x")).Tally, dedupe.Tally{In: 2, Failed: 2})
	b.wantDelivered()
}
