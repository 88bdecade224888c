package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/dedupe"
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

// checkUntouched checks that the store has only the entry "a" of "one".
func checkUntouched(t *testing.T, s *Store) {
	t.Helper()
	var entries, acks, consumers, runs int
	var record string
	err := s.db.Read(t.Context(), "count", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, `SELECT count(*), min(record), (SELECT count(*) FROM ack), (SELECT count(*) FROM consumer),
			(SELECT count(*) FROM run) FROM entry`, nil, &entries, &record, &acks, &consumers, &runs)
		return err
	})
	if err != nil || entries != 1 || record != "one" || acks != 0 || consumers != 0 || runs != 0 {
		t.Errorf("%d entries (%q), %d acks, %d consumers, %d runs, %v", entries, record, acks, consumers, runs, err)
	}
}

func TestNoWriteGetsThroughWhileBusy(t *testing.T) {
	path := inTemp(t)
	s := newStore(t, path, WithBusyTimeout(30*time.Millisecond))
	one := entry("a", "one")
	s.put(t, one)
	other := sqlitetest.Foreign(t, path)
	sqlitetest.Run(t, other, `BEGIN IMMEDIATE`)
	ctx := t.Context()
	_, put := s.PutIfAbsent(ctx, []dedupe.Entry{entry("b", "two")})
	_, raise := s.RaisePurge(ctx, []dedupe.RaiseRequest{{Scope: one.Scope, Key: one.Key, Owner: one.Owner.Digest(), PurgeAt: dedupe.Never}})
	_, consumer := s.ClaimConsumer(ctx, "s", stream, "f")
	for name, err := range map[string]error{
		"PutIfAbsent": put, "RaisePurge": raise, "ClaimConsumer": consumer,
		"WriteAck": s.WriteAck(ctx, ackKey, dedupe.Ack{First: "1", Last: "1"}),
		"SaveRun":  s.SaveRun(ctx, "s", dedupe.Run{Digest: "d"}),
	} {
		if !errors.Is(err, dedupe.ErrTryAgain) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want ErrTryAgain and nothing of the caller's context", name, err)
		}
	}
	checkUntouched(t, s)
	sqlitetest.Run(t, other, `ROLLBACK`)
	if existing := s.put(t, one); !holds(existing, one) {
		t.Errorf("found %+v, want %+v", existing, one.Existing())
	}
}

func TestContextEndsReads(t *testing.T) {
	s := newStore(t, inTemp(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, acks := s.ReadAcks(ctx, ackKey, "1", "2")
	_, run := s.ReadRun(ctx, "s", "d")
	for name, err := range map[string]error{"ReadAcks": acks, "ReadRun": run} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: %v, want Canceled and not ErrTryAgain", name, err)
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

func TestMemoryIsApartAndEndsWithClose(t *testing.T) {
	one, err := OpenMemory(t.Context())
	check(t, err)
	other, err := OpenMemory(t.Context())
	check(t, err)
	defer func() { check(t, other.Close()) }()
	one.put(t, entry("a", "one"))
	if existing := other.put(t, entry("a", "two")); existing != nil {
		t.Errorf("found %+v of another store", existing)
	}
	check(t, one.Close())
	check(t, one.Close())
	_, put := one.PutIfAbsent(t.Context(), []dedupe.Entry{entry("b", "one")})
	_, read := one.ReadRun(t.Context(), "s", "d")
	for _, err := range []error{put, read} {
		if err == nil || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("after Close: %v, want a fault", err)
		}
	}
}
