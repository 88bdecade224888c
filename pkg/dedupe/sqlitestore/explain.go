package sqlitestore

import (
	"context"
	"database/sql"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

var _ dedupe.Explainer = (*Store)(nil)

const explainEntry = `SELECT owner, content, coalesce(purge_at, 0), coalesce(done, 0), record, version, arrival, hold
	FROM entry WHERE ` + atSlot

// Explain implements dedupe.Explainer. The errors are as for Find.
func (s *Store) Explain(ctx context.Context, scope string, c dedupe.Candidate) (dedupe.Explanation, error) {
	e, err := dedupe.ExplainByKey(ctx, c, func(ctx context.Context, keys []dedupe.Key) ([]*dedupe.StoredEntry, error) {
		return s.stored(ctx, scope, keys)
	})
	if err != nil || e.Answer.Found != dedupe.Put {
		return e, err
	}
	horizon, err := s.Horizon(ctx, scope)
	if c.Arrival.Before(horizon) {
		e.Answer = dedupe.Answer{Found: dedupe.Forgotten}
	}
	return e, err
}

// Find returns the entries of keys in their order, and nil for a key without an entry that decides. It changes nothing.
// Errors are dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) Find(ctx context.Context, scope string, keys []dedupe.Key) ([]*dedupe.Existing, error) {
	return dedupe.FindByKey(ctx, keys, func(ctx context.Context, keys []dedupe.Key) ([]*dedupe.StoredEntry, error) {
		return s.stored(ctx, scope, keys)
	})
}

// stored reads the entries of keys, and nil for a key without an entry.
func (s *Store) stored(ctx context.Context, scope string, keys []dedupe.Key) ([]*dedupe.StoredEntry, error) {
	entries := make([]*dedupe.StoredEntry, len(keys))
	err := s.db.ReadSnapshot(ctx, "read entries", func(ctx context.Context, r *sqlite.Statements) (err error) {
		for i, key := range keys {
			if entries[i], err = explain(ctx, r, scope, key); err != nil {
				return err
			}
		}
		return nil
	})
	return entries, err
}

func explain(ctx context.Context, r *sqlite.Statements, scope string, key dedupe.Key) (*dedupe.StoredEntry, error) {
	var e dedupe.StoredEntry
	var arrival sql.NullInt64
	slot := slotOf(scope, key)
	there, err := r.One(ctx, explainEntry, sqlite.Args{scope, slot[:]},
		sqlite.IntoBytes(e.Existing.Owner[:]), sqlite.IntoBytes(e.Content[:]), &e.PurgeAt, &e.Done, &e.Owner, &e.Version, &arrival,
		(*hold)(&e.Hold))
	if err != nil || !there {
		return nil, err
	}
	settled, err := dedupe.Settled(ctx, runsIn{r}, scope, e.Owner)
	if err != nil {
		return nil, err
	}
	e.Void = !settled
	if arrival.Valid {
		e.Arrival = time.UnixMilli(arrival.Int64).UTC()
	}
	return &e, nil
}
