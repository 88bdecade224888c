package offline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// beats saves the row of a run: with its progress, and again from time to time, so that others see that the run is at
// work.
type beats struct {
	mu    sync.Mutex
	saved dedupe.Run // the row of the last save, whether that was heard or not
	end   context.CancelFunc
	all   sync.WaitGroup
}

// save saves a run under its next beat.
func (b *beats) save(ctx context.Context, store dedupe.Runs, scope string, r *dedupe.Run) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Beat = max(r.Beat, b.saved.Beat) + 1
	b.saved = *r // a save that is not heard may have taken effect, and others may rely on it: no earlier row may follow
	return store.SaveRun(ctx, scope, *r)
}

// lines returns the number of lines of the last save.
func (b *beats) lines() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.saved.Lines
}

// again saves the last saved row under the next beat.
func (b *beats) again(ctx context.Context, store dedupe.Runs, scope string, rests bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.saved.ID == "" || b.saved.Rests {
		return
	}
	b.saved.Beat++
	b.saved.Rests = rests
	_ = store.SaveRun(ctx, scope, b.saved) // if the run is closed, its next save or put says so
}

// stop waits until no beat is on its way.
func (b *beats) stop() {
	if b.end != nil {
		b.end()
		b.all.Wait()
	}
}

// saveAndBeat saves a run that begins or continues, and begins to beat: to skip the lines that are done takes long.
func (r *run) saveAndBeat(ctx context.Context) error {
	if err := r.save(ctx); err != nil {
		return err
	}
	r.startBeats(ctx)
	return nil
}

// startBeats begins to beat.
func (r *run) startBeats(ctx context.Context) {
	if r.Forgets || r.beatEvery < 0 {
		return
	}
	ctx, r.beats.end = context.WithCancel(ctx)
	r.beats.all.Go(func() {
		ticks := time.NewTicker(r.beatEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				r.beats.again(ctx, r.Store, r.Scope, false)
			case <-ctx.Done():
				return
			}
		}
	})
}

// rest says in the row that the process of the run has ended, so that nobody waits for it. It is not known whether a
// run that was to be saved as finished is finished: then it says nothing.
func (r *run) rest(ctx context.Context) {
	r.beats.stop()
	if r.Forgets || r.savingDone {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	r.beats.again(ctx, r.Store, r.Scope, true)
}

// afterReplaced says what the user of a run has to know that was replaced, closed or continued by another process. A
// closed run cuts its files to what it has saved: other runs decide the rest of its records.
func (r *run) afterReplaced(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	row, err := r.Store.RunByID(ctx, r.Scope, r.done.ID)
	switch {
	case err != nil:
		return fmt.Sprintf("It is unknown which of its records are in its output: %v", err)
	case row == nil && r.Out != "":
		return fmt.Sprintf("Its output does not count any more: delete %s", r.Out)
	case row == nil:
		return "Its output does not count any more"
	case !row.Closed:
		return "Another process has gone on with this run. Run the same command again"
	case r.lock == nil:
		return "It was closed, and other runs decide its records again"
	}
	r.out.close()
	r.deadLetters.close()
	if err := r.leaveClosed(r.lock, *row); err != nil {
		return fmt.Sprintf("%s counts only up to its line %d: %v", r.Out, row.Tally.Out, err)
	}
	return fmt.Sprintf("%s is whole up to its line %d, where it was closed. Other runs decide the later records again",
		r.Out, row.Tally.Out)
}
