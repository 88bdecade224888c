package dynamostore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// everyAttempt is the number of attempts that the client of internal/aws/dynamo makes for a request. It must equal
// maxAttempts there.
const everyAttempt = 3

// wireFault breaks a request, and the requests after it.
type wireFault struct {
	at, times int
	fault     faultproxy.Fault
}

func (f wireFault) String() string {
	return fmt.Sprintf("%s at request %d, %d times", f.fault, f.at, f.times)
}

// TestFaultsAtTheWire breaks every request of every scenario in every way. Broken once, the SDK's retry meets the
// state that the first attempt left. Broken at all attempts, the Bank meets it. The test plays a random share of
// these faults.
func TestFaultsAtTheWire(t *testing.T) {
	testengine.CheckOnly(t)
	breakWire(t, testengine.Dynoxide(t), 60)
}

func TestFaultsAtTheWireOfDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	breakWire(t, testengine.DynamoDBLocal(t), 240)
}

func breakWire(t *testing.T, target string, share int) {
	share = search.Share(share)
	turns := make(chan struct{}, 24) // the SDK waits between attempts most of the time
	tables := itembankengines.OwnTables()
	e := tables.Create(t, target)
	for _, s := range itembankfault.Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			play := wirePlay{scenario: s, tables: tables, target: target, engine: e}
			if listsCampaigns(t, s) {
				play.tables = itembankengines.OwnTables()
				play.engine = play.tables.Create(t, target)
			}
			requests, err := play.run(t.Context(), wireFault{at: -1})
			if err != nil {
				t.Fatal(err)
			}
			var faults []wireFault
			for at, operation := range requests {
				for _, fault := range faultproxy.Of(operation) {
					faults = append(faults, wireFault{at, 1, fault}, wireFault{at, everyAttempt, fault})
				}
			}
			search.Some(t, share, faults, turns, func(f wireFault) error { return play.untilMade(t.Context(), f) })
		})
	}
}

// listsCampaigns reports whether a scenario lists campaigns. It then makes a request for each campaign of the tables.
func listsCampaigns(t *testing.T, s itembankfault.Scenario) bool {
	t.Helper()
	e := itembankengines.Memory(t)
	counted := &itembankfault.Store{Store: e.Store}
	play := itembankfault.Play{Scenario: s, Engine: e, Through: counted, Random: itembankfault.Seeded()}
	if err := play.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return slices.Contains(counted.Calls(), "Campaigns")
}

// wirePlay plays a scenario through a proxy.
type wirePlay struct {
	scenario itembankfault.Scenario
	tables   itembankengines.Tables
	engine   enginetest.Engine // opens the tables without the proxy
	target   string            // the endpoint
}

// untilMade plays the scenario with a fault.
func (p wirePlay) untilMade(ctx context.Context, f wireFault) error {
	return itembankfault.UntilMade(func() error {
		_, err := p.run(ctx, f)
		return err
	})
}

// run plays the scenario once, and returns the operations of the requests.
func (p wirePlay) run(ctx context.Context, f wireFault) ([]string, error) {
	proxy, stop := faultproxy.Start(p.target, func(n int, _ string) faultproxy.Fault {
		if n >= f.at && n < f.at+f.times {
			return f.fault
		}
		return faultproxy.None
	})
	defer stop()
	client, err := awsclient.NewDynamoDB(ctx, func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(proxy.URL),
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	err = itembankfault.Play{
		Scenario: p.scenario, Engine: p.engine, Through: p.tables.Store(client), Random: itembankfault.Seeded(),
	}.Run(ctx)
	requests := proxy.Operations()
	if err == nil && len(requests) <= f.at {
		err = fmt.Errorf("%w: the scenario made %d requests: %s", itembankfault.ErrNeverMade, len(requests), strings.Join(requests, " "))
	}
	return requests, err
}
