package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
)

var errTryAgain = errors.New("test: try again")

// testPart holds things that can be taken once each.
var testPart = Part{
	Name: "things", Layout: 1, Purpose: "things", TryAgain: errTryAgain,
	Tables: `
		CREATE TABLE thing (name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
		CREATE TABLE taken (name TEXT NOT NULL PRIMARY KEY, by TEXT NOT NULL) STRICT, WITHOUT ROWID;
		CREATE TABLE turns (n INTEGER NOT NULL) STRICT;
		INSERT INTO turns VALUES (0);`,
}

// otherPart is another engine's part of the same file.
var otherPart = Part{
	Name: "others", Layout: 1, Purpose: "others", TryAgain: errTryAgain,
	Tables: `CREATE TABLE other (name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;`,
}

// roles are what other processes of the tests do.
var roles = map[string]sqlitetest.Role{
	"take everything": withStore(takeEverything),
	"hold the turn":   withStore(holdTurn),
	"come and go":     withStore(comeAndGo),
	"break in":        breakIn,
	"back up":         backUpOnce,
}

func TestMain(m *testing.M) { sqlitetest.Main(m, roles) }

// withStore gives a role the store. Its busy timeout is long, because these tests must not fail on a machine with too
// few processors.
func withStore(role func(ctx context.Context, db *DB, name string) (any, error)) sqlitetest.Role {
	return func(ctx context.Context, path, name string) (any, error) {
		db, err := Open(ctx, path, testPart, []Option{WithBusyTimeout(time.Minute)})
		if err != nil {
			return nil, err
		}
		defer func() { _ = db.Close() }()
		return role(ctx, db, name)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inTemp(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }

// newDB returns a store with n things.
func newDB(t *testing.T, n int, options ...Option) *DB {
	t.Helper()
	db, err := Create(t.Context(), inTemp(t, "store.db"), testPart, options)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	check(t, db.Write(t.Context(), "test", func(ctx context.Context, w *Statements) error {
		for i := range n {
			if _, err := w.Exec(ctx, `INSERT INTO thing VALUES (?)`, fmt.Sprintf("thing-%06d", i)); err != nil {
				return err
			}
		}
		return nil
	}))
	return db
}

// take takes a thing for ann. An empty name means that no thing is left.
func take(ctx context.Context, db *DB) (name string, err error) {
	err = db.Write(ctx, "take", func(ctx context.Context, w *Statements) error {
		name, err = takeOne(ctx, w, "ann")
		return err
	})
	return name, err
}

func takeOne(ctx context.Context, w *Statements, by string) (name string, err error) {
	found, err := w.One(ctx, `SELECT min(name) FROM thing HAVING count(*) > 0`, nil, &name)
	if err != nil || !found {
		return "", err
	}
	if _, err := w.Exec(ctx, `DELETE FROM thing WHERE name = ?`, name); err != nil {
		return "", err
	}
	_, err = w.Exec(ctx, `INSERT INTO taken VALUES (?, ?)`, name, by)
	return name, err
}

func checkTakes(t *testing.T, db *DB) {
	t.Helper()
	if name, err := take(t.Context(), db); err != nil || name == "" {
		t.Errorf("%q, %v, want a thing", name, err)
	}
}

// checkThings checks how many things are left and taken.
func checkThings(t *testing.T, db *DB, left, taken int) {
	t.Helper()
	var l, k int
	err := db.Read(t.Context(), "count", func(ctx context.Context, r *Statements) error {
		_, err := r.One(ctx, `SELECT (SELECT count(*) FROM thing), (SELECT count(*) FROM taken)`, nil, &l, &k)
		return err
	})
	if err != nil || l != left || k != taken {
		t.Errorf("%d left and %d taken (%v), want %d and %d", l, k, err, left, taken)
	}
}
