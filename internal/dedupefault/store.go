package dedupefault

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/oncebox/oncebox/internal/eventsource"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Way is a way in which a call of the function fails.
type Way string

// The ways. Late ones end after the invocation's time-out, which goes on all the same.
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
	Scattered    Way = "effect for every second, error at the first of the others"
)

// The methods of the parts.
const (
	putIfAbsent       = "PutIfAbsent"
	raisePurge        = "RaisePurge"
	readCheckpoint    = "ReadCheckpoint"
	advanceCheckpoint = "AdvanceCheckpoint"
	send              = "Send"
	putDeadLetters    = "Put"
	notify            = "Notify"
)

// waysOf returns the ways of a method.
func waysOf(method string) []Way {
	ways := []Way{FailBefore, Throttle, CancelBefore, CancelAfter, CrashBefore, CrashAfter, LateBefore, LateAfter}
	switch method {
	case readCheckpoint:
		return ways
	case putIfAbsent, raisePurge:
		return append(ways, LoseReply, PartBefore, PartLost)
	case send, putDeadLetters:
		return append(ways, LoseReply, PartBefore, Scattered)
	}
	return append(ways, LoseReply)
}

// lasts reports that a fault of the kind may go on for a while.
func (w Way) lasts() bool { return w == FailBefore || w == Throttle || w == LoseReply }

// late is how long a late call takes: its successors come between.
const late = timeout + 20*time.Second

// Fault is what befalls a call. The waits come on top of its way.
type Fault struct {
	Way           Way
	Before, After *time.Duration // virtual time; others may come between also in none
}

// errThrown is what a function throws that ends with an error.
var errThrown = errors.New("thrown")

// call is one that the function makes.
type call struct {
	*World
	ctx    context.Context
	method string
	fault  Fault
}

