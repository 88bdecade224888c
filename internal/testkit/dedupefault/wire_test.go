package dedupefault

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// service is a service that the function's clients use.
type service int

const (
	ledger service = iota
	sink
	objects
	notifier
	services
)

func (s service) String() string {
	return [...]string{"ledger", "sink", "dead-letter store", "notifier"}[s]
}

// everyAttempt is the number of attempts that the function's clients make for a request.
var everyAttempt = [services]int{ledger: 3, sink: 6, objects: 5, notifier: 2}

// The invocation's context ends during a request. The request may still take effect at any later time.
const (
	cancelBefore faultproxy.Fault = "cancelled, and no effect"
	cancelAfter  faultproxy.Fault = "cancelled, and the effect"
)

// wireFault breaks a request to a service, and a number of requests after it.
type wireFault struct {
	of        service
	at, times int
	fault     faultproxy.Fault
}

func (f wireFault) String() string {
	return fmt.Sprintf("%s at request %d of the %s, %d times", f.fault, f.at, f.of, f.times)
}

// TestFaultsAtTheWire breaks requests between the SDK and the services, in three ways:
//
//   - once, so that the client's retry meets the result of the first attempt;
//   - for all attempts, so that the function's next invocation meets it;
//   - by cancelling the request.
func TestFaultsAtTheWire(t *testing.T) {
	testengine.CheckOnly(t)
	turns := make(chan struct{}, 48)     // many at a time, because clients mostly wait between attempts
	const puts = dynamostore.FullRequest // the scenarios have fewer records
	for _, at := range []struct {
		Engine
		dynamo     func(testing.TB) string
		statements int // from how many entries on
		share      int
	}{
		{Dynoxide, testengine.Dynoxide, puts, 400}, {Dynoxide, testengine.Dynoxide, 1, 400},
		{DynoxideLog, testengine.Dynoxide, puts, 400}, {DynamoDBLocalLog, testengine.DynamoDBLocal, puts, 2000},
	} {
		t.Run(fmt.Sprintf("%s, statements from %d", at.Name, at.statements), func(t *testing.T) {
			w := newWire(t, at.dynamo(t))
			w.statements.From = at.statements
			at.faultsAtTheWire(t, w, shares{at.Name: at.share}.of(at.Engine), turns)
		})
	}
}

func (e Engine) faultsAtTheWire(t *testing.T, w wire, share int, turns chan struct{}) {
	for _, s := range e.scenarios() {
		if s.needsTx() || s.redrives() {
			continue // sinks of other levels have their own tests at the wire, and so has internal/records/redrive
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			e, w := e.Open(t), w.withStream(t, fmt.Sprint("unique-", plays.Add(1)))
			requests, err := w.play(t.Context(), s, e, wireFault{at: -1})
			if err != nil {
				t.Fatalf("without a fault: %v", err)
			}
			search.Some(t, share, wireFaultsOf(requests), turns, func(f wireFault) error {
				_, err := w.play(t.Context(), s, e, f)
				return err
			})
		})
	}
}

func wireFaultsOf(requests [services][]string) (all []wireFault) {
	for of, operations := range requests {
		for at, operation := range operations {
			faults := faultproxy.Of(operation)
			switch service(of) {
			case sink:
				faults = faultproxy.OfKinesis()
			case objects:
				faults = faultproxy.OfS3()
			case notifier:
				faults = faultproxy.OfSQS()
			}
			for _, fault := range faults {
				for _, times := range []int{1, everyAttempt[of]} {
					all = append(all, wireFault{service(of), at, times, fault})
				}
			}
			for _, fault := range []faultproxy.Fault{cancelBefore, cancelAfter} {
				all = append(all, wireFault{service(of), at, 1, fault})
			}
		}
	}
	return all
}

// wire holds the addresses of the services.
type wire struct {
	dynamo, kinesis, s3, sqs, stream string

	statements dynamo.Statements
}

const bucket = "failures"

