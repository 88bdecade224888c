package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// pollEvery is the pause between two looks at a lock. A look costs a few
// microseconds, a write with its sync about a millisecond.
const pollEvery = 500 * time.Microsecond

// turnstile lets one writer in at a time. In a process they queue in line. The
// first of each process then locks next, and with that waits for the turn. Who
// leaves and comes back finds next held by somebody who waits, and so cannot
// take the turn again at once, as it could with a single lock. The system frees
// the locks of a process that dies.
type turnstile struct {
	line       chan struct{} // holds one; Go serves waiting senders in order
	next, turn *flock.Flock
}

// makeTurns makes the turnstile, with lock files for the same users as the database.
func (s *Store) makeTurns() (err error) {
	if s.file, err = os.Stat(s.path); err != nil {
		return err
	}
	rights := flock.SetPermissions(s.file.Mode().Perm())
	s.turns = &turnstile{
		line: make(chan struct{}, 1),
		next: flock.New(s.path+".next.lock", rights),
		turn: flock.New(s.path+".turn.lock", rights),
	}
	return nil
}

// enter waits for the turn. Without an error, leave has to follow.
func (t *turnstile) enter(ctx context.Context) error {
	err := t.queue(ctx)
	if err == nil {
		if err = t.pass(ctx); err == nil {
			return nil
		}
		<-t.line
	}
	return fmt.Errorf("waiting for the turn to write: %w", err)
}

// leave gives the turn to the next one.
func (t *turnstile) leave() error {
	err := t.turn.Unlock()
	<-t.line
	return err
}

// queue waits for the other writers of this process. Who need not wait gets in
// even if the time is over already, so that a timeout of 0 is one try.
func (t *turnstile) queue(ctx context.Context) error {
	select {
	case t.line <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.line <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

// pass waits for the other processes.
func (t *turnstile) pass(ctx context.Context) (err error) {
	if err := lock(ctx, t.next); err != nil {
		return err
	}
	defer func() {
		if unlocked := t.next.Unlock(); unlocked != nil && err == nil {
			err = errors.Join(unlocked, t.turn.Unlock())
		}
	}()
	return lock(ctx, t.turn)
}

func lock(ctx context.Context, l *flock.Flock) error {
	return poll(ctx, func() (bool, error) {
		ok, err := l.TryLock()
		if err != nil {
			err = fmt.Errorf("lock %s: %w", l.Path(), err)
		}
		return ok, err
	})
}

// pollFree tries until no other connection stands in the way.
func pollFree(ctx context.Context, try func() error) error {
	var busy error
	err := poll(ctx, func() (bool, error) {
		err := try()
		if isBusy(err) {
			busy = err
			return false, nil
		}
		busy = nil
		return true, err
	})
	if busy != nil {
		return fmt.Errorf("%w: %v", err, busy) //nolint:errorlint // a cancelled wait is that, and not busy
	}
	return err
}

// poll tries until it is done, fails, or the context ends; at least once.
func poll(ctx context.Context, try func() (done bool, err error)) error {
	for {
		if done, err := try(); done || err != nil {
			return err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}
