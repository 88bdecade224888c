package dedupe

import (
	"context"
	"errors"
	"fmt"
)

func (r *batchRun) checkpointKey() CheckpointKey {
	return CheckpointKey{Scope: r.settings.Scope, Stream: r.batch.Stream, Shard: r.batch.Shard}
}

// skipDone returns the index of the first record above the shard's checkpoint. Sequence numbers only grow in a shard,
// so the records below it need no decoding.
func (r *batchRun) skipDone(ctx context.Context) (first int, err error) {
	if r.settings.Checkpoints == nil {
		return 0, nil
	}
	done, err := r.settings.Checkpoints.ReadCheckpoint(ctx, r.checkpointKey())
	if err != nil || done == nil {
		return 0, err
	}
	if done.Consumer != r.settings.Consumer {
		return 0, fmt.Errorf("%w (it is %q's)", ErrOtherConsumer, done.Consumer)
	}
	for first < len(r.batch.Records) && CompareSequence(r.batch.Records[first].Sequence, done.Sequence) <= 0 {
		first++
	}
	r.result.Tally.In += int64(first)
	r.result.Tally.Skipped += int64(first)
	return first, nil
}

// advanceCheckpoint moves the checkpoint over the records from first to before done. A failed checkpoint does not fail
// the batch: the checkpoint only saves work. The one error is ErrOtherConsumer, because then records could be skipped.
func (r *batchRun) advanceCheckpoint(ctx context.Context, first, done int) error {
	if r.settings.Checkpoints == nil || done == first {
		return nil
	}
	err := r.settings.Checkpoints.AdvanceCheckpoint(ctx, r.checkpointKey(),
		Checkpoint{Sequence: r.batch.Records[done-1].Sequence, Consumer: r.settings.Consumer})
	if errors.Is(err, ErrOtherConsumer) {
		return err
	}
	return nil
}
