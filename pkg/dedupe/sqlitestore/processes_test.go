package sqlitestore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const (
	contestedKeys  = 2000
	contestedBatch = 50
)

// putEverything puts its own entry under every key, in batches and in random order. It returns the digest of each key's
// owner: its own, or the one that it found.
func putEverything(ctx context.Context, path, name string) (any, error) {
	// The time-out is long, so that the test also passes on a slow machine.
	s, err := Open(ctx, path, WithBusyTimeout(time.Minute))
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	s.levels = levels{recent: 4 * contestedBatch, largeCall: 1}
	order := rand.Perm(contestedKeys)
	owners := make([]dedupe.Digest, contestedKeys)
	sqlitetest.Ready()
	for begin := 0; begin < contestedKeys; begin += contestedBatch {
		batch := order[begin : begin+contestedBatch]
		entries := make([]dedupe.Entry, len(batch))
		for i, key := range batch {
			entries[i] = entry(fmt.Sprint(key), name)
		}
		results, err := s.PutIfAbsent(ctx, entries)
		if err != nil {
			return nil, err
		}
		for i, key := range batch {
			owners[key] = owner(name).Digest()
			if existing := results[i].Existing; existing != nil {
				owners[key] = existing.Owner
			}
		}
	}
	return owners, nil
}

// TestProcessesAgreeOnOwners: processes put the same keys, and all of them move places.
func TestProcessesAgreeOnOwners(t *testing.T) {
	path := inTemp(t)
	s := newStore(t, path)
	var all []*sqlitetest.Process
	for i := range 4 {
		all = append(all, sqlitetest.Start(t, "put everything", path, fmt.Sprintf("process %d", i)))
	}
	began := time.Now()
	for _, p := range all {
		p.Proceed(t)
	}
	found := make([][]dedupe.Digest, len(all))
	for i, p := range all {
		p.Result(t, &found[i])
	}
	t.Logf("%.0f puts/s", float64(contestedKeys*len(all))/time.Since(began).Seconds())
	wins := map[dedupe.Digest]int{}
	for key := range contestedKeys {
		e := s.put(t, entry(fmt.Sprint(key), "the test"))
		if e == nil {
			t.Fatalf("no process has key %d", key)
		}
		wins[e.Owner]++
		for i := range found {
			if found[i][key] != e.Owner {
				t.Errorf("key %d: process %d found owner %x, want %x", key, i, found[i][key], e.Owner)
			}
		}
	}
	if recent, merged := checkPlaces(t, s); recent+merged != contestedKeys || merged == 0 {
		t.Errorf("%d places are new, and %d merged, for %d keys", recent, merged, contestedKeys)
	}
	t.Logf("owners: %v", slices.Collect(maps.Values(wins)))
}
