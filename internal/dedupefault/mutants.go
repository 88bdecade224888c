package dedupefault

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dedupetest"
)

// mutant is the function with one rule for records broken: in what it is made of, or
// round it. It is always the function itself, so that no other one can stand in for it.
type mutant struct {
	name   string
	by     string // the scenario that must find it, with its faults
	as     string // what the violation begins with
	change func(*Scenario)
	wrap   func(w *World, f *function)                       // what the function is made of
	round  func(w *World, f function, product handle) handle // what is round it
	rare   bool                                              // histories need not find it
}

var mutants = []mutant{
	// Deciding.
	{name: "mark-before-work-without-owner", by: "timed-out", as: "G8", wrap: func(_ *World, f *function) { f.store = ownerless{f.store} }},
	{name: "owner-made-from-the-batch", by: "bisected", as: "G8", wrap: func(_ *World, f *function) { f.store = batchOwner{f.store} }},
	{name: "owner-compared-after-the-fingerprint", by: "timed-out", as: "G8", wrap: func(_ *World, f *function) { f.store = fingerprintFirst{f.store} }},
	{name: "owner-in-the-condition", by: "timed-out", as: "G11", wrap: func(w *World, f *function) { f.store = ownerPuts{f.store, w} }},
	{name: "failed-put-taken-for-a-duplicate", by: "copies", as: "G6", change: noCheckpoint, wrap: func(_ *World, f *function) { f.store = failedIsThere{f.store} }},
	{name: "purge-at-the-window's-end", by: "late-copy", as: "G7", wrap: func(_ *World, f *function) { f.store = shortLived{f.store} }},
	{name: "no-raised-purge-time", by: "name-outlives", as: "G7", wrap: func(_ *World, f *function) { f.store = neverRaised{f.store} }},
	{name: "failed-raise-taken-as-raised", by: "name-outlives", as: "G7", rare: true, wrap: func(_ *World, f *function) { f.store = failedIsRaised{f.store} }},
	{name: "raised-for-whoever-has-the-name", by: "name-taken", as: "G7", rare: true, wrap: func(_ *World, f *function) { f.store = raisesForAll{f.store} }},
	{name: "another-id-on-each-attempt", by: "timed-out", as: "G9", wrap: func(_ *World, f *function) { f.format = &renames{Format: f.format} }},

	// Work.
	{name: "work-continued-after-the-first-failure", by: "timed-out", as: "order", wrap: func(_ *World, f *function) { f.sink = goesOn{f.sink} }},
	{name: "partial-failure-taken-as-delivered", by: "timed-out", as: "G6", wrap: func(_ *World, f *function) { f.sink = allDelivered{f.sink} }},
	{name: "failed-keep-taken-as-kept", by: "poison", as: "G6", wrap: func(_ *World, f *function) { f.failures = alwaysKept{f.failures} }},
	{name: "poison-kept-again-on-each-redelivery", by: "poison", as: "notifier", wrap: func(w *World, f *function) { f.failures = &failures{w, w.overwriting()} }},
	{name: "poison-that-blocks", by: "poison", as: "G10", rare: true, wrap: func(_ *World, f *function) { f.failures = neverKept{} }},
	{name: "chunk-before-the-ledger-step-of-the-one-before", by: "copies", as: "order", round: ledgerAhead},

	// Answers.
	{name: "all-failures-named", by: "copies", as: "answer", round: named(func(all []string, failed int) []string { return all[failed:] })},
	{name: "first-of-the-batch-named", by: "copies", as: "answer", round: named(func(all []string, _ int) []string { return all[:1] })},
	{name: "record-after-the-failed-one-named", by: "copies", as: "G6", change: noCheckpoint, round: named(func(all []string, failed int) []string {
		return all[failed+1 : min(failed+2, len(all))]
	})},
	{name: "aggregate-half-reported", by: "aggregates", as: "G6", change: noCheckpoint, wrap: func(w *World, f *function) { f.sink = halfAggregates{f.sink, w} }},

	// Checkpoint.
	{name: "checkpoint-before-the-sink", by: "copies", as: "checkpoint", wrap: func(w *World, f *function) { f.store = checkpointFirst{f.store, w} }},
	{name: "checkpoint-after-the-failed-record", by: "copies", as: "checkpoint", wrap: func(w *World, f *function) { f.sink = checkpointAnyway{f.sink, w, f.store} }},
	{name: "checkpoint-with-parallelization", by: "lanes", as: "checkpoint", change: func(s *Scenario) { s.Checkpoint = true }},
}

