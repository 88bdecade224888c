package sinktest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// memory is a TxSink in memory that counts effects.
type memory struct {
	mu      sync.Mutex
	effects map[string]int
}

func (m *memory) effect(_ context.Context, o dedupe.Output) (bool, error) {
	if bytes.Contains(o.Data, []byte("refused")) {
		return false, &dedupe.PoisonError{Reason: "refused"}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.effects[o.ID]++
	return false, nil
}

func inMemory(testing.TB) TxTarget {
	m := &memory{effects: map[string]int{}}
	records := memstore.NewRecords()
	return TxTarget{
		Sink: memstore.NewEffects(records, m.effect), Entries: records,
		Effects: func(_ testing.TB, id string) int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.effects[id]
		},
		Refused: func(_ testing.TB, id string) []byte { return payload(id, "refused") },
	}
}

func TestTransactionalInMemory(t *testing.T) { Transactional(t, inMemory) }

// broken is a TxSink in memory whose answers a mutant changes.
type broken struct {
	dedupe.TxSink
	transact func(ctx context.Context, inner dedupe.TxSink, t dedupe.Transaction) (dedupe.TxResult, error)
	raise    func(raises []dedupe.RaiseRequest) []dedupe.RaiseResult
}

func (s broken) Transact(ctx context.Context, t dedupe.Transaction) (dedupe.TxResult, error) {
	if s.transact == nil {
		return s.TxSink.Transact(ctx, t)
	}
	return s.transact(ctx, s.TxSink, t)
}

func (s broken) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	if s.raise == nil {
		return s.TxSink.RaisePurge(ctx, raises)
	}
	return s.raise(raises), nil
}

// mutants each break one rule. The cases of each must find it. Mutants that need requests of DynamoDB are in package
// dynamosink.
var mutants = []struct {
	name     string
	breaks   func(*TxTarget)
	caughtBy []string
}{
	{"mine-taken-for-done", doing(func(ctx context.Context, inner dedupe.TxSink, t dedupe.Transaction) (dedupe.TxResult, error) {
		result, err := inner.Transact(ctx, t)
		if result.Existing != nil && result.Existing.Owner == t.Entry.Owner.Digest() {
			result.Existing.Done = true
		}
		return result, err
	}), []string{"entry-of-a-stream-sink", "processor/switched-from-a-stream-sink"}},
	{"done-not-stored", doing(func(ctx context.Context, inner dedupe.TxSink, t dedupe.Transaction) (dedupe.TxResult, error) {
		result, err := inner.Transact(ctx, t)
		if result.Existing != nil {
			result.Existing.Done = false
		}
		return result, err
	}), []string{"found-entry"}},
	{"owner-in-the-condition", doing(func(ctx context.Context, inner dedupe.TxSink, t dedupe.Transaction) (dedupe.TxResult, error) {
		result, err := inner.Transact(ctx, t)
		if result.Existing != nil && result.Existing.Owner == t.Entry.Owner.Digest() {
			t.Entry.Scope += "-again" // another entry: the effect happens again
			return inner.Transact(ctx, t)
		}
		return result, err
	}), []string{"found-entry", "processor/lost-replies"}},
	{"effect-before-the-entry", func(target *TxTarget) {
		inner := target.Sink.(*memstore.Effects)
		effect := inner.Effect
		inner.Effect = func(context.Context, dedupe.Output) (bool, error) { return false, nil }
		target.Sink = broken{TxSink: inner, transact: func(ctx context.Context, inner dedupe.TxSink, t dedupe.Transaction) (dedupe.TxResult, error) {
			if superseded, err := effect(ctx, t.Output); err != nil {
				return dedupe.TxResult{Superseded: superseded}, err
			}
			return inner.Transact(ctx, t)
		}}
	}, []string{"found-entry", "race-for-an-entry", "processor/lost-replies"}},
	{"entry-put-before-a-refused-effect", doing(func(ctx context.Context, inner dedupe.TxSink, t dedupe.Transaction) (dedupe.TxResult, error) {
		result, err := inner.Transact(ctx, t)
		if err != nil {
			t.Output.Data = nil
			_, _ = inner.Transact(ctx, t)
		}
		return result, err
	}), []string{"refused-effect"}},
	{"several-records-in-a-transaction", packed, []string{"processor/refused-alone"}},
	{"no-raise", func(target *TxTarget) {
		target.Sink = broken{TxSink: target.Sink, raise: func(raises []dedupe.RaiseRequest) []dedupe.RaiseResult {
			return slices.Repeat([]dedupe.RaiseResult{{Raised: true}}, len(raises))
		}}
	}, []string{"raised-purge-time", "processor/name-outlives-its-derived-ids"}},
	{"partition-keys-forgotten", func(target *TxTarget) {
		target.batch = func(b dedupe.Batch) dedupe.Batch {
			b.Records = slices.Clone(b.Records)
			for i := range b.Records {
				b.Records[i].PartitionKey = ""
			}
			return b
		}
	}, []string{"processor/order-of-a-partition-key"}},
	{"no-time-in-the-condition", doing(func(ctx context.Context, inner dedupe.TxSink, t dedupe.Transaction) (dedupe.TxResult, error) {
		if !t.Finish {
			t.Entry.Arrival = epoch
		}
		return inner.Transact(ctx, t)
	}), []string{"purged-entry"}},
}

