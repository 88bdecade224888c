package logledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The defaults of Options.
const (
	DefaultLanes  = 8
	DefaultMemory = 512 << 20 // bytes
)

// MostLanes is the largest number of lanes. Each lane costs one request for each batch.
const MostLanes = 256

// Options are the settings of a Ledger.
type Options struct {
	// Lanes is the number of logs of a scope; 0 means DefaultLanes. It is fixed with the first entry of a scope: a
	// Ledger with another number refuses the scope.
	Lanes int
	// Memory is how many bytes the entries of all scopes may take in memory; 0 means DefaultMemory. An entry takes at
	// most 32 bytes: see EntryBytes.
	Memory int64
	// Clock uses real time by default. Tests set it.
	Clock dedupe.Clock
}

// Ledger implements dedupe.Ledger on a log. It is safe for concurrent use.
type Ledger struct {
	storage Storage
	lanes   int
	memory  budget
	clock   dedupe.Clock
	counts  counts
	nonces  atomic.Uint64

	mu     sync.Mutex
	scopes map[string][]*lane
}

var (
	_ dedupe.Ledger = (*Ledger)(nil)
	_ dedupe.Warmer = (*Ledger)(nil)
)

// New makes a Ledger. It does not read the log yet.
func New(storage Storage, o Options) (*Ledger, error) {
	if o.Lanes == 0 {
		o.Lanes = DefaultLanes
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.Lanes < 1 || o.Lanes > MostLanes || o.Memory < 0 {
		return nil, fmt.Errorf("logledger: %d lanes and %d bytes of memory: want 1 to %d lanes, and memory above 0",
			o.Lanes, o.Memory, MostLanes)
	}
	l := &Ledger{
		storage: storage, lanes: o.Lanes, memory: budget{limit: o.Memory}, clock: o.Clock.OrReal(), scopes: map[string][]*lane{},
	}
	l.counts.units = make([]atomic.Int64, o.Lanes)
	l.nonces.Store(rand.Uint64()) //nolint:gosec // it has to be different, not secret
	return l, nil
}

// nonce returns a number that differs for each item of all processes.
func (l *Ledger) nonce() uint64 { return l.nonces.Add(1) }

// Enter implements dedupe.Ledger. It decides all records of a lane together, and appends their rows to the lane's log,
// directly after the last item on which the decision was based. If a lane fails, the others still answer.
func (l *Ledger) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	if err := checkRetention(q.Retention); err != nil {
		return nil, err
	}
	answers := make([]dedupe.Answer, len(q.Records))
	byLane := make([][]record, l.lanes)
	latest, least := l.clock.Now().Add(farthestAhead), int64(math.MaxInt64)
	var of sources
	for i := range q.Records {
		c := &q.Records[i]
		switch {
		case c.Poison:
		case c.Arrival.After(latest):
			answers[i].Err = fmt.Errorf("%w: %s", ErrAhead, c.Arrival.UTC().Format(time.RFC3339))
		default:
			k := format.KeyOf(c.ID)
			n := laneOf(k, l.lanes)
			byLane[n] = append(byLane[n], newRecord(c, k, of.digest(c.Owner.Source), &answers[i]))
			least = min(least, c.Arrival.UnixMilli())
		}
	}
	lanes := l.lanesOf(q.Scope)
	enter := func() {
		l.clock.Each(l.lanes, l.lanes, func(n int) {
			if len(byLane[n]) > 0 {
				byLane[n] = lanes[n].enter(ctx, q, byLane[n])
			}
		})
	}
	enter()
	if noRoom := slices.ContainsFunc(byLane, func(rest []record) bool { return len(rest) > 0 }); noRoom {
		l.giveBack(q.Scope, least)
		enter()
	}
	return answers, nil
}

// giveBack lets all lanes release memory. The lanes of the given scope keep the entries that count for arrivals from
// least on. The lanes of other scopes keep the entries that count now. It skips lanes that other calls work on.
func (l *Ledger) giveBack(scope string, least int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now().UnixMilli()
	for name, lanes := range l.scopes {
		arrival := now
		if name == scope {
			arrival = least
		}
		for _, lane := range lanes {
			if lane.tryLock() {
				lane.giveBack(arrival)
				lane.unlock()
			}
		}
	}
}

// Warm loads the entries that count for records of now.
func (l *Ledger) Warm(ctx context.Context, scope string, r dedupe.Retention) error {
	if err := checkRetention(r); err != nil {
		return err
	}
	failed := make([]error, l.lanes)
	now := l.clock.Now().UnixMilli()
	lanes := l.lanesOf(scope)
	l.clock.Each(l.lanes, l.lanes, func(n int) {
		if failed[n] = lanes[n].lock(ctx); failed[n] == nil {
			defer lanes[n].unlock()
			lanes[n].wanted = now
			if failed[n] = lanes[n].prepare(ctx); failed[n] == nil {
				lanes[n].noteCounting(0)
			}
		}
	})
	return errors.Join(failed...)
}

// lanesOf returns the lanes of a scope.
func (l *Ledger) lanesOf(scope string) []*lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	lanes := l.scopes[scope]
	if lanes == nil {
		lanes = make([]*lane, l.lanes)
		for n := range lanes {
			lanes[n] = &lane{LaneID: LaneID{scope, n}, ledger: l, turn: make(chan struct{}, 1)}
		}
		l.scopes[scope] = lanes
	}
	return lanes
}

// farthestAhead is how far an arrival may be ahead of the clock. An arrival in the future makes an epoch longer, and
// the entries of a longer epoch stay in memory for longer.
const farthestAhead = time.Hour

func checkRetention(r dedupe.Retention) error {
	switch {
	case r.ForGood:
		return ErrForGood
	case r.Window <= 0:
		return errors.New("logledger: the window is not above 0")
	}
	return nil
}

// check refuses logs of another version of oncebox, and of a Ledger with another number of lanes.
func (l *Ledger) check(id LaneID, e Epoch) error {
	switch {
	case e.Layout != layout:
		return errLayout
	case e.Lanes != l.lanes:
		return fmt.Errorf("logledger: the scope %q has %d lanes, and this ledger is set to %d: the number of lanes "+
			"cannot be changed; set it to %d, or choose another scope", id.Scope, e.Lanes, l.lanes, e.Lanes)
	}
	return nil
}

// An epoch lasts for a part of the window. Shorter epochs make more chain rows, which are kept for ever. Longer
// epochs keep more entries in memory that no longer count.
const (
	partOfWindow  = 16
	shortestEpoch = time.Minute
)

// epochAfter makes the epoch after before, or the first epoch if before is nil. It ends after the latest arrival.
func (l *Ledger) epochAfter(before *Epoch, seal int, at arrivals, keep dedupe.Retention) Epoch {
	length := epochLength(keep.Window).Milliseconds()
	e := Epoch{
		Start: at.least, Ends: at.greatest, Until: beginning,
		Window: keep.Window, Horizon: keep.Horizon, Lanes: l.lanes, Layout: layout,
	}
	if before != nil {
		e.Number, e.Sealed, e.Start = before.Number+1, seal, before.Ends
		e.Ends, e.Until = max(before.Ends, at.greatest), before.Until
	}
	e.Ends += length - mod(e.Ends, length) // rounded up, so that all lanes end at the same times
	e.Until = max(e.Until, e.Ends+keep.Window.Milliseconds())
	return e
}

// mod returns the remainder that is not negative.
func mod(n, by int64) int64 { return (n%by + by) % by }
