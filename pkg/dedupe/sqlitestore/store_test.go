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

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/internal/sqlite/sqlitetest"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// TestPutTestsTheWholeTime: the condition of a put is that of package dedupe to the nanosecond. If they differed, a
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
			e.Owner, e.Arrival = "new", time.Unix(purge, 0).Add(c.past)
			if existing := s.put(t, e); (existing == nil) != c.put {
				t.Errorf("%v past %d: found %+v, want it put: %t", c.past, purge, existing, c.put)
			}
		}
	}
}

func TestBatchIsOneTransaction(t *testing.T) {
	s := newStore(t, inTemp(t))
	check(t, s.exec(t.Context(), `CREATE TRIGGER bad BEFORE INSERT ON entry WHEN NEW.owner = 'bad' BEGIN SELECT raise(ABORT, 'bad'); END`))
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

// TestKeyTwiceInABatch: the keys of a call must differ. If they do not, the answers are those of one put after the
// other.
func TestKeyTwiceInABatch(t *testing.T) {
	s := newStore(t, inTemp(t))
	first := entry("a", "one")
	results, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{first, entry("a", "two")})
	if err != nil || results[0].Existing != nil || results[1].Existing == nil || *results[1].Existing != first {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestOddTextsComeBack(t *testing.T) {
	s := newStore(t, inTemp(t))
	for i, text := range []string{"", "a\x00b", "a\x00c", "'; --", "日本", "not utf-8 \xff", strings.Repeat("x", 1000)} {
		want := entry(fmt.Sprint(i), text)
		want.Fingerprint, want.Version = text, text
		s.put(t, want)
		raise := dedupe.RaiseRequest{Scope: want.Scope, Key: want.Key, Owner: text, PurgeAt: want.PurgeAt + 1}
		other := raise
		other.Owner += "x"
		stands, err := s.RaisePurge(t.Context(), []dedupe.RaiseRequest{raise, other})
		if err != nil || !stands[0].Raised || stands[1].Raised {
			t.Errorf("%q: %+v, %v", text, stands, err)
		}
		want.PurgeAt++
		if got := s.put(t, want); got == nil || *got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// checkUntouched checks that the store has the entry "a" of "one" and nothing else.
func checkUntouched(t *testing.T, s *Store) {
	t.Helper()
	var entries, checkpoints, runs int
	var owner string
	err := s.db.Read(t.Context(), "count", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, `SELECT count(*), min(owner), (SELECT count(*) FROM checkpoint), (SELECT count(*) FROM run) FROM entry`,
			nil, &entries, &owner, &checkpoints, &runs)
		return err
	})
	if err != nil || entries != 1 || owner != "one" || checkpoints != 0 || runs != 0 {
		t.Errorf("%d entries (%q), %d checkpoints, %d runs, %v", entries, owner, checkpoints, runs, err)
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
	_, raise := s.RaisePurge(ctx, []dedupe.RaiseRequest{{Scope: one.Scope, Key: one.Key, Owner: "one", PurgeAt: dedupe.Never}})
	for name, err := range map[string]error{
		"PutIfAbsent": put, "RaisePurge": raise,
		"AdvanceCheckpoint": s.AdvanceCheckpoint(ctx, checkpointKey, dedupe.Checkpoint{Sequence: "1"}),
		"SaveRun":           s.SaveRun(ctx, "s", dedupe.Run{Digest: "d"}),
	} {
		if !errors.Is(err, dedupe.ErrTryAgain) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want ErrTryAgain and nothing of the caller's context", name, err)
		}
	}
	checkUntouched(t, s)
	sqlitetest.Run(t, other, `ROLLBACK`)
	if existing := s.put(t, one); existing == nil || *existing != one {
		t.Errorf("found %+v, want %+v", existing, one)
	}
}

func TestContextEndsReads(t *testing.T) {
	s := newStore(t, inTemp(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, checkpoint := s.ReadCheckpoint(ctx, checkpointKey)
	_, run := s.ReadRun(ctx, "s", "d")
	for name, err := range map[string]error{"ReadCheckpoint": checkpoint, "ReadRun": run} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("%s: %v, want Canceled and not ErrTryAgain", name, err)
		}
	}
}

func TestOtherConsumerIsNamed(t *testing.T) {
	s := newStore(t, inTemp(t))
	check(t, s.AdvanceCheckpoint(t.Context(), checkpointKey, dedupe.Checkpoint{Sequence: "7", Consumer: "me"}))
	err := s.AdvanceCheckpoint(t.Context(), checkpointKey, dedupe.Checkpoint{Sequence: "6", Consumer: "you"})
	if !errors.Is(err, dedupe.ErrOtherConsumer) || errors.Is(err, dedupe.ErrTryAgain) || !strings.Contains(err.Error(), `"me"`) {
		t.Errorf("%v, want ErrOtherConsumer with its name", err)
	}
}

func TestOpenErrors(t *testing.T) {
	text := inTemp(t)
	check(t, os.WriteFile(text, []byte("no database"), 0o600))
	newer, busy := inTemp(t), inTemp(t)
	s := newStore(t, newer)
	check(t, s.exec(t.Context(), `UPDATE part SET version = version + 1`))
	check(t, s.Close())
	check(t, newStore(t, busy).Close())
	sqlitetest.Run(t, sqlitetest.Foreign(t, busy), `PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE`)
	for _, c := range []struct {
		path string
		want error
		text string
	}{
		{inTemp(t), fs.ErrNotExist, "oncebox init"},
		{text, ErrNotStore, "not a SQLite database"},
		{newer, ErrNewer, "tables for deduplication have version 3"},
		{busy, dedupe.ErrTryAgain, "another program is writing to the file"},
	} {
		_, err := Open(t.Context(), c.path, WithBusyTimeout(time.Millisecond))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %v with %q", err, c.want, c.text)
		}
	}
}

// TestUpgradeFromVersion1: a file whose run rows have the column parked is upgraded when it is opened.
func TestUpgradeFromVersion1(t *testing.T) {
	path := inTemp(t)
	s := newStore(t, path)
	want := dedupe.Run{Digest: "d", ID: "r", Output: 40, DeadLetters: 7}
	check(t, s.SaveRun(t.Context(), "s", want))
	s.put(t, entry("a", "one"))
	check(t, s.exec(t.Context(), `ALTER TABLE run RENAME COLUMN dead_letters TO parked`))
	check(t, s.exec(t.Context(), `UPDATE part SET version = 1 WHERE name = 'dedupe'`))
	check(t, s.Close())

	upgraded, err := Open(t.Context(), path)
	check(t, err)
	defer func() { check(t, upgraded.Close()) }()
	if got, err := upgraded.ReadRun(t.Context(), "s", "d"); err != nil || got == nil || *got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if existing := upgraded.put(t, entry("a", "two")); existing == nil || existing.Owner != "one" {
		t.Errorf("found %+v, want the entry of before", existing)
	}
}

func TestQueriesUseKeys(t *testing.T) {
	path := inTemp(t)
	newStore(t, path)
	sqlitetest.CheckUsesKeys(t, path, map[string]int{selectEntry: 2, raisePurge: 4, selectCheckpoint: 3, selectRun: 2})
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
