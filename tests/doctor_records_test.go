package tests

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"

	"github.com/oncebox/oncebox/internal/cli/doctor"
	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/lambdatest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	ledger "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
)

// queue is an SQS queue. It keeps messages that were received and not deleted.
type queue struct {
	mu       sync.Mutex
	messages []queued
	taken    bool // another program receives all messages
}

type queued struct{ MessageId, ReceiptHandle, Body, MD5OfBody string }

func (q *queue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var in struct{ MessageBody, ReceiptHandle string }
	_ = json.NewDecoder(r.Body).Decode(&in) // an empty request receives
	var out any = map[string]string{}
	switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation {
	case "SendMessage":
		sum, id := md5.Sum([]byte(in.MessageBody)), strconv.Itoa(len(q.messages))
		m := queued{id, id, in.MessageBody, hex.EncodeToString(sum[:])}
		q.messages = append(q.messages, m)
		out = map[string]string{"MessageId": id, "MD5OfMessageBody": m.MD5OfBody}
	case "ReceiveMessage":
		if out = map[string]any{"Messages": q.messages}; q.taken {
			out = map[string]any{}
		}
	case "DeleteMessage":
		q.messages = slices.DeleteFunc(q.messages, func(m queued) bool { return m.ReceiptHandle == in.ReceiptHandle })
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}

// deployedRecords is a dedupe function between two streams, with all its parts, and a running mapping.
type deployedRecords struct {
	aws      *cloud
	queue    *queue
	play     doctor.RecordsPlay
	bucket   *s3.Client
	prefix   string
	function *dedupeBench
	mapping  *lambdatest.Function // as Lambda's API has it
}

// deployRecords starts the function without the permission denied. If denied is the zero value, the function has all
// permissions.
func deployRecords(t *testing.T, denied grant, more ...string) *deployedRecords {
	t.Helper()
	engine, own, source, sink := testengine.Dynoxide(t), newTables(), newStream(t), newStream(t)
	own.create(t, engine)
	d := &deployedRecords{aws: newCloud(t, "dedupe"), queue: &queue{}, prefix: "poison/" + source.name}
	objects := testengine.S3(t, deadLetterBucket)
	d.aws.engines["sqs"], d.aws.engines["s3"], d.aws.engines["kinesis"] = d.queue, proxy(t, objects), withKeptShards(t, sink)
	d.aws.names = map[string]string{
		own.dedupe: "dedupe table", sink.name: "destination stream",
		deadLetterBucket: "dead-letter bucket", notifyQueue: "notifier queue",
	}
	denied.key = strings.Replace(denied.key, "SCOPE", source.name, 1)
	d.aws.deny(denied)
	env := []string{
		"AWS_ENDPOINT_URL=" + d.aws.url, "ONCEBOX_DEDUPE_TABLE=" + own.dedupe, "ONCEBOX_ID_PATH=event.id",
		"ONCEBOX_SINK=kinesis:" + sink.name,
		"ONCEBOX_DEAD_LETTERS=s3://" + deadLetterBucket + "/" + d.prefix + "?notify=" + notifyQueue,
	}
	env = append(env, more...)
	d.function = startDedupe(t, append(env, "ONCEBOX_ACKS=", "AWS_LAMBDA_FUNCTION_NAME=records")...)
	served := d.function.function.served(t, env)
	served.Stream, d.mapping = source.arn, served
	d.runMapping(t, source)
	client := lambdaClient(lambdatest.Serve(t, "oncebox", map[string]*lambdatest.Function{"records": served}))
	found, err := doctor.Find(t.Context(), client, []string{"records"})
	must(t, err)
	keys, queueServer := credentials.NewStaticCredentialsProvider("test", "test", ""), httptest.NewServer(d.queue)
	t.Cleanup(queueServer.Close)
	d.bucket = s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &objects, UsePathStyle: true, Credentials: keys})
	d.play = doctor.RecordsPlay{
		Lambda: client, Function: found[0], Acks: ledger.New(itembankengines.Client(engine, nil), own.dedupe),
		Kinesis: source.client, S3: d.bucket,
		SQS:  sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: &queueServer.URL, Credentials: keys}),
		Wait: 5 * time.Minute, Explain: error.Error,
	}
	return d
}

