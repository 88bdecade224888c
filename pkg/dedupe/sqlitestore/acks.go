package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const (
	insertAck = `INSERT OR IGNORE INTO ack (scope, stream, shard, sink, last, owners, first, purge_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

	// The acks that overlap the sequence numbers from ?5 to ?6.
	selectAcks = `SELECT first, last, owners, coalesce(purge_at, 0) FROM ack
		WHERE scope = ?1 AND stream = ?2 AND shard = ?3 AND sink = ?4 AND last >= ?5 AND first <= ?6`

	insertConsumer = `INSERT OR IGNORE INTO consumer (scope, stream, function) VALUES (?, ?, ?)`
	selectConsumer = `SELECT function FROM consumer WHERE scope = ? AND stream = ?`
)

// ReadAcks returns the acks that overlap the sequence numbers from first to last. Errors are dedupe.ErrTryAgain, or a
// fault of the file.
func (s *Store) ReadAcks(ctx context.Context, k dedupe.AckKey, first, last string) (acks []dedupe.Ack, err error) {
	from, to, err := dedupe.PadSequences(first, last)
	if err != nil {
		return nil, err
	}
	key := sqlite.Args{k.Scope, k.Stream.String(), k.Shard, k.Sink, from, to}
	err = s.db.Read(ctx, "read acks", func(ctx context.Context, r *sqlite.Statements) error {
		acks = nil
		return r.Each(ctx, selectAcks, key, func(scan func(into ...any) error) error {
			var a dedupe.Ack
			if err := scan(&a.First, &a.Last, &a.Owners, &a.PurgeAt); err != nil {
				return err
			}
			a.First, a.Last = dedupe.UnpadSequence(a.First), dedupe.UnpadSequence(a.Last)
			acks = append(acks, a)
			return nil
		})
	})
	return acks, err
}

// WriteAck stores an ack. The errors are as for ReadAcks.
func (s *Store) WriteAck(ctx context.Context, k dedupe.AckKey, a dedupe.Ack) error {
	first, last, err := dedupe.PadSequences(a.First, a.Last)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, "write ack", func(ctx context.Context, w *sqlite.Statements) error {
		_, err := w.Exec(ctx, insertAck,
			k.Scope, k.Stream.String(), k.Shard, k.Sink, last, a.Owners, first, seconds(a.PurgeAt))
		return err
	})
}

// ClaimConsumer stores which function reads a stream in a scope, if none does, and returns the function that does. The
// errors are as for ReadAcks.
func (s *Store) ClaimConsumer(ctx context.Context, scope string, stream dedupe.Stream, function string) (
	consumer string, err error,
) {
	err = s.db.Write(ctx, "claim consumer", func(ctx context.Context, w *sqlite.Statements) error {
		if _, err := w.Exec(ctx, insertConsumer, scope, stream.String(), function); err != nil {
			return err
		}
		_, err := w.One(ctx, selectConsumer, sqlite.Args{scope, stream.String()}, &consumer)
		return err
	})
	return consumer, err
}
