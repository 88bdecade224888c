// Package redrive delivers dead letters. It passes each letter to a Processor with its original owner. After the sink
// has confirmed the letter, it marks the letter as done.
package redrive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// Item is a dead letter that has not been read yet.
type Item struct {
	Name string
	// Done reports whether the letter has a marker.
	Done   func(ctx context.Context) (bool, error)
	Letter func(ctx context.Context) (deadletter.Letter, error)
}

// Markers stores the attempts and the markers of letters. *deadletter.Archive implements it.
type Markers interface {
	Begin(ctx context.Context, name string, r deadletter.Runner, now time.Time) (deadletter.Begun, error)
	Look(ctx context.Context, name string, takesOver []string) (deadletter.Begun, error)
	End(ctx context.Context, name string, of *deadletter.Attempt) error
	MarkDone(ctx context.Context, name string, m deadletter.Marker) (created bool, err error)
}

// Processor processes letters. *dedupe.Processor implements it.
type Processor interface {
	Redrive(ctx context.Context, d dedupe.DeadLetter, name string) dedupe.Result
	Process(ctx context.Context, b dedupe.Batch) dedupe.Result
	InspectLetter(ctx context.Context, d dedupe.DeadLetter) dedupe.Result
	Inspect(ctx context.Context, b dedupe.Batch) dedupe.Result
}

// Job redrives dead letters, or only lists them.
type Job struct {
	Items iter.Seq2[Item, error]
	// Retention has the horizon. A letter past the horizon runs only with PastHorizon.
	Retention   dedupe.Retention
	PastHorizon bool
	// Records reads the records of a batch from the stream. It returns ErrLost if the stream does not have them.
	Records func(ctx context.Context, b *deadletter.GivenUp) ([]dedupe.Record, error)
	// Keep reports whether to include a letter. If it is nil, all letters are included.
	Keep func(l deadletter.Letter) bool

	// Target returns the Processor of a stream, and the scope of that Processor. Run needs it.
	Target func(ctx context.Context, s dedupe.Stream) (p Processor, scope string, err error)
	// Decode reads the event of a batch. Run needs it.
	Decode func(event json.RawMessage) (dedupe.Batch, error)
	// Markers stores which letters are done and begun.
	Markers Markers
	// Runner is this run, if the sink sends a letter again that comes again. Then Run stores an attempt before it sends a
	// letter. Without Runner.Run it stores none: the sink does nothing if a letter comes again.
	Runner deadletter.Runner
	// Patch changes the payload of a poison record before it is read. If it is nil, payloads are not changed.
	Patch func(ctx context.Context, payload []byte) ([]byte, error)
	// Function is the name of the function whose batches run. If it is "", no batch runs.
	Function string
	DryRun   bool
	// Marker holds the values that are the same in all markers.
	Marker deadletter.Marker

	Concurrency int                         // the number of letters at the same time; up to 1: no goroutine is started
	Pace        func(context.Context) error // waits before a letter runs; nil: no wait
	Now         func() time.Time
}

// Status says what happened to a letter.
type Status string

// These are the states of letters. List uses Done, PastHorizon, Lost, Refused, Failed, Begun and Pending. Run uses the
// others, too, and Ready in a dry run.
const (
	Done        Status = "done"         // done, and marked now
	AlreadyDone Status = "already-done" // done before, as its marker says
	Ready       Status = "ready"        // a dry run could read it
	Pending     Status = "pending"
	Begun       Status = "begun" // another run has begun it, and not finished it
	StillPoison Status = "still-poison"
	PastHorizon Status = "past-horizon"
	Lost        Status = "lost"    // the stream no longer has its records
	Refused     Status = "refused" // the letter does not belong to this run
	Failed      Status = "failed"  // the letter failed and can be tried again

	skipped Status = ""
)

// Report says what happened to one letter.
type Report struct {
	Name     string
	Status   Status
	Why      string // the reason, unless the status is a success
	Err      error  // with Failed
	Letter   deadletter.Letter
	Tally    dedupe.Tally
	Marker   deadletter.Marker // with Done
	Untagged error             // with Done: a deadletter.ErrUntagged, so the letter does not expire
	Same     []SameID          // in a dry run: the records that have the id of a record before
	read     []format.Fields   // in a dry run: all records
	scope    string
}

