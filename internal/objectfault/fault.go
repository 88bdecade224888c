package objectfault

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/oncebox/oncebox/internal/memobjects"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// way is a way in which a call of the storage fails.
type way int

// These are the ways.
const (
	none        way = iota
	failBefore      // the call returns an error and has no effect: a throttle, or a 409
	loseReply       // the call takes effect and returns an error
	crashBefore     // the process ends before the effect
	crashAfter
	lateBefore // the invocation times out before the effect, and the process goes on
	lateAfter
	effectLater // the call returns an error, and takes effect later: the request was on its way
	ways
)

// breakCall breaks calls of the storage at random.
func (w *world) breakCall(ctx context.Context, c *memobjects.Call) error {
	if !w.calm && w.chance(0.5) {
		w.wait(ctx, oneOf(w.sim.Rand, 0, 0, time.Second))
	}
	if len(w.delayed) > 0 && w.chance(0.3) {
		w.settle()
	}
	how := none
	if w.troubled() {
		how = way(1 + w.sim.Rand.IntN(int(ways-1)))
	}
	switch how {
	case failBefore:
		return w.fails(c, "no effect")
	case crashBefore:
		w.crash(ctx)
	case lateBefore:
		w.wait(ctx, oneOf(w.sim.Rand, timeout, 3*timeout))
	case effectLater:
		if c.Method == memobjects.PutIfAbsent || c.Method == memobjects.Put {
			w.delayed = append(w.delayed, func() { _ = c.Do(context.Background()) })
		}
		return w.fails(c, "effect later")
	}
	err := c.Do(ctx)
	if c.Method == memobjects.PutIfAbsent {
		w.note("put %s (%s to %s): created %t", c.Key, c.Content.Metadata["oncebox-first"], c.Content.Metadata["oncebox-last"],
			c.Created)
	}
	switch how {
	case loseReply:
		return w.fails(c, "effect, and no reply")
	case crashAfter:
		w.crash(ctx)
	case lateAfter:
		w.wait(ctx, oneOf(w.sim.Rand, timeout, 3*timeout))
	}
	return err
}

// settle lets the delayed puts take effect.
func (w *world) settle() {
	for _, effect := range w.delayed {
		effect()
	}
	w.delayed = nil
}

func (w *world) fails(c *memobjects.Call, how string) error {
	w.note("%s %s fails: %s", c.Method, c.Key, how)
	return fmt.Errorf("%w: %s: %s", dedupe.ErrTryAgain, c.Method, how)
}

func (w *world) crash(ctx context.Context) {
	if ctx.Value(insideKey{}) != nil {
		w.note("crash")
		runtime.Goexit()
	}
}
