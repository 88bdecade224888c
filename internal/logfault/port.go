package logfault

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// port is the storage as a call of a ledger sees it. Before each effect, other processes may go on.
type port struct {
	*world
	name string
	busy [mostLanes]bool // the lanes on which calls work
}

var _ logledger.Storage = (*port)(nil)

var errKilled = errors.New("the process was killed")

// way is a way in which a write fails.
type way int

// The ways.
const (
	none       way = iota
	failBefore     // an error, and no effect
	loseReply      // an effect, and an error
	sentTwice      // a reply was lost, and the client has sent the request again: it finds what it wrote
	late           // an error, and the effect comes later, unless it does not come at all
	ways
)

// enter waits until this call goes on, and says how it fails. Without a call nothing fails.
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

// wait lets other calls go on. The error says that this one has ended.
func (c *call) wait() error {
	if !c.killed && c.context.Err() != nil {
		return c.context.Err()
	}
	if c.killed || !c.yield(struct{}{}) {
		return errKilled
	}
	return nil
}

// enterLane waits for the call that works on a lane. A Ledger does so as well, but in a way that does not let the other
// call go on.
func (p *port) enterLane(n int, f func(int)) {
	c := p.current
	for p.busy[n] {
		if c.wait() != nil {
			f(n) // the Ledger does not wait either
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

// Epochs is that of logledger.Storage.
func (p *port) Epochs(ctx context.Context, lane logledger.LaneID, below, limit int) ([]logledger.Epoch, error) {
	how, err := p.enter()
	if err == nil && how != none {
		err = p.fails("no reply")
	}
	var page []logledger.Epoch
	if err == nil {
		page, err = view{store: &p.store}.Epochs(ctx, lane, below, limit)
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

// PutEpoch is that of logledger.Storage.
func (p *port) PutEpoch(
	_ context.Context, lane logledger.LaneID, e logledger.Epoch,
) (existing *logledger.Epoch, err error) {
	err = p.write(func() { existing = p.putEpoch(lane.Lane, e) })
	if p.tracing {
		p.note("epoch %d of lane %d, %s to %s, behind seal %d: put %t, %v", e.Number, lane.Lane, since(e.Start),
			since(e.Ends), e.Sealed, existing == nil && err == nil, err)
	}
	return existing, err
}

// Append is that of logledger.Storage.
func (p *port) Append(_ context.Context, at logledger.Place, data []byte, purgeAt int64) (existing []byte, err error) {
	err = p.write(func() {
		if p.mutant != nil && p.mutant.append != nil {
			existing = p.mutant.append(&p.store, at, data, purgeAt)
		} else {
			existing = p.append(at, data, purgeAt)
		}
	})
	if p.tracing {
		p.note("append %s: put %t, %v", placeOf(at), existing == nil && err == nil, err)
	}
	if p.mutant != nil && p.mutant.lostIsDone && err != nil && !errors.Is(err, errKilled) {
		return nil, nil
	}
	return existing, err
}

// write has an effect, or fails.
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

// Read is that of logledger.Storage.
func (p *port) Read(
	ctx context.Context, from logledger.Place, limit int, consistent bool,
) (items []logledger.Item, more bool, err error) {
	how, err := p.enter()
	if err == nil && how != none {
		err = p.fails("no reply")
	}
	if err != nil {
		p.note("read %s: %v", placeOf(from), err)
		return nil, false, err
	}
	if limit == 0 {
		limit = p.Page
	}
	items, more, err = view{store: &p.store}.Read(ctx, from, limit, true)
	if p.current != nil && !consistent && p.chance(p.Stale) {
		items, more = p.stale(items, more)
	}
	if p.current != nil && len(items) > 0 && p.chance(0.1) {
		more = true // a page may end at the end
	}
	if p.mutant != nil && p.mutant.read != nil {
		items = p.mutant.read(from, items)
	}
	if p.tracing {
		p.note("read %s (consistent %t): %s more %t, %v", placeOf(from), consistent, indexes(items), more, err)
	}
	return items, more, err
}

// stale is an answer that misses items: the last ones, or any of them.
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
