package operate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

type backupCommand struct {
	File string `arg:"" help:"Write the copy into this file, which must not exist."`
}

func (backupCommand) Help() string {
	return `Copies the whole SQLite file of --store, with campaigns, claims and record entries. A server and other commands may work
meanwhile: the copy shows the store at one moment, and has all that was written before the command began. A plain copy
of the file lacks what is only in the -wal file beside it.

The copy is in FILE.oncebox-part until it is complete, checked and on the disk. Then it is renamed to FILE. If the command
is stopped, there is no FILE, and the same command begins anew and replaces FILE.oncebox-part. FILE has the permissions
of the store. The -wal file of the store grows while the copy is made.

A copy is a store: name it with --store to read it. That makes FILE.lock, and may leave FILE-wal and FILE-shm, as beside
any store: delete them together with the copy. To return to a copy after claims were made, follow "Restore a table
to a point in time" in docs/operations.md. Without that, the next customers get items that others hold.

The tables of --store dynamodb: have point-in-time recovery instead.

Examples:
  oncebox backup monday.db
  oncebox --store sqlite:seen.db backup seen-before-import.db`
}

// backupJSON is the result of a backup.
type backupJSON struct {
	Store string `json:"store"`
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func (c backupCommand) Run(ctx context.Context, a *cli.App) error {
	path, ok, err := a.SQLitePath()
	switch {
	case err != nil:
		return err
	case !ok:
		return cli.BadUsage(
			fmt.Errorf("backup copies SQLite files, and --store is %s", a.Store),
			"Use point-in-time recovery, which restores both tables to one moment.",
		)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return a.MissingStore(err)
	}
	size, err := sqlite.Backup(ctx, path, c.File, engine.ErrTryAgain)
	switch {
	case errors.Is(err, sqlite.ErrExists):
		return cli.BadUsage(err, "Choose another file.")
	case errors.Is(err, sqlite.ErrBackupRuns):
		return cli.BadUsage(err, "Wait until it has ended, or choose another file.")
	case err != nil:
		return err
	}
	return a.Print(backupJSON{a.Store, c.File, size}, fmt.Sprintf("copied %s to %s: %s bytes", a.Store, c.File, cli.WithCommas(size)))
}
