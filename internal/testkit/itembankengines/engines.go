// Package itembankengines opens the engines of package itembank for tests.
package itembankengines

import (
	"path/filepath"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// Engine opens an engine for a test. Several tests may get the same engine.
type Engine struct {
	Name string
	Open func(t testing.TB) enginetest.Engine
	// OpenOwn opens an engine that has no campaigns of other tests. On DynamoDB a list of campaigns reads each campaign.
	OpenOwn func(t testing.TB) enginetest.Engine
	// CheckOnly means that the engine takes too long for `make test`.
	CheckOnly bool
}

// Engines lists the engines on which the cases of a Bank run. Amazon DynamoDB Local is not among them: the cases of
// enginetest show that it answers as these do, and every scenario of itembankfault runs on it.
var Engines = []Engine{
	{"memory", Memory, Memory, false},
	{"sqlite", SQLite, SQLite, true},
	{"dynoxide", Dynoxide, dynoxideAlone, true},
}

// dynoxideAlone opens new tables in dynoxide.
func dynoxideAlone(t testing.TB) enginetest.Engine {
	t.Helper()
	return OwnTables().Create(t, testengine.Dynoxide(t))
}

// Memory opens an engine in memory.
func Memory(testing.TB) enginetest.Engine {
	s := memstore.NewItems()
	return enginetest.Engine{Store: s, Raw: s}
}

// SQLite opens an engine in a new SQLite file.
func SQLite(t testing.TB) enginetest.Engine {
	t.Helper()
	return SQLiteFile(t, filepath.Join(t.TempDir(), "codes.db"))
}

// SQLiteFile opens an engine in a SQLite file.
func SQLiteFile(t testing.TB, path string) enginetest.Engine {
	t.Helper()
	s, err := sqlitestore.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return enginetest.Engine{Store: s, Raw: openSQLRaw(t, path)}
}

// Dynoxide opens the tables of this test process in dynoxide.
func Dynoxide(t testing.TB) enginetest.Engine {
	t.Helper()
	return DynamoDB(t, testengine.Dynoxide(t))
}

// DynamoDBLocal opens the tables of this test process in Amazon DynamoDB Local.
func DynamoDBLocal(t testing.TB) enginetest.Engine {
	t.Helper()
	return DynamoDB(t, testengine.DynamoDBLocal(t))
}
