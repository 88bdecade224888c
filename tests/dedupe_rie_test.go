package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/testkit/emftest"
	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// hostDedupe is the dedupe function for this machine.
var hostDedupe = sync.OnceValues(func() (string, error) { return buildFunction("dedupe", goarch()) })

// hostDedupeFull is the dedupe function with all clients for this machine.
var hostDedupeFull = sync.OnceValues(func() (string, error) { return buildFunction("dedupe-full", goarch()) })

// startDedupe starts the dedupe function in a new emulator, with the sink and the dead-letter store of a bench. A
// variable in env overrides the bench's.
func startDedupe(t *testing.T, env ...string) *dedupeBench {
	t.Helper()
	return startDedupeOf(t, hostDedupe, env...)
}

func startDedupeOf(t *testing.T, build func() (string, error), env ...string) *dedupeBench {
	t.Helper()
	bootstrap, err := build()
	must(t, err)
	b := &dedupeBench{dir: t.TempDir()}
	f := launch(t, bootstrap, b.dir, slices.Concat(b.settings(), env)...)
	b.function, b.log = f, f.output
	b.invoke = func(t *testing.T, event []byte) (events.KinesisEventResponse, error) {
		t.Helper()
		_, reply := f.invoke(t, event)
		return answerOf(t, reply)
	}
	return b
}

