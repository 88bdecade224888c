package logfault

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// port is the storage as a call of a ledger sees it. Before each effect, other processes may run.
type port struct {
	*world
	name string
	busy [mostLanes]bool // the lanes that calls are working on
}

var _ logledger.Storage = (*port)(nil)

// whole is the context of effects. They come as a whole even if the context of their call ends, and the log in memory
// never fails.
var whole = context.Background()

// mostLanes is the largest number of lanes of a process.
const mostLanes = 3

var errKilled = errors.New("the process was killed")

// way is a way in which a write fails.
type way int

// These are the ways.
const (
	none       way = iota
	failBefore     // the call returns an error and has no effect
	loseReply      // the call takes effect and returns an error
	sentTwice      // the reply was lost and the client sent the request again, which finds its own write
	late           // the call returns an error, and takes effect later or never
	ways
)

// enter waits until this call goes on, and returns how it fails. Without a current call nothing fails.
func (p *port) enter() (how way, err error) {
	c := p.current
	if c == nil {
		return none, nil
	}
	if err := c.wait(); err != nil {
		return none, err
	}
	if c.effects++; c.effects == c.Cut {
		p.note("the context ends")
		c.cancel()
	}
	if c.effects == c.Cut || p.chance(p.Trouble) {
		how = way(1 + p.random.IntN(int(ways-1)))
	}
	return how, nil
}

// wait lets other calls run. It returns an error if this call has been ended.
func (c *call) wait() error {
	if !c.killed && c.context.Err() != nil {
		return c.context.Err()
	}
	if c.killed || !c.yield(struct{}{}) {
		return errKilled
	}
	return nil
}

// enterLane waits until no other call works on the lane. A Ledger waits, too, but its lock would not let the other
// call run.
func (p *port) enterLane(n int, f func(int)) {
	c := p.current
	for p.busy[n] {
		if c.wait() != nil {
			f(n) // an ended call need not wait, in a Ledger either
			return
		}
	}
	p.busy[n] = true
	f(n)
	p.busy[n] = false
}

func (p *port) note(format string, args ...any) {
	if p.tracing {
		p.world.note("%s: %s", p.name, fmt.Sprintf(format, args...))
	}
}

func (p *port) fails(how string) error {
	if err := p.current.context.Err(); err != nil {
		return fmt.Errorf("%w: %s", err, how)
	}
	return fmt.Errorf("%w: %s", dedupe.ErrTryAgain, how)
}

// Epochs implements logledger.Storage.
func (p *port) Epochs(_ context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	how, err := p.enter()
	if err == nil && how != none {
		err = p.fails("no reply")
	}
	var page []logledger.Epoch
	if err == nil {
		page, err = p.log.Epochs(whole, lane, below, limit)
	}
	if p.tracing {
		p.note("epochs of lane %d below %d: %d %v", lane.Lane, below, numbers(page), err)
	}
	return page, err
}

func numbers(page []logledger.Epoch) (all []int) {
	for _, e := range page {
		all = append(all, e.Number)
	}
	return all
}

// PutEpoch implements logledger.Storage.
func (p *port) PutEpoch(
	_ context.Context, lane logledger.LaneID, e logledger.Epoch,
) (existing *logledger.Epoch, err error) {
	err = p.write(func() { existing, _ = p.log.PutEpoch(whole, lane, e) })
	if p.tracing {
		p.note("epoch %d of lane %d, %s to %s, behind seal %d: put %t, %v", e.Number, lane.Lane, since(e.Start),
			since(e.Ends), e.Sealed, existing == nil && err == nil, err)
	}
	return existing, err
}

// appendTo appends an item to the log.
func appendTo(log *memlog.Log, at logledger.Place, data []byte, purgeAt int64) (existing []byte) {
	existing, _ = log.Append(whole, at, data, purgeAt)
	return existing
}

// Append implements logledger.Storage.
func (p *port) Append(_ context.Context, at logledger.Place, data []byte, purgeAt int64) (existing []byte, err error) {
	put := appendTo
	if p.mutant != nil && p.mutant.append != nil {
		put = p.mutant.append
	}
	err = p.write(func() { existing = put(p.log, at, data, purgeAt) })
	if p.tracing {
		p.note("append %s: put %t, %v", placeOf(at), existing == nil && err == nil, err)
	}
	if p.mutant != nil && p.mutant.lostIsDone && err != nil && !errors.Is(err, errKilled) {
		return nil, nil
	}
	return existing, err
}

// write makes a write take effect, or fails it.
func (p *port) write(effect func()) error {
	how, err := p.enter()
	if err != nil {
		return err
	}
	switch how {
	case failBefore:
		return p.fails("no effect")
	case late:
		p.delayed = append(p.delayed, delayed{p.current.deadline, p.name, effect})
		return p.fails("the effect comes later")
	case loseReply:
		effect()
		return p.fails("effect, and no reply")
	case sentTwice:
		effect()
	}
	effect()
	return nil
}

// Read implements logledger.Storage.
func (p *port) Read(
	_ context.Context, from logledger.Place, limit int, consistent bool,
) (items []logledger.Item, more bool, err error) {
	how, err := p.enter()
	if err == nil && how != none {
		err = p.fails("no reply")
	}
	if err != nil {
		p.note("read %s: %v", placeOf(from), err)
		return nil, false, err
	}
	items, more, err = p.log.Read(whole, from, limit, true)
	if p.current != nil && !consistent && p.chance(p.Stale) {
		items, more = p.stale(items, more)
	}
	if p.current != nil && len(items) > 0 && p.chance(0.1) {
		more = true // a full page may say that there is more, even at the end
	}
	if p.mutant != nil && p.mutant.read != nil {
		items = p.mutant.read(from, items)
	}
	if p.tracing {
		p.note("read %s (consistent %t): %s more %t, %v", placeOf(from), consistent, indexes(items), more, err)
	}
	return items, more, err
}

// stale returns an answer that misses items: the last ones, or any of them.
func (p *port) stale(items []logledger.Item, more bool) ([]logledger.Item, bool) {
	if p.chance(0.5) {
		n := p.random.IntN(len(items) + 1)
		return items[:n], more && n > 0
	}
	var seen []logledger.Item
	for _, i := range items {
		if p.chance(0.5) {
			seen = append(seen, i)
		}
	}
	return seen, more
}

func indexes(items []logledger.Item) string {
	text := "items"
	for _, i := range items {
		text += fmt.Sprint(" ", i.Index)
	}
	return text
}

func placeOf(at logledger.Place) string { return fmt.Sprintf("%d/%d/%d", at.Lane, at.Epoch, at.Index) }
