package idempotency

import (
	"context"
	"sync"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// turns lets the calls of one process with the same key and payload take turns. The calls that wait cost no requests,
// and take the record that the call before them found.
type turns struct {
	mu    sync.Mutex
	lines map[turnKey]*line
}

// turnKey has the payload, too: a call with another payload is refused at once, and does not wait.
type turnKey struct {
	key     engine.Key
	payload string
}

// line is the line of calls for one key.
type line struct {
	turn  chan struct{} // has one element while no call has the turn
	calls int           // that wait or have the turn; guarded by turns.mu
	// last is the completed record that the last call found. Only the call that has the turn uses it.
	last *engine.Record
}

// take waits for the turn, and says in waited whether it had to. The caller must call done, which ends the turn.
func (t *turns) take(ctx context.Context, k turnKey, waited *bool) (l *line, done func(), err error) {
	l = t.enter(k)
	*waited = len(l.turn) == 0
	select {
	case <-l.turn:
		return l, func() { l.turn <- struct{}{}; t.leave(k, l) }, nil
	case <-ctx.Done():
		t.leave(k, l)
		return nil, nil, ctx.Err()
	}
}

func (t *turns) enter(k turnKey) *line {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[k]
	if l == nil {
		if t.lines == nil {
			t.lines = map[turnKey]*line{}
		}
		l = &line{turn: make(chan struct{}, 1)}
		l.turn <- struct{}{}
		t.lines[k] = l
	}
	l.calls++
	return l
}

func (t *turns) leave(k turnKey, l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.calls--; l.calls == 0 {
		delete(t.lines, k)
	}
}