// withKeptShards answers ListShards with the emulator's reply about a stream from before the test. The function waits 2
// seconds for the list; on a busy machine the emulator takes longer.
func withKeptShards(t *testing.T, s stream) http.Handler {
	t.Helper()
	engine, kept := proxy(t, testengine.Kinesis(t)), (*httptest.ResponseRecorder)(nil)
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation != "ListShards" {
			engine.ServeHTTP(w, r)
			return
		}
		if kept == nil || kept.Code != http.StatusOK {
			kept = httptest.NewRecorder()
			engine.ServeHTTP(kept, r)
		}
		w.Header().Set("Content-Type", kept.Header().Get("Content-Type"))
		w.WriteHeader(kept.Code)
		_, _ = w.Write(kept.Body.Bytes())
	})
	server := httptest.NewServer(answer)
	defer server.Close()
	options := s.client.Options()
	options.BaseEndpoint = &server.URL
	_, err := kinesis.New(options).ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &s.name})
	must(t, err)
	return answer
}

// runMapping delivers the records of the stream to the function until the end of the test.
func (d *deployedRecords) runMapping(t *testing.T, source stream) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	deliver := eventsource.Handler(func(_ context.Context, event json.RawMessage) (events.KinesisEventResponse, error) {
		return d.function.invoke(t, event)
	})
	go func() {
		defer close(ended)
		_ = eventsource.Mapping{ // it ends with the test
			Client: source.client, StreamARN: source.arn, Function: deliver, BatchSize: 7, ReportBatchItemFailures: true,
			Timeout: time.Minute, PollPause: 20 * time.Millisecond, RetryPause: 20 * time.Millisecond,
		}.Run(ctx)
	}()
}

func (d *deployedRecords) run(t *testing.T) *doctor.Report {
	t.Helper()
	report := doctor.NewReport(nil)
	d.readMappings(t)
	must(t, doctor.PlayRecords(t.Context(), d.play, report))
	return report
}

func (d *deployedRecords) readMappings(t *testing.T) {
	t.Helper()
	all, err := doctor.Mappings(t.Context(), d.play.Lambda, d.play.Function)
	must(t, err)
	d.play.Mappings = all
}

// TestDoctorPlaysRecords plays all steps with the built function, twice. It leaves no dead letter and no message.
func TestDoctorPlaysRecords(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployRecords(t, grant{})
	d.queue.messages = []queued{{"a", "a", "not a notification", "7b7ca8a3c8ac5ba2bdb5ba1bf3b9e4a1"}}
	sum := md5.Sum([]byte(d.queue.messages[0].Body))
	d.queue.messages[0].MD5OfBody = hex.EncodeToString(sum[:])
	for range 2 {
		for _, c := range d.run(t).Checks {
			if c.Status != doctor.OK {
				t.Errorf("%s: %s: %s", c.Name, c.Status, c.Detail)
			}
		}
	}
	equal(t, "messages", len(d.queue.messages), 1) // the other one
	equal(t, "dead letters", len(d.letters(t)), 0)
}

// letters returns the keys of the dead letters.
func (d *deployedRecords) letters(t *testing.T) (keys []string) {
	t.Helper()
	list, err := d.bucket.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{
		Bucket: aws.String(deadLetterBucket), Prefix: &d.prefix,
	})
	must(t, err)
	for _, o := range list.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

// TestDoctorOfRecordsIsInterrupted stops a run after each step, beginning with the step that makes a dead letter. It
// must leave no dead letter and no message.
func TestDoctorOfRecordsIsInterrupted(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployRecords(t, grant{})
	d.readMappings(t)
	for _, after := range []string{"records, from the source to their end", "destination", "dead letter"} {
		ctx, interrupt := context.WithCancel(t.Context())
		err := doctor.PlayRecords(ctx, d.play, doctor.NewReport(func(c doctor.Check) {
			if c.Name == after {
				interrupt()
			}
		}))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %q: %v", after, err)
		}
		equal(t, after+": dead letters", len(d.letters(t)), 0)
		equal(t, after+": messages", len(d.queue.messages), 0)
	}
}

