package dynamostore_test

import (
	"os"
	"testing"

	"github.com/oncebox/oncebox/internal/itembankengines"
	"github.com/oncebox/oncebox/internal/itembankfault"
	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

const bankTable, dedupeTable = itembankengines.BankTable, itembankengines.DedupeTable

type row = itembankengines.Row

var (
	text   = itembankengines.Text
	number = itembankengines.Number
)

func TestEngine(t *testing.T) { enginetest.Run(t, itembankengines.Dynoxide) }

func TestEngineOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	enginetest.Run(t, itembankengines.DynamoDBLocal)
}

func TestFaults(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunFaults(t, itembankengines.Dynoxide, 8)
}

func TestFaultsOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunFaults(t, itembankengines.DynamoDBLocal, 60)
}

func TestHistories(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunHistories(t, itembankengines.Dynoxide)
}

func TestSequences(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunSequences(t, itembankengines.Dynoxide)
}

func TestRestores(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunRestores(t, itembankengines.Memory(t), itembankengines.Dynoxide(t))
	itembankfault.RunRestores(t, itembankengines.Dynoxide(t), itembankengines.Memory(t))
}

func TestPairs(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunPairs(t, itembankengines.Dynoxide, itembankfault.PairOptions{Share: 12})
}

// TestKills kills other processes that work on the tables.
func TestKills(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	itembankfault.RunKills(t, itembankengines.Dynoxide(t), testengine.Dynoxide(t), 12)
}

// TestChild is the process that TestKills kills.
func TestChild(t *testing.T) {
	itembankfault.Child(t, func(_ *testing.T, endpoint string) engine.Store {
		return itembankengines.Store(itembankengines.Client(endpoint, nil))
	})
}

// localEngine is an engine that speaks the protocol of DynamoDB.
type localEngine struct {
	name      string
	endpoint  func(testing.TB) string
	checkOnly bool
}

var localEngines = []localEngine{
	{"dynoxide", testengine.Dynoxide, false},
	{"dynamodb-local", testengine.DynamoDBLocal, true},
}

// onLocalEngines runs a test with the endpoint of each local engine.
func onLocalEngines(t *testing.T, test func(t *testing.T, endpoint string)) {
	for _, e := range localEngines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			if e.checkOnly {
				testengine.CheckOnly(t)
			}
			test(t, e.endpoint(t))
		})
	}
}
