package dynamostore

import (
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
		entries := make([]*dedupe.StoredEntry, len(keys))
		for i, k := range keys {
			var err error
			if entries[i], err = s.explain(ctx, scope, k); err != nil {
				return nil, err
			}
		}
		return entries, nil
	})
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
