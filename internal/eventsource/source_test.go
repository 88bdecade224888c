package eventsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/eventsource"
)

func TestBatchesInOrder(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.put(t, numbers(25)...)
	var r recorder
	must(t, s.source(r.handle).Run(t.Context()))
	all := numbers(25)
	r.batchesAre(t, all[:10], all[10:20], all[20:])
}

func TestEventIsThatOfLambda(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	begun := time.Now().Add(-time.Minute)
	s.put(t, "first", "")
	var raw json.RawMessage
	var id string
	must(t, s.source(func(ctx context.Context, event json.RawMessage) (events.KinesisEventResponse, error) {
		lc, _ := lambdacontext.FromContext(ctx)
		raw, id = event, lc.AwsRequestID
		return events.KinesisEventResponse{}, nil
	}).Run(t.Context()))
	equal(t, "length of the request id", len(id), 36)
	if !strings.Contains(string(raw), `"data":""`) {
		t.Errorf("empty data is not there as such: %s", raw)
	}
	var event events.KinesisEvent
	must(t, json.Unmarshal(raw, &event))
	equal(t, "records", len(event.Records), 2)
	record := event.Records[0]
	equal(t, "event source", record.EventSource, "aws:kinesis")
	equal(t, "event name", record.EventName, "aws:kinesis:record")
	equal(t, "ARN", record.EventSourceArn, s.arn)
	equal(t, "region", record.AwsRegion, "us-east-1")
	equal(t, "event id", record.EventID, "shardId-000000000000:"+record.Kinesis.SequenceNumber)
	equal(t, "data", string(record.Kinesis.Data), "first")
	equal(t, "partition key", record.Kinesis.PartitionKey, "key-first")
	if at := record.Kinesis.ApproximateArrivalTimestamp; at.Before(begun) || at.After(time.Now().Add(time.Minute)) {
		t.Errorf("arrival: %v", at)
	}
}

// TestSeveralShards: a batch is of one shard, and each shard is in order.
func TestSeveralShards(t *testing.T) {
	t.Parallel()
	s := newStream(t, 4)
	s.put(t, numbers(100)...)
	var r recorder
	must(t, s.source(r.handle).Run(t.Context()))
	last := map[string]int{} // by shard: the last number
	seen := 0
	for _, event := range r.events {
		shard, _, _ := strings.Cut(event.Records[0].EventID, ":")
		for i, data := range dataOf(event) {
			if !strings.HasPrefix(event.Records[i].EventID, shard+":") {
				t.Errorf("a batch has records of %s and %s", shard, event.Records[i].EventID)
			}
			var n int
			_, err := fmt.Sscan(data, &n)
			must(t, err)
			if n <= last[shard]-1 {
				t.Errorf("%s: %d after %d", shard, n, last[shard]-1)
			}
			last[shard] = n + 1
			seen++
		}
	}
	equal(t, "records", seen, 100)
	equal(t, "shards", len(last), 4)
}

// TestLowestFailedRecord: it and all after it come again, in batches that end
// where the first one did.
func TestLowestFailedRecord(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.put(t, numbers(12)...)
	all := numbers(12)
	fails := map[string]int{"3": 2, "7": 1} // how often the record fails
	r := recorder{}
	r.fail = func(data []string) int {
		for i, d := range data {
			if fails[d] > 0 {
				fails[d]--
				return i
			}
		}
		return len(data)
	}
	source := s.source(r.handle)
	source.Retries = 2
	must(t, source.Run(t.Context()))
	r.batchesAre(t, all[:10], all[3:10], all[3:10], all[7:10], all[10:])
}

// TestRetriesAreBounded: what a shard gives up is kept whole, and the shard goes on.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	failAt := func(bad string) func([]string) int {
		return func(data []string) int {
			if i := slices.Index(data, bad); i >= 0 {
				return i
			}
			return len(data)
		}
	}
	all := numbers(12)
	for name, c := range map[string]struct {
		retries int
		batches [][]string
	}{
		"none": {0, [][]string{all[:10], all[10:]}},
		"two":  {2, [][]string{all[:10], all[4:10], all[4:10], all[10:]}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStream(t, 1)
			s.put(t, all...)
			r := recorder{fail: failAt("4")}
			source := s.source(r.handle)
			source.Retries = c.retries
			var given []eventsource.GivenUp
			source.OnFailure = func(_ context.Context, g eventsource.GivenUp) error {
				given = append(given, g)
				return nil
			}
			must(t, source.Run(t.Context()))
			r.batchesAre(t, c.batches...)
			if len(given) != 1 || len(given[0].Records) != 6 || string(given[0].Records[0].Data) != "4" ||
				!errors.Is(given[0].Err, eventsource.ErrFailedRecords) || given[0].Shard != "shardId-000000000000" {
				t.Errorf("given up: %+v", given)
			}
		})
	}
}

