package dedupetest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/mutanttest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// mutantVariable names the mutant that a run of the suite is to test instead
// of the engine.
const mutantVariable = "DEDUPETEST_MUTANT"

// mutant breaks one rule, in the store or in the reading of a batch, and names
// the case that must notice.
type mutant struct {
	name       string
	caughtBy   string
	wrapStore  func(Engine) dedupe.Store
	wrapFormat func(dedupe.Format) dedupe.Format
}

var mutants = []mutant{
	{"purge-at-the-window's-end", "records/late-copy-inside-the-window", func(e Engine) dedupe.Store { return shortLived{e.Store} }, nil},
	{"no-time-in-the-condition", "store/purged-entries-are-absent", func(e Engine) dedupe.Store { return timeless{e.Store, map[dedupe.Key]dedupe.Entry{}} }, nil},
	{"no-raised-purge-time", "records/name-outlives-its-derived-entries", func(e Engine) dedupe.Store { return neverRaised{e.Store} }, nil},
	{"synthetic-decided-in-the-batch", "records/synthetic-is-the-ledger's-word", nil, func(f dedupe.Format) dedupe.Format { return &batchDecides{Format: f, seen: map[string]string{}} }},
	{"owner-made-from-the-batch", "records/bisected-batch", func(e Engine) dedupe.Store { return batchOwner{e.Store} }, nil},
	{"owner-compared-after-the-fingerprint", "records/crash-before-the-sink", func(e Engine) dedupe.Store { return fingerprintFirst{e.Store} }, nil},
	{"checkpoint-key-without-scope", "store/checkpoints-are-apart", func(e Engine) dedupe.Store { return scopeless{e.Store} }, nil},
	{"sequences-compared-as-text", "store/checkpoint", func(e Engine) dedupe.Store { return textOrder{e.Store} }, nil},
	{"owner-in-the-condition", "store/owner-is-no-condition", func(e Engine) dedupe.Store { return ownerPuts{e.Store, e.Raw} }, nil},
}

// RunMutants runs the cases that must catch a mutant, each in a process of its
// own, and fails for every mutant that survives. The test that runs the suite
// must be called TestConformance.
func RunMutants(t *testing.T, newEngine func(*testing.T) Engine) {
	newEngine(t) // skips if the engine is missing: a skipped mutant would look like a survivor
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			mutanttest.MustBeCaught(t, mutantVariable, m.name, m.caughtBy)
		})
	}
}

// chosen is the mutant that this run is for; nil: none.
func chosen() *mutant {
	for i := range mutants {
		if mutants[i].name == os.Getenv(mutantVariable) {
			return &mutants[i]
		}
	}
	return nil
}

func mutated(t *testing.T, e Engine) Engine {
	m := chosen()
	if name := os.Getenv(mutantVariable); name != "" && m == nil {
		t.Fatalf("%s: no such mutant: %q", mutantVariable, name)
	}
	if m != nil && m.wrapStore != nil {
		e.Store = m.wrapStore(e)
	}
	return e
}

func mutatedFormat(f dedupe.Format) dedupe.Format {
	if m := chosen(); m != nil && m.wrapFormat != nil {
		return m.wrapFormat(f)
	}
	return f
}

// shortLived lets entries go when the window ends, without the horizon.
type shortLived struct{ dedupe.Store }

func (m shortLived) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	for i := range entries {
		if entries[i].PurgeAt != dedupe.Never {
			entries[i].PurgeAt -= int64(horizon / time.Second)
		}
	}
	return m.Store.PutIfAbsent(ctx, entries)
}

// timeless leaves the end of an entry to the broom.
type timeless struct {
	dedupe.Store
	seen map[dedupe.Key]dedupe.Entry
}

