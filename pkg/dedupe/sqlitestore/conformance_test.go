package sqlitestore

import (
	"context"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dedupetest"
)

func TestConformance(t *testing.T)         { dedupetest.Run(t, inFile) }
func TestConformanceInMemory(t *testing.T) { dedupetest.Run(t, inMemory) }
func TestMutants(t *testing.T)             { dedupetest.RunMutants(t, inFile) }

func inFile(t *testing.T) dedupetest.Engine {
	s, err := Create(t.Context(), inTemp(t))
	return newEngine(t, s, err)
}

func inMemory(t *testing.T) dedupetest.Engine {
	s, err := OpenMemory(t.Context())
	return newEngine(t, s, err)
}

func newEngine(t *testing.T, s *Store, err error) dedupetest.Engine {
	t.Helper()
	check(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return dedupetest.Engine{Store: s, Raw: raw{s}}
}

// raw deletes entries, as the TTL of other engines does.
type raw struct{ store *Store }

func (r raw) DropEntry(ctx context.Context, scope string, key dedupe.Key) error {
	return r.store.exec(ctx, `DELETE FROM entry WHERE scope = ? AND key = ?`, scope, key[:])
}
