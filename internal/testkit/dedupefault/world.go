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

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/internal/testkit/memobjects"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// epoch is the time at which scenarios begin. It is far in the future, so that an engine that deletes by the real
// clock deletes nothing.
var epoch = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	streamARN = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
	consumer  = "dedupe"
	// maxEnd is how long the end of a scenario may take. By then the mapping has given up all records that cannot be
	// processed, because of their age.
	maxEnd = 2 * time.Hour
)

var streamName = dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "orders"}

// Parts are the parts of the function, with functions that read them.
type Parts struct {
	Store       dedupe.Store
	Sink        dedupe.Sink
	Tx          dedupe.TxSink // replaces Sink in scenarios with a transactional sink
	DeadLetters dedupe.DeadLetterStore
	// Delivered reads the outputs in the Sink, without ids. It is nil for a sink in memory, which tells the judge
	// itself.
	Delivered func() []dedupe.Output
	// DeadLetter reads the dead letter of an owner in a scope. It returns fs.ErrNotExist if there is no such letter.
	DeadLetter func(ctx context.Context, scope, owner string, data []byte) (dedupe.DeadLetter, error)
	// Notified reads the notifications that arrived, and those that the notifier reported as not sent. It is nil for
	// the notifier in memory. Notifications returns the smallest and the largest number of notifications of each dead
	// letter. The smallest includes notifications that were not sent.
	Notified      func(context.Context) (arrived, notSent []deadletter.Notification, err error)
	Notifications [2]int
	// Calling runs before each call of the function, with a way to cancel the invocation. It may be nil.
	Calling func(cancel context.CancelFunc)
}

// World is a stream, an event source mapping and the function with its parts, while they play a Scenario.
type World struct {
	ctx      context.Context
	scenario Scenario
	engine   dedupe.Store
	scope    string
	parts    Parts
	mutant   *Mutant
	storage  objectsink.Storage // the storage of an object sink
	discards []eventsource.Discard
	marked   map[string]bool // the dead letters that are marked as done
	// instances are the processes of the function. The seed decides which instance an invocation gets.
	instances []*process

	sim        *eventsource.Sim
	stream     *eventsource.Stream
	poller     *eventsource.Poller
	checkpoint *eventsource.Checkpoint

	faultless bool // only the scenario's own faults happen
	plan      Plan
	fates     func(*eventsource.Invocation) eventsource.Fate
	calls     []Method
	trace     []string

	judge
}

// Plan decides which calls of the function fail, and how. n is the number of the call, from 0.
type Plan func(n int, method Method) Fault

// Play holds a scenario and the options for playing it.
type Play struct {
	Scenario Scenario
	Engine   dedupe.Store
	Parts    *Parts                                         // nil means the engine and parts in memory
	Plan     Plan                                           // nil means that no call fails
	Fates    func(*eventsource.Invocation) eventsource.Fate // for invocations without a fate in the scenario
	Mutant   *Mutant                                        // the broken rule; nil means that no rule is broken
	Storage  objectsink.Storage                             // of an object sink; nil means a storage in memory
}

// Run plays the scenario. It returns the calls that the function made, and the first violation of a guarantee as an
// error.
func (p Play) Run(ctx context.Context) (calls []Method, err error) {
	w, err := p.run(ctx)
	return w.calls, err
}

func (p Play) run(ctx context.Context) (w *World, err error) {
	w = &World{
		ctx: ctx, scenario: p.Scenario.orDefaults(), storage: p.Storage,
		marked: map[string]bool{}, engine: p.Engine, scope: freshScope(),
		sim: eventsource.NewSim(epoch, p.Scenario.Seed), checkpoint: new(eventsource.Checkpoint),
		plan: p.Plan, fates: p.Fates, mutant: p.Mutant, judge: newJudge(), faultless: p.Plan == nil && p.Fates == nil && p.Parts == nil,
	}
	defer w.sim.Close()
	if w.storage == nil {
		inMemory := memobjects.New()
		inMemory.Page = w.scenario.Objects.ListPage
		w.storage = inMemory
	}
	w.stream = eventsource.NewStream(w.scenario.Shards, w.sim.Now)
	w.sim.Fate = w.fate
	w.parts = Parts{
		Store: p.Engine, Sink: memorySink{w},
		DeadLetters: w.deadLettersIn(memoryObjects{w}), DeadLetter: w.deadLetterInMemory, Notifications: [2]int{0, 1},
	}
	if records, ok := p.Engine.(*memstore.Records); ok {
		w.parts.Tx = memoryTx{memstore.NewEffects(records, w.effect), w.parts.Sink}
	}
	if p.Parts != nil {
		w.parts = *p.Parts
	}
	w.deploy()
	err = w.play()
	if w.violation != nil {
		err = w.violation
	}
	if err != nil {
		err = fmt.Errorf("%w\nall that happened (seed %d):\n  %s", err, w.scenario.Seed, strings.Join(w.trace, "\n  "))
	}
	return w, err
}

