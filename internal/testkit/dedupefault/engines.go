package dedupefault

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// Engine is a store on which tests for records run.
type Engine struct {
	Name string
	Open func(testing.TB) dedupe.Store
}

// These are the engines. Tests on engines other than Memory run only in `make check`.
var (
	Memory        = Engine{"memory", func(testing.TB) dedupe.Store { return memstore.NewRecords() }}
	SQLiteMemory  = Engine{"sqlite-memory", openSQLiteMemory}
	SQLiteFile    = Engine{"sqlite-file", openSQLiteFile}
	Dynoxide      = Engine{"dynoxide", openDynamoDB(testengine.Dynoxide)}
	DynamoDBLocal = Engine{"dynamodb-local", openDynamoDB(testengine.DynamoDBLocal)}
)

// These engines have a log ledger. Each Open of the log in memory makes a new log.
var (
	MemoryLog        = Engine{"memory-log", openMemoryLog}
	DynoxideLog      = Engine{"dynoxide-log", openDynamoDBLog(Dynoxide)}
	DynamoDBLocalLog = Engine{"dynamodb-local-log", openDynamoDBLog(DynamoDBLocal)}
)

// Engines lists all engines with one row a key. LogEngines lists the engines with a log ledger.
var (
	Engines    = []Engine{Memory, SQLiteMemory, SQLiteFile, Dynoxide, DynamoDBLocal}
	LogEngines = []Engine{MemoryLog, DynoxideLog, DynamoDBLocalLog}
)

// OnEngines runs a test on all engines with one row a key, each in a subtest with the engine's name. The TestMain of
// the package must call testengine.Main.
func OnEngines(t *testing.T, test func(*testing.T, Engine)) { onEach(t, Engines, test) }

// OnEveryEngine runs a test on the engines with a log ledger, too.
func OnEveryEngine(t *testing.T, test func(*testing.T, Engine)) {
	onEach(t, slices.Concat(Engines, LogEngines), test)
}

func onEach(t *testing.T, engines []Engine, test func(*testing.T, Engine)) {
	for _, e := range engines {
		t.Run(e.Name, func(t *testing.T) {
			if !e.inMemory() {
				testengine.CheckOnly(t)
			}
			test(t, e)
		})
	}
}

// hasTx reports whether the engine has a transactional sink.
func (e Engine) hasTx() bool { return e.Name == Memory.Name }

func (e Engine) inMemory() bool { return e.Name == Memory.Name || e.Name == MemoryLog.Name }

// Randomly checks a random property. In memory, where checks are quick, it makes five times as many checks as rapid's
// flag -rapid.checks says. On other engines it divides the number by share.
func (e Engine) Randomly(t *testing.T, share int, property func(*rapid.T)) {
	t.Helper()
	if e.inMemory() {
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

func openMemoryLog(testing.TB) dedupe.Store {
	log := memlog.New()
	log.Page = 3
	return LogStore{memstore.NewRecords(), log}
}

func openDynamoDBLog(e Engine) func(testing.TB) dedupe.Store {
	return func(t testing.TB) dedupe.Store {
		t.Helper()
		store := e.Open(t).(dynamoStore)
		return LogStore{store, dynamostore.NewLog(store.client, table)}
	}
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

// table is the name of the table that all tests of a process share on each DynamoDB.
const table = "test-dedupe"

// tables makes sure that the table is made once at each endpoint.
var tables sync.Map

// dynamoStore is a store with its client.
type dynamoStore struct {
	*dynamostore.Store
	client *dynamodb.Client
}

// openDynamoDB opens stores on the DynamoDB that start starts. They put single entries by puts and others by statements:
// histories have fewer records than a full request.
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
		return dynamoStore{dynamostore.New(client, table, dynamostore.WithStatements(dynamo.Statements{From: 2})), client}
	}
}
