package sqlitestore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// max is NULL, which stands for never, if one of the two is NULL.
const raisePurge = `UPDATE entry SET purge_at = max(purge_at, ?4) WHERE scope = ?1 AND key = ?2 AND owner = ?3`

// Enter enters records by one row a key: see dedupe.EnterByKey.
func (s *Store) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	return dedupe.EnterByKey(ctx, s, q), nil
}

// PutIfAbsent puts the entries whose keys are free, in one transaction, and returns the existing entries of the others.
// No single entry fails: if the call fails, nothing was put. Errors are dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	all := inOrder(entries, results)
	err := s.write(ctx, "put entries", func(ctx context.Context, w *sqlite.Statements) error {
		clear(results)
		for begin := 0; begin < len(all); {
			end := begin + 1
			for end < len(all) && end < begin+maxRows && all[end].canFollow(all[end-1]) {
				end++
			}
			if err := putAbsent(ctx, w, all[begin:end]); err != nil {
				return fmt.Errorf("entries %d to %d of %d: %w", begin, end, len(all), err)
			}
			begin = end
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// request is an entry that is to be put.
type request struct {
	*dedupe.Entry
	result *dedupe.PutResult
}

// inOrder returns the entries in the order of the index: those that share a page of it come one after the other. So a
// page is read, changed and written once, and not once for each of its entries.
func inOrder(entries []dedupe.Entry, results []dedupe.PutResult) []request {
	all := make([]request, len(entries))
	for i := range entries {
		all[i] = request{&entries[i], &results[i]}
	}
	slices.SortStableFunc(all, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), bytes.Compare(a.Key[:], b.Key[:]))
	})
	return all
}

// canFollow reports whether one statement can put both entries. It has one scope, and all of its keys differ.
func (r request) canFollow(other request) bool { return r.Scope == other.Scope && r.Key != other.Key }

// putAbsent puts the entries whose keys are free. A key is free if it has no entry, or one whose purge time is before
// the arrival of the new one. The owner is not part of the condition: otherwise a redelivered record would look like a
// new one. Nobody else writes between the two statements, because they are in one transaction.
func putAbsent(ctx context.Context, w *sqlite.Statements, requests []request) error {
	if err := findExisting(ctx, w, requests); err != nil {
		return err
	}
	absent := requests[:0:0]
	for _, r := range requests {
		if old := r.result.Existing; old == nil || old.PurgeAt != dedupe.Never && old.PurgeAt < roundedUp(r.Arrival) {
			r.result.Existing = nil
			absent = append(absent, r)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	p := newPacked(len(absent))
	for _, r := range absent {
		p.add(r.Entry)
	}
	_, err := w.Exec(ctx, putEntries, len(absent), absent[0].Scope, p.rows, p.texts)
	return err
}

// findExisting sets the results of the keys that have an entry.
func findExisting(ctx context.Context, w *sqlite.Statements, requests []request) error {
	keys := make([]byte, 0, len(requests)*len(dedupe.Key{}))
	for _, r := range requests {
		keys = append(keys, r.Key[:]...)
	}
	return w.Each(ctx, selectEntries, sqlite.Args{len(requests), requests[0].Scope, keys},
		func(scan func(into ...any) error) error {
			var at int
			var old dedupe.Existing
			if err := scan(&at, sqlite.IntoBytes(old.Owner[:]), sqlite.IntoBytes(old.Content[:]), &old.PurgeAt, &old.Done); err != nil {
				return err
			}
			requests[at].result.Existing = &old
			return nil
		})
}

// RaisePurge raises purge times, in one transaction, with the errors of PutIfAbsent. dedupe.Never is later than every
// time.
func (s *Store) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	results := make([]dedupe.RaiseResult, len(raises))
	err := s.write(ctx, "raise purge times", func(ctx context.Context, w *sqlite.Statements) error {
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
