package sqlitestore

import (
	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

var part = sqlite.Part{
	Name:     "idempotency",
	Layout:   1,
	Tables:   makeTables,
	Purpose:  "idempotency",
	TryAgain: engine.ErrTryAgain,
}

// makeTables makes the table of this package. Times are Unix milliseconds, but purge_at is in Unix seconds.
const makeTables = `
	-- key is the hash of namespace and key. The table has row ids because keys are
	-- random and results may be large.
	CREATE TABLE once (
		key          BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
		status       TEXT NOT NULL CHECK (status IN ('in-progress', 'completed')),
		token        TEXT NOT NULL,
		number       INTEGER NOT NULL,
		lease_end    INTEGER NOT NULL,
		expiry       INTEGER NOT NULL,
		purge_at     INTEGER NOT NULL,
		payload      TEXT NOT NULL,
		completed_by TEXT NOT NULL,
		kind         TEXT NOT NULL,
		content_type TEXT NOT NULL,
		body         BLOB
	) STRICT;`