func newWire(t *testing.T, dynamo string) wire {
	t.Helper()
	return wire{dynamo: dynamo, kinesis: testengine.Kinesis(t), s3: testengine.S3(t, bucket), sqs: testengine.SQS(t)}
}

// withStream creates a stream for the sink. kinesis-mock gets slower with each record in a stream.
func (w wire) withStream(t *testing.T, name string) wire {
	t.Helper()
	w.stream = name
	cfg, err := config(w.kinesis)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := kinesis.NewFromConfig(cfg)
	if _, err := client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &name, ShardCount: new(int32(1))}); err != nil {
		t.Fatal(err)
	}
	err = kinesis.NewStreamExistsWaiter(client, func(o *kinesis.StreamExistsWaiterOptions) { o.MinDelay = 10 * time.Millisecond }).
		Wait(t.Context(), &kinesis.DescribeStreamInput{StreamName: &name}, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func config(endpoint string) func(context.Context) (aws.Config, error) {
	return func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	}
}

// caller is the invocation that makes requests now. Only one makes requests at a time.
type caller struct {
	cancel atomic.Pointer[context.CancelFunc]
}

func (c *caller) calls(cancel context.CancelFunc) { c.cancel.Store(&cancel) }

// plan breaks the requests to one service.
func (f wireFault) plan(of service, by *caller) func(int, string) faultproxy.Fault {
	return func(n int, _ string) faultproxy.Fault {
		if of != f.of || n < f.at || n >= f.at+f.times || f.at < 0 {
			return faultproxy.None
		}
		switch f.fault {
		case cancelBefore:
			(*by.cancel.Load())()
			return faultproxy.Refuse
		case cancelAfter:
			(*by.cancel.Load())()
			return faultproxy.Drop
		}
		return f.fault
	}
}

// notifications returns the smallest and the largest number of notifications that a dead letter may have. Normally it
// is one. It may consist of several messages, because the client sends a message again if it gets no answer within a
// second.
//
// There may be more if the put of the object failed and was tried again, because then it is unknown which attempt
// created the object. There may be none in two cases: the put took effect, failed and was not tried again; or the
// invocation was cancelled while it sent the message.
func (f wireFault) notifications() (leastAndMost [2]int) {
	switch cancelled := f.fault == cancelBefore || f.fault == cancelAfter; {
	case f.of == objects:
		return [2]int{0, 2 * everyAttempt[notifier]}
	case f.of == notifier && cancelled:
		return [2]int{0, everyAttempt[notifier]}
	}
	return [2]int{1, everyAttempt[notifier]}
}

// queue is the queue of the notifications.
type queue struct {
	client  *sqs.Client
	url     string
	mu      sync.Mutex
	notSent []deadletter.Notification
}

func newQueue(ctx context.Context, endpoint, name string) (*queue, error) {
	cfg, err := config(endpoint)(ctx)
	if err != nil {
		return nil, err
	}
	client := sqs.NewFromConfig(cfg)
	made, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		return nil, err
	}
	return &queue{client: client, url: *made.QueueUrl}, nil
}

func (q *queue) miss(n deadletter.Notification, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notSent = append(q.notSent, n)
}

// read reads all messages.
func (q *queue) read(ctx context.Context) (arrived, notSent []deadletter.Notification, err error) {
	for {
		page, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &q.url, MaxNumberOfMessages: 10})
		if err != nil || len(page.Messages) == 0 {
			return arrived, q.notSent, err
		}
		for _, message := range page.Messages {
			var n deadletter.Notification
			if err := json.Unmarshal([]byte(*message.Body), &n); err != nil {
				return nil, nil, err
			}
			arrived = append(arrived, n)
		}
	}
}

// userRecords returns the user records of a record in the stream. The sink aggregates the records of an aggregate
// again.
func userRecords(put faultproxy.Put) (all []dedupe.Output) {
	parts, aggregated, err := new(kpl.Decoder).Decode(put.Data)
	if err != nil || !aggregated {
		return []dedupe.Output{{PartitionKey: put.PartitionKey, ExplicitHashKey: put.ExplicitHashKey, Data: put.Data}}
	}
	for _, part := range parts {
		all = append(all, dedupe.Output{
			PartitionKey: string(part.PartitionKey), ExplicitHashKey: string(part.ExplicitHashKey), Data: part.Data,
		})
	}
	return all
}