func (m timeless) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	for i, e := range entries {
		if old, ok := m.seen[e.Key]; ok {
			results[i].Existing = &old
			continue
		}
		one, err := m.Store.PutIfAbsent(ctx, entries[i:i+1])
		if err != nil {
			return nil, err
		}
		m.seen[e.Key], results[i] = e, one[0]
	}
	return results, nil
}

// neverRaised says that entries live long enough.
type neverRaised struct{ dedupe.Store }

func (m neverRaised) RaisePurge(_ context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	results := make([]dedupe.RaiseResult, len(raises))
	for i := range results {
		results[i].Raised = true
	}
	return results, nil
}

// batchDecides gives every other fingerprint of a key in one batch a new id,
// without asking the ledger whose the key is.
type batchDecides struct {
	dedupe.Format
	seen map[string]string
}

func (m *batchDecides) fresh() dedupe.Format { return &batchDecides{m.Format, map[string]string{}} }

func (m *batchDecides) Read(payload []byte) (format.Fields, error) {
	fields, err := m.Format.Read(payload)
	if err != nil {
		return fields, err
	}
	first, ok := m.seen[fields.ID]
	if !ok {
		m.seen[fields.ID] = fields.Fingerprint
	} else if first != fields.Fingerprint {
		fields.ID = format.DerivedID(fields.ID, fields.Fingerprint)
	}
	return fields, nil
}

// batchOwner makes the owner of all entries of a call from the first one.
type batchOwner struct{ dedupe.Store }

func (m batchOwner) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	mine := make([]dedupe.Entry, len(entries))
	for i, e := range entries {
		mine[i] = e
		mine[i].Owner = "batch of " + entries[0].Owner
	}
	results, err := m.Store.PutIfAbsent(ctx, mine)
	for i := range results {
		if old := results[i].Existing; old != nil && old.Owner == mine[i].Owner {
			old.Owner = entries[i].Owner
		}
	}
	return results, err
}

// fingerprintFirst sees a copy before it sees itself.
type fingerprintFirst struct{ dedupe.Store }

func (m fingerprintFirst) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results, err := m.Store.PutIfAbsent(ctx, entries)
	for i := range results {
		if old := results[i].Existing; old != nil && old.Fingerprint == entries[i].Fingerprint {
			old.Owner = "somebody"
		}
	}
	return results, err
}

// scopeless keeps one checkpoint for all scopes.
type scopeless struct{ dedupe.Store }

func (m scopeless) ReadCheckpoint(ctx context.Context, k dedupe.CheckpointKey) (*dedupe.Checkpoint, error) {
	k.Scope = "scopeless"
	return m.Store.ReadCheckpoint(ctx, k)
}

func (m scopeless) AdvanceCheckpoint(ctx context.Context, k dedupe.CheckpointKey, c dedupe.Checkpoint) error {
	k.Scope = "scopeless"
	return m.Store.AdvanceCheckpoint(ctx, k, c)
}

// textOrder moves a checkpoint only to a text that is later.
type textOrder struct{ dedupe.Store }

func (m textOrder) AdvanceCheckpoint(ctx context.Context, k dedupe.CheckpointKey, c dedupe.Checkpoint) error {
	old, err := m.ReadCheckpoint(ctx, k)
	if err != nil || old != nil && c.Sequence <= old.Sequence {
		return err
	}
	return m.Store.AdvanceCheckpoint(ctx, k, c)
}

// ownerPuts has OR owner = me in its condition.
type ownerPuts struct {
	dedupe.Store
	raw Raw
}

func (m ownerPuts) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results, err := m.Store.PutIfAbsent(ctx, entries)
	for i := range results {
		if old := results[i].Existing; old != nil && old.Owner == entries[i].Owner {
			if err := m.raw.DropEntry(ctx, entries[i].Scope, entries[i].Key); err != nil {
				return nil, err
			}
			one, err := m.Store.PutIfAbsent(ctx, entries[i:i+1])
			if err != nil {
				return nil, err
			}
			results[i] = one[0]
		}
	}
	return results, err
}