// cutPut is the HTTP client of a doctor that is interrupted in its second put, with the poison record. Kinesis still
// gets the put.
type cutPut struct {
	puts      int
	interrupt context.CancelFunc
}

func (c *cutPut) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutRecords") {
		return http.DefaultClient.Do(r)
	}
	if c.puts++; c.puts == 2 {
		c.interrupt()
	}
	response, err := http.DefaultClient.Do(r.Clone(context.WithoutCancel(r.Context())))
	if err == nil && r.Context().Err() != nil {
		_ = response.Body.Close() // the doctor has stopped to wait
		return nil, r.Context().Err()
	}
	return response, err
}

// TestDoctorOfRecordsIsInterruptedInAPut interrupts the put of the poison record. Its dead letter must be deleted, or
// named if the function has not stored it yet.
func TestDoctorOfRecordsIsInterruptedInAPut(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployRecords(t, grant{})
	d.readMappings(t)
	ctx, interrupt := context.WithCancel(t.Context())
	options := d.play.Kinesis.Options()
	options.HTTPClient = &cutPut{interrupt: interrupt}
	d.play.Kinesis = kinesis.New(options)
	report := doctor.NewReport(nil)
	if err := doctor.PlayRecords(ctx, d.play, report); !errors.Is(err, context.Canceled) {
		t.Errorf("want an interruption, got %v", err)
	}
	switch c := stepOf(t, report, "clean-up"); c.Status {
	case doctor.OK:
		equal(t, "dead letters", len(d.letters(t)), 0)
	case doctor.Warning:
		if !strings.Contains(c.Detail, "s3://"+deadLetterBucket+"/") {
			t.Errorf("the clean-up does not name the dead letter: %s", c.Detail)
		}
	default:
		t.Errorf("the clean-up: %s: %s", c.Status, c.Detail)
	}
}

// lostPut is an HTTP client that loses the reply to the second put, with the poison record.
type lostPut struct{ puts int }

func (l *lostPut) Do(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultClient.Do(r)
	if err != nil || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutRecords") {
		return response, err
	}
	if l.puts++; l.puts == 2 {
		_ = response.Body.Close() // nobody reads it
		return nil, errors.New("the connection was reset")
	}
	return response, nil
}

// TestDoctorOfALostPut loses the reply to the put of the poison record, so that its position is not known. The dead
// letter must be found and deleted, and no other one.
func TestDoctorOfALostPut(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployRecords(t, grant{})
	other := d.prefix + "/zz" // below all names, and no letter
	_, err := d.bucket.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(deadLetterBucket), Key: &other, Body: strings.NewReader("{}"),
	})
	must(t, err)
	options, lost := d.play.Kinesis.Options(), &lostPut{}
	options.HTTPClient = lost
	d.play.Kinesis = kinesis.New(options)
	report := d.run(t)
	equal(t, "scratch records", stepOf(t, report, "scratch records").Status, doctor.Failure)
	equal(t, "clean-up", stepOf(t, report, "clean-up").Status, doctor.OK)
	equal(t, "puts", lost.puts, 2)
	equal(t, "dead letters", strings.Join(d.letters(t), " "), other)
	equal(t, "messages", len(d.queue.messages), 0)
}

// TestDoctorCleansUpAfterAFailure checks that a step that fails before the dead letter's step leaves no dead letter.
// The report names everything that cannot be deleted.
func TestDoctorCleansUpAfterAFailure(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployRecords(t, grant{})
	refused := "GetObject"
	d.play.S3 = s3.New(d.bucket.Options(), func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			if stack.ID() != refused {
				return nil
			}
			return errors.New("refused")
		})
	})
	report := d.run(t)
	equal(t, "dead letter", stepOf(t, report, "dead letter").Status, doctor.Failure)
	equal(t, "clean-up", stepOf(t, report, "clean-up").Status, doctor.OK)
	equal(t, "dead letters", len(d.letters(t)), 0)
	equal(t, "messages", len(d.queue.messages), 0)

	refused = "DeleteObject"
	c, left := stepOf(t, d.run(t), "clean-up"), d.letters(t)
	equal(t, "dead letters", len(left), 1)
	if c.Status != doctor.Failure || !strings.Contains(c.Detail, "s3://"+deadLetterBucket+"/"+left[0]+" may stay") {
		t.Errorf("the clean-up does not name %s: %s: %s", left[0], c.Status, c.Detail)
	}
}

