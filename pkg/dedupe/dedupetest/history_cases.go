package dedupetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// historyCases are random: rapid shrinks what breaks a guarantee to the
// shortest history. The number of histories is rapid's flag -rapid.checks.
var historyCases = []testCase{
	{"histories/guarantees", guarantees},
	{"histories/one-by-one", oneByOne},
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
	outcome int // ends well, dies before the sink, dies after it
}

const (
	endsWell = iota
	diesBeforeSink
	diesAfterSink
)

// history draws events, and steps that process each of them within the
// horizon, at least once to a good end.
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
		s := step{at: at, shard: first.shard, outcome: rapid.IntRange(endsWell, diesAfterSink).Draw(t, "outcome")}
		for _, e := range events[first.n:] { // whatever of the shard is there and not too old
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

// guarantees plays random histories and checks G6 to G9 on what came out.
func guarantees(f *fixture) {
	rapid.Check(f.T, func(t *rapid.T) {
		events, steps := history(t)
		play := &fixture{T: f.T, Engine: f.Engine, ctx: f.ctx, scope: freshScope()}
		tracked := &tracked{Store: f.Store, rows: map[dedupe.Key]dedupe.Entry{}}
		b := play.bench()
		b.store = tracked
		ways := make(map[int][]sent)
		for _, s := range steps {
			tracked.sweep(t, b, s.at)
			b.sink.fault = func(outputs []dedupe.Output) (int, int, error) {
				for _, o := range outputs {
					d := deliveryOf(o)
					ways[d.n] = append(ways[d.n], sent{d.id, s.outcome != diesBeforeSink})
				}
				if s.outcome == endsWell {
					return len(outputs), len(outputs), nil
				}
				return 0, 0, errCrash
			}
			batch := make([]dedupe.Record, len(s.events))
			for i, n := range s.events {
				e := events[n]
				batch[i] = recAt(e.n, e.arrival, e.id, e.fp)
			}
			before := snapshot(ways)
			r := b.processIn(fmt.Sprintf("shardId-%012d", s.shard), batch)
			if r.Err != nil && s.outcome == endsWell {
				t.Fatalf("step %+v failed: %v", s, r.Err)
			}
			checkRetries(t, s, before, ways)
		}
		checkHistory(t, events, ways)
	})
}

func (b *bench) processIn(shard string, batch []dedupe.Record) dedupe.Result {
	p := dedupe.NewProcessor(b.store, b.newFormat(), b.sink, b.failures, b.settings)
	return p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: batch})
}

func snapshot(ways map[int][]sent) map[int]int {
	counts := map[int]int{}
	for n, w := range ways {
		counts[n] = len(w)
	}
	return counts
}

// checkRetries: G8. What was on its way once is on its way again each time,
// unless the invocation died.
func checkRetries(t *rapid.T, s step, before map[int]int, ways map[int][]sent) {
	if s.outcome != endsWell {
		return
	}
	for _, n := range s.events {
		if before[n] > 0 && len(ways[n]) == before[n] {
			t.Fatalf("G8: record %d was taken for a duplicate of itself in step %+v", n, s)
		}
	}
}

func checkHistory(t *rapid.T, events []event, ways map[int][]sent) {
	same := func(a, b event) bool { return format.KeyOf(a.id) == format.KeyOf(b.id) && a.fp == b.fp }
	delivered := func(n int) bool { return slices.ContainsFunc(ways[n], func(s sent) bool { return s.delivered }) }
	for _, e := range events {
		if !delivered(e.n) && !slices.ContainsFunc(events, func(o event) bool { return copies(e, o) && delivered(o.n) }) {
			t.Fatalf("G6: record %+v is lost", e)
		}
		for _, w := range ways[e.n] {
			if w.id != ways[e.n][0].id {
				t.Fatalf("G9: record %+v went out as %v", e, ways[e.n])
			}
		}
		for _, o := range events[e.n+1:] {
			if same(e, o) && delivered(e.n) && delivered(o.n) && (o.arrival-e.arrival).Abs() <= window {
				t.Fatalf("G7: %+v and its copy %+v were both delivered", e, o)
			}
		}
	}
}

// copies reports whether one event may stand for the other: they have the same
// fingerprint and the same id, or one has as its own id one that the other is
// given as a synthetic duplicate.
func copies(a, b event) bool {
	return a.fp == b.fp && (slices.Contains(names(a), format.KeyOf(b.id)) || slices.Contains(names(b), format.KeyOf(a.id)))
}

// names are the keys that a record may go by.
func names(e event) []dedupe.Key {
	keys, id := []dedupe.Key{format.KeyOf(e.id)}, e.id
	for range 3 {
		id = format.DerivedID(id, e.fp)
		keys = append(keys, format.KeyOf(id))
	}
	return keys
}

// tracked knows what the ledger holds, for the broom.
type tracked struct {
	dedupe.Store
	rows map[dedupe.Key]dedupe.Entry
}

func (s *tracked) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results, err := s.Store.PutIfAbsent(ctx, entries)
	for i := range results {
		if row := results[i].Existing; row != nil {
			s.rows[row.Key] = *row
		} else if results[i].Err == nil {
			s.rows[entries[i].Key] = entries[i]
		}
	}
	return results, err
}

// sweep deletes some of the entries whose time has passed, as TTL deletion
// does some day. What it knows of purge times may be too early by a raise, so it
// looks again before it deletes.
func (s *tracked) sweep(t *rapid.T, b *bench, now time.Duration) {
	for _, row := range sorted(s.rows) {
		if time.Unix(row.PurgeAt, 0).Before(epoch.Add(now)) && rapid.Bool().Draw(t, "swept") {
			probe := row
			probe.Owner, probe.Arrival = "probe", time.Unix(0, 0)
			results, err := s.Store.PutIfAbsent(b.ctx, []dedupe.Entry{probe})
			b.must(err)
			b.must(results[0].Err)
			if old := results[0].Existing; old != nil && !time.Unix(old.PurgeAt, 0).Before(epoch.Add(now)) {
				continue
			}
			b.must(b.Raw.DropEntry(b.ctx, b.scope, row.Key))
			delete(s.rows, row.Key)
		}
	}
}

func sorted(rows map[dedupe.Key]dedupe.Entry) []dedupe.Entry {
	var all []dedupe.Entry
	for _, row := range rows {
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b dedupe.Entry) int { return slices.Compare(a.Key[:], b.Key[:]) })
	return all
}

// oneByOne: deciding a batch gives what deciding its records one after the
// other gives, whatever keys they share.
func oneByOne(f *fixture) {
	ay := format.DerivedID("a", "y")
	ids := []string{"a", "b", ay, format.DerivedID(ay, "y"), format.DerivedID("b", "x")}
	rapid.Check(f.T, func(t *rapid.T) {
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
			got := together.Decide(f.ctx, batch)
			for i, c := range batch {
				if want := apart.Decide(f.ctx, []dedupe.Candidate{c})[0]; got[i] != want {
					t.Fatalf("record %d of %+v: want %+v, got %+v", i, batch, want, got[i])
				}
			}
		}
	})
}

func (f *fixture) decider() *dedupe.Decider {
	return &dedupe.Decider{
		Ledger: f.Store, Scope: freshScope(), Retention: dedupe.Retention{Window: window, Horizon: horizon},
	}
}
