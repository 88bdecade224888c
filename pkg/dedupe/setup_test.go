package dedupe_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// fixture is the environment of a case: an engine, and perhaps a mutant that the case must find.
type fixture struct {
	testing.TB
	store  dedupe.Store
	mutant *dedupefault.Mutant
}

// bench is a Processor in its own scope, with a sink and a dead-letter store in memory.
type bench struct {
	*fixture
	ctx         context.Context
	settings    dedupe.Settings
	acks        bool
	clock       *clock
	format      dedupe.Format
	sink        *sink
	tx          dedupe.TxSink     // instead of sink
	objects     dedupe.ObjectSink // instead of sink
	framing     dedupe.Framing
	deadLetters *deadLetters

	hook   dedupefault.Hook // runs at the calls of store, sink and dead-letter store; may be nil
	broken dedupefault.Hook // of the mutant
	calls  map[dedupefault.Method]int
	noDate bool // the engine does not say its time with a put; otherwise it has the time of the bench
	puts   int  // number of entries in calls of PutIfAbsent
}

// The retention of a bench.
const (
	window  = 100 * time.Second
	horizon = 10 * time.Second
)

// epoch is the time of the tests. It is far in the future, so that an engine that deletes by real time deletes nothing.
var epoch = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

var (
	stream = dedupe.Stream{Account: "123456789012", Region: "us-east-1", Name: "orders"}
	shard  = "shardId-000000000000"
)

func (f *fixture) bench() *bench {
	f.Helper()
	j, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	f.must(err)
	keep := dedupe.Retention{Window: window, Horizon: horizon}
	return &bench{
		fixture: f, ctx: f.Context(), format: j,
		settings: dedupe.Settings{Scope: "t-" + strings.ToLower(rand.Text()), Retention: keep, Sink: "s", Consumer: "me"},
		clock:    &clock{now: epoch.AddDate(-1, 0, 0)}, // a year early, so that pauses move no record past the horizon
		sink:     &sink{}, deadLetters: &deadLetters{byOwner: map[string]dedupe.DeadLetter{}},
		broken: f.mutant.HookIn(dedupefault.Env{Engine: f.store, Store: f.store, Retention: keep}),
		calls:  map[dedupefault.Method]int{},
	}
}

func (f *fixture) withAcks() *bench {
	f.Helper()
	b := f.bench()
	b.acks = true
	return b
}

// clock is the time of a bench. Pauses take no real time.
type clock struct {
	now    time.Time
	pauses int
}

func (c *clock) pause(ctx context.Context, limit time.Duration) error {
	c.now, c.pauses = c.now.Add(limit), c.pauses+1
	return ctx.Err()
}

// inTurn returns a dedupe.Clock that runs one thing at a time, so that hooks need no lock.
func (c *clock) inTurn() dedupe.Clock {
	return dedupe.Clock{
		Now: func() time.Time { return c.now }, Pause: c.pause, Both: func(f, g func()) { f(); g() },
		Each: func(n, _ int, f func(int)) {
			for i := range n {
				f(i)
			}
		},
	}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// hookedStore is the engine with the bench's hook and the mutant before it.
func (b *bench) hookedStore() dedupe.Store {
	return dedupefault.HookStore(dedupefault.HookStore(b.store, b.called), b.broken)
}

func (b *bench) called(ctx context.Context, c *dedupefault.Call) error {
	b.calls[c.Method]++
	b.puts += len(c.Entries)
	hook := b.hook
	if hook == nil {
		hook = func(ctx context.Context, c *dedupefault.Call) error { return c.Do(ctx) }
	}
	err := hook(ctx, c)
	c.Date = b.clock.now
	for i := range c.Puts {
		if c.Puts[i].Date = b.clock.now; b.noDate {
			c.Puts[i].Date = time.Time{}
		}
	}
	return err
}

// process runs one invocation of the first shard.
func (b *bench) process(records ...dedupe.Record) dedupe.Result {
	return b.processor().Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: records})
}

