package offline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

const (
	// recordEvery limits the work that a crash can cost. To record means to sync both files and to write a row. After
	// each batch that would take about as long as the batch.
	recordEvery = time.Second

	// recordTimeout is how long recording may take after an interrupt.
	recordTimeout = 10 * time.Second
)

// record records the progress of the run. It syncs the files before it saves the row. Otherwise a crash could leave
// files that are shorter than the row says.
func (r *run) record(ctx context.Context) error {
	r.recorded = r.Now()
	if (r.Out == "" || r.Forgets) && !r.done.Finished {
		return nil // such a run cannot continue; it can only start over
	}
	if r.done.Finished {
		if err := r.out.finish(); err != nil {
			return err
		}
	}
	if err := r.out.sync(); err != nil {
		return err
	}
	if err := r.deadLetters.sync(); err != nil {
		return err
	}
	if err := r.listing.sync(); err != nil {
		return err
	}
	r.done.Output = r.out.kept // a compressed file keeps more now, because its member or frame has ended
	if r.done.Finished && r.Upload != nil {
		if err := r.upload(ctx); err != nil {
			return err
		}
	}
	if r.savingDone = r.done.Finished; r.savingDone {
		r.beats.stop() // a late beat would save that the run is not finished
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := r.save(ctx)
	if r.savingDone && r.Upload != nil && errors.Is(err, dedupe.ErrReplaced) {
		return r.closedAtEnd(ctx, err)
	}
	return err
}

// closedAtEnd returns no error if the run was closed behind its last line, during its upload: then it is complete.
func (r *run) closedAtEnd(ctx context.Context, err error) error {
	row, readErr := r.Store.RunByID(ctx, r.Scope, r.done.ID)
	if readErr == nil && row != nil && row.Closed && row.Lines == r.done.Lines {
		return nil
	}
	return errors.Join(err, readErr)
}

// upload uploads the output of all lines. It saves them before: so a run that is closed during its upload is closed
// behind its last line, and nobody else decides what is in the object.
func (r *run) upload(ctx context.Context) error {
	r.done.Finished = false
	err := r.save(ctx)
	r.done.Finished = true
	if err != nil {
		return err
	}
	return r.Upload(ctx, r.done.ID)
}

// save saves the progress of the run.
func (r *run) save(ctx context.Context) error {
	if r.Forgets {
		return nil
	}
	return r.beats.save(ctx, r.Store, r.Scope, &r.done)
}

// stopped returns the error of a run that ended early. It names the progress, and says what the same command does
// when it runs again. An interrupted run first records its progress.
func (r *run) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted (%w)", ctx.Err())
		r.done.Finished = false // the next run records the end
		if recordErr := r.record(ctx); recordErr != nil {
			err = fmt.Errorf("%w; the work of the last second will be done again: %w", err, recordErr)
		}
	}
	next := r.whatNext(ctx, err)
	r.rest(ctx)
	return fmt.Errorf("%w after %d lines: %w. %s", ErrStopped, r.done.Lines, err, next)
}

// whatNext says what to do after the run was stopped.
func (r *run) whatNext(ctx context.Context, err error) string {
	_, otherList := errors.AsType[*otherListError](err)
	switch {
	case otherList:
		return fmt.Sprintf("The output %s is complete. To publish it, move that list away and run the same command", r.Out)
	case errors.Is(err, dedupe.ErrReplaced):
		return r.afterReplaced(ctx)
	case r.Forgets && r.Publish == "" && r.Out != "":
		return fmt.Sprintf("Its ledger was in memory and is lost: delete %s, then run the same command to start over",
			r.Out)
	case r.Forgets:
		return "Run the same command to start over"
	case r.Out == "" && r.savingDone: // it is unknown whether the store has saved the end
		return "Everything was printed: keep it. The same command prints nothing more, or everything again"
	case r.Out == "":
		return "Run the same command to start over: it prints everything again"
	}
	return "Run the same command to continue from there"
}
