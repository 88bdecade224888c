package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

// pollEvery is the pause between two looks at a lock. A look costs a few
// microseconds; an idle system may sleep for a millisecond instead.
const pollEvery = 500 * time.Microsecond

// waitingPlaces is how many processes besides the writing one take turns
// strictly. With one place (two locks) four processes that write without pause
// fall into step, and one is passed by 30 to 55 writes in a row; with four
// places by about ten. A place costs a write about 3 microseconds.
const waitingPlaces = 4

// turnstile lets one writer in at a time. In a process they queue in line; the
// first of each process goes through the gates, of which each lets in one. Who
// got the next gate gives the last one up. The last of all is the turn. So
// nobody is passed between the gates, and who leaves and comes back starts at
// the first, while from a single lock it would mostly get the turn again at
// once. Two DBs of one process are to each other as two processes: these locks
// belong to open files, not to processes. The system frees those of a process that dies.
type turnstile struct {
	line  chan struct{} // holds one; Go serves waiting senders in order
	gates []gate
}

// newTurnstile makes one without gates, as is enough for a process alone.
func newTurnstile() *turnstile { return &turnstile{line: make(chan struct{}, 1)} }

// gate is a *flock.Flock.
type gate interface {
	TryLock() (bool, error)
	Unlock() error
	Path() string
}

// makeTurns makes the turnstile, with lock files for the same users as the database.
func (db *DB) makeTurns() (err error) {
	if db.file, err = os.Stat(db.path); err != nil {
		return err
	}
	db.turns = newTurnstile()
	rights := flock.SetPermissions(db.file.Mode().Perm())
	for place := waitingPlaces; place >= 0; place-- {
		db.turns.gates = append(db.turns.gates, flock.New(lockName(db.path, place), rights))
	}
	return nil
}

// lockName names the lock file of a place; 0 is the turn.
func lockName(path string, place int) string { return fmt.Sprintf("%s.lock%d", path, place) }

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
func (t *turnstile) leave() (err error) {
	if n := len(t.gates); n > 0 {
		err = t.gates[n-1].Unlock()
	}
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

// pass goes through the gates and ends holding the last one, or none.
func (t *turnstile) pass(ctx context.Context) error {
	var held gate
	for _, next := range t.gates {
		err := lock(ctx, next)
		if held != nil {
			err = errors.Join(err, held.Unlock())
		}
		if err != nil {
			return errors.Join(err, next.Unlock())
		}
		held = next
	}
	return nil
}

func lock(ctx context.Context, g gate) error {
	return poll(ctx, func() (bool, error) {
		ok, err := g.TryLock()
		if err != nil {
			err = fmt.Errorf("lock %s: %w", g.Path(), err)
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
