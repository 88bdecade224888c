// Package simulated plays claims against a bank in memory, request by request, in
// simulated time. It shows what a bank costs that is too large for a local engine, and
// shows the same every time.
package simulated

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"time"
)

// A request takes 5 ms and an exponentially distributed time of 5 ms on average, which is
// about what a request within a region takes. The engine does its work at the end of it.
const (
	minLatency   = 5 * time.Millisecond
	extraLatency = 5 * time.Millisecond
)

// World schedules workers: each runs until its next request. Then the worker goes on whose
// request ends first. So one worker runs at a time, and nothing here needs a lock. Workers
// must not wait for each other.
type World struct {
	now     time.Time
	random  *rand.Rand
	waiting alarms
	ended   chan struct{}
}

// NewWorld returns a world. Worlds of the same seed are the same.
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

// pass lets the next worker go on.
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
	notify := make(chan struct{}, 1) // this worker may be the next one
	heap.Push(&w.waiting, alarm{w.now.Add(d), notify})
	w.pass()
	<-notify
}

func (w *World) latency() time.Duration {
	return minLatency + time.Duration(w.random.ExpFloat64()*float64(extraLatency))
}

// Now implements itembank.Clock.
func (w *World) Now() time.Time { return w.now }

// Sleep implements itembank.Clock.
func (w *World) Sleep(_ context.Context, d time.Duration) error {
	w.wait(d)
	return nil
}

// Read returns random bytes, for the Banks of the world.
func (w *World) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(w.random.Uint32())
	}
	return len(p), nil
}

// alarm is a worker that waits for a time.
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
