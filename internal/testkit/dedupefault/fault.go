package dedupefault

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Way is a way in which a call of the function fails.
type Way string

// These are the ways. A late call ends after the invocation's time-out, and the process goes on after it.
const (
	None         Way = ""
	FailBefore   Way = "error before the effect"
	LoseReply    Way = "effect, then lost reply"
	Throttle     Way = "throttled"
	CancelBefore Way = "context cancelled before"
	CancelAfter  Way = "effect, and the context cancelled"
	CrashBefore  Way = "process ends before the effect"
	CrashAfter   Way = "process ends after the effect"
	LateBefore   Way = "late, before the effect"
	LateAfter    Way = "late, after the effect"
	PartBefore   Way = "effect for the first half, error for the others"
	PartLost     Way = "effect for all, error for every second"
	Scattered    Way = "effect for every second, and the answer says so"
	ScatterLost  Way = "effect for every second, and the answer names none"
	Refuses      Way = "effect for every second, and the others are refused"
	RefusesSome  Way = "effect for every third, and of the others every second is refused"
	Stale        Way = "answer without the latest"
	StaleGaps    Way = "answer without every second"
	EffectLater  Way = "error, and the effect comes later" // the request was on its way
)

// waysOf returns the ways in which a call of the method can fail.
func waysOf(method Method) []Way {
	ways := []Way{FailBefore, Throttle, CancelBefore, CancelAfter, CrashBefore, CrashAfter, LateBefore, LateAfter}
	switch method {
	case ReadAcks, ReadEpochs:
		return ways
	case ReadLog:
		return append(ways, Stale, StaleGaps)
	case PutObject, PutHint:
		return append(ways, LoseReply, EffectLater)
	case PutIfAbsent, RaisePurge:
		return append(ways, LoseReply, PartBefore, PartLost)
	case Send:
		return append(ways, LoseReply, PartBefore, Scattered, ScatterLost, Refuses, RefusesSome)
	case PutDeadLetters:
		return append(ways, LoseReply, PartBefore, ScatterLost)
	}
	return append(ways, LoseReply)
}

// lasts reports whether a fault of this way may hit several calls in a row.
func (w Way) lasts() bool {
	return slices.Contains([]Way{FailBefore, Throttle, LoseReply, Stale, StaleGaps}, w)
}

// late is how long a late call takes. The next invocations run during that time.
const late = timeout + 20*time.Second

// Fault is a failure of a call, and waits in virtual time before and after it. Other invocations may run even during
// a wait of 0.
type Fault struct {
	Way           Way
	Before, After *time.Duration
}

// errThrown is the error of a function that throws.
var errThrown = errors.New("thrown")

// brokenCall is a call with its fault.
type brokenCall struct {
	*World
	ctx    context.Context
	method Method
	fault  Fault
}

// begin records a call, looks up its fault, and plays the part of the fault that comes before the effect. If it
// returns an error, the call has no effect.
func (w *World) begin(ctx context.Context, method Method, about fmt.Stringer) (*brokenCall, error) {
	inv := invocationOf(ctx)
	c := &brokenCall{World: w, ctx: ctx, method: method}
	w.calls = append(w.calls, method)
	if w.plan != nil {
		c.fault = w.plan(len(w.calls)-1, method)
	}
	w.note("#%d %s %s %s", inv.Number, method, about, c.fault.Way)
	if w.parts.Calling != nil {
		w.parts.Calling(inv.cancel)
	}
	if c.fault.Before != nil {
		c.wait(*c.fault.Before)
	}
	switch c.fault.Way {
	case CrashBefore:
		runtime.Goexit()
	case LateBefore:
		c.wait(late)
	case CancelBefore:
		inv.cancel()
	}
	// This check comes after all waits, because the invocation may have timed out during them.
	switch err := ctx.Err(); {
	case err != nil:
		return c, fmt.Errorf("%s: %w", method, err)
	case c.fault.Way == FailBefore:
		return c, fmt.Errorf("%s: %s", method, FailBefore)
	case c.fault.Way == Throttle:
		return c, fmt.Errorf("%w: %s: %s", dedupe.ErrTryAgain, method, Throttle)
	}
	return c, nil
}

