package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var decideCases = []testCase{
	{"records/outcomes", outcomes},
	{"records/in-batch", inBatch},
	{"records/redelivered-batch", redeliveredBatch},
	{"records/bisected-batch", bisectedBatch},
	{"records/two-invocations-at-once", twoInvocations},
	{"records/late-copy-inside-the-window", lateCopy},
	{"records/id-outlives-its-derived-ids", idOutlivesDerivedIDs},
	{"records/id-taken-by-another-meanwhile", idTakenMeanwhile},
	{"records/id-free-meanwhile", idFreeMeanwhile},
	{"records/synthetic-by-the-ledger", syntheticByLedger},
	{"records/fingerprint-settings-change", fingerprintSettingsChange},
	{"records/copies-beyond-the-purge-time-in-one-batch", copiesBeyondPurgeTime},
	{"records/derived-id-used-as-an-id", derivedIDUsed},
	{"records/third-derivation", thirdDerivation},
	{"records/no-id-left", noIDLeft},
	{"records/milliseconds", milliseconds},
	{"records/ledger-fails-for-a-key", ledgerFailsForKey},
	{"records/ledger-fails-before-a-derived-id", ledgerFailsBeforeDerived},
	{"records/ledger-failures-are-not-duplicates", ledgerFailures},
	{"records/ledger-cost", ledgerCost},
}

func outcomes(f *fixture) {
	b := f.bench()
	ay := format.DerivedID("a", "y")
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "b", "x")), dedupe.Tally{In: 2, New: 2, Out: 2})
	b.wantTally(b.done(rec(3, "a", "x")), dedupe.Tally{In: 1, Natural: 1})
	b.wantTally(b.done(rec(4, "a", "y")), dedupe.Tally{In: 1, Synthetic: 1, Out: 1})
	b.wantTally(b.done(rec(5, "a", "y")), dedupe.Tally{In: 1, Natural: 1})
	b.wantTally(b.done(rec(1, "a", "x"), rec(4, "a", "y")), dedupe.Tally{In: 2, Retry: 2, Out: 2})
	b.wantTally(b.done(), dedupe.Tally{})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 2}, delivery{ay, 4}, delivery{"a", 1}, delivery{ay, 4})
}

func inBatch(f *fixture) {
	b := f.bench()
	ay := format.DerivedID("a", "y")
	b.wantTally(b.done(
		rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "b", "x"), rec(4, "a", "y"), rec(5, "a", "y"), rec(6, "a", "x"), rec(7, "a", "z"),
	), dedupe.Tally{In: 7, New: 2, Natural: 3, Synthetic: 2, Out: 4})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 3}, delivery{ay, 4}, delivery{format.DerivedID("a", "z"), 7})
}

// redeliveredBatch: a whole batch comes again, as after a lost answer. No record is dropped, and all ids are unchanged.
func redeliveredBatch(f *fixture) {
	b := f.bench()
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "a", "y"), rec(3, "a", "x"), rec(4, "b", "x")}
	b.done(batch...)
	first := slices.Clone(b.sink.got)
	b.wantTally(b.done(batch...), dedupe.Tally{In: 4, Retry: 3, Natural: 1, Out: 3})
	b.wantDelivered(append(first, first...)...)
}

// bisectedBatch: a batch fails and comes again in parts that overlap.
func bisectedBatch(f *fixture) {
	b := f.bench()
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "a", "x"), rec(4, "c", "x")}
	b.hook = failBefore(dedupefault.Send, errCrash)
	b.fails(1, batch...)
	b.hook = nil
	b.wantTally(b.done(batch[2:]...), dedupe.Tally{In: 2, Natural: 1, Retry: 1, Out: 1})
	b.wantTally(b.done(batch[:2]...), dedupe.Tally{In: 2, Retry: 2, Out: 2})
	b.wantTally(b.done(batch[1:3]...), dedupe.Tally{In: 2, Retry: 1, Natural: 1, Out: 1})
	b.wantDelivered(delivery{"c", 4}, delivery{"a", 1}, delivery{"b", 2}, delivery{"b", 2})
}

