package sqlitestore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// ofRun returns an entry of a run's record that is kept for ever.
func ofRun(id, run string) dedupe.Entry {
	e := entry(id, "1")
	e.Owner.Source, e.PurgeAt = "run/"+run+"/1", dedupe.Never
	return e
}

// begun begins a run and puts an entry for each id.
func (s *Store) begun(t *testing.T, run string, ids ...string) dedupe.Run {
	t.Helper()
	r := dedupe.Run{Digest: "digest of " + run, ID: run}
	check(t, s.SaveRun(t.Context(), "s", r))
	for _, id := range ids {
		if existing := s.put(t, ofRun(id, run)); existing != nil {
			t.Errorf("%s has an entry", id)
		}
	}
	return r
}

func (s *Store) finish(t *testing.T, r dedupe.Run) {
	t.Helper()
	r.Finished = true
	check(t, s.SaveRun(t.Context(), "s", r))
}

// history returns the runs as text: number, id, highest number at the end, and the run that replaced it.
func (s *Store) history(t *testing.T) string {
	t.Helper()
	runs, err := s.Runs(t.Context(), "s")
	check(t, err)
	var list []string
	for _, r := range runs {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d %s %d %s", r.Number, r.ID, r.Ended, r.ReplacedBy)))
	}
	return strings.Join(list, ", ")
}

func from(number int64) func([]PastRun) (int64, error) {
	return func([]PastRun) (int64, error) { return number, nil }
}

func TestRunsAreNumbered(t *testing.T) {
	s := newStore(t, inTemp(t))
	a := s.begun(t, "a")
	b := s.begun(t, "b")
	s.finish(t, a)
	s.finish(t, b)
	check(t, s.SaveRun(t.Context(), "other", dedupe.Run{Digest: "d", ID: "x", Finished: true}))
	again := s.begun(t, "c")
	again.Digest = a.Digest
	s.finish(t, again)
	if got, want := s.history(t), "1 a 2, 2 b 2, 3 c 3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, err := s.ReadRun(t.Context(), "s", a.Digest); err != nil || got.ID != "c" {
		t.Errorf("the latest run with the digest is %+v, %v", got, err)
	}
}

func TestReplaceRuns(t *testing.T) {
	s := newStore(t, inTemp(t))
	ctx := t.Context()
	s.finish(t, s.begun(t, "a", "1"))
	s.finish(t, s.begun(t, "b", "2"))
	c := s.begun(t, "c", "3")
	alive := s.ForRun("s", "c")
	check(t, s.ReplaceRuns(ctx, "s", dedupe.Run{Digest: "d", ID: "r"}, from(2)))
	if got, want := s.history(t), "1 a 1, 2 b 2 r, 3 c 0 r, 4 r 0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if run, err := s.ReadRun(ctx, "s", c.Digest); run != nil || err != nil {
		t.Errorf("a replaced run would be continued: %+v, %v", run, err)
	}
	if err := s.SaveRun(ctx, "s", c); !errors.Is(err, ErrReplaced) || !strings.Contains(err.Error(), "run c, by run r") {
		t.Errorf("a replaced run was saved: %v", err)
	}
	for id, what := range map[string]string{"4": "an entry to put", "1": "a purge time to raise"} {
		answers, err := alive.Enter(ctx, dedupe.Question{
			Scope: "s", Retention: dedupe.Retention{ForGood: true},
			Records: []dedupe.Candidate{{ID: id, Fingerprint: "other", Owner: owner("x"), Arrival: arrival}},
		})
		if err != nil || !errors.Is(answers[0].Err, ErrReplaced) {
			t.Errorf("a replaced run with %s was answered %+v, %v", what, answers, err)
		}
	}
	for id, there := range map[string]bool{"1": true, "2": false, "3": false, "4": false} {
		if existing := s.put(t, ofRun(id, "r")); (existing != nil) != there {
			t.Errorf("entry of %s: %+v, want one: %t", id, existing, there)
		}
	}
}

// TestReplaceRunsAfterImport: the entries of an import stay. Without an import in the history they are entries of
// somebody else.
func TestReplaceRunsAfterImport(t *testing.T) {
	s := newStore(t, inTemp(t))
	imported := entry("1", "1")
	imported.Owner, imported.PurgeAt = dedupe.Owner{Source: "import", Sequence: "0123", Sub: dedupe.Plain}, dedupe.Never
	s.put(t, imported)
	r := s.begun(t, "b", "2")
	r.About = "{}"
	s.finish(t, r)
	by := dedupe.Run{Digest: "d", ID: "r", About: "{}"}
	if err := s.ReplaceRuns(t.Context(), "s", by, from(1)); !errors.Is(err, ErrInexact) {
		t.Errorf("without an import: %v", err)
	}
	check(t, s.SaveRun(t.Context(), "s", dedupe.Run{Digest: "i", ID: "i", Finished: true}))
	check(t, s.ReplaceRuns(t.Context(), "s", by, from(1)))
	for id, there := range map[string]bool{"1": true, "2": false} {
		if existing := s.put(t, ofRun(id, "r")); (existing != nil) != there {
			t.Errorf("entry of %s: %+v, want one: %t", id, existing, there)
		}
	}
}

