package eventsource

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Sim runs mappings in virtual time. It does one thing at a time: a step of a mapping, or a part of
// an invocation up to its next [Wait] or its end. The seed decides the order of things that are due
// at the same time, so that the same seed always gives the same history. It is not safe for
// concurrent use.
type Sim struct {
	// Fate decides before an invocation what happens to it. nil: nothing happens.
	Fate func(*Invocation) Fate

	// Rand is the only source of randomness. Tests may use it too.
	Rand *rand.Rand

	bubble      bool
	time        time.Time
	pollers     []*Poller
	invocations []*simInvocation // the invocations that have not ended
	count       int
}

// Fate says what happens to an invocation. With the zero value the function runs and answers at once.
type Fate struct {
	Throttle bool            // do not let the invocation reach the function
	Delay    time.Duration   // the time before the function's code begins
	Skip     bool            // do not run the function's code
	Takes    time.Duration   // the time between the end of the code and the answer
	Err      error           // replaces the result of the function
	Answer   json.RawMessage // replaces the answer of the function

	// Zombie lets the invocation continue after its deadline. Without it Lambda ends the
	// invocation at its current Wait.
	Zombie bool
}

// Poller is a mapping that runs in a Sim.
type Poller struct {
	*poller
	sim *Sim
}

// NewSim makes a Sim whose clock shows start.
func NewSim(start time.Time, seed uint64) *Sim {
	return &Sim{Rand: rand.New(rand.NewPCG(seed, 0)), time: start}
}

// NewSimInBubble makes a Sim with the clock of the testing/synctest bubble of the caller. The
// timers of functions use this clock too, so contexts have deadlines. In a Sim of NewSim they have
// none, since they would end in real time.
func NewSimInBubble(seed uint64) *Sim {
	s := NewSim(time.Time{}, seed)
	s.bubble = true
	return s
}

// Now returns the virtual time.
func (s *Sim) Now() time.Time {
	if s.bubble {
		return time.Now()
	}
	return s.time
}

// Start starts a mapping. With the Checkpoint of another mapping it continues where that one
// stopped. Two mappings that run at the same time are two pollers.
func (s *Sim) Start(m Mapping) (*Poller, error) {
	p, err := newPoller(m, s.Now, s.newID)
	if err != nil {
		return nil, err
	}
	poller := &Poller{poller: p, sim: s}
	s.pollers = append(s.pollers, poller)
	return poller, nil
}

// Stop ends a mapping between two steps. Its invocations continue until their deadlines, but
// their answers are ignored.
func (p *Poller) Stop() {
	p.sim.pollers = slices.DeleteFunc(p.sim.pollers, func(other *Poller) bool { return other == p })
	for _, inv := range p.sim.invocations {
		if inv.poller == p {
			inv.unsent = true
		}
	}
}

// Tally returns the numbers of records that the mapping has lost.
func (p *Poller) Tally() Tally { return p.tally }

// Go runs a program that belongs to no mapping, such as the command of an operator. It may use Wait. It runs to its own
// end. It has its own Invocation, without records.
func (s *Sim) Go(f func(ctx context.Context, program *Invocation)) {
	s.count++
	inv := &Invocation{Number: s.count, RequestID: s.newID(), Deadline: s.Now().Add(forever)}
	function := func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) { f(ctx, inv); return nil, nil }
	p := &Poller{poller: &poller{Mapping: Mapping{Function: function}}}
	si := &simInvocation{
		Invocation: inv, sim: s, poller: p, wakeAt: s.Now(), unsent: true,
		resume: make(chan struct{}), yield: make(chan struct{}),
	}
	s.invocations = append(s.invocations, si)
	go si.run(context.Background())
}

// forever is longer than any test in virtual time takes.
const forever = 100 * 365 * 24 * time.Hour

// Advance moves the clock by d and does everything that is due in that time.
func (s *Sim) Advance(d time.Duration) error {
	return s.run(s.Now().Add(d), func() bool { return false })
}

// Drain moves the clock until all records that are now in the streams are delivered or discarded,
// and no invocation is left. It returns an error if that takes longer than limit.
func (s *Sim) Drain(limit time.Duration) error {
	for _, p := range s.pollers {
		for _, sh := range p.shards {
			sh.drained = false // it may have new records
		}
	}
	done := func() bool {
		return len(s.invocations) == 0 && !slices.ContainsFunc(s.pollers, func(p *Poller) bool { return !p.drained() })
	}
	if err := s.run(s.Now().Add(limit), done); err != nil {
		return err
	}
	if !done() {
		return fmt.Errorf("eventsource: not drained after %v: %d invocations still run", limit, len(s.invocations))
	}
	return nil
}

// Close ends all invocations at their current Wait.
func (s *Sim) Close() {
	s.pollers = nil
	for len(s.invocations) > 0 {
		s.kill(s.invocations[0])
	}
}

// simAction is an action that is due at a time.
type simAction struct {
	at time.Time
	do func(ctx context.Context) error
}