// twoInvocations: two invocations get the same batch at the same time, and two others get copies of it on another
// shard. Of all copies of a record one is delivered, at most once by each invocation.
func twoInvocations(f *fixture) {
	b := f.bench()
	batch := func(first int) (records []dedupe.Record) {
		for i := range 40 {
			records = append(records, rec(first+i, fmt.Sprintf("id-%d", i%10), fmt.Sprintf("fp-%d", i%3)))
		}
		return records
	}
	p, err := dedupe.NewProcessor(
		dedupe.Parts{Ledger: b.store, Format: b.format, Sink: b.sink, DeadLetters: b.deadLetters}, b.settings)
	f.must(err)
	var wg sync.WaitGroup
	for shard, first := range map[string]int{"shardId-000000000000": 0, "shardId-000000000001": 100} {
		for range 2 {
			wg.Go(func() {
				if r := p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: batch(first)}); r.Failed != "" {
					f.Errorf("failed at %s: %v", r.Failed, r.Err)
				}
			})
		}
	}
	wg.Wait()
	times, ids, owner := map[int]int{}, map[int]string{}, map[string]int{}
	for _, d := range b.sink.got {
		if id, ok := ids[d.n]; ok && id != d.id {
			f.Errorf("record %d was delivered as %s and as %s", d.n, id, d.id)
		}
		if other, ok := owner[d.id]; ok && other != d.n {
			f.Errorf("records %d and %d were both delivered as %s", other, d.n, d.id)
		}
		ids[d.n], owner[d.id] = d.id, d.n
		if times[d.n]++; times[d.n] > 2 {
			f.Errorf("record %d was delivered %d times", d.n, times[d.n])
		}
	}
	if len(owner) != 30 { // 10 ids, each with three fingerprints
		f.Errorf("want 30 unique records delivered, got %d", len(owner))
	}
}

// lateCopy: a copy that arrived inside the window is processed as late as the horizon allows, after a TTL deletion.
func lateCopy(f *fixture) {
	b := f.bench()
	b.done(recAt(1, 0, "a", "x"))
	b.purge(window+horizon, "a")
	b.wantTally(b.done(recAt(2, window, "a", "x")), dedupe.Tally{In: 1, Natural: 1})
}

// idOutlivesDerivedIDs: a synthetic record arrives shortly before the purge time of the id's entry. A copy of the
// synthetic record must not find the id free.
func idOutlivesDerivedIDs(f *fixture) {
	b := f.bench()
	ay := format.DerivedID("a", "y")
	b.done(recAt(1, 0, "a", "x"))
	b.done(recAt(2, 105*time.Second, "a", "y"))
	b.purge(150*time.Second, "a", ay)
	b.wantTally(b.done(recAt(3, 150*time.Second, "a", "y")), dedupe.Tally{In: 1, Natural: 1})
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2})

	// With several derived ids the id's entry outlives the last one, whatever their order, and beside another id.
	for _, arrivals := range [][2]time.Duration{{5 * time.Second, 105 * time.Second}, {105 * time.Second, 5 * time.Second}} {
		b := f.bench()
		b.done(
			recAt(1, 0, "b", "x"), recAt(2, 0, "a", "x"), recAt(3, 0, "b", "y"),
			recAt(4, arrivals[0], "a", "z"), recAt(5, arrivals[1], "a", "y"),
		)
		b.purge(150*time.Second, "a", ay, format.DerivedID("a", "z"))
		b.wantTally(b.done(recAt(6, 150*time.Second, "a", "x")), dedupe.Tally{In: 1, Natural: 1})
	}
}

// beforeRaise calls happens just before a purge time is raised for the first time.
func beforeRaise(happens func(ctx context.Context)) dedupefault.Hook {
	var once sync.Once
	return func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.RaisePurge {
			once.Do(func() { happens(ctx) })
		}
		return c.Do(ctx)
	}
}

// idTakenMeanwhile: after a record has found the entry of its id, and before it raises the purge time, the entry is
// purged and a copy of the record takes the id.
func idTakenMeanwhile(f *fixture) {
	b := f.bench()
	b.done(recAt(1, 0, "a", "x"))
	b.hook = beforeRaise(func(ctx context.Context) {
		b.must(dedupefault.PurgeNow(ctx, b.store, b.settings.Scope, format.KeyOf("a")))
		taker := b.entry("a", "a copy", epoch.Add(112*time.Second))
		taker.Fingerprint = "y"
		if existing := b.put(taker); existing != nil {
			b.Errorf("the id was not free: %+v", existing)
		}
	})
	b.wantTally(b.done(recAt(3, 105*time.Second, "a", "y")), dedupe.Tally{In: 1, Natural: 1})
	b.wantDelivered(delivery{"a", 1})
}

// idFreeMeanwhile: the entry is purged and no record takes the id. The records that are decided again keep their order.
func idFreeMeanwhile(f *fixture) {
	b := f.bench()
	b.done(recAt(1, 0, "a", "x"))
	b.hook = beforeRaise(func(ctx context.Context) {
		b.must(dedupefault.PurgeNow(ctx, b.store, b.settings.Scope, format.KeyOf("a")))
	})
	b.done(recAt(3, 105*time.Second, "a", "y"), recAt(4, 115*time.Second, "a", "x"))
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 3}, delivery{format.DerivedID("a", "x"), 4})
}

