package sqlitestore

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const (
	// One statement: it keeps the later sequence, and changes only a row of the same consumer.
	advanceCheckpoint = `INSERT INTO checkpoint (scope, stream, shard, sequence, consumer)
		VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (scope, stream, shard) DO UPDATE
		SET sequence = max(checkpoint.sequence, excluded.sequence)
		WHERE checkpoint.consumer = excluded.consumer`

	selectCheckpoint = `SELECT sequence, consumer FROM checkpoint WHERE scope = ? AND stream = ? AND shard = ?`
)

// ReadCheckpoint returns the checkpoint of a shard, of any consumer, or nil if there is none. Errors are
// dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) ReadCheckpoint(ctx context.Context, k dedupe.CheckpointKey) (c *dedupe.Checkpoint, err error) {
	err = s.db.Read(ctx, "read checkpoint", func(ctx context.Context, r *sqlite.Statements) error {
		c, err = readCheckpoint(ctx, r, k)
		return err
	})
	return c, err
}

func readCheckpoint(ctx context.Context, on *sqlite.Statements, k dedupe.CheckpointKey) (*dedupe.Checkpoint, error) {
	var c dedupe.Checkpoint
	key := sqlite.Args{k.Scope, k.Stream.String(), k.Shard}
	found, err := on.One(ctx, selectCheckpoint, key, &c.Sequence, &c.Consumer)
	if err != nil || !found {
		return nil, err
	}
	c.Sequence = dedupe.UnpadSequence(c.Sequence)
	return &c, nil
}

// AdvanceCheckpoint moves the checkpoint of a shard forward. Errors are those of ReadCheckpoint;
// dedupe.ErrOtherConsumer, with the consumer's name, if the checkpoint belongs to another one; and a fault if the
// sequence is not a number of up to 128 digits. With an error the checkpoint is unchanged.
func (s *Store) AdvanceCheckpoint(ctx context.Context, k dedupe.CheckpointKey, c dedupe.Checkpoint) error {
	sequence, err := dedupe.PadSequence(c.Sequence)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, "write checkpoint", func(ctx context.Context, w *sqlite.Statements) error {
		n, err := w.Exec(ctx, advanceCheckpoint, k.Scope, k.Stream.String(), k.Shard, sequence, c.Consumer)
		if err != nil || n == 1 {
			return err
		}
		other, err := readCheckpoint(ctx, w, k)
		if err != nil {
			return err
		}
		return fmt.Errorf("%w (it is %q's)", dedupe.ErrOtherConsumer, other.Consumer)
	})
}
