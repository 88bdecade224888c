package objectfault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/eventsource"
	"github.com/oncebox/oncebox/internal/memobjects"
	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

const (
	streamARN  = "arn:aws:kinesis:eu-central-1:123456789012:stream/orders"
	controlARN = "arn:aws:kinesis:eu-central-1:123456789012:stream/control"
	scope      = "s"
	// maxEnd is how long the end of a play may take.
	maxEnd = 24 * time.Hour
)

var (
	epoch     = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
	retention = dedupe.Retention{Window: 1000 * time.Hour, Horizon: 1000 * time.Hour}
	errThrown = errors.New("thrown")
	stream    = dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "orders"}
)

// world is a stream, a mapping, and the function with its containers, while they play a history.
type world struct {
	history
	mutant *Mutant

	sim             *eventsource.Sim
	stream, control *eventsource.Stream
	poller          *eventsource.Poller
	checkpoint      *eventsource.Checkpoint
	ledger          dedupe.Ledger
	objects         objectsink.Storage
	containers      []*container
	delayed         []func() // puts that take effect after their failures

	inputs  []*input
	letters map[string]dedupe.DeadLetter // by the names of their objects
	givenUp []eventsource.Discard
	calm    bool // no more faults
	trace   []string
}

// container is a process of the function. It remembers the state of its sink.
type container struct {
	handler   *recordhandler.Handler
	processor *dedupe.Processor
}

// input is a record of a producer.
type input struct {
	n      int
	id, fp string
	broken bool // poison, until a redrive corrects it
}

// play plays the history of a seed with an empty storage. Its error names the broken guarantee and all events.
func play(seed uint64, m *Mutant, objects objectsink.Storage) error {
	w := &world{
		history: newHistory(seed), mutant: m, sim: eventsource.NewSim(epoch, seed), checkpoint: new(eventsource.Checkpoint),
		objects: objects, letters: map[string]dedupe.DeadLetter{},
	}
	defer w.sim.Close()
	w.ledger = shakyLedger{memstore.NewRecords(), w}
	w.stream = eventsource.NewStream(w.shards, w.sim.Now)
	w.control = eventsource.NewStream(1, w.sim.Now)
	w.sim.Fate = w.fate
	err := w.run()
	if err == nil {
		err = w.judge()
	}
	if err != nil {
		return fmt.Errorf("%w\nall that happened (seed %d, %+v):\n  %s", err, seed, w.history, strings.Join(w.trace, "\n  "))
	}
	return nil
}

