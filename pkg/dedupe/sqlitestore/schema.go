package sqlitestore

import (
	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

var part = sqlite.Part{
	Name:    "dedupe",
	Version: 2,
	Tables:  makeTables,
	Upgrades: []string{
		`ALTER TABLE run RENAME COLUMN parked TO dead_letters`, // 2: one word for dead letters
	},
	Purpose:  "deduplication",
	TryAgain: dedupe.ErrTryAgain,
}

// makeTables makes the tables of this package.
const makeTables = `
	-- arrival is in Unix milliseconds. purge_at is in Unix seconds, and NULL for
	-- entries that are kept for ever. The table has row ids because keys are random:
	-- without them every put would write a page of its own, at half the rate. With
	-- them about 15 new entries share a page, and only the smaller index is random.
	CREATE TABLE entry (
		scope       TEXT NOT NULL,
		key         BLOB NOT NULL CHECK (length(key) = 16),
		owner       TEXT NOT NULL,
		fingerprint TEXT NOT NULL,
		version     TEXT NOT NULL,
		arrival     INTEGER,
		purge_at    INTEGER,
		PRIMARY KEY (scope, key)
	) STRICT;

	-- Few rows, always read by key: so WITHOUT ROWID, here and below. sequence is a
	-- decimal padded with zeros, so that texts compare as numbers do.
	CREATE TABLE checkpoint (
		scope    TEXT NOT NULL,
		stream   TEXT NOT NULL,
		shard    TEXT NOT NULL,
		sequence TEXT NOT NULL CHECK (length(sequence) = 128),
		consumer TEXT NOT NULL,
		PRIMARY KEY (scope, stream, shard)
	) STRICT, WITHOUT ROWID;

	-- Offline runs. output and dead_letters are sizes of files. tally is JSON: it is
	-- read as a whole and may gain members.
	CREATE TABLE run (
		scope        TEXT NOT NULL,
		digest       TEXT NOT NULL,
		id           TEXT NOT NULL,
		finished     INTEGER NOT NULL CHECK (finished IN (0, 1)),
		input        INTEGER NOT NULL,
		lines        INTEGER NOT NULL,
		output       INTEGER NOT NULL,
		dead_letters INTEGER NOT NULL,
		tally        TEXT NOT NULL,
		PRIMARY KEY (scope, digest)
	) STRICT, WITHOUT ROWID;`
