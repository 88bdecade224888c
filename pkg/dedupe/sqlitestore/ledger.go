package sqlitestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// raisePurge raises a purge time. NULL means never: max returns NULL if one of its arguments is NULL.
const raisePurge = `UPDATE entry SET purge_at = max(purge_at, ?4) WHERE ` + atSlot + ` AND owner = ?3`

// PutIfAbsent puts the entries whose keys are free, in one transaction, and returns the existing entries of the others.
// A single entry fails only with a dedupe.RunAtWorkError. If the call fails, nothing was put. Errors are
// dedupe.ErrTryAgain, or a fault of the file.
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
		return s.merge(ctx, w, len(entries))
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// request is an entry to put.
type request struct {
	*dedupe.Entry
	slot   dedupe.Key
	result *dedupe.PutResult
	row    int64  // of the entry in its table; 0 while it has none
	record string // the owner of the existing entry, as text
}

func newRequest(e *dedupe.Entry, result *dedupe.PutResult) request {
	return request{Entry: e, slot: slotOf(e.Scope, e.Key), result: result}
}

// inOrder returns the entries in the order of the index, so that entries on the same page of the index follow each
// other. A page is then read, changed and written once, not once for each of its entries.
func inOrder(entries []dedupe.Entry, results []dedupe.PutResult) []request {
	all := make([]request, len(entries))
	order := make([]placed, len(entries))
	for i := range entries {
		all[i] = newRequest(&entries[i], &results[i])
		order[i] = placed{binary.BigEndian.Uint64(all[i].slot[:]), i}
	}
	slices.SortFunc(order, func(a, b placed) int {
		if a.begin != b.begin {
			return cmp.Compare(a.begin, b.begin)
		}
		x, y := &all[a.index], &all[b.index]
		return cmp.Or(bytes.Compare(x.slot[:], y.slot[:]), cmp.Compare(x.Scope, y.Scope), cmp.Compare(a.index, b.index))
	})
	sorted := make([]request, len(entries))
	for i, p := range order {
		sorted[i] = all[p.index]
	}
	return sorted
}

// placed is a request to sort: the beginning of its slot, and its index.
type placed struct {
	begin uint64
	index int
}

// canFollow reports whether one statement can put both entries. The entries of a statement have one scope and different
// keys.
func (r request) canFollow(other request) bool { return r.Scope == other.Scope && r.slot != other.slot }

// putAbsent puts the entries whose keys are free. A key is free if it has no entry, or an entry whose purge time is
// before the arrival of the new one, or a void entry. An entry that arrived before the horizon is not put: see
// Store.Compact. The owner is not part of the condition: otherwise a redelivered record would look like a new one. All
// statements are in one transaction, so no other write comes between them.
func (s *Store) putAbsent(ctx context.Context, w *sqlite.Statements, requests []request) error {
	if err := findExisting(ctx, w, requests, s.watch.Finished(requests[0].Scope)); err != nil {
		return err
	}
	horizon, err := readHorizon(ctx, w, requests[0].Scope)
	if err != nil {
		return err
	}
	fresh, taken := requests[:0:0], requests[:0:0]
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
			if r.row == 0 {
				fresh = append(fresh, r)
			} else {
				taken = append(taken, r)
			}
		}
	}
	if err := insert(ctx, w, fresh); err != nil {
		return err
	}
	return replace(ctx, w, taken)
}

// insert puts entries of one scope whose keys have none.
func insert(ctx context.Context, w *sqlite.Statements, requests []request) error {
	if len(requests) == 0 {
		return nil
	}
	var last int64
	if _, err := w.One(ctx, selectLastRow, nil, &last); err != nil {
		return err
	}
	for i := range requests {
		requests[i].row = last + 1 + int64(i)
	}
	p := pack(requests)
	n, scope, first := len(requests), requests[0].Scope, last+1
	if _, err := w.Exec(ctx, insertEntries, n, scope, p.rows, p.texts, first); err != nil {
		return err
	}
	if err := insertPlaces(ctx, w, requests); err != nil {
		return err
	}
	return holdAll(ctx, w, requests)
}

// replace puts entries of one scope in place of the entries that their keys have.
func replace(ctx context.Context, w *sqlite.Statements, requests []request) error {
	if len(requests) == 0 {
		return nil
	}
	p := pack(requests)
	n, err := w.Exec(ctx, replaceEntries, len(requests), requests[0].Scope, p.rows, p.texts)
	if err != nil {
		return err
	}
	if n != int64(len(requests)) { // a row that was not found in this transaction belongs to another key
		return fmt.Errorf("%d of %d entries are not in their rows", int64(len(requests))-n, len(requests))
	}
	return holdAll(ctx, w, requests)
}

// holdAll stores the Holds of entries. Only those of queues have one.
func holdAll(ctx context.Context, w *sqlite.Statements, requests []request) error {
	for _, r := range requests {
		if r.Hold == (dedupe.Hold{}) {
			continue
		}
		if _, err := w.Exec(ctx, setHold, r.row, hold(r.Hold).bytes()); err != nil {
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
	for i := range requests {
		keys = append(keys, requests[i].slot[:]...)
		requests[i].row, requests[i].record = 0, "" // an earlier attempt may have found an entry
	}
	return w.Each(ctx, selectEntries, sqlite.Args{len(requests), requests[0].Scope, keys, settled, end},
		func(scan func(into ...any) error) error {
			var at int
			var row int64
			var old dedupe.Existing
			var purgeAndDone int64
			var record string
			if err := scan(&at, &row, sqlite.IntoBytes(old.Owner[:]), sqlite.IntoBytes(old.Content[:]), &purgeAndDone,
				&record, (*hold)(&old.Hold)); err != nil {
				return err
			}
			old.PurgeAt, old.Done = purgeAndDone>>1, purgeAndDone&1 == 1
			requests[at].result.Existing, requests[at].row, requests[at].record = &old, row, record
			return nil
		})
}

// RaisePurge raises purge times in one transaction. The errors are as for PutIfAbsent. dedupe.Never is later than every
// time.
func (s *Store) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	results := make([]dedupe.RaiseResult, len(raises))
	err := s.write(ctx, "raise purge times", func(ctx context.Context, w *sqlite.Statements) error {
		for i, r := range raises {
			slot := slotOf(r.Scope, r.Key)
			n, err := w.Exec(ctx, raisePurge, r.Scope, slot[:], r.Owner[:], seconds(r.PurgeAt))
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
