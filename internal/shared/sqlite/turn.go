package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// pollEvery is the pause between two attempts to take a lock. An attempt costs a few microseconds; an idle system may
// sleep for a millisecond instead.
const pollEvery = 500 * time.Microsecond

// lockSuffix is appended to the name of the database to name the lock file.
const lockSuffix = ".lock"

// lockNote is the content of a new lock file, for people who find it.
const lockNote = "Processes of oncebox take turns here to write to the database beside this file.\n" +
	"You may delete it while no such process runs.\n"

// turnstile lets one writer in at a time. The writers of a process wait in a queue. The first writer in the queue of
// each process passes the gates one after the other. A gate holds one process. A process that gets the next gate
// gives up the gate before. The last gate is the turn to write. So no process is overtaken between the gates, and a
// process that leaves and comes back starts at the first gate. With a single lock, such a process would mostly get
// the next turn again.
//
// The locks belong to the open file, not to the process: two DBs of one process take turns as two processes do. The
// system frees the locks of a process that dies. The locks only make the turns fair. SQLite's own locks protect the
// data.
type turnstile struct {
	line  chan struct{} // has room for one; Go serves waiting senders in order
	gates []gate
	close func() error // closes the lock file
}

// newTurnstile returns a turnstile without gates. It is enough if no other process can write.
func newTurnstile() *turnstile {
	return &turnstile{line: make(chan struct{}, 1), close: func() error { return nil }}
}

// gate is a lock that holds one process.
type gate interface {
	TryLock() (bool, error)
	Unlock() error
}

// makeTurns makes the turnstile. The lock file has the permissions of the database. It is opened here once, so that a
// server that may not write to it, or not make it in its folder, fails at its start and not at its first write.
func (db *DB) makeTurns() (err error) {
	if db.file, err = os.Stat(db.path); err != nil {
		return err
	}
	path, mode := db.path+lockSuffix, db.file.Mode().Perm()
	lock, err := openLock(path, mode)
	if err != nil {
		return err
	}
	db.turns = newTurnstile()
	db.turns.gates, db.turns.close = newGates(path, mode)
	return lock.Close()
}

// openLock opens the lock file, and makes it if it is missing.
func openLock(path string, mode os.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		_, _ = file.WriteAt([]byte(lockNote), 0) // the note is for people: the locks work without it
	}
	return file, nil
}

// enter waits for the turn to write. Call leave afterwards, unless there is an error.
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

// leave gives the turn to the next writer.
func (t *turnstile) leave() (err error) {
	if n := len(t.gates); n > 0 {
		err = t.gates[n-1].Unlock()
	}
	<-t.line
	return err
}

// queue waits for the other writers of this process. A writer that need not wait gets in even if ctx has ended, so
// that a busy timeout of 0 means one attempt.
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

// pass passes the gates. Afterwards the process holds the last gate, or no gate if there is an error.
func (t *turnstile) pass(ctx context.Context) error {
	var held gate
	for _, next := range t.gates {
		err := poll(ctx, next.TryLock)
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

// pollFree repeats try until no other connection prevents it.
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
		return fmt.Errorf("%w: %s", err, plain(busy).Error()) // not wrapped: a cancelled wait is not busy
	}
	return err
}

// poll repeats try until it is done, fails, or the context ends. It tries at least once.
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
