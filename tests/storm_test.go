package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
	dedupestore "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

var stormRecords = flag.Int("storm", 5_000, "how many records TestStorm has")

const (
	stormShards = 8
	stormBatch  = 500

	// Shares of the records.
	copies     = 0.20 // have the id and the content of an earlier record
	collisions = 0.01 // have the id of an earlier record, and another content
	poison     = 0.002

	kills = 0.10 // of the invocations: the process is killed meanwhile, or soon after

	stormWindow  = 4 * time.Hour         // an epoch of the log lasts 15 minutes
	betweenTwo   = 54 * time.Millisecond // between two arrivals: 200,000 records take 3 hours, so all copies count
	shortestSpan = 30 * time.Minute      // of all arrivals
)

// TestStorm plays the whole function on the log ledger: built processes that are killed, with faults on the way to
// DynamoDB and to the stream of the sink, and an event source mapping that brings what failed again. Then it reads back
// the stream, the dead letters and the log. G6 to G10 must hold. A record may be delivered again only if it was in
// several invocations, or if the function has counted repeats (G11).
func TestStorm(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for _, faults := range []float64{0.04, 0.30} {
		t.Run(fmt.Sprintf("%.0f %% faults", 100*faults), func(t *testing.T) {
			t.Parallel()
			s := newStorm(t, faults)
			s.play(t)
			s.judge(t)
		})
	}
}

// storm holds the events and the results.
type storm struct {
	rate         float64 // of requests that are broken
	records      []stormRecord
	bySequence   map[string]int // records by sequence number
	source       *eventsource.Stream
	storage      *dedupestore.Log
	deadLetters  string
	environments chan *environment
	puts         *faultproxy.Puts

	mu     sync.Mutex
	rand   *rand.Rand
	counts struct{ invocations, kills, faults int }
}

// stormRecord is a record of a producer.
type stormRecord struct {
	id, content string // empty: poison
	data        string
	invocations int  // that had it
	counted     bool // one of them has counted repeats
}

func newStorm(t *testing.T, rate float64) *storm {
	t.Helper()
	bootstrap, err := hostDedupe()
	must(t, err)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &storm{
		rate: rate, bySequence: map[string]int{}, deadLetters: t.TempDir(), rand: rand.New(rand.NewPCG(seed, 0)),
		environments: make(chan *environment, stormShards),
	}
	endpoint, stop := testengine.FreshDynoxide(t)
	t.Cleanup(stop)
	own := newTables()
	own.create(t, endpoint)
	s.storage = dedupestore.NewLog(itembankengines.Client(endpoint, nil), own.dedupe)
	proxy := faultproxy.New(t, endpoint, func(_ int, operation string) faultproxy.Fault {
		return s.fault(faultproxy.Of(operation))
	})
	sink := httptest.NewServer(http.HandlerFunc(takeRecords))
	t.Cleanup(sink.Close)
	toSink, puts, stop := faultproxy.StartKinesis(sink.URL, func(int, string) faultproxy.Fault {
		return s.fault(faultproxy.OfKinesis())
	})
	t.Cleanup(stop)
	s.puts = puts
	for range stormShards {
		s.environments <- newEnvironment(t, bootstrap,
			"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
			"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512",
			"AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL, "AWS_ENDPOINT_URL_KINESIS="+toSink.URL,
			"ONCEBOX_DEDUPE_TABLE="+own.dedupe, "ONCEBOX_LEDGER=log", "ONCEBOX_SCOPE=storm",
			"ONCEBOX_WINDOW="+stormWindow.String(), "ONCEBOX_ID_PATH=id", "ONCEBOX_FINGERPRINT_PATH=fp",
			"ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:"+s.deadLetters,
		)
	}
	s.produce(*stormRecords)
	return s
}

// produce puts all records into the stream.
func (s *storm) produce(n int) {
	between := max(betweenTwo, shortestSpan/time.Duration(n))
	arrival := time.Now().Add(-between * time.Duration(n))
	s.source = eventsource.NewStream(stormShards, func() time.Time { return arrival })
	for i := range n {
		arrival = arrival.Add(between)
		r := s.newRecord(i)
		s.records = append(s.records, r)
		_, sequence := s.source.Put(fmt.Sprint("key-", s.rand.Uint64()), []byte(r.data))
		s.bySequence[sequence] = i
	}
}

func (s *storm) newRecord(n int) stormRecord {
	r := stormRecord{id: fmt.Sprintf("%016x", s.rand.Uint64()), content: fmt.Sprintf("%016x", s.rand.Uint64())}
	kind := s.rand.Float64()
	if n > 0 && kind < copies+collisions {
		if earlier := s.records[s.rand.IntN(n)]; earlier.id != "" {
			r.id = earlier.id
			if kind < copies {
				r.content = earlier.content
			}
		}
	}
	if kind > 1-poison {
		return stormRecord{data: fmt.Sprintf(`{"n":%d`, n)}
	}
	r.data = fmt.Sprintf(`{"id":%q,"fp":%q,"n":%d}`, r.id, r.content, n)
	return r
}

// fault decides what happens to a request.
func (s *storm) fault(faults []faultproxy.Fault) faultproxy.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rand.Float64() >= s.rate {
		return faultproxy.None
	}
	s.counts.faults++
	return faults[s.rand.IntN(len(faults))]
}

