package sqlitestore

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestEngineWhosePlacesMove: nearly all calls find some places in the large table, and move others.
func TestEngineWhosePlacesMove(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) dedupe.Store {
		s, err := OpenMemory(t.Context())
		check(t, err)
		s.levels = levels{recent: 1, largeCall: 1}
		t.Cleanup(func() {
			checkPlaces(t, s)
			check(t, s.Close())
		})
		return s
	})
}

// checkPlaces checks that each entry has its place in exactly one table. It returns the sizes of the tables.
func checkPlaces(t testing.TB, s *Store) (recent, merged int) {
	t.Helper()
	const count = `WITH places AS (SELECT * FROM recent UNION ALL SELECT * FROM merged)
		SELECT (SELECT count(*) FROM recent), (SELECT count(*) FROM merged), (SELECT count(*) FROM entry),
			(SELECT count(DISTINCT entry.row) FROM entry JOIN places ON places.row = entry.row AND place = substr(slot, 1, 6))`
	var entries, found int
	check(t, s.db.Read(context.Background(), "check places", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, count, nil, &recent, &merged, &entries, &found)
		return err
	}))
	if recent+merged != entries || found != entries {
		t.Errorf("%d + %d places for %d entries, of which %d have theirs", recent, merged, entries, found)
	}
	return recent, merged
}

const movedTogether = 50

// putForEver puts batches of entries until it is killed. It prints the number of each batch that is put.
func putForEver(ctx context.Context, path, first string) (any, error) {
	s, err := Open(ctx, path, WithBusyTimeout(time.Minute))
	if err != nil {
		return nil, err
	}
	s.levels = levels{recent: 4 * movedTogether, largeCall: movedTogether}
	sqlitetest.Ready()
	batch, err := strconv.Atoi(first)
	for ; err == nil; batch++ {
		entries := make([]dedupe.Entry, movedTogether)
		for i := range entries {
			entries[i] = entry(fmt.Sprint(batch, "-", i), "one")
		}
		if _, err = s.PutIfAbsent(ctx, entries); err == nil {
			fmt.Println(batch)
		}
	}
	return nil, err
}

// TestKilledMerge: processes are killed while they put and move. Each entry keeps its place, and the table of new
// places stays small.
func TestKilledMerge(t *testing.T) {
	path := inTemp(t)
	s := newStore(t, path)
	put := 0
	for range 8 {
		p := sqlitetest.Start(t, "put for ever", path, strconv.Itoa(put))
		p.Proceed(t)
		for range 10 {
			if _, ok := p.Line(); !ok {
				t.Fatal("the process has ended")
			}
			put++
		}
		p.Kill()
		if recent, merged := checkPlaces(t, s); recent > 6*movedTogether || merged < put*movedTogether-recent {
			t.Errorf("after %d batches %d places are new, and %d merged", put, recent, merged)
		}
	}
	var old int
	check(t, s.db.Read(t.Context(), "count", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, `SELECT count(*) FROM recent WHERE row <= ?`, sqlite.Args{put * movedTogether / 2}, &old)
		return err
	}))
	if old != 0 {
		t.Errorf("%d places of the first half have not moved", old)
	}
	for batch := range put {
		keys := make([]dedupe.Key, movedTogether)
		for i := range keys {
			keys[i] = format.KeyOf(fmt.Sprint(batch, "-", i))
		}
		found, err := s.Find(t.Context(), "s", keys)
		check(t, err)
		for i, e := range found {
			if !holds(e, entry(fmt.Sprint(batch, "-", i), "one")) {
				t.Fatalf("entry %d of batch %d: %+v", i, batch, e)
			}
		}
	}
}

// TestFailedMerge: a call whose merge fails in its middle changes nothing.
func TestFailedMerge(t *testing.T) {
	s := newStore(t, inTemp(t))
	s.levels = levels{recent: 1, largeCall: 1}
	s.put(t, entry("a", "one"))
	check(t, s.exec(t.Context(), `CREATE TRIGGER bad BEFORE DELETE ON recent BEGIN SELECT raise(ABORT, 'bad'); END`))
	if _, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{entry("b", "one"), entry("c", "one")}); err == nil {
		t.Fatal("nothing was moved")
	}
	check(t, s.exec(t.Context(), `DROP TRIGGER bad`))
	if recent, merged := checkPlaces(t, s); recent != 1 || merged != 0 {
		t.Errorf("%d places are new, and %d merged", recent, merged)
	}
	for _, id := range []string{"b", "c"} {
		if existing := s.put(t, entry(id, "two")); existing != nil {
			t.Errorf("%s has the entry %+v", id, existing)
		}
	}
}

// TestDeletedBeforeSecondAttempt: a put closes a stopped run and is repeated. Meanwhile another process has deleted an
// entry that the first attempt has found, and a new entry has its row.
func TestDeletedBeforeSecondAttempt(t *testing.T) {
	s := newStore(t, inTemp(t))
	check(t, s.SaveRun(t.Context(), "s", dedupe.Run{Digest: "d", ID: "stopped", Rests: true}))
	s.put(t, ofRun("void", "stopped"))
	s.put(t, entry("deleted", "one"))
	attempts := 0
	s.check = func(ctx context.Context, w *sqlite.Statements) error {
		if attempts++; attempts != 2 {
			return nil
		}
		if err := w.Run(ctx, `DELETE FROM entry WHERE row = 2`); err != nil {
			return err
		}
		e := entry("new", "two")
		return s.putAbsent(ctx, w, []request{newRequest(&e, &dedupe.PutResult{})})
	}
	_, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{entry("void", "three"), entry("deleted", "three")})
	check(t, err)
	if attempts != 2 {
		t.Errorf("%d attempts", attempts)
	}
	checkPlaces(t, s)
	for id, content := range map[string]string{"void": "three", "deleted": "three", "new": "two"} {
		if found := s.put(t, entry(id, "four")); !holds(found, entry(id, content)) {
			t.Errorf("%s has the entry %+v", id, found)
		}
	}
}

// TestKeysOfOnePlace: keys with one place, and keys of two scopes with one slot, are different keys.
func TestKeysOfOnePlace(t *testing.T) {
	s := newStore(t, inTemp(t))
	s.levels = levels{recent: 2, largeCall: 1}
	samePlace, sameSlot := entry("a", "samePlace"), entry("a", "sameSlot")
	samePlace.Key[placeSize]++
	sameSlot.Scope = "other"
	sameSlot.Key = slotOf(sameSlot.Scope, slotOf("s", entry("a", "").Key)) // mixing twice returns the key
	entries := []dedupe.Entry{entry("a", "one"), samePlace, sameSlot}
	results, err := s.PutIfAbsent(t.Context(), append(entries, entry("b", "one"), entry("c", "one")))
	check(t, err)
	for i, r := range results {
		if r.Existing != nil {
			t.Errorf("entry %d was found: %+v", i, r.Existing)
		}
	}
	for range 4 { // then all have moved
		for i, e := range entries {
			found, err := s.Find(t.Context(), e.Scope, []dedupe.Key{e.Key})
			if check(t, err); !holds(found[0], e) {
				t.Errorf("entry %d is %+v", i, found[0])
			}
			e.Owner = owner("another")
			if existing := s.put(t, e); !holds(existing, entries[i]) {
				t.Errorf("entry %d was put, or is %+v", i, existing)
			}
		}
		s.recent = 0
	}
}
