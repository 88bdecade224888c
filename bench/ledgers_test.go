package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/records/cost"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// These are the goals of ledgers. simulated.LogGoals has the goals for write units.
const (
	maxLogMicroseconds = 1e6 / 300_000 // a key, in batches of 5,000
	maxAgainstPerKey   = 1. / 20       // times the time with one row a key, through the whole function
	maxBytesInMemory   = 32            // a key
)

// logBatches are the sizes of batches of the log ledger.
var logBatches = []int{1_000, 2_500, 5_000}

const (
	singleKeys = 1_000  // a round, of what makes a request for each key or some
	logKeys    = 20_000 // a round, of what makes a request for each batch
)

// subject is a ledger, or a floor of one, with a source of new keys.
type subject struct {
	name        string
	keys, batch int
	timed       entering // with the usual client
	counted     entering // with the client that counts; nil: there are no units of DynamoDB
	goal        float64

	took           []float64 // microseconds a key
	allocs, memory []float64 // a key
}

// entering enters new keys.
type entering func(ctx context.Context, keys []dedupe.Candidate) error

// BenchmarkLedgers measures new keys: one row for each, the least statements, and the log ledger, on one engine. Then
// it measures the whole function on both ledgers, and the start of a log ledger.
func BenchmarkLedgers(b *testing.B) {
	s := newShop(b, testengine.Dynoxide(b))
	subjects := s.subjects()
	for b.Loop() {
		for _, of := range subjects {
			of.round(b)
		}
	}
	for _, of := range subjects {
		of.report(s)
	}
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
}

func (s *shop) subjects() []*subject {
	usual := s.unmetered(0)
	all := []*subject{
		{
			name: "one row a key", keys: singleKeys, batch: singleKeys,
			timed: s.perKey(usual), counted: s.perKey(s.client),
		},
		{
			name: "statements of 25 keys", keys: singleKeys, batch: singleKeys,
			timed: s.statements(usual), counted: s.statements(s.client),
		},
	}
	for _, batch := range logBatches {
		all = append(all, &subject{
			name: fmt.Sprintf("log, batches of %d", batch), keys: logKeys, batch: batch,
			timed: s.log(usual), counted: s.log(s.client),
		})
	}
	all[len(all)-1].goal = maxLogMicroseconds
	return append(all, s.valkey())
}

// perKey is the engine with one row a key.
func (s *shop) perKey(client *dynamodb.Client) entering {
	return enterNew(dynamostore.New(client, s.dedupe))
}

// log enters records in the log ledger, in a new scope.
func (s *shop) log(client *dynamodb.Client) entering { return enterNew(s.logLedger(client)) }

func (s *shop) logLedger(client *dynamodb.Client) *logledger.Ledger {
	ledger, err := logledger.New(dynamostore.NewLog(client, s.dedupe), logledger.Options{Lanes: 8})
	s.must(err)
	return ledger
}

// enterNew enters new keys into a new scope of a ledger.
func enterNew(ledger dedupe.Ledger) entering { return enterInto(ledger, strings.ToLower(rand.Text())) }

func enterInto(ledger dedupe.Ledger, scope string) entering {
	return func(ctx context.Context, keys []dedupe.Candidate) error {
		answers, err := ledger.Enter(ctx, dedupe.Question{Scope: scope, Retention: retention, Records: keys})
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Found != dedupe.Put {
				return fmt.Errorf("not put: %+v", a)
			}
		}
		return nil
	}
}

// statements inserts the smallest rows that can serve as entries with statements of PartiQL. A request has as many as
// possible, and as many requests run at the same time as in the engine with one row a key.
func (s *shop) statements(client *dynamodb.Client) entering {
	const mostStatements = 25
	insert := fmt.Sprintf(`INSERT INTO "%s" VALUE {'pk': ?, 'sk': 'e', 'o': ?, 'c': ?, 'purge_at': ?}`, s.dedupe)
	return func(ctx context.Context, keys []dedupe.Candidate) error {
		var done sync.WaitGroup
		failed := make(chan error, len(keys))
		free := make(chan struct{}, dynamostore.DefaultConcurrency)
		for chunk := range slices.Chunk(keys, mostStatements) {
			in := &dynamodb.BatchExecuteStatementInput{}
			for i := range chunk {
				c := &chunk[i]
				owner, content := c.Owner.Digest(), dedupe.ContentDigest(c.Fingerprint)
				values := []types.AttributeValue{
					text("clicks#" + c.ID), &types.AttributeValueMemberB{Value: owner[:]},
					&types.AttributeValueMemberB{Value: content[:]}, decimal(retention.PurgeAt(c.Arrival)),
				}
				in.Statements = append(in.Statements, types.BatchStatementRequest{Statement: &insert, Parameters: values})
			}
			free <- struct{}{}
			done.Go(func() {
				defer func() { <-free }()
				out, err := client.BatchExecuteStatement(ctx, in)
				if err != nil {
					failed <- err
					return
				}
				for _, r := range out.Responses {
					if r.Error != nil {
						failed <- fmt.Errorf("%s: %s", r.Error.Code, aws.ToString(r.Error.Message))
					}
				}
			})
		}
		done.Wait()
		close(failed)
		return <-failed
	}
}