func freshScope() string { return "f-" + strings.ToLower(rand.Text()[:16]) }

var retention = dedupe.Retention{Window: window, Horizon: horizon}

// process is an instance of the function.
type process struct {
	handle handleFunc
	// busy says that the instance has an invocation, or that an invocation has ended the process. Such an instance
	// gets no other invocation if its ledger is a log, because the log is the only part of the function that
	// remembers records.
	busy bool
}

// deploy starts the instances of the function.
func (w *World) deploy() {
	w.instances = make([]*process, w.scenario.Instances)
	for i := range w.instances {
		w.instances[i] = w.newInstance()
	}
}

// instance returns an instance for the next invocation. If the function has several instances, it sometimes replaces
// one by a new one.
func (w *World) instance() *process {
	i, n := 0, len(w.instances)
	if n > 1 {
		i = w.sim.Rand.IntN(n)
	}
	if w.instances[i].busy && w.onLog() || n > 1 && w.sim.Rand.IntN(2*n) == 0 {
		w.instances[i] = w.newInstance()
	}
	return w.instances[i]
}

// newInstance returns an instance of the function, with one broken rule if there is a mutant.
func (w *World) newInstance() *process {
	return &process{handle: w.mutant.breakFunction(w, w.newFunction())}
}

// newFunction assembles the function from its parts.
func (w *World) newFunction() function {
	f := function{
		store: HookStore(w.parts.Store, w.faultHook), log: w.hookedLog(), sink: HookSink(w.parts.Sink, w.faultHook),
		deadLetters: HookDeadLetters(w.parts.DeadLetters, w.faultHook), format: newFormat(),
		options: recordhandler.Options{
			Scope: w.scope, Retention: retention, Chunk: w.scenario.Chunk,
			Sink: recordhandler.SinkSetting{Own: "memory" + string(w.scenario.Sink)}, NoAcks: w.scenario.NoAcks, Consumer: consumer, Clock: w.clock(),
		},
	}
	switch w.scenario.Sink {
	case Transactional:
		f.tx = HookTx(w.parts.Tx, w.faultHook)
	case Objects:
		f.objectSink = w.newObjectSink()
	}
	return f
}

// clock returns a clock of virtual time. If the function may do two things at the same time, the seed decides which
// comes first, so that a scenario is played the same way each time.
func (w *World) clock() dedupe.Clock {
	return dedupe.Clock{
		Now: w.sim.Now,
		Pause: func(ctx context.Context, limit time.Duration) error {
			eventsource.Wait(ctx, limit)
			return ctx.Err()
		},
		Both: func(f, g func()) {
			if w.sim.Rand.IntN(2) == 0 {
				f, g = g, f
			}
			f()
			g()
		},
		Each: func(n, _ int, f func(int)) {
			for _, i := range w.sim.Rand.Perm(n) {
				f(i)
			}
		},
	}
}

// hookedLog returns the log of the ledger, or nil for a ledger with one row a key.
func (w *World) hookedLog() logledger.Storage {
	if s, ok := w.parts.Store.(LogStore); ok {
		return HookLog(s.Log, w.faultHook)
	}
	return nil
}

// function holds the parts of the dedupe function.
type function struct {
	store       dedupe.Store
	log         logledger.Storage // the log of the ledger, which replaces the store's entries
	sink        dedupe.Sink
	tx          dedupe.TxSink     // replaces the sink
	objectSink  dedupe.ObjectSink // replaces the sink
	deadLetters dedupe.DeadLetterStore
	format      dedupe.Format
	options     recordhandler.Options
}

type handleFunc func(context.Context, json.RawMessage) (events.KinesisEventResponse, error)

