package sqssink_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/sqssink"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	standard = "https://sqs.eu-west-1.amazonaws.com/123456789012/clicks"
	fifo     = standard + ".fifo"
)

// queue passes requests on to a backend, and adds faults.
type queue struct {
	backend sqssink.API // nil: every message is taken
	// result returns the code of a message that fails, and whether the sender is at fault; "" is taken.
	result func(request int, m types.SendMessageBatchRequestEntry) (code string, sender bool)

	mu       sync.Mutex
	requests [][]types.SendMessageBatchRequestEntry
}

func (q *queue) SendMessageBatch(
	ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options),
) (*sqs.SendMessageBatchOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests = append(q.requests, in.Entries)
	out := &sqs.SendMessageBatchOutput{}
	var passed []types.SendMessageBatchRequestEntry
	for _, m := range in.Entries {
		code, sender := "", false
		if q.result != nil {
			code, sender = q.result(len(q.requests), m)
		}
		if code == "" {
			passed = append(passed, m)
			continue
		}
		out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: m.Id, Code: &code, SenderFault: sender})
	}
	if q.backend == nil {
		for _, m := range slices.Backward(passed) { // in no particular order
			out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: m.Id})
		}
		return out, nil
	}
	if len(passed) > 0 {
		in.Entries = passed
		answer, err := q.backend.SendMessageBatch(ctx, in, options...)
		if err != nil {
			return nil, err
		}
		out.Successful, out.Failed = answer.Successful, append(out.Failed, answer.Failed...)
	}
	return out, nil
}

func newSink(t *testing.T, client sqssink.API, url string, options ...sqssink.Option) *sqssink.Sink {
	t.Helper()
	sink, err := sqssink.New(client, url, options...)
	must(t, err)
	sink.SetWait(func(ctx context.Context, _ int) error { return ctx.Err() })
	return sink
}

// server makes a queue of the SQS emulator.
func server(t *testing.T, name string) (client *sqs.Client, url string) {
	t.Helper()
	testengine.CheckOnly(t)
	client = sqs.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(testengine.SQS(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	attributes := map[string]string{}
	if strings.HasSuffix(name, ".fifo") {
		attributes["FifoQueue"] = "true"
	}
	made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	must(t, err)
	return client, *made.QueueUrl
}

// receive returns the messages of a queue in the order of their delivery.
func receive(t *testing.T, client *sqs.Client, url string) (all []types.Message) {
	t.Helper()
	for {
		got, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, VisibilityTimeout: 600,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		})
		must(t, err)
		if len(got.Messages) == 0 {
			return all
		}
		for _, m := range got.Messages { // the messages of a group come only when those before are deleted
			_, err := client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
			must(t, err)
		}
		all = append(all, got.Messages...)
	}
}

// TestQueues: a reader of the queue gets each record once and unchanged, and the records of a group in order, even if
// requests fail halfway.
func TestQueues(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"standard", "ordered.fifo"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := server(t, name)
			q := &queue{backend: client}
			q.result = func(request int, m types.SendMessageBatchRequestEntry) (string, bool) {
				if request%3 == 1 && *m.Id == "0" {
					return "InternalError", false
				}
				return "", false
			}
			var outputs []dedupe.Output
			for i := range 123 {
				outputs = append(outputs, dedupe.Output{
					ID: fmt.Sprint("id ", i), PartitionKey: fmt.Sprint("key ", i%23), Data: fmt.Appendf(nil, `{"n":"%03d\u20ac<é"}`, i),
				})
			}
			sent, err := newSink(t, q, url).Send(t.Context(), outputs)
			if err != nil || slices.Contains(sent.Delivered, false) {
				t.Fatalf("%+v: %v", sent, err)
			}
			messages := receive(t, client, url)
			last, bodies := map[string]string{}, map[string]bool{}
			for _, m := range messages {
				group := m.Attributes["MessageGroupId"]
				if group != "" && last[group] > *m.Body {
					t.Errorf("%s: %s comes after %s", group, *m.Body, last[group])
				}
				last[group], bodies[*m.Body] = *m.Body, true
			}
			for _, o := range outputs {
				if !bodies[string(o.Data)] {
					t.Errorf("%s is missing or changed", o.Data)
				}
			}
			if len(messages) != len(outputs) || (len(last) == 23) != sqssink.IsFIFO(name) {
				t.Errorf("%d messages in %d groups", len(messages), len(last))
			}
		})
	}
}

