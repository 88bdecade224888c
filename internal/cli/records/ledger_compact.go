package records

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

type ledgerCompact struct {
	Ledger string    `type:"ledgerfile" help:"Short for --store sqlite:FILE." placeholder:"FILE"`
	Scope  string    `help:"Name space of the ids. Default: ${default}." default:"default" placeholder:"NAME"`
	Before time.Time `required:"" help:"Delete the entries whose window ended before this time: ${times}." placeholder:"TIME"`
	DryRun bool      `help:"Only count the entries."`
}

func (ledgerCompact) Help() string {
	return `Deletes the entries of a scope that no record of TIME or later needs: those of runs and functions with a window that
ended before TIME. Entries without a window stay. Then the file is rewritten, and is smaller: that needs up to its size
again on the disk, and other writers wait.

TIME stays in the ledger. A record with an earlier time may be a copy of a record whose entry is gone. So it is never
new: if the ledger has no entry of it, it is a dead letter of dedupe and of the function, and bad in an import. Process
all earlier records first. --dry-run of dedupe shows what a file would give. TIME never moves back, and no run of the
scope can be undone afterwards.

Refused while a run of the scope is unfinished. Safe to stop and to repeat: TIME is stored before the first entry is
deleted.

Examples:
  oncebox ledger compact --ledger seen.db --before 2027-03-01 --dry-run
  oncebox ledger compact --ledger seen.db --scope orders --before 2027-03-01T09:00:00Z`
}

// compactedJSON is the result of ledger compact.
type compactedJSON struct {
	Scope   string    `json:"scope"`
	Before  time.Time `json:"before"`
	Entries int64     `json:"entries"` // deleted, or with --dry-run to delete
	DryRun  bool      `json:"dry_run"`
	Bytes   int64     `json:"bytes"` // of the file, afterwards
}

func (c ledgerCompact) Run(ctx context.Context, a *cli.App) error {
	if err := cli.CheckScope(c.Scope); err != nil {
		return err
	}
	understood := cli.Understood(c.Before)
	c.Before = c.Before.UTC().Truncate(time.Second) // as a ledger stores the ends of entries
	if c.Before.After(time.Now()) {
		return cli.BadUsage(
			fmt.Errorf("--before %s is in the future: records of today would be dead letters", understood),
			"Name a time before which you have processed all records.",
		)
	}
	path, err := ledgerFile(a, c.Ledger, "a ledger in DynamoDB deletes its entries itself")
	if err != nil {
		return err
	}
	open, act := ledgersqlite.Open, c.compact
	if c.DryRun {
		open, act = ledgersqlite.OpenToRead, c.count
	}
	store, err := open(ctx, path)
	if err != nil {
		return a.MissingStore(err)
	}
	entries, err := act(ctx, store)
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("deleted %s that ended before %s; the file has %d bytes", entriesText(entries), understood, file.Size())
	if c.DryRun {
		text = fmt.Sprintf("would delete %s that ended before %s", entriesText(entries), understood)
	}
	return a.Print(compactedJSON{c.Scope, c.Before, entries, c.DryRun, file.Size()}, text)
}

func (c ledgerCompact) count(ctx context.Context, store *ledgersqlite.Store) (int64, error) {
	return store.CountPurged(ctx, c.Scope, c.Before)
}

func (c ledgerCompact) compact(ctx context.Context, store *ledgersqlite.Store) (int64, error) {
	entries, err := store.Compact(ctx, c.Scope, c.Before)
	switch {
	case errors.Is(err, ledgersqlite.ErrOpenRuns):
		return 0, cli.BadUsage(fmt.Errorf("%w; nothing was deleted", err),
			"Let the run finish, or start its command again. If it has stopped, any other dedupe command of the scope closes it.")
	case err != nil:
		return entries, cli.WithHint(fmt.Errorf("%s were deleted: %w", entriesText(entries), err), "Repeat the command for the rest.")
	}
	if err := store.Erase(ctx); err != nil {
		return entries, cli.WithHint(fmt.Errorf("%s were deleted, and the file is as large as before: %w", entriesText(entries), err),
			"Repeat the command to make the file smaller.")
	}
	return entries, nil
}

func entriesText(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
