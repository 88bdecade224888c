package dedupe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The random tests of time: arrivals, lags, windows and purge times. They run only a Processor or a Decider, which
// takes a fraction of a millisecond, so that they find broken rules of time soon. Package dedupefault runs the whole
// record function with faults, at 4 ms a history. The flag -rapid.checks sets the number of histories.

// TestHistories runs random histories and checks G6 to G9 on the delivered records.
func TestHistories(t *testing.T) {
	dedupefault.OnEngines(t, func(t *testing.T, e dedupefault.Engine) {
		t.Parallel()
		f := &fixture{TB: t, store: e.Open(t)}
		e.Randomly(t, 1, func(rt *rapid.T) {
			if err := histories.Draw(rt, "history").play(f); err != nil {
				rt.Fatal(err)
			}
		})
	})
}

// TestHistoriesFindMutants: random histories find the mutants that break rules of time and of owners.
func TestHistoriesFindMutants(t *testing.T) {
	for _, name := range []string{
		"purge-at-the-end-of-the-window", "no-raised-purge-time", "owner-made-from-the-batch", "owner-compared-after-the-fingerprint",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := mutanttest.Named(t, dedupefault.Mutants, name, func(m dedupefault.Mutant) string { return m.Name })
			f := &fixture{TB: t, store: dedupefault.Memory.Open(t), mutant: &m}
			search.First(t, 5000, func(seed int) error { return histories.Example(seed).play(f) })
		})
	}
}

// TestDeciderOneByOne: deciding a batch gives the same result as deciding its records one after the other, whatever
// keys they share.
func TestDeciderOneByOne(t *testing.T) {
	dedupefault.OnEngines(t, func(t *testing.T, e dedupefault.Engine) {
		t.Parallel()
		f := &fixture{TB: t, store: e.Open(t)}
		e.Randomly(t, 1, f.oneByOne)
	})
}

// history has some records, and steps that process each record within the horizon. At least one step of each record
// ends well.
type history struct {
	events []event
	steps  []step
}

// event is one record of a history.
type event struct {
	n       int
	id, fp  string
	arrival time.Duration // after the epoch
	shard   int
}

// step is one invocation at some time: records of a shard, in order.
type step struct {
	at      time.Duration
	shard   int
	events  []int
	outcome int    // endsWell, endsBeforeSink or endsAfterSink
	purged  []bool // for the entries whose purge time has passed, in turn: whether they are deleted before the step
}

const (
	endsWell = iota
	endsBeforeSink
	endsAfterSink
)

var histories = rapid.Custom(func(t *rapid.T) (h history) {
	ids := []string{"a", "b", format.DerivedID("a", "y"), strings.ToUpper(format.DerivedID("a", "y"))}
	latest := map[int]time.Duration{}
	for n := range rapid.IntRange(1, 8).Draw(t, "events") {
		shard := rapid.IntRange(0, 1).Draw(t, "shard")
		gap := rapid.IntRange(0, int(window/time.Second)*3/2).Draw(t, "gap")
		latest[shard] += time.Duration(gap)*time.Second + time.Duration(rapid.IntRange(0, 2).Draw(t, "ms"))*time.Millisecond
		h.events = append(h.events, event{
			n: n, shard: shard, arrival: latest[shard],
			id: rapid.SampledFrom(ids).Draw(t, "id"), fp: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "fp"),
		})
	}
	for range rapid.IntRange(0, 10).Draw(t, "steps") {
		first := h.events[rapid.IntRange(0, len(h.events)-1).Draw(t, "first")]
		s := step{at: first.arrival + lag(t), shard: first.shard, outcome: rapid.IntRange(endsWell, endsAfterSink).Draw(t, "outcome")}
		for _, e := range h.events[first.n:] { // records that are then in the shard and not too old
			if e.shard == s.shard && e.arrival <= s.at && s.at <= e.arrival+horizon {
				s.events = append(s.events, e.n)
			}
		}
		s.events = s.events[:rapid.IntRange(1, len(s.events)).Draw(t, "batch")]
		h.steps = append(h.steps, s)
	}
	for _, e := range h.events {
		if !slices.ContainsFunc(h.steps, func(s step) bool { return s.outcome == endsWell && slices.Contains(s.events, e.n) }) {
			h.steps = append(h.steps, step{at: e.arrival + lag(t), shard: e.shard, events: []int{e.n}})
		}
	}
	for i := range h.steps {
		h.steps[i].purged = rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(t, "purged")
	}
	slices.SortStableFunc(h.steps, func(a, b step) int { return int(a.at - b.at) })
	return h
})

func lag(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(0, int(horizon/time.Millisecond)).Draw(t, "lag")) * time.Millisecond
}

// sent is one time that a record was sent to the sink.
type sent struct {
	id        string
	delivered bool
}

