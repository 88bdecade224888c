package offline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// prepare finds out whether the run continues, and prepares its files.
func (r *run) prepare(ctx context.Context) error {
	if err := errors.Join(r.listing.check(), r.checkReplaces(ctx), r.checkPublish(ctx)); err != nil {
		return err
	}
	if r.Publish == "" {
		if err := r.lockOutput(); err != nil {
			return err
		}
	}
	if r.lock == nil || r.lock.owner.Run == "" { // otherwise the run may continue a run that was checked
		if err := r.checkFirstLines(ctx); err != nil {
			return err
		}
	}
	if r.Forgets {
		return r.beginNew(ctx, "")
	}
	digest, err := r.digest(ctx)
	if err != nil {
		return err
	}
	err = r.continueOrBegin(ctx, digest)
	if errors.Is(err, dedupe.ErrReplaced) { // a command has saved or closed the run since its row was read
		r.done = dedupe.Run{}
		if r.Publish != "" { // a new run has another file
			r.releaseOutput()
		}
		return r.continueOrBegin(ctx, digest)
	}
	return err
}

// continueOrBegin continues the run of this job. If there is none, it begins a new run.
func (r *run) continueOrBegin(ctx context.Context, digest string) error {
	row, err := r.continued(ctx, digest)
	if err != nil {
		return err
	}
	if row != nil {
		r.done.ID = row.ID
		if err := r.closeStopped(ctx); err != nil {
			return err
		}
		return r.resume(ctx, *row)
	}
	if err := r.checkFirstLines(ctx); err != nil {
		return err
	}
	if err := r.freeOutput(ctx); err != nil {
		return err
	}
	if err := r.closeStopped(ctx); err != nil {
		return err
	}
	return r.beginNew(ctx, digest)
}

// lockOutput locks the output file. It refuses a file that cannot be the run's before it reads the inputs.
func (r *run) lockOutput() (err error) {
	if err := checkFolders(r.Out, r.DeadLetters); err != nil {
		return err
	}
	if r.Out == "" {
		return nil
	}
	if r.lock, err = lockOutput(r.Out); err != nil {
		return err
	}
	if r.lock.isCopy() {
		if err := r.lock.checkEnded(); err != nil {
			return err
		}
		r.lock.owner = runFile{}
	}
	if r.lock.owner.Run == "" {
		return checkEmpty(r.Out, r.DeadLetters)
	}
	return nil
}

// checkFolders refuses files in folders that do not exist.
func checkFolders(paths ...string) error {
	for _, path := range paths {
		folder := filepath.Dir(path)
		info, err := os.Stat(folder)
		if err != nil {
			return refuse("the folder of %s cannot be used: %w", path, err)
		}
		if !info.IsDir() {
			return refuse("%s cannot be created: %s is a file, not a folder", path, folder)
		}
	}
	return nil
}

// checkEmpty refuses files that are not empty. A file need not exist.
func checkEmpty(paths ...string) error {
	for _, path := range paths {
		size, err := sizeOf(path)
		if err != nil {
			return err
		}
		if size > 0 {
			return refuse("%s is not empty: it holds the output of a finished run, or something else. "+
				"Choose another file", path)
		}
	}
	return nil
}

// beginNew starts a new run.
func (r *run) beginNew(ctx context.Context, digest string) error {
	id, err := r.newID()
	if err != nil {
		return err
	}
	return r.begin(ctx, dedupe.Run{Digest: digest, ID: id, OutputID: rand.Text() + r.outputKind()})
}

// begin starts a run. It saves the id before the ledger gets any record. Without that, a run after a crash would take
// its own records for copies.
func (r *run) begin(ctx context.Context, at dedupe.Run) (err error) {
	if err := r.checkFirstLines(ctx); err != nil {
		return err
	}
	if r.Publish != "" {
		r.nameOutput(at.ID)
	}
	if err := r.identifyAs(at); err != nil {
		return err
	}
	if r.lock != nil {
		if err := r.checkNotOfAnotherRun(ctx); err != nil {
			return err
		}
	}
	if err := r.checkDeadLetters(); err != nil {
		return err
	}
	if r.Replaces != "" {
		if err := r.undo(ctx); err != nil {
			return err
		}
	}
	if err := r.takeFiles(); err != nil {
		return err
	}
	return r.saveAndBeat(ctx)
}

