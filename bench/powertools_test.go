package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/powertoolsworker"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

// Goals of idempotent calls, as multiples of Powertools.
const (
	maxOfTheirTime      = 1
	maxOfTheirProcessor = 1
	maxOfTheirRequests  = 1
	maxOfTheirWrites    = 1
)

// theirCalls is how many calls of theirs a round has.
const theirCalls = 50

// BenchmarkPowertools measures idempotent calls beside Powertools for AWS Lambda, in both languages: one call
// after the other in one process, of a function that costs no time, on the same engine. It is skipped on a machine
// without Python or Node.
func BenchmarkPowertools(b *testing.B) {
	const python = "../.tools/powertools/bin/python"
	_, noPython := os.Stat(python)
	if _, noNode := exec.LookPath("node"); noPython != nil || noNode != nil {
		fmt.Printf("BenchmarkPowertools is skipped: %s or node is missing\n", python)
		b.Skip()
	}
	s := newShop(b, testengine.Dynoxide(b))
	s.makeTheirTable()
	var peers []*peer
	for _, format := range powertoolsworker.Formats {
		peers = append(peers, s.newPeer(format))
	}
	ours := s.bothCallers(s.unmetered(0))
	for round := 0; b.Loop(); round++ {
		for _, p := range peers {
			p.round(s, round, ours)
		}
	}
	for _, p := range peers {
		p.calls.report()
		p.replays.report()
	}
	for _, p := range peers {
		s.countBeside(p)
	}
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
}

// bothCallers returns callers for new calls and for replays: processes that have had the same kind of calls before.
func (s *shop) bothCallers(client *dynamodb.Client) [2]caller {
	s.Helper()
	both := [2]caller{s.caller(client), s.caller(client)}
	keys := newKeys()[:20]
	for range 2 {
		_, _, _ = s.callEach(both[1], keys, nil)
	}
	return both
}

// peer is a function with Powertools.
type peer struct {
	*powertoolsworker.Worker
	asked          powertoolsworker.Request
	calls, replays beside
}

// beside holds what calls took, ours beside theirs.
type beside struct {
	name       string
	took, used pairs
}

func (s *shop) theirTable() string { return "theirs-" + s.dedupe }

func (s *shop) makeTheirTable() {
	s.Helper()
	_, err := s.client.CreateTable(s.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(s.theirTable()), BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS},
		},
	})
	s.must(err)
}

// newPeer starts a function with Powertools that has made a call before.
func (s *shop) newPeer(format powertools.Format) *peer {
	s.Helper()
	minute := int(time.Minute / time.Millisecond)
	p := &peer{
		Worker: powertoolsworker.Start(s, format),
		asked: powertoolsworker.Request{
			Do: "calls", Endpoint: testengine.Dynoxide(s), Table: s.theirTable(), Prefix: idempotentNamespace,
			Names: map[string]string{}, Remaining: &minute,
			Result: receipt{bareToken + bareToken, 1795176000123},
		},
		calls:   beside{name: "a new call, beside " + string(format)},
		replays: beside{name: "a replay, beside " + string(format)},
	}
	p.call(s, newKeys()[:1], 1)
	return p
}

// call lets the function be called with keys, and checks how often it has run.
func (p *peer) call(s *shop, keys []string, runs int) (took, used time.Duration) {
	s.Helper()
	p.asked.Keys = keys
	a := p.Ask(s, p.asked)
	if a.Error != "" || a.Runs != runs {
		s.Fatalf("%+v", a)
	}
	return a.Took, a.Used
}

// round makes new calls, and then replays of the same keys, ours and theirs in turn.
func (p *peer) round(s *shop, round int, ours [2]caller) {
	s.Helper()
	keys := newKeys()[:theirCalls]
	for i, of := range []*beside{&p.calls, &p.replays} {
		runs := theirCalls * (1 - i)
		var took, used, theirTook, theirUsed time.Duration
		both := []func(){
			func() { took, used, _ = s.callEach(ours[i], keys, nil) },
			func() { theirTook, theirUsed = p.call(s, keys, runs) },
		}
		both[round%2]()
		both[1-round%2]()
		of.took.add(took/theirCalls, theirTook/theirCalls)
		of.used.add(used/theirCalls, theirUsed/theirCalls)
	}
}

func (c *beside) report() {
	c.took.report("time of "+c.name, maxOfTheirTime)
	c.used.report("client's processor time of "+c.name, maxOfTheirProcessor)
	ours, theirs := median(c.took.measured), median(c.took.floor)
	note("calls a second of "+c.name, time.Second.Seconds()/ours.Seconds(), 0,
		fmt.Sprintf("%.0f of theirs", time.Second.Seconds()/theirs.Seconds()))
}

// countBeside notes the requests and units of calls, ours beside theirs. Their requests go through a proxy that counts.
func (s *shop) countBeside(p *peer) {
	s.Helper()
	engine, err := url.Parse(p.asked.Endpoint)
	s.must(err)
	counter := &meter{http: s.meter.http}
	proxy := httputil.NewSingleHostReverseProxy(engine)
	proxy.Transport = transport(counter.Do)
	server := httptest.NewServer(proxy)
	defer server.Close()
	p.asked.Endpoint = server.URL
	p.call(s, newKeys()[:1], 1)

	ours, keys := s.bothCallers(s.client), newKeys()[:theirCalls]
	for replays, of := range []*beside{&p.calls, &p.replays} {
		before, theirsBefore := s.meter.read(), counter.read()
		_, _, _ = s.callEach(ours[replays], keys, nil)
		p.call(s, keys, theirCalls*(1-replays))
		spent := s.meter.read().minus(before).each(theirCalls)
		theirs := counter.read().minus(theirsBefore).each(theirCalls)
		note("requests of "+of.name, spent.requests/theirs.requests, maxOfTheirRequests,
			fmt.Sprintf("%.2f, theirs %.2f", spent.requests, theirs.requests))
		note("write units of "+of.name, spent.writeUnits/theirs.writeUnits, maxOfTheirWrites,
			fmt.Sprintf("%.2f, theirs %.2f; read units %.2f, theirs %.2f",
				spent.writeUnits, theirs.writeUnits, spent.readUnits, theirs.readUnits))
	}
}

// transport sends requests by a function.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.RequestURI = "" // a client must not set it
	return t(r)
}
