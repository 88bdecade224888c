package sqlitestore

import (
	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var part = sqlite.Part{
	Name:     "itembank",
	Layout:   7,
	Tables:   makeTables,
	Purpose:  "claims",
	TryAgain: engine.ErrTryAgain,
}

// makeTables makes the tables of this package. Times are Unix milliseconds, or NULL for no
// time. Hashes are 16 bytes, which SQLite orders as bytes. The tables are WITHOUT ROWID
// because the rows are small and always read by key.
const makeTables = `
	CREATE TABLE campaign (
		name       TEXT NOT NULL PRIMARY KEY,
		mode       TEXT NOT NULL,
		moved      INTEGER NOT NULL,
		restored   INTEGER NOT NULL,
		opens_at   INTEGER,
		closes_at  INTEGER,
		scope      TEXT NOT NULL,
		shards     INTEGER NOT NULL,
		page_size  INTEGER NOT NULL,
		created_at INTEGER,
		item_life  INTEGER NOT NULL,
		claim_life INTEGER NOT NULL,
		hold       INTEGER NOT NULL,
		max_hold   INTEGER NOT NULL,
		version    INTEGER NOT NULL,
		empty_version INTEGER NOT NULL,
		on_end     TEXT NOT NULL,
		claimants  TEXT NOT NULL,
		per_claimant INTEGER NOT NULL,
		choice     INTEGER NOT NULL,
		max_items  INTEGER NOT NULL,
		publish    INTEGER NOT NULL,
		columns    INTEGER NOT NULL
	) STRICT, WITHOUT ROWID;

	-- What is fixed with a scope.
	CREATE TABLE scope (
		name       TEXT NOT NULL PRIMARY KEY,
		claimants  TEXT NOT NULL,
		sole       TEXT NOT NULL
	) STRICT, WITHOUT ROWID;

	-- The free items.
	CREATE TABLE bank (
		campaign   TEXT NOT NULL,
		shard      INTEGER NOT NULL,
		hash       BLOB NOT NULL CHECK (length(hash) = 16),
		item       TEXT NOT NULL,
		ends_at    INTEGER,
		PRIMARY KEY (campaign, shard, hash)
	) STRICT, WITHOUT ROWID;

	-- Every item that was ever loaded.
	CREATE TABLE item (
		campaign   TEXT NOT NULL,
		hash       BLOB NOT NULL CHECK (length(hash) = 16),
		load_id    TEXT NOT NULL,
		row        INTEGER NOT NULL,
		ends_at    INTEGER,
		state      TEXT CHECK (state <> ''),
		returns    INTEGER NOT NULL DEFAULT 0,
		withdraw   INTEGER NOT NULL DEFAULT 0,
		columns    TEXT NOT NULL DEFAULT '',
		PRIMARY KEY (campaign, hash)
	) STRICT, WITHOUT ROWID;

	CREATE TABLE load (
		campaign   TEXT NOT NULL,
		digest     TEXT NOT NULL,
		number     INTEGER NOT NULL,
		finished   INTEGER NOT NULL CHECK (finished IN (0, 1)),
		rows       INTEGER NOT NULL,
		added      INTEGER NOT NULL,
		known      INTEGER NOT NULL,
		repeated   INTEGER NOT NULL,
		given_up   INTEGER NOT NULL DEFAULT 0,
		started_at INTEGER,
		PRIMARY KEY (campaign, digest, number)
	) STRICT, WITHOUT ROWID;

	-- slot numbers the claims of a claimant in a scope, from 1. shard is that of the
	-- item; more has the other items of a claim with several.
	CREATE TABLE claim (
		scope      TEXT NOT NULL,
		claimant   TEXT NOT NULL,
		slot       INTEGER NOT NULL,
		id         TEXT NOT NULL,
		campaign   TEXT NOT NULL,
		shard      INTEGER NOT NULL,
		item       TEXT NOT NULL,
		item_hash  BLOB NOT NULL CHECK (length(item_hash) = 16),
		claimed_at INTEGER,
		ends_at    INTEGER,
		more       TEXT NOT NULL,
		PRIMARY KEY (scope, claimant, slot)
	) STRICT, WITHOUT ROWID;

	-- For counting; several campaigns may share a scope.
	CREATE INDEX claim_of_campaign ON claim (campaign);

	-- Claims without an end are not in this index.
	CREATE INDEX claim_due ON claim (campaign, shard, ends_at) WHERE ends_at IS NOT NULL;

	-- The pages of campaigns.
	CREATE TABLE page (
		campaign   TEXT NOT NULL PRIMARY KEY,
		document   BLOB NOT NULL
	) STRICT, WITHOUT ROWID;`
