package eventsource_test

import (
	"crypto/md5"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// TestPut: "An MD5 hash function is used to map partition keys to 128-bit integer values
// and to map associated data records to shards using the hash key ranges of the shards"
// (Concepts, "Partition key").
func TestPut(t *testing.T) {
	t.Parallel()
	s := eventsource.NewStream(3, func() time.Time { return start })
	must(t, s.Split(s.Open()[1]))
	open := s.Open()
	must(t, s.Merge(open[0], open[1]))
	out, err := s.ListShards(t.Context(), nil)
	must(t, err)
	var names []string
	for _, sh := range out.Shards {
		names = append(names, fmt.Sprint(number(*sh.ShardId), parent(sh.ParentShardId), parent(sh.AdjacentParentShardId), sh.SequenceNumberRange.EndingSequenceNumber != nil))
	}
	equal(t, "shards with parents, and whether closed", strings.Join(names, ", "),
		"0--true, 1--true, 2--false, 31-true, 41-false, 503false")
	for i := range 100 {
		key := fmt.Sprint("key-", i)
		sum := md5.Sum([]byte(key))
		hash := new(big.Int).SetBytes(sum[:])
		shard, _ := s.Put(key, nil)
		var want string
		for _, sh := range out.Shards {
			if sh.SequenceNumberRange.EndingSequenceNumber != nil {
				continue
			}
			first, _ := new(big.Int).SetString(*sh.HashKeyRange.StartingHashKey, 10)
			last, _ := new(big.Int).SetString(*sh.HashKeyRange.EndingHashKey, 10)
			if first.Cmp(hash) <= 0 && hash.Cmp(last) <= 0 {
				want += *sh.ShardId
			}
		}
		equal(t, "shard of "+key, shard, want)
	}
}

func number(shard string) string { return shard[len(shard)-1:] }

func parent(shard *string) string {
	if shard == nil {
		return "-"
	}
	return number(*shard)
}

// TestExpiredShardsAreNotListed: a closed shard is not listed when all its records have outlived the
// retention (Resharding, on the state EXPIRED).
func TestExpiredShardsAreNotListed(t *testing.T) {
	t.Parallel()
	now := start
	s := eventsource.NewStream(1, func() time.Time { return now })
	must(t, s.Split(s.Open()[0]))
	for after, want := range map[time.Duration]int{0: 3, eventsource.DefaultRetention: 3, eventsource.DefaultRetention + 1: 2} {
		now = start.Add(after)
		out, err := s.ListShards(t.Context(), nil)
		must(t, err)
		equal(t, fmt.Sprint("shards after ", after), len(out.Shards), want)
	}
}

// TestReshardRefuses: shards must be open and adjacent.
func TestReshardRefuses(t *testing.T) {
	t.Parallel()
	s := eventsource.NewStream(3, func() time.Time { return start })
	open := s.Open()
	must(t, s.Split(open[0]))
	for name, err := range map[string]error{
		"closed":          s.Split(open[0]),
		"unknown":         s.Split("shard"),
		"merge closed":    s.Merge(open[0], open[1]),
		"wrong order":     s.Merge(open[2], open[1]),
		"no neighbours":   s.Merge(s.Open()[0], open[1]),
		"merge unknown":   s.Merge(open[1], "shard"),
		"merge with self": s.Merge(open[1], open[1]),
	} {
		if err == nil {
			t.Errorf("%s: done", name)
		}
	}
}

// TestIteratorExpires: "A shard iterator expires 5 minutes after it is returned" (Read).
// A mapping gets another one and loses or repeats no record.
func TestIteratorExpires(t *testing.T) {
	t.Parallel()
	now := start
	s := eventsource.NewStream(1, func() time.Time { return now })
	iterator, err := s.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		ShardId: &s.Open()[0], ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	must(t, err)
	in := &kinesis.GetRecordsInput{ShardIterator: iterator.ShardIterator, Limit: aws.Int32(1)}
	now = now.Add(5 * time.Minute)
	_, err = s.GetRecords(t.Context(), in)
	must(t, err)
	now = now.Add(1)
	_, err = s.GetRecords(t.Context(), in)
	if _, expired := errors.AsType[*types.ExpiredIteratorException](err); !expired {
		t.Errorf("got %v", err)
	}

	w := newWorld(t, 1)
	w.mapping.BatchSize = 2
	w.send(numbers(4)...)
	w.answer = throwing("0")
	w.start()
	w.advance(time.Hour)
	w.answer, w.calls = nil, nil
	w.drain()
	w.batches("0 1, 2 3")
}

// TestReadLimits: a read returns at most the number of records asked for and 10 MB, and no expired
// record. MillisBehindLatest is 0 only at the end. The end of a closed shard has no iterator (Read).
func TestReadLimits(t *testing.T) {
	t.Parallel()
	now := start
	s := eventsource.NewStream(1, func() time.Time { return now })
	s.Retention = time.Hour
	shard := s.Open()[0]
	read := func(limit int32) *kinesis.GetRecordsOutput {
		t.Helper()
		it, err := s.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
		must(t, err)
		out, err := s.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator, Limit: &limit})
		must(t, err)
		return out
	}
	for range 3 {
		s.Put("k", make([]byte, 4<<20))
	}
	now = now.Add(time.Minute)
	out := read(1)
	equal(t, "records", len(out.Records), 1)
	equal(t, "behind", *out.MillisBehindLatest, 60_000)
	out = read(10)
	equal(t, "records in 10 MB", len(out.Records), 2)
	equal(t, "there is more", *out.MillisBehindLatest > 0, true)
	now = now.Add(time.Hour - time.Minute + time.Millisecond)
	s.Put("k", nil)
	out = read(10)
	equal(t, "records left", len(out.Records), 1)
	equal(t, "behind at the tip", *out.MillisBehindLatest, 0)
	equal(t, "open", out.NextShardIterator != nil, true)
	must(t, s.Split(shard))
	equal(t, "closed", read(10).NextShardIterator == nil, true)
}

// TestStreamRefuses lists requests that no mapping makes.
func TestStreamRefuses(t *testing.T) {
	t.Parallel()
	s := eventsource.NewStream(1, func() time.Time { return start })
	for name, in := range map[string]kinesis.GetShardIteratorInput{
		"shard": {ShardId: aws.String("none"), ShardIteratorType: types.ShardIteratorTypeLatest},
		"type":  {ShardId: &s.Open()[0], ShardIteratorType: "SOMEWHERE"},
	} {
		if _, err := s.GetShardIterator(t.Context(), &in); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
	for _, iterator := range []string{"", "none 0 0", s.Open()[0]} {
		if _, err := s.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: &iterator}); err == nil {
			t.Errorf("%q: answered", iterator)
		}
	}
}
