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

// MostLanes is the largest number of lanes. Each one costs a request for each batch.
const MostLanes = 256

// Options are the settings of a Ledger.
type Options struct {
	// Lanes is how many logs a scope has; 0 is DefaultLanes. It is fixed with the first entry of a scope: a Ledger with
	// another number refuses the scope.
	Lanes int
	// Memory is how many bytes entries may take in memory, for all scopes together; 0 is DefaultMemory. An entry takes at
	// most 32 bytes: see EntryBytes.
	Memory int64
	// Clock is real time by default. Tests set it.
	Clock dedupe.Clock
}

// Ledger is a dedupe.Ledger on a log. It is safe for concurrent use.
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

// New makes a Ledger. It reads nothing yet.
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

// nonce is different for each item of all processes.
func (l *Ledger) nonce() uint64 { return l.nonces.Add(1) }

// Enter enters records: see dedupe.Ledger. The records of a lane are decided at once, and their rows are appended to its
// log, behind everything that they were decided by. A lane that fails says nothing about the others.
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
	if short := slices.ContainsFunc(byLane, func(rest []record) bool { return len(rest) > 0 }); short {
		l.giveBack(q.Scope, least)
		enter()
	}
	return answers, nil
}

// giveBack lets all lanes give memory back: those of a scope keep what counts for arrivals from the least on, and those
// of other scopes what counts now. Lanes that other calls work on are left alone.
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

// Warm loads what the records of now need.
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

// farthestAhead is how far behind an arrival the clock may be. An arrival in the future makes an epoch longer, and the
// entries of a longer one are in memory for longer.
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

// check refuses what another version, or a Ledger with another number of lanes, has written.
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

// An epoch lasts for a part of the window. A shorter one has more chain rows, which are kept for ever, and a longer one
// keeps more entries in memory that no longer count.
const (
	partOfWindow  = 16
	shortestEpoch = time.Minute
)

// epochAfter makes the epoch behind another one, or the first one. It ends behind the greatest arrival.
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
	e.Ends += length - mod(e.Ends, length) // so all lanes end at the same times
	e.Until = max(e.Until, e.Ends+keep.Window.Milliseconds())
	return e
}

// mod is the remainder that is not below 0.
func mod(n, by int64) int64 { return (n%by + by) % by }