func noCheckpoint(s *Scenario) { s.Checkpoint = false }

func (m *mutant) build(w *World, f function) handle {
	if m.wrap != nil {
		m.wrap(w, &f)
	}
	product := f.handler(w)
	if m.round != nil {
		return m.round(w, f, product)
	}
	return product
}

// mostHistories is how many histories may pass before a mutant must be found.
const mostHistories = 10_000

// RunMutants fails for every mutant that survives its scenario and all its faults, or
// is found by something else than the guarantee that it breaks. Where all is to be
// played, so many histories must find it too.
func RunMutants(t *testing.T, newEngine func(*testing.T) dedupetest.Engine) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			by := slices.IndexFunc(Scenarios, func(s Scenario) bool { return s.Name == m.by })
			if by < 0 {
				t.Fatalf("there is no scenario %q", m.by)
			}
			m.mustBeFound(t, Scenarios[by], e)
			if PlayAll() && !m.rare {
				m.mustBeFoundByHistories(t, e)
			}
		})
	}
}

func (m *mutant) mustBeFoundByHistories(t *testing.T, e dedupetest.Engine) {
	for n := range mostHistories {
		h := histories.Example(n)
		if m.change != nil {
			m.change(&h.Scenario)
		}
		if err := h.play(t.Context(), e, m); err != nil {
			t.Logf("found by history %d: %s", n+1, firstLine(err))
			return
		}
	}
	t.Errorf("survived %d histories", mostHistories)
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// mustBeFound plays a scenario without a fault and then with each.
func (m *mutant) mustBeFound(t *testing.T, s Scenario, e dedupetest.Engine) {
	if m.change != nil {
		m.change(&s)
	}
	play := Play{Scenario: s, Engine: e, mutant: m}
	calls, err := play.Run(t.Context())
	found := "without a fault"
	for _, f := range faultsOf(calls) {
		if err != nil {
			break
		}
		play.Plan = f.plan()
		_, err = play.Run(t.Context())
		found = fmt.Sprintf("by %s (%s)", f, calls[f.at])
	}
	if err == nil {
		t.Fatal("survived all faults")
	}
	what := firstLine(err)
	if !strings.HasPrefix(what, m.as+":") {
		t.Fatalf("found %s, but not as a violation of %s: %v", found, m.as, err)
	}
	t.Logf("found %s: %s", found, what)
}

// ownerless keeps entries without their owners: whoever comes second is a copy.
type ownerless struct{ Store }

func (m ownerless) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results, err := m.Store.PutIfAbsent(ctx, entries)
	for i := range results {
		if results[i].Existing != nil {
			results[i].Existing.Owner = ""
		}
	}
	return results, err
}

func (m ownerless) RaisePurge(_ context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return stand(len(raises)), nil // there is no owner to ask for
}

// batchOwner makes the owner of all entries of a call from the first one.
type batchOwner struct{ Store }

func (m batchOwner) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results, err := m.Store.PutIfAbsent(ctx, entries)
	for i := range results {
		if old := results[i].Existing; old != nil && old.Owner == entries[i].Owner && i > 0 {
			old.Owner = "another batch"
		}
	}
	return results, err
}

// fingerprintFirst sees a copy before it sees itself.
type fingerprintFirst struct{ Store }

func (m fingerprintFirst) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results, err := m.Store.PutIfAbsent(ctx, entries)
	for i := range results {
		if old := results[i].Existing; old != nil && old.Fingerprint == entries[i].Fingerprint {
			old.Owner = "somebody"
		}
	}
	return results, err
}

