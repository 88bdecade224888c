package sqlitestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// The index of the entries has two levels. Keys are random, so a large call writes to nearly all pages of the table of
// new places. That table stays small: above a size, each large call moves rows of it to the large table, in the order
// of places, from where the last call ended. So it writes to few pages of the large one, and to each of them for many
// rows. Rows move inside the transaction of the call, so each of them is in exactly one of the tables.
//
// A call of n entries writes about min(n, recent/250) pages of the small table, and the moved rows sweep the pages of
// the large one once in 2 * recent new entries. So 500,000 recent ones write the least with 10 million entries and
// calls of 50,000.

// levels says when places move.
type levels struct {
	recent    int // so many rows of the table of new places stay
	largeCall int // calls of so many entries move rows: smaller ones write about a page an entry to any index
}

var fileLevels = levels{recent: 500_000, largeCall: 5000}

// mostMoved is how many rows a call moves for each of its entries at most, after many small calls.
const mostMoved = 4

// placeSize is how many bytes of a slot are its place, here and in the SQL. Of 10 million entries, two have one place
// with a probability of 0.2. Then a look-up of this place reads both.
const placeSize = 6

const (
	// keepLog makes commits copy the WAL into the file when it has 64 MB, from the first large call of a Store on. With
	// the 4 MB of SQLite each call would copy all pages that it has changed, also those that the next call changes again.
	keepLog = `PRAGMA wal_autocheckpoint = 16000`

	countRecent = `SELECT count(*) FROM recent`

	selectMergedTo = `SELECT place FROM merge`
	saveMergedTo   = `UPDATE merge SET place = ?`

	selectMoveTo = `SELECT place FROM recent WHERE place > ?1 ORDER BY place LIMIT 1 OFFSET ?2 - 1`
	movePlaces   = `INSERT OR FAIL INTO merged (place, row) SELECT place, row FROM recent WHERE place > ?1 AND place <= ?2`
	deleteMoved  = `DELETE FROM recent WHERE place > ?1 AND place <= ?2`
)

// SQLite's driver takes an empty blob for NULL, so the place before all others is a zero: it is shorter than a place.
var beforePlaces, lastPlace = []byte{0}, bytes.Repeat([]byte{0xff}, placeSize)

// atSlot is the condition for the entry of the scope ?1 and the slot ?2.
const atSlot = `row IN (SELECT row FROM recent WHERE place = substr(?2, 1, 6)
		UNION ALL SELECT row FROM merged WHERE place = substr(?2, 1, 6)) AND slot = ?2 AND scope = ?1`

// slotOf returns a key as the table stores it: mixed with its scope. Otherwise an id that many scopes have would have
// one place in all of them.
func slotOf(scope string, key dedupe.Key) (slot dedupe.Key) {
	mix := sha256.Sum256([]byte(scope))
	subtle.XORBytes(slot[:], key[:], mix[:])
	return slot
}

// insertPlaces inserts the places of new entries.
func insertPlaces(ctx context.Context, w *sqlite.Statements, requests []request) error {
	for size := mostPlaces; len(requests) > 0; size /= 2 {
		for len(requests) >= size {
			args := make([]any, 0, 2*size)
			for i := range requests[:size] {
				args = append(args, requests[i].slot[:placeSize], requests[i].row)
			}
			if _, err := w.Exec(ctx, insertPlacesOf[size], args...); err != nil {
				return err
			}
			requests = requests[size:]
		}
	}
	return nil
}

// mostPlaces is the largest number of places in a statement. insertPlacesOf has the statements by their number of
// places: the powers of two up to it.
//
// Each of the places is on another page. For a statement that may be undone by itself, SQLite first writes each page to
// a temporary file. It takes every statement with several rows and a function for such a one, so these have parameters,
// unlike insertEntries, and FAIL: the transaction is undone after an error.
const mostPlaces = 128

var insertPlacesOf = func() map[int]string {
	of := map[int]string{}
	for size := mostPlaces; size > 0; size /= 2 {
		of[size] = `INSERT OR FAIL INTO recent (place, row) VALUES (?, ?)` + strings.Repeat(", (?, ?)", size-1)
	}
	return of
}()

// merge moves places after a call that has put entries, in its transaction.
func (l levels) merge(ctx context.Context, w *sqlite.Statements, entries int) error {
	if entries < l.largeCall {
		return nil
	}
	if _, err := w.Exec(ctx, keepLog); err != nil {
		return err
	}
	var recent int
	if _, err := w.One(ctx, countRecent, nil, &recent); err != nil || recent <= l.recent {
		return err
	}
	var from, to []byte
	if _, err := w.One(ctx, selectMergedTo, nil, &from); err != nil {
		return err
	}
	more, err := w.One(ctx, selectMoveTo, sqlite.Args{from, min(recent-l.recent, mostMoved*entries)}, &to)
	if err != nil {
		return err
	}
	next := to
	if !more { // to the end; the next call begins again
		to, next = lastPlace, beforePlaces
	}
	if _, err := w.Exec(ctx, movePlaces, from, to); err != nil {
		return err
	}
	if _, err := w.Exec(ctx, deleteMoved, from, to); err != nil {
		return err
	}
	_, err = w.Exec(ctx, saveMergedTo, next)
	return err
}