// TestDoctorNeedsEachPermissionOfRecords removes each permission that a step says it proves, as
// TestDoctorNeedsEachPermission does. Each function is new, because a container needs some permissions only once.
func TestDoctorNeedsEachPermissionOfRecords(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for name, c := range map[string]struct {
		settings []string
		rows     string // the section of docs/iam.md whose rows are all proved; "": some of withKeys are not needed
	}{
		"keys":                      {[]string{"ONCEBOX_LEDGER=keys"}, withKeys},
		"log":                       {[]string{"ONCEBOX_LEDGER=log"}, withLog},
		"synthetic duplicates pass": {[]string{"ONCEBOX_SYNTHETIC=off"}, ""},
		"derived ids":               {[]string{"ONCEBOX_IDS=derived"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proved := map[doctor.Permission]bool{}
			for _, c := range deployRecords(t, grant{}, c.settings...).run(t).Checks {
				equal(t, c.Name+": "+c.Detail, c.Status, doctor.OK) // else nothing would be needed
				for _, p := range c.Proves {
					proved[p] = p.Function == string(doctor.Dedupe) // the others are of Lambda itself
				}
			}
			if c.rows != "" {
				checkAllRows(t, proved, "dedupe", "Always", fromStream, c.rows, toStream, withAcks)
			}
			for p, own := range proved {
				if own {
					t.Run(p.String(), func(t *testing.T) { t.Parallel(); playRecordsWithout(t, p, c.settings) })
				}
			}
			t.Logf("%d permissions", len(proved))
		})
	}
}

func playRecordsWithout(t *testing.T, p doctor.Permission, settings []string) {
	t.Helper()
	g := grantOf(t, p)
	g.key = strings.Replace(g.key, "clicks", "SCOPE", 1)
	d := deployRecords(t, g, settings...)
	d.play.Wait = 3 * time.Second // most permissions stop the records: a longer time would change nothing
	report := d.run(t)
	if !slices.ContainsFunc(report.Checks, func(c doctor.Check) bool {
		return slices.Contains(c.Proves, p) && (c.Status == doctor.Failure || c.Status == doctor.Warning)
	}) {
		// On a busy machine the records may not have reached the step that needs it.
		report = deployRecords(t, g, settings...).run(t)
	}
	checkDenied(t, p, report)
}

// TestDoctorSaysWhatWasDelivered checks the report's text about the copy and about the record with the same id. The
// text depends on the settings.
func TestDoctorSaysWhatWasDelivered(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for setting, want := range map[string]string{
		"ONCEBOX_SYNTHETIC=on":  "the copy was dropped, the other record with its id has a new id",
		"ONCEBOX_SYNTHETIC=off": "the copy was dropped, the other record with its id has kept it (ONCEBOX_SYNTHETIC is off)",
		"ONCEBOX_NATURAL=off":   "the copy was delivered (ONCEBOX_NATURAL is off), the other record with its id has a new id",
		"ONCEBOX_IDS=derived":   "the copy was dropped, each record has a derived id (ONCEBOX_IDS is derived)",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			c := stepOf(t, deployRecords(t, grant{}, setting).run(t), "destination")
			equal(t, "status", c.Status, doctor.OK)
			if !strings.HasSuffix(c.Detail, ": "+want) {
				t.Errorf("want %q, got %q", want, c.Detail)
			}
		})
	}
}

// TestDoctorWaitsForTheBatchingWindow checks that the doctor waits while Lambda gathers a batch, for any --wait.
func TestDoctorWaitsForTheBatchingWindow(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployRecords(t, grant{})
	d.mapping.Window, d.play.Wait = 300, 0
	equal(t, "failures", d.run(t).Count(doctor.Failure), 0)
	d.mapping.Window = 0
	d.aws.deny(grant{function: "dedupe", action: "kinesis:PutRecords", resource: "destination stream"}) // it cannot end
	c := stepOf(t, d.run(t), "records, from the source to their end")
	equal(t, "status without a window", c.Status, doctor.Failure)
	if !strings.Contains(c.Detail, "within 0s (--wait)") {
		t.Errorf("the step does not say how long it waited: %s", c.Detail)
	}
}

