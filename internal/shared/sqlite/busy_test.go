package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
)

// brief is a busy timeout for stores that stay busy.
const brief = 30 * time.Millisecond

// checkRefusesWhileBusy checks that all writes fail with the reason, and that reads succeed.
func checkRefusesWhileBusy(t *testing.T, db *DB, reason string) {
	t.Helper()
	_, err := take(t.Context(), db)
	if !errors.Is(err, errTryAgain) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, want the part's TryAgain and nothing of the caller's context", err)
	}
	for _, want := range []string{db.path, "take", reason, "30ms"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not mention %q", err, want)
		}
	}
	checkThings(t, db, 1, 0)
}

func TestForeignTransactionIsTryAgain(t *testing.T) {
	db := newDB(t, 1, WithBusyTimeout(brief))
	other := sqlitetest.Foreign(t, db.path)
	sqlitetest.Run(t, other, `BEGIN IMMEDIATE`)
	checkRefusesWhileBusy(t, db, "another program is writing to the file")
	sqlitetest.Run(t, other, `ROLLBACK`)
	checkTakes(t, db)
}

func TestTurnHeldByAnotherProcessIsTryAgain(t *testing.T) {
	db := newDB(t, 1, WithBusyTimeout(brief))
	holder := sqlitetest.Start(t, "hold the turn", db.path, "holder")
	checkRefusesWhileBusy(t, db, "waiting for the turn")
	holder.Proceed(t)
	var end string
	holder.Result(t, &end)
	if !strings.Contains(end, "without a commit") {
		t.Errorf("the holder ended with %q", end)
	}
	checkTakes(t, db)
}

func TestOpenWaitsForTheFileAndGivesUp(t *testing.T) {
	db := newDB(t, 0)
	check(t, db.Close())
	other := sqlitetest.Foreign(t, db.path)
	sqlitetest.Run(t, other, `PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE`)
	both(t, func(t *testing.T, open openFunc) {
		if _, err := open(t.Context(), db.path, testPart, []Option{WithBusyTimeout(brief)}); !errors.Is(err, errTryAgain) {
			t.Errorf("%v, want the part's TryAgain", err)
		}
	})
}

func TestBusyTimeoutOfZeroIsOneTry(t *testing.T) {
	db := newDB(t, 2, WithBusyTimeout(0))
	other := sqlitetest.Foreign(t, db.path)
	sqlitetest.Run(t, other, `BEGIN IMMEDIATE`)
	if _, err := take(t.Context(), db); !errors.Is(err, errTryAgain) {
		t.Errorf("%v, want the part's TryAgain", err)
	}
	sqlitetest.Run(t, other, `ROLLBACK`)
	checkTakes(t, db)
}

// occupy takes the store's turn in this process until the caller calls leave.
func occupy(t *testing.T, db *DB) (leave func()) {
	t.Helper()
	entered, left := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- db.Write(context.Background(), "occupy", func(context.Context, *Statements) error {
			close(entered)
			<-left
			return nil
		})
	}()
	<-entered
	return func() { close(left); check(t, <-done) }
}

// twins returns other ways into a store: the same DB, and other DBs of this process, which have their own turns as
// another process has.
func twins(t *testing.T, db *DB) map[string]*DB {
	t.Helper()
	same, err := Open(t.Context(), db.path, testPart, nil)
	check(t, err)
	t.Cleanup(func() { check(t, same.Close()) })
	other, err := Create(t.Context(), db.path, otherPart, nil)
	check(t, err)
	t.Cleanup(func() { check(t, other.Close()) })
	return map[string]*DB{"same DB": db, "another DB of the part": same, "another part's DB": other}
}

func TestContextEndsTheWait(t *testing.T) {
	db := newDB(t, 3)
	all := twins(t, db)
	leave := occupy(t, db)
	cause := errors.New("a cause is not an error of the context")
	waits := map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(t.Context(), brief, cause)
		},
		"cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(brief, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		},
		"cancelled before": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
	}
	for name, wait := range waits {
		for where, twin := range all {
			ctx, cancel := wait()
			_, err := take(ctx, twin)
			if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, errTryAgain) {
				t.Errorf("%s, %s: %v, want %v and not TryAgain", name, where, err, ctx.Err())
			}
			cancel()
		}
	}
	leave()
	checkThings(t, db, 3, 0)
	for _, twin := range all {
		checkTakes(t, twin)
	}
}

