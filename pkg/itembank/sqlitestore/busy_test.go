package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// short is a busy timeout for stores that stay busy.
const short = 30 * time.Millisecond

// checkRefusesWhileBusy makes sure that no write gets through, that each says
// why, and that reads do.
func checkRefusesWhileBusy(t *testing.T, s *Store, c itembank.Campaign, item itembank.FreeItem, reason string) {
	t.Helper()
	ctx := t.Context()
	l := itembank.Load{Campaign: "c", Digest: "d", Number: 1}
	_, take := s.Take(ctx, item, annsClaim(item))
	_, setMode := s.SetMode(ctx, "c", itembank.ClosedByHand)
	_, startLoad := s.StartLoad(ctx, l)
	_, addItems := s.AddItems(ctx, []itembank.Addition{{Item: itembank.FreeItem{Shard: item.Shard, Value: "new"}, LoadID: "l", Row: 1}})
	_, create := s.CreateCampaign(ctx, itembank.Campaign{Name: "other"})
	for name, err := range map[string]error{
		"Take": take, "SetMode": setMode, "StartLoad": startLoad, "AddItems": addItems,
		"CreateCampaign": create, "AdvanceLoad": s.AdvanceLoad(ctx, l),
	} {
		if !errors.Is(err, itembank.ErrTryAgain) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want ErrTryAgain and nothing of the caller's context", name, err)
			continue
		}
		for _, want := range []string{s.path, reason, "30ms"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not mention %q", name, err, want)
			}
		}
	}
	checkUntouched(t, s, c)
}

// checkUntouched reads that the store is as newStore(t, 1) made it.
func checkUntouched(t *testing.T, s *Store, c itembank.Campaign) {
	t.Helper()
	n, err := s.Counts(t.Context(), c)
	if want := (itembank.Counts{Loaded: 1, Free: 1}); err != nil || n != want {
		t.Errorf("counts are %+v (%v), want %+v", n, err, want)
	}
	all, err := s.Campaigns(t.Context())
	if err != nil || len(all) != 1 || all[0] != c {
		t.Errorf("campaigns are %+v (%v), want %+v alone", all, err, c)
	}
	if held, err := s.HeldClaim(t.Context(), "c", "ann"); held != nil || err != nil {
		t.Errorf("claim: %+v, %v", held, err)
	}
}

func checkTakes(t *testing.T, s *Store, item itembank.FreeItem) {
	t.Helper()
	found, err := s.Take(t.Context(), item, annsClaim(item))
	if err != nil || !found.Taken() {
		t.Errorf("once the store is free: %+v, %v", found, err)
	}
}

// foreign opens the file as a program does that knows nothing of turns.
func foreign(t *testing.T, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "mode=rwc", 0))
	check(t, err)
	conn, err := db.Conn(t.Context())
	check(t, err)
	t.Cleanup(func() { _ = conn.Close(); check(t, db.Close()) })
	return conn
}

func run(t *testing.T, conn *sql.Conn, query string) {
	t.Helper()
	_, err := conn.ExecContext(context.Background(), query)
	check(t, err)
}

func TestForeignTransactionIsTryAgain(t *testing.T) {
	s, c := newStore(t, 1, WithBusyTimeout(short))
	item := free(t, s, 1)[0]
	other := foreign(t, s.path)
	run(t, other, `BEGIN IMMEDIATE`)
	checkRefusesWhileBusy(t, s, c, item, "SQLITE_BUSY")
	run(t, other, `ROLLBACK`)
	checkTakes(t, s, item)
}

func TestTurnHeldByAnotherProcessIsTryAgain(t *testing.T) {
	s, c := newStore(t, 1, WithBusyTimeout(short))
	item := free(t, s, 1)[0]
	holder := start(t, "hold the turn", s.path, "holder")
	checkRefusesWhileBusy(t, s, c, item, "waiting for the turn")
	holder.proceed(t)
	var end string
	holder.result(t, &end)
	if !strings.Contains(end, "without a commit") {
		t.Errorf("the holder ended with %q", end)
	}
	checkTakes(t, s, item)
}

func TestOpenWaitsForTheFileAndGivesUp(t *testing.T) {
	s, _ := newStore(t, 0)
	check(t, s.Close())
	other := foreign(t, s.path)
	run(t, other, `PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE`)
	for name, open := range map[string]func(context.Context, string, ...Option) (*Store, error){"Open": Open, "Create": Create} {
		if _, err := open(t.Context(), s.path, WithBusyTimeout(short)); !errors.Is(err, itembank.ErrTryAgain) {
			t.Errorf("%s: %v, want ErrTryAgain", name, err)
		}
	}
}

func TestBusyTimeoutOfZeroIsOneTry(t *testing.T) {
	s, _ := newStore(t, 2, WithBusyTimeout(0))
	items := free(t, s, 2)
	other := foreign(t, s.path)
	run(t, other, `BEGIN IMMEDIATE`)
	if _, err := s.Take(t.Context(), items[0], annsClaim(items[0])); !errors.Is(err, itembank.ErrTryAgain) {
		t.Errorf("%v, want ErrTryAgain", err)
	}
	run(t, other, `ROLLBACK`)
	checkTakes(t, s, items[1])
}

// occupy takes the store's turn in this process until it is told to leave.
func occupy(t *testing.T, s *Store) (leave func()) {
	t.Helper()
	entered, left := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.write(context.Background(), "occupy", func(context.Context, *statements) error {
			close(entered)
			<-left
			return nil
		})
	}()
	<-entered
	return func() { close(left); check(t, <-done) }
}

