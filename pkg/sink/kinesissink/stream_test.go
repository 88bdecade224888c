package kinesissink_test

import (
	"context"
	"crypto/md5"
	"fmt"
	"math/big"
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

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// stream is the client of the sink under test. It passes requests on to a backend, and adds the faults that a healthy
// Kinesis does not have.
type stream struct {
	backend
	name string

	mu       sync.Mutex
	requests [][]types.PutRecordsRequestEntry
	// refuse says which records of a request, counted from 1, are refused.
	refuse func(request int, r types.PutRecordsRequestEntry) bool
	// before and after return an error in the place of a request, or of its answer.
	before, after func(request int) error
}

// backend takes the records: a stream in memory, or one of kinesis-mock.
type backend interface {
	kinesissink.API
	read(t *testing.T) (shards [][]types.Record)
}

// newStream makes a stream in memory.
func newStream(t *testing.T, shards int32) *stream {
	t.Helper()
	return &stream{name: t.Name(), backend: &memory{name: t.Name(), shards: make([][]types.Record, shards)}}
}

// onBothStreams runs a test on a stream in memory and on one of kinesis-mock.
func onBothStreams(t *testing.T, shards int32, test func(t *testing.T, s *stream)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		s := newStream(t, shards)
		s.name = "memory"
		s.backend.(*memory).name = s.name
		test(t, s)
	})
	t.Run("kinesis-mock", func(t *testing.T) {
		testengine.CheckOnly(t)
		t.Parallel()
		m := newMock(t, shards)
		test(t, &stream{name: m.name, backend: m})
	})
}

func (s *stream) PutRecords(
	ctx context.Context, in *kinesis.PutRecordsInput, options ...func(*kinesis.Options),
) (*kinesis.PutRecordsOutput, error) {
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

// pass sends the records that are not refused, and makes one answer for all.
func (s *stream) pass(
	ctx context.Context, in *kinesis.PutRecordsInput, n int, options []func(*kinesis.Options),
) (*kinesis.PutRecordsOutput, error) {
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
		out, err := s.backend.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: in.StreamName, Records: taken}, options...)
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

// sizes returns the number of records in each request.
func (s *stream) sizes() (sizes []int) {
	for _, r := range s.requests {
		sizes = append(sizes, len(r))
	}
	return sizes
}

// memory is a stream in memory, with records of at most 1 MiB. Like Kinesis it chooses a shard by the explicit hash
// key, or by the MD5 of the partition key.
type memory struct {
	name   string
	mu     sync.Mutex
	shards [][]types.Record
}

func (m *memory) PutRecords(
	_ context.Context, in *kinesis.PutRecordsInput, _ ...func(*kinesis.Options),
) (*kinesis.PutRecordsOutput, error) {
	if *in.StreamName != m.name {
		return nil, &types.ResourceNotFoundException{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &kinesis.PutRecordsOutput{}
	for _, r := range in.Records {
		if len(r.Data)+len(*r.PartitionKey) > kinesissink.DefaultMaxRecord {
			out.Records = append(out.Records, types.PutRecordsResultEntry{ErrorCode: aws.String("ValidationException")})
			continue
		}
		shard := m.shardOf(r)
		m.shards[shard] = append(m.shards[shard], types.Record{Data: r.Data, PartitionKey: r.PartitionKey})
		out.Records = append(out.Records, types.PutRecordsResultEntry{SequenceNumber: aws.String("1")})
	}
	return out, nil
}

func (m *memory) shardOf(r types.PutRecordsRequestEntry) int {
	sum := md5.Sum([]byte(*r.PartitionKey))
	hash := new(big.Int).SetBytes(sum[:])
	if r.ExplicitHashKey != nil {
		hash.SetString(*r.ExplicitHashKey, 10)
	}
	hash.Mul(hash, big.NewInt(int64(len(m.shards))))
	return int(hash.Rsh(hash, 128).Int64())
}

func (m *memory) read(*testing.T) [][]types.Record { return m.shards }

// mock is a stream of kinesis-mock.
type mock struct {
	*kinesis.Client
	name string
}

// mocks counts the streams of this process: with -count a test makes several.
var mocks atomic.Int64

func newMock(t *testing.T, shards int32) *mock {
	t.Helper()
	m := &mock{name: fmt.Sprint("stream-", mocks.Add(1)), Client: kinesis.New(kinesis.Options{
		BaseEndpoint: aws.String(testengine.Kinesis(t)), Region: "eu-west-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), Retryer: aws.NopRetryer{},
	})}
	_, err := m.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &m.name, ShardCount: &shards})
	must(t, err)
	must(t, kinesis.NewStreamExistsWaiter(m, func(o *kinesis.StreamExistsWaiterOptions) { o.MinDelay = 20 * time.Millisecond }).
		Wait(t.Context(), &kinesis.DescribeStreamInput{StreamName: &m.name}, time.Minute))
	return m
}

// read returns the records of each shard.
func (m *mock) read(t *testing.T) (shards [][]types.Record) {
	t.Helper()
	list, err := m.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &m.name})
	must(t, err)
	for _, shard := range list.Shards {
		shards = append(shards, m.readShard(t, shard.ShardId))
	}
	return shards
}

func (m *mock) readShard(t *testing.T, id *string) (records []types.Record) {
	t.Helper()
	from, err := m.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: &m.name, ShardId: id, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	must(t, err)
	for next := from.ShardIterator; ; {
		page, err := m.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: next})
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