// syntheticByLedger: the entry in the ledger says which record of a batch is synthetic, not the order in the batch.
func syntheticByLedger(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "y"))
	b.wantTally(b.done(rec(2, "a", "x"), rec(3, "a", "y")), dedupe.Tally{In: 2, Synthetic: 1, Natural: 1, Out: 1})
	b.wantDelivered(delivery{"a", 1}, delivery{format.DerivedID("a", "x"), 2})
}

// fingerprintSettingsChange: a record that has another fingerprint on its retry is still a retry. A copy with the new
// fingerprint is delivered under a new id, not dropped.
func fingerprintSettingsChange(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "old"))
	b.wantTally(b.done(rec(1, "a", "new")), dedupe.Tally{In: 1, Retry: 1, Out: 1})
	b.wantTally(b.done(rec(2, "a", "new")), dedupe.Tally{In: 1, Synthetic: 1, Out: 1})
}

// copiesBeyondPurgeTime: one batch spans more time than an entry lives.
func copiesBeyondPurgeTime(f *fixture) {
	b := f.bench()
	end := window + horizon
	b.wantTally(b.done(
		recAt(1, 0, "a", "x"), recAt(2, end, "a", "x"), recAt(3, end+time.Second, "a", "x"),
		recAt(4, end+2*time.Second, "a", "x"), recAt(5, end+3*time.Second, "a", "y"),
	), dedupe.Tally{In: 5, New: 2, Natural: 2, Synthetic: 1, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 3}, delivery{format.DerivedID("a", "y"), 5})
}

// derivedIDUsed: a producer's own id equals the id that is derived for another record of the batch. The first record
// gets it.
func derivedIDUsed(f *fixture) {
	ay := format.DerivedID("a", "y")
	b := f.bench()
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "y"), rec(3, ay, "y"), rec(4, ay, "q")),
		dedupe.Tally{In: 4, New: 1, Synthetic: 2, Natural: 1, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{format.DerivedID(ay, "q"), 4})

	b = f.bench()
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, ay, "q"), rec(3, "a", "y")), dedupe.Tally{In: 3, New: 2, Synthetic: 1, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{format.DerivedID(ay, "y"), 3})
}

// thirdDerivation: the third derived id is free. Records whose own ids equal the second and third derived id of an
// earlier record come after that record.
func thirdDerivation(f *fixture) {
	first := format.DerivedID("a", "y")
	second := format.DerivedID(first, "y")
	third := format.DerivedID(second, "y")
	b := f.bench()
	b.done(rec(1, "a", "x"), rec(2, first, "x"), rec(3, strings.ToUpper(second), "x"))
	b.sink.got = nil
	b.wantTally(b.done(rec(4, "a", "y"), rec(5, third, "y"), rec(6, strings.ToUpper(third), "z")),
		dedupe.Tally{In: 3, Synthetic: 2, Natural: 1, Out: 2})
	b.wantDelivered(delivery{third, 4}, delivery{format.DerivedID(third, "z"), 6})

	b = f.bench()
	b.done(rec(1, "a", "x"), rec(2, first, "x"))
	b.sink.got = nil
	b.wantTally(b.done(rec(4, "a", "y"), rec(5, second, "y")), dedupe.Tally{In: 2, Synthetic: 1, Natural: 1, Out: 1})
	b.wantDelivered(delivery{second, 4})
}

func noIDLeft(f *fixture) {
	b := f.bench()
	first := format.DerivedID("a", "y")
	second := format.DerivedID(first, "y")
	third := format.DerivedID(second, "y")
	b.done(rec(1, "a", "x"), rec(2, first, "x"), rec(3, second, "x"), rec(4, third, "x"))
	b.sink.got = nil
	b.wantTally(b.done(rec(5, "a", "y"), rec(6, "b", "x")), dedupe.Tally{In: 2, DeadLettered: 1, New: 1, Out: 1})
	b.wantDelivered(delivery{"b", 6})
	b.wantDeadLetters(5)
}

// milliseconds: arrivals are truncated to milliseconds, as engines store them. So the decisions in memory and in the
// engine agree on which entries are purged.
func milliseconds(f *fixture) {
	end := window + horizon
	for _, beyond := range []time.Duration{time.Microsecond, time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
		for _, together := range []bool{true, false} {
			b := f.bench()
			want := dedupe.Tally{In: 2, New: 2, Out: 2}
			if beyond < time.Millisecond {
				want = dedupe.Tally{In: 2, New: 1, Natural: 1, Out: 1}
			}
			first, second := recAt(1, 0, "a", "x"), recAt(2, end+beyond, "a", "x")
			if together {
				b.wantTally(b.done(first, second), want)
				continue
			}
			b.done(first)
			want.In, want.New, want.Out = 1, want.New-1, want.Out-1
			b.wantTally(b.done(second), want)
		}
	}
}

