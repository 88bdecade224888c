package tests

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	ledgercost "github.com/oncebox/oncebox/internal/records/cost"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/dedupe"
	dedupestore "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// cost is the number of requests to DynamoDB, and of their units.
type cost struct{ requests, writeUnits, readUnits float64 }

// each returns the cost of one of n.
func (c cost) each(n int) cost {
	return cost{c.requests / float64(n), c.writeUnits / float64(n), c.readUnits / float64(n)}
}

// minus returns the cost without n times the other.
func (c cost) minus(other cost, n int) cost {
	f := float64(n)
	return cost{c.requests - f*other.requests, c.writeUnits - f*other.writeUnits, c.readUnits - f*other.readUnits}
}

// meter counts the requests to DynamoDB and their units by the documented rules (Developer
// Guide, "DynamoDB read and write operations"). It ignores the units that a local engine
// reports, because local engines count differently.
type meter struct {
	mu    sync.Mutex
	spent cost
}

// Do sends a request of the SDK and counts it, also if its context ends meanwhile: a search reads the claim besides, and
// does not always wait for the answer.
func (m *meter) Do(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.WithContext(context.WithoutCancel(r.Context()))
	r.Body = io.NopCloser(bytes.NewReader(sent))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	received, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(received))
	if err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	c, err := costOf(operation, sent, received)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent.requests++
	m.spent.writeUnits += c.writeUnits
	m.spent.readUnits += c.readUnits
	return response, err
}

// during returns the cost of work.
func (m *meter) during(work func()) cost {
	m.spent = cost{}
	work()
	return m.spent
}

type item map[string]map[string]any

// costOf returns the cost of a request. A write with a failed condition costs as much as the
// write. Requests to delete and update hold no item; the rows of this project are below 1 KB.
func costOf(operation string, sent, received []byte) (cost, error) {
	var request struct {
		Item           item
		TransactItems  []map[string]struct{ Item item }
		Statements     []struct{ Parameters []map[string]any } // of one row each
		ConsistentRead bool
		RequestItems   map[string]struct {
			Keys           []item
			ConsistentRead bool
		}
	}
	var answer struct {
		Item  item
		Items []item
	}
	if err := errors.Join(json.Unmarshal(sent, &request), json.Unmarshal(received, &answer)); err != nil {
		return cost{}, err
	}
	switch operation {
	case "PutItem", "UpdateItem", "DeleteItem":
		return cost{writeUnits: started(1024, request.Item)}, nil
	case "TransactWriteItems":
		var c cost
		for _, actions := range request.TransactItems {
			for _, action := range actions {
				c.writeUnits += 2 * started(1024, action.Item)
			}
		}
		return c, nil
	case "BatchExecuteStatement":
		var c cost
		for _, s := range request.Statements {
			row := item{}
			for i, value := range s.Parameters {
				row[fmt.Sprint("n", i)] = value
			}
			c.writeUnits += started(1024, row)
		}
		return c, nil
	case "TransactGetItems": // two units for each row; ours are below 4 KB
		return cost{readUnits: 2 * float64(len(request.TransactItems))}, nil
	case "BatchGetItem": // each row counts alone, even an absent row; ours are below 4 KB
		var c cost
		for _, read := range request.RequestItems {
			units := float64(len(read.Keys))
			if !read.ConsistentRead {
				units /= 2
			}
			c.readUnits += units
		}
		return c, nil
	case "GetItem", "Query": // a query costs the sum of the items that it read
		units := started(4096, append(answer.Items, answer.Item)...)
		if !request.ConsistentRead {
			units /= 2
		}
		return cost{readUnits: units}, nil
	}
	return cost{}, fmt.Errorf("the cost of %s is not known", operation)
}

// started returns the number of started blocks of the items together, at least one.
func started(block int, items ...item) float64 {
	size := 0
	for _, attributes := range items {
		for name, value := range attributes {
			for kind, v := range value {
				size += len(name) + storedSize(kind, fmt.Sprint(v))
			}
		}
	}
	return math.Max(1, math.Ceil(float64(size)/float64(block)))
}