// TestReplaceRunsRefuses: after an error, nothing is changed.
func TestReplaceRunsRefuses(t *testing.T) {
	errNo := errors.New("no")
	stays := entry("9", "elsewhere")
	stays.PurgeAt = dedupe.Never
	ends := ofRun("9", "a")
	ends.PurgeAt = arrival.Add(time.Hour).Unix()
	for name, c := range map[string]struct {
		before func(s *Store) error
		choose func([]PastRun) (int64, error)
		want   error
		text   string
	}{
		"choose fails": {nil, func([]PastRun) (int64, error) { return 1, errNo }, errNo, "no"},
		"a foreign entry": {func(s *Store) error { s.put(t, stays); return nil }, from(1), ErrInexact,
			"the entry of elsewhere does not belong to a run"},
		"an unknown run": {func(s *Store) error { s.put(t, ofRun("9", "lost")); return nil }, from(1), ErrInexact,
			"the entry of run/lost/1/1"},
		"a window": {func(s *Store) error { s.put(t, ends); return nil }, from(1), ErrInexact, "the entry of run/a/1/1 ends"},
		"a stream": {func(s *Store) error {
			_, err := s.ClaimConsumer(t.Context(), "s", stream, "f")
			return err
		}, from(1), ErrInexact, "a function reads the stream a/r/n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, inTemp(t))
			s.finish(t, s.begun(t, "a", "1"))
			if c.before != nil {
				check(t, c.before(s))
			}
			err := s.ReplaceRuns(t.Context(), "s", dedupe.Run{Digest: "d", ID: "r"}, c.choose)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %q", err, c.text)
			}
			if got, want := s.history(t), "1 a 1"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if s.put(t, ofRun("1", "r")) == nil {
				t.Error("the entry was deleted")
			}
		})
	}
}

// BenchmarkReplaceRuns measures how long other writers wait.
func BenchmarkReplaceRuns(b *testing.B) {
	const entries, batch = 200_000, 1000
	for b.Loop() {
		b.StopTimer()
		s, err := Create(b.Context(), b.TempDir()+"/ledger.db")
		if err != nil {
			b.Fatal(err)
		}
		err = s.SaveRun(b.Context(), "s", dedupe.Run{ID: "a", Finished: true})
		for i := 0; i < entries && err == nil; i += batch {
			list := make([]dedupe.Entry, batch)
			for j := range list {
				list[j] = ofRun(fmt.Sprint(i+j), "a")
				list[j].Key = format.KeyOf(fmt.Sprint(i + j))
			}
			_, err = s.PutIfAbsent(b.Context(), list)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := s.ReplaceRuns(b.Context(), "s", dedupe.Run{ID: "r"}, from(1)); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		_ = s.Close()
		b.StartTimer()
	}
	b.ReportMetric(entries*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// TestClosedRunPutsNothing: the ledger of a closed run puts no entry.
func TestClosedRunPutsNothing(t *testing.T) {
	t.Parallel()
	s, err := OpenMemory(t.Context())
	check(t, err)
	defer func() { check(t, s.Close()) }()
	run := dedupe.Run{Digest: "d", ID: "a", OutputID: "o", Beat: 1}
	check(t, s.SaveRun(t.Context(), "s", run))
	if closed, err := s.CloseRun(t.Context(), "s", run); !closed || err != nil {
		t.Fatal(closed, err)
	}
	answers, err := s.ForRun("s", "a").Enter(t.Context(), dedupe.Question{
		Scope: "s", Retention: dedupe.Retention{ForGood: true}, Records: []dedupe.Candidate{{
			ID: "1", Fingerprint: "x", Owner: dedupe.Owner{Source: dedupe.RunSource("a", 1), Sequence: "1", Sub: dedupe.Plain},
		}},
	})
	if check(t, err); !errors.Is(answers[0].Err, ErrReplaced) {
		t.Errorf("closed: %v", answers[0].Err)
	}
	found, err := s.Find(t.Context(), "s", []dedupe.Key{format.KeyOf("1")})
	if check(t, err); found[0] != nil {
		t.Errorf("it put %+v", found[0])
	}
}