// TestFIFODropsRepeats: a message that comes again with the same id within five minutes is not in the queue twice.
func TestFIFODropsRepeats(t *testing.T) {
	t.Parallel()
	client, url := server(t, "repeats.fifo")
	outputs := []dedupe.Output{
		{ID: "a", PartitionKey: "k", Data: []byte("1")}, {ID: strings.Repeat("long", 40), PartitionKey: "k", Data: []byte("2")},
	}
	for range 2 {
		_, err := newSink(t, client, url).Send(t.Context(), outputs)
		must(t, err)
	}
	if got := receive(t, client, url); len(got) != 2 || *got[0].Body != "1" || *got[1].Body != "2" {
		t.Errorf("%d messages in the queue", len(got))
	}
}

// TestMessages: the body, the deduplication id and the group of a message.
func TestMessages(t *testing.T) {
	t.Parallel()
	const hashOfSpace = "sha256:36a9e7f1c95b82ffb99743e0c5c4ce95d83c9a430aac59f84ef3cbfab6145068"
	long := strings.Repeat("x", 128)
	for name, test := range map[string]struct {
		output    dedupe.Output
		id, group string
	}{
		"plain":           {dedupe.Output{ID: "id-1", PartitionKey: "k!~", Data: []byte("x")}, "id-1", "k!~"},
		"longest":         {dedupe.Output{ID: long, PartitionKey: long, Data: []byte("x")}, long, long},
		"too long":        {dedupe.Output{ID: long + "x", PartitionKey: "k", Data: []byte("x")}, "sha256:" + hashOfLong, "k"},
		"not allowed":     {dedupe.Output{ID: " ", PartitionKey: " ", Data: []byte("x")}, hashOfSpace, hashOfSpace},
		"looks like ours": {dedupe.Output{ID: hashOfSpace, PartitionKey: "k", Data: []byte("x")}, "sha256:" + hashOfHash, "k"},
		"no key":          {dedupe.Output{ID: "id-1", Data: []byte("x")}, "id-1", "id-1"},
	} {
		q := &queue{}
		_, err := newSink(t, q, fifo).Send(t.Context(), []dedupe.Output{test.output})
		must(t, err)
		if m := q.requests[0][0]; *m.MessageDeduplicationId != test.id || *m.MessageGroupId != test.group {
			t.Errorf("%s: deduplication id %q, group %q", name, *m.MessageDeduplicationId, *m.MessageGroupId)
		}
	}
	q := &queue{}
	data := []byte{0xff, 0, 'a'}
	sink := newSink(t, q, standard, sqssink.WithEncoding(sqssink.EncodingBase64))
	must(t, sink.Check(t.Context(), dedupe.Output{ID: "id", Data: data}))
	_, err := sink.Send(t.Context(), []dedupe.Output{{ID: "id", PartitionKey: "k", Data: data}})
	must(t, err)
	if m := q.requests[0][0]; m.MessageDeduplicationId != nil || m.MessageGroupId != nil ||
		*m.MessageBody != base64.StdEncoding.EncodeToString(data) {
		t.Errorf("to a standard queue: %+v", m)
	}
}

// The SHA-256 of 129 times x, and of the text of a hash: sha256sum gives them.
const (
	hashOfLong = "0ec9eb33e74510bcdd1f2ea55206e82f21649c5c2becbf2b433eb475b34c01bd"
	hashOfHash = "4b50f0d5cc14029fdedbdcdc2a267ff27297c4d1a1bc761d47763aab2e75eaaa"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	text := newSink(t, &queue{}, standard)
	small := newSink(t, &queue{}, standard, sqssink.WithMaxRecord(1024))
	binary := newSink(t, &queue{}, standard, sqssink.WithEncoding(sqssink.EncodingBase64))
	for name, test := range map[string]struct {
		sink   *sqssink.Sink
		data   string
		reason string // "" for a good record
	}{
		"largest":               {text, strings.Repeat("x", sqssink.LargestRecord), ""},
		"too large":             {text, strings.Repeat("x", sqssink.LargestRecord+1), "too large"},
		"too large for a queue": {small, strings.Repeat("x", 1025), "too large"},
		"largest in base64":     {binary, strings.Repeat("x", 786_432), ""},
		"too large in base64":   {binary, strings.Repeat("x", 786_433), "too large"},
		"empty":                 {text, "", "empty"},
		"empty in base64":       {binary, "", "empty"},
		"allowed":               {text, "\t\n\r ~\x7f\u0080\ud7ff\ue000\ufffd\U00010000\U0010ffff", ""},
		"zero":                  {text, "a\x00", "bytes"},
		"escape":                {text, "\x1b[0m", "bytes"},
		"not a character":       {text, "a\ufffe", "bytes"},
		"not a character, too":  {text, "\uffff", "bytes"},
		"Latin-1":               {text, "caf\xe9", "bytes"},
		"a surrogate":           {text, "\xed\xa0\x80", "bytes"},
		"binary":                {binary, "a\x00\xff", ""},
	} {
		err := test.sink.Check(t.Context(), dedupe.Output{ID: "id", Data: []byte(test.data)})
		poison, ok := errors.AsType[*dedupe.PoisonError](err)
		if good := test.reason == ""; good != (err == nil) || !good && (!ok || !strings.Contains(poison.Reason, test.reason)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewChecksItsSettings(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "clicks", "https://sqs.eu-west-1.amazonaws.com/", "arn:aws:sqs:eu-west-1:123456789012:clicks"} {
		if _, err := sqssink.New(&queue{}, url); err == nil {
			t.Errorf("queue %q was accepted", url)
		}
	}
	for _, option := range []sqssink.Option{
		sqssink.WithMaxRecord(0), sqssink.WithMaxRecord(sqssink.LargestRecord + 1), sqssink.WithEncoding("hex"),
	} {
		if _, err := sqssink.New(&queue{}, standard, option); err == nil {
			t.Error("a wrong option was accepted")
		}
	}
}

// TestLimits: a request has at most 10 messages and 1 MiB.
func TestLimits(t *testing.T) {
	t.Parallel()
	q := &queue{}
	outputs := make([]dedupe.Output, 25)
	for i := range outputs {
		outputs[i] = dedupe.Output{ID: fmt.Sprint(i), Data: []byte("x")}
	}
	outputs[3].Data = make([]byte, sqssink.LargestRecord)
	_, err := newSink(t, q, standard).Send(t.Context(), outputs)
	must(t, err)
	var sizes []int
	for _, r := range q.requests {
		sizes = append(sizes, len(r))
	}
	if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 1, 3, 10, 10}) {
		t.Errorf("requests of %v messages", sizes)
	}
}

