package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// compactMutants are what a broken Compact would leave: SQL that runs after each call.
var compactMutants = map[string]string{
	"without-a-horizon":  `DELETE FROM horizon`,
	"lower-horizon":      `UPDATE horizon SET before = before - 60`,
	"deletes-what-lives": `DELETE FROM entry WHERE purge_at < 60 + (SELECT max(before) FROM horizon)`,
}

// TestCompact puts random entries into a ledger that is compacted, and into another one that is not. Both answer alike,
// except that the first one may answer Forgotten to an arrival before its horizon. Some entries are never deleted, as
// after a compaction that was stopped.
func TestCompact(t *testing.T) {
	t.Parallel()
	compactAndCompare(t, "")
}

// TestCompactMutants: TestCompact finds each mutant.
func TestCompactMutants(t *testing.T) {
	t.Parallel()
	for name, after := range compactMutants {
		t.Run(name, func(t *testing.T) {
			mutanttest.MustFail(t, func(tb testing.TB) { compactAndCompare(tb, after) })
		})
	}
}

func compactAndCompare(t testing.TB, mutant string) {
	ctx := context.Background()
	compacted, err := OpenMemory(ctx)
	check(t, err)
	compacted.levels = levels{recent: 20, largeCall: 1}
	whole, err := OpenMemory(ctx)
	check(t, err)
	defer func() { _, _ = compacted.Close(), whole.Close() }()
	check(t, compacted.exec(ctx, `CREATE TRIGGER stopped BEFORE DELETE ON entry WHEN OLD.rowid % 3 = 0
		BEGIN SELECT raise(IGNORE); END`))
	random := rand.New(rand.NewPCG(29, 8))
	var horizon time.Time
	forgotten, deleted := 0, int64(0)
	for i := range 3000 {
		if i%100 == 99 {
			before := arrival.Add(time.Duration(random.IntN(i)) * time.Second)
			n, err := compacted.Compact(ctx, "s", before)
			check(t, err)
			if mutant != "" {
				check(t, compacted.exec(ctx, mutant))
			}
			deleted += n
			if before = before.Truncate(time.Second); before.After(horizon) {
				horizon = before
			}
		}
		e := entry(fmt.Sprint(random.IntN(200)), fmt.Sprint(i))
		e.Fingerprint = fmt.Sprint(random.IntN(2))
		e.Arrival = arrival.Add(time.Duration(i-random.IntN(600)) * time.Second)
		if e.PurgeAt = dedupe.Never; random.IntN(50) > 0 {
			e.PurgeAt = dedupe.Retention{Window: 100 * time.Second}.PurgeAt(e.Arrival)
		}
		got, err := compacted.PutIfAbsent(ctx, []dedupe.Entry{e})
		check(t, err)
		if got[0].Forgotten && e.Arrival.Before(horizon) {
			forgotten++
			continue // it has changed nothing
		}
		want, err := whole.PutIfAbsent(ctx, []dedupe.Entry{e})
		check(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("put %d, horizon %s: %+v gives %+v, want %+v", i, horizon, e, got[0], want[0])
		}
		if old := got[0].Existing; old != nil && old.Content != e.Existing().Content {
			raise := []dedupe.RaiseRequest{{Scope: "s", Key: e.Key, Owner: old.Owner, PurgeAt: e.PurgeAt}}
			for _, s := range []*Store{compacted, whole} {
				results, err := s.RaisePurge(ctx, raise)
				if check(t, err); !results[0].Raised {
					t.Fatalf("put %d: the entry of another record was not raised", i)
				}
			}
		}
	}
	checkPlaces(t, compacted)
	if forgotten == 0 || deleted == 0 {
		t.Errorf("%d forgotten, %d deleted: nothing was tested", forgotten, deleted)
	}
}

// TestCompactMovesTheHorizonFirst: after a failure in the middle no entry is missing above the horizon, and the next
// call deletes the rest. The horizon does not move back.
func TestCompactMovesTheHorizonFirst(t *testing.T) {
	t.Parallel()
	s := newStore(t, inTemp(t))
	s.put(t, entry("old", "1"))
	forever := entry("forever", "1")
	forever.PurgeAt = dedupe.Never
	s.put(t, forever)
	other := entry("old", "1")
	other.Scope = "other"
	s.put(t, other)
	before := arrival.Add(2 * time.Hour)
	check(t, s.exec(t.Context(), `CREATE TRIGGER bad BEFORE DELETE ON entry BEGIN SELECT raise(ABORT, 'bad'); END`))
	if n, err := s.Compact(t.Context(), "s", before); n != 0 || err == nil {
		t.Fatalf("deleted %d, %v", n, err)
	}
	if horizon, err := s.Horizon(t.Context(), "s"); err != nil || !horizon.Equal(before.Truncate(time.Second)) {
		t.Errorf("horizon %s, %v", horizon, err)
	}
	check(t, s.exec(t.Context(), `DROP TRIGGER bad`))
	if n, err := s.CountPurged(t.Context(), "s", before); n != 1 || err != nil {
		t.Errorf("counted %d, %v", n, err)
	}
	if n, err := s.Compact(t.Context(), "s", before); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	check(t, s.RaiseHorizon(t.Context(), "s", arrival))
	if horizon, err := s.Horizon(t.Context(), "s"); err != nil || !horizon.Equal(before.Truncate(time.Second)) {
		t.Errorf("horizon %s, %v", horizon, err)
	}
	if n, err := s.Compact(t.Context(), "other", arrival); n != 0 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if horizon, err := s.Horizon(t.Context(), "other"); err != nil || !horizon.IsZero() {
		t.Errorf("nothing was deleted, and the horizon is %s, %v", horizon, err)
	}
	for _, e := range []dedupe.Entry{forever, other} {
		if existing := s.put(t, e); !holds(existing, e) {
			t.Errorf("%+v is gone", e)
		}
	}
}