// maxFailures is the largest number of letters that may fail in a row. More failures mean that a part is down.
const maxFailures = 20

// ErrDown says that many letters failed one after the other.
var ErrDown = errors.New("redrive: many letters failed one after the other")

// ErrLost says that a stream no longer has the records of a batch.
var ErrLost = errors.New("redrive: the stream no longer has the records")

// refusal says why a letter does not belong to a run.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// Run redrives the letters, and calls each with the result of each letter, in their order. It is safe to repeat and
// to interrupt at any point: the marker comes after the sink, so a letter without a marker runs again with its
// original owner. If the sink would send a letter twice, several runs may be at work: one of them sends the letter. A
// letter whose attempt was killed is Begun until a run takes over the killed run. Run returns an error of the listing
// or of each, ctx.Err() if ctx ends first, or ErrDown.
func (j *Job) Run(ctx context.Context, each func(Report) error) error {
	return j.all(ctx, j.redrive, each)
}

// List reports the letters that need a redrive, in their order.
func (j *Job) List(ctx context.Context, each func(Report) error) error {
	return j.all(ctx, j.listOne, each)
}

func (j *Job) all(
	ctx context.Context, do func(context.Context, Item) (Report, error), each func(Report) error,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failures, known := 0, ids{}
	one := func(item Item) Report {
		r, err := j.caught(ctx, item, do)
		return r.withError(err)
	}
	return inOrder(ctx, j.Concurrency, j.Items, one, func(r Report) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Status == skipped {
			return nil
		}
		r.Same = known.add(r.Name, r.scope, r.read)
		r.read = nil
		if err := each(r); err != nil {
			return err
		}
		if r.Status != Failed {
			failures = 0
		} else if failures++; failures == maxFailures {
			return fmt.Errorf("%w: %w", ErrDown, r.Err)
		}
		return nil
	})
}

// caught returns a panic as an error about one letter.
func (j *Job) caught(
	ctx context.Context, item Item, do func(context.Context, Item) (Report, error),
) (r Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			if there, ok := p.(*dedupe.Panic); ok { // the panic was in another goroutine
				p = there.Value
			}
			r, err = Report{Name: item.Name}, fmt.Errorf("a panic: %v", p)
		}
	}()
	return do(ctx, item)
}

// withError returns the report of a letter with the status for an error.
func (r Report) withError(err error) Report {
	var poison *dedupe.PoisonError
	var refused *refusal
	switch {
	case err == nil:
		return r
	case errors.As(err, &refused):
		r.Status, r.Why = Refused, refused.why
	case errors.Is(err, deadletter.ErrNotALetter):
		r.Status, r.Why = Refused, strings.TrimPrefix(err.Error(), "dead-letter store: ")
	case errors.Is(err, recordhandler.ErrLoop):
		r.Status, r.Why = Refused, "the sink is the stream that it comes from"
	case errors.Is(err, ErrLost):
		r.Status, r.Why = Lost, "the stream no longer has its records"
	case errors.As(err, &poison):
		r.Status, r.Why = StillPoison, poison.Reason
	default:
		r.Status, r.Why, r.Err = Failed, err.Error(), err
	}
	return r
}

// open reads a letter, unless the letter is done or left out.
func (j *Job) open(ctx context.Context, item Item, readDone bool) (r Report, proceed bool, err error) {
	r = Report{Name: item.Name}
	done, err := item.Done(ctx)
	if err != nil {
		return r, false, err
	}
	if done {
		r.Status = AlreadyDone
	}
	if done && !readDone {
		return r, false, nil
	}
	if r.Letter, err = item.Letter(ctx); errors.Is(err, fs.ErrNotExist) {
		return r, false, refuse("it does not exist: it was erased or has expired since it was listed, or has another name")
	} else if err != nil {
		return r, false, err
	}
	err = Identify(&r.Letter, j.Retention, j.Now())
	if j.Keep != nil && !j.Keep(r.Letter) {
		r.Status = skipped
		return r, false, nil
	}
	return r, !done && err == nil, err
}

