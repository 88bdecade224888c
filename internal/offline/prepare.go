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

// prepare finds out which run this is, and makes the files ready for it.
func (r *run) prepare(ctx context.Context) error {
	if err := r.takeOutput(); err != nil {
		return err
	}
	if r.Forgets {
		return r.begin(ctx, dedupe.Run{ID: newRunID(r.Now())})
	}
	digest, err := r.digest(ctx)
	if err != nil {
		return err
	}
	row, err := r.Store.ReadRun(ctx, r.Scope, digest)
	switch {
	case err != nil:
		return err
	case row != nil && r.hold != nil && r.hold.mark.Run == row.ID:
		return r.goOn(ctx, *row)
	case row == nil || row.Finished:
		return r.begin(ctx, dedupe.Run{Digest: digest, ID: newRunID(r.Now())})
	default:
		r.again = true
		return r.begin(ctx, dedupe.Run{Digest: digest, ID: row.ID})
	}
}

// takeOutput takes hold of the output file. What is seen to be somebody else's
// is refused before the inputs are read.
func (r *run) takeOutput() (err error) {
	if err := WantFolders(r.Out, r.DeadLetters); err != nil {
		return err
	}
	if r.Out == "" {
		return nil
	}
	if r.hold, err = takeHold(r.Out); err != nil {
		return err
	}
	if r.hold.mark.Run == "" {
		return r.wantUnused()
	}
	return nil
}

// wantUnused refuses files that hold something.
func (r *run) wantUnused() error {
	err := WantUnused(r.Out, r.DeadLetters)
	if errors.Is(err, ErrRefused) && r.hold.mark.Run != "" {
		return refuse("%s belongs to the run %s, which this is not: it had other inputs, options, scope or store; "+
			"finish it with its own command, or remove the file to give it up", r.Out, r.hold.mark.Run)
	}
	return err
}

// WantFolders refuses files whose folder is not there.
func WantFolders(paths ...string) error {
	for _, path := range paths {
		folder := filepath.Dir(path)
		info, err := os.Stat(folder)
		if err != nil {
			return refuse("the folder of %s: %w", path, err)
		}
		if !info.IsDir() {
			return refuse("the folder of %s: %s is a file", path, folder)
		}
	}
	return nil
}

// WantUnused refuses files that hold something. They may be empty or absent.
func WantUnused(paths ...string) error {
	for _, path := range paths {
		size, err := length(path)
		if err != nil {
			return err
		}
		if size > 0 {
			return refuse("%s is not empty, and of no unfinished run (what a run has finished is complete): name another file, or remove it", path)
		}
	}
	return nil
}

// begin starts a run, or starts it over. The id is recorded before the ledger
// hears of it: a crash in between would make copies of the run's own records.
func (r *run) begin(ctx context.Context, at dedupe.Run) (err error) {
	r.at = at
	if r.start, err = startOf(at.ID); err != nil {
		return err
	}
	if r.hold != nil {
		if err := r.wantUnused(); err != nil {
			return err
		}
		if err := r.markFiles(); err != nil {
			return err
		}
	}
	return r.save(ctx)
}

func (r *run) markFiles() error {
	deadLetters, err := filepath.Abs(r.DeadLetters)
	if err != nil {
		return err
	}
	if err := r.hold.writeMark(mark{Run: r.at.ID, DeadLetters: deadLetters}); err != nil {
		return err
	}
	return r.out.ready()
}

// goOn takes up a run where it was cut. That may be after its end was recorded, and
// before anybody heard of it: then its files are whole, and are left as they are;
// what is behind that is somebody else's.
func (r *run) goOn(ctx context.Context, at dedupe.Run) (err error) {
	if r.start, err = startOf(at.ID); err != nil {
		return err
	}
	if err := r.checkDeadLetters(); err != nil {
		return err
	}
	out, err := length(r.Out)
	if err != nil {
		return err
	}
	if out < 0 {
		r.again = true // somebody wants all of it anew
		at = dedupe.Run{Digest: at.Digest, ID: at.ID}
	}
	deadLetters, err := length(r.DeadLetters)
	switch {
	case err != nil:
		return err
	case out >= 0 && out < at.Output:
		return refuse("%s has %d bytes and its run has written %d: remove it to start the run over", r.Out, out, at.Output)
	case deadLetters < at.DeadLetters && at.DeadLetters > 0:
		return refuse("%s has %d bytes and its run has written %d: remove %s to start the run over", r.DeadLetters, max(0, deadLetters), at.DeadLetters, r.Out)
	case at.Finished && (out > at.Output || deadLetters > at.DeadLetters):
		return refuse("%s has %d bytes and %s has %d, and their run has finished after %d and %d: it is complete, and somebody has added to it; "+
			"remove %s to keep that", r.Out, out, r.DeadLetters, max(0, deadLetters), at.Output, at.DeadLetters, r.hold.markPath())
	}
	r.at, r.resumed = at, at.Lines
	return r.cut(ctx, deadLetters >= 0)
}

// cut makes the files what they were when the run was last recorded.
func (r *run) cut(ctx context.Context, deadLettersExist bool) error {
	r.out.size, r.deadLetters.size = r.at.Output, r.at.DeadLetters
	if err := r.out.ready(); err != nil {
		return err
	}
	if deadLettersExist {
		if err := r.deadLetters.ready(); err != nil {
			return err
		}
	}
	if r.again {
		return r.save(ctx)
	}
	return r.lines.skip(ctx, r.at.Input)
}

// checkDeadLetters wants the dead-letter file that the run began with: another one would
// hold only a part of its records.
func (r *run) checkDeadLetters() error {
	deadLetters, err := filepath.Abs(r.DeadLetters)
	if err != nil {
		return err
	}
	if deadLetters != r.hold.mark.DeadLetters {
		return refuse("the unfinished run of %s parks records in %s, not in %s: name that file, or remove %[1]s to start the run over",
			r.Out, r.hold.mark.DeadLetters, deadLetters)
	}
	return nil
}

// runTime is how a run's id begins. Records arrive then, also after the run was
// resumed: arrivals that moved would change what is in a window.
const runTime = "20060102T150405.000Z"

func newRunID(now time.Time) string {
	return now.UTC().Format(runTime) + "-" + strings.ToLower(rand.Text()[:8])
}

func startOf(id string) (time.Time, error) {
	text, _, _ := strings.Cut(id, "-")
	start, err := time.Parse(runTime, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("run %q: its id does not say when it began: %w", id, err)
	}
	return start, nil
}
