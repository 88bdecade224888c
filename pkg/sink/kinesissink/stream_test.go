package kinesissink_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// streams counts those of this process: with -count tests run several times.
var streams atomic.Int64

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// stream is a stream of kinesis-mock, and the client of the sink under test:
// it passes requests on, and puts the faults in between that a healthy Kinesis
// does not have.
type stream struct {
	*kinesis.Client
	name string

	mu       sync.Mutex
	requests [][]types.PutRecordsRequestEntry
	// refuse says which records of a request, counted from 1, are refused.
	refuse func(request int, r types.PutRecordsRequestEntry) bool
	// before and after say what happens instead of a request, or of its answer.
	before, after func(request int) error
}

func newStream(t *testing.T, shards int32) *stream {
	t.Helper()
	s := &stream{name: fmt.Sprint(t.Name(), "-", streams.Add(1)), Client: kinesis.New(kinesis.Options{
		BaseEndpoint: aws.String(testengine.Kinesis(t)), Region: "eu-west-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), Retryer: aws.NopRetryer{},
	})}
	_, err := s.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &s.name, ShardCount: &shards})
	must(t, err)
	must(t, kinesis.NewStreamExistsWaiter(s, func(o *kinesis.StreamExistsWaiterOptions) { o.MinDelay = 20 * time.Millisecond }).
		Wait(t.Context(), &kinesis.DescribeStreamInput{StreamName: &s.name}, 20*time.Second))
	return s
}

func (s *stream) PutRecords(ctx context.Context, in *kinesis.PutRecordsInput, options ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, in.Records)
	n := len(s.requests)
	if s.before != nil {
		if err := s.before(n); err != nil {
			return nil, err
		}
	}
	out, err := s.pass(ctx, in, n, options)
	if err == nil && s.after != nil {
		err = s.after(n)
	}
	return out, err
}

// pass sends the records that are not refused, and makes one answer of both.
func (s *stream) pass(ctx context.Context, in *kinesis.PutRecordsInput, n int, options []func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error) {
	all := make([]types.PutRecordsResultEntry, len(in.Records))
	var places []int
	var taken []types.PutRecordsRequestEntry
	for i, r := range in.Records {
		if s.refuse != nil && s.refuse(n, r) {
			all[i] = types.PutRecordsResultEntry{
				ErrorCode: aws.String("ProvisionedThroughputExceededException"), ErrorMessage: aws.String("Rate exceeded for shard"),
			}
			continue
		}
		places, taken = append(places, i), append(taken, r)
	}
	if len(taken) > 0 {
		out, err := s.Client.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: in.StreamName, Records: taken}, options...)
		if err != nil {
			return nil, err
		}
		for i, place := range places {
			all[place] = out.Records[i]
		}
	}
	return &kinesis.PutRecordsOutput{Records: all}, nil
}

// sink makes a sink of the stream that does not pause.
func (s *stream) sink(t *testing.T, options ...kinesissink.Option) *kinesissink.Sink {
	t.Helper()
	sink, err := kinesissink.New(s, s.name, options...)
	must(t, err)
	sink.SetWait(func(ctx context.Context, _ int) error { return ctx.Err() })
	return sink
}

// sizes returns the number of records of each request.
func (s *stream) sizes() (sizes []int) {
	for _, r := range s.requests {
		sizes = append(sizes, len(r))
	}
	return sizes
}

// read returns the records of each shard.
func (s *stream) read(t *testing.T) (shards [][]types.Record) {
	t.Helper()
	list, err := s.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &s.name})
	must(t, err)
	for _, shard := range list.Shards {
		shards = append(shards, s.readShard(t, shard.ShardId))
	}
	return shards
}

func (s *stream) readShard(t *testing.T, id *string) (records []types.Record) {
	t.Helper()
	from, err := s.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: &s.name, ShardId: id, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	must(t, err)
	for next := from.ShardIterator; ; {
		page, err := s.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: next})
		must(t, err)
		records = append(records, page.Records...)
		if len(page.Records) == 0 && aws.ToInt64(page.MillisBehindLatest) == 0 {
			return records
		}
		next = page.NextShardIterator
	}
}

// counts returns how often each payload is in the stream.
func (s *stream) counts(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, r := range slices.Concat(s.read(t)...) {
		counts[string(r.Data)]++
	}
	return counts
}

// records makes n records of different keys; their payloads are their numbers.
func records(n int) []dedupe.Output {
	outputs := make([]dedupe.Output, n)
	for i := range outputs {
		outputs[i] = dedupe.Output{ID: fmt.Sprint("id-", i), PartitionKey: fmt.Sprint("key-", i), Data: payload(i)}
	}
	return outputs
}

func payload(i int) []byte { return fmt.Appendf(nil, "%06d", i) }

func is(i int, r types.PutRecordsRequestEntry) bool { return string(r.Data) == string(payload(i)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