func (b *bench) processor() *dedupe.Processor {
	b.Helper()
	store, settings := b.hookedStore(), b.settings
	settings.Clock = b.clock.inTurn()
	parts := dedupe.Parts{
		Ledger: store, Format: b.mutant.FormatOf(b.format),
		Sink:        dedupefault.HookSink(dedupefault.HookSink(b.sink, b.called), b.broken),
		DeadLetters: dedupefault.HookDeadLetters(dedupefault.HookDeadLetters(b.deadLetters, b.called), b.broken),
	}
	parts.Framing, parts.Objects = b.mutant.FramingOf(b.framing), b.objects
	if b.tx != nil {
		parts.Tx = dedupefault.HookTx(b.tx, b.broken)
	}
	if b.tx != nil || b.objects != nil {
		parts.Sink = nil
	}
	if b.acks {
		parts.Acks, parts.Consumers = store, store
	}
	p, err := dedupe.NewProcessor(parts, settings)
	b.must(err)
	return p
}

func (b *bench) decider(store dedupe.Ledger) *dedupe.Decider {
	return &dedupe.Decider{
		Ledger: store, Scope: b.settings.Scope, Retention: b.settings.Retention, Clock: b.clock.inTurn(),
	}
}

// done processes a batch, and fails the test unless all of it is done.
func (b *bench) done(records ...dedupe.Record) dedupe.Tally {
	b.Helper()
	r := b.process(records...)
	if r.Failed != "" || r.Err != nil {
		b.Fatalf("failed at %s: %v", r.Failed, r.Err)
	}
	return r.Tally
}

// fails processes a batch, and fails the test unless it fails at the given record.
func (b *bench) fails(failed int, records ...dedupe.Record) dedupe.Result {
	b.Helper()
	r := b.process(records...)
	if r.Failed != fmt.Sprint(failed) || r.Err == nil {
		b.Fatalf("want a failure at %d, got one at %q: %v", failed, r.Failed, r.Err)
	}
	return r
}

func (b *bench) wantTally(got, want dedupe.Tally) {
	b.Helper()
	if got != want {
		b.Errorf("want tally %+v, got %+v", want, got)
	}
}

// rec is record n of the shard: its sequence number is n, and it arrives n milliseconds after the epoch.
func rec(n int, id, fp string) dedupe.Record {
	return recAt(n, time.Duration(n)*time.Millisecond, id, fp)
}

func recAt(n int, arrival time.Duration, id, fp string) dedupe.Record {
	return dedupe.Record{
		Sequence: fmt.Sprint(n), PartitionKey: "pk", Arrival: epoch.Add(arrival), Data: payload(n, id, fp),
	}
}

func payload(n int, id, fp string) []byte {
	return fmt.Appendf(nil, `{"id":%q,"fp":%q,"n":%d}`, id, fp, n)
}

// rawRec is record n of the shard with any data.
func rawRec(n int, data string) dedupe.Record {
	return dedupe.Record{Sequence: fmt.Sprint(n), PartitionKey: "pk", Arrival: epoch, Data: []byte(data)}
}

// aggregate is record n of the shard: a KPL aggregate of payloads.
func aggregate(n int, payloads ...[]byte) dedupe.Record {
	var e kpl.Encoder
	for _, p := range payloads {
		e.Add(kpl.UserRecord{PartitionKey: []byte("own"), ExplicitHashKey: []byte("7"), Data: p})
	}
	return dedupe.Record{Sequence: fmt.Sprint(n), PartitionKey: "pk", Arrival: epoch, Data: e.Bytes()}
}

// entry is an entry in the bench's scope that lives for an hour.
func (b *bench) entry(id, owner string, arrival time.Time) dedupe.Entry {
	return dedupe.Entry{
		Scope: b.settings.Scope, Key: format.KeyOf(id), Owner: ownerNamed(owner), Fingerprint: "fp of " + owner, Version: "v1",
		Arrival: arrival, PurgeAt: dedupe.Retention{Window: time.Hour}.PurgeAt(arrival),
	}
}

func ownerNamed(name string) dedupe.Owner { return dedupe.Owner{Sequence: name, Sub: dedupe.Plain} }

// put puts an entry and returns the existing one, if there was one.
func (b *bench) put(e dedupe.Entry) *dedupe.Existing {
	b.Helper()
	results, err := b.store.PutIfAbsent(b.ctx, []dedupe.Entry{e})
	b.must(err)
	b.must(results[0].Err)
	return results[0].Existing
}

// purge deletes the entries of ids whose purge time has passed at a time after the epoch.
func (b *bench) purge(now time.Duration, ids ...string) {
	b.Helper()
	for _, id := range ids {
		b.must(dedupefault.Purge(b.ctx, b.store, b.settings.Scope, format.KeyOf(id), epoch.Add(now)))
	}
}

// delivery is a record as the sink got it.
type delivery struct {
	id string
	n  int
}