// handler returns the handler of the Lambda function. Without a Consumer in its options it claims no stream.
func (f function) handler(w *World) *recordhandler.Handler {
	parts := dedupe.Parts{
		Ledger: f.store, Format: f.format, Sink: f.sink, DeadLetters: f.deadLetters, Consumers: f.store,
	}
	if f.log != nil {
		parts.Ledger = newLedger(f.log, f.options.Clock)
	}
	if f.tx != nil || f.objectSink != nil {
		parts.Sink, parts.Tx, parts.Objects = nil, f.tx, f.objectSink
	}
	if !f.options.NoAcks {
		parts.Acks = f.store
	}
	h, err := recordhandler.New(parts, f.options, slog.New(tallies{World: w}))
	if err != nil {
		panic(err) // cannot happen: the options are fixed
	}
	return h
}

// play does all steps, and then waits until the mapping has no more work.
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
	if err := w.sim.Drain(maxEnd); err != nil {
		return err
	}
	if err := w.redriveAll(); err != nil {
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
	case Replay:
		again := w.mapping()
		again.Checkpoint = nil
		_, err := w.sim.Start(again)
		return err
	case Sweep:
		return w.sweep()
	case Redrive:
		w.redrive(false)
	case Again:
		w.redrive(true)
	case Switch:
		if w.scenario.Sink == Objects {
			return nil
		}
		w.scenario.Sink = Transactional
		w.switched()
		w.deploy()
	}
	return nil
}

func (w *World) start() (err error) {
	w.poller, err = w.sim.Start(w.mapping())
	return err
}

func (w *World) mapping() eventsource.Mapping {
	m := eventsource.Mapping{
		Client: w.stream, StreamARN: streamARN, Function: eventsource.Handler(handleFunc(w.invoke)), BatchSize: w.scenario.BatchSize,
		Parallelization: w.scenario.Parallel, ReportBatchItemFailures: true, Bisect: !w.scenario.NoBisect,
		Reading: w.scenario.Reading, RecordAge: recordAge, Timeout: timeout, Checkpoint: w.checkpoint, PollPause: 2 * time.Second,
		OnFailure: func(_ context.Context, d eventsource.Discard) error { w.giveUp(d); return nil },
	}
	if w.scenario.GiveUp != 0 {
		m.Retries = new(max(w.scenario.GiveUp, 0))
	}
	return m
}

// put puts a record into the stream, and tells the judge about its user records.
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
			e.Add(kpl.UserRecord{
				PartitionKey: []byte(aggregateKey), ExplicitHashKey: []byte(aggregateHashKey), Data: in.data,
			})
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

// These are the keys of the records in an aggregate.
const (
	aggregateKey     = "own"
	aggregateHashKey = "7"
)

// fate returns the fate of an invocation, and records it.
func (w *World) fate(inv *eventsource.Invocation) eventsource.Fate {
	w.invocations[inv.RequestID] = w.newInvocation(inv)
	f, given := w.scenario.Fates[inv.Number]
	if !given && w.fates != nil {
		f = w.fates(inv)
	}
	w.note("#%d %s %s attempt %d: %s", inv.Number, inv.Shard, sequences(inv.Records), inv.Attempt, fateText(f))
	if !ended(f) {
		f.Zombie = true // a call may take too long; then the process goes on after the time-out
	}
	return f
}

// ended reports whether the invocation ends at its time-out.
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

// invoke invokes the function once.
func (w *World) invoke(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
	lc, _ := lambdacontext.FromContext(ctx)
	inv := w.invocations[lc.AwsRequestID]
	ctx, inv.cancel = context.WithCancel(ctx)
	defer inv.cancel()
	inv.level = w.scenario.Sink
	p := w.instance()
	p.busy = true
	answer, err := p.handle(context.WithValue(ctx, invocationKey{}, inv), raw)
	p.busy = false
	w.note("#%d answers %v, %v", inv.Number, answer.BatchItemFailures, err)
	w.checkAnswer(inv, answer, err)
	return answer, err
}

// note adds a line to the trace, which is printed with a violation.
func (w *World) note(format string, args ...any) {
	w.trace = append(w.trace, w.sim.Now().Sub(epoch).String()+" "+fmt.Sprintf(format, args...))
}

// tallies is a log handler that reads the tallies of invocations.
type tallies struct {
	slog.Handler // always nil: the log calls only the methods below
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
		In: counts["in"], New: counts["new"], Retry: counts["retry"], Natural: counts["natural"],
		Synthetic: counts["synthetic"], DeadLettered: counts["dead_lettered"], Skipped: counts["skipped"],
		Failed: counts["failed"], Out: counts["out"],
	}
	invocationOf(ctx).tally = &tally
	return nil
}

// faultyFormat reads JSON. On some records it panics, and on others it ends the process.
type faultyFormat struct {
	dedupe.Format
	corrects bool // reads the records that the function cannot read
	safe     bool // no record ends the process
}