func TestAFailedInvocationFailsTheBatch(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.put(t, "a", "b")
	r := recorder{err: errBroken}
	source := s.source(r.handle)
	source.Retries = 1
	err := source.Run(t.Context())
	if !errors.Is(err, errBroken) {
		t.Errorf("want the function's error where nobody takes what is given up, got %v", err)
	}
	r.batchesAre(t, []string{"a", "b"}, []string{"a", "b"})

	errFull := errors.New("full")
	source.OnFailure = func(context.Context, eventsource.GivenUp) error { return errFull }
	if err := source.Run(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("want the error of OnFailure, got %v", err)
	}
}

// TestAnAnswerThatNamesNoRecordFailsTheBatch, as it does with Lambda.
func TestAnAnswerThatNamesNoRecordFailsTheBatch(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.put(t, "a")
	for _, id := range []string{"", "17"} {
		err := s.source(func(context.Context, json.RawMessage) (events.KinesisEventResponse, error) {
			return events.KinesisEventResponse{BatchItemFailures: []events.KinesisBatchItemFailure{{ItemIdentifier: id}}}, nil
		}).Run(t.Context())
		if !errors.Is(err, eventsource.ErrBadAnswer) {
			t.Errorf("%q: want %v, got %v", id, eventsource.ErrBadAnswer, err)
		}
	}
}

// TestStopsWhenTold: it reads on, past the point where the stream was drained,
// until its context ends.
func TestStopsWhenTold(t *testing.T) {
	t.Parallel()
	s := newStream(t, 2)
	s.put(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string)
	source := s.source(func(_ context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
		var event events.KinesisEvent
		err := json.Unmarshal(raw, &event)
		for _, data := range dataOf(event) {
			got <- data
		}
		return events.KinesisEventResponse{}, err
	})
	source.StopWhenDrained = false
	ended := make(chan error)
	go func() { ended <- source.Run(ctx) }()
	equal(t, "first", <-got, "a")
	s.put(t, "b")
	equal(t, "second", <-got, "b")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("want the context's error, got %v", err)
	}
}

// TestStopsDuringRetries: nothing is given up because somebody said stop.
func TestStopsDuringRetries(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.put(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	source := s.source(func(context.Context, json.RawMessage) (events.KinesisEventResponse, error) {
		cancel()
		return events.KinesisEventResponse{}, errBroken
	})
	source.OnFailure = func(context.Context, eventsource.GivenUp) error {
		t.Error("given up")
		return nil
	}
	if err := source.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("want the context's error, got %v", err)
	}
}

