package sqlitestore

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

const (
	columns = `status, token, number, lease_end, expiry, purge_at, payload, completed_by, kind, content_type, body`

	selectRecord = `SELECT ` + columns + ` FROM once WHERE key = ?`

	insertRecord = `INSERT INTO once (key, ` + columns + `) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '', '', '', NULL)
		ON CONFLICT (key) DO `

	putRecord = insertRecord + `NOTHING`

	replaceRecord = insertRecord + `UPDATE SET status = ?2, token = ?3, number = ?4, lease_end = ?5, expiry = ?6,
			purge_at = ?7, payload = ?8, completed_by = '', kind = '', content_type = '', body = NULL
		WHERE status = ?9 AND token = ?10 AND number = ?11 AND lease_end = ?12 AND expiry = ?13`

	ifMine = ` WHERE key = ?1 AND token = ?2 AND status = 'in-progress'`

	prolongLease = `UPDATE once SET lease_end = ?3, expiry = ?4, purge_at = ?5` + ifMine + ` AND lease_end < ?3`

	completeRecord = `UPDATE once SET status = 'completed', completed_by = ?2, kind = ?3, content_type = ?4, body = ?5,
		expiry = ?6, purge_at = ?7` + ifMine

	releaseKey = `UPDATE once SET lease_end = 0, token = ?3` + ifMine
)

// Put implements engine.Store.
func (s *Store) Put(ctx context.Context, key engine.Key, record engine.Record) (engine.Answer, error) {
	return s.write(ctx, "put record", key, putRecord, valuesOf(record)...)
}

// Replace implements engine.Store.
func (s *Store) Replace(
	ctx context.Context, key engine.Key, old engine.Version, record engine.Record,
) (engine.Answer, error) {
	return s.write(ctx, "replace record", key, replaceRecord, append(valuesOf(record),
		string(old.Status), old.Token, old.Number, old.LeaseEnd.UnixMilli(), old.Expiry.UnixMilli())...)
}

// valuesOf returns the columns of a record in progress.
func valuesOf(r engine.Record) []any {
	return []any{
		string(r.Status), r.Token, r.Number, r.LeaseEnd.UnixMilli(), r.Expiry.UnixMilli(), r.PurgeAt.Unix(), r.Payload,
	}
}

// Prolong implements engine.Store.
func (s *Store) Prolong(ctx context.Context, key engine.Key, token string, ends engine.Ends) (engine.Answer, error) {
	return s.write(ctx, "prolong lease", key, prolongLease,
		token, ends.LeaseEnd.UnixMilli(), ends.Expiry.UnixMilli(), ends.PurgeAt.Unix())
}

// Complete implements engine.Store.
func (s *Store) Complete(
	ctx context.Context, key engine.Key, token string, c engine.Completion,
) (engine.Answer, error) {
	return s.write(ctx, "complete record", key, completeRecord, completion(token, c)...)
}

func completion(token string, c engine.Completion) []any {
	return []any{
		token, string(c.Result.Kind), c.Result.ContentType, c.Result.Body, c.Expiry.UnixMilli(), c.PurgeAt.Unix(),
	}
}

// Release implements engine.Store.
func (s *Store) Release(ctx context.Context, key engine.Key, token, next string) (engine.Answer, error) {
	return s.write(ctx, "release key", key, releaseKey, token, next)
}

// Read implements engine.Store. It is always current.
func (s *Store) Read(ctx context.Context, key engine.Key, _ engine.Consistency) (a engine.Answer, err error) {
	digest, err := digestOf(key)
	if err != nil {
		return a, err
	}
	err = s.db.Read(ctx, "read record", func(ctx context.Context, r *sqlite.Statements) error {
		a, err = s.show(ctx, r, digest)
		return err
	})
	return a, err
}

// write is a transaction of one conditional write.
func (s *Store) write(
	ctx context.Context, doing string, key engine.Key, statement string, values ...any,
) (a engine.Answer, err error) {
	err = s.db.Write(ctx, doing, func(ctx context.Context, w *sqlite.Statements) error {
		a, err = s.change(ctx, w, key, statement, values...)
		return err
	})
	if err != nil {
		return engine.Answer{}, err
	}
	return a, nil
}

// change makes one conditional write in a transaction. If it is refused, the answer has the row.
func (s *Store) change(
	ctx context.Context, w *sqlite.Statements, key engine.Key, statement string, values ...any,
) (engine.Answer, error) {
	digest, err := digestOf(key)
	if err != nil {
		return engine.Answer{}, err
	}
	n, err := w.Exec(ctx, statement, append([]any{digest}, values...)...)
	if err != nil {
		return engine.Answer{}, err
	}
	if n == 1 {
		return engine.Answer{Done: true, Date: s.now()}, nil
	}
	return s.show(ctx, w, digest)
}

// show returns an answer with the row of a key.
func (s *Store) show(ctx context.Context, on *sqlite.Statements, digest []byte) (engine.Answer, error) {
	var r engine.Record
	var purgeAt int64
	found, err := on.One(ctx, selectRecord, sqlite.Args{digest}, &r.Status, &r.Token, &r.Number,
		sqlite.IntoTime(&r.LeaseEnd), sqlite.IntoTime(&r.Expiry), &purgeAt, &r.Payload, &r.CompletedBy, &r.Result.Kind,
		&r.Result.ContentType, &r.Result.Body)
	if err != nil || !found {
		return engine.Answer{Date: s.now()}, err
	}
	r.PurgeAt = time.Unix(purgeAt, 0).UTC()
	return engine.Answer{Row: &r, Date: s.now()}, nil
}

func digestOf(key engine.Key) ([]byte, error) { return hex.DecodeString(key.Digest()) }
