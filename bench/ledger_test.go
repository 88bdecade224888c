package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

const (
	ledgerEntries = 2_000 // a round
	maxDecided    = 1.053 // times the bare loop, through a Decider: 0.95 of its rate
	maxUnits      = 1     // write units a new key
	maxClient     = 0.2   // times the client's processor time of the bare loop
	maxAKey       = 0.05  // a new key
	copies        = 0.08  // the share of copies beside new keys
	maxWithCopies = 0.06  // requests a key then
	maxReads      = copies
)

// BenchmarkRecordsLedger measures the ledger on DynamoDB against a bare loop of conditional puts on the same engine,
// with as many requests at the same time.
func BenchmarkRecordsLedger(b *testing.B) {
	s := newShop(b, testengine.Dynoxide(b))
	client := s.unmetered(0)
	store := dynamostore.New(client, s.dedupe)
	var took, used pairs
	for b.Loop() {
		candidates := newCandidates(ledgerEntries)
		floor, floorUsed := s.used(func() { s.must(putBare(b.Context(), client, s.dedupe, candidates)) })
		entries := entriesOf(newCandidates(ledgerEntries))
		put, putUsed := s.used(func() { s.must(putAll(b.Context(), store, entries, 0)) })
		took.add(put, floor)
		used.add(putUsed, floorUsed)
	}
	took.report("time of a put by the ledger", 0)
	used.report("client's processor time of it", maxClient)

	counted := dynamostore.New(s.client, s.dedupe)
	before := s.meter.read()
	s.must(putAll(b.Context(), counted, entriesOf(newCandidates(ledgerEntries)), 0))
	spent := s.meter.read().minus(before).each(ledgerEntries)
	note("write units a new key", spent.writeUnits, maxUnits, "")
	note("requests a new key", spent.requests, maxAKey, "")
	note("bytes of the bodies for a new key", spent.sent, 0, "")
	entries := entriesOf(newCandidates(ledgerEntries))
	known := int(copies * ledgerEntries)
	s.must(putAll(b.Context(), counted, entries[:known], 0))
	rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	before = s.meter.read()
	s.must(putAll(b.Context(), counted, entries, known))
	spent = s.meter.read().minus(before).each(ledgerEntries)
	note("write units a key, 8 % copies", spent.writeUnits, maxUnits, "")
	note("read units a key, 8 % copies", spent.readUnits, maxReads, "")
	note("requests a key, 8 % copies", spent.requests, maxWithCopies, "")
	before = s.meter.read()
	s.must(putBare(b.Context(), s.client, s.dedupe, newCandidates(ledgerEntries)))
	note("bytes of the body of a put, bare loop", s.meter.read().minus(before).each(ledgerEntries).sent, 0, "")
	b.ReportMetric(0, "ns/op")
}

// unmetered is the client without the meter, because requests through the meter take longer.
func (s *shop) unmetered(delay time.Duration) *dynamodb.Client {
	o := s.client.Options()
	o.HTTPClient = s.meter.http
	if delay > 0 {
		o.HTTPClient = delayed{o.HTTPClient, delay}
	}
	return dynamodb.New(o)
}

// delayed is an HTTP client whose requests take a fixed time longer.
type delayed struct {
	aws.HTTPClient
	time.Duration
}

func (d delayed) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(d.Duration) // the network, which a request to an engine on this machine lacks
	return d.HTTPClient.Do(r)
}

// newCandidates are new records.
func newCandidates(n int) []dedupe.Candidate {
	all := make([]dedupe.Candidate, n)
	for i := range all {
		position := dedupe.Position{Stream: clicks, Shard: shard, Sequence: sequence(i), Sub: dedupe.Plain}
		all[i] = dedupe.Candidate{
			ID: uuid.NewString(), Owner: position.Owner(), Fingerprint: "9bd2c3f4a1e04e7f8c6b5a4d3e2f1a0b",
			Version: "p1-00000000", Arrival: time.UnixMilli(1_795_176_000_123).UTC(),
		}
	}
	return all
}

func entriesOf(candidates []dedupe.Candidate) []dedupe.Entry {
	entries := make([]dedupe.Entry, len(candidates))
	for i, c := range candidates {
		entries[i] = dedupe.Entry{
			Scope: "clicks", Key: format.KeyOf(c.ID), Owner: c.Owner, Fingerprint: c.Fingerprint, Version: c.Version,
			Arrival: c.Arrival, PurgeAt: retention.PurgeAt(c.Arrival),
		}
	}
	return entries
}

// putAll puts entries, of which some are known, in chunks of the first size of a Processor.
func putAll(ctx context.Context, store *dynamostore.Store, entries []dedupe.Entry, known int) error {
	for chunk := range slices.Chunk(entries, dedupe.DefaultChunk) {
		results, err := store.PutIfAbsent(ctx, chunk)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil {
				return r.Err
			}
			if r.Existing != nil {
				known--
			}
		}
	}
	if known != 0 {
		return fmt.Errorf("%d entries more or less were known", known)
	}
	return nil
}