func doing(transact func(context.Context, dedupe.TxSink, dedupe.Transaction) (dedupe.TxResult, error)) func(*TxTarget) {
	return func(target *TxTarget) { target.Sink = broken{TxSink: target.Sink, transact: transact} }
}

// packed makes a record succeed or fail together with the record before it, like records in one transaction.
func packed(target *TxTarget) {
	var mu sync.Mutex
	var fate error
	doing(func(ctx context.Context, inner dedupe.TxSink, t dedupe.Transaction) (dedupe.TxResult, error) {
		mu.Lock()
		defer mu.Unlock()
		if err := fate; err != nil {
			fate = nil
			return dedupe.TxResult{}, err
		}
		result, err := inner.Transact(ctx, t)
		fate = err
		return result, err
	})(target)
}

func TestMutants(t *testing.T) {
	t.Parallel()
	cases := TransactionalCases()
	for _, m := range mutants {
		for _, name := range m.caughtBy {
			t.Run(m.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				i := slices.IndexFunc(cases, func(c TxCase) bool { return c.Name == name })
				target := inMemory(t)
				m.breaks(&target)
				mutanttest.MustFail(t, func(tb testing.TB) { cases[i].Run(tb, target) })
			})
		}
	}
}

// The level "at least once": a sink that keeps records, and its mutants.

type kept struct {
	mu   sync.Mutex
	data [][]byte
}

func (k *kept) Check(_ context.Context, o dedupe.Output) error {
	if len(o.Data) > 1000 {
		return &dedupe.PoisonError{Reason: "too large"}
	}
	return nil
}

func (k *kept) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	if ctx.Err() != nil {
		return dedupe.Sent{}, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return dedupe.SinkFunc(func(_ context.Context, o dedupe.Output) error {
		if bytes.Contains(o.Data, []byte("refused")) {
			return &dedupe.PoisonError{Reason: "refused"}
		}
		k.data = append(k.data, o.Data)
		return nil
	}).Send(ctx, outputs)
}

func keeping(testing.TB) Target {
	k := &kept{}
	return Target{
		Sink: k, Poison: &dedupe.Output{ID: "large", Data: make([]byte, 1001)},
		Refused: func(id string) []byte { return payload(id, "refused") },
		Read: func(testing.TB) [][]byte {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.data
		},
	}
}

func TestAtLeastOnceInMemory(t *testing.T) { AtLeastOnce(t, keeping) }

// sends is a sink whose Send a mutant changes.
type sends struct {
	dedupe.Sink
	send func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error)
}

func (s sends) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	return s.send(ctx, s.Sink, outputs)
}

func TestMutantsAtLeastOnce(t *testing.T) {
	t.Parallel()
	cases := AtLeastOnceCases()
	for _, m := range []struct {
		caughtBy string
		send     func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error)
	}{
		{"delivers-all", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			_, err := inner.Send(ctx, outputs[:min(len(outputs), 500)]) // one request
			return dedupe.Sent{}, err
		}},
		{"delivers-all", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			sent, err := inner.Send(ctx, outputs)
			sent.Delivered = make([]bool, 1)
			return sent, err
		}},
		{"nothing-to-send", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			if len(outputs) == 0 {
				return dedupe.Sent{}, errors.New("nothing to send")
			}
			return inner.Send(ctx, outputs)
		}},
		{"context-that-has-ended", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			_, _ = inner.Send(ctx, outputs)
			return dedupe.Sent{}, nil
		}},
		{"context-that-has-ended", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			if ctx.Err() == nil {
				return inner.Send(ctx, outputs)
			}
			poison := &dedupe.PoisonError{Reason: "the time is over"} // what is not now is taken for never
			return dedupe.Sent{Refused: slices.Repeat([]*dedupe.PoisonError{poison}, len(outputs))}, nil
		}},
		{"context-that-has-ended", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			sent, err := inner.Send(ctx, outputs)
			return sent, errors.Join(err, ctx.Err(), &dedupe.PoisonError{Reason: "the time is over"})
		}},
		{"refused-alone", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			sent, err := inner.Send(ctx, outputs)
			if i := slices.IndexFunc(sent.Refused, func(r *dedupe.PoisonError) bool { return r != nil }); i >= 0 {
				sent.Refused, err = nil, errors.New("refused") // never is taken for not now
			}
			return sent, err
		}},
		{"refused-alone", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			sent, err := inner.Send(ctx, outputs)
			for i, r := range sent.Refused {
				sent.Delivered[i] = sent.Delivered[i] || r != nil
			}
			return sent, err
		}},
		{"several-sends-at-once", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			_, err := inner.Send(ctx, outputs[:len(outputs)/2])
			return dedupe.Sent{}, err
		}},
		{"sent-again", func(ctx context.Context, inner dedupe.Sink, outputs []dedupe.Output) (dedupe.Sent, error) {
			k := inner.(*kept)
			k.mu.Lock()
			again := len(k.data) > 0
			k.mu.Unlock()
			if again {
				return dedupe.Sent{}, errors.New("there already")
			}
			return inner.Send(ctx, outputs)
		}},
	} {
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == m.caughtBy })
		target := keeping(t)
		target.Sink = sends{target.Sink, m.send}
		mutanttest.MustFail(t, func(tb testing.TB) { cases[i].Run(tb, target) })
	}
}