// begin notes a call, says how it fails, and lets happen what is before the effect.
// An error is the answer of one without effect.
func (w *World) begin(ctx context.Context, method string, of fmt.Stringer) (*call, error) {
	inv := invocationOf(ctx)
	c := &call{World: w, ctx: ctx, method: method}
	w.calls = append(w.calls, method)
	if w.plan != nil {
		c.fault = w.plan(len(w.calls)-1, method)
	}
	w.note("#%d %s %s %s", inv.Number, method, of, c.fault.Way)
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
	// After all waiting: the invocation may be another's successor by now.
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

// end lets happen what is after the effect. An error is the answer.
func (c *call) end() error {
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

func (c *call) lost() error {
	return fmt.Errorf("%w: %s: %s", dedupe.ErrTryAgain, c.method, c.fault.Way)
}

// wait lets time go by in the invocation, and ends it where it is later than any is.
func (c *call) wait(d time.Duration) {
	eventsource.Wait(c.ctx, d)
	if inv := invocationOf(c.ctx); c.sim.Now().After(inv.Deadline.Add(mostLate)) {
		runtime.Goexit()
	}
}

// store is the engine, with faults and a memory of its rows.
type store struct {
	*World
	inner Store
}

// Store is what the function needs of an engine.
type Store interface {
	dedupe.Ledger
	dedupe.Checkpoints
}

func (s *store) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	c, err := s.begin(ctx, putIfAbsent, owners(entries))
	if err != nil {
		return nil, err
	}
	asked := len(entries)
	if c.fault.Way == PartBefore {
		asked /= 2
	}
	results, err := s.inner.PutIfAbsent(ctx, entries[:asked])
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		if r.Err == nil {
			s.putRow(entries[i], r.Existing)
		}
	}
	for range entries[asked:] {
		results = append(results, dedupe.PutResult{Err: c.lost()})
	}
	for i := range results {
		if c.fault.Way == PartLost && i%2 == 0 {
			results[i] = dedupe.PutResult{Err: c.lost()}
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return results, nil
}

func (s *store) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	c, err := s.begin(ctx, raisePurge, count(len(raises)))
	if err != nil {
		return nil, err
	}
	asked := len(raises)
	if c.fault.Way == PartBefore {
		asked /= 2
	}
	results, err := s.inner.RaisePurge(ctx, raises[:asked])
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		if r.Raised {
			s.raiseRow(raises[i])
		}
	}
	for range raises[asked:] {
		results = append(results, dedupe.RaiseResult{Err: c.lost()})
	}
	for i := range results {
		if c.fault.Way == PartLost && i%2 == 0 {
			results[i] = dedupe.RaiseResult{Err: c.lost()}
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return results, nil
}

func (s *store) ReadCheckpoint(ctx context.Context, k dedupe.CheckpointKey) (*dedupe.Checkpoint, error) {
	c, err := s.begin(ctx, readCheckpoint, text(k.Shard))
	if err != nil {
		return nil, err
	}
	found, err := s.inner.ReadCheckpoint(ctx, k)
	if err == nil {
		err = c.end()
	}
	if err != nil {
		return nil, err
	}
	if found != nil {
		invocationOf(ctx).skipped = found.Sequence
	}
	return found, nil
}

func (s *store) AdvanceCheckpoint(ctx context.Context, k dedupe.CheckpointKey, to dedupe.Checkpoint) error {
	c, err := s.begin(ctx, advanceCheckpoint, text(k.Shard+" "+to.Sequence))
	if err != nil {
		return err
	}
	before, err := s.inner.ReadCheckpoint(ctx, k)
	if err != nil {
		return err
	}
	err = s.inner.AdvanceCheckpoint(ctx, k, to)
	s.checkAdvance(ctx, k, before)
	if err != nil {
		return err
	}
	return c.end()
}

// sink delivers to a sink with faults. What a sink in memory has, the judge knows at
// once.
type sink struct {
	*World
	inner dedupe.Sink // nil: memory
}

// MostData is the largest record that the sink takes, in bytes with its partition key.
const MostData = 500

func (s *sink) Check(o dedupe.Output) error {
	if s.inner != nil {
		return s.inner.Check(o)
	}
	if len(o.Data)+len(o.PartitionKey) > MostData {
		return &dedupe.PoisonError{Reason: "too large"}
	}
	return nil
}

func (s *sink) Send(ctx context.Context, outputs []dedupe.Output) (delivered int, err error) {
	c, err := s.begin(ctx, send, ids(outputs))
	if err != nil {
		return 0, err
	}
	if s.inner != nil {
		delivered, err = s.inner.Send(ctx, outputs)
	} else {
		delivered = s.deliver(ctx, c.fault.Way, outputs)
		if delivered < len(outputs) {
			err = c.lost()
		}
	}
	if err == nil {
		if err = c.end(); err != nil {
			delivered = 0
		}
	}
	s.confirm(ctx, outputs[:delivered])
	return delivered, err
}

// failures keeps records in a failure store with faults.
type failures struct {
	*World
	inner dedupe.DeadLetterStore
}

func (s *failures) Put(ctx context.Context, all []dedupe.DeadLetter) (kept int, err error) {
	c, err := s.begin(ctx, putDeadLetters, ownersOf(all))
	if err != nil {
		return 0, err
	}
	asked := all
	switch c.fault.Way {
	case PartBefore:
		asked = all[:len(all)/2]
	case Scattered:
		asked = everySecond(all)
	}
	kept, err = s.inner.Put(ctx, asked)
	for _, f := range asked[:kept] {
		s.keep(f.Owner)
	}
	switch {
	case err != nil:
	case c.fault.Way == Scattered:
		kept, err = 0, c.lost()
	case kept < len(all):
		err = c.lost()
	default:
		if err = c.end(); err != nil {
			kept = 0
		}
	}
	for _, f := range all[:kept] {
		invocationOf(ctx).kept[f.Owner] = true
	}
	return kept, err
}

// everySecond is the second of them, the fourth, and so on.
func everySecond(all []dedupe.DeadLetter) (some []dedupe.DeadLetter) {
	for i := 1; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

// Texts of what calls are about, for the trace.
type (
	text   string
	count  int
	owners []dedupe.Entry
	ids    []dedupe.Output

	ownersOf []dedupe.DeadLetter
)

func (t text) String() string  { return string(t) }
func (n count) String() string { return fmt.Sprint(int(n)) }

func (o owners) String() (text string) {
	for _, e := range o {
		text += fmt.Sprintf("[%s %.8x %s] ", place(e.Owner), e.Key, e.Fingerprint)
	}
	return text
}

func (o ids) String() (text string) {
	for _, out := range o {
		text += fmt.Sprintf("[%.8s %s] ", out.ID, out.Data)
	}
	return text
}

func (o ownersOf) String() (text string) {
	for _, f := range o {
		text += "[" + place(f.Owner) + "] "
	}
	return text
}
