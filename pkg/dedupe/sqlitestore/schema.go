package sqlitestore

import (
	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

var part = sqlite.Part{
	Name:     "dedupe",
	Layout:   8,
	Tables:   makeTables,
	Purpose:  "deduplication",
	TryAgain: dedupe.ErrTryAgain,
}

// makeTables makes the tables of this package.
const makeTables = `
	-- owner and content are digests of the record that holds the entry and of its
	-- fingerprint; record is the owner as people read it. arrival is in Unix
	-- milliseconds. purge_at is in Unix seconds, here and below, and NULL for what is
	-- kept for ever. Keys are random, so new entries get the next rows: about 30 of them
	-- share a page. slot is the key mixed with its scope (slotOf). No constraint makes
	-- scope and slot unique: a put looks them up in its transaction. done is 1 where it is
	-- known that the effect is done, else NULL. hold is NULL, or the token and the end of
	-- the lease of the invocation that has put the entry of a message of a queue.
	CREATE TABLE entry (
		row      INTEGER PRIMARY KEY,
		scope    TEXT NOT NULL,
		slot     BLOB NOT NULL CHECK (length(slot) = 16),
		owner    BLOB NOT NULL CHECK (length(owner) = 16),
		content  BLOB NOT NULL CHECK (length(content) = 16),
		record   TEXT NOT NULL,
		version  TEXT NOT NULL,
		arrival  INTEGER,
		purge_at INTEGER,
		done     INTEGER,
		hold     BLOB CHECK (length(hold) = 24)
	) STRICT;

	-- The index of the entries: place is the first 6 bytes of a slot. Each row of entry is
	-- in one of the two tables: puts write to recent, and large calls move rows of it to
	-- merged (see merge.go). A row takes about 17 bytes. Rows of deleted entries get new
	-- entries, so the places of a deleted entry must go with it.
	CREATE TABLE recent (
		place BLOB NOT NULL,
		row   INTEGER NOT NULL,
		PRIMARY KEY (place, row)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE merged (
		place BLOB NOT NULL,
		row   INTEGER NOT NULL,
		PRIMARY KEY (place, row)
	) STRICT, WITHOUT ROWID;
	CREATE TRIGGER delete_place AFTER DELETE ON entry BEGIN
		DELETE FROM recent WHERE place = substr(OLD.slot, 1, 6) AND row = OLD.row;
		DELETE FROM merged WHERE place = substr(OLD.slot, 1, 6) AND row = OLD.row;
	END;

	-- The one row is the place up to which the last merge has moved rows.
	CREATE TABLE merge (place BLOB NOT NULL) STRICT;
	INSERT INTO merge VALUES (x'00');

	-- first and last are decimals padded with zeros, so that texts compare as numbers
	-- do. Two acks may end at the same record. Always read by key: so WITHOUT ROWID,
	-- here and below.
	CREATE TABLE ack (
		scope    TEXT NOT NULL,
		stream   TEXT NOT NULL,
		shard    TEXT NOT NULL,
		sink     TEXT NOT NULL,
		last     TEXT NOT NULL CHECK (length(last) = 128),
		owners   BLOB NOT NULL,
		first    TEXT NOT NULL CHECK (length(first) = 128),
		purge_at INTEGER,
		PRIMARY KEY (scope, stream, shard, sink, last, owners)
	) STRICT, WITHOUT ROWID;

	CREATE TABLE consumer (
		scope    TEXT NOT NULL,
		stream   TEXT NOT NULL,
		function TEXT NOT NULL,
		PRIMARY KEY (scope, stream)
	) STRICT, WITHOUT ROWID;

	-- Entries of a scope with a purge_at below before were deleted. It only grows.
	CREATE TABLE horizon (
		scope  TEXT NOT NULL PRIMARY KEY,
		before INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;

	-- Offline runs, numbered by scope in the order in which they began. ended is the
	-- highest number of the scope when the run finished or was closed, 0 before.
	-- replaced_by is the id of the run by which this one was undone. file and line are
	-- the last line that is done. output and dead_letters are sizes of files. beat
	-- grows with each save. tally is JSON: it is read as a whole and may gain members.
	CREATE TABLE run (
		scope        TEXT NOT NULL,
		number       INTEGER NOT NULL,
		id           TEXT NOT NULL,
		digest       TEXT NOT NULL,
		finished     INTEGER NOT NULL CHECK (finished IN (0, 1)),
		ended        INTEGER NOT NULL,
		replaced_by  TEXT NOT NULL DEFAULT '',
		input        INTEGER NOT NULL,
		lines        INTEGER NOT NULL,
		file         INTEGER NOT NULL,
		line         INTEGER NOT NULL,
		output       INTEGER NOT NULL,
		dead_letters INTEGER NOT NULL,
		tally        TEXT NOT NULL,
		about        TEXT NOT NULL,
		output_id    TEXT NOT NULL,
		beat         INTEGER NOT NULL,
		rests        INTEGER NOT NULL CHECK (rests IN (0, 1)),
		closed       INTEGER NOT NULL CHECK (closed IN (0, 1)),
		PRIMARY KEY (scope, number),
		UNIQUE (scope, id)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX run_digest ON run (scope, digest, number);`
