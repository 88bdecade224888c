package dynamostore

import (
	"context"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Find returns the entries of keys in their order, and nil for a key without an entry. It reads consistently, at one
// read unit for each key, and changes nothing. The errors are as for PutIfAbsent.
func (s *Store) Find(ctx context.Context, scope string, keys []dedupe.Key) ([]*dedupe.Existing, error) {
	found := make([]*dedupe.Existing, len(keys))
	failures := make([]error, len(keys))
	s.each(len(keys), func(i int) *error { return &failures[i] }, func(i int) {
		found[i], failures[i] = s.find(ctx, scope, keys[i])
	})
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *Store) find(ctx context.Context, scope string, k dedupe.Key) (*dedupe.Existing, error) {
	var row entryRow
	there, err := s.get(ctx, "read entry", entryKey(scope, k), &row)
	if err != nil || !there {
		return nil, err
	}
	if settled, err := dedupe.Settled(ctx, s, scope, row.OwnerText); err != nil || !settled {
		return nil, err
	}
	return row.existing()
}