// ownerPuts has OR owner = me in its condition.
type ownerPuts struct {
	Store
	w *World
}

func (m ownerPuts) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	for _, e := range entries {
		if row, ok := m.w.rows[e.Key]; ok && row.Owner == e.Owner {
			if err := m.w.engine.Raw.DropEntry(ctx, e.Scope, e.Key); err != nil {
				return nil, err
			}
		}
	}
	return m.Store.PutIfAbsent(ctx, entries)
}

// failedIsThere takes a put that failed for one whose key was taken.
type failedIsThere struct{ Store }

func (m failedIsThere) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results, err := m.Store.PutIfAbsent(ctx, entries)
	if err != nil {
		results = make([]dedupe.PutResult, len(entries))
	}
	for i, r := range results {
		if err != nil || r.Err != nil {
			there := entries[i]
			there.Owner = "somebody"
			results[i] = dedupe.PutResult{Existing: &there}
		}
	}
	return results, nil
}

// shortLived lets entries go when the window ends, without the horizon.
type shortLived struct{ Store }

func (m shortLived) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	for i := range entries {
		entries[i].PurgeAt -= int64(horizon / time.Second)
	}
	return m.Store.PutIfAbsent(ctx, entries)
}

// neverRaised says that entries live long enough.
type neverRaised struct{ Store }

func (m neverRaised) RaisePurge(_ context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return stand(len(raises)), nil
}

func stand(n int) []dedupe.RaiseResult {
	results := make([]dedupe.RaiseResult, n)
	for i := range results {
		results[i].Raised = true
	}
	return results
}

// failedIsRaised takes a raise that failed for one that took place.
type failedIsRaised struct{ Store }

func (m failedIsRaised) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	results, err := m.Store.RaisePurge(ctx, raises)
	if err != nil {
		results = stand(len(raises))
	}
	for i, r := range results {
		results[i] = dedupe.RaiseResult{Raised: r.Raised || r.Err != nil}
	}
	return results, nil
}

// raisesForAll raises the entry of whoever has the name by now.
type raisesForAll struct{ Store }

func (m raisesForAll) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	if _, err := m.Store.RaisePurge(ctx, raises); err != nil {
		return nil, err
	}
	return stand(len(raises)), nil
}

// renames derives the id from how often it was asked to, too.
type renames struct {
	dedupe.Format
	times int
}

func (m *renames) Rename(payload []byte, oldID, newID string) ([]byte, error) {
	m.times++
	return m.Format.Rename(payload, oldID, fmt.Sprint(newID, m.times))
}

// allDelivered takes a request that was answered for one that delivered all.
type allDelivered struct{ dedupe.Sink }

func (m allDelivered) Send(ctx context.Context, outputs []dedupe.Output) (int, error) {
	_, err := m.Sink.Send(ctx, outputs)
	if err != nil && ctx.Err() != nil {
		return 0, err
	}
	return len(outputs), nil
}

// goesOn sends what comes after the records that failed.
type goesOn struct{ dedupe.Sink }

func (m goesOn) Send(ctx context.Context, outputs []dedupe.Output) (int, error) {
	n, err := m.Sink.Send(ctx, outputs)
	if err != nil && n+1 < len(outputs) {
		_, _ = m.Send(ctx, outputs[n+1:])
	}
	return n, err
}

// halfAggregates takes an aggregate of which a part was delivered for done.
type halfAggregates struct {
	dedupe.Sink
	w *World
}

func (m halfAggregates) Send(ctx context.Context, outputs []dedupe.Output) (int, error) {
	n, err := m.Sink.Send(ctx, outputs)
	for err != nil && n > 0 && m.w.positionOf(outputs[n]).Sequence == m.w.positionOf(outputs[n-1]).Sequence {
		if n++; n == len(outputs) {
			err = nil
		}
	}
	return n, err
}

// checkpointAnyway moves the checkpoint past what was sent, whatever failed.
type checkpointAnyway struct {
	dedupe.Sink
	w     *World
	store Store
}

