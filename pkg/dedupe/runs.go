package dedupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrReplaced says that a run over files is over, because another command has closed or replaced it. It cannot
// continue, and none of its writes takes effect.
var ErrReplaced = errors.New("another run has closed or replaced this one")

// RunAtWorkError says that a record cannot be decided yet: a run over files has entered its id, and has not saved the
// result. The run is at work, or has ended less than RestAfter ago. It is of the family ErrTryAgain.
type RunAtWorkError struct{ Run string }

func (e *RunAtWorkError) Error() string {
	return fmt.Sprintf("the record waits for the run %s, which has its id and has not saved it yet", e.Run)
}

// Unwrap returns ErrTryAgain.
func (e *RunAtWorkError) Unwrap() error { return ErrTryAgain }

// Runs store the progress of runs over files, and of imports. An import has no OutputID: only itself reads its row.
type Runs interface {
	// ReadRun returns the latest run with a digest, or nil if there is none.
	ReadRun(ctx context.Context, scope, digest string) (*Run, error)
	RunTable
	// OpenRuns returns the runs over files that are neither finished nor closed, in the order of their ids.
	OpenRuns(ctx context.Context, scope string) ([]Run, error)
	// SaveRun stores a run, or replaces it. It returns ErrReplaced, and changes nothing, unless r may follow the stored run:
	// see Run.Follows.
	SaveRun(ctx context.Context, scope string, r Run) error
}

// RunTable is the part of Runs that a RunWatch needs.
type RunTable interface {
	// RunByID returns a run, or nil if there is none or another run has replaced it. It reads consistently.
	RunByID(ctx context.Context, scope, id string) (*Run, error)
	// CloseRun closes a run at the progress that r has. It reports false, and changes nothing, if the run is closed or
	// has another Beat than r, since it was saved after r was read.
	CloseRun(ctx context.Context, scope string, r Run) (closed bool, err error)
}

// Run is the progress of a run over files. A run that was stopped continues from here under the same id, after its
// files were cut to these sizes.
type Run struct {
	Digest      string // of inputs and options
	ID          string // part of the owners of its records
	Finished    bool
	Input       int64 // bytes of the inputs that are processed
	Lines       int64 // lines of the inputs that are processed
	File        int   // the input of the last of these lines, from 1
	Line        int64 // the number of that line in its input, from 1
	Output      int64 // bytes of the output file
	DeadLetters int64 // bytes of the dead-letter file
	Tally       Tally
	// About describes the run and its files.
	About string

	// OutputID is the id of the output. The files belong to the run only if they have the same one.
	OutputID string
	// Beat grows each time the run is saved. No save follows one with a later Beat. While the run is at work, it is saved at least every BeatEvery.
	Beat int64
	// Rests says that the process of the run has ended by itself.
	Rests bool
	// Closed says that another command has closed the run: what it has entered after File and Line is void.
	Closed bool
}

// Follows reports whether a save of r may replace the stored run: it is not closed, and a run over files was not saved
// later. So a save that arrives late, after another process has gone on with the run or has cut its files, fails. A save
// that is sent again does not.
func (r Run) Follows(stored Run) bool {
	return !stored.Closed && (r.OutputID == "" || stored.Beat < r.Beat || stored == r)
}

// BeatEvery is how often a run at work is saved at least. A run that was not saved for RestAfter counts as stopped.
const (
	BeatEvery = 3 * time.Second
	RestAfter = 15 * time.Second
)

// RunLine is the line of a run over files that has put an entry.
type RunLine struct {
	Run  string
	File int   // the number of the input, from 1
	Line int64 // the number of the line in its input, from 1
}

const runSource = "run/"

// RunSource returns the Source of the owners of a run's records in one input.
func RunSource(run string, file int) string { return runSource + run + "/" + strconv.Itoa(file) }

// ReadRunLine reads the line from the text of an owner. ok is false if no run over files has put the entry.
func ReadRunLine(owner string) (at RunLine, ok bool) {
	rest, ok := strings.CutPrefix(owner, runSource)
	if !ok {
		return RunLine{}, false
	}
	run, rest, _ := strings.Cut(rest, "/")
	file, rest, _ := strings.Cut(rest, "/")
	line, _, _ := strings.Cut(rest, " ")
	var err, lineErr error
	at.Run = run
	at.File, err = strconv.Atoi(file)
	at.Line, lineErr = strconv.ParseInt(line, 10, 64)
	if err != nil || lineErr != nil {
		return RunLine{}, false
	}
	return at, true
}

