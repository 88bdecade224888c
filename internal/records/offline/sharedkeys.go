package offline

import (
	"context"
	"io"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// sharedKeys holds the keys that have two or more fingerprints in the inputs. They are in a temporary database, so
// that the memory does not depend on the number of records. SQLite adds rows at the end of a table and sorts them
// with its own files. This takes some microseconds a record for any number of records.
type sharedKeys struct{ db *sqlite.DB }

var sharedKeysPart = sqlite.Part{
	Name: "shared keys", Layout: 1, Purpose: "shared keys", TryAgain: dedupe.ErrTryAgain,
	Tables: `
		PRAGMA cache_size = -32768; -- 32 MiB
		-- The key and the digest of the fingerprint of each record.
		CREATE TABLE seen (key BLOB NOT NULL, content BLOB NOT NULL) STRICT;
		CREATE TABLE shared (key BLOB NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;`,
}

const (
	insertSeen = `INSERT INTO seen (key, content) VALUES (?, ?)`

	insertShared = `INSERT INTO shared SELECT key FROM seen GROUP BY key HAVING min(content) <> max(content)`
	dropSeen     = `DROP TABLE seen`

	selectShared = `SELECT key FROM shared WHERE key = ?`
)

// seenRecord holds the values of a record that sharedKeys compares.
type seenRecord struct {
	key     format.Key
	content dedupe.Digest
}

// findSharedKeys reads the inputs and finds the keys that have two or more fingerprints. The result depends only on
// the inputs, so it is the same when a run is resumed. Records that are too old also count.
func (r *run) findSharedKeys(ctx context.Context) (err error) {
	if r.shared.db, err = sqlite.OpenTemporary(ctx, sharedKeysPart); err != nil {
		return err
	}
	lines := newLineReader(r.Inputs, r.maxLine)
	feed := startFeed(ctx, lines, pieceLines, r.readFields)
	defer feed.stop(false)
	var done int64
	for last := false; !last; {
		p, err := feed.next(ctx)
		if err != nil {
			return err
		}
		if err := r.shared.add(ctx, seenIn(p)); err != nil {
			return err
		}
		for i := range p.records {
			done += p.records[i].size
		}
		if p.endsTooLong() {
			before := lines.done
			if err := lines.rest(io.Discard); err != nil {
				return err
			}
			done += lines.done - before
			feed.proceed()
		}
		r.progress(passRenaming, done)
		last = p.last
		feed.reuse(p)
	}
	return r.shared.finish(ctx)
}

// seenIn returns the values of some records to compare. It leaves out records that cannot be processed.
func seenIn(p *piece) []seenRecord {
	seen := make([]seenRecord, 0, len(p.records))
	for i := range p.records {
		if rec := &p.records[i]; rec.isRecord() {
			seen = append(seen, seenRecord{format.KeyOf(rec.fields.ID), dedupe.ContentDigest(rec.fields.Fingerprint)})
		}
	}
	return seen
}

func (s *sharedKeys) add(ctx context.Context, seen []seenRecord) error {
	return s.db.Write(ctx, "compare fingerprints", func(ctx context.Context, w *sqlite.Statements) error {
		for i := range seen {
			if _, err := w.Exec(ctx, insertSeen, seen[i].key[:], seen[i].content[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// finish sorts the records by key. This may take minutes, so it stops when the run's context ends, not when the
// transaction's does.
func (s *sharedKeys) finish(ctx context.Context) error {
	return s.db.Write(ctx, "compare fingerprints", func(_ context.Context, w *sqlite.Statements) error {
		if _, err := w.Exec(ctx, insertShared); err != nil {
			return err
		}
		return w.Run(ctx, dropSeen)
	})
}

// mark sets Derive for the records whose keys are shared.
func (s *sharedKeys) mark(ctx context.Context, candidates []dedupe.Candidate) error {
	return s.db.ReadSnapshot(ctx, "compare fingerprints", func(ctx context.Context, r *sqlite.Statements) (err error) {
		for i := range candidates {
			key, found := format.KeyOf(candidates[i].ID), []byte(nil)
			if candidates[i].Derive, err = r.One(ctx, selectShared, sqlite.Args{key[:]}, &found); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *sharedKeys) close() {
	if s.db != nil {
		_ = s.db.Close() // closing it deletes its file
	}
}
