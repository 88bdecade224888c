package dedupefault

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// Engine is a kind of store on which tests for records run.
type Engine struct {
	Name string
	Open func(testing.TB) dedupe.Store
}

// The engines. Tests on other engines than Memory are part of `make check` only.
var (
	Memory        = Engine{"memory", func(testing.TB) dedupe.Store { return memstore.NewRecords() }}
	SQLiteMemory  = Engine{"sqlite-memory", openSQLiteMemory}
	SQLiteFile    = Engine{"sqlite-file", openSQLiteFile}
	Dynoxide      = Engine{"dynoxide", openDynamoDB(testengine.Dynoxide)}
	DynamoDBLocal = Engine{"dynamodb-local", openDynamoDB(testengine.DynamoDBLocal)}
)

// Engines are all engines.
var Engines = []Engine{Memory, SQLiteMemory, SQLiteFile, Dynoxide, DynamoDBLocal}

// OnEngines runs a test on all engines, each in a subtest with the engine's name. The TestMain of the package must call
// testengine.Main.
func OnEngines(t *testing.T, test func(*testing.T, Engine)) {
	for _, e := range Engines {
		t.Run(e.Name, func(t *testing.T) {
			if e.Name != Memory.Name {
				testengine.CheckOnly(t)
			}
			test(t, e)
		})
	}
}

// Randomly checks a random property: as often as rapid's flag -rapid.checks says, five times that in memory, where it
// costs little, and elsewhere one in share times.
func (e Engine) Randomly(t *testing.T, share int, property func(*rapid.T)) {
	t.Helper()
	if e.Name == Memory.Name {
		for range 5 {
			rapid.Check(t, property)
		}
		return
	}
	rapid.Check(t, func(rt *rapid.T) {
		if share <= 1 || rapid.IntRange(0, share-1).Draw(rt, "share") == 0 {
			property(rt)
		}
	})
}

func openSQLiteMemory(t testing.TB) dedupe.Store {
	s, err := sqlitestore.OpenMemory(t.Context())
	return closedAtEnd(t, s, err)
}

func openSQLiteFile(t testing.TB) dedupe.Store {
	s, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	return closedAtEnd(t, s, err)
}

func closedAtEnd(t testing.TB, s *sqlitestore.Store, err error) dedupe.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// table is the table of all tests of a process, on each DynamoDB.
const table = "test-dedupe"

// tables makes the table once at each endpoint.
var tables sync.Map

// openDynamoDB opens stores on a DynamoDB that start starts.
func openDynamoDB(start func(testing.TB) (endpoint string)) func(testing.TB) dedupe.Store {
	return func(t testing.TB) dedupe.Store {
		t.Helper()
		endpoint := start(t)
		client := dynamodb.New(dynamodb.Options{
			Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		})
		made, _ := tables.LoadOrStore(endpoint, sync.OnceValue(func() error {
			return bank.CreateDedupeTable(context.Background(), client, table)
		}))
		if err := made.(func() error)(); err != nil {
			t.Fatal(err)
		}
		return dynamostore.New(client, table)
	}
}
