package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	bankstore "github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// TestPutTestsTheWholeTime: the condition of a put is the same as in package dedupe, to the nanosecond. Otherwise a
// batch would be decided differently from its records one by one.
func TestPutTestsTheWholeTime(t *testing.T) {
	s := newStore(t, inTemp(t))
	for i, purge := range []int64{arrival.Unix(), 1, -1, -1e9} {
		for _, c := range []struct {
			past time.Duration
			put  bool
		}{
			{-time.Second, false}, {-1, false}, {0, false}, {1, true}, {time.Microsecond, true},
			{time.Millisecond, true}, {time.Second, true},
		} {
			old := entry(fmt.Sprint(i, c.past), "old")
			old.PurgeAt = purge
			s.put(t, old)
			e := old
			e.Owner, e.Arrival = owner("new"), time.Unix(purge, 0).Add(c.past)
			if got := old.Existing().PurgedAt(e.Arrival); got != c.put {
				t.Errorf("package dedupe: %v past %d: purged %t, want %t", c.past, purge, got, c.put)
			}
			if existing := s.put(t, e); (existing == nil) != c.put {
				t.Errorf("%v past %d: found %+v, want it put: %t", c.past, purge, existing, c.put)
			}
		}
	}
}

func TestBatchIsOneTransaction(t *testing.T) {
	s := newStore(t, inTemp(t))
	check(t, s.exec(t.Context(), `CREATE TRIGGER bad BEFORE INSERT ON entry WHEN NEW.record = 'bad' BEGIN SELECT raise(ABORT, 'bad'); END`))
	results, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{entry("a", "one"), entry("b", "bad"), entry("c", "two")})
	if err == nil || errors.Is(err, dedupe.ErrTryAgain) || results != nil {
		t.Errorf("%+v, %v, want a fault", results, err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if existing := s.put(t, entry(id, "other")); existing != nil {
			t.Errorf("%+v was put", existing)
		}
	}
}

// TestKeyTwiceInABatch: the keys of a call must differ. If they do not, the answers are the same as for one put after
// the other.
func TestKeyTwiceInABatch(t *testing.T) {
	s := newStore(t, inTemp(t))
	first := entry("a", "one")
	results, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{first, entry("a", "two")})
	if err != nil || results[0].Existing != nil || !holds(results[1].Existing, first) {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestOddTextsComeBack(t *testing.T) {
	s := newStore(t, inTemp(t))
	for i, text := range []string{"", "a\x00b", "a\x00c", "'; --", "日本", "not utf-8 \xff", strings.Repeat("x", 1000)} {
		want := entry(fmt.Sprint(i), text)
		want.Fingerprint, want.Version = text, text
		s.put(t, want)
		raise := dedupe.RaiseRequest{Scope: want.Scope, Key: want.Key, Owner: owner(text).Digest(), PurgeAt: want.PurgeAt + 1}
		other := raise
		other.Owner = owner(text + "x").Digest()
		stands, err := s.RaisePurge(t.Context(), []dedupe.RaiseRequest{raise, other})
		if err != nil || !stands[0].Raised || stands[1].Raised {
			t.Errorf("%q: %+v, %v", text, stands, err)
		}
		want.PurgeAt++
		if got := s.put(t, want); !holds(got, want) {
			t.Errorf("%+v, want %+v", got, want.Existing())
		}
	}
}

func TestOpenErrors(t *testing.T) {
	text := inTemp(t)
	check(t, os.WriteFile(text, []byte("no database"), 0o600))
	newer, older, busy := inTemp(t), inTemp(t), inTemp(t)
	for path, by := range map[string]string{newer: "+ 1", older: "- 1"} {
		s := newStore(t, path)
		check(t, s.exec(t.Context(), `UPDATE part SET version = version `+by))
		check(t, s.Close())
	}
	check(t, newStore(t, busy).Close())
	sqlitetest.Run(t, sqlitetest.Foreign(t, busy), `PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE`)
	for _, c := range []struct {
		path string
		want error
		text string
	}{
		{inTemp(t), fs.ErrNotExist, "oncebox init"},
		{text, ErrNotStore, "not a SQLite database"},
		{newer, ErrLayout, "tables for deduplication have layout 9, and this version reads layout 8; use the version that made it"},
		{older, ErrLayout, "tables for deduplication have layout 7, and this version reads layout 8; use the version that made it"},
		{busy, dedupe.ErrTryAgain, "another program is writing to the file"},
	} {
		_, err := Open(t.Context(), c.path, WithBusyTimeout(time.Millisecond))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %v with %q", err, c.want, c.text)
		}
	}
}

func TestQueriesUseKeys(t *testing.T) {
	path := inTemp(t)
	newStore(t, path)
	sqlitetest.CheckUsesKeys(t, path, map[string]int{
		selectEntries: 5, explainEntry: 2, finishEntry: 3, setHold: 2, finishHeld: 4, raisePurge: 4,
		replaceEntries: 4,
		selectLastRow:  0, selectMoveTo: 2, movePlaces: 2, deleteMoved: 2,
		selectAcks: 6, selectConsumer: 2, selectRun: 2, selectRuns: 1, selectEnd: 2, selectRunByID: 2, selectOpenRuns: 1,
		selectHorizon: 1,
	})
}

// TestBothEnginesOnOneFile: either engine may make the file, and the other one adds its tables.
func TestBothEnginesOnOneFile(t *testing.T) {
	claimsFirst, entriesFirst := inTemp(t), inTemp(t)
	claims, err := bankstore.Create(t.Context(), claimsFirst)
	check(t, err)
	check(t, claims.Close())
	if _, err := Open(t.Context(), claimsFirst); !errors.Is(err, ErrNotStore) ||
		!strings.Contains(err.Error(), "no tables for deduplication; run `oncebox init`") {
		t.Errorf("without the tables: %v", err)
	}
	for _, path := range []string{claimsFirst, entriesFirst} {
		newStore(t, path).put(t, entry("a", "one"))
		claims, err := bankstore.Create(t.Context(), path)
		check(t, err)
		check(t, claims.Close())
	}
}
