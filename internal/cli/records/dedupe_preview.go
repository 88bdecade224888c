package records

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/memledger"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// openPreview opens a ledger for a dry run: it reads the ledger, and enters records in a temporary file. A ledger
// that does not exist yet is empty, so the job needs only a ledger in memory.
func (c *dedupeCommand) openPreview(ctx context.Context, a *cli.App, job *offline.Job) (
	ledger offline.Store, closeLedger func(), err error,
) {
	if c.Ledger != "" && c.Ledger != inMemory {
		_, err := os.Stat(c.Ledger)
		if job.Forgets = errors.Is(err, fs.ErrNotExist); !job.Forgets {
			a.Store = cli.SQLitePrefix + c.Ledger
		}
	}
	if job.Forgets {
		return forgetting{Ledger: memledger.New()}, func() {}, nil
	}
	if err := a.RefuseLog(ctx, c.Scope); err != nil {
		return nil, nil, err
	}
	below, closeBelow, err := a.OpenLedgerToRead(ctx)
	if err != nil {
		return nil, nil, err
	}
	readable, ok := below.(dedupe.Finder)
	if !ok {
		closeBelow()
		return nil, nil, cli.BadUsage(errors.New("--dry-run: this ledger cannot be read without a change"), "")
	}
	scratch, removeScratch, err := openScratch(ctx)
	if err != nil {
		closeBelow()
		return nil, nil, err
	}
	if err := copyHorizon(ctx, below, scratch, c.Scope); err != nil {
		removeScratch()
		closeBelow()
		return nil, nil, err
	}
	return offline.NewPreview(readable, scratch), func() { removeScratch(); closeBelow() }, nil
}

// copyHorizon gives an empty ledger the horizon of a SQLite ledger: see ledger compact.
func copyHorizon(ctx context.Context, from any, to *ledgersqlite.Store, scope string) error {
	file, ok := from.(*ledgersqlite.Store)
	if !ok {
		return nil
	}
	horizon, err := file.Horizon(ctx, scope)
	if err == nil && !horizon.IsZero() {
		err = to.RaiseHorizon(ctx, scope, horizon)
	}
	return err
}

// openScratch makes a ledger in a temporary folder, so that a dry run needs no more memory than a run.
func openScratch(ctx context.Context) (_ *ledgersqlite.Store, remove func(), err error) {
	folder, err := os.MkdirTemp("", "oncebox-dry-run-*")
	if err != nil {
		return nil, nil, err
	}
	store, err := ledgersqlite.Create(ctx, filepath.Join(folder, "scratch.db"))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(folder))
	}
	return store, func() {
		_ = store.Close()
		_ = os.RemoveAll(folder)
	}, nil
}
