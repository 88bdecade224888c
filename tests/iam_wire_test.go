package tests

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/testkit/emftest"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	dedupestore "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// A grant is a row of docs/iam.md: a permission of a function. tests/stack compares the rows
// with the policies of the stack.
type grant struct {
	function, action, resource string
	key                        string // a partition key or the key of an object; empty: any
	isPrefix                   bool   // keys that begin with it are allowed, too
}

// An ask is the permission that a request needs, or an action of a transaction. Its key is a partition key or the key
// of an object.
type ask struct{ function, action, resource, index, key string }

func (g grant) allows(a ask) bool {
	allowed := g.key == "" || a.key == g.key || g.isPrefix && strings.HasPrefix(a.key, g.key)
	return allowed && g.function == a.function && g.action == a.action && g.resource == a.resource
}

// refused returns the asks that no grant allows.
func refused(asks []ask, grants []grant) []ask {
	return slices.DeleteFunc(slices.Clone(asks), func(a ask) bool {
		return slices.ContainsFunc(grants, func(g grant) bool { return g.allows(a) })
	})
}

var keyPattern = regexp.MustCompile("^(?:leading keys?|objects) `([^`*]+)(\\*?)`(?: of the account)?$")

// documentedGrants returns the rows of a section of docs/iam.md about a function, without the
// rows about Lambda itself.
func documentedGrants(t *testing.T, section, function string) (grants []grant) {
	t.Helper()
	_, text, found := strings.Cut(read(t, "../docs/iam.md"), "\n## "+section+"\n")
	if text, _, _ = strings.Cut(text, "\n## "); !found {
		t.Fatalf("docs/iam.md has no section %s", section)
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| "+function+" |") {
			continue
		}
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		g := grant{function: cells[1], action: cells[2], resource: cells[3]}
		if only := cells[4]; only != "" {
			parts := keyPattern.FindStringSubmatch(only)
			if parts == nil {
				t.Fatalf("docs/iam.md: %q is not understood", only)
			}
			g.key, g.isPrefix = strings.Replace(parts[1], "SCOPE", "clicks", 1), parts[2] == "*"
		}
		grants = append(grants, g)
	}
	return grants
}

// The sections about the ledger, acks and the destination.
const (
	withKeys     = "With one row a key"
	inStatements = "With one row a key, and no table as the destination"
	withLog      = "With the log ledger"
	password     = "With the password of a Valkey ledger"
	withAcks     = "With acks"
	fromStream   = "With a Kinesis stream as the source"
	toStream     = "With a stream as the destination"
	toTable      = "With a table as the destination"
)

// TestFunctionsAskForWhatTheyMay gives the built functions all their events and records the
// permissions that their requests need. The rows of docs/iam.md must allow all of them, and
// each row must be needed.
func TestFunctionsAskForWhatTheyMay(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for name, c := range map[string]struct {
		function string
		sections []string
		run      func(*testing.T, *cloud)
	}{
		"claim":               {"claim", []string{"Always"}, askAsClaim},
		"sweep":               {"sweep", []string{"Always", "With metrics"}, askAsSweep},
		"dedupe":              {"dedupe", []string{"Always", fromStream, withKeys, inStatements, toStream, withAcks}, func(t *testing.T, c *cloud) { askAsDedupe(t, c, hostDedupe, "on", newStreamSink) }},
		"dedupe without acks": {"dedupe", []string{"Always", fromStream, withKeys, inStatements, toStream}, func(t *testing.T, c *cloud) { askAsDedupe(t, c, hostDedupe, "off", newStreamSink) }},
		"dedupe to a table":   {"dedupe", []string{"Always", fromStream, withKeys, toTable, withAcks}, func(t *testing.T, c *cloud) { askAsDedupe(t, c, hostDedupe, "on", newTableSink) }},
		"dedupe with the log": {"dedupe", []string{"Always", fromStream, withLog, toStream, withAcks}, func(t *testing.T, c *cloud) { askAsDedupe(t, c, hostDedupe, "on", newStreamSink, "ONCEBOX_LEDGER=log") }},
		"dedupe with Valkey":  {"dedupe", []string{"Always", fromStream, password, toStream, withAcks}, askWithValkey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var grants []grant
			for _, section := range c.sections {
				grants = append(grants, documentedGrants(t, section, c.function)...)
			}
			aws := newCloud(t, c.function)
			c.run(t, aws)
			for _, a := range refused(aws.asks, grants) {
				t.Errorf("no row allows %+v", a)
			}
			for i, g := range grants {
				if len(refused(aws.asks, slices.Delete(slices.Clone(grants), i, i+1))) == 0 {
					t.Errorf("nothing needs the row %+v", g)
				}
			}
			t.Logf("%d asks, %d rows", len(aws.asks), len(grants))
		})
	}
}