// end plays the part of the fault that comes after the effect. Its error is the call's error.
func (c *brokenCall) end() error {
	if c.fault.After != nil {
		c.wait(*c.fault.After)
	}
	switch c.fault.Way {
	case CrashAfter:
		runtime.Goexit()
	case LateAfter:
		c.wait(late)
	case CancelAfter:
		invocationOf(c.ctx).cancel()
		return fmt.Errorf("%s: %w", c.method, context.Canceled)
	case LoseReply:
		return c.lost()
	}
	return nil
}

func (c *brokenCall) lost() error {
	return fmt.Errorf("%w: %s: %s", dedupe.ErrTryAgain, c.method, c.fault.Way)
}

// wait waits in the invocation, in virtual time. It ends the process if that would run longer than a real process
// can.
func (c *brokenCall) wait(d time.Duration) {
	eventsource.Wait(c.ctx, d)
	if inv := invocationOf(c.ctx); c.sim.Now().After(inv.Deadline.Add(mostLate)) {
		runtime.Goexit()
	}
}

// faultHook breaks the calls of the function as planned, and tells the judge about their effects.
func (w *World) faultHook(ctx context.Context, c *Call) error {
	before := w.tick()
	b, err := w.begin(ctx, c.Method, about{c})
	if err != nil {
		w.notStored(ctx, c.Letters)
		return err
	}
	switch c.Method {
	case PutIfAbsent:
		err = b.putIfAbsent(c)
	case RaisePurge:
		err = b.raisePurge(c)
	case WriteAck:
		if err = c.Do(ctx); err == nil && invocationOf(ctx).level == w.scenario.Sink {
			w.noteAck(c.Key, c.Acks[0])
		}
	case Append, ReadLog:
		err = b.logged(c)
	case Transact:
		return b.transact(c)
	case Send:
		return b.send(c)
	case PutDeadLetters:
		return b.putDeadLetters(c)
	default:
		err = c.Do(ctx)
	}
	if err == nil {
		err = b.end()
	}
	if err == nil && c.Method == ReadAcks {
		w.noteRead(invocationOf(ctx), before, c.Acks)
	}
	return err
}

func (b *brokenCall) putIfAbsent(c *Call) error {
	asked := c.Entries
	c.Entries = asked[:b.withEffect(len(asked))]
	if err := c.Do(b.ctx); err != nil {
		return err
	}
	for i, r := range c.Puts {
		if r.Err == nil {
			b.noteEntry(asked[i], r.Existing)
		}
	}
	for range asked[len(c.Puts):] {
		c.Puts = append(c.Puts, dedupe.PutResult{Err: b.lost()})
	}
	if b.fault.Way == PartLost {
		for i := 0; i < len(c.Puts); i += 2 {
			c.Puts[i] = dedupe.PutResult{Err: b.lost()}
		}
	}
	return nil
}

func (b *brokenCall) raisePurge(c *Call) error {
	asked := c.Raises
	c.Raises = asked[:b.withEffect(len(asked))]
	if err := c.Do(b.ctx); err != nil {
		return err
	}
	for range asked[len(c.Raised):] {
		c.Raised = append(c.Raised, dedupe.RaiseResult{Err: b.lost()})
	}
	if b.fault.Way == PartLost {
		for i := 0; i < len(c.Raised); i += 2 {
			c.Raised[i] = dedupe.RaiseResult{Err: b.lost()}
		}
	}
	return nil
}

// transact runs a transaction. The effect itself tells the judge.
func (b *brokenCall) transact(c *Call) error {
	if err := c.Do(b.ctx); err != nil {
		return err
	}
	b.noteEntry(c.Tx.Entry, c.TxResult.Existing)
	if err := b.end(); err != nil {
		return err
	}
	if c.TxResult.Existing == nil {
		b.confirm(b.ctx, []dedupe.Output{c.Tx.Output})
	}
	return nil
}

// withEffect returns how many of the n elements the call takes effect on, counted from the first.
func (b *brokenCall) withEffect(n int) int {
	if b.fault.Way == PartBefore {
		return n / 2
	}
	return n
}

// fateOf returns what happens to output i of n in a Send: whether the sink gets it, and otherwise whether it refuses it.
func (w Way) fateOf(i, n int) (sent, refused bool) {
	switch w {
	case PartBefore:
		return i < n/2, false
	case Scattered, ScatterLost:
		return i%2 == 1, false
	case Refuses:
		return i%2 == 1, i%2 == 0
	case RefusesSome:
		return i%3 == 2, i%3 == 1
	}
	return true, false
}