// storedSize returns the bytes of a value. DynamoDB stores a number in fewer.
func storedSize(kind, value string) int {
	if kind == "B" {
		return base64.StdEncoding.DecodedLen(len(value)) - strings.Count(value, "=")
	}
	return len(value)
}

// metered returns a client of dynoxide, the meter of its requests, and new tables.
func metered(t *testing.T) (*meter, *dynamodb.Client, tables) {
	t.Helper()
	endpoint, own, m := testengine.Dynoxide(t), newTables(), &meter{}
	own.create(t, endpoint)
	return m, itembankengines.Client(endpoint, m), own
}

// counted is the number of claims or records in one measurement.
const counted = 1000

// claimants is the claim API with default campaigns over metered tables. Only the test moves
// the clock, so that pages and cached campaigns do not expire. The random numbers are the same in each run, and so is
// each count. The tolerances in docs/costs.md cover other random numbers.
type claimants struct {
	*testing.T
	*meter
	store  engine.Store
	clock  *itembankfault.Clock
	random io.Reader
}

func newClaimants(t *testing.T) (*claimants, *dynamodb.Client, tables) {
	t.Helper()
	m, client, own := metered(t)
	store := itembankengines.CallersClock{Store: dynamostore.New(client, own.bank, own.dedupe)}
	return &claimants{t, m, store, itembankfault.NewClock(), itembankfault.Seeded()}, client, own
}

// container returns a new container of the function.
func (c *claimants) container() *claimapi.Handler {
	from, err := claimapi.ParseClaimantFrom("body")
	must(c, err)
	return claimapi.New(c.bank().Bank, from, slog.New(slog.DiscardHandler))
}

func (c *claimants) bank() *itembank.Operator {
	return itembank.NewOperator(c.store, itembank.WithClock(c.clock), itembank.WithRandom(c.random))
}

// campaign makes a campaign of voucher codes and returns the cost of the load.
func (c *claimants) campaign(name string, codes int) cost {
	bank, items := c.bank(), make([]string, codes)
	for i := range items {
		items[i] = fmt.Sprintf("SAVE-%06d-ABCD", i)
	}
	_, _, err := bank.CreateCampaign(c.Context(), name, itembank.Settings{})
	must(c, err)
	if codes == 0 {
		return cost{}
	}
	return c.during(func() {
		_, err := bank.Load(c.Context(), name, itembank.Items(items...), nil)
		must(c, err)
	})
}

// seats makes a campaign of items with columns.
func (c *claimants) seats(name string, seats int) {
	_, _, err := c.bank().CreateCampaign(c.Context(), name, itembank.Settings{Columns: true, Publish: true})
	must(c, err)
	source := func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			for i := range seats {
				columns := []itembank.Column{{Name: "price", Value: "40.00"}, {Name: "row", Value: strconv.Itoa(i / 100)}}
				if !yield(itembank.Line{Number: int64(i) + 1, Item: fmt.Sprintf("seat %d", i), Columns: columns}, nil) {
					return
				}
			}
		}
	}
	_, err = c.bank().Load(c.Context(), name, source, nil)
	must(c, err)
}

// claim claims an item and wants a status.
func (c *claimants) claim(h *claimapi.Handler, campaign string, claimant, want int) {
	c.Helper()
	var request events.APIGatewayV2HTTPRequest
	must(c, json.Unmarshal(readEvent(c, "claim-body"), &request))
	request.RawPath = "/campaigns/" + campaign + "/claims"
	request.Body = fmt.Sprintf(`{"claimant":"customer-%d@example.com"}`, claimant)
	c.ask(h, request, want)
}

