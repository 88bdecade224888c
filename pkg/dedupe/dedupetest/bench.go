package dedupetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// bench is a Processor over the engine, with a sink and a failure store to
// look into.
type bench struct {
	*fixture
	settings dedupe.Settings
	store    dedupe.Store
	format   dedupe.Format
	sink     *sink
	failures *failures
}

// Window and horizon of a bench.
const (
	window  = 100 * time.Second
	horizon = 10 * time.Second
)

func (f *fixture) bench() *bench {
	f.Helper()
	j, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	f.must(err)
	return &bench{
		fixture: f, store: f.Store, format: mutatedFormat(j), sink: &sink{}, failures: &failures{kept: map[string]dedupe.DeadLetter{}},
		settings: dedupe.Settings{Scope: f.scope, Retention: dedupe.Retention{Window: window, Horizon: horizon}},
	}
}

var (
	stream = dedupe.Stream{Account: "123456789012", Region: "us-east-1", Name: "orders"}
	shard  = "shardId-000000000000"
)

// process runs one invocation. The record n has the sequence number n.
func (b *bench) process(records ...dedupe.Record) dedupe.Result {
	p := dedupe.NewProcessor(b.store, b.newFormat(), b.sink, b.failures, b.settings)
	return p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: records})
}

// newFormat is the format of one invocation.
func (b *bench) newFormat() dedupe.Format {
	if fresh, ok := b.format.(interface{ fresh() dedupe.Format }); ok {
		return fresh.fresh()
	}
	return b.format
}

// done processes and must get through.
func (b *bench) done(records ...dedupe.Record) dedupe.Tally {
	b.Helper()
	r := b.process(records...)
	if r.Failed != "" || r.Err != nil {
		b.Fatalf("failed at %s: %v", r.Failed, r.Err)
	}
	return r.Tally
}

// stuck processes and must fail at a record.
func (b *bench) stuck(failed int, records ...dedupe.Record) dedupe.Result {
	b.Helper()
	r := b.process(records...)
	if r.Failed != fmt.Sprint(failed) || r.Err == nil {
		b.Fatalf("want a failure at %d, got one at %q: %v", failed, r.Failed, r.Err)
	}
	return r
}

// rec is record n of the shard, with an id and a fingerprint; it arrived n
// milliseconds after the epoch.
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

// delivery is one record as the sink got it.
type delivery struct {
	id string
	n  int
}

// sink records what it is sent. A fault is asked before each Send.
type sink struct {
	mu      sync.Mutex
	got     []delivery
	outputs []dedupe.Output
	check   func(dedupe.Output) error
	fault   func(outputs []dedupe.Output) (deliver, answer int, err error)
	limit   int // bytes of a record; 0: none
}

func (s *sink) Check(o dedupe.Output) error {
	if s.check != nil {
		return s.check(o)
	}
	if s.limit > 0 && len(o.Data) > s.limit {
		return &dedupe.PoisonError{Reason: "too large for the sink"}
	}
	return nil
}

func (s *sink) Send(_ context.Context, outputs []dedupe.Output) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deliver, answer, err := len(outputs), len(outputs), error(nil)
	if s.fault != nil {
		deliver, answer, err = s.fault(outputs)
	}
	for _, o := range outputs[:deliver] {
		s.outputs = append(s.outputs, o)
		s.got = append(s.got, deliveryOf(o))
	}
	return answer, err
}

func deliveryOf(o dedupe.Output) delivery {
	var p struct {
		ID string `json:"id"`
		N  int    `json:"n"`
	}
	if err := json.Unmarshal(o.Data, &p); err != nil {
		panic(err) // the suite's own payloads
	}
	if p.ID != o.ID {
		p.ID = fmt.Sprintf("%s, which says that it is %s", p.ID, o.ID)
	}
	return delivery{p.ID, p.N}
}

// crashBefore fails as if the invocation had died before the sink, and
// crashAfter as if after it.
func crashBefore([]dedupe.Output) (int, int, error)  { return 0, 0, errCrash }
func crashAfter(o []dedupe.Output) (int, int, error) { return len(o), 0, errCrash }

var errCrash = errors.New("crash")

// wantDelivered compares all that the sink got so far, in order.
func (b *bench) wantDelivered(want ...delivery) {
	b.Helper()
	if !slices.Equal(b.sink.got, want) {
		b.Errorf("want deliveries %v, got %v", want, b.sink.got)
	}
}

// failures keeps failures by owner.
type failures struct {
	mu     sync.Mutex
	kept   map[string]dedupe.DeadLetter
	fault  func(dedupe.DeadLetter) error
	hidden int // of those kept it does not speak
}

func (s *failures) Put(_ context.Context, failures []dedupe.DeadLetter) (kept int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, failure := range failures {
		if s.fault != nil {
			if err := s.fault(failure); err != nil {
				return i, err
			}
		}
		s.kept[failure.Owner] = failure
	}
	return len(failures) - s.hidden, nil
}

// hooked is a store whose calls can fail, and are counted.
type hooked struct {
	dedupe.Store
	puts, raises, calls int
	reads, moves        int                      // of the checkpoint
	fault               func(dedupe.Entry) error // of a put's answer
	putFail             error                    // of all of PutIfAbsent
	raiseFault          error                    // of a raise's answer
	raiseFail           error                    // of all of RaisePurge
	readFail, moveFail  error                    // of the checkpoint
}

func (h *hooked) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	h.calls++
	h.puts += len(entries)
	results, err := h.Store.PutIfAbsent(ctx, entries)
	if err == nil {
		err = h.putFail
	}
	for i := range results {
		if h.fault != nil && err == nil {
			if lost := h.fault(entries[i]); lost != nil {
				results[i] = dedupe.PutResult{Err: lost}
			}
		}
	}
	return results, err
}

func (h *hooked) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	h.raises += len(raises)
	results, err := h.Store.RaisePurge(ctx, raises)
	if err == nil {
		err = h.raiseFail
	}
	for i := range results {
		if h.raiseFault != nil {
			results[i] = dedupe.RaiseResult{Raised: true, Err: h.raiseFault}
		}
	}
	return results, err
}

func (h *hooked) ReadCheckpoint(ctx context.Context, k dedupe.CheckpointKey) (*dedupe.Checkpoint, error) {
	h.reads++
	c, err := h.Store.ReadCheckpoint(ctx, k)
	if h.readFail != nil {
		return nil, h.readFail
	}
	return c, err
}

func (h *hooked) AdvanceCheckpoint(ctx context.Context, k dedupe.CheckpointKey, c dedupe.Checkpoint) error {
	h.moves++
	if h.moveFail != nil {
		return h.moveFail
	}
	return h.Store.AdvanceCheckpoint(ctx, k, c)
}
