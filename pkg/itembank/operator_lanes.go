package itembank

import (
	"context"
	"slices"
	"sync"
)

// The sweeps of an Operator close up to maxLanes claims at the same time. A close takes three requests. If each takes
// 5 ms and an exponential 5 ms more, 64 lanes close 2,100 claims a second (docs/benchmarks.md).
//
// If DynamoDB throttles a close, its sweep gives way to claims: one lane fewer is open. A lane opens again after
// closesPerLane closes that were not throttled. So the lanes settle where one in about closesPerLane closes is throttled.
// If claims need all of the capacity, one lane is left.
const (
	maxLanes      = 64
	closesPerLane = 50
)

// WithSweepLanes sets how many claims the sweeps of an Operator close at the same time, at most. The default is 64, for
// DynamoDB. Use 1 on SQLite, where writers wait for each other: with more, a sweep is not faster, and claims wait longer.
// A Bank does not sweep, so it has no effect there.
func WithSweepLanes(n int) Option { return func(o *options) { o.lanes = n } }

// lanes limits how many claims the sweeps of an Operator close at the same time.
type lanes struct {
	mu      sync.Mutex
	most    int             // at least 1
	shut    int             // of most
	closes  int             // that were not throttled, since the last lane was opened
	used    int             // may be one more than are open, after a throttle
	waiting []chan struct{} // for a lane, in the order in which they came
}

// enter waits for a lane. Call leave afterwards, unless there is an error.
func (l *lanes) enter(ctx context.Context) error {
	l.mu.Lock()
	if l.used < l.most-l.shut {
		l.used++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, turn); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else { // it got the lane just now
		l.used--
		l.admit()
	}
	return ctx.Err()
}

// leave gives the lane to the next close. throttled reports whether the close was throttled.
func (l *lanes) leave(throttled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	switch {
	case throttled:
		l.shut = min(l.shut+1, l.most-1)
	case l.shut > 0:
		if l.closes++; l.closes == closesPerLane {
			l.closes = 0
			l.shut--
		}
	}
	l.admit()
}

// admit gives lanes to those who wait.
func (l *lanes) admit() {
	for len(l.waiting) > 0 && l.used < l.most-l.shut {
		l.used++
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}
