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
CREATE INDEX claim_of_campaign ON claim (campaign);