func TestContextEndsTheWait(t *testing.T) {
	s, c := newStore(t, 1)
	twin, err := Open(t.Context(), s.path) // as another process, with turns of its own
	check(t, err)
	defer func() { _ = twin.Close() }()
	item := free(t, s, 1)[0]
	leave := occupy(t, s)
	cause := errors.New("a cause is not an error of the context")
	waits := map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(t.Context(), short, cause)
		},
		"cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(short, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		},
		"cancelled before": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		},
	}
	for name, wait := range waits {
		for where, store := range map[string]*Store{"same store": s, "other store": twin} {
			ctx, cancel := wait()
			_, err := store.Take(ctx, item, annsClaim(item))
			if ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, itembank.ErrTryAgain) {
				t.Errorf("%s, %s: %v, want %v and not ErrTryAgain", name, where, err, ctx.Err())
			}
			cancel()
		}
	}
	leave()
	checkUntouched(t, s, c)
	checkTakes(t, twin, item)
}

func TestContextEndsTheWaitForForeignPrograms(t *testing.T) {
	s, _ := newStore(t, 1)
	item := free(t, s, 1)[0]
	other := foreign(t, s.path)
	run(t, other, `BEGIN IMMEDIATE`)
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	_, err := s.Take(ctx, item, annsClaim(item))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, itembank.ErrTryAgain) {
		t.Errorf("%v, want DeadlineExceeded and not ErrTryAgain", err)
	}
}

func TestContextEndsReads(t *testing.T) {
	s, c := newStore(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, counts := s.Counts(ctx, c)
	_, held := s.HeldClaim(ctx, "c", "ann")
	_, items := s.FreeItems(ctx, itembank.Shard{Campaign: "c", Generation: 1}, itembank.Range{}, 1)
	for name, err := range map[string]error{"Counts": counts, "HeldClaim": held, "FreeItems": items} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, itembank.ErrTryAgain) {
			t.Errorf("%s: %v, want Canceled and not ErrTryAgain", name, err)
		}
	}
}

// A read that is cut while it runs must be told as cut, not as a fault.
func TestContextCutsARunningRead(t *testing.T) {
	s, _ := newStore(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	const endless = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`
	var n int
	_, err := s.reader.one(ctx, endless, nil, &n)
	if err = s.wrap("read", err); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want DeadlineExceeded", err)
	}
}

func TestWritersOfAProcessAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiters = 20
		turns := &turnstile{line: make(chan struct{}, 1)}
		check(t, turns.queue(t.Context()))
		served := make(chan int, waiters)
		for i := range waiters {
			go func() {
				_ = turns.queue(t.Context())
				served <- i
				<-turns.line
			}()
			synctest.Wait() // until it stands in line
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
	s, _ := newStore(t, 2)
	items := free(t, s, 2)
	aside := s.path + ".aside"
	check(t, os.Rename(s.path, aside))
	_, err := s.Take(t.Context(), items[0], annsClaim(items[0]))
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, itembank.ErrTryAgain) {
		t.Errorf("file gone: %v", err)
	}
	check(t, os.WriteFile(s.path, nil, 0o600))
	_, err = s.Take(t.Context(), items[0], annsClaim(items[0]))
	if err == nil || !strings.Contains(err.Error(), "replaced") || errors.Is(err, itembank.ErrTryAgain) {
		t.Errorf("file replaced: %v", err)
	}
	check(t, os.Rename(aside, s.path))
	checkTakes(t, s, items[1])
}

func TestFailedWriteLeavesNothingAndTheStoreGoesOn(t *testing.T) {
	s, c := newStore(t, 1)
	item := free(t, s, 1)[0]
	fault := errors.New("a fault")
	err := s.write(t.Context(), "fail", func(ctx context.Context, w *statements) error {
		_, err := w.exec(ctx, `DELETE FROM bank`)
		return errors.Join(err, fault)
	})
	if !errors.Is(err, fault) || !strings.Contains(err.Error(), s.path) {
		t.Errorf("%v, want the fault with the path", err)
	}
	checkUntouched(t, s, c)
	checkTakes(t, s, item)
}

// Codes decide, never texts, and only what passes by itself is ErrTryAgain.
func TestSQLiteErrors(t *testing.T) {
	s, c := newStore(t, 1)
	item := free(t, s, 1)[0]
	check(t, s.write(t.Context(), "test", func(ctx context.Context, w *statements) error {
		var limit int
		_, err := w.one(ctx, `PRAGMA max_page_count = 1`, nil, &limit) // as small as the file
		return err
	}))
	var full error
	for row := int64(1); full == nil && row < 1000; row++ {
		value := strings.Repeat("x", itembank.MaxItem)
		a := itembank.Addition{Item: itembank.FreeItem{Shard: item.Shard, Value: value}, LoadID: "l", Row: row}
		a.Item.Hash[0], a.Item.Hash[1] = byte(row>>8), byte(row)
		_, full = s.AddItems(t.Context(), []itembank.Addition{a})
	}
	if code(full) != sqlite3.SQLITE_FULL || errors.Is(full, itembank.ErrTryAgain) || !strings.Contains(full.Error(), s.path) {
		t.Errorf("full: %v", full)
	}
	checkTakes(t, s, item) // deleting makes room
	if n, err := s.Counts(t.Context(), c); err != nil || n.Loaded != n.Free+n.Claimed {
		t.Errorf("after the disk was full: %+v, %v", n, err)
	}
	other := foreign(t, s.path)
	run(t, other, `PRAGMA query_only = 1`)
	_, readOnly := other.ExecContext(t.Context(), `DELETE FROM bank`)
	if err := s.wrap("test", readOnly); code(err) != sqlite3.SQLITE_READONLY || errors.Is(err, itembank.ErrTryAgain) {
		t.Errorf("read only: %v", err)
	}
	var e *sqlite.Error
	if !errors.As(readOnly, &e) {
		t.Errorf("%T is not the driver's error", readOnly)
	}
}
