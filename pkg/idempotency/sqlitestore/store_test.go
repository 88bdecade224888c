package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/enginetest"
)

func TestMain(m *testing.M) {
	sqlitetest.Main(m, map[string]sqlitetest.Role{"do everything": doEverything})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inTemp(t testing.TB) string { return filepath.Join(t.TempDir(), "once.db") }

func newStore(t testing.TB, path string, options ...Option) *Store {
	t.Helper()
	s, err := Create(t.Context(), path, options...)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

func TestEngine(t *testing.T) {
	t.Parallel()
	testEngine(t, newStore(t, inTemp(t), WithBusyTimeout(time.Minute)))
}

func testEngine(t *testing.T, s *Store) {
	t.Helper()
	enginetest.Run(t, func(testing.TB) engine.Store { return s })
	check(t, s.Do(t.Context(), "make counters", func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE counter (name TEXT NOT NULL PRIMARY KEY, n INTEGER NOT NULL) STRICT`)
		return err
	}))
	enginetest.RunTransactor(t, func(testing.TB) (engine.Transactor, enginetest.Counters) { return s, counters{s} })
}

// counters are rows of a table in the file.
type counters struct{ store *Store }

func (counters) Add(name, onlyOnce string) engine.Effects {
	return Effects(func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO counter VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1`, name)
		if err == nil && name != onlyOnce {
			_, err = tx.ExecContext(ctx, `INSERT INTO counter VALUES (?, 1)`, onlyOnce)
		}
		return err
	})
}

func (c counters) Count(t testing.TB, name string) (n int) {
	t.Helper()
	check(t, c.store.Do(t.Context(), "count", func(ctx context.Context, tx Tx) error {
		return tx.QueryRowContext(ctx, `SELECT coalesce((SELECT n FROM counter WHERE name = ?), 0)`, name).Scan(&n)
	}))
	return n
}

func TestEngineInMemory(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory(t.Context())
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	testEngine(t, s)
}

// TestEffectsAndResultInOneTransaction: effects find the record completed, and nobody else does before they have ended.
// So a process that is killed keeps both or nothing.
func TestEffectsAndResultInOneTransaction(t *testing.T) {
	t.Parallel()
	path := inTemp(t)
	s, other := newStore(t, path), newStore(t, path)
	if a, err := s.Put(t.Context(), key, engine.Record{Status: engine.InProgress, Token: "t"}); err != nil || !a.Done {
		t.Fatal(a, err)
	}
	a, err := s.CompleteWith(t.Context(), key, "t", engine.Completion{}, Effects(func(ctx context.Context, tx Tx) error {
		var within string
		check(t, tx.QueryRowContext(ctx, `SELECT status FROM once`).Scan(&within))
		seen, err := other.Read(ctx, key, engine.Strong)
		if err != nil || within != string(engine.Completed) || seen.Row.Status != engine.InProgress {
			t.Errorf("the effects see %s, others %+v, %v", within, seen.Row, err)
		}
		return nil
	}))
	if seen, readErr := other.Read(t.Context(), key, engine.Strong); err != nil || readErr != nil || !a.Done ||
		seen.Row.Status != engine.Completed {
		t.Error(a, err, seen.Row, readErr)
	}
}

// TestEffectsThatEndTheTransaction: SQLite rolls back, and the effects ignore the error. What they write afterwards is
// kept alone, so they do not run again.
func TestEffectsThatEndTheTransaction(t *testing.T) {
	t.Parallel()
	s := newStore(t, inTemp(t))
	check(t, s.Do(t.Context(), "make a table", func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE account (name TEXT NOT NULL PRIMARY KEY) STRICT`)
		return err
	}))
	record := engine.Record{Status: engine.InProgress, Token: "t"}
	if a, err := s.Put(t.Context(), key, record); err != nil || !a.Done {
		t.Fatal(a, err)
	}
	a, err := s.CompleteWith(t.Context(), key, "t", engine.Completion{}, Effects(func(ctx context.Context, tx Tx) error {
		_, _ = tx.ExecContext(ctx, `INSERT OR ROLLBACK INTO account VALUES (NULL)`)
		_, err := tx.ExecContext(ctx, `INSERT INTO account VALUES ('ann')`)
		return err
	}))
	refused, ok := errors.AsType[*engine.RefusedError](err)
	if !ok || !strings.Contains(refused.Error(), "ended the transaction") {
		t.Errorf("want refused effects, got %+v, %v", a, err)
	}
	if a, err := s.Release(t.Context(), key, "t", "u"); err != nil || !a.Done {
		t.Error(a, err)
	}
}

// contestedKeys is large enough that all processes work at the same time.
const contestedKeys = 200

// doEverything calls each key, and returns the results.
func doEverything(ctx context.Context, path, name string) (any, error) {
	s, err := Open(ctx, path, WithBusyTimeout(time.Minute)) // a long time-out, because the machine may be busy
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	runner, err := idempotency.New(s, "processes", idempotency.Settings{})
	if err != nil {
		return nil, err
	}
	sqlitetest.Ready()
	results := make([]string, contestedKeys)
	for n := range results {
		out, err := idempotency.Do(ctx, runner, fmt.Sprint(n), n,
			func(context.Context, idempotency.Execution, int) (string, error) { return name, nil })
		if err != nil {
			return nil, err
		}
		results[n] = out.Value
	}
	return results, nil
}

// TestProcesses: processes that share a file get the same result of each key.
func TestProcesses(t *testing.T) {
	t.Parallel()
	path := inTemp(t)
	newStore(t, path)
	all := make([]*sqlitetest.Process, 3)
	for i := range all {
		all[i] = sqlitetest.Start(t, "do everything", path, fmt.Sprintf("process %d", i))
	}
	for _, p := range all {
		p.Proceed(t)
	}
	var first []string
	for i, p := range all {
		var results []string
		if p.Result(t, &results); i == 0 {
			first = results
		}
		for n := range results {
			if results[n] == "" || results[n] != first[n] {
				t.Errorf("key %d: %s got %q, and another %q", n, fmt.Sprint("process ", i), results[n], first[n])
			}
		}
	}
}

var key = engine.Key{Namespace: "n", Name: "k"}

// everyMethod calls each method once.
func everyMethod(ctx context.Context, s *Store) map[string]error {
	errs := map[string]error{}
	note := func(name string, a engine.Answer, err error) {
		if errs[name] = err; err != nil && a != (engine.Answer{}) {
			errs["an answer was made up: "+name] = nil
		}
	}
	record := engine.Record{Status: engine.InProgress, Token: "t"}
	a, err := s.Put(ctx, key, record)
	note("Put", a, err)
	a, err = s.Replace(ctx, key, record.Version(), record)
	note("Replace", a, err)
	a, err = s.Prolong(ctx, key, "t", engine.Ends{LeaseEnd: time.Unix(9, 0)})
	note("Prolong", a, err)
	a, err = s.Complete(ctx, key, "t", engine.Completion{})
	note("Complete", a, err)
	a, err = s.Release(ctx, key, "t", "u")
	note("Release", a, err)
	return errs
}

// TestNoWriteGetsThroughWhileBusy: a write while another program has the file is an ErrTryAgain and changes nothing.
func TestNoWriteGetsThroughWhileBusy(t *testing.T) {
	t.Parallel()
	path := inTemp(t)
	s := newStore(t, path, WithBusyTimeout(30*time.Millisecond))
	other := sqlitetest.Foreign(t, path)
	sqlitetest.Run(t, other, `BEGIN IMMEDIATE`)
	errs := everyMethod(t.Context(), s)
	sqlitetest.Run(t, other, `ROLLBACK`)
	for name, err := range errs {
		if !errors.Is(err, engine.ErrTryAgain) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if a, err := s.Read(t.Context(), key, engine.Strong); err != nil || a.Row != nil {
		t.Error(a, err)
	}
}

// TestContextEnds: a call whose context has ended changes nothing.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	s := newStore(t, inTemp(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := everyMethod(ctx, s)
	_, errs["Read"] = s.Read(ctx, key, engine.Strong)
	for name, err := range errs {
		if !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrTryAgain) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if a, err := s.Read(t.Context(), key, engine.Strong); err != nil || a.Row != nil {
		t.Error(a, err)
	}
}

// TestPurge: rows stay until their purge time has come, by the clock of the machine.
func TestPurge(t *testing.T) {
	t.Parallel()
	s := newStore(t, inTemp(t))
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return now }
	for n := range 10 {
		a, err := s.Put(t.Context(), engine.Key{Name: fmt.Sprint(n)}, engine.Record{
			Status: engine.InProgress, PurgeAt: now.Add(time.Duration(n) * time.Second),
		})
		if err != nil || !a.Done || !a.Date.Equal(now) {
			t.Fatal(a, err)
		}
	}
	now = now.Add(4*time.Second + 999*time.Millisecond)
	for _, want := range []int64{5, 0} {
		if n, err := s.Purge(t.Context()); err != nil || n != want {
			t.Errorf("want %d rows deleted, got %d, %v", want, n, err)
		}
	}
	for n := range 10 {
		if a, err := s.Read(t.Context(), engine.Key{Name: fmt.Sprint(n)}, engine.Strong); err != nil || (a.Row != nil) != (n >= 5) {
			t.Error(n, a, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	newer, other := inTemp(t), inTemp(t)
	s := newStore(t, newer)
	check(t, s.db.Write(t.Context(), "test", func(ctx context.Context, w *sqlite.Statements) error {
		return w.Run(ctx, `UPDATE part SET version = version + 1`)
	}))
	db, err := sqlite.Create(t.Context(), other, sqlite.Part{Name: "other", Layout: 1}, nil)
	check(t, err)
	check(t, db.Close())
	for _, c := range []struct {
		path string
		want error
		text string
	}{
		{inTemp(t), fs.ErrNotExist, "oncebox init"},
		{newer, ErrLayout, "tables for idempotency have layout 2, and this version reads layout 1"},
		{other, ErrNotStore, "no tables for idempotency; run `oncebox init`"},
	} {
		if _, err := Open(t.Context(), c.path); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %v with %q", err, c.want, c.text)
		}
	}
}
