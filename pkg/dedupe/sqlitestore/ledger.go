package sqlitestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// raisePurge raises a purge time. NULL means never: max returns NULL if one of its arguments is NULL.
const raisePurge = `UPDATE entry SET purge_at = max(purge_at, ?4) WHERE scope = ?1 AND key = ?2 AND owner = ?3`

// PutIfAbsent puts the entries whose keys are free, in one transaction, and returns the existing entries of the others.
// A single entry fails only with a dedupe.RunAtWorkError. If the call fails, nothing was put. Errors are dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	all := inOrder(entries, results)
	err := s.writeEntries(ctx, "put entries", func(ctx context.Context, w *sqlite.Statements) error {
		clear(results)
		now := machineTime()
		for i := range results {
			if entries[i].Hold != (dedupe.Hold{}) { // otherwise nobody asks for the time
				results[i].Date = now
			}
		}
		for begin := 0; begin < len(all); {
			end := begin + 1
			for end < len(all) && end < begin+maxRows && all[end].canFollow(all[end-1]) {
				end++
			}
			if err := s.putAbsent(ctx, w, all[begin:end]); err != nil {
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

// request is an entry to put.
type request struct {
	*dedupe.Entry
	result *dedupe.PutResult
	record string // the owner of the existing entry, as text
}

// inOrder returns the entries in the order of the index, so that entries on the same page of the index follow each
// other. A page is then read, changed and written once, not once for each of its entries.
func inOrder(entries []dedupe.Entry, results []dedupe.PutResult) []request {
	all := make([]request, len(entries))
	for i := range entries {
		all[i] = request{Entry: &entries[i], result: &results[i]}
	}
	slices.SortStableFunc(all, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), bytes.Compare(a.Key[:], b.Key[:]))
	})
	return all
}

// canFollow reports whether one statement can put both entries. The entries of a statement have one scope and different
// keys.
func (r request) canFollow(other request) bool { return r.Scope == other.Scope && r.Key != other.Key }

// putAbsent puts the entries whose keys are free. A key is free if it has no entry, or an entry whose purge time is
// before the arrival of the new one, or a void entry. An entry that arrived before the horizon is not put: see
// Store.Compact. The owner is not part of the condition: otherwise a redelivered
// record would look like a new one. All statements are in one transaction, so no other write comes between them.
func (s *Store) putAbsent(ctx context.Context, w *sqlite.Statements, requests []request) error {
	if err := findExisting(ctx, w, requests, s.watch.Finished(requests[0].Scope)); err != nil {
		return err
	}
	horizon, err := readHorizon(ctx, w, requests[0].Scope)
	if err != nil {
		return err
	}
	absent := requests[:0:0]
	for _, r := range requests {
		old := r.result.Existing
		free := old == nil || old.PurgeAt != dedupe.Never && old.PurgeAt < roundedUp(r.Arrival)
		if !free {
			void, err := s.watch.Void(ctx, runsIn{w}, r.Scope, r.record, r.Owner)
			if _, atWork := errors.AsType[*dedupe.RunAtWorkError](err); atWork {
				r.result.Existing, r.result.Err = nil, err
			} else if err != nil {
				return err
			}
			free = void
		}
		if free {
			if r.result.Existing = nil; r.Arrival.Before(horizon) {
				r.result.Forgotten = true
				continue
			}
			absent = append(absent, r)
		}
	}
	return put(ctx, w, absent)
}

// put puts entries of one scope, also in place of others.
func put(ctx context.Context, w *sqlite.Statements, requests []request) error {
	if len(requests) == 0 {
		return nil
	}
	p := newPacked(len(requests))
	for _, r := range requests {
		p.add(r.Entry)
	}
	if _, err := w.Exec(ctx, putEntries, len(requests), requests[0].Scope, p.rows, p.texts); err != nil {
		return err
	}
	for _, r := range requests { // only those of queues have a Hold
		if r.Hold == (dedupe.Hold{}) {
			continue
		}
		if _, err := w.Exec(ctx, setHold, r.Scope, r.Key[:], hold(r.Hold).bytes()); err != nil {
			return err
		}
	}
	return nil
}

// findExisting sets the results of the keys that have an entry. It does not read the text of an owner that begins with
// settled.
func findExisting(ctx context.Context, w *sqlite.Statements, requests []request, settled string) error {
	end := ""
	if settled != "" {
		end = settled[:len(settled)-1] + "0" // follows the slash at the end
	}

	keys := make([]byte, 0, len(requests)*len(dedupe.Key{}))
	for _, r := range requests {
		keys = append(keys, r.Key[:]...)
	}
	return w.Each(ctx, selectEntries, sqlite.Args{len(requests), requests[0].Scope, keys, settled, end},
		func(scan func(into ...any) error) error {
			var at int
			var old dedupe.Existing
			var purgeAndDone int64
			var record string
			if err := scan(&at, sqlite.IntoBytes(old.Owner[:]), sqlite.IntoBytes(old.Content[:]), &purgeAndDone,
				&record, (*hold)(&old.Hold)); err != nil {
				return err
			}
			old.PurgeAt, old.Done = purgeAndDone>>1, purgeAndDone&1 == 1
			requests[at].result.Existing, requests[at].record = &old, record
			return nil
		})
}

// RaisePurge raises purge times in one transaction. The errors are as for PutIfAbsent. dedupe.Never is later than every
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

// seconds returns a purge time as the column stores it: NULL for dedupe.Never.
func seconds(purgeAt int64) any {
	if purgeAt == dedupe.Never {
		return nil
	}
	return purgeAt
}

// roundedUp returns the first whole second that is not before t. A whole second is before t if and only if it is less
// than this one, so the comparison is exact.
func roundedUp(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
