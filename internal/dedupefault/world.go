package dedupefault

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/eventsource"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dedupetest"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// epoch is when scenarios begin: far enough ahead that no engine's own TTL deletion,
// which goes by the real time, takes part.
var epoch = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	streamARN = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
	consumer  = "dedupe"
	// longest is how long the end of a scenario may take: what cannot be done is
	// given up by age before.
	longest = 2 * time.Hour
)

var streamName = dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "orders"}

// Parts are what the function works with, where it is not the engine itself and
// memory.
type Parts struct {
	Store    Store
	Sink     dedupe.Sink
	Failures dedupe.DeadLetterStore
	// Delivered reads what the Sink has, without ids; Kept reads what is kept of an
	// owner, or fs.ErrNotExist.
	Delivered func() []dedupe.Output
	Kept      func(ctx context.Context, owner string) (dedupe.DeadLetter, error)
	// Notified reads what the notifier of Failures told, and of what it said that it could
	// not tell. For a record that is kept it notifications as often as Notifications says: at least,
	// with notifications that were not heard, and at most.
	Notified      func(context.Context) (heard, unsent []deadletter.Notification, err error)
	Notifications [2]int
	// Calling is told of each call before it is made, and how to cancel its invocation;
	// it may be nil.
	Calling func(cancel context.CancelFunc)
}

// World is a stream, a mapping, and the function with its parts, on their way
// through a Scenario.
type World struct {
	ctx      context.Context
	scenario Scenario
	engine   dedupetest.Engine
	scope    string
	parts    Parts
	function eventsource.Function

	sim        *eventsource.Sim
	stream     *eventsource.Stream
	poller     *eventsource.Poller
	checkpoint *eventsource.Checkpoint

	plan  func(n int, method string) Fault
	fates func(*eventsource.Invocation) eventsource.Fate
	calls []string
	trace []string

	judge
}

// Play is how a scenario is played.
type Play struct {
	Scenario Scenario
	Engine   dedupetest.Engine
	Parts    *Parts                                         // nil: the engine and memory
	Plan     func(n int, method string) Fault               // of the function's calls; nil: none fails
	Fates    func(*eventsource.Invocation) eventsource.Fate // beside the scenario's
	mutant   *mutant
}

// Run plays the scenario and returns the calls that the function made, and the first
// violation of a guarantee.
func (p Play) Run(ctx context.Context) (calls []string, err error) {
	w := &World{
		ctx: ctx, scenario: p.Scenario.orDefaults(), engine: p.Engine, scope: freshScope(),
		sim: eventsource.NewSim(epoch, p.Scenario.Seed), checkpoint: new(eventsource.Checkpoint),
		plan: p.Plan, fates: p.Fates, judge: newJudge(),
	}
	defer w.sim.Close()
	w.stream = eventsource.NewStream(w.scenario.Shards, w.sim.Now)
	w.sim.Fate = w.fate
	w.parts = Parts{Store: p.Engine.Store, Failures: w.memoryFailures(), Notifications: [2]int{0, 1}}
	if p.Parts != nil {
		w.parts = *p.Parts
	}
	w.build(p.mutant)
	err = w.play()
	if w.violation != nil {
		err = w.violation
	}
	if err != nil {
		err = fmt.Errorf("%w\nall that happened (seed %d):\n  %s", err, w.scenario.Seed, strings.Join(w.trace, "\n  "))
	}
	return w.calls, err
}

func freshScope() string { return "f-" + strings.ToLower(rand.Text()[:16]) }

// build makes the function of its parts.
func (w *World) build(m *mutant) {
	f := function{
		store: &store{w, w.parts.Store}, sink: &sink{w, w.parts.Sink}, failures: &failures{w, w.parts.Failures}, format: newFormat(),
		options: kinesishandler.Options{
			Scope: w.scope, Retention: dedupe.Retention{Window: window, Horizon: horizon}, Chunk: w.scenario.Chunk,
			Checkpoint: w.scenario.Checkpoint, Consumer: consumer,
		},
	}
	handle := f.handler(w)
	if m != nil {
		handle = m.build(w, f)
	}
	w.function = eventsource.Handler(func(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
		return w.invoke(ctx, raw, handle)
	})
}

// function is what the function is made of.
type function struct {
	store    Store
	sink     dedupe.Sink
	failures dedupe.DeadLetterStore
	format   dedupe.Format
	options  kinesishandler.Options
}

type handle func(context.Context, json.RawMessage) (events.KinesisEventResponse, error)