// refill makes claims until one of them reads a page, which takes more requests than most claims do. After that the
// container knows free items: repeated claims do not have to look for one first.
func (c *claimants) refill(h *claimapi.Handler, campaign string, most float64) {
	c.Helper()
	for claimant := -2; claimant > -1000; claimant-- {
		if c.during(func() { c.claim(h, campaign, claimant, http.StatusCreated) }).requests > most {
			return
		}
	}
	c.Fatalf("no claim of campaign %s took more than %v requests", campaign, most)
}

// read reads the claim of a claimant and wants a status.
func (c *claimants) read(h *claimapi.Handler, campaign string, claimant, want int) {
	c.Helper()
	var request events.APIGatewayV2HTTPRequest
	must(c, json.Unmarshal(readEvent(c, "get-claim"), &request))
	request.RawPath = fmt.Sprintf("/campaigns/%s/claims/customer-%d@example.com", campaign, claimant)
	c.ask(h, request, want)
}

// list lists up to 500 free items, n times.
func (c *claimants) list(h *claimapi.Handler, campaign string, n int) {
	c.Helper()
	var request events.APIGatewayV2HTTPRequest
	must(c, json.Unmarshal(readEvent(c, "get-items"), &request))
	request.RawPath, request.RawQueryString = "/campaigns/"+campaign+"/items", "limit=500"
	for range n {
		c.ask(h, request, http.StatusOK)
	}
}

func (c *claimants) ask(h *claimapi.Handler, request events.APIGatewayV2HTTPRequest, want int) {
	c.Helper()
	response, err := h.Handle(c.Context(), request)
	must(c, err)
	if response.StatusCode != want {
		c.Fatalf("want the status %d, got %d %s", want, response.StatusCode, response.Body)
	}
}

// costsOfClaims counts the rows of docs/costs.md about claims.
func costsOfClaims(t *testing.T) map[string]cost {
	c, _, _ := newClaimants(t)
	costs := map[string]cost{}
	each := func(n int, name string, work func(i int)) {
		costs[name] = c.during(func() {
			for i := range n {
				work(i)
			}
		}).each(n)
	}
	costs["an item loaded"] = c.campaign("spring", 2*counted).each(2 * counted)
	c.campaign("large", 20*counted)
	countFree := func(campaign string) func(int) {
		return func(int) {
			_, err := c.bank().CountFree(t.Context(), campaign)
			must(t, err)
		}
	}
	each(counted/50, "the free items of a campaign counted, 2,000", countFree("spring"))
	each(counted/50, "the free items of a campaign counted, 20,000", countFree("large"))
	busy := c.container()
	c.claim(busy, "spring", -1, http.StatusCreated)
	each(counted, "a new claim, in a busy container", func(i int) { c.claim(busy, "spring", i, http.StatusCreated) })
	c.refill(busy, "spring", 1)
	each(counted, "the same claimant again", func(i int) { c.claim(busy, "spring", i, http.StatusOK) })
	each(counted, "a claim read", func(i int) { c.read(busy, "spring", i, http.StatusOK) })
	c.seats("seats", 2*counted)
	each(1, "500 free items with columns, listed for an operator", func(int) {
		_, err := c.bank().FreeItems(t.Context(), "seats", "", 500)
		must(t, err)
	})
	lists := c.container()
	for _, name := range []string{"the first", "each later"} {
		each(1, "lists of free items with columns in a container, "+name+" second", func(int) { c.list(lists, "seats", 24) })
		c.clock.Advance(time.Second)
	}
	c.claim(busy, "seats", -1, http.StatusCreated)
	each(counted, "a new claim of an item with columns", func(i int) { c.claim(busy, "seats", i, http.StatusCreated) })
	c.refill(busy, "seats", 2)
	each(counted, "the same claimant again, with columns", func(i int) { c.claim(busy, "seats", i, http.StatusOK) })
	c.campaign("summer", 2*counted)
	each(counted/5, "a new claim, the first of its container", func(i int) {
		c.claim(c.container(), "summer", 2*counted+i, http.StatusCreated)
	})

	c.campaign("empty", 0)
	soldOut := func(i int) { c.claim(busy, "empty", i, http.StatusConflict) }
	soldOut(0)
	each(counted, "sold out", soldOut)
	c.clock.Advance(2 * time.Second)
	each(1, "sold out, the first of a second in its container", soldOut)

	c.campaign("past", 0)
	must(t, c.bank().CloseCampaign(t.Context(), "past"))
	closed := func(i int) { c.claim(busy, "past", i, http.StatusConflict) }
	closed(0)
	each(counted, "closed, or not open yet", closed)
	return costs
}

