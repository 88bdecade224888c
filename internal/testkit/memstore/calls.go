package memstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Calls is an engine.Store of package idempotency in memory. It is safe for concurrent use. If a call's context has
// ended, the call has no effect and returns ctx.Err().
type Calls struct {
	now func() time.Time

	mu   sync.Mutex
	rows map[string]engine.Record // by the digest of the key
}

var _ engine.Transactor = (*Calls)(nil)

// NewCalls returns an empty store. now is its clock; its Dates have whole seconds.
func NewCalls(now func() time.Time) *Calls { return &Calls{now: now, rows: map[string]engine.Record{}} }

// MaxResult implements engine.Store.
func (*Calls) MaxResult() int { return 1000 }

// Put implements engine.Store.
func (s *Calls) Put(ctx context.Context, key engine.Key, record engine.Record) (engine.Answer, error) {
	return s.write(ctx, key, func(old *engine.Record) *engine.Record {
		if old != nil {
			return nil
		}
		return &record
	})
}

// Replace implements engine.Store.
func (s *Calls) Replace(
	ctx context.Context, key engine.Key, version engine.Version, record engine.Record,
) (engine.Answer, error) {
	return s.write(ctx, key, func(old *engine.Record) *engine.Record {
		if old != nil && !hasVersion(old, version) {
			return nil
		}
		return &record
	})
}

func hasVersion(old *engine.Record, version engine.Version) bool {
	return old.Status == version.Status && old.Token == version.Token && old.Number == version.Number &&
		old.LeaseEnd.Equal(version.LeaseEnd) && old.Expiry.Equal(version.Expiry)
}

// Prolong implements engine.Store.
func (s *Calls) Prolong(ctx context.Context, key engine.Key, token string, ends engine.Ends) (engine.Answer, error) {
	return s.write(ctx, key, func(old *engine.Record) *engine.Record {
		if old == nil || old.Token != token || old.Status != engine.InProgress || !old.LeaseEnd.Before(ends.LeaseEnd) {
			return nil
		}
		record := *old
		record.LeaseEnd, record.Expiry, record.PurgeAt = ends.LeaseEnd, ends.Expiry, ends.PurgeAt
		return &record
	})
}

// errTooLarge is what a database says of a row that is too large: a fault of its caller.
var errTooLarge = errors.New("memstore: the result is larger than MaxResult")

// Complete implements engine.Store.
func (s *Calls) Complete(
	ctx context.Context, key engine.Key, token string, c engine.Completion,
) (engine.Answer, error) {
	return s.complete(ctx, key, func() bool { return true }, token, c)
}

// complete completes a record if effects reports that they are done.
func (s *Calls) complete(
	ctx context.Context, key engine.Key, effects func() bool, token string, c engine.Completion,
) (engine.Answer, error) {
	if len(c.Result.ContentType)+len(c.Result.Body) > s.MaxResult() {
		return engine.Answer{}, errTooLarge
	}
	return s.write(ctx, key, func(old *engine.Record) *engine.Record {
		if old == nil || old.Token != token || old.Status != engine.InProgress {
			return nil
		}
		if !effects() {
			return nil
		}
		record := *old
		record.Status, record.CompletedBy = engine.Completed, token
		record.Result, record.Expiry, record.PurgeAt = c.Result, c.Expiry, c.PurgeAt
		return &record
	})
}

// CallEffects are the effects of a Calls. The function runs while nothing else uses the store, and must not use it. An error
// refuses it; then it must have changed nothing.
type CallEffects func() error

// CheckEffects implements engine.Transactor.
func (*Calls) CheckEffects(_ engine.Key, effects engine.Effects) error {
	if _, ok := effects.(CallEffects); !ok {
		return fmt.Errorf("got %T, want memstore.CallEffects", effects)
	}
	return nil
}

// CompleteWith implements engine.Transactor.
func (s *Calls) CompleteWith(
	ctx context.Context, key engine.Key, token string, c engine.Completion, effects engine.Effects,
) (engine.Answer, error) {
	var refused error
	a, err := s.complete(ctx, key, func() bool {
		refused = effects.(CallEffects)()
		return refused == nil
	}, token, c)
	if refused != nil {
		return engine.Answer{}, &engine.RefusedError{Reason: refused}
	}
	return a, err
}

// Release implements engine.Store.
func (s *Calls) Release(ctx context.Context, key engine.Key, token, next string) (engine.Answer, error) {
	return s.write(ctx, key, func(old *engine.Record) *engine.Record {
		if old == nil || old.Token != token || old.Status != engine.InProgress {
			return nil
		}
		record := *old
		record.LeaseEnd, record.Token = time.UnixMilli(0).UTC(), next
		return &record
	})
}

// Read implements engine.Store. It is always current.
func (s *Calls) Read(ctx context.Context, key engine.Key, _ engine.Consistency) (engine.Answer, error) {
	return s.write(ctx, key, func(*engine.Record) *engine.Record { return nil })
}

// Purge deletes the rows whose PurgeAt has come.
func (s *Calls) Purge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for digest, row := range s.rows {
		if !s.now().Before(row.PurgeAt) {
			delete(s.rows, digest)
		}
	}
}

// Row returns the row of a key, or nil.
func (s *Calls) Row(key engine.Key) *engine.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if row, found := s.rows[key.Digest()]; found {
		return &row
	}
	return nil
}

// Set puts a row, or deletes it if row is nil, without a look at the old one: as programs of others do.
func (s *Calls) Set(key engine.Key, row *engine.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if row == nil {
		delete(s.rows, key.Digest())
		return
	}
	s.rows[key.Digest()] = *row
}

// write puts the row that change returns instead of the old one. If change returns nil, the answer has the old row.
func (s *Calls) write(
	ctx context.Context, key engine.Key, change func(old *engine.Record) *engine.Record,
) (engine.Answer, error) {
	if err := ctx.Err(); err != nil {
		return engine.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, digest := engine.Answer{Date: s.now().Truncate(time.Second)}, key.Digest()
	row, found := s.rows[digest]
	if found {
		row.Result.Body = bytes.Clone(row.Result.Body)
		answer.Row = &row
	}
	if changed := change(answer.Row); changed != nil {
		s.rows[digest] = *changed
		answer.Row, answer.Done = nil, true
	}
	return answer, nil
}