func TestContextEndsTheWaitForForeignPrograms(t *testing.T) {
	db := newDB(t, 1)
	other := sqlitetest.Foreign(t, db.path)
	sqlitetest.Run(t, other, `BEGIN IMMEDIATE`)
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	_, err := take(ctx, db)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTryAgain) {
		t.Errorf("%v, want DeadlineExceeded and not TryAgain", err)
	}
}

// A read whose context ends, before or during the read, must return the context's error and no other.
func TestContextEndsReads(t *testing.T) {
	const endless = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`
	db := newDB(t, 0)
	read := func(ctx context.Context) error {
		return db.Read(ctx, "read", func(ctx context.Context, r *Statements) error {
			var n int
			_, err := r.One(ctx, endless, nil, &n)
			return err
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := read(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, errTryAgain) {
		t.Errorf("before: %v, want Canceled and not TryAgain", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), brief)
	defer cancel()
	if err := read(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errTryAgain) {
		t.Errorf("while: %v, want DeadlineExceeded and not TryAgain", err)
	}
}

func TestWritersOfAProcessAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 20
		turns := newTurnstile()
		check(t, turns.queue(t.Context()))
		served := make(chan int, waiters)
		for i := range waiters {
			go func() {
				_ = turns.queue(t.Context())
				served <- i
				<-turns.line
			}()
			synctest.Wait() // until the writer waits in line
		}
		<-turns.line
		for i := range waiters {
			if got := <-served; got != i {
				t.Fatalf("writer %d was served in place %d", got, i)
			}
		}
	})
}

func TestReplacedFileRefusesWrites(t *testing.T) {
	db := newDB(t, 2)
	aside := db.path + ".aside"
	check(t, os.Rename(db.path, aside))
	_, err := take(t.Context(), db)
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, errTryAgain) {
		t.Errorf("file gone: %v", err)
	}
	check(t, os.WriteFile(db.path, nil, 0o600))
	_, err = take(t.Context(), db)
	if err == nil || !strings.Contains(err.Error(), "replaced") || errors.Is(err, errTryAgain) {
		t.Errorf("file replaced: %v", err)
	}
	check(t, os.Rename(aside, db.path))
	checkTakes(t, db)
	checkThings(t, db, 1, 1)
}

func TestFailedWriteLeavesNothingAndTheStoreGoesOn(t *testing.T) {
	db := newDB(t, 1)
	fault := errors.New("a fault")
	err := db.Write(t.Context(), "fail", func(ctx context.Context, w *Statements) error {
		_, err := w.Exec(ctx, `DELETE FROM thing`)
		return errors.Join(err, fault)
	})
	if !errors.Is(err, fault) || !strings.Contains(err.Error(), db.path) || !strings.Contains(err.Error(), "fail") {
		t.Errorf("%v, want the fault with the path and what was being done", err)
	}
	checkThings(t, db, 1, 0)
	checkTakes(t, db)
}

// Codes decide, never texts. Only errors that pass by themselves are TryAgain.
func TestSQLiteErrors(t *testing.T) {
	db := newDB(t, 1)
	check(t, db.Write(t.Context(), "test", func(ctx context.Context, w *Statements) error {
		var limit int
		_, err := w.One(ctx, `PRAGMA max_page_count = 1`, nil, &limit) // no larger than the file
		return err
	}))
	full := db.Write(t.Context(), "fill", func(ctx context.Context, w *Statements) error {
		_, err := w.Exec(ctx, `INSERT INTO thing VALUES (?)`, strings.Repeat("x", 1e5))
		return err
	})
	if code(full) != sqlite3.SQLITE_FULL || errors.Is(full, errTryAgain) || !errors.Is(full, ErrDiskFull) {
		t.Errorf("full: %v", full)
	}
	if got, want := full.Error(), db.path+": fill: the disk is full; make room and repeat the command"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	checkThings(t, db, 1, 0)
	checkTakes(t, db)
	other := sqlitetest.Foreign(t, db.path)
	sqlitetest.Run(t, other, `PRAGMA query_only = 1`)
	_, readOnly := other.ExecContext(t.Context(), `DELETE FROM thing`)
	err := db.wrap("test", readOnly)
	if code(err) != sqlite3.SQLITE_READONLY || errors.Is(err, errTryAgain) || !errors.Is(err, ErrNoAccess) {
		t.Errorf("read only: %v", err)
	}
	if got, want := err.Error(), db.path+": test: the file or its folder is read-only; make it and its folder readable and writable for this user"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var e *sqlite.Error
	if !errors.As(readOnly, &e) {
		t.Errorf("%T is not the driver's error", readOnly)
	}
}