var plays atomic.Int64

// play plays a scenario with a proxy in front of each service, and with the function's own clients. It returns the
// requests to each service.
func (w wire) play(ctx context.Context, s Scenario, e dedupe.Store, f wireFault) (requests [services][]string, err error) {
	by := &caller{}
	dynamoProxy, stop := faultproxy.Start(w.dynamo, f.plan(ledger, by))
	defer stop()
	kinesisProxy, puts, stop := faultproxy.StartKinesis(w.kinesis, f.plan(sink, by))
	defer stop()
	s3Proxy, stop := faultproxy.StartS3(w.s3, f.plan(objects, by))
	defer stop()
	sqsProxy, stop := faultproxy.StartSQS(w.sqs, f.plan(notifier, by))
	defer stop()

	dynamoClient, err := awsclient.NewDynamoDB(ctx, config(dynamoProxy.URL))
	if err != nil {
		return requests, err
	}
	kinesisClient, err := kinesissink.NewClient(ctx, config(kinesisProxy.URL))
	if err != nil {
		return requests, err
	}
	to, err := kinesissink.New(kinesisClient, w.stream, kinesissink.WithMaxRecord(MostData))
	if err != nil {
		return requests, err
	}
	s3Client, err := deadletter.NewS3Client(ctx, config(s3Proxy.URL))
	if err != nil {
		return requests, err
	}
	sqsClient, err := deadletter.NewSQSClient(ctx, config(sqsProxy.URL))
	if err != nil {
		return requests, err
	}
	// The judge reads objects and messages directly, without the proxies.
	plain, err := deadletter.NewS3Client(ctx, config(w.s3))
	if err != nil {
		return requests, err
	}
	play := fmt.Sprint("play-", plays.Add(1))
	stored := deadletter.New(deadletter.NewBucket(plain, bucket, play+"/"))
	queue, err := newQueue(ctx, w.sqs, play)
	if err != nil {
		return requests, err
	}
	notified, err := deadletter.NewQueue(sqsClient, queue.url)
	if err != nil {
		return requests, err
	}
	var store dedupe.Store = dynamostore.New(dynamoClient, table,
		dynamostore.WithConcurrency(1), dynamostore.WithStatements(w.statements)) // in one order
	if _, onLog := e.(LogStore); onLog {
		store = LogStore{store, dynamostore.NewLog(dynamoClient, table)}
	}
	_, err = Play{Scenario: s, Engine: e, Parts: &Parts{
		Store:       store,
		Sink:        to,
		DeadLetters: deadletter.New(deadletter.NewBucket(s3Client, bucket, play+"/"), deadletter.WithNotifier(notified, queue.miss)),
		Delivered: func() (all []dedupe.Output) {
			for _, put := range puts.Records() {
				all = append(all, userRecords(put)...)
			}
			return all
		},
		Calling: by.calls,
		DeadLetter: func(ctx context.Context, scope, owner string, data []byte) (dedupe.DeadLetter, error) {
			return stored.Read(ctx, deadletter.Name(scope, owner, data))
		},
		Notified:      queue.read,
		Notifications: f.notifications(),
	}}.Run(ctx)
	for of, p := range []*faultproxy.Proxy{ledger: dynamoProxy, sink: kinesisProxy, objects: s3Proxy, notifier: sqsProxy} {
		requests[of] = p.Operations()
	}
	// A message that takes a second is sent again, or the messages after it are not sent. So the number of messages
	// is not always the same.
	if made := len(requests[f.of]); err == nil && made <= f.at && f.of != notifier {
		err = fmt.Errorf("the fault was never met: the function made %d requests: %s", made, strings.Join(requests[f.of], " "))
	}
	return requests, err
}
