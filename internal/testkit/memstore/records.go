package memstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Records is a ledger in memory, with acks, consumers and runs. It is safe for concurrent use. If a call's context
// has ended, the call has no effect and returns ctx.Err().
type Records struct {
	dedupe.Ledger // of the entries, by dedupe.ByKey

	mu        sync.Mutex
	entries   map[entryKey]dedupe.Entry
	acks      map[dedupe.AckKey][]dedupe.Ack
	consumers map[consumerKey]string
	runs      map[runKey]dedupe.Run
	watch     dedupe.RunWatch
	judge     Judge
	between   func()
	blind     bool
}

// Judge changes what a Records finds about an entry of a run over files, to break a rule.
type Judge func(void bool, err error) (bool, error)

var _ dedupe.Store = (*Records)(nil)

type entryKey struct {
	scope string
	key   dedupe.Key
}

type consumerKey struct {
	scope  string
	stream dedupe.Stream
}

type runKey struct{ scope, id string }

// NewRecords returns an empty store.
func NewRecords() *Records {
	s := &Records{
		entries:   map[entryKey]dedupe.Entry{},
		acks:      map[dedupe.AckKey][]dedupe.Ack{},
		consumers: map[consumerKey]string{},
		runs:      map[runKey]dedupe.Run{},
	}
	s.Ledger = dedupe.ByKey(s)
	return s
}

// PutIfAbsent implements dedupe.Entries. No single entry fails.
func (s *Records) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]dedupe.PutResult, len(entries))
	for i, e := range entries {
		k := entryKey{e.Scope, e.Key}
		existing, err := s.free(ctx, k, e)
		results[i] = dedupe.PutResult{Existing: existing, Err: err}
		if e.Hold != (dedupe.Hold{}) { // otherwise nobody asks for the time
			results[i].Date = s.time()
		}
		if existing != nil || err != nil {
			continue
		}
		e.Arrival = e.Arrival.UTC().Truncate(time.Millisecond) // other engines store it so
		s.entries[k] = e
	}
	return results, nil
}

// time returns the clock's time in whole seconds, as DynamoDB sends it.
func (s *Records) time() time.Time {
	now := time.Now()
	if s.watch.Now != nil {
		now = s.watch.Now()
	}
	return now.Truncate(time.Second)
}

// ServerTime implements dedupe.Holds.
func (s *Records) ServerTime(ctx context.Context, _ string) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.time(), ctx.Err()
}

// TakeOver implements dedupe.Holds. No single request fails.
func (s *Records) TakeOver(ctx context.Context, requests []dedupe.TakeOverRequest) ([]dedupe.TakeOverResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]dedupe.TakeOverResult, len(requests))
	for i, r := range requests {
		k := entryKey{r.Entry.Scope, r.Entry.Key}
		if old, found := s.entries[k]; found && old.Existing() == r.Old {
			r.Entry.Arrival = r.Entry.Arrival.UTC().Truncate(time.Millisecond)
			s.entries[k], results[i].Taken = r.Entry, true
		}
	}
	return results, nil
}

// Finish implements dedupe.Holds. No single request fails.
func (s *Records) Finish(ctx context.Context, requests []dedupe.FinishRequest) ([]dedupe.FinishResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]dedupe.FinishResult, len(requests))
	for i, r := range requests {
		k := entryKey{r.Scope, r.Key}
		if e, found := s.entries[k]; found && e.Hold.Token == r.Token && e.Owner.Digest() == r.Owner {
			e.Done = true
			s.entries[k], results[i].Finished = e, true
		}
	}
	return results, nil
}

// SetBetween lets other calls run between the moment in which a void entry is read and the put that takes it over, as
// on an engine without transactions. If blind is set, that put does not look at the owner again, which breaks the rule.
func (s *Records) SetBetween(between func(), blind bool) { s.between, s.blind = between, blind }

// SetJudge breaks a rule.
func (s *Records) SetJudge(j Judge) { s.judge = j }

// free returns the entry of a key that counts for a new entry, or nil if the key is free.
func (s *Records) free(ctx context.Context, k entryKey, e dedupe.Entry) (*dedupe.Existing, error) {
	for {
		old, found := s.entries[k]
		if !found || isOver(old, e.Arrival) {
			return nil, nil
		}
		void, err := s.watch.Void(ctx, lockedRuns{s}, k.scope, old.Owner.String(), e.Owner)
		if s.judge != nil {
			void, err = s.judge(void, err)
		}
		if err != nil {
			return nil, err
		}
		if !void {
			existing := old.Existing()
			return &existing, nil
		}
		if s.between == nil {
			return nil, nil
		}
		s.mu.Unlock()
		s.between()
		s.mu.Lock()
		if s.blind || s.entries[k].Owner == old.Owner {
			return nil, nil
		}
	}
}

