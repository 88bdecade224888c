package redrive_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

const (
	scope    = "orders"
	shard    = "shardId-000000000000"
	function = "orders-dedupe"
	arn      = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
)

var (
	stream = dedupe.Stream{Account: "123456789012", Region: "eu-west-1", Name: "orders"}
	epoch  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	keep   = dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour}
)

// world is a function with its parts, and a redrive with the same parts.
type world struct {
	testing.TB
	level  string // the level of the sink
	scope  string
	ledger dedupe.Store
	dead   deadletter.Listed
	now    time.Time

	mu        sync.Mutex
	delivered map[string][]string // the delivered payloads of each id
	chain     map[string]bool     // the sequence numbers that objects have handled
	letters   map[string]bool     // the letters that have an object
	runs      int                 // the number of jobs so far
	tooLarge  int                 // payloads of at least this many bytes are poison
	refuses   bool                // the stream sink refuses all records
	// step runs at each call of a part. do is the call.
	step func(what string, do func() error) error
}

// These are the levels of sinks.
var levels = []string{"stream", "transactions", "objects"}

func newWorld(t testing.TB, level string, ledger dedupe.Store, dead deadletter.Listed) *world {
	return &world{
		TB: t, level: level, scope: scope, ledger: ledger, dead: dead, now: epoch.Add(time.Hour),
		delivered: map[string][]string{}, chain: map[string]bool{}, letters: map[string]bool{}, tooLarge: 1 << 20,
		step: func(_ string, do func() error) error { return do() },
	}
}

func newScope() string { return "orders-" + strings.ToLower(rand.Text()) }

func newFolder(t testing.TB) deadletter.Listed {
	t.Helper()
	f, err := deadletter.NewFolder(filepath.Join(t.TempDir(), "dead"))
	must(t, err)
	return f
}

// inMemory is a dead-letter store without a disk.
type inMemory struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func newMemory() deadletter.Listed { return &inMemory{objects: map[string][]byte{}} }

func (m *inMemory) Create(_ context.Context, name string, content []byte) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, exists := m.objects[name]; exists {
		return false, nil
	}
	m.objects[name] = content
	return true, nil
}

func (m *inMemory) Read(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, exists := m.objects[name]
	if !exists {
		return nil, fs.ErrNotExist
	}
	return content, nil
}

func (m *inMemory) List(_ context.Context, prefix, after string) (names []string, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const page = 10
	for name := range m.objects {
		if name > after && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), page)], nil
}

func (m *inMemory) Versions(_ context.Context, prefix string) (all []deadletter.Version, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.objects {
		if strings.HasPrefix(name, prefix) {
			all = append(all, deadletter.Version{Name: name})
		}
	}
	return all, nil
}

func (m *inMemory) Remove(_ context.Context, v deadletter.Version) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, v.Name)
	return nil
}

func (m *inMemory) TagDone(context.Context, string) error { return nil }

func (m *inMemory) Place(string) deadletter.Place { return deadletter.Place{} }

func newBucket(t testing.TB) deadletter.Listed {
	t.Helper()
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(testengine.S3(t, "bucket")), Region: "eu-west-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), Retryer: aws.NopRetryer{},
	})
	return deadletter.NewBucket(client, "bucket", "")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The world is a dead-letter store, with steps.
func (w *world) Create(ctx context.Context, name string, content []byte) (created bool, err error) {
	err = w.step("create", func() error {
		created, err = w.dead.Create(ctx, name, content)
		return err
	})
	return created, err
}

func (w *world) Read(ctx context.Context, name string) (content []byte, err error) {
	err = w.step("read", func() error {
		content, err = w.dead.Read(ctx, name)
		return err
	})
	return content, err
}

func (w *world) List(ctx context.Context, prefix, after string) (names []string, err error) {
	err = w.step("list", func() error {
		names, err = w.dead.List(ctx, prefix, after)
		return err
	})
	return names, err
}

func (w *world) Versions(ctx context.Context, prefix string) (all []deadletter.Version, err error) {
	err = w.step("versions", func() error {
		all, err = w.dead.Versions(ctx, prefix)
		return err
	})
	return all, err
}

func (w *world) Remove(ctx context.Context, v deadletter.Version) error {
	return w.step("remove", func() error { return w.dead.Remove(ctx, v) })
}

func (w *world) TagDone(ctx context.Context, name string) error { return w.dead.TagDone(ctx, name) }

func (w *world) Place(name string) deadletter.Place { return w.dead.Place(name) }

// deliver records the outputs that a sink delivers.
func (w *world) deliver(outputs ...dedupe.Output) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range outputs {
		w.delivered[o.ID] = append(w.delivered[o.ID], string(o.Data))
	}
}