func newFormat() dedupe.Format { return newFormatOf("fp") }

// newFormatOf returns a format that finds the fingerprint at a path.
func newFormatOf(fingerprint string) dedupe.Format {
	j, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: fingerprint})
	if err != nil {
		panic(err) // cannot happen: the options are fixed
	}
	return faultyFormat{Format: j}
}

const (
	panicData       = "panic"
	killData        = "kill"
	refusedData     = `"refused"`
	correctableData = `"correctable"`
)

func (f faultyFormat) Read(ctx context.Context, payload []byte) (format.Fields, error) {
	switch {
	case strings.HasPrefix(string(payload), panicData):
		panic("a bug")
	case strings.HasPrefix(string(payload), killData) && !f.safe:
		runtime.Goexit()
	case !f.corrects && strings.Contains(string(payload), correctableData):
		return format.Fields{}, &format.BadRecord{Reason: "not readable yet"}
	}
	return f.Format.Read(ctx, payload)
}

// memorySink is a sink in memory. It tells the judge about its records.
type memorySink struct{ *World }

// memoryTx is a transactional sink in memory. It accepts the same records as memorySink.
type memoryTx struct {
	*memstore.Effects
	sink dedupe.Sink
}

func (s memoryTx) Check(ctx context.Context, o dedupe.Output) error { return s.sink.Check(ctx, o) }

// effect does the effect of a transactional sink in memory.
func (w *World) effect(ctx context.Context, o dedupe.Output) (superseded bool, err error) {
	if err := w.take(ctx, o); err != nil {
		w.refused(ctx, o)
		return false, err
	}
	return false, nil
}

// take is what sinks in memory do with a record.
func (w *World) take(ctx context.Context, o dedupe.Output) error {
	if strings.Contains(string(o.Data), refusedData) {
		w.passOver(o, w.tick())
		return &dedupe.PoisonError{Reason: "refused"}
	}
	w.arrive(invocationOf(ctx), o)
	return nil
}

// MostData is the size of the largest record that a sink accepts, in bytes, including its partition key.
const MostData = 500

func (memorySink) Check(_ context.Context, o dedupe.Output) error {
	if len(o.Data)+len(o.PartitionKey) > MostData {
		return &dedupe.PoisonError{Reason: "too large"}
	}
	return nil
}

func (s memorySink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	return dedupe.SinkFunc(s.take).Send(ctx, outputs)
}

// deadLettersIn returns a store that stores one record at a time, because only one goroutine of an invocation can
// wait in virtual time.
func (w *World) deadLettersIn(objects deadletter.Objects) dedupe.DeadLetterStore {
	return deadletter.New(objects, deadletter.WithConcurrency(1),
		deadletter.WithNotifier(memoryObjects{w}, func(deadletter.Notification, error) {}))
}

// memoryObjects is the storage of a dead-letter store in memory, and its notifier.
type memoryObjects struct{ *World }

func (m memoryObjects) Create(ctx context.Context, name string, content []byte) (created bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if _, found := m.objects[name]; found {
		return false, nil
	}
	m.objects[name] = slices.Clone(content)
	return true, nil
}

func (m memoryObjects) Read(_ context.Context, name string) ([]byte, error) {
	content, found := m.objects[name]
	if !found {
		return nil, fs.ErrNotExist
	}
	return content, nil
}

func (m memoryObjects) Place(name string) deadletter.Place { return deadletter.Place{Key: name} }

func (m memoryObjects) Notify(ctx context.Context, n deadletter.Notification) error {
	c, err := m.begin(ctx, Notify, text(n.Owner))
	if err != nil {
		return err
	}
	m.notifications[n.Owner]++
	return c.end()
}

type text string

func (t text) String() string { return string(t) }

func (w *World) deadLetterInMemory(ctx context.Context, scope, owner string, data []byte) (dedupe.DeadLetter, error) {
	content, err := memoryObjects{w}.Read(ctx, deadletter.Name(scope, owner, data))
	if err != nil {
		return dedupe.DeadLetter{}, err
	}
	return deadletter.Decode(content)
}

// sweep purges all entries whose purge time has passed.
func (w *World) sweep() error {
	if s, ok := w.engine.(LogStore); ok {
		w.purgeLog(s.Log)
		return nil
	}
	for key := range w.keys {
		if err := Purge(w.ctx, w.engine, w.scope, key, w.sim.Now()); err != nil {
			return err
		}
	}
	return nil
}
