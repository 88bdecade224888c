package sqlitestore

import (
	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var part = sqlite.Part{
	Name:     "itembank",
	Version:  4,
	Tables:   makeTables,
	Upgrades: []string{addLives, addHolds, addScopes},
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
		opens_at   INTEGER,
		closes_at  INTEGER,
		scope      TEXT NOT NULL,
		shards     INTEGER NOT NULL,
		page_size  INTEGER NOT NULL,
		created_at INTEGER,
		item_life  INTEGER NOT NULL DEFAULT 0,
		claim_life INTEGER NOT NULL DEFAULT 0,
		hold       INTEGER NOT NULL DEFAULT 0,
		version    INTEGER NOT NULL DEFAULT 0,
		empty_version INTEGER NOT NULL DEFAULT 0,
		on_end     TEXT NOT NULL DEFAULT 'burn',
		claimants  TEXT NOT NULL DEFAULT '',
		per_claimant INTEGER NOT NULL DEFAULT 0,
		choice     INTEGER NOT NULL DEFAULT 0,
		publish    INTEGER NOT NULL DEFAULT 0,
		columns    INTEGER NOT NULL DEFAULT 0
	) STRICT, WITHOUT ROWID;
` + tableScope + `

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
		PRIMARY KEY (campaign, digest, number)
	) STRICT, WITHOUT ROWID;

	-- slot numbers the claims of a claimant in a scope, from 1. shard is that of the
	-- item; more has the other items of a claim with several. shard is NULL in claims of version 2 and earlier.
	CREATE TABLE claim (
		scope      TEXT NOT NULL,
		claimant   TEXT NOT NULL,
		slot       INTEGER NOT NULL,
		id         TEXT NOT NULL,
		campaign   TEXT NOT NULL,
		shard      INTEGER,
		item       TEXT NOT NULL,
		item_hash  BLOB NOT NULL CHECK (length(item_hash) = 16),
		claimed_at INTEGER,
		ends_at    INTEGER,
		more       TEXT NOT NULL DEFAULT '',
		PRIMARY KEY (scope, claimant, slot)
	) STRICT, WITHOUT ROWID;

	-- For counting; several campaigns may share a scope.
	CREATE INDEX claim_of_campaign ON claim (campaign);
` + indexDue + tablePage

// tableScope makes the table of what is fixed with a scope. Scopes of version 3 and earlier have no row.
const tableScope = `
	CREATE TABLE scope (
		name       TEXT NOT NULL PRIMARY KEY,
		claimants  TEXT NOT NULL,
		sole       TEXT NOT NULL
	) STRICT, WITHOUT ROWID;`

// indexDue makes the index over claims that end. Claims without an end are not in it.
const indexDue = `
	CREATE INDEX claim_due ON claim (campaign, shard, ends_at) WHERE ends_at IS NOT NULL;`

// addLives upgrades version 1 to 2.
const addLives = `
	ALTER TABLE campaign ADD COLUMN item_life INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE campaign ADD COLUMN claim_life INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE campaign ADD COLUMN on_end TEXT NOT NULL DEFAULT 'burn';
	ALTER TABLE item ADD COLUMN returns INTEGER NOT NULL DEFAULT 0;`

// addHolds upgrades version 2 to 3. It also drops the generations: there was never a second one.
const addHolds = `
	ALTER TABLE campaign ADD COLUMN hold INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE campaign ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE campaign ADD COLUMN empty_version INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE claim ADD COLUMN shard INTEGER;
	ALTER TABLE campaign DROP COLUMN generation;
	ALTER TABLE item DROP COLUMN generation;
	ALTER TABLE load DROP COLUMN generation;
	CREATE TABLE bank3 (
		campaign   TEXT NOT NULL,
		shard      INTEGER NOT NULL,
		hash       BLOB NOT NULL CHECK (length(hash) = 16),
		item       TEXT NOT NULL,
		ends_at    INTEGER,
		PRIMARY KEY (campaign, shard, hash)
	) STRICT, WITHOUT ROWID;
	INSERT INTO bank3 SELECT campaign, shard, hash, item, ends_at FROM bank;
	DROP TABLE bank;
	ALTER TABLE bank3 RENAME TO bank;
	ALTER TABLE item ADD COLUMN withdraw INTEGER NOT NULL DEFAULT 0;
` + indexDue

// addScopes upgrades version 3 to 4, with the table of pages.
const addScopes = `
	ALTER TABLE campaign ADD COLUMN claimants TEXT NOT NULL DEFAULT '';
	ALTER TABLE campaign ADD COLUMN per_claimant INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE campaign ADD COLUMN choice INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE campaign ADD COLUMN publish INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE campaign ADD COLUMN columns INTEGER NOT NULL DEFAULT 0;
	ALTER TABLE item ADD COLUMN columns TEXT NOT NULL DEFAULT '';
	ALTER TABLE claim ADD COLUMN more TEXT NOT NULL DEFAULT '';` + tableScope + tablePage
