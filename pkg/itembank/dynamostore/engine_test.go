package dynamostore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// The tables of the tests that need none of their own.
var bankTable, dedupeTable = itembankengines.Shared.Bank, itembankengines.Shared.Dedupe

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

// inOwnTables opens tables of a test's own. They have no campaigns of other tests, which each list of campaigns would
// read.
func inOwnTables(t testing.TB, endpoint string) func(testing.TB) enginetest.Engine {
	e := itembankengines.OwnTables().Create(t, endpoint)
	return func(testing.TB) enginetest.Engine { return e }
}

func TestFaults(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunFaults(t, inOwnTables(t, testengine.Dynoxide(t)), 24)
}

func TestHistories(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunHistories(t, itembankengines.Dynoxide)
}

func TestSequences(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunSequences(t, itembankengines.Dynoxide)
}

func TestPairs(t *testing.T) {
	testengine.CheckOnly(t)
	itembankfault.RunPairs(t, itembankengines.Dynoxide, itembankfault.PairOptions{Share: 40})
}

// TestKills kills other processes that work on the tables.
func TestKills(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	tables, endpoint := itembankengines.OwnTables(), testengine.Dynoxide(t)
	where := strings.Join([]string{endpoint, tables.Bank, tables.Dedupe}, " ")
	itembankfault.RunKills(t, tables.Create(t, endpoint), where, 12)
}

// TestChild is the process that TestKills kills.
func TestChild(t *testing.T) {
	itembankfault.Child(t, func(_ *testing.T, where string) engine.Store {
		place := strings.Fields(where)
		tables := itembankengines.Tables{Bank: place[1], Dedupe: place[2]}
		return tables.Store(itembankengines.Client(place[0], nil))
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