// TestForgotten: what is too old for the ledger gets no entry, by any call.
func TestForgotten(t *testing.T) {
	t.Parallel()
	s := newStore(t, inTemp(t))
	ctx := t.Context()
	horizon := arrival.Add(time.Hour)
	check(t, s.RaiseHorizon(ctx, "s", horizon))
	at := func(id string, arrival time.Time, line int) dedupe.Candidate {
		return dedupe.Candidate{ID: id, Fingerprint: "f", Owner: owner(fmt.Sprint(line)), Arrival: arrival}
	}
	answers, err := s.Enter(ctx, dedupe.Question{Scope: "s", Retention: dedupe.Retention{Window: time.Hour}, Records: []dedupe.Candidate{
		at("a", arrival, 1), at("a", arrival, 2), at("a", horizon, 3), at("a", arrival, 4), at("b", arrival.Add(time.Second), 5),
	}})
	var got []dedupe.Found
	for _, a := range answers {
		got = append(got, a.Found)
	}
	want := []dedupe.Found{dedupe.Forgotten, dedupe.Forgotten, dedupe.Put, dedupe.Same, dedupe.Forgotten}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	_, err = s.Transact(ctx, dedupe.Transaction{Entry: entry("c", "1")}, func(context.Context, Tx) error {
		t.Error("the effect runs")
		return nil
	})
	if !errors.Is(err, dedupe.ErrForgotten) {
		t.Errorf("a transaction: %v", err)
	}
	explained, err := s.Explain(ctx, "s", at("c", arrival, 6))
	if err != nil || explained.Answer.Found != dedupe.Forgotten {
		t.Errorf("explained %+v, %v", explained, err)
	}
	found, err := s.Find(ctx, "s", []dedupe.Key{format.KeyOf("b"), format.KeyOf("c")})
	if check(t, err); found[0] != nil || found[1] != nil {
		t.Errorf("entered: %+v", found)
	}
}

// TestCompactAndRuns: a ledger with an open run is not compacted, and no run of a compacted scope is undone.
func TestCompactAndRuns(t *testing.T) {
	t.Parallel()
	s := newStore(t, inTemp(t))
	run := dedupe.Run{Digest: "d", ID: "a", OutputID: "o"}
	check(t, s.SaveRun(t.Context(), "s", run))
	s.put(t, entry("1", "1"))
	if n, err := s.Compact(t.Context(), "s", arrival.Add(2*time.Hour)); n != 0 || !errors.Is(err, ErrOpenRuns) {
		t.Errorf("deleted %d, %v", n, err)
	}
	if horizon, err := s.Horizon(t.Context(), "s"); err != nil || !horizon.IsZero() {
		t.Errorf("horizon %s, %v", horizon, err)
	}
	run.Beat++
	s.finish(t, run)
	if n, err := s.Compact(t.Context(), "s", arrival.Add(2*time.Hour)); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	err := s.ReplaceRuns(t.Context(), "s", dedupe.Run{Digest: "e", ID: "r"}, from(1))
	if !errors.Is(err, ErrInexact) || !strings.Contains(err.Error(), "ledger compact") {
		t.Errorf("undone: %v", err)
	}
}

// TestCompactedFileIsSmaller: Erase gives the room back.
func TestCompactedFileIsSmaller(t *testing.T) {
	t.Parallel()
	path := inTemp(t)
	s := newStore(t, path)
	entries := make([]dedupe.Entry, 2000)
	for i := range entries {
		entries[i] = entry(fmt.Sprint(i), fmt.Sprint(i))
	}
	_, err := s.PutIfAbsent(t.Context(), entries)
	check(t, err)
	check(t, s.Erase(t.Context()))
	full, err := os.Stat(path)
	check(t, err)
	if n, err := s.Compact(t.Context(), "s", arrival.Add(2*time.Hour)); n != int64(len(entries)) || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	check(t, s.Erase(t.Context()))
	if empty, err := os.Stat(path); err != nil || empty.Size() > full.Size()/2 {
		t.Errorf("%d of %d bytes, %v", empty.Size(), full.Size(), err)
	}
}
