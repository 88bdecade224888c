package sqlitestore

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const (
	// One statement: it keeps the later sequence, and changes no row but the consumer's.
	advanceCheckpoint = `INSERT INTO checkpoint (scope, stream, shard, sequence, consumer)
		VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (scope, stream, shard) DO UPDATE
		SET sequence = max(checkpoint.sequence, excluded.sequence)
		WHERE checkpoint.consumer = excluded.consumer`

	selectCheckpoint = `SELECT sequence, consumer FROM checkpoint WHERE scope = ? AND stream = ? AND shard = ?`
)

// ReadCheckpoint reads the checkpoint of a shard, whoever's it is; nil if there
// is none. Errors: dedupe.ErrTryAgain, or a fault of the file.
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

// AdvanceCheckpoint writes how far a shard is done, forward only. Safe to
// repeat. Errors: as ReadCheckpoint; dedupe.ErrOtherConsumer for another
// consumer's row, which names it; a fault for a sequence that is no number of up
// to 128 digits. None of them changes the row.
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
