package sqlitestore

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestEraseWaitsForReaders: a reader that began before keeps the -wal file. Erase says so, and a repeat empties the file.
// Other connections of the store go on.
func TestEraseWaitsForReaders(t *testing.T) {
	path := inTemp(t)
	s, _ := newStore(t, path, 2, WithBusyTimeout(30*time.Millisecond))
	items := free(t, s, 2)
	checkTakes(t, s, items[0])
	reader := sqlitetest.Foreign(t, path)
	sqlitetest.Run(t, reader, `BEGIN`)
	sqlitetest.Run(t, reader, `SELECT count(*) FROM claim`)
	if r, err := s.CloseClaim(t.Context(), engine.CloseRequest{Claim: annsClaim(items[0]), State: engine.Burned}); err != nil || !r.Closed() {
		t.Fatalf("got %+v, %v", r, err)
	}
	if err := s.Erase(t.Context()); !errors.Is(err, engine.ErrTryAgain) || !strings.Contains(err.Error(), "another process reads the file") {
		t.Errorf("while a reader reads: got %v", err)
	}
	sqlitetest.Run(t, reader, `COMMIT`)
	check(t, s.Erase(t.Context()))
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() > 0 {
		t.Errorf("want an empty -wal file, got %+v, %v", info, err)
	}
	checkTakes(t, s, items[1])
}

// TestEraseWaitsForWriters: a writer keeps Erase waiting, and nothing is changed.
func TestEraseWaitsForWriters(t *testing.T) {
	path := inTemp(t)
	s, c := newStore(t, path, 1, WithBusyTimeout(30*time.Millisecond))
	writer := sqlitetest.Foreign(t, path)
	sqlitetest.Run(t, writer, `BEGIN IMMEDIATE`)
	if err := s.Erase(t.Context()); !errors.Is(err, engine.ErrTryAgain) {
		t.Errorf("got %v", err)
	}
	sqlitetest.Run(t, writer, `ROLLBACK`)
	check(t, s.Erase(t.Context()))
	checkUntouched(t, s, c)
}
