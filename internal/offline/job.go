package offline

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// DefaultBatchSize is how many lines are decided and recorded at a time.
const DefaultBatchSize = 1000

// Store is the part of a dedupe.Store that a job needs.
type Store interface {
	dedupe.Ledger
	dedupe.Runs
}

// Job is what is to be done.
type Job struct {
	Inputs []Input
	Format format.Options
	Scope  string
	// Retention is for good, or a window; see the package's words on the horizon.
	Retention     dedupe.Retention
	PassNatural   bool // natural duplicates pass unchanged
	PassSynthetic bool // synthetic duplicates pass unchanged

	Store Store
	// Forgets says that the store ends with the process: the run is not
	// recorded, and the inputs are read only once.
	Forgets bool

	Out         string    // the output file; empty: Stream
	Stream      io.Writer // such as stdout
	DeadLetters string    // file for poison records, made for the first one

	BatchSize int                            // never changes the result; 0: DefaultBatchSize
	Now       func() time.Time               // nil: time.Now
	Progress  func(doing string, done int64) // bytes of the inputs; may be nil

	// Tests have their own.
	open    opener // of files to write
	maxLine int
}

// Report says what a run has done. Records that were decided before a crash, and
// not recorded, are retries in its Tally.
type Report struct {
	Run     string // its id
	Resumed int64  // lines that were done when it went on
	Again   bool   // it had begun before, and was started over
	dedupe.Tally
}

// Run runs the job to its end. It is safe to repeat at any time; what that does
// is in the package's documentation.
//
// Errors: a *format.OptionError; ErrRefused; ErrStopped. Any other error is of
// an input, the output or the store before the run began. The report is of what
// has been done, also with ErrStopped.
func (j *Job) Run(ctx context.Context) (Report, error) {
	f, err := format.NewJSON(j.Format)
	if err != nil {
		return Report{}, err
	}
	r := newRun(*j, f)
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return Report{}, err
	}
	err = r.work(ctx)
	return Report{Run: r.at.ID, Resumed: r.resumed, Again: r.again, Tally: r.at.Tally}, err
}

// run is a job on its way.
type run struct {
	Job
	format      dedupe.Format
	decider     dedupe.Decider
	lines       *lineReader
	hold        *hold // of Out; nil without
	out         target
	deadLetters target

	at       dedupe.Run // how far it is
	recorded time.Time  // when that was last recorded
	start    time.Time  // the arrival of its records
	resumed  int64
	again    bool
	ending   bool // all is written, and the row is told so

	room      []byte  // for the lines of a batch
	ahead     *record // read, and left for the next batch
	survivors []byte  // of a batch, as text
	poison    []byte  // of a batch, as deadLetters lines
}

func newRun(j Job, f dedupe.Format) *run {
	if j.BatchSize == 0 {
		j.BatchSize = DefaultBatchSize
	}
	if j.Now == nil {
		j.Now = time.Now
	}
	if j.open == nil {
		j.open = osOpen
	}
	if j.maxLine == 0 {
		j.maxLine = maxLine
	}
	r := &run{Job: j, format: f, lines: newLineReader(j.Inputs, j.maxLine)}
	r.decider = dedupe.Decider{Ledger: j.Store, Scope: j.Scope, Retention: j.Retention, PassSynthetic: j.PassSynthetic}
	r.out = target{path: j.Out, open: j.open}
	r.deadLetters = target{path: j.DeadLetters, open: j.open}
	if j.Out == "" {
		r.out.to, r.deadLetters.adds = j.Stream, true
	}
	return r
}

func (r *run) close() {
	r.lines.close()
	r.out.close()
	r.deadLetters.close()
	if r.hold != nil {
		r.hold.release()
	}
}

func (r *run) progress(doing string, done int64) {
	if r.Progress != nil {
		r.Progress(doing, done)
	}
}

// work does what is left of the inputs, batch by batch.
func (r *run) work(ctx context.Context) error {
	for !r.at.Finished {
		if err := r.batch(ctx); err != nil {
			return r.stopped(ctx, err)
		}
		r.progress("deduplicating", r.at.Input)
	}
	if r.hold != nil {
		_ = r.hold.removeMark() // one that stays is of no unfinished run
	}
	return nil
}

// batch does one batch.
func (r *run) batch(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := r.read(ctx)
	if err != nil {
		return err
	}
	if err := r.settle(ctx, b); err != nil {
		return err
	}
	r.at.Finished = b.last
	if b.last || r.mustNotReplace() || r.Now().Sub(r.recorded) >= recordEvery {
		return r.record(ctx)
	}
	return nil
}

const (
	// recordEvery is how much work a crash may cost at most. Syncing both files
	// and writing the row after each batch takes about as long as the batch.
	recordEvery = time.Second

	// recordTimeout is how long recording may outlast an interrupt.
	recordTimeout = 10 * time.Second
)

// record makes what is done count. The row is written after what it tells of is
// on the disk: else a crash could leave files that are shorter than it says.
func (r *run) record(ctx context.Context) error {
	r.recorded = r.Now()
	if (r.Out == "" || r.Forgets) && !r.at.Finished {
		return nil // it starts over: there is no place to go on from
	}
	if err := r.out.sync(); err != nil {
		return err
	}
	if err := r.deadLetters.sync(); err != nil {
		return err
	}
	r.ending = r.at.Finished
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return r.save(ctx)
}

func (r *run) save(ctx context.Context) error {
	if r.Forgets {
		return nil
	}
	return r.Store.SaveRun(ctx, r.Scope, r.at)
}

// stopped says how far the run is, and what comes of running it again. One that
// was interrupted, and not by a fault, loses nothing of what it did.
func (r *run) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted (%w)", ctx.Err())
		r.at.Finished = false // its end is not recorded: the next run does that
		if fault := r.record(ctx); fault != nil {
			err = fmt.Errorf("%w; the last second's work is to be done again: %w", err, fault)
		}
	}
	again := "the same command goes on from there"
	switch {
	case r.Forgets && r.Out != "":
		again = fmt.Sprintf("its ledger is forgotten: remove %s and start over", r.Out)
	case r.Forgets:
		again = "the same command starts over"
	case r.Out == "" && r.ending: // the row may have it, or not
		again = "everything was printed: keep it; the same command prints nothing more, or everything again"
	case r.Out == "":
		again = "the same command starts over and prints everything again"
	}
	return fmt.Errorf("%w after %d lines: %w; %s", ErrStopped, r.at.Lines, err, again)
}
