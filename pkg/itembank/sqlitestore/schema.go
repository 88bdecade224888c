package sqlitestore

import (
	"context"
	"fmt"
)

// applicationID marks a SQLite file as ours; it spells "once".
const applicationID = 0x6f6e6365

// Two versions. That of the file, its user_version, says that the table part
// names what the file holds; more packages than this one may keep tables in it,
// and each makes, reads and changes its own by its own version in part.
const (
	fileVersion = 1
	partName    = "itembank"
	partVersion = 1
)

// makeFile makes an empty database a oncebox file.
var makeFile = fmt.Sprintf(`
	PRAGMA application_id = %d;
	PRAGMA user_version = %d;
	CREATE TABLE part (
		name    TEXT NOT NULL PRIMARY KEY,
		version INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;`, applicationID, fileVersion)

// makePart makes the tables of this package. Times are Unix milliseconds, NULL
// for none; hashes are 16 bytes, which SQLite orders as bytes. The rows are
// small and always asked for by key, hence WITHOUT ROWID.
const makePart = `
	CREATE TABLE campaign (
		name       TEXT NOT NULL PRIMARY KEY,
		mode       TEXT NOT NULL,
		opens_at   INTEGER,
		closes_at  INTEGER,
		scope      TEXT NOT NULL,
		shards     INTEGER NOT NULL,
		page_size  INTEGER NOT NULL,
		generation INTEGER NOT NULL,
		created_at INTEGER
	) STRICT, WITHOUT ROWID;

	-- The free items.
	CREATE TABLE bank (
		campaign   TEXT NOT NULL,
		generation INTEGER NOT NULL,
		shard      INTEGER NOT NULL,
		hash       BLOB NOT NULL CHECK (length(hash) = 16),
		item       TEXT NOT NULL,
		ends_at    INTEGER,
		PRIMARY KEY (campaign, generation, shard, hash)
	) STRICT, WITHOUT ROWID;

	-- Every item that was ever loaded, wherever it is now.
	CREATE TABLE item (
		campaign   TEXT NOT NULL,
		hash       BLOB NOT NULL CHECK (length(hash) = 16),
		load_id    TEXT NOT NULL,
		row        INTEGER NOT NULL,
		generation INTEGER NOT NULL,
		ends_at    INTEGER,
		state      TEXT CHECK (state <> ''),
		PRIMARY KEY (campaign, hash)
	) STRICT, WITHOUT ROWID;

	CREATE TABLE load (
		campaign   TEXT NOT NULL,
		digest     TEXT NOT NULL,
		number     INTEGER NOT NULL,
		generation INTEGER NOT NULL,
		finished   INTEGER NOT NULL CHECK (finished IN (0, 1)),
		rows       INTEGER NOT NULL,
		added      INTEGER NOT NULL,
		known      INTEGER NOT NULL,
		repeated   INTEGER NOT NULL,
		PRIMARY KEY (campaign, digest, number)
	) STRICT, WITHOUT ROWID;

	-- slot is 1 until campaigns allow several claims.
	CREATE TABLE claim (
		scope      TEXT NOT NULL,
		claimant   TEXT NOT NULL,
		slot       INTEGER NOT NULL,
		id         TEXT NOT NULL,
		campaign   TEXT NOT NULL,
		item       TEXT NOT NULL,
		item_hash  BLOB NOT NULL CHECK (length(item_hash) = 16),
		claimed_at INTEGER,
		ends_at    INTEGER,
		PRIMARY KEY (scope, claimant, slot)
	) STRICT, WITHOUT ROWID;

	-- For counting; several campaigns may share a scope.
	CREATE INDEX claim_of_campaign ON claim (campaign);`

const selectIdentity = `SELECT a.application_id, u.user_version, (SELECT count(*) FROM sqlite_schema)
	FROM pragma_application_id a, pragma_user_version u`

// inspect sees what the file is. Fresh: it has room for this package's tables,
// and not the tables. It waits for a program that has the file locked.
func (s *Store) inspect(waiting context.Context) (fresh bool, err error) {
	err = pollFree(waiting, func() error {
		fresh, err = identify(context.WithoutCancel(waiting), s.writer)
		return err
	})
	return fresh, err
}

func identify(ctx context.Context, w *statements) (fresh bool, err error) {
	var id, version, tables int
	if _, err := w.one(ctx, selectIdentity, nil, &id, &version, &tables); err != nil {
		return false, err
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return true, nil
	case id != applicationID:
		return false, fmt.Errorf("%w: it is another program's SQLite database", ErrNotStore)
	case version > fileVersion:
		return false, fmt.Errorf("%w: the file has version %d, this one knows up to %d", ErrNewer, version, fileVersion)
	}
	return identifyPart(ctx, w)
}

func identifyPart(ctx context.Context, w *statements) (fresh bool, err error) {
	var version int
	found, err := w.one(ctx, `SELECT version FROM part WHERE name = ?`, args{partName}, &version)
	if err == nil && version > partVersion {
		err = fmt.Errorf("%w: the tables for claims have version %d, this one knows up to %d", ErrNewer, version, partVersion)
	}
	return !found, err
}

// useWAL sets the journal mode, which stays with the file: readers and a writer
// then do not block each other.
func (s *Store) useWAL(waiting context.Context) error {
	var mode string
	err := pollFree(waiting, func() error {
		_, err := s.writer.one(context.WithoutCancel(waiting), `PRAGMA journal_mode = WAL`, nil, &mode)
		return err
	})
	if err == nil && mode != "wal" {
		err = fmt.Errorf("journal mode WAL is needed and cannot be had here, only %q", mode)
	}
	return err
}

// makeSchema makes what is missing, unless another process was faster.
func (s *Store) makeSchema(ctx context.Context) error {
	return s.inTurn(ctx, func(ctx context.Context, w *statements) error {
		fresh, err := identify(ctx, w)
		if err != nil || !fresh {
			return err
		}
		if err := makeFileOnce(ctx, w); err != nil {
			return err
		}
		if err := w.run(ctx, makePart); err != nil {
			return err
		}
		_, err = w.exec(ctx, `INSERT INTO part (name, version) VALUES (?, ?)`, partName, partVersion)
		return err
	})
}

// makeFileOnce marks the file as ours, unless another package has done that.
func makeFileOnce(ctx context.Context, w *statements) error {
	var tables int
	_, err := w.one(ctx, `SELECT count(*) FROM sqlite_schema`, nil, &tables)
	if err != nil || tables > 0 {
		return err
	}
	return w.run(ctx, makeFile)
}
