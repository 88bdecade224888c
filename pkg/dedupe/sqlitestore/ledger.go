package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const (
	// The whole condition of a put: the key has no entry, or one whose purge time is
	// before the arrival of the new one. NULL stands for never, and compares as false.
	// The owner is not part of the condition: otherwise a redelivered record would
	// look like a new one.
	putEntry = `INSERT INTO entry (scope, key, owner, content, record, version, arrival, purge_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
		ON CONFLICT (scope, key) DO UPDATE
		SET owner = ?3, content = ?4, record = ?5, version = ?6, arrival = ?7, purge_at = ?8
		WHERE entry.purge_at < ?9`

	selectEntry = `SELECT owner, content, coalesce(purge_at, 0) FROM entry WHERE scope = ? AND key = ?`

	// max is NULL, which stands for never, if one of the two is NULL.
	raisePurge = `UPDATE entry SET purge_at = max(purge_at, ?4) WHERE scope = ?1 AND key = ?2 AND owner = ?3`
)

// Enter enters records by one row a key: see dedupe.EnterByKey.
func (s *Store) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	return dedupe.EnterByKey(ctx, s, q), nil
}

// PutIfAbsent puts the entries whose keys are free, in one transaction, and returns the existing entries of the others.
// No single entry fails: if the call fails, nothing was put. Errors are dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	err := s.db.Write(ctx, "put entries", func(ctx context.Context, w *sqlite.Statements) (err error) {
		for i, e := range entries {
			if results[i].Existing, err = put(ctx, w, e); err != nil {
				return fmt.Errorf("entry %d of %d: %w", i, len(entries), err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// put puts an entry, or returns the existing one.
func put(ctx context.Context, w *sqlite.Statements, e dedupe.Entry) (existing *dedupe.Existing, err error) {
	is := e.Existing()
	n, err := w.Exec(ctx, putEntry, e.Scope, e.Key[:], is.Owner[:], is.Content[:], e.Owner.String(), e.Version,
		sqlite.Millis(e.Arrival), seconds(e.PurgeAt), roundedUp(e.Arrival))
	if err != nil || n == 1 {
		return nil, err
	}
	var owner, content []byte
	var old dedupe.Existing
	if _, err = w.One(ctx, selectEntry, sqlite.Args{e.Scope, e.Key[:]}, &owner, &content, &old.PurgeAt); err != nil {
		return nil, err
	}
	old.Owner, old.Content = dedupe.Digest(owner), dedupe.Digest(content) // their lengths are constraints of the table
	return &old, nil
}

// RaisePurge raises purge times, in one transaction, with the errors of PutIfAbsent. dedupe.Never is later than every
// time.
func (s *Store) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	results := make([]dedupe.RaiseResult, len(raises))
	err := s.db.Write(ctx, "raise purge times", func(ctx context.Context, w *sqlite.Statements) error {
		for i, r := range raises {
			n, err := w.Exec(ctx, raisePurge, r.Scope, r.Key[:], r.Owner[:], seconds(r.PurgeAt))
			if err != nil {
				return fmt.Errorf("raise %d of %d: %w", i, len(raises), err)
			}
			results[i].Raised = n == 1
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// seconds is a purge time as the column holds it: NULL for dedupe.Never.
func seconds(purgeAt int64) any {
	if purgeAt == dedupe.Never {
		return nil
	}
	return purgeAt
}

// roundedUp is the first whole second that is not before t. A whole second is before t if and only if it is less than
// this one, so the comparison is exact.
func roundedUp(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
