package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// Erase removes the content of deleted rows from the disk. SQLite leaves it in unused parts of the file and in the
// -wal file. Erase rewrites the file, which takes its size again on the disk, and then empties the -wal file. Writers
// wait meanwhile. It is safe to repeat.
//
// A reader that began before keeps the -wal file from being emptied. Erase waits for it up to the busy timeout, and then
// returns the part's TryAgain. It also returns the errors of Write.
func (db *DB) Erase(ctx context.Context) error { return db.wrap("erase", db.erase(ctx)) }

func (db *DB) erase(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	waiting, cancel := db.waitLimit(ctx)
	defer cancel()
	if err := db.turns.enter(waiting); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.turns.leave()) }()
	if err := db.checkPlace(); err != nil {
		return err
	}
	err = pollFree(waiting, func() error { return db.writer.Run(context.WithoutCancel(ctx), `VACUUM`) })
	if err != nil {
		return err
	}
	return db.emptyWAL(ctx)
}

// emptyWAL copies the -wal file into the database and makes it empty.
func (db *DB) emptyWAL(ctx context.Context) error {
	waiting, cancel := db.waitLimit(ctx)
	defer cancel()
	err := poll(waiting, func() (done bool, err error) {
		var busy, frames, copied int
		_, err = db.writer.One(context.WithoutCancel(ctx), `PRAGMA wal_checkpoint(TRUNCATE)`, nil, &busy, &frames, &copied)
		if isBusy(err) {
			return false, nil
		}
		return busy == 0, err
	})
	var waited *waitedError
	if errors.As(err, &waited) {
		err = fmt.Errorf("%w: another process reads the file, so deleted text stays in its -wal file", err)
	}
	return err
}