func (m checkpointAnyway) Send(ctx context.Context, outputs []dedupe.Output) (int, error) {
	n, err := m.Sink.Send(ctx, outputs)
	if err != nil {
		_ = m.w.advanceTo(ctx, m.store, m.w.positionOf(outputs[len(outputs)-1]))
	}
	return n, err
}

// positionOf is where an output comes from.
func (w *World) positionOf(o dedupe.Output) dedupe.Position {
	var p sentPayload
	_ = json.Unmarshal(o.Data, &p) // only good records are sent
	return w.inputOf(p.N).position
}

func (w *World) advanceTo(ctx context.Context, s Store, p dedupe.Position) error {
	key := dedupe.CheckpointKey{Scope: w.scope, Stream: p.Stream, Shard: p.Shard}
	return s.AdvanceCheckpoint(ctx, key, dedupe.Checkpoint{Sequence: p.Sequence, Consumer: consumer})
}

// alwaysKept takes a keep that failed for one that took place.
type alwaysKept struct{ dedupe.DeadLetterStore }

func (m alwaysKept) Put(ctx context.Context, failures []dedupe.DeadLetter) (int, error) {
	_, _ = m.DeadLetterStore.Put(ctx, failures)
	return len(failures), nil
}

// neverKept has no place for poison.
type neverKept struct{}

func (neverKept) Put(context.Context, []dedupe.DeadLetter) (int, error) { return 0, errThrown }

// overwriting is a failure store that makes an object each time.
func (w *World) overwriting() dedupe.DeadLetterStore {
	return w.failuresIn(overwritten{memory{w}})
}

type overwritten struct{ memory }

func (m overwritten) Create(ctx context.Context, name string, content []byte) (bool, error) {
	delete(m.objects, name)
	return m.memory.Create(ctx, name, content)
}

// checkpointFirst moves the checkpoint when the ledger knows a record.
type checkpointFirst struct {
	Store
	w *World
}

func (m checkpointFirst) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results, err := m.Store.PutIfAbsent(ctx, entries)
	if err != nil {
		return nil, err
	}
	return results, m.w.advanceTo(ctx, m.Store, m.w.inputAt(entries[len(entries)-1].Owner).position)
}

// named names other records than the first that failed.
func named(which func(all []string, failed int) []string) func(*World, function, handle) handle {
	return func(_ *World, _ function, product handle) handle {
		return func(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
			answer, err := product(ctx, raw)
			if err != nil || len(answer.BatchItemFailures) == 0 {
				return answer, err
			}
			all, first := sequencesOf(invocationOf(ctx)), answer.BatchItemFailures[0].ItemIdentifier
			answer.BatchItemFailures = nil
			for _, sequence := range which(all, slices.Index(all, first)) {
				answer.BatchItemFailures = append(answer.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: sequence})
			}
			return answer, nil
		}
	}
}

// ledgerAhead has the later half of a batch in the ledger before the other.
func ledgerAhead(w *World, f function, product handle) handle {
	f.sink, f.failures, f.options.Checkpoint = nowhere{}, nowhere{}, false
	decides := f.handler(w)
	return func(ctx context.Context, raw json.RawMessage) (answer events.KinesisEventResponse, err error) {
		var event events.KinesisEvent
		if err := json.Unmarshal(raw, &event); err != nil {
			return answer, err
		}
		event.Records = event.Records[len(event.Records)/2:]
		later, err := json.Marshal(event)
		if err != nil {
			return answer, err
		}
		_, _ = decides(ctx, later) // what fails is for the function to meet
		return product(ctx, raw)
	}
}

// nowhere takes everything, and does nothing with it.
type nowhere struct{}

func (nowhere) Check(dedupe.Output) error { return nil }

func (nowhere) Send(_ context.Context, outputs []dedupe.Output) (int, error) {
	return len(outputs), nil
}

func (nowhere) Put(_ context.Context, failures []dedupe.DeadLetter) (int, error) {
	return len(failures), nil
}