func (w *world) check(o dedupe.Output) error {
	if len(o.Data) >= w.tooLarge {
		return &dedupe.PoisonError{Reason: "too large"}
	}
	return nil
}

// streamSink is an at-least-once sink.
type streamSink struct{ *world }

func (s streamSink) Check(_ context.Context, o dedupe.Output) error { return s.check(o) }

func (s streamSink) Send(_ context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	if s.refuses {
		return dedupe.Sent{Refused: slices.Repeat([]*dedupe.PoisonError{{Reason: "declined"}}, len(outputs))}, nil
	}
	return dedupe.Sent{}, s.step("send", func() error {
		s.deliver(outputs...)
		return nil
	})
}

// txSink is a sink with transactions.
type txSink struct {
	*memstore.Effects
	*world
}

func (s txSink) Check(_ context.Context, o dedupe.Output) error { return s.check(o) }

func (s txSink) Transact(ctx context.Context, t dedupe.Transaction) (r dedupe.TxResult, err error) {
	err = s.step("transact", func() error {
		r, err = s.Effects.Transact(ctx, t)
		return err
	})
	return r, err
}

// objectSink is a sink with objects.
type objectSink struct{ *world }

func (s objectSink) Check(_ context.Context, o dedupe.Output) error { return s.check(o) }

func (s objectSink) Open(context.Context, dedupe.ChainKey, string, string) (dedupe.Chain, error) {
	return s, s.step("open chain", func() error { return nil })
}

func (s objectSink) Done(sequence string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chain[sequence]
}