func (s *Sim) run(until time.Time, done func() bool) error {
	ctx := context.Background()
	for !done() {
		actions := s.actions()
		next := until.Add(1)
		for _, a := range actions {
			if a.at.Before(next) {
				next = a.at
			}
		}
		if next.After(until) {
			s.sleep(until)
			return nil
		}
		s.sleep(next)
		actions = slices.DeleteFunc(actions, func(a simAction) bool { return a.at.After(s.Now()) })
		if err := actions[s.Rand.IntN(len(actions))].do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sleep moves the clock forward to a time.
func (s *Sim) sleep(to time.Time) {
	switch {
	case !to.After(s.Now()):
	case s.bubble:
		time.Sleep(to.Sub(s.Now()))
	default:
		s.time = to
	}
}

// actions returns all possible next actions with their times.
func (s *Sim) actions() []simAction {
	var all []simAction
	for _, p := range s.pollers {
		for _, a := range p.actions() {
			all = append(all, simAction{a.at, func(ctx context.Context) error {
				inv, err := a.do(ctx)
				if inv != nil {
					s.begin(ctx, p, inv)
				}
				return err
			}})
		}
	}
	for _, inv := range s.invocations {
		all = append(all, simAction{inv.wakeAt, func(ctx context.Context) error { s.resume(ctx, inv); return nil }})
		if !inv.late {
			all = append(all, simAction{inv.Deadline, func(ctx context.Context) error { s.timeOut(ctx, inv); return nil }})
		}
	}
	return all
}

// simInvocation is a running invocation. Its goroutine runs only between resume and yield.
type simInvocation struct {
	*Invocation
	sim           *Sim
	poller        *Poller
	fate          Fate
	wakeAt        time.Time
	unsent        bool // its answer is ignored
	late          bool // its deadline has passed
	killed, ended bool
	answer        json.RawMessage
	err           error
	resume, yield chan struct{}
}

func (s *Sim) begin(ctx context.Context, p *Poller, inv *Invocation) {
	s.count++
	inv.Number = s.count
	si := &simInvocation{
		Invocation: inv, sim: s, poller: p, wakeAt: s.Now(), resume: make(chan struct{}), yield: make(chan struct{}),
	}
	if s.Fate != nil {
		si.fate = s.Fate(inv)
	}
	if si.fate.Throttle {
		p.finish(ctx, inv, nil, errThrottled)
		return
	}
	s.invocations = append(s.invocations, si)
	go si.run(ctx)
}

// run is the invocation's goroutine.
func (inv *simInvocation) run(ctx context.Context) {
	<-inv.resume
	ctx = context.WithValue(invocationContext(ctx, inv.Invocation, inv.poller.FunctionARN), waiter{}, inv)
	if inv.sim.bubble {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, inv.Deadline)
		defer cancel()
	}
	call(ctx, inv.life, inv.Event, func(answer json.RawMessage, err error) {
		inv.answer, inv.err, inv.ended = answer, err, true
		inv.yield <- struct{}{}
	})
}

// life runs the function with its fate.
func (inv *simInvocation) life(ctx context.Context, event json.RawMessage) (answer json.RawMessage, err error) {
	if inv.killed {
		return nil, ErrCrashed
	}
	if inv.fate.Delay > 0 {
		Wait(ctx, inv.fate.Delay)
	}
	if !inv.fate.Skip {
		answer, err = inv.poller.Function(ctx, event)
	}
	if inv.fate.Takes > 0 {
		Wait(ctx, inv.fate.Takes)
	}
	switch {
	case inv.fate.Err != nil:
		return nil, inv.fate.Err
	case inv.fate.Answer != nil:
		return inv.fate.Answer, nil
	}
	return answer, err
}

type waiter struct{}

// Wait waits for d of virtual time in the invocation of the context. Other things that are due may
// happen before it returns, even with d = 0. If the invocation ends in the meantime, Wait does not
// return and the goroutine ends. Only one goroutine of an invocation may wait at a time. Outside of
// a Sim it sleeps.
func Wait(ctx context.Context, d time.Duration) {
	inv, ok := ctx.Value(waiter{}).(*simInvocation)
	if !ok {
		time.Sleep(d)
		return
	}
	inv.wakeAt = inv.sim.Now().Add(d)
	inv.yield <- struct{}{}
	<-inv.resume
	if inv.killed {
		runtime.Goexit()
	}
}

// resume runs the invocation up to its next Wait or its end.
func (s *Sim) resume(ctx context.Context, inv *simInvocation) {
	inv.resume <- struct{}{}
	<-inv.yield
	if !inv.ended {
		return
	}
	s.invocations = slices.DeleteFunc(s.invocations, func(other *simInvocation) bool { return other == inv })
	if inv.unsent {
		return
	}
	if s.Now().After(inv.Deadline) { // in a bubble its own timers can move the clock past the deadline
		inv.answer, inv.err = nil, ErrTimedOut
	}
	inv.poller.finish(ctx, inv.Invocation, inv.answer, inv.err)
}

// timeOut ends the invocation at its deadline.
func (s *Sim) timeOut(ctx context.Context, inv *simInvocation) {
	inv.late = true
	if !inv.unsent {
		inv.unsent = true
		inv.poller.finish(ctx, inv.Invocation, nil, ErrTimedOut)
	}
	if !inv.fate.Zombie {
		s.kill(inv)
	}
}

// kill ends an invocation at its current Wait.
func (s *Sim) kill(inv *simInvocation) {
	inv.killed, inv.unsent = true, true
	s.resume(context.Background(), inv)
}

// newID returns a UUID from the randomness of the Sim.
func (s *Sim) newID() string {
	var id uuid.UUID
	binary.LittleEndian.PutUint64(id[:8], s.Rand.Uint64())
	binary.LittleEndian.PutUint64(id[8:], s.Rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id.String()
}