func askAsClaim(t *testing.T, aws *cloud) {
	engine, own := testengine.Dynoxide(t), newTables()
	aws.names = map[string]string{own.bank: "bank table", own.dedupe: "dedupe table"}
	loadCampaigns(t, own.create(t, engine))
	askAboutWhatHasEnded(t, aws, engine, own)
	for _, from := range []string{"body", "jwt:sub", "iam"} {
		f := startFunction(t, append(own.settings(aws.url, from), "AWS_ENDPOINT_URL="+aws.url)...)
		for _, name := range eventNames(from) {
			if eventCases[name].status == notHTTP {
				f.mustFail(t, readEvent(t, name))
				continue
			}
			checkReply(t, readEvent(t, name), f.do(t, readEvent(t, name)), eventCases[name])
		}
	}
}

// askAboutWhatHasEnded claims for claimants whose claims have ended, in a campaign whose only
// item is held by a claim that has ended, and in a campaign whose free items have all ended. It also claims in a
// campaign whose items have columns.
func askAboutWhatHasEnded(t *testing.T, aws *cloud, engine string, own tables) {
	t.Helper()
	past := own.create(t, engine, itembank.WithClock(anHourAgo{}))
	f := startFunction(t, append(own.settings(aws.url, "body"), "AWS_ENDPOINT_URL="+aws.url)...)
	for campaign, c := range map[string]struct {
		settings itembank.Settings
		items    int
		holder   string
		status   int
	}{
		"returning": {itembank.Settings{ClaimLife: time.Minute, OnEnd: itembank.Return}, 2, "customer-1", 201},
		"burning":   {itembank.Settings{ClaimLife: time.Minute}, 2, "customer-1", 201},
		"held":      {itembank.Settings{Hold: time.Minute}, 1, "somebody-else", 201}, // found through the index
		"expired":   {itembank.Settings{ItemLife: time.Minute}, 1, "", 409},
		"columns":   {itembank.Settings{Columns: true}, 1, "", 201},
	} {
		addCampaign(t, past, campaign, c.settings, c.items)
		if c.holder != "" {
			_, err := past.Claim(t.Context(), campaign, c.holder)
			must(t, err)
		}
		equal(t, campaign, claimIn(t, f, campaign), c.status)
	}
	// The function reads a free item past its end that has no item row, and leaves it alone.
	addCampaign(t, past, "orphan", itembank.Settings{ItemLife: time.Minute}, 0)
	_, err := itembankengines.Client(engine, nil).PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: sdk.String(own.bank),
		Item: map[string]types.AttributeValue{
			"pk":      &types.AttributeValueMemberS{Value: "bank#orphan#1#00"},
			"sk":      &types.AttributeValueMemberS{Value: strings.Repeat("0", 32)},
			"item":    &types.AttributeValueMemberS{Value: "ORPHAN-A"},
			"ends_at": &types.AttributeValueMemberN{Value: "1"},
		},
	})
	must(t, err)
	equal(t, "orphan", claimIn(t, f, "orphan"), 409)
}

// askAsSweep sweeps campaigns whose claims have ended, one of them with several items, and counts their free items.
func askAsSweep(t *testing.T, aws *cloud) {
	engine, own := testengine.Dynoxide(t), newTables()
	aws.names = map[string]string{own.bank: "bank table", own.dedupe: "dedupe table"}
	past := own.create(t, engine, itembank.WithClock(anHourAgo{}))
	for campaign, settings := range map[string]itembank.Settings{
		"held": {Hold: time.Minute}, "burning": {ClaimLife: time.Minute}, "forever": {},
	} {
		addCampaign(t, past, campaign, settings, 1)
		_, err := past.Claim(t.Context(), campaign, "customer-1")
		must(t, err)
	}
	addCampaign(t, past, "seats", itembank.Settings{Hold: time.Minute, Choice: true}, 2)
	_, err := past.Claim(t.Context(), "seats", "customer-1", itembank.Choosing("SEATS-A", "SEATS-B"))
	must(t, err)
	bootstrap, err := hostSweep()
	must(t, err)
	f := launch(t, bootstrap, t.TempDir(),
		"AWS_ENDPOINT_URL="+aws.url, "ONCEBOX_BANK_TABLE="+own.bank, "ONCEBOX_DEDUPE_TABLE="+own.dedupe,
		"ONCEBOX_METRICS=on", "ONCEBOX_LOG_LEVEL=error")
	_, reply := f.invoke(t, []byte(`{"source":"aws.events","detail-type":"Scheduled Event"}`))
	equal(t, "reply", string(reply), `{"campaigns":3,"failed":0,"returned":3,"expired":1,"withdrawn":0}`)
	sum, n := emftest.Sum(emftest.Points(t, []byte(f.output(t))), "FreeItems", "Campaign=forever")
	equal(t, "free items", sum, 0)
	equal(t, "campaigns that are counted", n, 1)
}