// TestResults: a message is sent again if it was refused for now or if it may be in the queue. In the second case its
// copies are counted.
func TestResults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code            string
		sender          bool
		tries, repeated int
		advice          string
	}{
		{"InternalError", false, 2, 1, ""},
		{"ServiceUnavailable", false, 2, 1, ""},
		{"RequestThrottled", true, 2, 0, ""},
		{"InvalidParameterValue", true, 1, 0, "MaximumMessageSize"},
		{"InvalidMessageContents", true, 1, 0, ""},
	} {
		q := &queue{}
		q.result = func(request int, m types.SendMessageBatchRequestEntry) (string, bool) {
			if request == 1 && *m.MessageBody == "b" {
				return test.code, test.sender
			}
			return "", false
		}
		sent, err := newSink(t, q, fifo).Send(t.Context(), []dedupe.Output{
			{ID: "a", Data: []byte("a")}, {ID: "b", Data: []byte("b")}, {ID: "c", Data: []byte("c")},
		})
		if len(q.requests) != test.tries || sent.Repeated != test.repeated || sent.Delivered[1] != (test.tries == 2) ||
			(err == nil) != sent.Delivered[1] || !sent.Delivered[0] || !sent.Delivered[2] {
			t.Errorf("%s: %d requests, %+v: %v", test.code, len(q.requests), sent, err)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "sqs: send messages to "+fifo+": ") || !strings.Contains(err.Error(), test.advice)) {
			t.Errorf("%s: %v", test.code, err)
		}
	}
}

// TestMissingResult: a message without a result may be in the queue.
func TestMissingResult(t *testing.T) {
	t.Parallel()
	sent, err := newSink(t, silent{}, standard).Send(t.Context(), []dedupe.Output{{ID: "a", Data: []byte("a")}})
	if sent.Delivered[0] || sent.Repeated == 0 || !errors.Is(err, dedupe.ErrTryAgain) {
		t.Errorf("%+v: %v", sent, err)
	}
}

// silent answers without results. It adds results for messages that it did not get.
type silent struct{}

func (silent) SendMessageBatch(
	context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options),
) (*sqs.SendMessageBatchOutput, error) {
	return &sqs.SendMessageBatchOutput{Successful: []types.SendMessageBatchResultEntry{
		{Id: aws.String("7")}, {Id: aws.String("-1")}, {Id: aws.String("x")}, {},
	}}, nil
}

func TestNewClient(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_SQS", server.URL)
	client, err := sqssink.NewClient(t.Context(), sdkconfig.Load)
	must(t, err)
	if n := client.Options().Retryer.MaxAttempts(); n != 1 {
		t.Errorf("the client tries %d times by itself", n)
	}
	_, err = newSink(t, client, standard).Send(t.Context(), []dedupe.Output{{ID: "a", Data: []byte("a")}})
	if _, ok := errors.AsType[*types.QueueDoesNotExist](err); !ok || !strings.Contains(err.Error(), "check its URL") {
		t.Errorf("want the error of the endpoint, got %v", err)
	}
}
