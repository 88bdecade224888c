package dynamostore

import (
	"cmp"
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

var _ dedupe.Explainer = (*Store)(nil)

// explainedRow is an entry with its attributes for people: see entryRow.
type explainedRow struct {
	entryRow
	Version string `dynamodbav:"v"`
	Arrival int64  `dynamodbav:"a"` // milliseconds
}

// Explain implements dedupe.Explainer. If a record is from a stream, its owner has only the number of the shard. It
// reads consistently, at one read unit for each key. The errors are as for PutIfAbsent.
func (s *Store) Explain(ctx context.Context, scope string, c dedupe.Candidate) (dedupe.Explanation, error) {
	return dedupe.ExplainByKey(ctx, c, func(ctx context.Context, keys []dedupe.Key) ([]*dedupe.StoredEntry, error) {
		return s.stored(ctx, scope, keys)
	})
}

// Find returns the entries of keys in their order, and nil for a key without an entry that decides. It reads
// consistently, at one read unit for each key, and changes nothing. The errors are as for PutIfAbsent.
func (s *Store) Find(ctx context.Context, scope string, keys []dedupe.Key) ([]*dedupe.Existing, error) {
	return dedupe.FindByKey(ctx, keys, func(ctx context.Context, keys []dedupe.Key) ([]*dedupe.StoredEntry, error) {
		return s.stored(ctx, scope, keys)
	})
}

// stored reads the entries of keys, and nil for a key without an entry.
func (s *Store) stored(ctx context.Context, scope string, keys []dedupe.Key) ([]*dedupe.StoredEntry, error) {
	entries, failures := make([]*dedupe.StoredEntry, len(keys)), make([]error, len(keys))
	s.each(len(keys), func(i int) *error { return &failures[i] }, func(i int) {
		entries[i], failures[i] = s.explain(ctx, scope, keys[i])
	})
	return entries, cmp.Or(failures...)
}

func (s *Store) explain(ctx context.Context, scope string, of dedupe.Key) (*dedupe.StoredEntry, error) {
	var row explainedRow
	k := entryKey(scope, of)
	there, err := s.get(ctx, "read entry", k, &row)
	if err != nil || !there {
		return nil, err
	}
	existing, err := row.existing()
	if err != nil {
		return nil, err
	}
	settled, err := dedupe.Settled(ctx, s, scope, row.OwnerText)
	if err != nil {
		return nil, err
	}
	return &dedupe.StoredEntry{
		Void: !settled, Existing: *existing, Owner: row.OwnerText, Version: row.Version, Arrival: time.UnixMilli(row.Arrival).UTC(),
		Place: k.PK,
	}, nil
}
