package kinesissink_test

import (
	"cmp"
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

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// stream is the client of the sink under test. It passes requests on to a backend, and adds faults that a healthy
// Kinesis does not have.
type stream struct {
	backend
	name string

	mu       sync.Mutex
	requests [][]types.PutRecordsRequestEntry
	// refuse says which records of a request, counted from 1, are refused.
	refuse func(request int, r types.PutRecordsRequestEntry) bool
	// before returns an error instead of sending a request. answer replaces the answer.
	before func(request int) error
	answer func(request int, out *kinesis.PutRecordsOutput) (*kinesis.PutRecordsOutput, error)
}

// backend stores the records: a stream in memory, or a stream of kinesis-mock.
type backend interface {
	kinesissink.API
	read(t *testing.T) []*shard
	split(t *testing.T, parent int)
	merge(t *testing.T, low, high int)
}

// newStream makes a stream in memory.
func newStream(t *testing.T, shards int32) *stream {
	t.Helper()
	return &stream{name: "memory", backend: newMemory("memory", shards)}
}

// onBothStreams runs a test on a stream in memory and on a stream of kinesis-mock.
func onBothStreams(t *testing.T, shards int32, test func(t *testing.T, s *stream)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, newStream(t, shards))
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
	if err == nil && s.answer != nil {
		return s.answer(n, out)
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
				ErrorCode:    aws.String("ProvisionedThroughputExceededException"),
				ErrorMessage: aws.String("Rate exceeded for shard"),
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

// ListShards lists the shards, however long that takes: a busy kinesis-mock needs more than the time after which the sink
// goes on without a list.
func (s *stream) ListShards(
	ctx context.Context, in *kinesis.ListShardsInput, options ...func(*kinesis.Options),
) (*kinesis.ListShardsOutput, error) {
	return s.backend.ListShards(context.WithoutCancel(ctx), in, options...)
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
	shards []*shard
	lists  int                      // calls of ListShards
	list   func(call int) error     // an error in the place of a list
	page   int                      // shards on a page of a list
	pages  map[string][]types.Shard // by token
}

// shard is a shard with its records, in order.
type shard struct {
	id          string
	first, last *big.Int
	closed      bool
	records     []types.Record
}

// has reports whether the hash key of a user record is in the range of the shard.
func (s *shard) has(partitionKey, explicitHashKey string) bool {
	h := hashKey(partitionKey, explicitHashKey)
	return h.Cmp(s.first) >= 0 && h.Cmp(s.last) <= 0
}

func hashKey(partitionKey, explicitHashKey string) *big.Int {
	sum := md5.Sum([]byte(partitionKey))
	h := new(big.Int).SetBytes(sum[:])
	if explicitHashKey != "" {
		h.SetString(explicitHashKey, 10)
	}
	return h
}

// newMemory makes a stream whose shards have equal ranges.
func newMemory(name string, shards int32) *memory {
	m := &memory{name: name, page: 1000, pages: map[string][]types.Shard{}}
	bound := func(i int32) *big.Int {
		b := new(big.Int).Lsh(big.NewInt(int64(i)), 128)
		return b.Div(b, big.NewInt(int64(shards)))
	}
	for i := range shards {
		m.add(bound(i), new(big.Int).Sub(bound(i+1), big.NewInt(1)))
	}
	return m
}

func (m *memory) add(first, last *big.Int) {
	m.shards = append(m.shards, &shard{id: fmt.Sprintf("shardId-%012d", len(m.shards)), first: first, last: last})
}

func (m *memory) split(_ *testing.T, parent int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shards[parent]
	s.closed = true
	half := middle(s.first, s.last)
	m.add(s.first, new(big.Int).Sub(half, big.NewInt(1)))
	m.add(half, s.last)
}

func (m *memory) merge(_ *testing.T, low, high int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shards[low].closed, m.shards[high].closed = true, true
	m.add(m.shards[low].first, m.shards[high].last)
}

// middle returns the first hash key of the upper half of a range.
func middle(first, last *big.Int) *big.Int {
	sum := new(big.Int).Add(first, last)
	return sum.Add(sum.Rsh(sum, 1), big.NewInt(1))
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
		s := m.shardOf(r)
		s.records = append(s.records, types.Record{Data: r.Data, PartitionKey: r.PartitionKey})
		out.Records = append(out.Records, types.PutRecordsResultEntry{SequenceNumber: aws.String("1"), ShardId: &s.id})
	}
	return out, nil
}

// shardOf returns the open shard that takes a record.
func (m *memory) shardOf(r types.PutRecordsRequestEntry) *shard {
	i := slices.IndexFunc(m.shards, func(s *shard) bool {
		return !s.closed && s.has(*r.PartitionKey, aws.ToString(r.ExplicitHashKey))
	})
	return m.shards[i]
}

func (m *memory) ListShards(
	_ context.Context, in *kinesis.ListShardsInput, _ ...func(*kinesis.Options),
) (*kinesis.ListShardsOutput, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists++
	if m.list != nil {
		if err := m.list(m.lists); err != nil {
			return nil, err
		}
	}
	if (in.NextToken == nil) == (in.StreamName == nil) {
		return nil, &types.InvalidArgumentException{}
	}
	rest := m.pages[aws.ToString(in.NextToken)]
	if in.NextToken == nil {
		for _, s := range slices.Backward(m.shards) { // in no particular order
			if !s.closed || in.ShardFilter == nil || in.ShardFilter.Type != types.ShardFilterTypeAtLatest {
				rest = append(rest, types.Shard{ShardId: &s.id, HashKeyRange: &types.HashKeyRange{
					StartingHashKey: aws.String(s.first.String()), EndingHashKey: aws.String(s.last.String()),
				}})
			}
		}
	}
	out := &kinesis.ListShardsOutput{Shards: rest[:min(m.page, len(rest))]}
	if len(rest) > m.page {
		token := fmt.Sprint("token-", m.lists)
		m.pages[token], out.NextToken = rest[m.page:], &token
	}
	return out, nil
}

func (m *memory) read(*testing.T) []*shard { return m.shards }

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
	m.waitActive(t)
	return m
}