// listOne does the work of List for one letter.
func (j *Job) listOne(ctx context.Context, item Item) (Report, error) {
	r, proceed, err := j.open(ctx, item, true)
	if r.Status == AlreadyDone {
		r.Status = Done
	}
	if !proceed {
		return r, err
	}
	r.Status = Pending
	if j.pastHorizon(r.Letter) {
		r.Status = PastHorizon
		return r, nil
	}
	if b := r.Letter.Batch; b != nil && b.Event == nil {
		if _, err = j.fromStream(ctx, b); err != nil {
			return r, err
		}
	}
	return r, j.look(ctx, &r)
}

// look finds out whether another run has begun a letter.
func (j *Job) look(ctx context.Context, r *Report) error {
	begun, err := j.Markers.Look(ctx, r.Name, j.Runner.TakesOver)
	r.othersWork(begun, j.Runner.Run)
	return err
}

func (j *Job) pastHorizon(l deadletter.Letter) bool {
	return j.Retention.PastHorizon(l.Arrival(), j.Now())
}

// redrive does the work of Run for one letter.
func (j *Job) redrive(ctx context.Context, item Item) (Report, error) {
	r, proceed, err := j.open(ctx, item, false)
	if !proceed {
		return r, err
	}
	processor, scope, err := j.admit(ctx, r.Letter)
	if err != nil {
		return r, err
	}
	if !j.PastHorizon && j.pastHorizon(r.Letter) {
		r.Status, r.Why = PastHorizon, "it arrived at "+r.Letter.Arrival().UTC().Format(time.RFC3339)
		if b := r.Letter.Batch; b != nil && b.Async { // its arrival may be at the horizon of its last attempt
			r.Why = "it arrived before the horizon"
		}
		return r, nil
	}
	if j.Pace != nil {
		if err := j.Pace(ctx); err != nil {
			return r, err
		}
	}
	work, err := j.prepare(ctx, processor, r.Letter)
	if err != nil {
		return r, err
	}
	if j.DryRun || j.Runner.Run != "" { // what cannot be read is not begun
		inspected := work.inspect(ctx)
		r.Tally = inspected.Tally
		switch {
		case inspected.Err != nil:
			return r, inspected.Err
		case j.DryRun:
			r.Status, r.scope, r.read = Ready, scope, inspected.Read
			if j.Runner.Run != "" {
				err = j.look(ctx, &r)
			}
			return r, err
		}
	}
	return r, j.deliver(ctx, &r, item, work, scope)
}

// deliver delivers a letter and marks it. If the sink would send it again, the attempt is stored first, and ended if
// the sink has not confirmed the letter.
func (j *Job) deliver(ctx context.Context, r *Report, item Item, work work, scope string) (err error) {
	var mine *deadletter.Attempt
	if j.Runner.Run != "" {
		begun, err := j.Markers.Begin(ctx, r.Name, j.Runner, j.Now())
		if err != nil || begun.Mine == nil {
			r.othersWork(begun, j.Runner.Run)
			return err
		}
		mine = begun.Mine
	}
	confirmed := false
	defer func() {
		if mine != nil && !confirmed { // also after a panic
			err = errors.Join(err, j.Markers.End(context.WithoutCancel(ctx), r.Name, mine))
		}
	}()
	if mine != nil { // since the letter was read, Archive.Erase may have removed it with all attempts
		if _, err := item.Letter(ctx); errors.Is(err, fs.ErrNotExist) {
			return refuse("it was erased meanwhile")
		} else if err != nil {
			return err
		}
	}
	result := work.process(ctx)
	if r.Tally = result.Tally; result.Err != nil {
		return result.Err
	}
	confirmed = true
	r.Status, r.Marker = Done, j.marker(scope, result.Tally)
	// The marker is written even if the run is interrupted now: without a marker the letter would run again.
	created, err := j.Markers.MarkDone(context.WithoutCancel(ctx), r.Name, r.Marker)
	if errors.Is(err, deadletter.ErrUntagged) {
		r.Untagged, err = err, nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("it is delivered, but its marker is not stored, so do not send it again with --take-over: %w", err)
	case !created:
		r.Status, r.Why = AlreadyDone, "another run was at work on it at the same time, and has marked it"
	}
	return nil
}

