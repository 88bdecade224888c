package memstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Records is a dedupe.Store in memory. It is safe for concurrent use. A context that has ended ends each call before it
// has an effect.
type Records struct {
	mu          sync.Mutex
	entries     map[entryKey]dedupe.Entry
	checkpoints map[dedupe.CheckpointKey]dedupe.Checkpoint
	runs        map[runKey]dedupe.Run
}

var _ dedupe.Store = (*Records)(nil)

type entryKey struct {
	scope string
	key   dedupe.Key
}

type runKey struct{ scope, digest string }

// NewRecords makes an empty store.
func NewRecords() *Records {
	return &Records{
		entries:     map[entryKey]dedupe.Entry{},
		checkpoints: map[dedupe.CheckpointKey]dedupe.Checkpoint{},
		runs:        map[runKey]dedupe.Run{},
	}
}

// PutIfAbsent is that of dedupe.Ledger. No single entry fails.
func (s *Records) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]dedupe.PutResult, len(entries))
	for i, e := range entries {
		k := entryKey{e.Scope, e.Key}
		if old, found := s.entries[k]; found && !isOver(old, e.Arrival) {
			results[i].Existing = &old
			continue
		}
		e.Arrival = e.Arrival.UTC().Truncate(time.Millisecond) // as other engines store it
		s.entries[k] = e
	}
	return results, nil
}

func isOver(e dedupe.Entry, arrival time.Time) bool {
	return e.PurgeAt != dedupe.Never && time.Unix(e.PurgeAt, 0).Before(arrival)
}

// RaisePurge is that of dedupe.Ledger. No single request fails.
func (s *Records) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]dedupe.RaiseResult, len(raises))
	for i, r := range raises {
		k := entryKey{r.Scope, r.Key}
		e, found := s.entries[k]
		if !found || e.Owner != r.Owner {
			continue
		}
		if e.PurgeAt != dedupe.Never && (r.PurgeAt == dedupe.Never || r.PurgeAt > e.PurgeAt) {
			e.PurgeAt = r.PurgeAt
			s.entries[k] = e
		}
		results[i].Raised = true
	}
	return results, nil
}

// ReadCheckpoint is that of dedupe.Checkpoints.
func (s *Records) ReadCheckpoint(ctx context.Context, key dedupe.CheckpointKey) (*dedupe.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, found := s.checkpoints[key]
	if !found {
		return nil, nil
	}
	return &c, nil
}

// AdvanceCheckpoint is that of dedupe.Checkpoints.
func (s *Records) AdvanceCheckpoint(ctx context.Context, key dedupe.CheckpointKey, c dedupe.Checkpoint) error {
	padded, err := dedupe.PadSequence(c.Sequence)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	old, found := s.checkpoints[key]
	switch {
	case found && old.Consumer != c.Consumer:
		return fmt.Errorf("%w (it is %q's)", dedupe.ErrOtherConsumer, old.Consumer)
	case found && dedupe.CompareSequence(c.Sequence, old.Sequence) <= 0:
		return nil
	}
	s.checkpoints[key] = dedupe.Checkpoint{Sequence: dedupe.UnpadSequence(padded), Consumer: c.Consumer}
	return nil
}

// ReadRun is that of dedupe.Runs.
func (s *Records) ReadRun(ctx context.Context, scope, digest string) (*dedupe.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, found := s.runs[runKey{scope, digest}]
	if !found {
		return nil, nil
	}
	return &r, nil
}

// SaveRun is that of dedupe.Runs.
func (s *Records) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	s.runs[runKey{scope, r.Digest}] = r
	return nil
}

// Entries returns all entries, in the order of their keys.
func (s *Records) Entries() []dedupe.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]dedupe.Entry, 0, len(s.entries))
	for _, e := range s.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b dedupe.Entry) int { return slices.Compare(a.Key[:], b.Key[:]) })
	return all
}

// Runs returns all runs, in no order.
func (s *Records) Runs() []dedupe.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]dedupe.Run, 0, len(s.runs))
	for _, r := range s.runs {
		all = append(all, r)
	}
	return all
}
