package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
"math/rand/v2"
	"strconv"
	"time"

	"github.com/gofrs/flock"
)

// pollEvery is the pause between two looks at a lock. A look costs a few
// microseconds, a write with its sync about a millisecond.
const pollEvery = 500 * time.Microsecond

// turnstile lets one writer in at a time. In a process they queue in line; the
// first of each process goes through the gates, of which each lets in one. Who
// holds a gate and got the next one gives the first one up. The last gate is the
// turn. So those between the gates cannot be passed, and who leaves and comes
// back starts at the first gate, while with a single lock it would mostly get
// the turn again at once. The system frees the locks of a process that dies.
type turnstile struct {
	line  chan struct{} // holds one; Go serves waiting senders in order
	gates []*flock.Flock
	contended bool
}

// waitingPlaces is the number of gates before the turn: that many processes and
// the writing one take turns strictly. With more of them chance decides who gets
// to the first gate.
var waitingPlaces = func() int { n, _ := strconv.Atoi(os.Getenv("PL")); return n }()

// makeTurns makes the turnstile, with lock files for the same users as the database.
func (s *Store) makeTurns() (err error) {
	if s.file, err = os.Stat(s.path); err != nil {
		return err
	}
	s.turns = &turnstile{line: make(chan struct{}, 1)}
	for place := waitingPlaces; place >= 0; place-- {
		name := fmt.Sprintf("%s.lock%d", s.path, place)
		s.turns.gates = append(s.turns.gates, flock.New(name, flock.SetPermissions(s.file.Mode().Perm())))
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
	err := t.gates[len(t.gates)-1].Unlock()
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
	var held *flock.Flock
	if t.contended && os.Getenv("CO") != "" {
		d, _ := time.ParseDuration(os.Getenv("CO"))
		time.Sleep(d)
	}
	t.contended = false
	for _, gate := range t.gates {
		tries := 0
		err := poll(ctx, func() (bool, error) { tries++; return gate.TryLock() })
		if tries > 1 { t.contended = true }
		if held != nil {
			err = errors.Join(err, held.Unlock())
		}
		if err != nil {
			return errors.Join(err, gate.Unlock())
		}
		held = gate
	}
	return nil
}

func xlock(ctx context.Context, l *flock.Flock) error {
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
		case <-time.After(pause()):
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

func pause() time.Duration {
	if os.Getenv("JI") != "" { return time.Duration(rand.Int64N(int64(3*time.Millisecond))) }
	return pollEvery
}