// present are new records that arrive now.
func present(n int) []dedupe.Candidate {
	all := newCandidates(n)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for i := range all {
		all[i].Arrival = now
	}
	return all
}

func (of *subject) enter(ctx context.Context, keys []dedupe.Candidate, by entering) error {
	for batch := range slices.Chunk(keys, of.batch) {
		if err := by(ctx, batch); err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
	}
	return nil
}

func (of *subject) round(b *testing.B) {
	b.Helper()
	keys := present(of.keys)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took := timed(1, func() {
		if err := of.enter(b.Context(), keys, of.timed); err != nil {
			b.Fatal(err)
		}
	})
	runtime.ReadMemStats(&after)
	n := float64(of.keys)
	of.took = append(of.took, float64(took.Nanoseconds())/1e3/n)
	of.allocs = append(of.allocs, float64(after.Mallocs-before.Mallocs)/n)
	of.memory = append(of.memory, float64(after.TotalAlloc-before.TotalAlloc)/n)
}

func (of *subject) report(s *shop) {
	s.Helper()
	each := median(of.took)
	note("us of a new key: "+of.name, each, of.goal, fmt.Sprintf(
		"%.0f keys a second; a key: %.1f allocations, %.0f bytes", 1e6/each, median(of.allocs), median(of.memory)))
	if of.counted == nil {
		return
	}
	s.must(of.enter(s.Context(), present(of.batch), of.counted)) // the first batch of a scope reads what there is
	before := s.meter.read()
	s.must(of.enter(s.Context(), present(of.keys), of.counted))
	spent := s.meter.read().minus(before).each(of.keys)
	note("write units of a new key, one process: "+of.name, spent.writeUnits, 0, fmt.Sprintf(
		"%.4f requests, %.4f read units, %.0f bytes sent", spent.requests, spent.readUnits, spent.sent))
}

