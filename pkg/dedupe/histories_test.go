package dedupe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The random tests of time: arrivals, lags, windows and purge times. They run a Processor or a Decider alone, which takes a
// fraction of a millisecond, and so find rules of time that are broken soon. Package dedupefault plays the whole record
// function with faults, at 4 ms a history. The number of histories is rapid's flag -rapid.checks.

// TestHistories plays random histories and checks G6 to G9 on what was delivered.
func TestHistories(t *testing.T) {
	dedupefault.OnEngines(t, func(t *testing.T, e dedupefault.Engine) {
		t.Parallel()
		f := &fixture{TB: t, store: e.Open(t)}
		e.Randomly(t, 1, func(rt *rapid.T) {
			events, steps := history(rt)
			checkHistory(rt, events, f.play(rt, events, steps))
		})
	})
}

// TestDeciderOneByOne: deciding a batch gives what deciding its records one after the other gives, whatever keys they share.
func TestDeciderOneByOne(t *testing.T) {
	dedupefault.OnEngines(t, func(t *testing.T, e dedupefault.Engine) {
		t.Parallel()
		f := &fixture{TB: t, store: e.Open(t)}
		e.Randomly(t, 1, f.oneByOne)
	})
}

// event is one record of a history.
type event struct {
	n       int
	id, fp  string
	arrival time.Duration // after the epoch
	shard   int
}

// step is one invocation: some records of a shard, in order, at a time.
type step struct {
	at      time.Duration
	shard   int
	events  []int
	outcome int // endsWell, endsBeforeSink or endsAfterSink
}

const (
	endsWell = iota
	endsBeforeSink
	endsAfterSink
)

// history draws events, and steps that process each of them within the horizon. At least one step of each ends well.
func history(t *rapid.T) (events []event, steps []step) {
	ids := []string{"a", "b", format.DerivedID("a", "y"), strings.ToUpper(format.DerivedID("a", "y"))}
	latest := map[int]time.Duration{}
	for n := range rapid.IntRange(1, 8).Draw(t, "events") {
		shard := rapid.IntRange(0, 1).Draw(t, "shard")
		gap := rapid.IntRange(0, int(window/time.Second)*3/2).Draw(t, "gap")
		latest[shard] += time.Duration(gap)*time.Second + time.Duration(rapid.IntRange(0, 2).Draw(t, "ms"))*time.Millisecond
		events = append(events, event{
			n: n, shard: shard, arrival: latest[shard],
			id: rapid.SampledFrom(ids).Draw(t, "id"), fp: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "fp"),
		})
	}
	for range rapid.IntRange(0, 10).Draw(t, "steps") {
		first := events[rapid.IntRange(0, len(events)-1).Draw(t, "first")]
		at := first.arrival + lag(t)
		s := step{at: at, shard: first.shard, outcome: rapid.IntRange(endsWell, endsAfterSink).Draw(t, "outcome")}
		for _, e := range events[first.n:] { // what is in the shard then, and not too old
			if e.shard == s.shard && e.arrival <= at && at <= e.arrival+horizon {
				s.events = append(s.events, e.n)
			}
		}
		s.events = s.events[:rapid.IntRange(1, len(s.events)).Draw(t, "batch")]
		steps = append(steps, s)
	}
	for _, e := range events {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.outcome == endsWell && slices.Contains(s.events, e.n) }) {
			steps = append(steps, step{at: e.arrival + lag(t), shard: e.shard, events: []int{e.n}})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	return events, steps
}

func lag(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(0, int(horizon/time.Millisecond)).Draw(t, "lag")) * time.Millisecond
}

// sent is one time that a record was on its way to the sink.
type sent struct {
	id        string
	delivered bool
}

