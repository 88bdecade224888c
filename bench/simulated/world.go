// Package simulated plays claims against a bank in memory, request by request, in
// a time of its own. It shows what banks cost that are too large for a local engine,
// and the same every time.
package simulated

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"
)

// A request takes 5 ms and an exponential time of 5 ms on average, about what one
// within a region takes. The engine does its work at the end of that.
const (
	leastLatency = 5 * time.Millisecond
	moreLatency  = 5 * time.Millisecond
)

// World is where workers live: each runs until its next request, and of those that
// wait the one goes on whose time comes first. So one runs at a time, and nothing
// here needs a lock. Workers must not wait for each other.
type World struct {
	now     time.Time
	random  *rand.Rand
	waiting alarms
	ended   chan struct{}
}

// NewWorld returns a world. One of the same seed goes the same way.
func NewWorld(seed uint64) *World {
	return &World{
		now:    time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC),
		random: rand.New(rand.NewPCG(seed, seed)),
		ended:  make(chan struct{}),
	}
}

// Run runs the workers to their ends.
func (w *World) Run(workers int, work func(worker int)) {
	for i := range workers {
		start := make(chan struct{})
		heap.Push(&w.waiting, alarm{w.now.Add(w.latency()), start})
		go func() {
			<-start
			work(i)
			w.pass()
		}()
	}
	w.pass()
	<-w.ended
}

// pass lets the next one go on.
func (w *World) pass() {
	if len(w.waiting) == 0 {
		w.ended <- struct{}{}
		return
	}
	next := heap.Pop(&w.waiting).(alarm)
	w.now = next.at
	next.notify <- struct{}{}
}

func (w *World) wait(d time.Duration) {
	notify := make(chan struct{}, 1) // it may be this one's turn again
	heap.Push(&w.waiting, alarm{w.now.Add(d), notify})
	w.pass()
	<-notify
}

func (w *World) latency() time.Duration {
	return leastLatency + time.Duration(w.random.ExpFloat64()*float64(moreLatency))
}

// Now and Sleep are the world's clock.
func (w *World) Now() time.Time { return w.now }

// Sleep implements itembank.Clock.
func (w *World) Sleep(_ context.Context, d time.Duration) error {
	w.wait(d)
	return nil
}

// Read makes the world's random numbers those of its banks.
func (w *World) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(w.random.Uint32())
	}
	return len(p), nil
}

// alarm is a worker that waits for its time.
type alarm struct {
	at     time.Time
	notify chan struct{}
}

type alarms []alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *alarms) Push(x any)        { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}