func (w *world) run() error {
	if err := w.start(); err != nil {
		return err
	}
	control := eventsource.Mapping{
		Client: w.control, StreamARN: controlARN, Function: w.redriveSome, BatchSize: 1, Timeout: timeout, RecordAge: time.Minute,
	}
	if _, err := w.sim.Start(control); err != nil {
		return err
	}
	for len(w.inputs) < w.records {
		if err := w.step(); err != nil {
			return err
		}
	}
	w.calm = w.chance(0.5) // otherwise faults continue to the end, and batches are given up
	if err := w.sim.Drain(maxEnd); err != nil {
		return err
	}
	w.calm = true
	w.note("end")
	w.settle()
	for range 2 { // the second redrive must change nothing
		if err := w.redriveAll(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) start() (err error) {
	w.poller, err = w.sim.Start(w.mapping())
	return err
}

func (w *world) mapping() eventsource.Mapping {
	return eventsource.Mapping{
		Client: w.stream, StreamARN: streamARN, Function: w.function, BatchSize: w.batchSize, Reading: w.reading,
		ReportBatchItemFailures: true, Bisect: true, Retries: &w.retries, RecordAge: 20 * time.Minute, Timeout: timeout,
		Checkpoint: w.checkpoint, PollPause: 2 * time.Second, Retention: 0,
		OnFailure: func(_ context.Context, d eventsource.Discard) error {
			w.note("given up: %s %d records from %s", d.Shard, len(d.Records), *d.Records[0].SequenceNumber)
			w.givenUp = append(w.givenUp, d)
			return nil
		},
	}
}

// put puts one record of a producer into the stream, or several in an aggregate.
func (w *world) put() {
	n := 1
	if w.chance(0.3) {
		n = 1 + w.sim.Rand.IntN(3)
	}
	var e kpl.Encoder
	var data []byte
	for range n {
		in := &input{
			n: len(w.inputs), id: oneOf(w.sim.Rand, "a", "b", "c", fmt.Sprint("own-", len(w.inputs)), fmt.Sprint("own-", len(w.inputs))),
			fp: oneOf(w.sim.Rand, "x", "y"), broken: w.chance(0.1),
		}
		w.inputs = append(w.inputs, in)
		data = in.data(in.broken)
		e.Add(kpl.UserRecord{PartitionKey: []byte("own"), Data: data})
	}
	if n > 1 {
		data = e.Bytes()
	}
	shard, sequence := w.stream.Put(fmt.Sprint("key-", w.sim.Rand.IntN(4)), data)
	w.note("put %s %s: %d records up to %d", shard, sequence, n, len(w.inputs)-1)
}

// payload is the data of a record.
type payload struct {
	N  int    `json:"n"`
	ID string `json:"id"`
}

func (in *input) data(broken bool) []byte {
	if broken {
		return fmt.Appendf(nil, `{"n":%d}`, in.n)
	}
	return fmt.Appendf(nil, `{"id":%q,"fp":%q,"n":%d}`, in.id, in.fp, in.n)
}

// container returns the process for an invocation: an existing process, or a new one.
func (w *world) container() *container {
	if len(w.containers) > 0 && !w.chance(w.cold) {
		return oneOf(w.sim.Rand, w.containers...)
	}
	storage := memobjects.Hooked(w.objects, w.breakCall)
	if w.mutant != nil && w.mutant.Hook != nil {
		storage = memobjects.Hooked(storage, w.mutant.Hook)
	}
	sink, err := objectsink.New(storage, objectsink.Options{
		Encoding:   objectsink.Encoding{Compression: objectsink.Uncompressed},
		ObjectSize: w.objectSize, HintEvery: w.hintEvery, Clock: w.clock(),
	})
	if err != nil {
		panic(err) // cannot happen: the options are fixed
	}
	var objects dedupe.ObjectSink = sink
	if w.mutant != nil && w.mutant.Sink != nil {
		objects = w.mutant.Sink(objects, storage)
	}
	reader, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	if err != nil {
		panic(err)
	}
	parts := dedupe.Parts{Ledger: w.ledger, Format: reader, Objects: objects, DeadLetters: letterStore{w}}
	handler, err := recordhandler.New(parts, recordhandler.Options{
		Scope: scope, Retention: retention, Chunk: w.chunk, Sink: recordhandler.SinkSetting{Own: "memory"}, NoAcks: true,
		Clock: w.clock(),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	processor, err := dedupe.NewProcessor(parts, dedupe.Settings{
		Scope: scope, Retention: retention, Chunk: w.chunk, Clock: w.clock(),
	})
	if err != nil {
		panic(err)
	}
	c := &container{handler, processor}
	w.containers = append(w.containers, c)
	return c
}

// clock returns a clock of virtual time. If the function may do two things at the same time, the seed decides which
// comes first.
func (w *world) clock() dedupe.Clock {
	return dedupe.Clock{
		Now: w.sim.Now,
		Pause: func(ctx context.Context, limit time.Duration) error {
			w.wait(ctx, limit)
			return ctx.Err()
		},
		Both: func(f, g func()) {
			if w.chance(0.5) {
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

type insideKey struct{}

// wait lets time pass and other invocations run, if the caller is an invocation. It ends an invocation that runs much
// longer than a real invocation can.
func (w *world) wait(ctx context.Context, d time.Duration) {
	begun, inside := ctx.Value(insideKey{}).(time.Time)
	if !inside {
		return
	}
	eventsource.Wait(ctx, d)
	if w.sim.Now().Sub(begun) > 5*timeout {
		runtime.Goexit()
	}
}

func (w *world) function(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
	ctx = context.WithValue(ctx, insideKey{}, w.sim.Now())
	answer, err := w.container().handler.Handle(ctx, event)
	w.note("answer %v %v", answer.BatchItemFailures, err)
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// redriveSome redrives some of the dead letters, as an operator does while the function runs.
func (w *world) redriveSome(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	ctx = context.WithValue(ctx, insideKey{}, w.sim.Now())
	return nil, w.redriveAll(ctx)
}

// redriveAll redrives all dead letters, and corrects poison records.
func (w *world) redriveAll(ctx context.Context) error {
	for _, d := range slices.Clone(w.givenUp) {
		if !w.calm && w.chance(0.3) {
			continue
		}
		batch := dedupe.Batch{Stream: stream, Shard: d.Shard}
		for _, r := range d.Records {
			batch.Records = append(batch.Records, dedupe.Record{
				Sequence: *r.SequenceNumber, PartitionKey: *r.PartitionKey, Arrival: *r.ApproximateArrivalTimestamp, Data: r.Data,
			})
		}
		r := w.container().processor.Process(ctx, batch)
		w.note("redrive of a batch of %s from %s: %+v %v", d.Shard, batch.Records[0].Sequence, r.Tally, r.Err)
		if r.Err != nil && w.calm {
			return r.Err
		}
	}
	for _, name := range sortedNames(w.letters) {
		letter := w.letters[name]
		if !w.calm && w.chance(0.3) {
			continue
		}
		if w.calm || w.chance(0.7) {
			letter.Data = w.inputOf(letter.Data).data(false)
		}
		r := w.container().processor.Redrive(ctx, letter, name)
		w.note("redrive of %s: %+v %v", name, r.Tally, r.Err)
		if r.Err != nil && w.calm {
			return r.Err
		}
	}
	return nil
}

func sortedNames(letters map[string]dedupe.DeadLetter) (names []string) {
	for name := range letters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (w *world) inputOf(data []byte) *input {
	var payload payload
	if err := json.Unmarshal(data, &payload); err != nil {
		panic(err) // cannot happen: all data is made here
	}
	return w.inputs[payload.N]
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, w.sim.Now().Sub(epoch).String()+" "+fmt.Sprintf(format, args...))
}

// letterStore is a dead-letter store in memory.
type letterStore struct{ *world }

func (s letterStore) Put(ctx context.Context, letters []dedupe.DeadLetter) (int, error) {
	for i, l := range letters {
		if s.troubled() {
			return i, fmt.Errorf("%w: dead letters", dedupe.ErrTryAgain)
		}
		s.letters[strings.NewReplacer("/", "_", "#", "_").Replace(l.Owner)] = l
		if s.troubled() {
			s.wait(ctx, timeout)
		}
	}
	return len(letters), nil
}

// shakyLedger is a ledger that fails at times, before or after its effect.
type shakyLedger struct {
	*memstore.Records
	w *world
}

func (l shakyLedger) Enter(ctx context.Context, q dedupe.Question) (answers []dedupe.Answer, err error) {
	if l.w.troubled() {
		l.w.wait(ctx, oneOf(l.w.sim.Rand, 0, time.Second, timeout))
	}
	if l.w.troubled() {
		err = errThrown
		q.Records = q.Records[:l.w.sim.Rand.IntN(len(q.Records)+1)]
	}
	if answers, _ = l.Records.Enter(ctx, q); err != nil {
		return nil, err
	}
	return answers, ctx.Err()
}

func (w *world) troubled() bool { return !w.calm && w.chance(w.trouble) }