// takeFiles locks a published output, and claims the files. It comes after undo: a published output has a new name
// each time, and an interrupted undo would leave it behind.
func (r *run) takeFiles() error {
	if r.Publish != "" {
		if err := r.lockOutput(); err != nil {
			return err
		}
	}
	if r.lock == nil {
		return nil
	}
	return r.claimFiles()
}

// identifyAs sets the values that depend on the run's id.
func (r *run) identifyAs(at dedupe.Run) (err error) {
	r.done = at
	r.decider.Ledger = savingLedger{r.ledger(at.ID), r}
	if r.start, err = startOf(at.ID); err != nil {
		return err
	}
	r.done.About, err = r.about()
	return err
}

// checkNotOfAnotherRun refuses files that are not empty: they belong to another unfinished run, or to no run.
func (r *run) checkNotOfAnotherRun(ctx context.Context) error {
	err := checkEmpty(r.Out, r.DeadLetters)
	if errors.Is(err, ErrRefused) && r.lock.owner.Run != "" {
		if err := r.checkNotReplaced(ctx); err != nil {
			return err
		}
		if r.lock.owner.Ledger == InMemory {
			return refuse("%s belongs to the unfinished run %s: its ledger was in memory, so it cannot continue. Delete %[1]s and "+
				"its dead letters in %[3]s, or choose another file", r.Out, r.lock.owner.Run, r.lock.owner.DeadLetters)
		}
		return refuse("%s belongs to the unfinished run %s, which had the ledger %s, or another scope or output. "+
			"Finish that run with its own command, or choose another file", r.Out, r.lock.owner.Run, r.lock.owner.Ledger)
	}
	return err
}

// checkDeadLetters refuses the dead-letter file of another unfinished run, before anything is undone.
func (r *run) checkDeadLetters() error {
	switch {
	case r.DeadLetters == "": // a preview
		return nil
	case r.lock == nil: // a stream: its dead letters are appended. A published output has a new file.
		letters, err := runFileOf(r.DeadLetters)
		if err != nil {
			return err
		}
		return letters.checkEnded()
	}
	letters, err := r.lock.lockDeadLetters(r.DeadLetters)
	if err != nil {
		return err
	}
	letters.release()
	return nil
}

// claimFiles records in FILE.run that the files belong to this run, and opens the output.
func (r *run) claimFiles() error {
	file, err := filepath.Abs(r.lock.output)
	if err != nil {
		return err
	}
	deadLetters, err := filepath.Abs(r.DeadLetters)
	if err != nil {
		return err
	}
	err = r.lock.claimFiles(runFile{
		Run: r.done.ID, Ledger: r.LedgerName, Output: r.done.OutputID, File: file, DeadLetters: deadLetters,
	})
	if err != nil {
		return err
	}
	return r.out.ready()
}

// resume continues a run from its last recorded progress. The run may even be finished, if the process ended after it
// had recorded the end and before it had removed FILE.run. Then the files are complete and stay as they are.
func (r *run) resume(ctx context.Context, at dedupe.Run) error {
	if at.Finished && r.Upload != nil { // because the file may be removed already
		r.resumed = at.Lines
		return r.identifyAs(at)
	}
	if err := r.checkSameDeadLetters(); err != nil {
		return err
	}
	out, err := sizeOf(r.Out)
	if err != nil {
		return err
	}
	deadLetters, err := sizeOf(r.DeadLetters)
	if err != nil {
		return err
	}
	if refused := r.checkSizes(at, out, deadLetters); refused != nil {
		if err := r.closeShort(ctx, at); err != nil {
			return err
		}
		return refused
	}
	if err := r.identifyAs(at); err != nil {
		return err
	}
	if !at.Finished {
		if err := r.lock.claimDeadLetters(); err != nil { // its process may have ended before it did that
			return err
		}
		r.done.Rests = false
		if err := r.saveAndBeat(ctx); err != nil { // fails if the run was closed meanwhile
			return err
		}
	}
	r.resumed = at.Lines
	return r.takeUp(ctx, deadLetters >= 0)
}

