package sqlite

import (
	"context"
	"errors"
	"testing"
)

// TestReadSnapshotIsOneMoment: a write between two queries is not seen by the second. After the read it is.
func TestReadSnapshotIsOneMoment(t *testing.T) {
	db := newDB(t, 3)
	check(t, db.ReadSnapshot(t.Context(), "count", func(ctx context.Context, r *Statements) error {
		for range 3 {
			var left int
			if _, err := r.One(ctx, `SELECT count(*) FROM thing`, nil, &left); err != nil || left != 3 {
				t.Errorf("%d left, %v, want 3", left, err)
			}
			checkTakes(t, db)
		}
		return nil
	}))
	checkThings(t, db, 0, 3)
}

func TestContextEndsSnapshots(t *testing.T) {
	db := newDB(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	for when, read := range map[string]func() error{
		"while": func() error {
			return db.ReadSnapshot(ctx, "read", func(ctx context.Context, r *Statements) error {
				cancel()
				var n int
				for {
					if _, err := r.One(ctx, `SELECT count(*) FROM thing`, nil, &n); err != nil {
						return err
					}
				}
			})
		},
		"before": func() error {
			cancel()
			return db.ReadSnapshot(ctx, "read", func(context.Context, *Statements) error { return nil })
		},
	} {
		if err := read(); !errors.Is(err, context.Canceled) || errors.Is(err, errTryAgain) {
			t.Errorf("%s: %v, want Canceled and not TryAgain", when, err)
		}
	}
	checkThings(t, db, 1, 0)
}