// Find returns the entries of keys. The result is nil for a key without an entry.
func (s *Records) Find(ctx context.Context, scope string, keys []dedupe.Key) ([]*dedupe.Existing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found := make([]*dedupe.Existing, len(keys))
	for i, key := range keys {
		e, there := s.entries[entryKey{scope, key}]
		settled, err := dedupe.Settled(ctx, lockedRuns{s}, scope, e.Owner.String())
		if err != nil {
			return nil, err
		}
		if there && settled {
			existing := e.Existing()
			found[i] = &existing
		}
	}
	return found, nil
}

func isOver(e dedupe.Entry, arrival time.Time) bool {
	return e.PurgeAt != dedupe.Never && time.Unix(e.PurgeAt, 0).Before(arrival)
}

// RaisePurge implements dedupe.Entries. No single request fails.
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
		if !found || e.Owner.Digest() != r.Owner {
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

// ReadAcks implements dedupe.Acks.
func (s *Records) ReadAcks(ctx context.Context, key dedupe.AckKey, first, last string) (acks []dedupe.Ack, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, a := range s.acks[key] {
		if dedupe.CompareSequence(a.Last, first) >= 0 && dedupe.CompareSequence(a.First, last) <= 0 {
			acks = append(acks, a)
		}
	}
	return acks, nil
}

// WriteAck implements dedupe.Acks.
func (s *Records) WriteAck(ctx context.Context, key dedupe.AckKey, a dedupe.Ack) error {
	if _, _, err := dedupe.PadSequences(a.First, a.Last); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, old := range s.acks[key] {
		if old.Last == a.Last && bytes.Equal(old.Owners, a.Owners) {
			return nil
		}
	}
	a.Owners = bytes.Clone(a.Owners)
	s.acks[key] = append(s.acks[key], a)
	return nil
}

// ClaimConsumer implements dedupe.Consumers.
func (s *Records) ClaimConsumer(ctx context.Context, scope string, stream dedupe.Stream, function string) (
	consumer string, err error,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	k := consumerKey{scope, stream}
	if _, found := s.consumers[k]; !found {
		s.consumers[k] = function
	}
	return s.consumers[k], nil
}

// SetNow sets the clock of the store. It tells whether a run has stopped, and whether a lease is over.
func (s *Records) SetNow(now func() time.Time) { s.watch.Now = now }

// ReadRun implements dedupe.Runs.
func (s *Records) ReadRun(ctx context.Context, scope, digest string) (latest *dedupe.Run, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for k, r := range s.runs {
		if k.scope == scope && r.Digest == digest && (latest == nil || latest.ID < r.ID) {
			latest = &r
		}
	}
	return latest, nil
}

// RunByID implements dedupe.Runs.
func (s *Records) RunByID(ctx context.Context, scope, id string) (*dedupe.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lockedRuns{s}.RunByID(ctx, scope, id)
}

// OpenRuns implements dedupe.Runs.
func (s *Records) OpenRuns(ctx context.Context, scope string) (open []dedupe.Run, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for k, r := range s.runs {
		if k.scope == scope && r.OutputID != "" && !r.Finished && !r.Closed {
			open = append(open, r)
		}
	}
	slices.SortFunc(open, func(a, b dedupe.Run) int { return strings.Compare(a.ID, b.ID) })
	return open, nil
}

// SaveRun implements dedupe.Runs.
func (s *Records) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	k := runKey{scope, r.ID}
	if old, found := s.runs[k]; found && !r.Follows(old) {
		return fmt.Errorf("%w: run %s", dedupe.ErrReplaced, r.ID)
	}
	s.runs[k] = r
	return nil
}

// CloseRun implements dedupe.Runs.
func (s *Records) CloseRun(ctx context.Context, scope string, r dedupe.Run) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lockedRuns{s}.CloseRun(ctx, scope, r)
}

// lockedRuns are the runs of Records whose lock is held.
type lockedRuns struct{ *Records }

// RunByID implements dedupe.RunTable.
func (s lockedRuns) RunByID(ctx context.Context, scope, id string) (*dedupe.Run, error) {
	if r, found := s.runs[runKey{scope, id}]; found && ctx.Err() == nil {
		return &r, nil
	}
	return nil, ctx.Err()
}

// CloseRun implements dedupe.RunTable.
func (s lockedRuns) CloseRun(ctx context.Context, scope string, r dedupe.Run) (bool, error) {
	old, found := s.runs[runKey{scope, r.ID}]
	if err := ctx.Err(); err != nil || !found || old.Closed || old.Beat != r.Beat {
		return false, err
	}
	r.Closed, r.Finished = true, false
	s.runs[runKey{scope, r.ID}] = r
	return true, nil
}

// Replace stores a run whatever is stored.
func (s *Records) Replace(scope string, r dedupe.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[runKey{scope, r.ID}] = r
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
