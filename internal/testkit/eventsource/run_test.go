package eventsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// recorder is a function that records its batches.
type recorder struct {
	mu      sync.Mutex
	batches []string
	events  []events.KinesisEvent
}

func (r *recorder) handle(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var event events.KinesisEvent
	if err := json.Unmarshal(raw, &event); err != nil {
		return nil, err
	}
	var data []string
	for _, record := range event.Records {
		data = append(data, string(record.Kinesis.Data))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches, r.events = append(r.batches, strings.Join(data, " ")), append(r.events, event)
	return nil, nil
}

func (r *recorder) are(t *testing.T, want string) {
	t.Helper()
	equal(t, "batches", strings.Join(r.batches, ", "), want)
}

// run runs a mapping on a stream in memory until it is drained or fails, in the time of a synctest
// bubble.
func run(t *testing.T, f eventsource.Function, change func(*eventsource.Stream, *eventsource.Mapping), data ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stream := eventsource.NewStream(1, time.Now)
		for _, d := range data {
			stream.Put(d, []byte(d))
		}
		m := eventsource.Mapping{Client: stream, StreamARN: arn, Function: f, BatchSize: 2, StopWhenDrained: true}
		if change != nil {
			change(stream, &m)
		}
		must(t, m.Run(t.Context()))
	})
}

func TestRunDrains(t *testing.T) {
	t.Parallel()
	var r recorder
	run(t, r.handle, func(s *eventsource.Stream, _ *eventsource.Mapping) {
		must(t, s.Split(s.Open()[0]))
		s.Put("5", []byte("5"))
	}, numbers(5)...)
	r.are(t, "0 1, 2 3, 4, 5")
}

// TestRunEndsAnInvocationAtItsDeadline: the context of the function ends at the deadline. The
// function may continue, but its answer is ignored.
func TestRunEndsAnInvocationAtItsDeadline(t *testing.T) {
	t.Parallel()
	var r recorder
	var count, late atomic.Int64
	run(t, func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		answer, err := r.handle(ctx, event)
		if count.Add(1) == 1 {
			<-ctx.Done()
			eventsource.Wait(ctx, time.Hour)
			late.Add(1)
		}
		return answer, err
	}, func(_ *eventsource.Stream, m *eventsource.Mapping) { m.Timeout = time.Minute }, "0")
	r.are(t, "0, 0")
	equal(t, "late effects when Run has ended", late.Load(), 1)
}

// TestRunCrash: a goroutine that ends inside the function is a crash.
func TestRunCrash(t *testing.T) {
	t.Parallel()
	var r recorder
	var count atomic.Int64
	run(t, func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		answer, err := r.handle(ctx, event)
		if count.Add(1) == 1 {
			runtime.Goexit()
		}
		return answer, err
	}, nil, "0")
	r.are(t, "0, 0")
}

// TestStopsWithItsContext checks that a mapping without StopWhenDrained continues until its context ends.
func TestStopsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := eventsource.NewStream(2, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		var r recorder
		ended := make(chan error)
		go func() { ended <- eventsource.Mapping{Client: stream, StreamARN: arn, Function: r.handle}.Run(ctx) }()
		time.Sleep(time.Minute)
		stream.Put("a", []byte("a"))
		time.Sleep(time.Minute)
		stream.Put("b", []byte("b"))
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("want the context's error, got %v", err)
		}
		r.are(t, "a, b")
	})
}

// TestStopsDuringRetries: the end of the context discards no records.
func TestStopsDuringRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := eventsource.NewStream(1, time.Now)
		stream.Put("a", []byte("a"))
		ctx, cancel := context.WithCancel(t.Context())
		err := eventsource.Mapping{
			Client: stream, StreamARN: arn, Retries: new(0),
			Function: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
				cancel()
				return nil, ctx.Err()
			},
			OnFailure: func(context.Context, eventsource.Discard) error {
				t.Error("given up")
				return nil
			},
		}.Run(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("want the context's error, got %v", err)
		}
	})
}

// TestWithoutACheckpointEachRunStartsAnew: with a checkpoint it resumes.
func TestWithoutACheckpointEachRunStartsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := eventsource.NewStream(1, time.Now)
		stream.Put("a", []byte("a"))
		var r recorder
		m := eventsource.Mapping{Client: stream, StreamARN: arn, Function: r.handle, StopWhenDrained: true}
		must(t, m.Run(t.Context()))
		must(t, m.Run(t.Context()))
		m.Checkpoint = new(eventsource.Checkpoint)
		must(t, m.Run(t.Context()))
		must(t, m.Run(t.Context()))
		r.are(t, "a, a, a")
	})
}

// scripted is a stream with one shard on each page of the list. Its GetRecords answers as the
// script says.
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
	if len(s.shards) == 0 {
		return nil, errBroken
	}
	out := &kinesis.ListShardsOutput{Shards: []types.Shard{{ShardId: &s.shards[page]}}}
	if page+1 < len(s.shards) {
		out.NextToken = &s.shards[page+1]
	}
	return out, nil
}

func (s *scripted) GetShardIterator(_ context.Context, in *kinesis.GetShardIteratorInput, _ ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error) {
	s.begins = append(s.begins, *in)
	if *in.ShardId == "shard-broken" {
		return nil, errBroken
	}
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
		out.Records = append(out.Records, types.Record{SequenceNumber: &n, Data: []byte(n), ApproximateArrivalTimestamp: aws.Time(start)})
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
	return eventsource.Mapping{
		Client: s, StreamARN: arn, Function: f, StopWhenDrained: true, PollPause: time.Microsecond,
	}.Run(t.Context())
}

// TestReadsOn: reading continues after reads without records, throttles and an expired iterator. No
// record is lost or repeated.
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
	r.are(t, "8 9, 10")
	var begins []string
	for _, in := range s.begins {
		begins = append(begins, fmt.Sprint(in.ShardIteratorType, " ", aws.ToString(in.StartingSequenceNumber)))
	}
	equal(t, "begins", strings.Join(begins, ", "), "TRIM_HORIZON , TRIM_HORIZON , AFTER_SEQUENCE_NUMBER 9")
}

// TestListsAllPagesOfShards has closed and empty shards.
func TestListsAllPagesOfShards(t *testing.T) {
	t.Parallel()
	end := found(0, false)
	s := &scripted{shards: []string{"shard-0", "shard-1", "shard-2"}, script: []func() (*kinesis.GetRecordsOutput, error){end, end, end}}
	must(t, s.run(t, nil))
	equal(t, "shards read", len(s.begins), 3)
}

// TestAStreamThatCannotBeRead: the error names the stream and the shard.
func TestAStreamThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*scripted{
		"records":  {shards: []string{"shard-0"}, script: []func() (*kinesis.GetRecordsOutput, error){refused(errBroken)}},
		"iterator": {shards: []string{"shard-broken"}},
		"shards":   {},
	} {
		if err := s.run(t, nil); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "clicks") {
			t.Errorf("%s: want the failure and where it was, got %v", name, err)
		}
	}
}
