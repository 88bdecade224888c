package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

const (
	ledgerEntries = 2_000 // a round
	maxUnits      = 1     // write units a new key
)

// BenchmarkRecordsLedger measures the ledger on DynamoDB against a bare loop of the
// same conditional puts, with as many requests under way, on the same engine.
func BenchmarkRecordsLedger(b *testing.B) {
	s := newShop(b, testengine.Dynoxide(b))
	o := s.client.Options()
	o.HTTPClient = s.meter.http // the time is taken without the meter
	client := dynamodb.New(o)
	store := dynamostore.New(client, s.dedupe)
	var took pairs
	for b.Loop() {
		entries := newEntries(ledgerEntries)
		floor := timed(1, func() { s.must(putBare(b.Context(), client, s.dedupe, entries, dynamostore.DefaultConcurrency)) })
		entries = newEntries(ledgerEntries)
		took.add(timed(1, func() { s.must(putAll(b.Context(), store, entries)) }), floor)
	}
	took.report("time of a put by the ledger", maxTime)

	before := s.meter.read()
	s.must(putAll(b.Context(), dynamostore.New(s.client, s.dedupe), newEntries(ledgerEntries)))
	spent := s.meter.read().minus(before).each(ledgerEntries)
	note("write units a new key", spent.writeUnits, maxUnits, "")
	note("requests a new key", spent.requests, maxUnits, "")
	b.ReportMetric(0, "ns/op")
}

func newEntries(n int) []dedupe.Entry {
	entries := make([]dedupe.Entry, n)
	for i := range entries {
		arrival := time.UnixMilli(1_795_176_000_123).UTC()
		owner := dedupe.Position{
			Stream: dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "clicks"}, Shard: shard, Sequence: sequence(i), Sub: dedupe.Plain,
		}
		entries[i] = dedupe.Entry{
			Scope: "clicks", Key: format.KeyOf(uuid.NewString()), Owner: owner.String(), Fingerprint: "9bd2c3f4a1e04e7f8c6b5a4d3e2f1a0b",
			Version: "p1-00000000", Arrival: arrival, PurgeAt: retention.PurgeAt(arrival),
		}
	}
	return entries
}

// putAll puts entries as a Processor does, a chunk at a time.
func putAll(ctx context.Context, store *dynamostore.Store, entries []dedupe.Entry) error {
	for chunk := range slices.Chunk(entries, dedupe.DefaultChunk) {
		results, err := store.PutIfAbsent(ctx, chunk)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil || r.Existing != nil {
				return fmt.Errorf("not put: %+v", r)
			}
		}
	}
	return nil
}

// putBare puts the same rows by the SDK, and nothing else.
func putBare(ctx context.Context, client *dynamodb.Client, table string, entries []dedupe.Entry, workers int) error {
	queue := make(chan dedupe.Entry, len(entries))
	for _, e := range entries {
		queue <- e
	}
	close(queue)
	failed := make([]error, workers)
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			for e := range queue {
				_, err := client.PutItem(ctx, &dynamodb.PutItemInput{
					TableName: aws.String(table), ConditionExpression: aws.String("attribute_not_exists(pk) OR purge_at < :arrival"),
					ExpressionAttributeValues:           map[string]types.AttributeValue{":arrival": decimal(e.Arrival.Unix())},
					ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
					Item: map[string]types.AttributeValue{
						"pk": text(fmt.Sprintf("record#%s#%x", e.Scope, e.Key)), "sk": text("entry"), "owner": text(e.Owner),
						"fingerprint": text(e.Fingerprint), "version": text(e.Version),
						"arrival": decimal(e.Arrival.UnixMilli()), "purge_at": decimal(e.PurgeAt),
					},
				})
				if err != nil {
					failed[w] = err
					return
				}
			}
		})
	}
	done.Wait()
	return errors.Join(failed...)
}

func decimal(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// network is how long a request is on its way, to and fro.
const network = 2 * time.Millisecond

// latencies is how often each latency is measured. Their median is the figure.
const latencies = 7

// concurrencies are how many requests the ledger has under way; its default is one.
var concurrencies = []int{8, 16, 32, 64, 128}

// BenchmarkRecordsLatency measures how long the function takes for a batch, event in,
// answer out, of new records, where each request of ledger and sink takes 2 ms.
// The ledger's table is an HTTP server in this process that waits and says yes: a
// local engine would take most of the processors. So this is client and server
// together; on Lambda TLS takes the server's place.
func BenchmarkRecordsLatency(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(network)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write([]byte("{}"))
	}))
	b.Cleanup(server.Close)
	m := &meter{}
	o := newClient(b, server.URL, m).Options()
	o.HTTPClient = m.http
	client := dynamodb.New(o)
	for b.Loop() { // once or often: the rounds are its own
	}
	for _, records := range []int{100, 1_000, 10_000} {
		event := newEvent(b, records)
		took := make([]pairs, len(concurrencies)) // each beside the default's
		for range latencies {
			round := make([]time.Duration, len(concurrencies))
			for i, c := range concurrencies {
				h := newHandler(b, dynamostore.New(client, "dedupe", dynamostore.WithConcurrency(c)), slowSink{})
				round[i] = timed(1, func() { invoke(b, h, event) })
			}
			for i := range took {
				took[i].add(round[i], round[slices.Index(concurrencies, dynamostore.DefaultConcurrency)])
			}
		}
		for i, c := range concurrencies {
			name := fmt.Sprintf("ms of a batch of %d records, %d requests at a time", records, c)
			all := took[i].measured
			note(name, milliseconds(median(all)), 0, fmt.Sprintf("%.1f to %.1f; %.2f of the default's",
				milliseconds(slices.Min(all)), milliseconds(slices.Max(all)), median(took[i].ratios())))
		}
	}
	b.ReportMetric(0, "ns/op")
}

func invoke(b *testing.B, h *kinesishandler.Handler, event []byte) {
	b.Helper()
	answer, err := h.Invoke(b.Context(), event)
	if err != nil || string(answer) != `{"batchItemFailures":[]}` {
		b.Fatalf("%s, %v", answer, err)
	}
}

// slowSink is a sink one request away.
type slowSink struct{ costless }

func (slowSink) Send(_ context.Context, outputs []dedupe.Output) (int, error) {
	time.Sleep(network)
	return len(outputs), nil
}
