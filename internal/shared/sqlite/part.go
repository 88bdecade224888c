package sqlite

import (
	"context"
	"fmt"
)

// applicationID marks a SQLite file as ours; it spells "once".
const applicationID = 0x6f6e6365

// fileLayout is the layout of the file, its user_version: the table "part" names what the file holds. Each part has a
// layout of its own; each engine makes, reads and changes its own part only.
const fileLayout = 1

// Part is what one engine keeps in a file: its tables, and its words for them in errors.
type Part struct {
	Name    string // in the table part
	Layout  int    // of the tables, from 1; another one is refused with ErrLayout
	Tables  string // the statements that make them
	Purpose string // what the tables are for, in errors: "claims"
	// TryAgain is the engine's family of errors that pass when other writers finish.
	TryAgain error
}

// makeFile makes an empty database a oncebox file.
var makeFile = fmt.Sprintf(`
	PRAGMA application_id = %d;
	PRAGMA user_version = %d;
	CREATE TABLE part (
		name    TEXT NOT NULL PRIMARY KEY,
		version INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;`, applicationID, fileLayout)

const selectIdentity = `SELECT a.application_id, u.user_version, (SELECT count(*) FROM sqlite_schema)
	FROM pragma_application_id a, pragma_user_version u`

// inspect finds out what the file is and whether it holds the part. It waits for a program that has the file locked.
func (db *DB) inspect(waiting context.Context) (present bool, err error) {
	err = pollFree(waiting, func() error {
		present, err = db.identify(context.WithoutCancel(waiting), db.writer)
		return err
	})
	return present, err
}

func (db *DB) identify(ctx context.Context, w *Statements) (present bool, err error) {
	if ours, err := identifyFile(ctx, w); err != nil || !ours {
		return false, err
	}
	return db.identifyPart(ctx, w)
}

// identifyFile reports whether a file is ours, and not an empty database. The error is about a file of others.
func identifyFile(ctx context.Context, w *Statements) (ours bool, err error) {
	var id, file, tables int
	if _, err := w.One(ctx, selectIdentity, nil, &id, &file, &tables); err != nil {
		return false, err
	}
	switch {
	case id == 0 && file == 0 && tables == 0:
		return false, nil
	case id != applicationID:
		return false, fmt.Errorf("%w: it is the SQLite database of another program", ErrNotStore)
	case file != fileLayout:
		return false, otherLayout("file has", file, fileLayout)
	}
	return true, nil
}

func (db *DB) identifyPart(ctx context.Context, w *Statements) (present bool, err error) {
	var layout int
	present, err = w.One(ctx, `SELECT version FROM part WHERE name = ?`, Args{db.part.Name}, &layout)
	if err == nil && present && layout != db.part.Layout {
		err = otherLayout("tables for "+db.part.Purpose+" have", layout, db.part.Layout)
	}
	return present, err
}

func otherLayout(what string, layout, ours int) error {
	return fmt.Errorf("%w: the %s layout %d, and this version reads layout %d; use the version that made it, or another "+
		"file", ErrLayout, what, layout, ours)
}

// useWAL sets the journal mode, which stays with the file. In this mode readers and a writer do not block each other.
func (db *DB) useWAL(waiting context.Context) error {
	var mode string
	err := pollFree(waiting, func() error {
		_, err := db.writer.One(context.WithoutCancel(waiting), `PRAGMA journal_mode = WAL`, nil, &mode)
		return err
	})
	if err == nil && mode != "wal" {
		err = fmt.Errorf("SQLite needs its journal mode WAL and can only use %q here; move the file to a local disk", mode)
	}
	return err
}

// makePart makes the part, unless another process was faster.
func (db *DB) makePart(ctx context.Context) error {
	return db.inTurn(ctx, func(ctx context.Context, w *Statements) error {
		present, err := db.identify(ctx, w)
		if err != nil || present {
			return err
		}
		if err := makeFileOnce(ctx, w); err != nil {
			return err
		}
		if err := w.Run(ctx, db.part.Tables); err != nil {
			return err
		}
		_, err = w.Exec(ctx, `INSERT INTO part (name, version) VALUES (?, ?)`, db.part.Name, db.part.Layout)
		return err
	})
}

// makeFileOnce marks the file as a oncebox store, unless another part has done that.
func makeFileOnce(ctx context.Context, w *Statements) error {
	var tables int
	_, err := w.One(ctx, `SELECT count(*) FROM sqlite_schema`, nil, &tables)
	if err != nil || tables > 0 {
		return err
	}
	return w.Run(ctx, makeFile)
}
