package eventsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/enginetest"
	"github.com/oncebox/oncebox/internal/eventsource"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

var streamCount atomic.Int64

// stream is a new stream of kinesis-mock.
type stream struct {
	client *kinesis.Client
	name   string
	arn    string
}

func newStream(t *testing.T, shards int32) stream {
	t.Helper()
	s := stream{name: fmt.Sprintf("stream-%d", streamCount.Add(1))}
	s.client = kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(enginetest.Kinesis(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := s.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &s.name, ShardCount: &shards})
	must(t, err)
	about := &kinesis.DescribeStreamInput{StreamName: &s.name}
	must(t, kinesis.NewStreamExistsWaiter(s.client, func(o *kinesis.StreamExistsWaiterOptions) {
		o.MinDelay = 10 * time.Millisecond
	}).Wait(t.Context(), about, time.Minute))
	out, err := s.client.DescribeStream(t.Context(), about)
	must(t, err)
	s.arn = *out.StreamDescription.StreamARN
	return s
}

// put puts records whose data are also their keys.
func (s stream) put(t *testing.T, data ...string) {
	t.Helper()
	for part := range slices.Chunk(data, 500) {
		in := &kinesis.PutRecordsInput{StreamName: &s.name}
		for _, d := range part {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String("key-" + d), Data: []byte(d)})
		}
		out, err := s.client.PutRecords(t.Context(), in)
		must(t, err)
		equal(t, "failed records", *out.FailedRecordCount, 0)
	}
}

// source is a Source that ends with the stream's records.
func (s stream) source(f eventsource.Function) eventsource.Source {
	return eventsource.Source{
		Client: s.client, StreamARN: s.arn, Function: f, StopWhenDrained: true, Pause: time.Millisecond, BatchSize: 10,
	}
}

// recorder is a function that notes what it is given, and fails as told.
type recorder struct {
	// fail says of a batch which record of it is the first to fail; len(data)
	// is none.
	fail func(data []string) int
	err  error

	mu      sync.Mutex
	batches [][]string
	events  []events.KinesisEvent
}

func (r *recorder) handle(_ context.Context, raw json.RawMessage) (answer events.KinesisEventResponse, err error) {
	var event events.KinesisEvent
	if err := json.Unmarshal(raw, &event); err != nil {
		return answer, err
	}
	data := dataOf(event)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches, r.events = append(r.batches, data), append(r.events, event)
	if r.err != nil {
		return answer, r.err
	}
	if r.fail == nil {
		return answer, nil
	}
	failed := event.Records[r.fail(data):]
	for i := range failed { // the lowest counts, and is neither the first nor the last of the list
		record := failed[(i+len(failed)/2)%len(failed)]
		answer.BatchItemFailures = append(answer.BatchItemFailures,
			events.KinesisBatchItemFailure{ItemIdentifier: record.Kinesis.SequenceNumber})
	}
	return answer, nil
}

func dataOf(event events.KinesisEvent) []string {
	var data []string
	for _, record := range event.Records {
		data = append(data, string(record.Kinesis.Data))
	}
	return data
}

var errBroken = errors.New("broken")

func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// batchesAre compares what the function was given, batch by batch.
func (r *recorder) batchesAre(t *testing.T, want ...[]string) {
	t.Helper()
	if got := r.batches; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("batches: got %v, want %v", got, want)
	}
}