// handler is the product's.
func (f function) handler(w *World) handle {
	f.options.Format = f.format
	return kinesishandler.New(f.store, f.sink, f.failures, f.options, slog.New(tallies{World: w})).Handle
}

// play brings about all steps, and then lets everything come to its end.
func (w *World) play() error {
	if err := w.start(); err != nil {
		return err
	}
	for _, s := range w.scenario.Steps {
		w.note("%s", s)
		if err := w.step(s); err != nil {
			return err
		}
		if w.violation != nil {
			return w.violation
		}
	}
	w.note("end")
	if err := w.sim.Drain(longest); err != nil {
		return err
	}
	return w.atRest()
}

func (w *World) step(s Step) error {
	open := w.stream.Open()
	switch s.Do {
	case Put:
		w.put(s)
	case Wait:
		return w.sim.Advance(s.For)
	case Split:
		return w.stream.Split(open[s.Key%len(open)])
	case Merge:
		if n := len(open); n > 1 {
			i := s.Key % (n - 1)
			return w.stream.Merge(open[i], open[i+1])
		}
	case Restart:
		w.poller.Stop()
		return w.start()
	case Second:
		second := w.mapping()
		second.Checkpoint = w.checkpoint.Clone()
		_, err := w.sim.Start(second)
		return err
	case Sweep:
		return w.sweep()
	}
	return nil
}

func (w *World) start() (err error) {
	w.poller, err = w.sim.Start(w.mapping())
	return err
}

func (w *World) mapping() eventsource.Mapping {
	m := eventsource.Mapping{
		Client: w.stream, StreamARN: streamARN, Function: w.function, BatchSize: w.scenario.BatchSize,
		Parallelization: w.scenario.Parallel, ReportBatchItemFailures: true, Bisect: !w.scenario.NoBisect,
		RecordAge: recordAge, Timeout: timeout, Checkpoint: w.checkpoint, PollPause: 2 * time.Second,
		OnFailure: func(_ context.Context, d eventsource.Discard) error { w.giveUp(d); return nil },
	}
	if w.scenario.GiveUp > 0 {
		m.Retries = &w.scenario.GiveUp
	}
	return m
}

// put puts a record into the stream, and notes its user records as inputs.
func (w *World) put(s Step) {
	key := fmt.Sprint("key-", s.Key)
	inputs := make([]*input, len(s.Users))
	for i, u := range s.Users {
		inputs[i] = w.newInput(u)
	}
	data := inputs[0].data
	if len(inputs) > 1 {
		var e kpl.Encoder
		for _, in := range inputs {
			e.Add(kpl.UserRecord{PartitionKey: []byte(aggregateKey), ExplicitHashKey: []byte(aggregateHashKey), Data: in.data})
		}
		data = e.Bytes()
	}
	shard, sequence := w.stream.Put(key, data)
	for i, in := range inputs {
		in.partitionKey, in.arrival = key, w.sim.Now().Truncate(time.Millisecond)
		in.position = dedupe.Position{Stream: streamName, Shard: shard, Sequence: sequence, Sub: dedupe.Plain}
		if len(inputs) > 1 {
			in.position.Sub = i
		}
		w.addInput(in)
	}
}

// The keys of the records in an aggregate.
const (
	aggregateKey     = "own"
	aggregateHashKey = "7"
)

// fate is what befalls an invocation, which is noted.
func (w *World) fate(inv *eventsource.Invocation) eventsource.Fate {
	w.invocations[inv.RequestID] = &invocation{Invocation: inv, began: w.tick(), confirmed: map[int]bool{}, kept: map[string]bool{}, sent: map[int]bool{}}
	f, given := w.scenario.Fates[inv.Number]
	if !given && w.fates != nil {
		f = w.fates(inv)
	}
	w.note("#%d %s %s attempt %d: %s", inv.Number, inv.Shard, sequences(inv.Records), inv.Attempt, fateText(f))
	if !ended(f) {
		f.Zombie = true // for calls that take too long
	}
	return f
}

// ended reports that the fate is to be ended at its time-out.
func ended(f eventsource.Fate) bool { return !f.Zombie && (f.Delay > timeout || f.Takes > timeout) }

func fateText(f eventsource.Fate) string {
	switch {
	case f.Throttle:
		return "throttled"
	case f.Skip:
		return "does not run, and fails"
	case f.Err != nil:
		return "fails after its work"
	case f.Answer != nil:
		return "answers " + string(f.Answer)
	case f.Delay > 0 || f.Takes > 0:
		return fmt.Sprintf("begins after %v, answers %v late, goes on %t", f.Delay, f.Takes, f.Zombie)
	}
	return ""
}