// claimIn claims in a campaign and returns the status of the answer.
func claimIn(t *testing.T, f *function, campaign string) int {
	t.Helper()
	return f.do(t, bytes.ReplaceAll(readEvent(t, "claim-body"), []byte("spring"), []byte(campaign))).StatusCode
}

type anHourAgo struct{}

func (anHourAgo) Now() time.Time { return time.Now().Add(-time.Hour) }

func (anHourAgo) Sleep(context.Context, time.Duration) error { return nil }

// newStreamSink and newTableSink make a destination. They return its name, what docs/iam.md calls it, and its settings.

func newStreamSink(t *testing.T) (name, word string, settings []string) {
	sink := newStream(t)
	return sink.name, "destination stream", []string{"ONCEBOX_SINK=kinesis:" + sink.name}
}

func newTableSink(t *testing.T) (name, word string, settings []string) {
	t.Helper()
	name = newTables().bank + "-items"
	_, err := itembankengines.Client(testengine.Dynoxide(t), nil).CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: sdk.String("item"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: sdk.String("item"), KeyType: types.KeyTypeHash}},
	})
	must(t, err)
	return name, "destination table", []string{"ONCEBOX_SINK=dynamodb:" + name + "?key=item=id"}
}

// askAsDedupe gives each event twice. The second time the records are retries, or the function
// skips them by its acks.
func askAsDedupe(
	t *testing.T, aws *cloud, build func() (string, error), acks string,
	newSink func(*testing.T) (name, word string, settings []string), more ...string,
) {
	engine, own := testengine.Dynoxide(t), newTables()
	own.create(t, engine)
	enterAsStoppedRun(t, dedupestore.New(itembankengines.Client(engine, nil), own.dedupe), "clicks", "single-1")
	sink, word, settings := newSink(t)
	aws.names = map[string]string{
		own.dedupe: "dedupe table", sink: word, deadLetterBucket: "dead-letter bucket", notifyQueue: "notifier queue",
		valkeySecret: "secret",
	}
	b := startDedupeOf(t, build, append(append(settings, more...), "AWS_ENDPOINT_URL="+aws.url, "ONCEBOX_DEDUPE_TABLE="+own.dedupe, "ONCEBOX_SCOPE=clicks",
		"ONCEBOX_DEAD_LETTERS=s3://"+deadLetterBucket+"/poison/clicks?notify="+notifyQueue, "ONCEBOX_ACKS="+acks)...)
	var all dedupe.Tally
	for name := range dedupeCases {
		for range 2 {
			answer, err := b.invoke(t, readDedupeEvent(t, name))
			if err != nil {
				continue // TestDedupeEventsInTheEmulator checks which events are refused
			}
			equal(t, name+": failed records", len(answer.BatchItemFailures), 0)
			tally := b.lastTally(t)
			all.Natural, all.Synthetic, all.DeadLettered = all.Natural+tally.Natural, all.Synthetic+tally.Synthetic, all.DeadLettered+tally.DeadLettered
			all.Retry, all.Skipped = all.Retry+tally.Retry, all.Skipped+tally.Skipped
		}
	}
	// A full request of statements, with a key that is taken.
	many := payloads(0, 26, "click")
	answer, err := b.invoke(t, mustMarshal(t, kinesisEvent(1, many[:25])))
	must(t, err)
	equal(t, "failed records of many", len(answer.BatchItemFailures), 0)
	answer, err = b.invoke(t, mustMarshal(t, kinesisEvent(101, many)))
	must(t, err)
	equal(t, "failed records of many, again", len(answer.BatchItemFailures), 0)
	equal(t, "copies of many", b.lastTally(t).Natural, 25)
	equal(t, "skipped some", all.Skipped > 0, acks == "on")
	equal(t, "retried some", all.Retry > 0, acks == "off")
	equal(t, "all else happened", all.Natural > 0 && all.Synthetic > 0 && all.DeadLettered > 0, true)
}

