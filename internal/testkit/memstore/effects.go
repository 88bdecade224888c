package memstore

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Effects is a dedupe.TxSink in memory, on the entries of a Records. It is safe for concurrent use.
type Effects struct {
	records *Records
	// Effect does the effect of an output, inside the transaction. Its error undoes the transaction.
	Effect func(ctx context.Context, o dedupe.Output) (superseded bool, err error)
}

var _ dedupe.TxSink = (*Effects)(nil)

// NewEffects returns a TxSink whose effects are calls of a function, one at a time. The function must not use r.
func NewEffects(r *Records, effect func(context.Context, dedupe.Output) (superseded bool, err error)) *Effects {
	return &Effects{records: r, Effect: effect}
}

// Check accepts every output.
func (*Effects) Check(context.Context, dedupe.Output) error { return nil }

// Transact implements dedupe.TxSink.
func (s *Effects) Transact(ctx context.Context, t dedupe.Transaction) (dedupe.TxResult, error) {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	if existing, err := s.records.conflict(ctx, t); existing != nil || err != nil {
		return dedupe.TxResult{Existing: existing}, err
	}
	superseded, err := s.Effect(ctx, t.Output)
	if err != nil {
		return dedupe.TxResult{}, err
	}
	s.records.enter(t)
	return dedupe.TxResult{Superseded: superseded}, nil
}

// RaisePurge implements dedupe.TxSink.
func (s *Effects) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return s.records.RaisePurge(ctx, raises)
}

// conflict returns the entry that prevents a transaction, or nil. The caller of conflict and of enter holds the lock.
func (s *Records) conflict(ctx context.Context, t dedupe.Transaction) (*dedupe.Existing, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k := entryKey{t.Entry.Scope, t.Entry.Key}
	if !t.Finish {
		return s.free(ctx, k, t.Entry)
	}
	old, found := s.entries[k]
	existing := old.Existing()
	switch {
	case !found:
		return &dedupe.Existing{}, nil
	case existing.Done || existing.Owner != t.Entry.Owner.Digest():
		return &existing, nil
	}
	return nil, nil
}

// enter puts an entry, or marks an existing one as done.
func (s *Records) enter(t dedupe.Transaction) {
	k := entryKey{t.Entry.Scope, t.Entry.Key}
	e := t.Entry
	e.Arrival = e.Arrival.UTC().Truncate(time.Millisecond) // other engines store it so
	if t.Finish {
		e = s.entries[k]
	}
	e.Done = true
	s.entries[k] = e
}
