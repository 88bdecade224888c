// Package commandpairs plays two commands that change the same things. The first is stopped after one of its calls, and
// the second runs there from begin to end.
//
// The package does not know what a command changes: rows of a store, objects or files. A command takes a Process, and
// calls Before and After around each of its calls: each request to a store, each write of a file, each wait. So the
// commands of claims (internal/testkit/itembankfault) and commands that work on files can use it. Those wrap their
// storage:
//
//	func (s hooked) Append(p []byte) error {
//		if err := s.process.Before(); err != nil {
//			return err
//		}
//		err := s.storage.Append(p)
//		return errors.Join(err, s.process.After())
//	}
//
// The caller has the model: it prepares the things before each play, lets the commands record their answers, and checks
// afterwards what must hold.
package commandpairs

import (
	"errors"
	"sync"
)

// ErrKilled is the error of every call of a process that was killed. A command that gets it returns it. It records no
// answer.
var ErrKilled = errors.New("the process was killed")

// Process is one run of a command. The zero value is a run that nothing stops.
type Process struct {
	mu    sync.Mutex // held from Before to After: while a process is stopped, no other call of it runs
	calls int
	stop  func() error // runs after call number at; its error is the error of this call and of all later calls
	at    int
	over  error
}

// Before begins a call. If it returns an error, the call must not be made, and After must not be called.
func (p *Process) Before() error {
	p.mu.Lock()
	if p.over != nil {
		defer p.mu.Unlock()
		return p.over
	}
	return nil
}

// After ends a call that has taken effect, or has failed. Its error replaces the reply of the call.
func (p *Process) After() error {
	defer p.mu.Unlock()
	if p.calls++; p.stop != nil && p.calls == p.at+1 {
		p.over = p.stop()
	}
	return p.over
}

// Over returns the error with which all calls fail, or nil. It tells a killed process from one that has an answer.
func (p *Process) Over() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// stopped reports whether the process made the call after which it had to stop.
func (p *Process) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls > p.at
}

// Command runs a command once. It returns ErrKilled if its process was killed, and nil if the command came to its end.
// Any other error says that something is wrong, and ends the play.
type Command func(*Process) error

// Schedule plays two commands. n is the number of the call after which a stops, from 0. stopped is false if a made fewer
// calls.
type Schedule func(n int, a, b Command) (stopped bool, err error)

// Kill kills a after its call n. Then b runs, and then a again. To kill a before its call n is the same as to kill it
// after call n-1, because what a process only remembers dies with it. The reply to the last call is lost, too.
func Kill(n int, a, b Command) (stopped bool, err error) {
	p := &Process{at: n, stop: func() error { return ErrKilled }}
	if err := a(p); err != nil && !errors.Is(err, ErrKilled) {
		return p.stopped(), err
	}
	for _, next := range []Command{b, a} {
		if err := next(new(Process)); err != nil {
			return p.stopped(), err
		}
	}
	return p.stopped(), nil
}

// Suspend suspends a after its call n. Then b runs, and then a goes on. If a makes fewer calls, b runs after it.
func Suspend(n int, a, b Command) (stopped bool, err error) {
	p := &Process{at: n, stop: func() error { return b(new(Process)) }}
	err = a(p)
	switch {
	case p.Over() != nil:
		return true, p.Over()
	case err != nil || p.stopped():
		return p.stopped(), err
	}
	return false, b(new(Process))
}

// AtEachCall plays a schedule for the calls first, first+step and so on, until a makes fewer calls. It returns the number
// of plays in which a was stopped. In the last play a was not stopped.
func AtEachCall(first, step int, play func(n int) (stopped bool, err error)) (plays int, err error) {
	for n := first; ; n += step {
		stopped, err := play(n)
		if err != nil || !stopped {
			return plays, err
		}
		plays++
	}
}