// enterAsStoppedRun enters an id as a run over files that has stopped before it saved anything.
func enterAsStoppedRun(t *testing.T, ledger dedupe.Store, scope, id string) {
	t.Helper()
	run := dedupe.Run{ID: "20261126T120000.000Z-abcdefgh", Digest: "d", OutputID: "o", Rests: true}
	must(t, ledger.SaveRun(t.Context(), scope, run))
	_, err := ledger.PutIfAbsent(t.Context(), []dedupe.Entry{{
		Scope: scope, Key: format.KeyOf(id), Arrival: time.Now(),
		Owner: dedupe.Owner{Source: dedupe.RunSource(run.ID, 1), Sequence: "1", Sub: dedupe.Plain},
	}})
	must(t, err)
}

// askWithValkey has the entries on a server that asks for the password of a secret.
func askWithValkey(t *testing.T, aws *cloud) {
	server := testengine.FreshValkey(t, "--requirepass", valkeyPassword)
	askAsDedupe(t, aws, hostDedupeFull, "on", newStreamSink, "ONCEBOX_LEDGER=valkey://"+server.Addr+"?secret-arn="+valkeySecret)
}

// TestOtherAsksAreRefused checks that the harness notices what the claim function may not do:
// a load through the same proxy.
func TestOtherAsksAreRefused(t *testing.T) {
	testengine.CheckOnly(t)
	aws, own := newCloud(t, "claim"), newTables()
	aws.names = map[string]string{own.bank: "bank table", own.dedupe: "dedupe table"}
	own.create(t, testengine.Dynoxide(t))
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": "/dev/null", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_ENDPOINT_URL_DYNAMODB": aws.url,
	} {
		t.Setenv(name, value)
	}
	client, err := awsclient.NewDynamoDB(t.Context(), sdkconfig.Load)
	must(t, err)
	bank := itembank.NewOperator(dynamostore.New(client, own.bank, own.dedupe))
	addCampaign(t, bank, "spring", itembank.Settings{}, 1)
	_, _, err = bank.State(t.Context(), "spring")
	must(t, err)
	found := map[string]bool{}
	for _, a := range refused(aws.asks, documentedGrants(t, "Always", "claim")) {
		kind, _, _ := strings.Cut(a.key, "#")
		found[a.action+" "+a.resource+" "+kind] = true
	}
	for _, want := range []string{
		"dynamodb:PutItem bank table campaign", "dynamodb:PutItem bank table campaigns", "dynamodb:PutItem bank table scope",
		"dynamodb:PutItem bank table load", "dynamodb:PutItem bank table item",
		"dynamodb:Query bank table campaigns",
	} {
		equal(t, "refused "+want, found[want], true)
		delete(found, want)
	}
	for more := range found {
		t.Errorf("refused, though the function may do it: %s", more)
	}
}

const (
	deadLetterBucket = "failures"
	notifyQueue      = "https://sqs.us-east-1.amazonaws.com/123456789012/notifier"
	valkeySecret     = "arn:aws:secretsmanager:us-east-1:123456789012:secret:valkey-a1B2c3"
	valkeyPassword   = "hunter2"
)

// cloud stands for all of AWS. It records the permissions that requests need and passes the
// requests on to local engines.
type cloud struct {
	url      string
	function string
	names    map[string]string // the words of docs/iam.md for tables, streams, buckets and queues
	engines  map[string]http.Handler
	mu       sync.Mutex
	asks     []ask
	denied   grant // refused as a policy without it does; the zero value refuses nothing
}

// deny takes a permission away from the function.
func (c *cloud) deny(g grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = g
}