// play processes the steps of a history. It returns, for each event, each time that it was sent.
func (f *fixture) play(t *rapid.T, events []event, steps []step) map[int][]sent {
	b := f.bench()
	times := map[int][]sent{}
	keys := map[dedupe.Key]bool{}
	for _, s := range steps {
		b.purgeSome(t, keys, s.at)
		b.hook = func(ctx context.Context, c *dedupefault.Call) error {
			for _, e := range c.Entries {
				keys[e.Key] = true
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
		batch := dedupe.Batch{Stream: stream, Shard: fmt.Sprintf("shardId-%012d", s.shard)}
		before := map[int]int{}
		for _, n := range s.events {
			e := events[n]
			batch.Records = append(batch.Records, recAt(e.n, e.arrival, e.id, e.fp))
			before[n] = len(times[n])
		}
		r := b.processor().Process(b.ctx, batch)
		if r.Err != nil && s.outcome == endsWell {
			t.Fatalf("step %+v failed: %v", s, r.Err)
		}
		checkRetries(t, s, before, times)
	}
	return times
}

// purgeSome deletes some of the entries whose purge time has passed, as TTL deletion does some day.
func (b *bench) purgeSome(t *rapid.T, keys map[dedupe.Key]bool, now time.Duration) {
	all := make([]dedupe.Key, 0, len(keys))
	for key := range keys {
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b dedupe.Key) int { return slices.Compare(a[:], b[:]) })
	for _, key := range all {
		if rapid.Bool().Draw(t, "purged") {
			b.must(dedupefault.Purge(b.ctx, b.store, b.settings.Scope, key, epoch.Add(now)))
		}
	}
}

// checkRetries checks G8: a record that was sent once is sent again each time, unless the invocation ends before.
func checkRetries(t *rapid.T, s step, before map[int]int, times map[int][]sent) {
	if s.outcome != endsWell {
		return
	}
	for _, n := range s.events {
		if before[n] > 0 && len(times[n]) == before[n] {
			t.Fatalf("G8: record %d was taken for a duplicate of itself in step %+v", n, s)
		}
	}
}

// checkHistory checks G6, G7 and G9.
func checkHistory(t *rapid.T, events []event, times map[int][]sent) {
	same := func(a, b event) bool { return format.KeyOf(a.id) == format.KeyOf(b.id) && a.fp == b.fp }
	delivered := func(n int) bool { return slices.ContainsFunc(times[n], func(s sent) bool { return s.delivered }) }
	for _, e := range events {
		if !delivered(e.n) && !slices.ContainsFunc(events, func(o event) bool { return copies(e, o) && delivered(o.n) }) {
			t.Fatalf("G6: record %+v is lost", e)
		}
		for _, s := range times[e.n] {
			if s.id != times[e.n][0].id {
				t.Fatalf("G9: record %+v was sent as %v", e, times[e.n])
			}
		}
		for _, o := range events[e.n+1:] {
			if same(e, o) && delivered(e.n) && delivered(o.n) && (o.arrival-e.arrival).Abs() <= window {
				t.Fatalf("G7: %+v and its copy %+v were both delivered", e, o)
			}
		}
	}
}

// copies reports whether one event may stand for the other: they have the same fingerprint, and the same id or ids of which
// one is derived from the other.
func copies(a, b event) bool {
	return a.fp == b.fp && (slices.Contains(names(a), format.KeyOf(b.id)) || slices.Contains(names(b), format.KeyOf(a.id)))
}

// names are the keys under which a record may be entered in the ledger.
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
	together, apart := f.decider(), f.decider()
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		var batch []dedupe.Candidate
		for range rapid.IntRange(1, 10).Draw(t, "records") {
			batch = append(batch, dedupe.Candidate{
				ID:          rapid.SampledFrom(ids).Draw(t, "id"),
				Fingerprint: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "fp"),
				Owner:       fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "owner")),
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

// decider makes a Decider in a scope of its own.
func (f *fixture) decider() *dedupe.Decider {
	b := f.bench()
	return &dedupe.Decider{Ledger: b.store, Scope: b.settings.Scope, Retention: b.settings.Retention}
}