// play runs the steps of a history. Its error is the first violation of a guarantee.
func (h history) play(f *fixture) error {
	b := f.bench()
	times := map[int][]sent{} // by record
	var keys []dedupe.Key
	for _, s := range h.steps {
		for i, key := range keys {
			if s.purged[i%len(s.purged)] {
				b.must(dedupefault.Purge(b.ctx, b.store, b.settings.Scope, key, epoch.Add(s.at)))
			}
		}
		b.hook = func(ctx context.Context, c *dedupefault.Call) error {
			for _, e := range c.Entries {
				if !slices.Contains(keys, e.Key) {
					keys = append(keys, e.Key)
				}
			}
			if c.Method != dedupefault.Send {
				return c.Do(ctx)
			}
			for _, o := range c.Outputs {
				d := deliveryOf(o)
				times[d.n] = append(times[d.n], sent{d.id, s.outcome != endsBeforeSink})
			}
			if s.outcome != endsWell {
				return errCrash
			}
			return c.Do(ctx)
		}
		if err := h.playStep(b, s, times); err != nil {
			return err
		}
	}
	return h.check(times)
}

// playStep runs one step, and checks G8: a record that was sent once is sent again each time, unless the invocation
// ends before that.
func (h history) playStep(b *bench, s step, times map[int][]sent) error {
	batch := dedupe.Batch{Stream: stream, Shard: fmt.Sprintf("shardId-%012d", s.shard)}
	before := map[int]int{}
	for _, n := range s.events {
		e := h.events[n]
		batch.Records = append(batch.Records, recAt(e.n, e.arrival, e.id, e.fp))
		before[n] = len(times[n])
	}
	r := b.processor().Process(b.ctx, batch)
	if s.outcome != endsWell {
		return nil
	}
	if r.Err != nil {
		return fmt.Errorf("step %+v failed: %w", s, r.Err)
	}
	for _, n := range s.events {
		if before[n] > 0 && len(times[n]) == before[n] {
			return fmt.Errorf("G8: record %d was taken for a duplicate of itself in step %+v", n, s)
		}
	}
	return nil
}

// check checks G6, G7 and G9.
func (h history) check(times map[int][]sent) error {
	same := func(a, b event) bool { return format.KeyOf(a.id) == format.KeyOf(b.id) && a.fp == b.fp }
	delivered := func(n int) bool { return slices.ContainsFunc(times[n], func(s sent) bool { return s.delivered }) }
	for _, e := range h.events {
		if !delivered(e.n) && !slices.ContainsFunc(h.events, func(o event) bool { return copies(e, o) && delivered(o.n) }) {
			return fmt.Errorf("G6: record %+v is lost", e)
		}
		for _, s := range times[e.n] {
			if s.id != times[e.n][0].id {
				return fmt.Errorf("G9: record %+v was sent as %v", e, times[e.n])
			}
		}
		for _, o := range h.events[e.n+1:] {
			if same(e, o) && delivered(e.n) && delivered(o.n) && (o.arrival-e.arrival).Abs() <= window {
				return fmt.Errorf("G7: %+v and its copy %+v were both delivered", e, o)
			}
		}
	}
	return nil
}

// copies reports whether one event may be dropped for the other: they have the same fingerprint, and the same id or ids
// of which one is derived from the other.
func copies(a, b event) bool {
	return a.fp == b.fp && (slices.Contains(names(a), format.KeyOf(b.id)) || slices.Contains(names(b), format.KeyOf(a.id)))
}

// names returns the keys under which a record may be entered in the ledger.
func names(e event) []dedupe.Key {
	keys, id := []dedupe.Key{format.KeyOf(e.id)}, e.id
	for range 3 {
		id = format.DerivedID(id, e.fp)
		keys = append(keys, format.KeyOf(id))
	}
	return keys
}

func (f *fixture) oneByOne(t *rapid.T) {
	ay := format.DerivedID("a", "y")
	ids := []string{"a", "b", ay, format.DerivedID(ay, "y"), format.DerivedID("b", "x")}
	together, apart := f.bench().decider(f.store), f.bench().decider(f.store)
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		var batch []dedupe.Candidate
		for range rapid.IntRange(1, 10).Draw(t, "records") {
			batch = append(batch, dedupe.Candidate{
				ID:          rapid.SampledFrom(ids).Draw(t, "id"),
				Fingerprint: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "fp"),
				Owner:       ownerNamed(fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "owner"))),
				Arrival:     epoch.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "arrival")) * time.Second),
			})
		}
		got := together.Decide(f.Context(), batch)
		for i, c := range batch {
			if want := apart.Decide(f.Context(), []dedupe.Candidate{c})[0]; got[i] != want {
				t.Fatalf("record %d of %+v: want %+v, got %+v", i, batch, want, got[i])
			}
		}
	}
}