// isOf reports whether the owner is that of a record that a run has read.
func (o Owner) isOf(run string) bool {
	rest, ok := strings.CutPrefix(cmp.Or(o.Place, o.Source), runSource)
	return ok && strings.HasPrefix(rest, run) && strings.HasPrefix(rest[len(run):], "/")
}

// Saved reports whether the run has saved the result of a line.
func (r *Run) Saved(at RunLine) bool {
	return r.Finished || at.File < r.File || at.File == r.File && at.Line <= r.Line
}

// RunWatch tells an engine which entries of runs are void. It belongs to one Store. The zero value is ready.
type RunWatch struct {
	Now func() time.Time // nil means time.Now

	mu       sync.Mutex
	runs     map[runKey]*watchedRun
	finished ownersOfRun // of the finished run whose entry was met last: most entries are of few runs
}

// ownersOfRun are the owners of a run's records: their texts begin with prefix.
type ownersOfRun struct{ scope, prefix string }

type runKey struct{ scope, run string }

// watchedRun is a run as it was read last.
type watchedRun struct {
	Run
	read  time.Time
	since time.Time // when this beat was read first
}

// readAgain is how long a run at work is not read again. So a batch with many records that wait for one run costs one
// read. Until then they only wait longer: what a run has saved stays saved.
const readAgain = 200 * time.Millisecond

// Void reports whether an entry is void, so that its key is free for the record of another owner. owner is the stored
// text of the entry's owner, and asks the owner of the record. An entry of the record's own run is never void. The
// entry must be read before this call. If it is unknown yet whether the entry counts, the error is a RunAtWorkError.
// Void closes a run that has stopped.
func (w *RunWatch) Void(ctx context.Context, runs RunTable, scope, owner string, asks Owner) (bool, error) {
	at, ok := ReadRunLine(owner)
	if !ok || asks.isOf(at.Run) {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[runKey{scope, at.Run}]
	if r != nil && r.Finished {
		w.finished = ownersOfRun{scope, runSource + at.Run + "/"}
	}
	switch {
	case r != nil && (r.Saved(at) || r.Closed):
		return !r.Saved(at), nil
	case r != nil && !r.Rests && w.now().Sub(r.read) < readAgain:
		return false, &RunAtWorkError{at.Run}
	}
	r, err := w.read(ctx, runs, runKey{scope, at.Run})
	switch {
	case err != nil:
		return false, err
	case r == nil: // of another version, or deleted: its entries count as before
		return false, nil
	case r.Saved(at) || r.Closed:
		return !r.Saved(at), nil
	case !r.Rests && r.read.Sub(r.since) < RestAfter:
		return false, &RunAtWorkError{at.Run}
	}
	delete(w.runs, runKey{scope, at.Run})
	closed, err := runs.CloseRun(ctx, scope, r.Run)
	if err == nil && !closed {
		err = &RunAtWorkError{at.Run}
	}
	return err == nil, err
}

// Finished returns what the texts of owners begin with whose entries count: those of the finished run that Void has met
// last. It is "" if there is none. An engine need not read the owners of these entries.
func (w *RunWatch) Finished(scope string) (prefix string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished.scope == scope {
		prefix = w.finished.prefix
	}
	return prefix
}

// read reads a run, and notes how long it has had its beat.
func (w *RunWatch) read(ctx context.Context, runs RunTable, k runKey) (*watchedRun, error) {
	row, err := runs.RunByID(ctx, k.scope, k.run)
	if err != nil || row == nil {
		return nil, err
	}
	r := &watchedRun{Run: *row, read: w.now()}
	if r.since = r.read; w.runs[k] != nil && w.runs[k].Beat == r.Beat {
		r.since = w.runs[k].since
	}
	if w.runs == nil {
		w.runs = map[runKey]*watchedRun{}
	}
	w.runs[k] = r
	return r, nil
}

func (w *RunWatch) now() time.Time {
	if w.Now != nil {
		return w.Now()
	}
	return time.Now()
}

// Settled reports whether an entry decides the records of other owners, for calls that only read. owner is the stored
// text of its owner. The entry of a run whose line is not saved is void as soon as the run is closed.
func Settled(ctx context.Context, runs RunTable, scope, owner string) (bool, error) {
	at, ok := ReadRunLine(owner)
	if !ok {
		return true, nil
	}
	r, err := runs.RunByID(ctx, scope, at.Run)
	return r == nil || r.Saved(at), err
}