// TestEveryRunBeginsAtTheOldestRecords: nothing is remembered.
func TestEveryRunBeginsAtTheOldestRecords(t *testing.T) {
	t.Parallel()
	s := newStream(t, 1)
	s.put(t, "a")
	var r recorder
	must(t, s.source(r.handle).Run(t.Context()))
	must(t, s.source(r.handle).Run(t.Context()))
	r.batchesAre(t, []string{"a"}, []string{"a"})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	arn := "arn:aws:kinesis:us-east-1:123456789012:stream/clicks"
	for name, s := range map[string]eventsource.Source{
		"no ARN":           {},
		"other ARN":        {StreamARN: "arn:aws:sqs:us-east-1:123456789012:clicks"},
		"large batch":      {StreamARN: arn, BatchSize: eventsource.MaxBatchSize + 1},
		"negative batch":   {StreamARN: arn, BatchSize: -1},
		"negative retries": {StreamARN: arn, Retries: -1},
	} {
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// scripted is a stream of one page of shards each, whose GetRecords answers as
// the script says.
type scripted struct {
	shards []string
	script []func() (*kinesis.GetRecordsOutput, error)
	begins []kinesis.GetShardIteratorInput
}

func (s *scripted) ListShards(_ context.Context, in *kinesis.ListShardsInput, _ ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error) {
	page := 0
	if in.NextToken != nil {
		if in.StreamName != nil {
			return nil, &types.InvalidArgumentException{}
		}
		page = slices.Index(s.shards, *in.NextToken)
	}
	out := &kinesis.ListShardsOutput{Shards: []types.Shard{{ShardId: &s.shards[page]}}}
	if page+1 < len(s.shards) {
		out.NextToken = &s.shards[page+1]
	}
	return out, nil
}

func (s *scripted) GetShardIterator(_ context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	s.begins = append(s.begins, *in)
	return &kinesis.GetShardIteratorOutput{ShardIterator: in.ShardId}, nil
}

func (s *scripted) GetRecords(context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	next := s.script[0]
	s.script = s.script[1:]
	return next()
}

func found(behind int64, more bool, sequences ...string) func() (*kinesis.GetRecordsOutput, error) {
	out := &kinesis.GetRecordsOutput{MillisBehindLatest: &behind}
	for _, n := range sequences {
		out.Records = append(out.Records, types.Record{SequenceNumber: &n, Data: []byte(n)})
	}
	if more {
		out.NextShardIterator = aws.String("next")
	}
	return func() (*kinesis.GetRecordsOutput, error) { return out, nil }
}

func refused(err error) func() (*kinesis.GetRecordsOutput, error) {
	return func() (*kinesis.GetRecordsOutput, error) { return nil, err }
}

func (s *scripted) run(t *testing.T, f eventsource.Function) error {
	t.Helper()
	return eventsource.Source{
		Client: s, StreamARN: "arn:aws:kinesis:us-east-1:123456789012:stream/clicks", Function: f,
		StopWhenDrained: true, Pause: time.Microsecond,
	}.Run(t.Context())
}

// TestReadsOn: stretches without records, throttles and an iterator that
// expired are no ends, and lose and repeat nothing.
func TestReadsOn(t *testing.T) {
	t.Parallel()
	var r recorder
	s := &scripted{shards: []string{"shard-0"}, script: []func() (*kinesis.GetRecordsOutput, error){
		found(5000, true),
		refused(&types.ProvisionedThroughputExceededException{}),
		refused(&types.ExpiredIteratorException{}),
		found(1000, true, "8", "9"),
		refused(&types.ExpiredIteratorException{}),
		found(0, true, "10"),
		found(0, true),
	}}
	must(t, s.run(t, r.handle))
	r.batchesAre(t, []string{"8", "9"}, []string{"10"})
	var begins []string
	for _, in := range s.begins {
		begins = append(begins, fmt.Sprint(in.ShardIteratorType, " ", aws.ToString(in.StartingSequenceNumber)))
	}
	equal(t, "begins", strings.Join(begins, ", "), "TRIM_HORIZON , TRIM_HORIZON , AFTER_SEQUENCE_NUMBER 9")
}

func TestReadsAClosedShardToItsEnd(t *testing.T) {
	t.Parallel()
	var r recorder
	s := &scripted{shards: []string{"shard-0"}, script: []func() (*kinesis.GetRecordsOutput, error){found(100, false, "1")}}
	must(t, s.run(t, r.handle))
	r.batchesAre(t, []string{"1"})
}

func TestListsAllPagesOfShards(t *testing.T) {
	t.Parallel()
	shards := &listing{scripted{shards: []string{"shard-0", "shard-1", "shard-2"}}, make(chan string, 3)}
	must(t, eventsource.Source{
		Client: shards, StreamARN: "arn:aws:kinesis:us-east-1:123456789012:stream/clicks", StopWhenDrained: true,
	}.Run(t.Context()))
	equal(t, "shards read", len(shards.read), 3)
}

// listing is a stream of empty shards.
type listing struct {
	scripted
	read chan string
}

func (l *listing) GetShardIterator(_ context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	l.read <- *in.ShardId
	return &kinesis.GetShardIteratorOutput{ShardIterator: in.ShardId}, nil
}

func (l *listing) GetRecords(context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	return found(0, true)()
}

func TestOtherFailuresEndIt(t *testing.T) {
	t.Parallel()
	s := &scripted{shards: []string{"shard-0"}, script: []func() (*kinesis.GetRecordsOutput, error){refused(errBroken)}}
	if err := s.run(t, nil); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "clicks, shard-0") {
		t.Errorf("want the failure and where it was, got %v", err)
	}
}