func (s objectSink) Commit(_ context.Context, records []dedupe.ChainRecord) (dedupe.Committed, error) {
	written := make([]bool, len(records))
	err := s.step("commit", func() error {
		for i, r := range records {
			if written[i] = !s.Done(r.Sequence); written[i] {
				s.deliver(r.Outputs...)
			}
			s.mu.Lock()
			s.chain[r.Sequence] = true
			s.mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return dedupe.Committed{}, err
	}
	return dedupe.Committed{Done: len(records), Written: written}, nil
}

func (s objectSink) CommitLetter(
	_ context.Context, _ dedupe.ChainKey, letter string, outputs []dedupe.Output,
) (created bool, err error) {
	err = s.step("commit letter", func() error {
		s.mu.Lock()
		created = !s.letters[letter]
		s.letters[letter] = true
		s.mu.Unlock()
		if created {
			s.deliver(outputs...)
		}
		return nil
	})
	return created, err
}

// processor returns a Processor that finds ids at a path.
func (w *world) processor(idPath string) *dedupe.Processor {
	w.Helper()
	j, err := format.NewJSON(format.Options{IDPath: idPath, FingerprintPath: "fp"})
	must(w, err)
	hook := func(ctx context.Context, c *dedupefault.Call) error {
		return w.step(string(c.Method), func() error { return c.Do(ctx) })
	}
	store := dedupefault.HookStore(w.ledger, hook)
	parts := dedupe.Parts{Ledger: store, Acks: store, Format: j, DeadLetters: deadletter.New(poisonPrefix{w})}
	switch w.level {
	case "stream":
		parts.Sink = streamSink{w}
	case "transactions":
		effect := func(_ context.Context, o dedupe.Output) (superseded bool, err error) {
			w.deliver(o)
			return false, nil
		}
		effects := memstore.NewEffects(w.ledger.(*memstore.Records), effect)
		parts.Ledger, parts.Tx = nil, txSink{effects, w}
	case "objects":
		parts.Objects, parts.Acks = objectSink{w}, nil
	}
	p, err := dedupe.NewProcessor(parts, dedupe.Settings{
		Scope: w.scope, Retention: keep, Sink: "s", PoisonLimit: dedupe.PoisonLimit{Off: true},
		Clock: dedupe.Clock{
			Now:   func() time.Time { return w.now },
			Pause: func(ctx context.Context, _ time.Duration) error { return errors.Join(ctx.Err(), errCrash) },
		},
	})
	must(w, err)
	return p
}

// poisonPrefix is the place where the function stores poison records.
type poisonPrefix struct{ *world }

func (p poisonPrefix) Create(ctx context.Context, name string, content []byte) (bool, error) {
	return p.world.Create(ctx, "poison/"+p.scope+"/"+name, content)
}

// record returns a record for a function that reads ids at "id". If broken is set, the id is only at "order.id",
// where a redrive reads it.
func record(n int, id, fingerprint string, broken bool) dedupe.Record {
	return dedupe.Record{
		Sequence: fmt.Sprint(n), PartitionKey: "pk", Arrival: epoch.Add(time.Duration(n) * time.Second),
		Data: payload(n, id, fingerprint, broken),
	}
}

func payload(n int, id, fingerprint string, broken bool) []byte {
	first := fmt.Sprintf(`"id":%q,`, id)
	if broken {
		first = ""
	}
	return fmt.Appendf(nil, `{%s"n":%d,"fp":%q,"order":{"id":%q}}`, first, n, fingerprint, id)
}

func aggregate(n int, payloads ...[]byte) dedupe.Record {
	var e kpl.Encoder
	for _, p := range payloads {
		e.Add(kpl.UserRecord{PartitionKey: []byte("own"), Data: p})
	}
	r := record(n, "", "", true)
	r.Data = e.Bytes()
	return r
}

// live processes records as the function does, before or during the redrive.
func (w *world) live(records ...dedupe.Record) {
	w.Helper()
	r := w.processor("id").Process(w.Context(), dedupe.Batch{Stream: stream, Shard: shard, Records: records})
	must(w, r.Err)
}

// giveUp makes the invocation record of a batch that Lambda gives up. name is the name of its object, or "" for no
// object.
func (w *world) giveUp(records ...dedupe.Record) (name string, message []byte) {
	w.Helper()
	d := eventsource.Discard{
		Shard: shard, Condition: eventsource.RetryAttemptsExhausted,
		FunctionARN: "arn:aws:lambda:eu-west-1:123456789012:function:" + function, StreamARN: arn, At: w.now,
		Event: eventOf(w, records), ObjectID: "id-" + records[0].Sequence,
	}
	for _, r := range records {
		d.Records = append(d.Records, types.Record{SequenceNumber: &r.Sequence, ApproximateArrivalTimestamp: &r.Arrival})
	}
	name, body := d.Object()
	_, err := w.dead.Create(w.Context(), name, body)
	must(w, err)
	return name, d.Message()
}

func eventOf(t testing.TB, records []dedupe.Record) json.RawMessage {
	t.Helper()
	var all []any
	for _, r := range records {
		all = append(all, map[string]any{
			"eventSource": "aws:kinesis", "eventSourceARN": arn, "eventID": shard + ":" + r.Sequence,
			"kinesis": map[string]any{
				"sequenceNumber": r.Sequence, "partitionKey": r.PartitionKey, "data": r.Data,
				"approximateArrivalTimestamp": float64(r.Arrival.UnixMilli()) / 1000,
			},
		})
	}
	text, err := json.Marshal(map[string]any{"Records": all})
	must(t, err)
	return text
}

var errCrash = errors.New("crash")

// job returns a job that redrives all letters of the world.
func (w *world) job() *redrive.Job {
	w.Helper()
	archive := deadletter.NewArchive(w)
	p := w.processor("order.id")
	return &redrive.Job{
		Items: redrive.FromArchive(w.Context(), archive), Retention: keep, Function: function,
		Records: func(context.Context, *deadletter.GivenUp) ([]dedupe.Record, error) { return nil, redrive.ErrLost },
		Target: func(_ context.Context, s dedupe.Stream) (redrive.Processor, string, error) {
			if s != stream {
				return nil, "", recordhandler.ErrLoop
			}
			return p, w.scope, nil
		},
		Decode:  func(event json.RawMessage) (dedupe.Batch, error) { return recordhandler.Decode(event, false) },
		Markers: archive, Runner: w.runner(), Now: func() time.Time { return w.now },
	}
}

// runner returns the next run. Only a stream sink sends letters again.
func (w *world) runner() deadletter.Runner {
	if w.level != "stream" {
		return deadletter.Runner{}
	}
	w.runs++
	return deadletter.Runner{Run: fmt.Sprint("run-", w.runs), By: "the test"}
}

// run runs a job and returns its reports by name.
func (w *world) run(j *redrive.Job) (reports map[string]redrive.Report, err error) {
	reports = map[string]redrive.Report{}
	last := ""
	err = j.Run(w.Context(), func(r redrive.Report) error {
		if r.Name <= last {
			w.Errorf("%s comes after %s", r.Name, last)
		}
		reports[r.Name], last = r, r.Name
		return nil
	})
	return reports, err
}

func count(reports map[string]redrive.Report) map[redrive.Status]int {
	counts := map[redrive.Status]int{}
	for _, r := range reports {
		counts[r.Status]++
	}
	return counts
}

// ids returns how often each id was delivered.
func (w *world) ids() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for id, payloads := range w.delivered {
		all = append(all, fmt.Sprint(id, ":", len(payloads)))
		for _, p := range payloads {
			var payload struct{ Order struct{ ID string } }
			_ = json.Unmarshal([]byte(p), &payload) // a payload that is no JSON has no id
			if payload.Order.ID != id && !strings.Contains(p, "duplicate") {
				w.Errorf("id %s has the payload %s", id, p)
			}
		}
	}
	return joined(all)
}
