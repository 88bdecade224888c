package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func TestEngine(t *testing.T) { enginetest.Run(t, itembankengines.SQLite) }

// inMemory opens an engine without a disk, so that a search is fast.
func inMemory(t testing.TB) enginetest.Engine {
	t.Helper()
	s, err := sqlitestore.OpenMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return enginetest.Engine{Store: s, Raw: itembankengines.SQLRaw(func(ctx context.Context, query string, args ...any) error {
		return s.Exec(ctx, query, args...)
	})}
}

func TestFaults(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunFaults(t, inMemory, 4)
}

func TestFaultsInFile(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunFaults(t, itembankengines.SQLite, 8)
}

func TestHistories(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunHistories(t, inMemory)
}

func TestHistoriesInFile(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunHistories(t, itembankengines.SQLite)
}

func TestSequences(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunSequences(t, inMemory)
}

func TestRestores(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunRestores(t, inMemory(t), inMemory(t))
}

func TestPairs(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunPairs(t, inMemory, itembankfault.PairOptions{Share: 1})
}

// TestBackups: a backup that is made between any two calls of other commands has all that was answered before. A copy of
// the file alone has not.
func TestBackups(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "codes.db")
	e := itembankengines.SQLiteFile(t, path)
	copies := 0
	by := func(copyFile func(ctx context.Context, to string) error) itembankfault.CopyStore {
		return func(ctx context.Context) (enginetest.Engine, error) {
			copies++
			to := filepath.Join(folder, fmt.Sprintf("copy-%d.db", copies))
			if err := copyFile(ctx, to); err != nil {
				return enginetest.Engine{}, err
			}
			return itembankengines.SQLiteFile(t, to), nil
		}
	}
	err := itembankfault.PlayCopies(t.Context(), e, by(func(ctx context.Context, to string) error {
		_, err := sqlite.Backup(ctx, path, to, itembank.ErrTryAgain)
		return err
	}))
	if err != nil {
		t.Error(err)
	}
	err = itembankfault.PlayCopies(t.Context(), e, by(func(_ context.Context, to string) error {
		file, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(to, file, 0o600))
	}))
	if err == nil {
		t.Error("copies of the file alone passed")
	}
}

// TestKills kills other processes that work on the file.
func TestKills(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "codes.db")
	itembankfault.RunKills(t, itembankengines.SQLiteFile(t, path), path, 3)
}

// TestChild is the process that TestKills kills.
func TestChild(t *testing.T) {
	itembankfault.Child(t, func(t *testing.T, path string) engine.Store {
		s, err := sqlitestore.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
