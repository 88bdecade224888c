package memledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
	"github.com/oncebox/oncebox/pkg/format"
)

func candidate(id, owner, fingerprint string, arrival time.Time) dedupe.Candidate {
	return dedupe.Candidate{
		ID: id, Owner: dedupe.Owner{Source: "s", Sequence: owner, Sub: dedupe.Plain}, Fingerprint: fingerprint,
		Arrival: arrival,
	}
}

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestLedger(t *testing.T) {
	ledger := New()
	enginetest.RunLedger(t, enginetest.OneRowAKey, func(testing.TB, func() time.Time) dedupe.Ledger { return ledger })
}

// TestLikeTheOtherEngines checks that random questions get the same answers as from a ledger with one row a key, with
// windows and without, even if records use derived ids as their own.
func TestLikeTheOtherEngines(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		pick := func(from ...string) string { return from[random.IntN(len(from))] }
		ids := []string{"a", "b", "c"}
		for range 4 {
			ids = append(ids, format.DerivedID(ids[random.IntN(len(ids))], pick("x", "y")))
		}
		ours, theirs := New(), memstore.NewRecords()
		retention := dedupe.Retention{Window: 10 * time.Second, Horizon: 3 * time.Second, ForGood: seed%2 == 0}
		for range 20 {
			q := dedupe.Question{Scope: pick("one", "two"), Retention: retention, KeepIDs: seed%3 == 0}
			for range random.IntN(12) {
				arrival := epoch.Add(time.Duration(random.IntN(60_000)) * time.Millisecond)
				c := candidate(pick(ids...), strconv.Itoa(random.IntN(40)), pick("x", "y", "z"), arrival)
				c.Poison = random.IntN(10) == 0
				q.Records = append(q.Records, c)
			}
			got, err := ours.Enter(t.Context(), q)
			want, wantErr := theirs.Enter(t.Context(), q)
			if err != nil || wantErr != nil || !slices.Equal(got, want) {
				t.Fatalf("seed %d: %+v\ngot  %+v, %v\nwant %+v, %v", seed, q.Records, got, err, want, wantErr)
			}
		}
	}
}

// TestManyKeys: each key finds its own entry while the table grows.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	const n = 20_000
	l := New()
	enter := func(i int, owner string) dedupe.Found {
		answers, err := l.Enter(t.Context(), dedupe.Question{
			Retention: dedupe.Retention{ForGood: true},
			Records:   []dedupe.Candidate{candidate(strconv.Itoa(i), owner, "x", epoch)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return answers[0].Found
	}
	for i := range n {
		if got := enter(i, "first"); got != dedupe.Put {
			t.Fatalf("%d: got %d for a new key", i, got)
		}
		old := i / 2
		if mine, same := enter(old, "first"), enter(old, "second"); mine != dedupe.Mine || same != dedupe.Same {
			t.Fatalf("%d: got %d and %d for the key %d", i, mine, same, old)
		}
	}
}

func TestEndedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := dedupe.Question{Records: []dedupe.Candidate{candidate("a", "1", "x", epoch)}}
	l := New()
	if _, err := l.Enter(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if answers, _ := l.Enter(t.Context(), q); answers[0].Found != dedupe.Put {
		t.Errorf("got %+v", answers)
	}
}

// TestMemory checks that an entry takes at most 64 bytes, even in a large table. It is not parallel, because it
// measures the heap.
func TestMemory(t *testing.T) {
	testengine.CheckOnly(t)
	const entries, most = 1_000_000, 64
	begin := heap()
	table := newTable()
	worst := 0.0
	for i := range entries {
		table.Set(format.KeyOf(strconv.Itoa(i)), dedupe.Existing{})
		if i < entries/20 || i%(entries/100) != 0 {
			continue
		}
		each := float64(heap()-begin) / float64(i+1)
		if worst = max(worst, each); each > most {
			t.Errorf("%d entries: %.1f bytes each", i+1, each)
		}
	}
	t.Logf("at most %.1f bytes an entry", worst)
	runtime.KeepAlive(table)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