// answerOf reads a reply. The reply of a failed invocation becomes an error.
func answerOf(t *testing.T, reply []byte) (events.KinesisEventResponse, error) {
	t.Helper()
	var r struct {
		events.KinesisEventResponse
		ErrorMessage string `json:"errorMessage"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		t.Fatalf("the function failed: %s", reply)
	}
	for _, fault := range []error{
		recordhandler.ErrNotKinesis, recordhandler.ErrManyShards, recordhandler.ErrConsumer, recordhandler.ErrLoop,
		recordhandler.ErrNoProgress, dedupe.ErrNotABatch, dedupe.ErrSharedSequence,
	} {
		if strings.HasPrefix(r.ErrorMessage, fault.Error()) {
			return r.KinesisEventResponse, fault
		}
	}
	if r.ErrorMessage != "" {
		return r.KinesisEventResponse, errors.New(r.ErrorMessage)
	}
	return r.KinesisEventResponse, nil
}

// onDynoxide returns the variables of the function for a new table.
func onDynoxide(t *testing.T) []string {
	t.Helper()
	endpoint, own := testengine.Dynoxide(t), newTables()
	own.create(t, endpoint)
	return []string{"AWS_ENDPOINT_URL_DYNAMODB=" + endpoint, "ONCEBOX_DEDUPE_TABLE=" + own.dedupe}
}

// fails sends an event to the function. The function must report the record with the number as the first failed one,
// or fail if that record is the first of several. It returns the log line of the batch.
func (b *dedupeBench) fails(t *testing.T, event []byte, record int) string {
	t.Helper()
	answer, err := b.invoke(t, event)
	var e events.KinesisEvent
	must(t, json.Unmarshal(event, &e))
	if record == 0 && len(e.Records) > 1 {
		equal(t, "error", err, recordhandler.ErrNoProgress)
	} else {
		must(t, err)
		if len(answer.BatchItemFailures) != 1 {
			t.Fatalf("the answer is %+v", answer)
		}
		equal(t, "failed record", answer.BatchItemFailures[0].ItemIdentifier, e.Records[record].Kinesis.SequenceNumber)
	}
	last := ""
	for line := range strings.Lines(b.log(t)) { // the runtime also writes a line about a failed invocation
		if strings.Contains(line, `"msg":"batch"`) {
			last = line
		}
	}
	if !strings.Contains(last, `"level":"ERROR"`) || !strings.Contains(last, e.Records[record].Kinesis.SequenceNumber) {
		t.Errorf("the log does not name the failed record: %s", last)
	}
	return last
}

// TestDedupeEventsInTheEmulator gives every event to the built function on dynoxide, twice.
func TestDedupeEventsInTheEmulator(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	b := startDedupe(t, append(onDynoxide(t), "ONCEBOX_METRICS=on")...)
	invocations := 0
	for name, want := range dedupeCases {
		b.check(t, name, want)
		invocations++
		if want.fault == nil {
			b.check(t, name, redelivered(want))
			invocations++
		}
	}
	log := b.log(t)
	equal(t, "log lines of batches", strings.Count(log, `"msg":"batch","version":"$LATEST"`), invocations)
	for _, private := range []string{"order-1", "natural-1", "/home", "/cart"} {
		if strings.Contains(log, private) {
			t.Errorf("the log holds %s:\n%s", private, log)
		}
	}
	checkMetrics(t, log)
}

// checkMetrics compares the metrics in the lines of batches with the other members of the lines.
func checkMetrics(t *testing.T, log string) {
	t.Helper()
	metrics, members := 0., 0.
	for line := range strings.Lines(log) {
		var batch struct {
			Msg string
			In  float64
		}
		if json.Unmarshal([]byte(line), &batch) != nil || batch.Msg != "batch" {
			continue // the runtime and the emulator write lines, too
		}
		in, _ := emftest.Sum(emftest.Points(t, []byte(line)), "RecordsIn", "")
		metrics, members = metrics+in, members+batch.In
	}
	if metrics != members || metrics == 0 {
		t.Errorf("RecordsIn adds up to %v, and the records in the lines to %v", metrics, members)
	}
}

// TestDedupeWhenTheEngineIsDown uses an endpoint at which nothing listens. The function must
// report the first record as failed, and nothing as a duplicate or poison.
func TestDedupeWhenTheEngineIsDown(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	b := startDedupe(t, "AWS_ENDPOINT_URL_DYNAMODB=http://"+testengine.Address(t), "ONCEBOX_DEDUPE_TABLE=dedupe")
	b.fails(t, readDedupeEvent(t, "natural-duplicates"), 0)
	equal(t, "lines sent", len(b.lines(t)), 0)
	b.fails(t, readDedupeEvent(t, "poison-among-good"), 0)
	// A poison record needs no ledger, but the function does not know yet whether it is the stream's consumer.
	b.fails(t, readDedupeEvent(t, "poison-not-json"), 0)
	equal(t, "dead letters", len(b.deadLetters(t)), 0)
}

// TestDedupeAnswersBeforeTheFunctionTimesOut uses an engine that takes requests and never
// answers. The function must answer before Lambda ends it.
func TestDedupeAnswersBeforeTheFunctionTimesOut(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, but no program reads
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	b := startDedupe(t, "AWS_ENDPOINT_URL_DYNAMODB=http://"+silent.Addr().String(), "ONCEBOX_DEDUPE_TABLE=dedupe",
		"AWS_LAMBDA_FUNCTION_TIMEOUT=2")
	b.invoke = func(t *testing.T, event []byte) (events.KinesisEventResponse, error) {
		return answerOf(t, b.function.answerInTime(t, event))
	}
	b.fails(t, readDedupeEvent(t, "several"), 0)
}

// TestDedupeFaults checks that the function reports the first failed record, that its log
// names the cause, and that the event gets through once the cause is repaired.
func TestDedupeFaults(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	t.Run("no table", func(t *testing.T) {
		t.Parallel()
		b := startDedupe(t, append(onDynoxide(t), "ONCEBOX_DEDUPE_TABLE=missing")...)
		if last := b.fails(t, readDedupeEvent(t, "single"), 0); !strings.Contains(last, "table") {
			t.Errorf("the log does not name the table: %s", last)
		}
	})
	t.Run("no stream", func(t *testing.T) {
		t.Parallel()
		b := startDedupe(t, append(onDynoxide(t), "ONCEBOX_SINK=kinesis:missing", "AWS_ENDPOINT_URL_KINESIS="+testengine.Kinesis(t))...)
		if last := b.fails(t, readDedupeEvent(t, "single"), 0); !strings.Contains(last, "stream") {
			t.Errorf("the log does not name the stream: %s", last)
		}
	})
	t.Run("no dead-letter store", func(t *testing.T) {
		t.Parallel()
		b := startDedupe(t, onDynoxide(t)...)
		b.check(t, "empty-records", dedupeCase{}) // now the function has started and made the folder
		must(t, os.Remove(b.deadLetterStore()))
		b.fails(t, readDedupeEvent(t, "poison-among-good"), 1)
		equal(t, "lines sent", len(b.lines(t)), 1) // the records before the poison record
		must(t, os.Mkdir(b.deadLetterStore(), 0o700))
		b.check(t, "poison-among-good", dedupeCase{
			tally: dedupe.Tally{In: 4, Retry: 2, Natural: 1, DeadLettered: 1}, out: "among-1 among-3",
		})
	})
	t.Run("a loop", func(t *testing.T) {
		t.Parallel()
		b := startDedupe(t, append(onDynoxide(t), "ONCEBOX_SINK=kinesis:clicks")...)
		const home = "us-east-1:012345678912:" // of the function in the emulator
		event := bytes.ReplaceAll(readDedupeEvent(t, "single"), []byte("eu-central-1:123456789012:"), []byte(home))
		if _, err := b.invoke(t, event); !errors.Is(err, recordhandler.ErrLoop) {
			t.Errorf("want %v, got %v", recordhandler.ErrLoop, err)
		}
	})
}

// TestDedupeBadSettingsStopTheStart checks that the function does not start, and that its log
// names every wrong setting but no value.
func TestDedupeBadSettingsStopTheStart(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		want []string
	}{
		"settings": {
			[]string{"ONCEBOX_ID_PATH=", "ONCEBOX_SINK=hunter2", "ONCEBOX_WINDOW=hunter2", "ONCEBOX_TABEL=hunter2", "ONCEBOX_IDS=rename-all"},
			[]string{
				"ONCEBOX_DEDUPE_TABLE is missing", "ONCEBOX_ID_PATH is missing", "ONCEBOX_SINK is not", "ONCEBOX_WINDOW is not",
				"ONCEBOX_TABEL is not", "ONCEBOX_IDS has a policy that reads all records twice",
			},
		},
		"files": {
			[]string{"ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_SINK=ndjson:/nowhere/out", "ONCEBOX_DEAD_LETTERS=dir:/nowhere/bad"},
			[]string{"/nowhere/out", "/nowhere/bad"},
		},
		"no client of Firehose": {
			[]string{"ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_SINK=firehose:unique"},
			[]string{"ONCEBOX_SINK is a firehose: address", "deploy dist/dedupe-full instead of dist/dedupe"},
		},
		"no client of Valkey": {
			[]string{"ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_LEDGER=valkey://cache:6379"},
			[]string{"ONCEBOX_LEDGER is a valkey: address", "deploy dist/dedupe-full instead of dist/dedupe"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startDedupe(t, c.env...)
			_, reply := b.function.invoke(t, readDedupeEvent(t, "single"))
			equal(t, "reply", string(reply), "") // the emulator's answer to a failed start
			log := b.log(t)
			for _, want := range append(c.want, `"level":"ERROR","msg":"the dedupe function cannot start"`, `"error":`) {
				if !strings.Contains(log, want) {
					t.Errorf("the log does not say %q: %s", want, log)
				}
			}
			if strings.Contains(log, "hunter2") {
				t.Errorf("the log repeats a value: %s", log)
			}
		})
	}
}

// TestDedupeToS3 checks that a poison record becomes one whole dead letter in a bucket.
func TestDedupeToS3(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	endpoint := testengine.S3(t, "bad-records")
	b := startDedupe(t, append(onDynoxide(t), "ONCEBOX_DEAD_LETTERS=s3://bad-records/clicks", "AWS_ENDPOINT_URL_S3="+endpoint)...)
	for range 2 {
		answer, err := b.invoke(t, readDedupeEvent(t, "poison-among-good"))
		must(t, err)
		equal(t, "failed records", len(answer.BatchItemFailures), 0)
	}
	client := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	list, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("bad-records"), Prefix: aws.String("clicks/")})
	must(t, err)
	if len(list.Contents) != 1 {
		t.Fatalf("want one object, got %d", len(list.Contents))
	}
	store := deadletter.New(deadletter.NewBucket(client, "bad-records", "clicks/"))
	letter, err := store.Read(t.Context(), strings.TrimPrefix(*list.Contents[0].Key, "clicks/"))
	must(t, err)
	equal(t, "payload", string(letter.Data), `{"id":"among-2"`)
	equal(t, "stream", letter.Position.Stream.Name, "clicks")
}

// stream is a stream of kinesis-mock with one shard.
type stream struct {
	client *kinesis.Client
	name   string
	arn    string
}

var streamCount atomic.Int64

func newStream(t *testing.T) stream {
	t.Helper()
	s := stream{name: fmt.Sprintf("stream-%d", streamCount.Add(1))}
	s.client = kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(testengine.Kinesis(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := s.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &s.name, ShardCount: aws.Int32(1)})
	must(t, err)
	about := &kinesis.DescribeStreamInput{StreamName: &s.name}
	must(t, kinesis.NewStreamExistsWaiter(s.client, func(o *kinesis.StreamExistsWaiterOptions) {
		o.MinDelay = 10 * time.Millisecond
	}).Wait(t.Context(), about, 5*time.Minute))
	out, err := s.client.DescribeStream(t.Context(), about)
	must(t, err)
	s.arn = *out.StreamDescription.StreamARN
	return s
}

func (s stream) put(t *testing.T, payloads ...string) {
	t.Helper()
	in := &kinesis.PutRecordsInput{StreamName: &s.name}
	for _, p := range payloads {
		in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String("pk"), Data: []byte(p)})
	}
	out, err := s.client.PutRecords(t.Context(), in)
	must(t, err)
	equal(t, "refused records", *out.FailedRecordCount, 0)
}

// poll hands all records of the stream to a function, which must not fail.
func (s stream) poll(t *testing.T, f eventsource.Function) {
	t.Helper()
	must(t, eventsource.Mapping{
		Client: s.client, StreamARN: s.arn, Function: f, BatchSize: 7, ReportBatchItemFailures: true,
		Retries: new(0), Timeout: time.Minute, PollPause: time.Millisecond, StopWhenDrained: true,
		OnFailure: func(_ context.Context, d eventsource.Discard) error {
			t.Errorf("%d records from %s on were not delivered: %v", len(d.Records), *d.Records[0].SequenceNumber, d.Err)
			return nil
		},
	}.Run(t.Context()))
}

// payloads returns the payloads of all records of the stream.
func (s stream) payloads(t *testing.T) (payloads []string) {
	t.Helper()
	s.poll(t, func(_ context.Context, event json.RawMessage) (json.RawMessage, error) {
		var e events.KinesisEvent
		err := json.Unmarshal(event, &e)
		for _, r := range e.Records {
			payloads = append(payloads, string(r.Kinesis.Data))
		}
		return nil, err
	})
	return payloads
}

// TestDedupeFromStreamToStream reads a stream of 40 records, natural duplicates, aggregates
// and a poison record. The built function delivers to another stream.
func TestDedupeFromStreamToStream(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	source, sink := newStream(t), newStream(t)
	b := startDedupe(t, append(onDynoxide(t), "ONCEBOX_SINK=kinesis:"+sink.name, "ONCEBOX_ACKS=",
		"AWS_ENDPOINT_URL_KINESIS="+testengine.Kinesis(t))...)
	var want []string
	for i := range 40 {
		payload := fmt.Sprintf(`{"id":"e%d"}`, i)
		want = append(want, payload)
		source.put(t, payload, fmt.Sprintf(`{"id":"e%d"}`, i/2), aggregate(payload, payload))
	}
	source.put(t, "poison")
	deliver := eventsource.Handler(func(_ context.Context, event json.RawMessage) (events.KinesisEventResponse, error) {
		return b.invoke(t, event)
	})
	source.poll(t, deliver)
	equal(t, "records in the sink", strings.Join(sink.payloads(t), " "), strings.Join(want, " "))
	equal(t, "dead letters", len(b.deadLetters(t)), 1)

	// When everything is delivered again, the sink gets nothing more.
	source.poll(t, deliver)
	equal(t, "records in the sink", strings.Join(sink.payloads(t), " "), strings.Join(want, " "))
	equal(t, "dead letters", len(b.deadLetters(t)), 1)
}

func aggregate(payloads ...string) string {
	var e kpl.Encoder
	for _, p := range payloads {
		e.Add(kpl.UserRecord{PartitionKey: []byte("pk"), Data: []byte(p)})
	}
	return string(e.Bytes())
}
