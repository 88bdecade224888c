package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const findEntry = `SELECT owner, content, coalesce(purge_at, 0), record, coalesce(done, 0), hold
	FROM entry WHERE ` + atSlot

// Find returns the entries of keys in their order, and nil for a key without an entry. It changes nothing. Errors are
// dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) Find(ctx context.Context, scope string, keys []dedupe.Key) ([]*dedupe.Existing, error) {
	found := make([]*dedupe.Existing, len(keys))
	err := s.db.ReadSnapshot(ctx, "find entries", func(ctx context.Context, r *sqlite.Statements) (err error) {
		for i := range keys {
			if found[i], err = find(ctx, r, scope, keys[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func find(ctx context.Context, on *sqlite.Statements, scope string, key dedupe.Key) (*dedupe.Existing, error) {
	var owner, content []byte
	var e dedupe.Existing
	var record string
	slot := slotOf(scope, key)
	there, err := on.One(ctx, findEntry, sqlite.Args{scope, slot[:]}, &owner, &content, &e.PurgeAt, &record,
		&e.Done, (*hold)(&e.Hold))
	if err != nil || !there {
		return nil, err
	}
	if settled, err := dedupe.Settled(ctx, runsIn{on}, scope, record); err != nil || !settled {
		return nil, err
	}
	e.Owner, e.Content = dedupe.Digest(owner), dedupe.Digest(content) // their lengths are constraints of the table
	return &e, nil
}