// records is the dedupe function over a metered table.
type records struct {
	*testing.T
	*meter
	store *dedupestore.Store
	sent  counter
}

// counter is a sink that counts records.
type counter struct{ records int }

func (c *counter) send(context.Context, dedupe.Output) error {
	c.records++
	return nil
}

// noDeadLetters is a store for records without poison.
type noDeadLetters struct{}

func (noDeadLetters) Put(context.Context, []dedupe.DeadLetter) (stored int, err error) {
	return 0, errors.New("there are dead letters")
}

// container returns a new container of the function, with the acks and the consumers of the parts.
func (r *records) container(p dedupe.Parts) *recordhandler.Handler {
	options, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=s3://failures",
		"AWS_LAMBDA_FUNCTION_NAME=dedupe",
	})
	must(r, err)
	p.Ledger, p.Sink, p.DeadLetters = r.store, dedupe.SinkFunc(r.sent.send), noDeadLetters{}
	h, err := recordhandler.New(p, options, slog.New(slog.DiscardHandler))
	must(r, err)
	return h
}

// batch returns the cost of a batch of records, the first with the sequence number. The
// function must deliver as many of them as sent says.
func (r *records) batch(h *recordhandler.Handler, sequence int, payloads []string, sent int) cost {
	r.Helper()
	return r.handle(h, kinesisEvent(sequence, payloads), sent)
}

// messages is batch for the messages of a queue.
func (r *records) messages(h *recordhandler.Handler, payloads []string, sent int) cost {
	r.Helper()
	var event events.SQSEvent
	for _, payload := range payloads {
		event.Records = append(event.Records, events.SQSMessage{
			MessageId: payload, EventSource: "aws:sqs", EventSourceARN: "arn:aws:sqs:us-east-1:123456789012:clicks",
			Body: payload, Attributes: map[string]string{"SentTimestamp": fmt.Sprint(time.Now().UnixMilli())},
		})
	}
	return r.handle(h, event, sent)
}

// handle returns the cost of an event. The function must deliver as many of its records as sent says.
func (r *records) handle(h *recordhandler.Handler, event any, sent int) cost {
	r.Helper()
	raw, err := json.Marshal(event)
	must(r, err)
	before := r.sent.records
	spent := r.during(func() {
		answer, err := h.Handle(r.Context(), raw)
		must(r, err)
		equal(r.T, "failed records", len(answer.BatchItemFailures), 0)
	})
	equal(r.T, "records sent", r.sent.records-before, sent)
	return spent
}

// kinesisEvent is a batch of records, the first with the sequence number.
func kinesisEvent(sequence int, payloads []string) events.KinesisEvent {
	const shard = "shardId-000000000000"
	event := events.KinesisEvent{Records: make([]events.KinesisEventRecord, len(payloads))}
	for i, payload := range payloads {
		number := fmt.Sprintf("4967%052d", sequence+i)
		event.Records[i] = events.KinesisEventRecord{
			EventID: shard + ":" + number, EventSource: "aws:kinesis", EventVersion: "1.0",
			EventSourceArn: "arn:aws:kinesis:us-east-1:123456789012:stream/clicks",
			Kinesis: events.KinesisRecord{
				SequenceNumber: number, PartitionKey: "k", Data: []byte(payload),
				ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: time.Now()},
			},
		}
	}
	return event
}

