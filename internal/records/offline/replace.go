package offline

import (
	"context"
	"errors"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// ReplacedRun is a run that was undone.
type ReplacedRun struct {
	ID     string `json:"run"`
	Output string `json:"output,omitempty"` // its file, which no longer counts; empty for a stream
}

// checkReplaces refuses a job that cannot replace a run, before the inputs are read. undo makes the other checks.
func (r *run) checkReplaces(ctx context.Context) error {
	switch {
	case r.Replaces == "":
		return nil
	case r.history == nil:
		return refuse("only a SQLite ledger in a file has a history of runs, in which one can be replaced")
	case !r.Retention.ForGood:
		return refuse("a run can be replaced only by a run without a window: entries that end may have gone already")
	}
	runs, err := r.history.Runs(ctx, r.Scope)
	if err == nil && find(runs, r.Replaces) == nil {
		err = refuse("scope %s has no run %s. `oncebox ledger runs` lists the runs", r.Scope, r.Replaces)
	}
	return err
}

// undo undoes the replaced run and all later runs, and begins this run. It removes their published outputs before it
// deletes their entries. After a crash in between, readers see fewer records, and no record twice.
func (r *run) undo(ctx context.Context) error {
	var refused error
	err := r.history.ReplaceRuns(ctx, r.Scope, r.done, func(runs []sqlitestore.PastRun) (int64, error) {
		from, err := r.firstReplaced(runs)
		if err == nil {
			err = r.unpublish(ctx, runs, from)
		}
		refused = err
		return from, err
	})
	switch {
	case refused != nil:
		return refused // without the text that the store adds
	case errors.Is(err, sqlitestore.ErrInexact):
		return refuse("%w", err)
	}
	return err
}

// firstReplaced returns the number of the run that is replaced. All runs with lower numbers must have finished before
// it began. Otherwise they may have dropped records as copies of its records, and would miss them after the undo.
func (r *run) firstReplaced(runs []sqlitestore.PastRun) (int64, error) {
	at := slices.IndexFunc(runs, func(p sqlitestore.PastRun) bool { return p.ID == r.Replaces }) // always found
	first := runs[at]
	switch by := find(runs, first.ReplacedBy); {
	case by != nil && by.Finished:
		return 0, refuse("run %s was replaced by run %s. To replace that one, name it", first.ID, by.ID)
	case by == nil && !isOver(first):
		return 0, refuse("run %s is not finished. Finish it with its own command, or replace an earlier run", first.ID)
	}
	for _, p := range runs[:at] {
		switch {
		case p.ReplacedBy != "":
		case !isOver(p):
			return 0, refuse("run %s began before run %s and is not finished. Finish it with its own command, or replace "+
				"an earlier run", p.ID, first.ID)
		case p.Ended >= first.Number && p.About == "":
			return 0, refuse("the import %s was at work when run %s began. Imports cannot be undone: replace a later run",
				p.ID, first.ID)
		case p.Ended >= first.Number:
			return 0, refuse("run %s may have been at work when run %s began. Replace run %[1]s, with its inputs "+
				"and those of all later runs", p.ID, first.ID)
		}
	}
	for _, p := range runs[at:] {
		if p.About == "" && p.ReplacedBy == "" {
			return 0, refuse("%s is an import: imports cannot be undone, and runs before it neither. Replace a later run",
				p.ID)
		}
	}
	if by := find(runs, first.ReplacedBy); by != nil && by.ID != runs[len(runs)-1].ID {
		return 0, refuse("run %s was replaced by run %s, and other runs have begun since. To replace these, too, replace "+
			"run %[2]s, with its inputs and those of all later runs", first.ID, by.ID)
	}
	return first.Number, r.checkStaysPublished(runs[at:])
}

func isOver(p sqlitestore.PastRun) bool { return p.Finished || p.Closed }

// find returns the run with an id, or nil.
func find(runs []sqlitestore.PastRun, id string) *sqlitestore.PastRun {
	for i := range runs {
		if runs[i].ID == id {
			return &runs[i]
		}
	}
	return nil
}

// replaced lists the runs that this run has replaced. An earlier process of the run may have replaced them.
func (r *run) replaced(ctx context.Context) (list []ReplacedRun, err error) {
	if r.Replaces == "" {
		return nil, nil
	}
	runs, err := r.history.Runs(ctx, r.Scope)
	for _, p := range runs {
		if p.ReplacedBy == r.done.ID {
			list = append(list, ReplacedRun{ID: p.ID, Output: AboutRun(p.Run).Output})
		}
	}
	return list, err
}

// checkNotReplaced refuses an output that belongs to a replaced run.
func (r *run) checkNotReplaced(ctx context.Context) error {
	if r.history == nil {
		return nil
	}
	runs, err := r.history.Runs(ctx, r.Scope)
	if err != nil {
		return err
	}
	if p := find(runs, r.lock.owner.Run); p != nil && p.ReplacedBy != "" {
		return refuse("%s belongs to run %s, which run %s has replaced. Delete it, or choose another file",
			r.Out, p.ID, p.ReplacedBy)
	}
	return nil
}

// ledger returns the ledger for a run. If the ledger has a history, it stops the run when another run replaces it.
func (r *run) ledger(id string) dedupe.Ledger {
	if r.history == nil {
		return r.Store
	}
	return r.history.ForRun(r.Scope, id)
}