// othersWork sets the status of a letter that this run does not send, because another attempt has it.
func (r *Report) othersWork(b deadletter.Begun, own string) {
	switch {
	case b.Done:
		r.Status = AlreadyDone
	case b.Other != nil && b.Other.Run == own:
		r.Status, r.Why = Begun, "the letter is in the input twice: this run has begun its other copy"
	case b.Other != nil:
		r.Status, r.Why = Begun, BegunBy(b.Other)
	}
}

// BegunBy says for people who has begun a letter, and what to do.
func BegunBy(a *deadletter.Attempt) string {
	return fmt.Sprintf("the run %s (%s) has begun it; if that run has ended, --take-over %[1]s sends it", a.Run, a.By)
}

// admit refuses letters that do not belong to this run, and returns the Processor of the others.
func (j *Job) admit(ctx context.Context, l deadletter.Letter) (p Processor, scope string, err error) {
	p, scope, err = j.Target(ctx, l.Stream())
	if err != nil {
		return nil, "", err
	}
	if b := l.Batch; b != nil {
		switch {
		case j.Function == "" && b.Function == "":
			return nil, "", refuse("its dead-letter queue does not say whose event it is; --function NAME runs it")
		case b.Function == j.Function || b.Function == "":
			return p, scope, nil
		case j.Function == "":
			return nil, "", refuse("a batch of the function %s; --function %s runs it", b.Function, b.Function)
		}
		return nil, "", refuse("a batch of another function: %s", b.Function)
	}
	if of := l.Poison.Scope; of != scope {
		return nil, "", refuse("it is of the scope %s, and this run has %s", of, scope)
	}
	if of := l.Poison.Position.Owner().String(); l.Poison.Owner != of { // its entry may have either owner
		return nil, "", refuse("its owner %s is not that of its position, %s: it could be taken for a copy of itself",
			l.Poison.Owner, of)
	}
	return p, scope, nil
}

// work is what to do with a letter.
type work struct {
	inspect, process func(context.Context) dedupe.Result
}

func (j *Job) prepare(ctx context.Context, p Processor, l deadletter.Letter) (work, error) {
	if l.Batch != nil {
		batch, err := j.batchOf(ctx, l.Batch)
		return work{
			func(ctx context.Context) dedupe.Result { return p.Inspect(ctx, batch) },
			func(ctx context.Context) dedupe.Result { return p.Process(ctx, batch) },
		}, err
	}
	letter, name := *l.Poison, l.Base() // the name belongs to the payload before the patch
	if j.Patch != nil {
		patched, err := j.Patch(ctx, letter.Data)
		if err != nil {
			return work{}, err
		}
		letter.Data = patched
	}
	return work{
		func(ctx context.Context) dedupe.Result { return p.InspectLetter(ctx, letter) },
		func(ctx context.Context) dedupe.Result { return p.Redrive(ctx, letter, name) },
	}, nil
}

// marker returns the marker of a redriven letter.
func (j *Job) marker(scope string, t dedupe.Tally) deadletter.Marker {
	m := j.Marker
	m.At, m.Scope = j.Now(), scope
	m.Delivered, m.DeadLettered = t.Out, t.DeadLettered
	m.Dropped = min(t.Natural, t.In-t.Out-t.DeadLettered)
	m.DoneBefore = t.In - t.Out - t.DeadLettered - m.Dropped
	switch {
	case m.Delivered > 0:
		m.Outcome = "delivered"
	case m.DeadLettered > 0:
		m.Outcome = "dead-lettered"
	case m.DoneBefore > 0:
		m.Outcome = "done-before"
	default:
		m.Outcome = "dropped"
	}
	return m
}