// hardKinesis forwards requests to Kinesis. Iterators from before a put have expired when the records are delivered.
// The first reads are throttled once more than the SDK tries.
type hardKinesis struct {
	mu        sync.Mutex
	old       []string
	throttled int
	engine    http.Handler
}

func (k *hardKinesis) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	fail := func(code string) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": code, "message": code})
	}
	answered := httptest.NewRecorder()
	var in, out struct{ ShardIterator string }
	switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); operation {
	case "PutRecords":
		k.old = append(k.old, "")
	case "GetShardIterator":
		k.engine.ServeHTTP(answered, r)
		_ = json.Unmarshal(answered.Body.Bytes(), &out)
		k.old = append(k.old, out.ShardIterator)
		w.Header().Set("Content-Type", answered.Header().Get("Content-Type"))
		_, _ = w.Write(answered.Body.Bytes())
		return
	case "GetRecords":
		_ = json.Unmarshal(body, &in)
		i, put := slices.Index(k.old, in.ShardIterator), slices.Index(k.old, "")
		if i >= 0 && i < put {
			fail("ExpiredIteratorException")
			return
		}
		const attempts = 3 // of the SDK
		if k.throttled++; k.throttled <= attempts+1 {
			fail("ProvisionedThroughputExceededException")
			return
		}
	}
	k.engine.ServeHTTP(w, r)
}

// TestDoctorReadsABusyDestination checks that slow acks and throttled reads do not fail a run.
func TestDoctorReadsABusyDestination(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployRecords(t, grant{})
	server := httptest.NewServer(&hardKinesis{engine: proxy(t, testengine.Kinesis(t))})
	t.Cleanup(server.Close)
	options := d.play.Kinesis.Options()
	options.BaseEndpoint = &server.URL
	d.play.Kinesis = kinesis.New(options)
	c := stepOf(t, d.run(t), "destination")
	equal(t, c.Detail, c.Status, doctor.OK)
}

// TestDoctorSharesTheNotifierQueue checks that a run does not fail because another program receives from the queue.
func TestDoctorSharesTheNotifierQueue(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	d := deployRecords(t, grant{})
	d.queue.taken = true
	report := d.run(t)
	equal(t, "failures", report.Count(doctor.Failure), 0)
	c := stepOf(t, report, "notification")
	equal(t, "notification", c.Status, doctor.Warning)
	if !strings.HasPrefix(c.Detail, "not proved: ") || !strings.Contains(c.Do, "sqs:SendMessage") {
		t.Errorf("the step says %q, %q", c.Detail, c.Do)
	}
}

// TestDoctorLeavesSomeSourcesAlone checks that the doctor puts no record into a stream if that could stop a shard, or
// leave dead letters.
func TestDoctorLeavesSomeSourcesAlone(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for limit, want := range map[string]doctor.Status{
		"10% of 5": doctor.NotPlayed, "50% of 2": doctor.NotPlayed, "10% of 50": doctor.OK, "off": doctor.OK,
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			c := stepOf(t, deployRecords(t, grant{}, "ONCEBOX_POISON_LIMIT="+limit).run(t), "scratch records")
			equal(t, c.Detail, c.Status, want)
		})
	}
	t.Run("another function", func(t *testing.T) {
		t.Parallel()
		d := deployRecords(t, grant{})
		d.play.Others = []string{"archive"}
		c := stepOf(t, d.run(t), "scratch records")
		equal(t, c.Detail, c.Status, doctor.NotPlayed)
	})
}

// stepOf returns a step of a report.
func stepOf(t *testing.T, report *doctor.Report, name string) doctor.Check {
	t.Helper()
	i := slices.IndexFunc(report.Checks, func(c doctor.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no step %q", name)
	}
	return report.Checks[i]
}