// sink records the outputs that it gets.
type sink struct {
	mu      sync.Mutex
	got     []delivery
	outputs []dedupe.Output
	check   func(dedupe.Output) error
	raw     bool // only outputs are kept, because their data are not records of the tests
	// answers says for the numbers of records why the sink does not deliver them. It refuses those with a PoisonError.
	answers map[int]error
}

func (s *sink) Check(_ context.Context, o dedupe.Output) error {
	if s.check == nil {
		return nil
	}
	return s.check(o)
}

func (s *sink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answers != nil {
		return dedupe.SinkFunc(s.answer).AtOnce(1).Send(ctx, outputs)
	}
	s.outputs = append(s.outputs, outputs...)
	if s.raw {
		return dedupe.Sent{}, nil
	}
	for _, o := range outputs {
		s.got = append(s.got, deliveryOf(o))
	}
	return dedupe.Sent{}, nil
}

func (s *sink) answer(_ context.Context, o dedupe.Output) error {
	d := deliveryOf(o)
	err := s.answers[d.n]
	if err == nil {
		s.got = append(s.got, d)
	}
	return err
}

func deliveryOf(o dedupe.Output) delivery {
	var p struct {
		ID string `json:"id"`
		N  int    `json:"n"`
	}
	if err := json.Unmarshal(o.Data, &p); err != nil {
		panic(err) // the tests make all payloads
	}
	if p.ID != o.ID {
		p.ID = fmt.Sprintf("%s, which says that it is %s", p.ID, o.ID)
	}
	return delivery{p.ID, p.N}
}

// wantDelivered compares all records that the sink has got so far, in order.
func (b *bench) wantDelivered(want ...delivery) {
	b.Helper()
	if !slices.Equal(b.sink.got, want) {
		b.Errorf("want deliveries %v, got %v", want, b.sink.got)
	}
}

// deadLetters stores dead letters by owner.
type deadLetters struct {
	mu      sync.Mutex
	byOwner map[string]dedupe.DeadLetter
}

func (s *deadLetters) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range letters {
		s.byOwner[l.Owner] = l
	}
	return len(letters), nil
}

// wantDeadLetters compares the numbers of the dead-lettered records.
func (b *bench) wantDeadLetters(want ...int) {
	b.Helper()
	if len(b.deadLetters.byOwner) != len(want) {
		b.Errorf("want dead letters %v, got %d", want, len(b.deadLetters.byOwner))
	}
	for _, n := range want {
		owner := dedupe.Position{Stream: stream, Shard: shard, Sequence: fmt.Sprint(n), Sub: dedupe.Plain}.Owner().String()
		letter, found := b.deadLetters.byOwner[owner]
		if !found || letter.Reason == "" || len(letter.Data) == 0 || letter.Position.Sequence != fmt.Sprint(n) {
			b.Errorf("record %d is not dead-lettered whole: %+v", n, letter)
		}
	}
}

// errCrash simulates the end of an invocation.
var errCrash = errors.New("crash")

// failBefore makes the calls of a method fail without an effect.
func failBefore(method dedupefault.Method, err error) dedupefault.Hook {
	return func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == method {
			return err
		}
		return c.Do(ctx)
	}
}

// failAfter makes the calls of a method fail after their effect.
func failAfter(method dedupefault.Method, err error) dedupefault.Hook {
	return func(ctx context.Context, c *dedupefault.Call) error {
		fault := c.Do(ctx)
		if c.Method == method {
			c.Done, c.Sent, fault = 0, dedupe.Sent{}, err
		}
		return fault
	}
}

// sends makes a sink deliver a number of records, and report only the first one as delivered, with an error.
func sends(deliver int, err error) dedupefault.Hook {
	return func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method != dedupefault.Send {
			return c.Do(ctx)
		}
		asked := len(c.Outputs)
		c.Outputs = c.Outputs[:deliver]
		if fault := c.Do(ctx); fault != nil {
			return fault
		}
		c.Sent = dedupefault.FirstDelivered(1, asked)
		return err
	}
}

// failingFormat is a Format that fails for payloads that contain a text.
type failingFormat struct {
	dedupe.Format
	text string
	err  error
}

func (f failingFormat) Read(ctx context.Context, payload []byte) (format.Fields, error) {
	if strings.Contains(string(payload), f.text) {
		return format.Fields{}, f.err
	}
	return f.Format.Read(ctx, payload)
}
