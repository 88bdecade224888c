package eventsource

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// DefaultRetention is the default retention of a stream (Concepts, "Retention period").
const DefaultRetention = 24 * time.Hour

// Limits of reading (Read).
const (
	maxReadBytes = 10 << 20
	iteratorLife = 5 * time.Minute
)

// Stream is a Kinesis stream in memory that uses the clock of the caller. It is safe for concurrent
// use. It has no limits of throughput.
type Stream struct {
	// Retention is how long records can be read. The default is DefaultRetention. Do not change
	// it while the stream is in use.
	Retention time.Duration

	now    func() time.Time
	mu     sync.Mutex
	shards []*storedShard
	last   int64 // the last sequence number
}

type storedShard struct {
	id         string
	parents    []string
	first, end *big.Int // hash keys, both included
	opened     string   // the sequence number before the first record's
	closed     string   // the sequence number of its end; empty while it is open
	closedAt   time.Time
	records    []types.Record
}

// firstSequence precedes the sequence numbers of a stream. The first numbers differ in length, so
// that code which compares them as texts fails early.
const firstSequence = 97

// hashKeys is the number of hash keys: 2^128.
var hashKeys = new(big.Int).Lsh(big.NewInt(1), 128)

// NewStream makes a stream whose shards divide the hash keys evenly.
func NewStream(shards int, now func() time.Time) *Stream {
	s := &Stream{Retention: DefaultRetention, now: now, last: firstSequence}
	share := new(big.Int).Div(hashKeys, big.NewInt(int64(shards)))
	for i := range shards {
		first := new(big.Int).Mul(share, big.NewInt(int64(i)))
		end := new(big.Int).Sub(new(big.Int).Add(first, share), big.NewInt(1))
		if i == shards-1 {
			end.Sub(hashKeys, big.NewInt(1))
		}
		s.open(first, end)
	}
	return s
}

func (s *Stream) open(first, end *big.Int, parents ...string) {
	s.shards = append(s.shards, &storedShard{
		id: fmt.Sprintf("shardId-%012d", len(s.shards)), parents: parents, first: first, end: end, opened: s.number(),
	})
}

func (s *Stream) number() string {
	s.last++
	return strconv.FormatInt(s.last, 10)
}

// Put appends a record to the shard of the MD5 of its partition key, and returns the shard and the
// sequence number. The arrival is the current time in whole milliseconds.
func (s *Stream) Put(partitionKey string, data []byte) (shard, sequence string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := md5.Sum([]byte(partitionKey))
	key := new(big.Int).SetBytes(sum[:])
	i := slices.IndexFunc(s.shards, func(to *storedShard) bool {
		return to.closed == "" && to.first.Cmp(key) <= 0 && key.Cmp(to.end) <= 0
	})
	to := s.shards[i]
	sequence = s.number()
	to.records = append(to.records, types.Record{
		ApproximateArrivalTimestamp: aws.Time(s.now().UTC().Truncate(time.Millisecond)),
		Data:                        slices.Clone(data), PartitionKey: &partitionKey, SequenceNumber: &sequence,
	})
	return to.id, sequence
}

// Open returns the open shards by hash key. They can be split, and adjacent ones can be merged.
func (s *Stream) Open() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.openShards() {
		ids = append(ids, sh.id)
	}
	return ids
}

func (s *Stream) openShards() []*storedShard {
	open := slices.DeleteFunc(slices.Clone(s.shards), func(sh *storedShard) bool { return sh.closed != "" })
	slices.SortFunc(open, func(a, b *storedShard) int { return a.first.Cmp(b.first) })
	return open
}

// errReshard says that a shard cannot be split or merged like this.
var errReshard = errors.New("eventsource: the shards are not open, or not adjacent")

// Split replaces an open shard by two new ones.
func (s *Stream) Split(shard string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	parent := s.find(shard)
	if parent == nil || parent.closed != "" || parent.first.Cmp(parent.end) == 0 {
		return errReshard
	}
	middle := new(big.Int).Rsh(new(big.Int).Add(parent.first, parent.end), 1)
	s.shut(parent)
	s.open(parent.first, middle, shard)
	s.open(new(big.Int).Add(middle, big.NewInt(1)), parent.end, shard)
	return nil
}

// Merge replaces two open shards by a new one. They must be adjacent in [Stream.Open], in that
// order.
func (s *Stream) Merge(shard, adjacent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := s.find(shard), s.find(adjacent)
	if a == nil || b == nil || a.closed != "" || b.closed != "" || new(big.Int).Add(a.end, big.NewInt(1)).Cmp(b.first) != 0 {
		return errReshard
	}
	s.shut(a)
	s.shut(b)
	s.open(a.first, b.end, shard, adjacent)
	return nil
}