// BenchmarkLedgersWholeFunction measures new records through the function with a sink that costs nothing, on both
// ledgers: from a decoded batch on, and from the bytes of an event on, with and without acks.
func BenchmarkLedgersWholeFunction(b *testing.B) {
	for b.Loop() { // once or often: the rounds are its own
	}
	s := newShop(b, testengine.Dynoxide(b))
	for _, way := range []struct {
		name string
		each func(ledger dedupe.Ledger, records int) time.Duration
		goal float64
	}{{"a decoded batch", s.processed, maxAgainstPerKey}, {"an event", s.invoked, 0}} {
		for _, records := range []int{logBatches[0], logBatches[2]} {
			var took pairs
			for range latencies {
				perKey := way.each(dynamostore.New(s.unmetered(0), s.dedupe), logBatches[0])
				took.add(way.each(s.logLedger(s.unmetered(0)), records), perKey)
			}
			log, perKey := microseconds(median(took.measured)), microseconds(median(took.floor))
			note(fmt.Sprintf("time of a record of %s of %d: log, against one row a key", way.name, records),
				median(took.ratios()), way.goal, fmt.Sprintf("%.1f us against %.1f us in batches of %d: %.1f times as fast",
					log, perKey, logBatches[0], 1/median(took.ratios())))
		}
	}
	s.unitsOfTheFunction()
	b.ReportMetric(0, "ns/op")
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// batchesEach is how many batches a function gets.
const batchesEach = 4

// processed returns the time of a record through a Processor, after the first batch.
func (s *shop) processed(ledger dedupe.Ledger, records int) time.Duration {
	s.Helper()
	j, err := format.NewJSON(format.Options{IDPath: "event_id", FingerprintPath: "event_fingerprint"})
	s.must(err)
	p, err := dedupe.NewProcessor(dedupe.Parts{Ledger: ledger, Format: j, Sink: costless{}, DeadLetters: costless{}},
		dedupe.Settings{Scope: strings.ToLower(rand.Text()), Retention: retention, WholeBatch: isLog(ledger)})
	s.must(err)
	ctx, cancel := context.WithTimeout(s.Context(), timeout)
	defer cancel()
	process(ctx, s.B, p, newBatch(s.B, records))
	var took time.Duration
	for range batchesEach {
		batch := newBatch(s.B, records)
		took += timed(1, func() { process(ctx, s.B, p, batch) })
	}
	return took / time.Duration(batchesEach*records)
}

func isLog(l dedupe.Ledger) bool {
	_, ok := l.(*logledger.Ledger)
	return ok
}

// invoked returns the time of a record through the function, after the first event.
func (s *shop) invoked(ledger dedupe.Ledger, records int) time.Duration {
	s.Helper()
	h := s.function(dedupe.Parts{Ledger: ledger, Sink: costless{}})
	invoke(s.B, h, newEvent(s.B, records))
	var took time.Duration
	for range batchesEach {
		event := newEvent(s.B, records)
		took += timed(1, func() { invoke(s.B, h, event) })
	}
	return took / time.Duration(batchesEach*records)
}

func (s *shop) function(p dedupe.Parts) *recordhandler.Handler {
	s.Helper()
	return newHandler(s.B, p, "ONCEBOX_SCOPE="+strings.ToLower(rand.Text()))
}

// unitsOfTheFunction counts the cost of new records through the whole function, on both ledgers, with and without
// acks.
func (s *shop) unitsOfTheFunction() {
	s.Helper()
	store := dynamostore.New(s.client, s.dedupe)
	for _, records := range []int{1_000, 5_000} {
		for _, acks := range []string{"without acks", "with acks"} {
			for _, ledger := range []dedupe.Ledger{store, s.logLedger(s.client)} {
				parts, name := dedupe.Parts{Ledger: ledger, Sink: costless{}}, "one put a key"
				if isLog(ledger) {
					name = "log"
				}
				if acks == "with acks" {
					parts.Acks, parts.Consumers = store, store
				}
				h := s.function(parts)
				invoke(s.B, h, newEvent(s.B, records))
				before := s.meter.read()
				for n := range batchesEach {
					invoke(s.B, h, newEventFrom(s.B, (n+1)*records, records)) // acks skip a sequence number that comes again
				}
				spent := s.meter.read().minus(before).each(batchesEach * records)
				note(fmt.Sprintf("write units of a record through the function, batches of %d: %s, %s", records, name, acks),
					spent.writeUnits, 0, fmt.Sprintf("%.4f requests, %.4f read units", spent.requests, spent.readUnits))
			}
		}
	}
}

// BenchmarkLedgersColdStart measures how long a new process takes until a log ledger has loaded its entries, and how
// much memory it uses then.
func BenchmarkLedgersColdStart(b *testing.B) {
	for b.Loop() { // once or often: the rounds are its own
	}
	s := newShop(b, testengine.Dynoxide(b))
	scope, written := strings.ToLower(rand.Text()), 0
	enter := enterInto(s.logLedger(s.unmetered(0)), scope)
	for _, keys := range []int{1_000_000, 3_000_000} {
		for ; written < keys; written += logBatches[2] {
			s.must(enter(b.Context(), present(logBatches[2])))
		}
		s.coldStart(scope, keys)
	}
	b.ReportMetric(0, "ns/op")
}

func (s *shop) coldStart(scope string, keys int) {
	s.Helper()
	heap := heapInUse()
	ledger := s.logLedger(s.unmetered(0))
	took := timed(1, func() { s.must(ledger.Warm(s.Context(), scope, retention)) })
	inMemory := (heapInUse() - heap) / float64(keys)
	memory := float64(ledger.Stats().Memory) / float64(keys)
	runtime.KeepAlive(ledger)

	before := s.meter.read()
	s.must(s.logLedger(s.client).Warm(s.Context(), scope, retention))
	spent := s.meter.read().minus(before)
	name := fmt.Sprintf("cold start of a log of %d keys: ", keys)
	note(name+"seconds", took.Seconds(), 0, fmt.Sprintf(
		"%.0f keys a second; %.0f requests", float64(keys)/took.Seconds(), spent.requests))
	note(name+"read units", spent.readUnits, 0, fmt.Sprintf("%.5f USD", spent.readUnits*cost.ReadUnit))
	note(name+"bytes of entries a key", memory, maxBytesInMemory, "as the ledger counts them")
	note(name+"bytes of the heap a key", inMemory, maxBytesInMemory, "of the process")
}

// heapInUse is the memory of the process that is in use.
func heapInUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and pools hold until the next one
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
