package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func newMemory(t *testing.T) *DB {
	t.Helper()
	db, err := OpenMemory(t.Context(), testPart)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

func newTemporary(t *testing.T) *DB {
	t.Helper()
	db, err := OpenTemporary(t.Context(), testPart)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

func TestMemoryIsOfOneDBAndEndsWithIt(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *DB{"memory": newMemory, "temporary": newTemporary} {
		one, other := open(t), open(t)
		checkWritesAndReads(t, one)
		if n, err := turnsSoFar(t.Context(), other); n != 0 || err != nil {
			t.Errorf("%s: another store has %d turns, %v", name, n, err)
		}
		check(t, one.Close())
		check(t, one.Close())
		checkClosed(t, one)
		checkWritesAndReads(t, other)
	}
}

// With one connection, a reader could see data that is not committed.
func TestMemoryReadersSeeWhatIsCommitted(t *testing.T) {
	db := newMemory(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				if err := addTwice(context.Background(), db); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 50 {
				if n, err := turnsSoFar(context.Background(), db); n%2 != 0 || err != nil {
					t.Errorf("%d turns, %v", n, err)
				}
			}
		})
	}
	all.Wait()
	if n, err := turnsSoFar(t.Context(), db); n != 4*50*2 || err != nil {
		t.Errorf("%d turns, %v", n, err)
	}
}

func addTwice(ctx context.Context, db *DB) error {
	return db.Write(ctx, "add twice", func(ctx context.Context, w *Statements) error {
		_, one := w.Exec(ctx, `UPDATE turns SET n = n + 1`)
		_, two := w.Exec(ctx, `UPDATE turns SET n = n + 1`)
		return errors.Join(one, two)
	})
}

func TestMemoryKeepsNothingOfAFailedWrite(t *testing.T) {
	db := newMemory(t)
	fault := errors.New("a fault")
	err := db.Write(t.Context(), "fail", func(ctx context.Context, w *Statements) error {
		_, err := w.Exec(ctx, `UPDATE turns SET n = n + 1`)
		return errors.Join(err, fault)
	})
	if !errors.Is(err, fault) {
		t.Errorf("%v, want the fault", err)
	}
	if n, err := turnsSoFar(t.Context(), db); n != 0 || err != nil {
		t.Errorf("%d turns, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turnsSoFar(ctx, db); !errors.Is(err, context.Canceled) || errors.Is(err, errTryAgain) {
		t.Errorf("%v, want Canceled and not TryAgain", err)
	}
	checkWritesAndReads(t, db)
}