// putBare puts the smallest row that can serve as an entry, with the SDK only: a key, 16 bytes each for the owner and
// the content, and the time until which it counts. A put returns the old row, which decides.
func putBare(ctx context.Context, client *dynamodb.Client, table string, candidates []dedupe.Candidate) error {
	queue := make(chan *dedupe.Candidate, len(candidates))
	for i := range candidates {
		queue <- &candidates[i]
	}
	close(queue)
	failed := make([]error, dynamostore.DefaultConcurrency)
	var done sync.WaitGroup
	for w := range failed {
		done.Go(func() {
			for c := range queue {
				owner, content := c.Owner.Digest(), dedupe.ContentDigest(c.Fingerprint)
				_, err := client.PutItem(ctx, &dynamodb.PutItemInput{
					TableName: aws.String(table), ConditionExpression: aws.String("attribute_not_exists(pk) OR purge_at < :a"),
					ExpressionAttributeValues:           map[string]types.AttributeValue{":a": decimal(c.Arrival.Unix())},
					ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
					Item: map[string]types.AttributeValue{
						"pk": text("clicks#" + c.ID), "sk": text("e"),
						"o": &types.AttributeValueMemberB{Value: owner[:]}, "c": &types.AttributeValueMemberB{Value: content[:]},
						"purge_at": decimal(retention.PurgeAt(c.Arrival)),
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

// BenchmarkRecordsBesideBare measures how a Processor decides batches, against the bare loop of puts. It measures the
// step of the ledger, and all steps with a sink that costs no time.
func BenchmarkRecordsBesideBare(b *testing.B) {
	for b.Loop() { // once or often: the rounds are its own
	}
	for _, engine := range []struct {
		name     string
		endpoint string
	}{{"dynoxide", testengine.Dynoxide(b)}, {"DynamoDB Local", testengine.DynamoDBLocal(b)}} {
		s := newShop(b, engine.endpoint)
		for _, delay := range []time.Duration{0, network} {
			for _, batch := range []struct{ records, rounds int }{{100, 41}, {1_000, 15}, {10_000, 5}} {
				name := fmt.Sprintf("batch of %d, %s, %v more a request", batch.records, engine.name, delay)
				s.besideBare(name, s.unmetered(delay), batch.records, batch.rounds)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

func (s *shop) besideBare(name string, client *dynamodb.Client, records, rounds int) {
	store := dynamostore.New(client, s.dedupe)
	decider := &dedupe.Decider{Ledger: store, Scope: "clicks", Retention: retention}
	j, err := format.NewJSON(format.Options{IDPath: "event_id", FingerprintPath: "event_fingerprint"})
	s.must(err)
	processor := newProcessor(s.B, store, j)
	ctx, cancel := context.WithTimeout(s.Context(), time.Hour) // a Processor's chunks grow while there is time
	defer cancel()
	var decided, processed, used pairs
	for round := range rounds {
		var floor, took, floorUsed, tookUsed time.Duration
		both := []func(){
			func() {
				candidates := newCandidates(records)
				floor, floorUsed = s.used(func() { s.must(putBare(ctx, client, s.dedupe, candidates)) })
			},
			func() {
				candidates := newCandidates(records)
				took, tookUsed = s.used(func() { s.must(decideAll(ctx, decider, candidates)) })
			},
		}
		both[round%2]() // an engine may tidy up after the first or after the second
		both[1-round%2]()
		decided.add(took, floor)
		used.add(tookUsed, floorUsed)
		batch := newBatch(s.B, records)
		processed.add(timed(1, func() { process(ctx, s.B, processor, batch) }), floor)
	}
	decided.report(name+": ledger", maxDecided)
	used.report(name+": client's processor time of it", maxClient)
	processed.report(name+": Processor", 0)
}

// used is the time and the processor time of some work.
func (s *shop) used(work func()) (took, processor time.Duration) {
	before := s.processorTime()
	took = timed(1, work)
	return took, s.processorTime() - before
}

// decideAll decides records in the chunks of a Processor, which grow. A request that takes longer than an attempt of the
// SDK may is sent again, and its records find their own entries.
func decideAll(ctx context.Context, d *dedupe.Decider, candidates []dedupe.Candidate) error {
	for size := dedupe.DefaultChunk; len(candidates) > 0; size = min(2*size, 8*dedupe.DefaultChunk) {
		chunk := candidates[:min(size, len(candidates))]
		for _, decision := range d.Decide(ctx, chunk) {
			if decision.Outcome != dedupe.New && decision.Outcome != dedupe.Retry {
				return fmt.Errorf("not new: %+v", decision)
			}
		}
		candidates = candidates[len(chunk):]
	}
	return nil
}

// network is how long a request is on its way, to and fro.
const network = 2 * time.Millisecond

// latencies is how often each latency is measured. Their median is the figure.
const latencies = 7

// concurrencies are the numbers of requests that the ledger makes at the same time. The ledger's default is one of
// them.
var concurrencies = []int{8, 16, 32, 64, 128}

// BenchmarkRecordsLatency measures how long the function takes for a batch of new records, from the event to the
// answer. Each request of ledger and sink takes 2 ms. The ledger's table is an HTTP server in this process that waits
// and answers success, because a local engine would use most of the processors. So the result includes client and
// server; on Lambda, TLS replaces the server's share.
func BenchmarkRecordsLatency(b *testing.B) {
	m := &meter{}
	o := newClient(b, server(b, yes), m).Options()
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
				ledger := dynamostore.New(client, "dedupe", dynamostore.WithConcurrency(c))
				h := newHandler(b, dedupe.Parts{Ledger: ledger, Sink: slowSink{}})
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

// invoke sends an event to a function, with its default time-out.
func invoke(b *testing.B, h *recordhandler.Handler, event []byte) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), timeout)
	defer cancel()
	answer, err := h.Invoke(ctx, event)
	if err != nil || string(answer) != `{"batchItemFailures":[]}` {
		b.Fatalf("%s, %v", answer, err)
	}
}

// slowSink is a sink one request away.
type slowSink struct{ costless }

func (slowSink) Send(context.Context, []dedupe.Output) (dedupe.Sent, error) {
	time.Sleep(network) // in the place of a request
	return dedupe.Sent{}, nil
}
