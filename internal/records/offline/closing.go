package offline

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ClosedRun is a stopped run that was closed.
type ClosedRun struct {
	ID     string `json:"run"`
	Output string `json:"output,omitempty"` // its file, which is whole up to Lines; empty for a stream
	Place  string `json:"place,omitempty"`  // to which the run uploads its file, and may have done so
	Host   string `json:"host,omitempty"`   // that has the file
	Lines  int64  `json:"lines"`            // of the output
}

// closeStopped closes the stopped runs of the scope. The saved results of these runs stay. Their later records are
// decided again by the runs that read them.
func (r *run) closeStopped(ctx context.Context) error {
	if r.Preview {
		return nil
	}
	open, err := r.Store.OpenRuns(ctx, r.Scope)
	if err != nil {
		return err
	}
	r.left = nil
	for _, p := range open {
		if p.ID == r.done.ID {
			continue
		}
		if err := r.closeIfStopped(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// closeIfStopped closes a run if its process has ended. The files are cut before the run is closed: if this process
// ends in between, the files are as the run's own continuation would cut them. As that does, it saves the run before.
func (r *run) closeIfStopped(ctx context.Context, p dedupe.Run) error {
	about := AboutRun(p)
	lock, err := r.lockFile(about.File)
	if errors.Is(err, ErrRefused) { // its process holds the lock
		r.left = append(r.left, p)
		return nil
	}
	if lock != nil && lock != r.lock {
		defer lock.release()
		// Before it was locked, the run may have gone on and stopped again.
		now, err := r.Store.RunByID(ctx, r.Scope, p.ID)
		if err != nil || now == nil || now.Finished || now.Closed {
			return err
		}
		p = *now
	}
	its := lock != nil && lock.isOf(p, r.LedgerName)
	here := its || about.File != "" && r.host != "" && r.isOnHost(about)
	if !p.Rests && (!here || lock == nil && !errors.Is(err, fs.ErrNotExist)) {
		r.left = append(r.left, p) // a stream, or a file on another host
		return nil
	}
	if !its && !p.Rests && r.machine == "" { // it may be at work on another host of this name
		if stopped, err := r.isSilent(ctx, p); err != nil || !stopped {
			r.left = append(r.left, p)
			return err
		}
	}
	at := p
	whole := false
	if its {
		p.Beat++ // so that no save of the ended process follows, which may be on its way
		if err := r.Store.SaveRun(ctx, r.Scope, p); errors.Is(err, dedupe.ErrReplaced) {
			r.left = append(r.left, p)
			return nil
		} else if err != nil {
			return err
		}
		at = p
		out, deadLetters, err := r.cutFiles(lock, p)
		if err != nil {
			return err
		}
		whole = out == p.Output && max(0, deadLetters) == p.DeadLetters
	}
	if here && !whole && (lock != nil || errors.Is(err, fs.ErrNotExist)) {
		at = atBegin(p) // its output was deleted
	}
	closed, err := r.Store.CloseRun(ctx, r.Scope, at)
	switch {
	case err != nil:
		return err
	case !closed:
		return r.closedOrSaved(ctx, lock, p)
	}
	r.noteClosedRun(at)
	if its {
		return r.leaveFiles(lock, at)
	}
	return nil
}

// isSilent waits until a run was not saved for RestAfter. It reports false as soon as the run is saved or over.
func (r *run) isSilent(ctx context.Context, p dedupe.Run) (bool, error) {
	clock := r.clock.OrReal()
	for begin := clock.Now(); clock.Now().Sub(begin) < dedupe.RestAfter; {
		if err := clock.Pause(ctx, dedupe.BeatEvery); err != nil {
			return false, err
		}
		now, err := r.Store.RunByID(ctx, r.Scope, p.ID)
		if err != nil || now == nil || now.Finished || now.Closed || now.Beat != p.Beat {
			return false, err
		}
	}
	return true, nil
}

// closedOrSaved takes note of a run that another process has closed or saved in the moment in which this one would
// close it.
func (r *run) closedOrSaved(ctx context.Context, lock *outputLock, p dedupe.Run) error {
	row, err := r.Store.RunByID(ctx, r.Scope, p.ID)
	switch {
	case err != nil || row == nil || row.Finished:
		return err
	case !row.Closed:
		r.left = append(r.left, *row)
		return nil
	}
	r.noteClosedRun(*row)
	if lock == nil {
		return nil
	}
	return r.leaveClosed(lock, *row)
}

// leaveFiles leaves the files of a run that was closed. The dead letters of an output that was deleted are made again.
func (r *run) leaveFiles(lock *outputLock, p dedupe.Run) error {
	if p.Lines == 0 {
		if _, err := r.cutDeadLetters(lock, 0); err != nil {
			return err
		}
	}
	return lock.removeRunFile()
}

// lockFile locks the output of another run. If this run has the lock already, it returns that one. It returns nil for a
// stream.
func (r *run) lockFile(path string) (*outputLock, error) {
	switch {
	case path == "":
		return nil, nil
	case r.lock != nil && sameFile(r.lock.output, path):
		return r.lock, nil
	}
	return lockOutput(path)
}

func sameFile(a, b string) bool {
	a, errA := filepath.Abs(targetOf(a))
	b, errB := filepath.Abs(targetOf(b))
	return errA == nil && errB == nil && a == b
}

// atBegin returns a run that has done nothing.
func atBegin(r dedupe.Run) dedupe.Run {
	r.Input, r.Lines, r.File, r.Line, r.Output, r.DeadLetters, r.Tally = 0, 0, 0, 0, 0, 0, dedupe.Tally{}
	return r
}

// isOnHost reports whether a run had the host of this one. Two machines may have one name.
func (r *run) isOnHost(a About) bool { return a.Host == r.host && a.Machine == r.machine }

func (r *run) noteClosedRun(p dedupe.Run) {
	about := AboutRun(p)
	c := ClosedRun{ID: p.ID, Output: about.File, Lines: p.Tally.Out}
	if about.Output != about.File {
		c.Place = about.Output
	}
	if !r.isOnHost(about) {
		c.Host = about.Host
	}
	r.closed = append(r.closed, c)
}

// noteClosed notes the runs that were at work when this one began, and that it has closed since.
func (r *run) noteClosed(ctx context.Context) {
	for _, p := range r.left {
		if row, err := r.Store.RunByID(ctx, r.Scope, p.ID); err == nil && row != nil && row.Closed {
			r.noteClosedRun(*row)
		}
	}
}

// cutFiles cuts the files of a run to the sizes that it has saved, each if it is longer. It returns their sizes, which
// are below 0 for files that do not exist.
func (r *run) cutFiles(lock *outputLock, p dedupe.Run) (out, deadLetters int64, err error) {
	out, errOut := r.cutTo(lock.output, p.Output)
	deadLetters, err = r.cutDeadLetters(lock, p.DeadLetters)
	return out, deadLetters, errors.Join(errOut, err)
}

// cutDeadLetters cuts the dead-letter file of an output, and returns its size. The file of another run stays as it is:
// it counts as one that does not exist.
func (r *run) cutDeadLetters(lock *outputLock, to int64) (int64, error) {
	if its, err := lock.hasDeadLetters(); err != nil || !its {
		return -1, err
	}
	return r.cutTo(lock.owner.DeadLetters, to)
}

// cutTo cuts a file that is longer, and returns its size.
func (r *run) cutTo(path string, to int64) (size int64, err error) {
	is, err := sizeOf(path)
	if err != nil {
		return 0, err
	}
	return min(is, to), r.cut(path, is, to)
}

// cut cuts a file, if it is longer.
func (r *run) cut(path string, is, to int64) error {
	if is <= to {
		return nil
	}
	f, err := r.open(path, os.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(to), f.Sync(), f.Close())
}

// leaveClosed cuts the files of a closed run, if they are still its own, and then removes FILE.run. If they cannot be
// cut, FILE.run stays: the next command that uses the output cuts them. FILE.run also stays if the output does not have
// what was saved: see freeOutput.
func (r *run) leaveClosed(lock *outputLock, p dedupe.Run) error {
	if !p.Closed || !lock.isOf(p, r.LedgerName) {
		return nil
	}
	out, _, err := r.cutFiles(lock, p)
	if err != nil || max(0, out) != p.Output {
		return err
	}
	return lock.removeRunFile()
}

// tidyClosed cuts the files of a run that another host or a function has closed. A run at work does it by itself.
func (r *run) tidyClosed(path string, p dedupe.Run) error {
	if _, err := os.Stat(path + runSuffix); !p.Closed || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := r.lockFile(path)
	if err != nil {
		return err
	}
	if lock != r.lock {
		defer lock.release()
	}
	return r.leaveClosed(lock, p)
}

// outputKind ends the id of an output. A link may name a file as compressed that is not: its run does not continue.
func (r *run) outputKind() string { return "." + string(r.Compression) }

// continued returns the row of the run that this job continues, or nil. It must be a run of the same inputs and options
// whose files have the id of the output that the row has.
func (r *run) continued(ctx context.Context, digest string) (row *dedupe.Run, err error) {
	if r.Preview {
		return nil, nil
	}
	if r.Publish != "" {
		row, err := r.Store.ReadRun(ctx, r.Scope, digest)
		if err == nil && row != nil && !row.Closed {
			err = r.lockUnfinished(row.ID)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.lock == nil || r.lock.owner.Run == "" {
		return nil, nil
	}
	row, err = r.Store.RunByID(ctx, r.Scope, r.lock.owner.Run)
	if err != nil || row == nil || row.Closed || row.Digest != digest || !r.lock.isOf(*row, r.LedgerName) ||
		!strings.HasSuffix(row.OutputID, r.outputKind()) {
		return nil, err
	}
	if row.Finished && r.Upload != nil { // the file may be removed already
		return row, nil
	}
	size, err := sizeOf(r.Out)
	if err != nil || size >= 0 {
		return row, err
	}
	if row.Finished { // the user has heard of no end, and has deleted the output to start over
		begin := atBegin(*row)
		if _, err := r.Store.CloseRun(ctx, r.Scope, begin); err != nil {
			return nil, err
		}
		return nil, r.leaveFiles(r.lock, begin)
	}
	return nil, nil
}

// freeOutput refuses an output that has results of a run that this job does not continue. It changes nothing but a
// closed run's file, behind what counts.
func (r *run) freeOutput(ctx context.Context) error {
	if r.lock == nil || r.lock.owner.Run == "" {
		return nil // the files are empty: see lockOutput
	}
	row, err := r.Store.RunByID(ctx, r.Scope, r.lock.owner.Run)
	if err != nil {
		return err
	}
	switch {
	case row == nil || !r.lock.isOf(*row, r.LedgerName):
		return r.checkNotOfAnotherRun(ctx)
	case row.Finished:
		return refuse("%s is complete: it is the output of the finished run %s. Choose another file", r.Out, row.ID)
	case row.Closed:
		if err := r.leaveClosed(r.lock, *row); err != nil {
			return err
		}
		if r.lock.owner.Run != "" {
			return r.refuseLost(*row)
		}
		if err := checkEmpty(r.Out, r.DeadLetters); err != nil {
			return refuse("%s has the first %d records of the run %s, which was closed there. Choose another file",
				r.Out, row.Tally.Out, row.ID)
		}
		return nil
	}
	size, err := sizeOf(r.Out)
	if err == nil && size > 0 && (row.Output > 0 || row.DeadLetters > 0) {
		err = refuse("%s has the first %d records of the stopped run %s, which had other inputs or options. Continue it "+
			"with its own command, or choose another file: then it is closed there, and its later records are decided again",
			r.Out, row.Tally.Out, row.ID)
	}
	return err
}

// refuseLost refuses an output that lacks what its closed run has saved. These records count as written: no command
// decides them again, unless it replaces the run.
func (r *run) refuseLost(p dedupe.Run) error {
	return refuse("%s had the first %d records of the run %s, which was closed there, and does not have them any more. "+
		"Put the file back and choose another one. If it is lost, delete %s. Then replace the run (with a SQLite ledger), "+
		"with its inputs and those of all later runs, or go on without these records", r.Out, p.Tally.Out, p.ID, r.lock.runPath())
}