// payloads returns records, each with its own id and the text.
func payloads(first, n int, text string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"id":"%s-%07d","text":%q}`, "7a1d9c52-0f67-4d8e-8d5e", first+i, text)
	}
	return all
}

// costsOfRecords counts the rows of docs/costs.md about records.
func costsOfRecords(t *testing.T) map[string]cost {
	m, client, own := metered(t)
	r := &records{T: t, meter: m, store: dedupestore.New(client, own.dedupe)}
	plain, clicks := r.container(dedupe.Parts{}), payloads(0, counted, "click")
	costs := map[string]cost{}
	costs["a new record"] = r.batch(plain, 0, clicks, counted).each(counted)
	costs["a copy in a later batch"] = r.batch(plain, 1*counted, clicks, 0).each(counted)
	costs["a redelivered record"] = r.batch(plain, 0, clicks, counted).each(counted)
	costs["another record under a used id"] = r.batch(plain, 2*counted, payloads(0, counted, "other"), counted).each(counted)
	twice := payloads(counted, dedupe.DefaultChunk/2, "click")
	copies := r.batch(plain, 3*counted, append(twice, twice...), len(twice)).minus(costs["a new record"], len(twice))
	costs["a copy in the same 500 records"] = copies.each(len(twice))

	acked, more := r.container(dedupe.Parts{Acks: r.store}), payloads(2*counted, counted, "click")
	costs["the acks of a batch of 1,000"] = r.batch(acked, 4*counted, more, counted).minus(costs["a new record"], counted)
	costs["a batch of 1,000 that acks skip"] = r.batch(acked, 4*counted, more, 0)
	few := payloads(3*counted, 10, "click")
	costs["a new record, in a batch of 10"] = r.batch(plain, 5*counted, few, len(few)).each(len(few))
	others := payloads(3*counted+10, 10, "click")
	costs["the acks of a batch of 10"] = r.batch(acked, 5*counted, others, len(others)).
		minus(costs["a new record, in a batch of 10"], len(others))
	first := r.container(dedupe.Parts{Consumers: r.store})
	costs["the first batch of a container, besides"] = r.batch(first, 0, clicks, counted).minus(costs["a redelivered record"], counted)
	queue, messages := r.container(dedupe.Parts{Acks: r.store}), payloads(4*counted, counted, "click")
	one := r.messages(queue, payloads(5*counted, 1, "click"), 1)
	costs["a message of a queue"] = r.messages(queue, messages, counted).minus(one, 1).each(counted - 1)
	besides := one.minus(costs["a message of a queue"], 1)
	costs["a batch of a queue, besides"] = besides
	costs["a message of a queue that is done, again"] = r.messages(queue, messages, 0).minus(besides, 1).each(counted)

	sequence := 6 * counted
	for name, row := range costTable(t, "Acks") {
		n, err := strconv.Atoi(strings.Fields(name)[0])
		must(t, err)
		ack := r.batch(acked, sequence, payloads(sequence, n, "click"), n).minus(costs["a new record"], n)
		agrees(t, "write units of an ack of "+name, row[0], ack.writeUnits)
		agrees(t, "write units a record of an ack of "+name, row[1], ack.each(n).writeUnits)
		sequence += counted
	}
	return costs
}

// costTable returns the rows of a table of docs/costs.md by their first cell.
func costTable(t *testing.T, section string) map[string][]string {
	t.Helper()
	_, text, found := strings.Cut(read(t, "../docs/costs.md"), "\n## "+section+"\n")
	if !found {
		t.Fatalf("docs/costs.md has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	table := map[string][]string{}
	for line := range strings.Lines(text) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) > 1 && !strings.HasPrefix(line, "| | ") {
			table[cells[0]] = cells[1:]
		}
	}
	if len(table) == 0 {
		t.Fatalf("section %q of docs/costs.md has no table", section)
	}
	return table
}

// number reads a cell such as "1.05 ± 0.02". Without a tolerance it is half of the last digit.
func number(t *testing.T, cell string) (value, tolerance float64) {
	t.Helper()
	text, plusMinus, given := strings.Cut(cell, " ± ")
	value, err := strconv.ParseFloat(text, 64)
	must(t, err)
	if given {
		tolerance, err = strconv.ParseFloat(plusMinus, 64)
		must(t, err)
		return value, tolerance
	}
	_, decimals, _ := strings.Cut(text, ".")
	return value, math.Pow10(-len(decimals))/2 + 1e-9
}

// agrees compares a cell with the counted value.
func agrees(t *testing.T, what, cell string, counted float64) {
	t.Helper()
	if value, tolerance := number(t, cell); math.Abs(value-counted) > tolerance {
		t.Errorf("%s: docs/costs.md has %s, want %.4f", what, cell, counted)
	}
}

// TestCosts compares the counts of internal/records/cost, which docs/costs.md and `oncebox cost` have, with the requests
// and units that the test counts.
func TestCosts(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	all := costsOfClaims(t)
	maps.Copy(all, costsOfRecords(t))
	maps.Copy(all, costsOfLogs(t))
	equal(t, "counts", len(ledgercost.Counts), len(all))
	for _, want := range ledgercost.Counts {
		got, ok := all[want.Name]
		t.Logf("%s: %+v", want.Name, got)
		if !ok || !want.Requests.Agrees(got.requests) || !want.Write.Agrees(got.writeUnits) || !want.Read.Agrees(got.readUnits) {
			t.Errorf("internal/records/cost has %+v, counted: %t, %+v", want, ok, got)
		}
	}
}

// TestBytesOfAClaim measures the rows of claimed items, as DynamoDB stores them: with 100 bytes for each row
// (Developer Guide, "DynamoDB item sizes and formats").
func TestBytesOfAClaim(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	c, client, own := newClaimants(t)
	const claims = 500
	c.campaign("spring", claims)
	busy := c.container()
	for i := range claims {
		c.claim(busy, "spring", i, http.StatusCreated)
	}
	bytes := 0
	for _, table := range []string{own.bank, own.dedupe} {
		pages := dynamodb.NewScanPaginator(dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.HTTPClient = http.DefaultClient }),
			&dynamodb.ScanInput{TableName: &table})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			must(t, err)
			for _, row := range page.Items {
				bytes += 100 + itemSize(t, row)
			}
		}
	}
	got := float64(bytes) / claims
	t.Logf("%.0f bytes a claim", got)
	if math.Abs(got-ledgercost.BytesOfAClaim) > 0.05*ledgercost.BytesOfAClaim {
		t.Errorf("internal/records/cost has %d bytes, want %.0f", ledgercost.BytesOfAClaim, got)
	}
}

// TestPrices calculates the sums of docs/costs.md from its prices and its table.
func TestPrices(t *testing.T) {
	t.Parallel()
	rows, prices := costTable(t, "DynamoDB"), costTable(t, "Prices")
	price := func(name string) float64 {
		t.Helper()
		if len(prices[name]) == 0 {
			t.Fatalf("docs/costs.md has no price of %s", name)
		}
		value, _ := number(t, prices[name][0])
		return value
	}
	dollars := func(name string) float64 {
		t.Helper()
		writes, _ := number(t, rows[name][1])
		reads, _ := number(t, rows[name][2])
		return writes*price("a million write units") + reads*price("a million read units")
	}
	for name, row := range rows {
		agrees(t, "USD of "+name, row[3], dollars(name))
	}

	sweeps := costTable(t, "The sweep")
	const runs = 30 * 24 * 60. / 1e6 // a month, in millions
	query := runs * 0.5 * price("a million read units")
	for name, want := range map[string]float64{
		"invocations": runs * price("a million invocations of Lambda"),
		"1,769 MB for 100 ms each (assumed, not measured)":                           runs * 0.1 * 1769 / 1024 * price("a million GB-seconds of Lambda on arm64"),
		"the list of campaigns: 1 read unit":                                         2 * query,
		"for each campaign: its rules, 1 read unit":                                  2 * query,
		"for each campaign with holds or a claim life: its rules again":              2 * query,
		"for each shard of such a campaign: a query of the index that finds nothing": query,
	} {
		if len(sweeps[name]) == 0 {
			t.Fatalf("docs/costs.md: the sweep has no row %q", name)
		}
		agrees(t, "USD of "+name, sweeps[name][0], want)
	}
	for shards, cell := range map[float64]string{16: "0.054", 256: "0.702"} {
		agrees(t, "USD of a campaign that is swept", cell, (4+shards)*query)
		if !strings.Contains(read(t, "../docs/costs.md"), cell) {
			t.Errorf("docs/costs.md lacks %s", cell)
		}
	}

	metrics, amounts := costTable(t, "Metrics"), map[string]float64{}
	for name, row := range metrics {
		if len(row) == 2 && row[0] != "metrics" {
			count, _ := number(t, row[0])
			agrees(t, "USD of "+name, row[1], count*price("a metric of CloudWatch for a month"))
			delete(metrics, name)
		}
	}
	const countsAMonth = 30 * 24 * 60 / 5 / 1e6 // in millions
	for _, items := range []string{"2,000", "20,000"} {
		amounts["a month of the free items of a campaign with "+items+", counted every five minutes"] =
			countsAMonth * dollars("the free items of a campaign counted, "+items)
	}
	amounts["the metrics in the log lines of a million claims, 258 bytes each"] =
		258 * 1e6 / (1 << 30) * price("a GB into CloudWatch Logs")
	for name, want := range amounts {
		if len(metrics[name]) == 0 {
			t.Fatalf("docs/costs.md: the metrics have no row %q", name)
		}
		agrees(t, "USD of "+name, metrics[name][0], want)
	}

	const gigabyte = 1e6 / 1024 / 1024 // of a million records of 1 KB
	in, out := gigabyte*price("a GB into an on-demand stream"), gigabyte*price("a GB out of an on-demand stream")
	invocation, second := price("a million invocations of Lambda"), price("a million GB-seconds of Lambda on arm64")
	type service struct{ api, lambda, kinesis float64 }
	claim := service{price("a million requests to an HTTP API"), invocation + 0.010*0.5*second, 0}
	record := service{0, (invocation + 0.5*1*second) / counted, in + out}
	delivered := service{record.api, record.lambda, in + out + in}
	acks := dollars("the acks of a batch of 1,000") / counted
	for name, want := range map[string]struct {
		service
		dynamo float64
	}{
		"a new claim, in a busy container": {claim, dollars("a new claim, in a busy container")},
		"the same claimant again":          {claim, dollars("the same claimant again")},
		"sold out":                         {claim, dollars("sold out")},
		"a new record":                     {delivered, dollars("a new record") + acks},
		"a copy in a later batch":          {record, dollars("a copy in a later batch") + acks},
	} {
		row := costTable(t, "Together")[name]
		if len(row) != 5 {
			t.Fatalf("docs/costs.md: want five sums for %s, got %v", name, row)
		}
		for i, sum := range []float64{want.dynamo, want.api, want.lambda, want.kinesis, want.dynamo + want.api + want.lambda + want.kinesis} {
			agrees(t, fmt.Sprintf("column %d of %s together", i+1, name), row[i], sum)
		}
	}
}

// itemSize returns the bytes of a row, by the rules of DynamoDB.
func itemSize(t *testing.T, row map[string]types.AttributeValue) (size int) {
	t.Helper()
	for name, value := range row {
		size += len(name) + valueSize(t, value)
	}
	return size
}

func valueSize(t *testing.T, value types.AttributeValue) (size int) {
	t.Helper()
	switch v := value.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN: // two digits in a byte, and one byte more
		return (len(v.Value)+1)/2 + 1
	case *types.AttributeValueMemberBOOL:
		return 1
	case *types.AttributeValueMemberL:
		size = 3
		for _, element := range v.Value {
			size += 1 + valueSize(t, element)
		}
		return size
	}
	t.Fatalf("the size of a %T is not known", value)
	return 0
}