// read reads all shards, including closed ones.
func (m *mock) read(t *testing.T) []*shard {
	t.Helper()
	shards := m.all(t)
	for _, s := range shards {
		s.records = m.readShard(t, &s.id)
	}
	return shards
}

// all returns all shards without their records.
func (m *mock) all(t *testing.T) (shards []*shard) {
	t.Helper()
	list, err := m.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &m.name})
	must(t, err)
	for _, s := range list.Shards {
		first, last := hashKey("", *s.HashKeyRange.StartingHashKey), hashKey("", *s.HashKeyRange.EndingHashKey)
		shards = append(shards, &shard{id: *s.ShardId, first: first, last: last})
	}
	return shards
}

func (m *mock) split(t *testing.T, parent int) {
	t.Helper()
	s := m.all(t)[parent]
	half := middle(s.first, s.last).String()
	_, err := m.SplitShard(t.Context(), &kinesis.SplitShardInput{
		StreamName: &m.name, ShardToSplit: &s.id, NewStartingHashKey: &half,
	})
	must(t, err)
	m.waitActive(t)
}

func (m *mock) merge(t *testing.T, low, high int) {
	t.Helper()
	shards := m.all(t)
	_, err := m.MergeShards(t.Context(), &kinesis.MergeShardsInput{
		StreamName: &m.name, ShardToMerge: &shards[low].id, AdjacentShardToMerge: &shards[high].id,
	})
	must(t, err)
	m.waitActive(t)
}

func (m *mock) waitActive(t *testing.T) {
	t.Helper()
	soon := func(o *kinesis.StreamExistsWaiterOptions) { o.MinDelay = 20 * time.Millisecond }
	waiter := kinesis.NewStreamExistsWaiter(m, soon)
	must(t, waiter.Wait(t.Context(), &kinesis.DescribeStreamInput{StreamName: &m.name}, 5*time.Minute))
}