func (b *brokenCall) send(c *Call) error {
	asked, began := c.Outputs, b.tick()
	inv := invocationOf(b.ctx)
	if inv.sendFailed && !inv.redrives {
		b.violate("order: #%d sends after a Send that failed", inv.Number)
	}
	answer := dedupe.Sent{Delivered: make([]bool, len(asked)), Refused: make([]*dedupe.PoisonError, len(asked))}
	var some []int // the outputs that the sink gets
	c.Outputs = nil
	for i, o := range asked {
		sent, refused := b.fault.Way.fateOf(i, len(asked))
		if refused {
			b.passOver(o, began)
			answer.Refused[i] = &dedupe.PoisonError{Reason: "refused"}
		}
		if sent {
			some, c.Outputs = append(some, i), append(c.Outputs, o)
		}
	}
	err := c.Do(b.ctx)
	for j, i := range some {
		answer.Delivered[i], answer.Refused[i] = c.WasDelivered(j, err), c.WasRefused(j)
	}
	if slices.Contains([]Way{Scattered, ScatterLost, RefusesSome}, b.fault.Way) {
		b.outOfOrder(c.Outputs)
	}
	answer.Repeated = c.Sent.Repeated
	switch c.Sent = answer; {
	case err != nil:
	case b.fault.Way == ScatterLost:
		c.Sent, err = dedupe.Sent{}, b.lost()
	case b.fault.Way == PartBefore && len(some) < len(asked), b.fault.Way == Scattered, b.fault.Way == RefusesSome:
		err = b.lost()
	default:
		if err = b.end(); err != nil {
			c.Sent = dedupe.Sent{}
		}
	}
	inv.sendFailed = err != nil
	for i, o := range asked {
		switch {
		case c.WasDelivered(i, err):
			b.confirm(b.ctx, []dedupe.Output{o})
		case c.WasRefused(i) != nil:
			b.refused(b.ctx, o)
		}
	}
	return err
}

func (b *brokenCall) putDeadLetters(c *Call) error {
	asked := c.Letters
	c.Letters = asked[:b.withEffect(len(asked))]
	if b.fault.Way == ScatterLost {
		c.Letters = everySecond(asked)
	}
	err := c.Do(b.ctx)
	for _, l := range c.Letters[:c.Done] {
		b.stored(l.Owner)
	}
	err = b.endPart(c, len(asked), err)
	b.notStored(b.ctx, asked[c.Done:])
	for _, l := range asked[:c.Done] {
		invocationOf(b.ctx).stored[l.Owner] = true
	}
	return err
}

// endPart ends a call that was to store n dead letters. It sets the number that the function gets as stored.
func (b *brokenCall) endPart(c *Call, n int, err error) error {
	switch {
	case err != nil:
	case b.fault.Way == ScatterLost:
		c.Done = 0
		return b.lost()
	case c.Done < n:
		return b.lost()
	default:
		if err = b.end(); err != nil {
			c.Done = 0
		}
	}
	return err
}

// everySecond returns the second element, the fourth, and so on.
func everySecond[T any](all []T) (some []T) {
	for i := 1; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

// about prints a call for the trace.
type about struct{ *Call }

func (a about) String() (text string) {
	for _, e := range a.Entries {
		text += fmt.Sprintf("[%s %.8x %s] ", shortOwner(e.Owner.String()), e.Key, e.Fingerprint)
	}
	if len(a.Raises) > 0 {
		text += fmt.Sprint(len(a.Raises))
	}
	if a.Method == Transact {
		text += fmt.Sprintf("[%s %.8x %t %s]", shortOwner(a.Tx.Entry.Owner.String()), a.Tx.Entry.Key, a.Tx.Finish, a.Tx.Output.Data)
	}
	for _, o := range a.Outputs {
		text += fmt.Sprintf("[%.8s %s] ", o.ID, o.Data)
	}
	for _, l := range a.Letters {
		text += "[" + shortOwner(l.Owner) + "] "
	}
	if a.Key.Shard != "" {
		text += a.Key.Shard
	}
	if slices.Contains([]Method{ReadEpochs, PutEpoch, Append, ReadLog}, a.Method) {
		text += a.Log.String()
	}
	if a.Method == WriteAck {
		text += fmt.Sprintf(" %s to %s: %d", a.Acks[0].First, a.Acks[0].Last, len(a.Acks[0].Owners)/dedupe.OwnerMarkSize)
	}
	return text
}