func (s *Stream) shut(shard *storedShard) {
	shard.closed, shard.closedAt = s.number(), s.now()
}

func (s *Stream) find(id string) *storedShard {
	i := slices.IndexFunc(s.shards, func(sh *storedShard) bool { return sh.id == id })
	if i < 0 {
		return nil
	}
	return s.shards[i]
}

// expired reports whether a record or shard of a time can no longer be read.
func (s *Stream) expired(at time.Time) bool { return s.now().Sub(at) > s.Retention }

// ListShards lists the shards that are open or have records to read.
func (s *Stream) ListShards(context.Context, *kinesis.ListShardsInput, ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &kinesis.ListShardsOutput{}
	for _, sh := range s.shards {
		if sh.closed != "" && s.expired(sh.closedAt) {
			continue
		}
		about := types.Shard{
			ShardId:             &sh.id,
			HashKeyRange:        &types.HashKeyRange{StartingHashKey: aws.String(sh.first.String()), EndingHashKey: aws.String(sh.end.String())},
			SequenceNumberRange: &types.SequenceNumberRange{StartingSequenceNumber: &sh.opened},
		}
		if len(sh.parents) > 0 {
			about.ParentShardId = &sh.parents[0]
		}
		if len(sh.parents) > 1 {
			about.AdjacentParentShardId = &sh.parents[1]
		}
		if sh.closed != "" {
			about.SequenceNumberRange.EndingSequenceNumber = &sh.closed
		}
		out.Shards = append(out.Shards, about)
	}
	return out, nil
}

// GetShardIterator returns an iterator for a position in a shard.
func (s *Stream) GetShardIterator(_ context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.find(*in.ShardId)
	if sh == nil {
		return nil, &types.ResourceNotFoundException{Message: aws.String("no shard " + *in.ShardId)}
	}
	from := func(begins func(types.Record) bool) *kinesis.GetShardIteratorOutput {
		i := slices.IndexFunc(sh.records, begins)
		if i < 0 {
			i = len(sh.records)
		}
		return &kinesis.GetShardIteratorOutput{ShardIterator: s.iterator(sh, i)}
	}
	switch in.ShardIteratorType {
	case types.ShardIteratorTypeTrimHorizon:
		return from(func(types.Record) bool { return true }), nil
	case types.ShardIteratorTypeAfterSequenceNumber:
		return from(func(r types.Record) bool {
			return dedupe.CompareSequence(*r.SequenceNumber, *in.StartingSequenceNumber) > 0
		}), nil
	}
	return nil, &types.InvalidArgumentException{Message: aws.String("no iterator type " + string(in.ShardIteratorType))}
}

// iterator returns an iterator: the shard, the index of a record, and the current time.
func (s *Stream) iterator(sh *storedShard, i int) *string {
	return aws.String(fmt.Sprintf("%s %d %d", sh.id, i, s.now().UnixNano()))
}

// GetRecords returns the records at an iterator.
func (s *Stream) GetRecords(_ context.Context, in *kinesis.GetRecordsInput, _ ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var i int
	var made int64
	id, rest, _ := strings.Cut(*in.ShardIterator, " ")
	if _, err := fmt.Sscan(rest, &i, &made); err != nil || s.find(id) == nil {
		return nil, &types.InvalidArgumentException{Message: aws.String("no iterator " + *in.ShardIterator)}
	}
	if s.now().Sub(time.Unix(0, made)) > iteratorLife {
		return nil, &types.ExpiredIteratorException{Message: aws.String(*in.ShardIterator)}
	}
	sh := s.find(id)
	for i < len(sh.records) && s.expired(*sh.records[i].ApproximateArrivalTimestamp) {
		i++
	}
	out := &kinesis.GetRecordsOutput{MillisBehindLatest: new(int64)}
	for size := 0; i < len(sh.records) && len(out.Records) < int(aws.ToInt32(in.Limit)); i++ {
		size += len(sh.records[i].Data)
		if size > maxReadBytes && len(out.Records) > 0 {
			break
		}
		out.Records = append(out.Records, sh.records[i])
	}
	if i < len(sh.records) {
		*out.MillisBehindLatest = max(1, s.now().Sub(*sh.records[i].ApproximateArrivalTimestamp).Milliseconds())
	}
	if i < len(sh.records) || sh.closed == "" {
		out.NextShardIterator = s.iterator(sh, i)
	}
	return out, nil
}