// checkSameDeadLetters refuses a dead-letter file other than the one with which the run began. Otherwise each of the
// two would hold only a part of the dead letters.
func (r *run) checkSameDeadLetters() error {
	deadLetters, err := filepath.Abs(r.DeadLetters)
	if err != nil {
		return err
	}
	if deadLetters != r.lock.owner.DeadLetters {
		return refuse("the unfinished run of %s writes dead letters to %s, not to %s. "+
			"Name that file, or choose another output", r.Out, r.lock.owner.DeadLetters, deadLetters)
	}
	return nil
}

// closeShort closes an unfinished run whose files are shorter than recorded, at 0. If it left that to the command that
// comes after the user has deleted the output, a function could close the run at its saved line in between.
func (r *run) closeShort(ctx context.Context, at dedupe.Run) error {
	if at.Finished { // nobody else closes it
		return nil
	}
	begin := atBegin(at)
	closed, err := r.Store.CloseRun(ctx, r.Scope, begin)
	if err != nil {
		return err
	}
	if !closed {
		return fmt.Errorf("%w: run %s", dedupe.ErrReplaced, at.ID)
	}
	r.noteClosedRun(begin)
	return r.leaveFiles(r.lock, begin)
}

// checkSizes refuses files that are shorter than recorded. It also refuses longer files of a finished run, because
// another program has changed them. A size below 0 means that the file does not exist.
func (r *run) checkSizes(at dedupe.Run, out, deadLetters int64) error {
	switch {
	case out >= 0 && out < at.Output:
		return refuse("%s has %d bytes, but its run has written %d. Delete it: then all records of the run are decided again",
			r.Out, out, at.Output)
	case deadLetters < at.DeadLetters && at.DeadLetters > 0:
		return refuse("%s has %d bytes, but its run has written %d. Delete %s: then all records of the run are decided again",
			r.DeadLetters, max(0, deadLetters), at.DeadLetters, r.Out)
	case at.Finished && (out > at.Output || deadLetters > at.DeadLetters):
		return refuse("the run of %s has finished with %d bytes, and %d bytes in %s. "+
			"Now the files have %d and %d bytes. Delete %s to keep them as they are",
			r.Out, at.Output, at.DeadLetters, r.DeadLetters, out, max(0, deadLetters), r.lock.runPath())
	}
	return nil
}

// takeUp cuts the files to the sizes that the run last recorded, and skips the lines that are done.
func (r *run) takeUp(ctx context.Context, deadLettersExist bool) error {
	r.out.size, r.out.kept, r.deadLetters.size = r.done.Output, r.done.Output, r.done.DeadLetters
	if err := r.out.ready(); err != nil {
		return err
	}
	if deadLettersExist {
		if err := r.deadLetters.ready(); err != nil {
			return err
		}
	}
	return r.lines.skip(ctx, r.done.Input)
}

// runTime is the layout of the time at the beginning of a run's id. This time is the arrival of the run's records,
// even after the run was resumed: with other arrivals, other records would be within a window.
const runTime = "20060102T150405.000Z"

func newRunID(now time.Time) string {
	return now.UTC().Format(runTime) + "-" + strings.ToLower(rand.Text()[:8])
}

func startOf(id string) (time.Time, error) {
	text, _, _ := strings.Cut(id, "-")
	start, err := time.Parse(runTime, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("run %q: its id does not begin with a time: %w", id, err)
	}
	return start, nil
}