func sequences(records []types.Record) string {
	texts := make([]string, len(records))
	for i, r := range records {
		texts[i] = *r.SequenceNumber
	}
	return strings.Join(texts, ",")
}

type invocationKey struct{}

func invocationOf(ctx context.Context) *invocation { return ctx.Value(invocationKey{}).(*invocation) }

// invoke is one invocation of the function.
func (w *World) invoke(ctx context.Context, raw json.RawMessage, h handle) (events.KinesisEventResponse, error) {
	lc, _ := lambdacontext.FromContext(ctx)
	inv := w.invocations[lc.AwsRequestID]
	ctx, inv.cancel = context.WithCancel(ctx)
	defer inv.cancel()
	answer, err := h(context.WithValue(ctx, invocationKey{}, inv), raw)
	w.note("#%d answers %v, %v", inv.Number, answer.BatchItemFailures, err)
	w.checkAnswer(inv, answer, err)
	return answer, err
}

// note adds a line to what is told of a violation.
func (w *World) note(format string, args ...any) {
	w.trace = append(w.trace, w.sim.Now().Sub(epoch).String()+" "+fmt.Sprintf(format, args...))
}

// tallies is a log that reads the tallies of invocations.
type tallies struct {
	slog.Handler // none
	*World
}

func (tallies) Enabled(context.Context, slog.Level) bool { return true }

func (t tallies) Handle(ctx context.Context, r slog.Record) error {
	counts := map[string]int64{}
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindInt64 {
			counts[a.Key] = a.Value.Int64()
		}
		return true
	})
	tally := dedupe.Tally{
		In: counts["in"], New: counts["new"], Retry: counts["retry"], Natural: counts["natural"], Synthetic: counts["synthetic"],
		DeadLettered: counts["dead_lettered"], Skipped: counts["skipped"], Failed: counts["failed"], Out: counts["out"],
	}
	invocationOf(ctx).tally = &tally
	return nil
}

// oddFormat reads JSON, panics on some records, and is ended by others.
type oddFormat struct{ dedupe.Format }

func newFormat() dedupe.Format {
	j, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	if err != nil {
		panic(err) // fixed options
	}
	return oddFormat{j}
}

const (
	panicData = "panic"
	killData  = "kill"
)

func (f oddFormat) Read(payload []byte) (format.Fields, error) {
	switch {
	case strings.HasPrefix(string(payload), panicData):
		panic("a bug")
	case strings.HasPrefix(string(payload), killData):
		runtime.Goexit()
	}
	return f.Format.Read(payload)
}

// memoryFailures is a failure store in memory, with a notifier.
func (w *World) memoryFailures() dedupe.DeadLetterStore { return w.failuresIn(memory{w}) }

// failuresIn keeps one record at a time: of an invocation only one goroutine can wait.
func (w *World) failuresIn(objects deadletter.Objects) dedupe.DeadLetterStore {
	return deadletter.New(objects, deadletter.WithConcurrency(1), deadletter.WithNotifier(memory{w}, func(deadletter.Notification, error) {}))
}

// memory is the objects of a failure store, and its notifier.
type memory struct{ *World }

func (m memory) Create(ctx context.Context, name string, content []byte) (created bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if _, there := m.objects[name]; there {
		return false, nil
	}
	m.objects[name] = slices.Clone(content)
	return true, nil
}

func (m memory) Read(_ context.Context, name string) ([]byte, error) {
	content, there := m.objects[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	return content, nil
}

func (m memory) Place(name string) deadletter.Place { return deadletter.Place{Key: name} }

func (m memory) Notify(ctx context.Context, k deadletter.Notification) error {
	c, err := m.begin(ctx, notify, text(k.Owner))
	if err != nil {
		return err
	}
	m.notifications[k.Owner]++
	return c.end()
}

// kept reads what is kept of an owner.
func (w *World) kept(owner string) (dedupe.DeadLetter, error) {
	if w.parts.Kept != nil {
		return w.parts.Kept(w.ctx, owner)
	}
	content, err := memory{w}.Read(w.ctx, deadletter.Name(owner))
	if err != nil {
		return dedupe.DeadLetter{}, err
	}
	return deadletter.Decode(content)
}

// sweep drops all entries whose time has passed.
func (w *World) sweep() error {
	for key, row := range w.rows {
		if row.PurgeAt != dedupe.Never && time.Unix(row.PurgeAt, 0).Before(w.sim.Now()) {
			if err := w.engine.Raw.DropEntry(w.ctx, w.scope, key); err != nil {
				return err
			}
			delete(w.rows, key)
		}
	}
	return nil
}
