package sqlite

import (
	"context"
	"fmt"
)

// applicationID marks a SQLite file as ours; it spells "once".
const applicationID = 0x6f6e6365

// fileVersion is the version of the file, its user_version: the table "part" names what the file holds. Each part has a
// version of its own; each engine makes, reads and changes its own part only.
const fileVersion = 1

// Part is what one engine keeps in a file: its tables, and its words for them in errors.
type Part struct {
	Name    string // in the table part
	Version int    // of the tables, from 1; a later version is refused with ErrNewer
	Tables  string // the statements that make them
	// Oldest is the oldest version that can be used, 1 if it is not set; an older one is refused with ErrOlder.
	Oldest int
	// Upgrades are the statements from version Oldest to the next and so on, up to Version. An older file gets them when
	// it is opened.
	Upgrades []string
	Purpose  string // what the tables are for, in errors: "claims"
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
	) STRICT, WITHOUT ROWID;`, applicationID, fileVersion)

const selectIdentity = `SELECT a.application_id, u.user_version, (SELECT count(*) FROM sqlite_schema)
	FROM pragma_application_id a, pragma_user_version u`

// absent is the version of a part that a file does not hold.
const absent = 0

// inspect finds out what the file is and which version of the part it holds. It waits for a program that has the file
// locked.
func (db *DB) inspect(waiting context.Context) (version int, err error) {
	err = pollFree(waiting, func() error {
		version, err = db.identify(context.WithoutCancel(waiting), db.writer)
		return err
	})
	return version, err
}

func (db *DB) identify(ctx context.Context, w *Statements) (version int, err error) {
	var id, file, tables int
	if _, err := w.One(ctx, selectIdentity, nil, &id, &file, &tables); err != nil {
		return absent, err
	}
	switch {
	case id == 0 && file == 0 && tables == 0:
		return absent, nil
	case id != applicationID:
		return absent, fmt.Errorf("%w: it is the SQLite database of another program", ErrNotStore)
	case file > fileVersion:
		return absent, fmt.Errorf("%w: the file has version %d, this oncebox knows versions up to %d", ErrNewer, file, fileVersion)
	}
	return db.identifyPart(ctx, w)
}

func (db *DB) identifyPart(ctx context.Context, w *Statements) (version int, err error) {
	version = absent
	_, err = w.One(ctx, `SELECT version FROM part WHERE name = ?`, Args{db.part.Name}, &version)
	switch {
	case err != nil:
	case version != absent && version < db.part.Oldest:
		err = fmt.Errorf("%w: the tables for %s have version %d, this oncebox knows versions from %d on; use another file",
			ErrOlder, db.part.Purpose, version, db.part.Oldest)
	case version > db.part.Version:
		err = fmt.Errorf("%w: the tables for %s have version %d, this oncebox knows versions up to %d",
			ErrNewer, db.part.Purpose, version, db.part.Version)
	}
	return version, err
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

// makePart makes or upgrades the part, unless another process was faster.
func (db *DB) makePart(ctx context.Context) error {
	return db.inTurn(ctx, func(ctx context.Context, w *Statements) error {
		version, err := db.identify(ctx, w)
		switch {
		case err != nil || version == db.part.Version:
			return err
		case version != absent:
			return db.upgrade(ctx, w, version)
		}
		if err := makeFileOnce(ctx, w); err != nil {
			return err
		}
		if err := w.Run(ctx, db.part.Tables); err != nil {
			return err
		}
		_, err = w.Exec(ctx, `INSERT INTO part (name, version) VALUES (?, ?)`, db.part.Name, db.part.Version)
		return err
	})
}

func (db *DB) upgrade(ctx context.Context, w *Statements, from int) error {
	for _, statements := range db.part.Upgrades[from-max(db.part.Oldest, 1):] {
		if err := w.Run(ctx, statements); err != nil {
			return err
		}
	}
	_, err := w.Exec(ctx, `UPDATE part SET version = ? WHERE name = ?`, db.part.Version, db.part.Name)
	return err
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