func (m *mock) readShard(t *testing.T, id *string) (records []types.Record) {
	t.Helper()
	from, err := m.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: &m.name, ShardId: id, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	must(t, err)
	for next := from.ShardIterator; next != nil; { // a closed shard has an end
		page, err := m.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: next})
		must(t, err)
		records = append(records, page.Records...)
		if len(page.Records) == 0 && aws.ToInt64(page.MillisBehindLatest) == 0 {
			return records
		}
		next = page.NextShardIterator
	}
	return records
}

// userRecord is a record as a reader gets it.
type userRecord struct {
	data, partitionKey string
	explicitHashKey    string // of an aggregated record; a reader does not get that of a plain one
	aggregated         bool
}

// users returns the records of each shard. A plain reader opens all aggregates. KCL drops an aggregate if one of its
// records does not belong to the shard (AggregatorUtil of awslabs/amazon-kinesis-client).
func (s *stream) users(t *testing.T, kcl bool) (shards [][]userRecord) {
	t.Helper()
	for _, shard := range s.read(t) {
		var users []userRecord
		for _, r := range shard.records {
			users = append(users, open(t, r, func(u userRecord) bool {
				return !kcl || shard.has(u.partitionKey, u.explicitHashKey)
			})...)
		}
		shards = append(shards, users)
	}
	return shards
}

// open returns the user records of a Kinesis record. For an aggregate with a record that does not belong to the shard
// it returns none.
func open(t *testing.T, r types.Record, inShard func(userRecord) bool) (users []userRecord) {
	t.Helper()
	var decoder kpl.Decoder
	records, aggregated, err := decoder.Decode(r.Data)
	must(t, err)
	if !aggregated {
		return []userRecord{{data: string(r.Data), partitionKey: *r.PartitionKey}}
	}
	for _, r := range records {
		u := userRecord{string(r.Data), string(r.PartitionKey), string(r.ExplicitHashKey), true}
		if !inShard(u) {
			return nil
		}
		users = append(users, u)
	}
	return users
}

// counts returns how often each payload is in the stream, for a reader that opens all aggregates.
func (s *stream) counts(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, u := range slices.Concat(s.users(t, false)...) {
		counts[u.data]++
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

// tester is the part of a *testing.T that a *rapid.T has, too.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkOrder checks that the first copies of the records of each key are in the order of the outputs, and that the
// records have their partition keys. Shards are in the order of their ages.
func checkOrder(t tester, shards [][]userRecord, outputs []dedupe.Output) {
	t.Helper()
	want := map[string][]int{} // by key, which is what chooses the shard
	places := map[string]int{} // by data
	for i, o := range outputs {
		places[string(o.Data)] = i
		want[keyOf(o)] = append(want[keyOf(o)], i)
	}
	got := map[string][]int{}
	seen := map[int]bool{}
	for _, u := range slices.Concat(shards...) {
		i, known := places[u.data]
		o := outputs[i]
		if !known || u.partitionKey != o.PartitionKey || u.aggregated && u.explicitHashKey != o.ExplicitHashKey {
			t.Errorf("record %d is changed", i)
		}
		if key := keyOf(o); !seen[i] {
			seen[i] = true
			got[key] = append(got[key], i)
		}
	}
	for key := range want {
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("key %s: a reader gets %d, want %d", key, got[key], want[key])
		}
	}
}

// The highest hash key, and the number behind it, 2^128.
const (
	highestHashKey = "340282366920938463463374607431768211455"
	hashKeyTooHigh = "340282366920938463463374607431768211456"
)

func keyOf(o dedupe.Output) string { return cmp.Or(o.ExplicitHashKey, o.PartitionKey) }

func payload(i int) []byte { return fmt.Appendf(nil, "%06d", i) }

func is(i int, r types.PutRecordsRequestEntry) bool { return string(r.Data) == string(payload(i)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