func newCloud(t *testing.T, function string) *cloud {
	t.Helper()
	c := &cloud{function: function, engines: map[string]http.Handler{
		"dynamodb": proxy(t, testengine.Dynoxide(t)), "kinesis": proxy(t, testengine.Kinesis(t)),
		"s3": proxy(t, testengine.S3(t, deadLetterBucket)), "sqs": http.HandlerFunc(takeMessage),
		"secretsmanager": http.HandlerFunc(tellSecret),
	}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func proxy(t *testing.T, engine string) http.Handler {
	t.Helper()
	target, err := url.Parse(engine)
	must(t, err)
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
}

func takeMessage(w http.ResponseWriter, r *http.Request) {
	var in struct{ MessageBody string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sum := md5.Sum([]byte(in.MessageBody)) // the SDK compares it
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(map[string]string{"MessageId": "1", "MD5OfMessageBody": hex.EncodeToString(sum[:])})
}

func tellSecret(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": valkeyPassword})
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	service, asks := c.read(r, body)
	denied := ""
	c.mu.Lock()
	for _, a := range asks {
		a.function, a.action = c.function, service+":"+a.action
		if word, ok := c.names[a.resource]; ok {
			a.resource = word
		}
		if a.index != "" {
			a.resource = "index `" + a.index + "` of the " + a.resource
		}
		c.asks = append(c.asks, a)
		if c.denied.allows(a) {
			denied = a.action
		}
	}
	c.mu.Unlock()
	if denied != "" {
		answerDenied(w, service, denied)
		return
	}
	engine, ok := c.engines[service]
	if !ok {
		http.Error(w, "no engine for "+service, http.StatusNotImplemented)
		return
	}
	engine.ServeHTTP(w, r)
}

// answerDenied answers as a service does where the policy does not allow an action (IAM User Guide, "Troubleshoot access
// denied error messages").
func answerDenied(w http.ResponseWriter, service, action string) {
	message := "User: arn:aws:sts::123456789012:assumed-role/role/function is not authorized to perform: " + action +
		" because no identity-based policy allows the " + action + " action"
	if service == "s3" {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>"+message+"</Message></Error>")
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazon.coral.service#AccessDeniedException", "message": message})
}

// read returns the permissions that a request needs. For a request that it does not know it
// returns one that no row allows.
func (c *cloud) read(r *http.Request, body []byte) (service string, asks []ask) {
	target, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in struct {
		tableRequest
		TransactItems []map[string]tableRequest
		RequestItems  map[string]struct {
			Keys []map[string]struct{ S string }
		} // by table
		Statements []struct {
			Statement  string
			Parameters []struct{ S string }
		}
		StreamName, QueueUrl, SecretId string
	}
	if target != "" {
		if err := json.Unmarshal(body, &in); err != nil {
			return target, []ask{{action: err.Error()}}
		}
	}
	switch target {
	case "DynamoDB_20120810":
		for table, rows := range in.RequestItems {
			for _, key := range rows.Keys {
				asks = append(asks, tableRequest{TableName: table, Key: key}.ask(operation))
			}
		}
		if in.TransactItems == nil && in.RequestItems == nil && in.Statements == nil {
			return "dynamodb", []ask{in.ask(operation)}
		}
		for _, s := range in.Statements { // the first parameter is the partition key
			_, table, _ := strings.Cut(s.Statement, `INSERT INTO "`)
			table, _, _ = strings.Cut(table, `"`)
			asks = append(asks, ask{action: "PartiQLInsert", resource: table, key: s.Parameters[0].S})
		}
		for _, item := range in.TransactItems {
			for kind, part := range item { // one: Get, Put, Update, Delete or ConditionCheck
				asks = append(asks, part.ask(kind+"Item"))
			}
		}
		return "dynamodb", asks
	case "Kinesis_20131202":
		return "kinesis", []ask{{action: operation, resource: in.StreamName}}
	case "AmazonSQS":
		return "sqs", []ask{{action: operation, resource: in.QueueUrl}}
	case "secretsmanager":
		return "secretsmanager", []ask{{action: operation, resource: in.SecretId}}
	case "":
		bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		action := r.Method
		if r.Method == http.MethodPut && r.URL.Query().Get("x-id") == "PutObject" {
			action = "PutObject"
		}
		return "s3", []ask{{action: action, resource: bucket, key: key}}
	}
	return target, []ask{{action: operation}}
}

// tableRequest has the members of a request to DynamoDB, or of an action, that hold the
// partition key.
type tableRequest struct {
	TableName, IndexName      string
	Key, Item                 map[string]struct{ S string }
	KeyConditionExpression    string
	ExpressionAttributeValues map[string]struct{ S string }
}

func (r tableRequest) ask(action string) ask {
	a := ask{action: action, resource: r.TableName, key: r.Key["pk"].S + r.Item["pk"].S} // a request has a key or an item
	for _, name := range []string{"pk", "due"} {
		if strings.HasPrefix(r.KeyConditionExpression+" ", name+" = :"+name+" ") {
			a.key = r.ExpressionAttributeValues[":"+name].S
		}
	}
	a.index = r.IndexName
	return a
}