// takeRecords is a stream of one shard, for a sink. The proxy remembers its records.
func takeRecords(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	const shard = `"ShardId":"shardId-000000000000"`
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ListShards") {
		_, _ = io.WriteString(w, `{"Shards":[{`+shard+`,"HashKeyRange":{"StartingHashKey":"0",`+
			`"EndingHashKey":"340282366920938463463374607431768211455"},"SequenceNumberRange":{"StartingSequenceNumber":"1"}}]}`)
		return
	}
	result := strings.Repeat(`,{`+shard+`,"SequenceNumber":"1"}`, bytes.Count(body, []byte(`"PartitionKey"`)))
	_, _ = io.WriteString(w, `{"FailedRecordCount":0,"Records":[`+strings.TrimPrefix(result, ",")+`]}`)
}

// play delivers all records, until each is done.
func (s *storm) play(t *testing.T) {
	t.Helper()
	must(t, eventsource.Mapping{
		Client: s.source, StreamARN: "arn:aws:kinesis:us-east-1:123456789012:stream/clicks", Function: s.invoke,
		BatchSize: stormBatch, ReportBatchItemFailures: true, Bisect: true, Timeout: time.Minute,
		PollPause: 10 * time.Millisecond, RetryPause: 10 * time.Millisecond, StopWhenDrained: true,
		OnFailure: func(_ context.Context, d eventsource.Discard) error {
			t.Errorf("the mapping gave %d records up: %v", len(d.Records), d.Err)
			return nil
		},
	}.Run(t.Context()))
}

// invoke gives an event to a free environment.
func (s *storm) invoke(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
	var e events.KinesisEvent
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, err
	}
	in := <-s.environments
	defer func() { s.environments <- in }()
	s.mu.Lock()
	kill := s.rand.Float64() < kills
	s.counts.invocations++
	if kill {
		s.counts.kills++
	}
	s.mu.Unlock()
	reply, err := in.invoke(ctx, event, kill)
	counted := countsRepeats.Match(in.newLog())
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range e.Records {
		r := &s.records[s.bySequence[e.Records[i].Kinesis.SequenceNumber]]
		r.invocations++
		r.counted = r.counted || counted
	}
	return reply, err
}

var countsRepeats = regexp.MustCompile(`"msg":"batch".*"repeated":[1-9]`)

// judge reads everything back.
func (s *storm) judge(t *testing.T) {
	t.Helper()
	delivered := s.judgeDelivered(t)
	s.judgeDeadLetters(t)
	contents, winners := map[string]bool{}, map[string][]int{}
	for i, r := range s.records {
		if r.id == "" {
			continue
		}
		content := r.id + " " + r.content
		contents[content] = true
		if len(delivered[i]) > 0 {
			winners[content] = append(winners[content], i)
		}
	}
	for content := range contents {
		if len(winners[content]) != 1 {
			t.Errorf("G6, G7: of the records with one id and content, %v are delivered, want one", winners[content])
		}
	}
	s.judgeLog(t, int64(len(contents)))
}

// judgeDelivered returns the deliveries of each record.
func (s *storm) judgeDelivered(t *testing.T) [][]string {
	t.Helper()
	delivered, repeats, byID := make([][]string, len(s.records)), 0, map[string]int{}
	for _, put := range s.puts.Records() {
		var record struct {
			ID string
			N  int
		}
		must(t, json.Unmarshal(put.Data, &record))
		delivered[record.N] = append(delivered[record.N], string(put.Data))
		if of, ok := byID[record.ID]; ok && of != record.N {
			t.Errorf("G7, G9: the records %d and %d are delivered under the id %s", of, record.N, record.ID)
		}
		byID[record.ID] = record.N
	}
	for i, times := range delivered {
		if len(times) == 0 {
			continue
		}
		repeats += len(times) - 1
		if different := slices.Compact(slices.Clone(times)); len(different) > 1 {
			t.Errorf("G9: record %d is delivered as %q", i, different)
		}
		if r := s.records[i]; len(times) > r.invocations && !r.counted {
			t.Errorf("G11: record %d is delivered %d times, in %d invocations that counted no repeats",
				i, len(times), r.invocations)
		}
	}
	t.Logf("%d records, %d delivered, %d repeats; %d invocations, %d kills, %d faults",
		len(s.records), len(byID), repeats, s.counts.invocations, s.counts.kills, s.counts.faults)
	return delivered
}

// judgeDeadLetters checks that each poison record, and no other record, is stored whole.
func (s *storm) judgeDeadLetters(t *testing.T) {
	t.Helper()
	want := map[string]bool{}
	for _, r := range s.records {
		if r.id == "" {
			want[r.data] = true
		}
	}
	paths, err := filepath.Glob(s.deadLetters + "/*.json")
	must(t, err)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		must(t, err)
		letter, err := deadletter.Decode(content)
		must(t, err)
		if !want[string(letter.Data)] {
			t.Errorf("G10: %s is stored, and is no poison record or is stored twice", letter.Data)
		}
		delete(want, string(letter.Data))
	}
	if len(want) > 0 {
		t.Errorf("G6: %d poison records are not stored", len(want))
	}
}

// judgeLog checks the log row by row, and that it has a row for each content.
func (s *storm) judgeLog(t *testing.T, contents int64) {
	t.Helper()
	found, err := logledger.Verify(t.Context(), s.storage, "storm", time.Now, func(p logledger.Problem) {
		t.Errorf("the log: lane %d, epoch %d, index %d: %s", p.Place.Lane, p.Place.Epoch, p.Place.Index, p.What)
	})
	must(t, err)
	equal(t, "rows of the log", found.Rows, contents)
	t.Logf("the log: %d epochs, %d items, %d rows, %d of them derived",
		found.Epochs, found.Items, found.Rows, found.Derived)
}