// losePuts loses the replies to some puts after their effect.
func losePuts(lost func(dedupe.Entry) bool) dedupefault.Hook {
	return func(ctx context.Context, c *dedupefault.Call) error {
		err := c.Do(ctx)
		for i := range c.Puts {
			if lost(c.Entries[i]) {
				c.Puts[i] = dedupe.PutResult{Err: dedupe.ErrTryAgain}
			}
		}
		return err
	}
}

// ledgerFailsForKey: the result names the lowest failed record, no record is sent from that one on, and no record of
// its key is taken for a duplicate.
func ledgerFailsForKey(f *fixture) {
	b := f.bench()
	b.hook = losePuts(func(e dedupe.Entry) bool { return e.Key == format.KeyOf("b") })
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"), rec(4, "b", "x")}
	b.wantTally(b.fails(2, batch...).Tally, dedupe.Tally{In: 4, New: 1, Failed: 3, Out: 1})
	b.wantDelivered(delivery{"a", 1})
	b.hook = nil
	b.wantTally(b.done(batch[1:]...), dedupe.Tally{In: 3, Retry: 2, Natural: 1, Out: 2})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 2}, delivery{"c", 3})
}

// ledgerFailsBeforeDerived: if a derived id may equal the id of a later record, a batch is decided in parts. After a
// failure in one part the next part must not take its keys.
func ledgerFailsBeforeDerived(f *fixture) {
	b := f.bench()
	down := true
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.PutIfAbsent && down {
			down = false
			return dedupe.ErrTryAgain
		}
		return c.Do(ctx)
	}
	ay := format.DerivedID("a", "y")
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "a", "y"), rec(3, ay, "q"), rec(4, "a", "x")}
	b.wantTally(b.done(batch...), dedupe.Tally{In: 4, New: 1, Synthetic: 2, Natural: 1, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{format.DerivedID(ay, "q"), 3})
}

// ledgerFailures: if a call or a single answer of the ledger fails, for puts or raises, the record fails, and so do
// later records of its key.
func ledgerFailures(f *fixture) {
	for what, hook := range map[string]dedupefault.Hook{
		"all puts":   failAfter(dedupefault.PutIfAbsent, dedupe.ErrTryAgain),
		"one put":    losePuts(func(dedupe.Entry) bool { return true }),
		"all raises": failAfter(dedupefault.RaisePurge, dedupe.ErrTryAgain),
		"one raise": func(ctx context.Context, c *dedupefault.Call) error {
			err := c.Do(ctx)
			for i := range c.Raised {
				c.Raised[i] = dedupe.RaiseResult{Raised: true, Err: dedupe.ErrTryAgain}
			}
			return err
		},
	} {
		b := f.bench()
		b.done(rec(1, "a", "x"))
		b.hook = hook
		d := b.decider(b.hookedStore())
		synthetic := dedupe.Candidate{ID: "a", Fingerprint: "y", Owner: ownerNamed("2"), Arrival: epoch}
		copied := synthetic
		copied.Owner = ownerNamed("3")
		for i, got := range d.Decide(b.ctx, []dedupe.Candidate{synthetic, copied}) {
			if got.Outcome != dedupe.Undecided || !errors.Is(got.Err, dedupe.ErrTryAgain) {
				f.Errorf("%s fail: record %d: want it undecided, got %+v", what, i, got)
			}
		}
		b.hook = nil
		b.wantTally(b.done(rec(2, "a", "y"), rec(3, "a", "y")), dedupe.Tally{In: 2, Synthetic: 1, Natural: 1, Out: 1})
	}
}

// ledgerCost: the ledger gets one put for each new key, however many copies are in the batch. Acks cost one read for a
// batch and one write for a chunk.
func ledgerCost(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "b", "x"), rec(4, "c", "x"), rec(5, "b", "x"))
	if b.puts != 3 || b.calls[dedupefault.PutIfAbsent] != 1 || b.calls[dedupefault.RaisePurge] != 0 {
		b.Errorf("want 3 puts in one call and no raise, got %d puts and calls %v", b.puts, b.calls)
	}
	if b.calls[dedupefault.ReadAcks] != 0 || b.calls[dedupefault.WriteAck] != 0 || b.calls[dedupefault.ClaimConsumer] != 0 {
		b.Errorf("want no calls for acks, got %v", b.calls)
	}

	b = f.withAcks()
	b.settings.Chunk = 2
	b.done(rec(11, "d", "x"), rec(12, "e", "x"), rec(13, "f", "x"), rec(14, "g", "x"), rec(15, "h", "x"))
	if b.puts != 5 || b.calls[dedupefault.ReadAcks] != 1 || b.calls[dedupefault.WriteAck] != 3 {
		b.Errorf("want 5 puts, one read of acks and 3 writes, got %d puts and calls %v", b.puts, b.calls)
	}
}
