package sqlitestore

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

func TestMain(m *testing.M) {
	sqlitetest.Main(m, map[string]sqlitetest.Role{"put everything": putEverything, "put for ever": putForEver})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inTemp(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger.db") }

func newStore(t testing.TB, path string, options ...Option) *Store {
	t.Helper()
	s, err := Create(t.Context(), path, options...)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// exec runs any statement.
func (s *Store) exec(ctx context.Context, query string) error {
	return s.db.Write(ctx, "test", func(ctx context.Context, w *sqlite.Statements) error {
		_, err := w.Exec(ctx, query)
		return err
	})
}

var arrival = time.Date(2026, 11, 20, 12, 0, 0, 5e6, time.UTC)

// owner returns an owner with a short name.
func owner(name string) dedupe.Owner { return dedupe.Owner{Sequence: name, Sub: dedupe.Plain} }

// entry returns an entry that lives for an hour.
func entry(id, ownerName string) dedupe.Entry {
	return dedupe.Entry{
		Scope: "s", Key: format.KeyOf(id), Owner: owner(ownerName), Fingerprint: "f", Version: "v",
		Arrival: arrival, PurgeAt: arrival.Add(time.Hour).Unix(),
	}
}

// put puts one entry and returns the existing one.
func (s *Store) put(t *testing.T, e dedupe.Entry) *dedupe.Existing {
	t.Helper()
	results, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{e})
	check(t, err)
	return results[0].Existing
}

// holds reports whether a put found this entry.
func holds(existing *dedupe.Existing, e dedupe.Entry) bool {
	return existing != nil && *existing == e.Existing()
}

var stream = dedupe.Stream{Account: "a", Region: "r", Name: "n"}
