package eventsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// The tests of this file use kinesis-mock and the client of the SDK.

var streamCount atomic.Int64

// mockStream is a new stream of kinesis-mock.
type mockStream struct {
	*testing.T
	client *kinesis.Client
	name   string
	arn    string
}

func newMockStream(t *testing.T, shards int32) mockStream {
	t.Helper()
	s := mockStream{T: t, name: fmt.Sprintf("stream-%d", streamCount.Add(1))}
	s.client = kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(testengine.Kinesis(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := s.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &s.name, ShardCount: &shards})
	must(t, err)
	s.arn = *s.active().StreamARN
	return s
}

// active waits until the stream is ready.
func (s mockStream) active() *types.StreamDescription {
	s.Helper()
	out, err := kinesis.NewStreamExistsWaiter(s.client, func(o *kinesis.StreamExistsWaiterOptions) {
		o.MinDelay = 10 * time.Millisecond
	}).WaitForOutput(s.Context(), &kinesis.DescribeStreamInput{StreamName: &s.name}, 5*time.Minute)
	must(s, err)
	return out.StreamDescription
}

// put puts records whose data are also their keys.
func (s mockStream) put(data ...string) {
	s.Helper()
	for part := range slices.Chunk(data, 500) {
		in := &kinesis.PutRecordsInput{StreamName: &s.name}
		for _, d := range part {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: &d, Data: []byte(d)})
		}
		out, err := s.client.PutRecords(s.Context(), in)
		must(s, err)
		equal(s, "failed records", *out.FailedRecordCount, 0)
	}
}

func (s mockStream) mapping(f eventsource.Function) eventsource.Mapping {
	return eventsource.Mapping{
		Client: s.client, StreamARN: s.arn, Function: f, BatchSize: 10, ReportBatchItemFailures: true, Timeout: time.Minute,
		PollPause: time.Millisecond, RetryPause: time.Millisecond, StopWhenDrained: true, Checkpoint: new(eventsource.Checkpoint),
	}
}

// TestKinesis compares the batches, their order and the event of a stream of kinesis-mock.
func TestKinesis(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	s := newMockStream(t, 1)
	begun := time.Now().Add(-time.Minute)
	s.put(numbers(25)...)
	var r recorder
	m := s.mapping(r.handle)
	must(t, m.Run(t.Context()))
	r.are(t, "0 1 2 3 4 5 6 7 8 9, 10 11 12 13 14 15 16 17 18 19, 20 21 22 23 24")
	record := r.events[0].Records[0]
	equal(t, "ARN", record.EventSourceArn, s.arn)
	equal(t, "event id", record.EventID, firstShard+":"+record.Kinesis.SequenceNumber)
	if at := record.Kinesis.ApproximateArrivalTimestamp; at.Before(begun) || at.After(time.Now().Add(time.Minute)) {
		t.Errorf("arrival: %v", at)
	}
	s.put("25")
	must(t, m.Run(t.Context()))
	equal(t, "resumed with", r.batches[3], "25")
}

// TestKinesisResharding has a split, a merge, several lanes and failures. Every record is delivered,
// and each key from the parent first.
func TestKinesisResharding(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	s := newMockStream(t, 1)
	var r recorder
	var invocations atomic.Int32
	m := s.mapping(func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		answer, err := r.handle(ctx, event)
		if invocations.Add(1) <= 3 {
			err = errBroken
		}
		return answer, err
	})
	m.Parallelization, m.Bisect = 3, true
	s.put(numbers(20)...)
	_, err := s.client.SplitShard(t.Context(), &kinesis.SplitShardInput{
		StreamName: &s.name, ShardToSplit: aws.String(firstShard), NewStartingHashKey: aws.String("170141183460469231731687303715884105728"),
	})
	must(t, err)
	s.active()
	s.put(numbers(20)...)
	_, err = s.client.MergeShards(t.Context(), &kinesis.MergeShardsInput{
		StreamName: &s.name, ShardToMerge: aws.String("shardId-000000000001"), AdjacentShardToMerge: aws.String("shardId-000000000002"),
	})
	must(t, err)
	s.active()
	s.put(numbers(20)...)
	must(t, m.Run(t.Context()))
	order := map[string][]string{} // by key: shards
	for _, event := range r.events {
		for _, record := range event.Records {
			shard, _, _ := strings.Cut(record.EventID, ":")
			key := record.Kinesis.PartitionKey
			if n := len(order[key]); n == 0 || order[key][n-1] != shard {
				order[key] = append(order[key], shard)
			}
		}
	}
	equal(t, "keys", len(order), 20)
	for key, shards := range order {
		if len(shards) != 3 || !slices.IsSorted(shards) {
			t.Errorf("%s came from %v", key, shards)
		}
	}
}
