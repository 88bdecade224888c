package dedupetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// processorCases pin the life of a record, over the engine.
var processorCases = []testCase{
	{"records/outcomes", outcomes},
	{"records/in-batch", inBatch},
	{"records/redelivered-batch", redeliveredBatch},
	{"records/bisected-batch", bisectedBatch},
	{"records/crash-before-the-sink", crashBeforeSink},
	{"records/crash-after-the-sink", crashAfterSink},
	{"records/two-invocations-at-once", twoInvocations},
	{"records/late-copy-inside-the-window", lateCopy},
	{"records/name-outlives-its-derived-entries", nameOutlivesDerived},
	{"records/name-taken-by-another-meanwhile", nameTakenMeanwhile},
	{"records/name-gone-meanwhile", nameGoneMeanwhile},
	{"records/synthetic-is-the-ledger's-word", syntheticByLedger},
	{"records/settings-change", settingsChange},
	{"records/copies-beyond-the-purge-in-one-batch", copiesBeyondPurge},
	{"records/derived-id-used-as-an-id", derivedIDUsed},
	{"records/no-id-left", noIDLeft},
	{"records/poison", poison},
	{"records/poison-that-cannot-be-kept", poisonNotKept},
	{"records/poison-kept-in-part", poisonKeptInPart},
	{"records/too-large-for-the-sink", tooLarge},
	{"records/panic", panics},
	{"records/aggregates", aggregates},
	{"records/bad-outputs", badOutputs},
	{"records/whole-outputs", wholeOutputs},
	{"records/ledger-fails-for-a-key", ledgerFailsForKey},
	{"records/ledger-fails-before-a-derived-id", ledgerFailsBeforeDerived},
	{"records/ledger-failures-are-no-duplicates", ledgerFailures},
	{"records/sink-that-says-too-little", sinkSaysTooLittle},
	{"records/sink-fails-in-the-middle", sinkFails},
	{"records/chunks", chunks},
	{"records/checkpoint-skips", checkpointSkips},
	{"records/checkpoint-before-the-failure", checkpointBeforeFailure},
	{"records/checkpoint-that-cannot-be-written", checkpointNotWritten},
	{"records/checkpoint-of-another-consumer", checkpointOfAnother},
	{"records/checkpoint-taken-meanwhile", checkpointTakenMeanwhile},
	{"records/checkpoint-and-the-first-record", checkpointAndFirst},
	{"records/checkpoint-that-cannot-be-read", checkpointNotRead},
	{"records/milliseconds", milliseconds},
	{"records/third-derivation", thirdDerivation},
	{"records/default-chunk", defaultChunk},
	{"records/passed-unchanged", passedUnchanged},
	{"records/ledger-cost", ledgerCost},
}

func (b *bench) wantTally(got, want dedupe.Tally) {
	b.Helper()
	if got != want {
		b.Errorf("want tally %+v, got %+v", want, got)
	}
}

func outcomes(f *fixture) {
	b := f.bench()
	ax := format.DerivedID("a", "y")
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "b", "x")), dedupe.Tally{In: 2, New: 2, Out: 2})
	b.wantTally(b.done(rec(3, "a", "x")), dedupe.Tally{In: 1, Natural: 1})
	b.wantTally(b.done(rec(4, "a", "y")), dedupe.Tally{In: 1, Synthetic: 1, Out: 1})
	b.wantTally(b.done(rec(5, "a", "y")), dedupe.Tally{In: 1, Natural: 1})
	b.wantTally(b.done(rec(4, "a", "y"), rec(1, "a", "x")), dedupe.Tally{In: 2, Retry: 2, Out: 2})
	b.wantTally(b.done(), dedupe.Tally{})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 2}, delivery{ax, 4}, delivery{ax, 4}, delivery{"a", 1})
}

func inBatch(f *fixture) {
	b := f.bench()
	ay := format.DerivedID("a", "y")
	b.wantTally(b.done(
		rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "b", "x"), rec(4, "a", "y"), rec(5, "a", "y"), rec(6, "a", "x"), rec(7, "a", "z"),
	), dedupe.Tally{In: 7, New: 2, Natural: 3, Synthetic: 2, Out: 4})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 3}, delivery{ay, 4}, delivery{format.DerivedID("a", "z"), 7})
}

// redeliveredBatch: everything again, as the event source does after a lost
// answer. Nothing is dropped, and all ids are as before.
func redeliveredBatch(f *fixture) {
	b := f.bench()
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "a", "y"), rec(3, "a", "x"), rec(4, "b", "x")}
	b.done(batch...)
	first := slices.Clone(b.sink.got)
	b.wantTally(b.done(batch...), dedupe.Tally{In: 4, Retry: 3, Natural: 1, Out: 3})
	b.wantDelivered(append(first, first...)...)
}

// bisectedBatch: the batch fails, comes again in halves, and those overlap.
func bisectedBatch(f *fixture) {
	b := f.bench()
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "a", "x"), rec(4, "c", "x")}
	b.sink.fault = crashBefore
	b.stuck(1, batch...)
	b.sink.fault = nil
	b.wantTally(b.done(batch[2:]...), dedupe.Tally{In: 2, Natural: 1, Retry: 1, Out: 1})
	b.wantTally(b.done(batch[:2]...), dedupe.Tally{In: 2, Retry: 2, Out: 2})
	b.wantTally(b.done(batch[1:3]...), dedupe.Tally{In: 2, Retry: 1, Natural: 1, Out: 1})
	b.wantDelivered(delivery{"c", 4}, delivery{"a", 1}, delivery{"b", 2}, delivery{"b", 2})
}

// crashBeforeSink: the ledger knows the records and the sink does not.
func crashBeforeSink(f *fixture) {
	b := f.bench()
	b.sink.fault = crashBefore
	b.stuck(1, rec(1, "a", "x"), rec(2, "a", "y"))
	b.wantDelivered()
	b.sink.fault = nil
	b.done(rec(3, "a", "x"), rec(4, "a", "y")) // copies do not stand in
	b.wantDelivered()
	b.done(rec(1, "a", "x"), rec(2, "a", "y"))
	b.wantDelivered(delivery{"a", 1}, delivery{format.DerivedID("a", "y"), 2})
}

// crashAfterSink: what was delivered is delivered again, under the same ids,
// and counted as a retry.
func crashAfterSink(f *fixture) {
	b := f.bench()
	b.sink.fault = crashAfter
	b.stuck(1, rec(1, "a", "x"), rec(2, "a", "y"))
	b.sink.fault = nil
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "y")), dedupe.Tally{In: 2, Retry: 2, Out: 2})
	ay := format.DerivedID("a", "y")
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{"a", 1}, delivery{ay, 2})
}

// twoInvocations: the same batch twice at the same time, and its copies on
// another shard. Each unique record is delivered, by one record of its copies
// only, and by that at most once an invocation.
func twoInvocations(f *fixture) {
	b := f.bench()
	batch := func(first int) (records []dedupe.Record) {
		for i := range 40 {
			records = append(records, rec(first+i, fmt.Sprintf("id-%d", i%10), fmt.Sprintf("fp-%d", i%3)))
		}
		return records
	}
	var wg sync.WaitGroup
	for shard, first := range map[string]int{"shardId-000000000000": 0, "shardId-000000000001": 100} {
		for range 2 {
			wg.Go(func() {
				if r := b.processIn(shard, batch(first)); r.Failed != "" {
					f.Errorf("failed at %s: %v", r.Failed, r.Err)
				}
			})
		}
	}
	wg.Wait()
	times, ids, owner := map[int]int{}, map[int]string{}, map[string]int{}
	for _, d := range b.sink.got {
		if id, ok := ids[d.n]; ok && id != d.id {
			f.Errorf("record %d went out as %s and as %s", d.n, id, d.id)
		}
		if other, ok := owner[d.id]; ok && other != d.n {
			f.Errorf("records %d and %d both went out as %s", other, d.n, d.id)
		}
		ids[d.n], owner[d.id] = d.id, d.n
		if times[d.n]++; times[d.n] > 2 {
			f.Errorf("record %d went out %d times", d.n, times[d.n])
		}
	}
	if len(owner) != 30 { // 10 ids, each with three fingerprints
		f.Errorf("want 30 unique records delivered, got %d", len(owner))
	}
}

// lateCopy: a copy that arrived inside the window is processed as late as the
// horizon allows, after the broom has been.
func lateCopy(f *fixture) {
	b := f.bench()
	b.done(recAt(1, 0, "a", "x"))
	b.sweep(window+horizon, "a")
	b.wantTally(b.done(recAt(2, window, "a", "x")), dedupe.Tally{In: 1, Natural: 1})
}

// sweep deletes the entries of ids that may go at a time after the epoch.
func (b *bench) sweep(now time.Duration, ids ...string) {
	b.Helper()
	for _, id := range ids {
		// A put by nobody tells what is there; it is dropped again if it took place.
		probe := b.entry(id, "probe", epoch)
		probe.Arrival = time.Unix(0, 0)
		results, err := b.store.PutIfAbsent(b.ctx, []dedupe.Entry{probe})
		b.must(err)
		b.must(results[0].Err)
		old := results[0].Existing
		if old == nil || old.PurgeAt != dedupe.Never && time.Unix(old.PurgeAt, 0).Before(epoch.Add(now)) {
			b.must(b.Raw.DropEntry(b.ctx, b.scope, format.KeyOf(id)))
		}
	}
}

// nameOutlivesDerived: a synthetic record arrives shortly before the name's
// entry goes. A copy of it must not find the name free.
func nameOutlivesDerived(f *fixture) {
	b := f.bench()
	ay := format.DerivedID("a", "y")
	b.done(recAt(1, 0, "a", "x"))
	b.done(recAt(2, 105*time.Second, "a", "y"))
	b.sweep(150*time.Second, "a", ay)
	b.wantTally(b.done(recAt(3, 150*time.Second, "a", "y")), dedupe.Tally{In: 1, Natural: 1})
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2})

	// Of several derived entries the name outlives the last, whatever their order.
	early, late := recAt(2, 5*time.Second, "a", "z"), recAt(3, 105*time.Second, "a", "y")
	for _, synthetic := range [][]dedupe.Record{{early, late}, {late, early}} {
		b := f.bench()
		b.settings.Scope = freshScope()
		b.scoped().done(append([]dedupe.Record{recAt(1, 0, "a", "x")}, synthetic...)...)
		b.scoped().sweep(150*time.Second, "a", ay)
		b.wantTally(b.done(recAt(4, 150*time.Second, "a", "y")), dedupe.Tally{In: 1, Natural: 1})
	}
}

// scoped is the bench whose fixture has its scope.
func (b *bench) scoped() *bench {
	fixed := *b.fixture
	fixed.scope = b.settings.Scope
	b.fixture = &fixed
	return b
}

// nameTakenMeanwhile: between the look at the name's entry and its raise the
// entry was purged and taken by another record.
func nameTakenMeanwhile(f *fixture) {
	b := f.bench()
	b.done(recAt(1, 0, "a", "x"))
	meanwhile := &interrupted{hooked: hooked{Store: f.Store}, f: f, taken: true}
	b.store = meanwhile
	b.wantTally(b.done(recAt(3, 105*time.Second, "a", "y")), dedupe.Tally{In: 1, Natural: 1})
	b.wantDelivered(delivery{"a", 1})
}

// nameGoneMeanwhile: the entry was purged and is nobody's. The records that
// are decided again are so in their order.
func nameGoneMeanwhile(f *fixture) {
	b := f.bench()
	b.done(recAt(1, 0, "a", "x"))
	b.store = &interrupted{hooked: hooked{Store: f.Store}, f: f}
	b.done(recAt(3, 105*time.Second, "a", "y"), recAt(4, 115*time.Second, "a", "x"))
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 3}, delivery{format.DerivedID("a", "x"), 4})
}

func syntheticByLedger(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "y"))
	b.wantTally(b.done(rec(2, "a", "x"), rec(3, "a", "y")), dedupe.Tally{In: 2, Synthetic: 1, Natural: 1, Out: 1})
	b.wantDelivered(delivery{"a", 1}, delivery{format.DerivedID("a", "x"), 2})
}

// settingsChange: the record's fingerprint is another one on its retry. It is
// the record all the same; a copy with the new fingerprint is kept, not dropped.
func settingsChange(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "old"))
	b.wantTally(b.done(rec(1, "a", "new")), dedupe.Tally{In: 1, Retry: 1, Out: 1})
	b.wantTally(b.done(rec(2, "a", "new")), dedupe.Tally{In: 1, Synthetic: 1, Out: 1})
}

// copiesBeyondPurge: one batch spans more than an entry's life.
func copiesBeyondPurge(f *fixture) {
	b := f.bench()
	end := window + horizon
	b.wantTally(b.done(
		recAt(1, 0, "a", "x"), recAt(2, end, "a", "x"), recAt(3, end+time.Second, "a", "x"),
		recAt(4, end+2*time.Second, "a", "x"), recAt(5, end+3*time.Second, "a", "y"),
	), dedupe.Tally{In: 5, New: 2, Natural: 2, Synthetic: 1, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 3}, delivery{format.DerivedID("a", "y"), 5})
}

// derivedIDUsed: a producer uses as its own the id that a record before it in
// the batch is given. Who comes first has it.
func derivedIDUsed(f *fixture) {
	ay := format.DerivedID("a", "y")
	b := f.bench()
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "y"), rec(3, ay, "y"), rec(4, ay, "q")),
		dedupe.Tally{In: 4, New: 1, Synthetic: 2, Natural: 1, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{format.DerivedID(ay, "q"), 4})

	b = f.bench()
	b.settings.Scope = freshScope()
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, ay, "q"), rec(3, "a", "y")), dedupe.Tally{In: 3, New: 2, Synthetic: 1, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{format.DerivedID(ay, "y"), 3})
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
	b.wantKept(5)
}

// wantKept compares the records kept in the failure store, by number.
func (b *bench) wantKept(want ...int) {
	b.Helper()
	if len(b.failures.kept) != len(want) {
		b.Errorf("want records %v kept, got %d", want, len(b.failures.kept))
	}
	for _, n := range want {
		owner := dedupe.Position{Stream: stream, Shard: shard, Sequence: fmt.Sprint(n), Sub: dedupe.Plain}.String()
		kept, ok := b.failures.kept[owner]
		if !ok || kept.Reason == "" || len(kept.Data) == 0 || kept.Position.Sequence != fmt.Sprint(n) {
			b.Errorf("record %d is not kept whole: %+v", n, kept)
		}
	}
}

func raw(n int, data string) dedupe.Record {
	return dedupe.Record{Sequence: fmt.Sprint(n), PartitionKey: "pk", Arrival: epoch, Data: []byte(data)}
}

// poison blocks nothing, and is kept whole, each record alone.
func poison(f *fixture) {
	b := f.bench()
	broken := `{"id":"a"`
	b.wantTally(b.done(rec(1, "a", "x"), raw(2, broken), raw(3, `{"n":3}`), rec(4, "b", "x"), raw(5, ""), raw(6, `{"id":null}`)),
		dedupe.Tally{In: 6, New: 2, DeadLettered: 4, Out: 2})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 4})
	for _, kept := range b.failures.kept {
		if kept.Position.Sequence == "2" && string(kept.Data) != broken {
			b.Errorf("want the whole payload %q, got %q", broken, kept.Data)
		}
	}
	if len(b.failures.kept) != 4 {
		b.Errorf("want 4 records kept, got %d", len(b.failures.kept))
	}
}

// poisonNotKept: a record counts as kept only when the store said so. Until
// then it fails, and nothing after it is sent.
func poisonNotKept(f *fixture) {
	b := f.bench()
	b.failures.fault = func(dedupe.DeadLetter) error { return errCrash }
	batch := []dedupe.Record{rec(1, "a", "x"), raw(2, "?"), rec(3, "b", "x")}
	r := b.stuck(2, batch...)
	b.wantTally(r.Tally, dedupe.Tally{In: 3, New: 1, Failed: 2, Out: 1})
	b.wantDelivered(delivery{"a", 1})
	b.failures.fault = nil
	b.done(batch[1:]...)
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 3})
	b.wantKept(2)
}

// poisonKeptInPart: of several records those count as kept that the store names, from
// the first on.
func poisonKeptInPart(f *fixture) {
	b := f.bench()
	b.failures.fault = func(failure dedupe.DeadLetter) error {
		if failure.Position.Sequence == rec(4, "", "").Sequence {
			return errCrash
		}
		return nil
	}
	many := []dedupe.Record{rec(1, "m", "x"), raw(2, "?"), rec(3, "n", "x"), raw(4, "?"), raw(5, "?"), rec(6, "o", "x")}
	b.wantTally(b.stuck(4, many...).Tally, dedupe.Tally{In: 6, New: 2, DeadLettered: 1, Failed: 3, Out: 2})
	b.failures.fault = nil
	b.failures.hidden = 1 // and says nothing of an error
	b.stuck(5, many...)
	b.failures.hidden = 9
	b.stuck(2, many...)
	b.failures.hidden = 0
	b.done(many[1:]...)
	b.wantDelivered(delivery{"m", 1}, delivery{"n", 3}, delivery{"m", 1}, delivery{"n", 3}, delivery{"m", 1}, delivery{"n", 3}, delivery{"o", 6})
	b.wantKept(2, 4, 5)
}

func tooLarge(f *fixture) {
	b := f.bench()
	b.sink.limit = 40
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "b", "a fingerprint that makes it too large"), rec(3, "c", "x")),
		dedupe.Tally{In: 3, New: 2, DeadLettered: 1, Out: 2})
	b.wantKept(2)
}

// panicking panics on one payload.
type panicking struct{ dedupe.Format }

func (p panicking) Read(payload []byte) (format.Fields, error) {
	if string(payload) == "panic" {
		panic("a bug")
	}
	return p.Format.Read(payload)
}

func panics(f *fixture) {
	b := f.bench()
	b.format = panicking{b.format}
	b.wantTally(b.done(rec(1, "a", "x"), raw(2, "panic"), rec(3, "b", "x")), dedupe.Tally{In: 3, New: 2, DeadLettered: 1, Out: 2})
	b.wantKept(2)
}

// aggregate makes a KPL aggregate of payloads.
func (b *bench) aggregate(n int, payloads ...[]byte) dedupe.Record {
	b.Helper()
	var e kpl.Encoder
	for _, p := range payloads {
		e.Add(kpl.UserRecord{PartitionKey: []byte("own"), ExplicitHashKey: []byte("7"), Data: p})
	}
	return dedupe.Record{Sequence: fmt.Sprint(n), PartitionKey: "pk", Arrival: epoch, Data: e.Bytes()}
}

func aggregates(f *fixture) {
	b := f.bench()
	first := b.aggregate(1, payload(10, "a", "x"), payload(11, "b", "x"), payload(12, "a", "x"), []byte("?"))
	b.wantTally(b.done(first, rec(2, "b", "x"), rec(3, "c", "x")),
		dedupe.Tally{In: 6, New: 3, Natural: 2, DeadLettered: 1, Out: 3})
	b.wantTally(b.done(first), dedupe.Tally{In: 4, Retry: 2, Natural: 1, DeadLettered: 1, Out: 2})
	b.wantDelivered(delivery{"a", 10}, delivery{"b", 11}, delivery{"c", 3}, delivery{"a", 10}, delivery{"b", 11})
	for owner, kept := range b.failures.kept {
		if want := stream.String() + "/" + shard + "/1#3"; owner != want || kept.PartitionKey != "own" || kept.ExplicitHashKey != "7" {
			b.Errorf("want the fourth user record kept as %s with its own keys, got %s, %+v", want, owner, kept)
		}
	}

	broken := b.aggregate(4, payload(40, "d", "x"))
	broken.Data = resigned(broken.Data, 0xff)
	b.failures.kept = map[string]dedupe.DeadLetter{}
	b.wantTally(b.done(broken, rec(5, "e", "x")), dedupe.Tally{In: 2, New: 1, DeadLettered: 1, Out: 1})
	b.wantKept(4)
}

// ledgerFailsForKey: the lowest record that failed is named, nothing from it on
// is sent, and no record of the key is taken for a duplicate.
func ledgerFailsForKey(f *fixture) {
	b := f.bench()
	failing := &hooked{Store: f.Store, fault: func(e dedupe.Entry) error {
		if e.Key == format.KeyOf("b") {
			return dedupe.ErrTryAgain
		}
		return nil
	}}
	b.store = failing
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"), rec(4, "b", "x")}
	b.wantTally(b.stuck(2, batch...).Tally, dedupe.Tally{In: 4, New: 1, Failed: 3, Out: 1})
	b.wantDelivered(delivery{"a", 1})
	failing.fault = nil
	b.wantTally(b.done(batch[1:]...), dedupe.Tally{In: 3, Retry: 2, Natural: 1, Out: 2})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 2}, delivery{"c", 3})
}

// ledgerFailsBeforeDerived: records are decided in parts where one may be given the
// id of another. After a failure in one part the next must not take its keys.
func ledgerFailsBeforeDerived(f *fixture) {
	b := f.bench()
	down := true
	b.store = downOnce{f.Store, &down}
	ay := format.DerivedID("a", "y")
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "a", "y"), rec(3, ay, "q"), rec(4, "a", "x")}
	b.wantTally(b.stuck(1, batch...).Tally, dedupe.Tally{In: 4, Failed: 4})
	b.wantTally(b.done(batch...), dedupe.Tally{In: 4, New: 1, Synthetic: 2, Natural: 1, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{format.DerivedID(ay, "q"), 3})
}

// downOnce is a ledger whose first call fails.
type downOnce struct {
	dedupe.Store
	down *bool
}

func (d downOnce) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	if *d.down {
		*d.down = false
		return nil, dedupe.ErrTryAgain
	}
	return d.Store.PutIfAbsent(ctx, entries)
}

// ledgerFailures: whatever fails in the ledger, whole calls or single answers,
// of puts or of raises, the record fails, and later ones of its key too.
func ledgerFailures(f *fixture) {
	for what, failing := range map[string]*hooked{
		"all puts":   {putFail: dedupe.ErrTryAgain},
		"one put":    {fault: func(e dedupe.Entry) error { return dedupe.ErrTryAgain }},
		"all raises": {raiseFail: dedupe.ErrTryAgain},
		"one raise":  {raiseFault: dedupe.ErrTryAgain},
	} {
		b := f.bench()
		b.settings.Scope = freshScope()
		b.done(rec(1, "a", "x"))
		failing.Store = f.Store
		d := dedupe.Decider{Ledger: failing, Scope: b.settings.Scope, Retention: b.settings.Retention}
		synthetic := dedupe.Candidate{ID: "a", Fingerprint: "y", Owner: "2", Arrival: epoch}
		copied := synthetic
		copied.Owner = "3"
		for i, got := range d.Decide(f.ctx, []dedupe.Candidate{synthetic, copied}) {
			if got.Outcome != dedupe.Undecided || !errors.Is(got.Err, dedupe.ErrTryAgain) {
				f.Errorf("%s fail: record %d: want it undecided, got %+v", what, i, got)
			}
		}
		b.wantTally(b.done(rec(2, "a", "y"), rec(3, "a", "y")), dedupe.Tally{In: 2, Synthetic: 1, Natural: 1, Out: 1})
	}
}

// sinkSaysTooLittle: what a sink does not name as delivered is not.
func sinkSaysTooLittle(f *fixture) {
	b := f.bench()
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")}
	for _, test := range []struct{ answer, failed int }{{1, 2}, {-1, 1}} {
		b.sink.fault = func(o []dedupe.Output) (int, int, error) { return 0, test.answer, nil }
		b.stuck(test.failed, batch...)
	}
	b.sink.fault = func(o []dedupe.Output) (int, int, error) { return len(o), len(o), errCrash }
	b.stuck(3, batch...)
	b.sink.fault = nil
	b.wantTally(b.done(batch...), dedupe.Tally{In: 3, Retry: 3, Out: 3})
}

// renaming fails or panics where it should rename.
type renaming struct {
	dedupe.Format
	rename func() ([]byte, error)
}

func (r renaming) Rename([]byte, string, string) ([]byte, error) { return r.rename() }

// unreadable answers with an error that holds the record.
type unreadable struct{ dedupe.Format }

func (unreadable) Read(payload []byte) (format.Fields, error) {
	return format.Fields{}, errors.New("cannot read " + string(payload))
}

// badOutputs: what goes wrong after a record was decided is its own alone, and
// kept with a fixed reason.
func badOutputs(f *fixture) {
	for what, test := range map[string]struct {
		breaks func(*bench)
		reason string
	}{
		"rename refuses": {func(b *bench) {
			b.format = renaming{b.format, func() ([]byte, error) { return nil, &format.BadRecord{Reason: "no array"} }}
		}, "no array"},
		"rename panics": {func(b *bench) { b.format = renaming{b.format, func() ([]byte, error) { panic("a bug") }} }, "handling the record panicked"},
		"check refuses": {func(b *bench) {
			b.sink.check = func(o dedupe.Output) error {
				if o.ID != "b" {
					return &dedupe.PoisonError{Reason: "not this one"}
				}
				return nil
			}
		}, "not this one"},
		"unknown error": {func(b *bench) {
			good := b.format
			b.format = choosing{good, unreadable{good}}
		}, "it cannot be handled (*errors.errorString)"},
	} {
		b := f.bench()
		b.settings.Scope = freshScope()
		b.done(rec(1, "a", "x"))
		test.breaks(b)
		b.wantTally(b.done(rec(2, "a", "y"), rec(3, "b", "x")), dedupe.Tally{In: 2, DeadLettered: 1, New: 1, Out: 1})
		b.wantKept(2)
		for _, kept := range b.failures.kept {
			if kept.Reason != test.reason || !kept.Arrival.Equal(rec(2, "a", "y").Arrival) {
				f.Errorf("%s: want reason %q, got %+v", what, test.reason, kept)
			}
		}
	}
}

// choosing reads the id "a" with one format and the others with another.
type choosing struct {
	dedupe.Format
	ofA dedupe.Format
}

func (c choosing) Read(payload []byte) (format.Fields, error) {
	if fields, err := c.Format.Read(payload); err != nil || fields.ID != "a" {
		return fields, err
	}
	return c.ofA.Read(payload)
}

// wholeOutputs: what the sink gets besides the payload.
func wholeOutputs(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"), b.aggregate(2, payload(20, "b", "x")))
	want := []dedupe.Output{
		{ID: "a", PartitionKey: "pk", Data: payload(1, "a", "x")},
		{ID: "b", PartitionKey: "own", ExplicitHashKey: "7", Data: payload(20, "b", "x")},
	}
	if !slices.EqualFunc(b.sink.outputs, want, func(a, b dedupe.Output) bool {
		return a.ID == b.ID && a.PartitionKey == b.PartitionKey && a.ExplicitHashKey == b.ExplicitHashKey && string(a.Data) == string(b.Data)
	}) {
		f.Errorf("want outputs %+v, got %+v", want, b.sink.outputs)
	}
	probe := f.entry("a", "probe", epoch)
	if old := f.put(probe); old == nil || old.Version == "" || !old.Arrival.Equal(rec(1, "", "").Arrival) {
		f.Errorf("want an entry with version and arrival, got %+v", old)
	}
}

func sinkFails(f *fixture) {
	b := f.bench()
	b.sink.fault = func([]dedupe.Output) (int, int, error) { return 2, 1, errCrash } // the second one got through too
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "b", "x"), rec(4, "c", "x")}
	b.wantTally(b.stuck(3, batch...).Tally, dedupe.Tally{In: 4, New: 1, Natural: 1, Failed: 2, Out: 1})
	b.sink.fault = nil
	b.wantTally(b.done(batch[2:]...), dedupe.Tally{In: 2, Retry: 2, Out: 2})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 3}, delivery{"b", 3}, delivery{"c", 4})
}

// chunks: whatever their size, the result is the same.
func chunks(f *fixture) {
	ay := format.DerivedID("a", "y")
	for _, size := range []int{1, 2, 3, 500} {
		b := f.bench()
		b.settings.Scope, b.settings.Chunk = freshScope(), size
		aggregated := b.aggregate(3, payload(30, "a", "x"), payload(31, "c", "x"), payload(32, "a", "y"))
		b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "y"), aggregated, rec(4, "b", "x"), rec(5, "c", "x")),
			dedupe.Tally{In: 7, New: 3, Natural: 3, Synthetic: 1, Out: 4})
		b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{"c", 31}, delivery{"b", 4})
	}
}

func (f *fixture) checkpointed() *bench {
	b := f.bench()
	b.settings.Checkpoints, b.settings.Consumer = f.Store, "me"
	return b
}

// checkpointSkips: what is done costs neither the ledger nor the sink anything.
func checkpointSkips(f *fixture) {
	b := f.checkpointed()
	counted := &hooked{Store: f.Store}
	b.store = counted
	b.done(rec(8, "a", "x"), rec(9, "b", "x"), rec(10, "c", "x"))
	counted.puts = 0
	b.wantTally(b.done(rec(9, "b", "x"), rec(10, "c", "x"), rec(11, "d", "x"), rec(100, "e", "x")),
		dedupe.Tally{In: 4, Skipped: 2, New: 2, Out: 2})
	if counted.puts != 2 {
		b.Errorf("want 2 entries put, got %d", counted.puts)
	}
	b.wantTally(b.done(rec(11, "d", "x")), dedupe.Tally{In: 1, Skipped: 1})
}

func checkpointBeforeFailure(f *fixture) {
	b := f.checkpointed()
	b.settings.Chunk = 2
	b.sink.fault = func(o []dedupe.Output) (int, int, error) {
		if deliveryOf(o[0]).n < 3 {
			return len(o), len(o), nil
		}
		return 1, 1, errCrash
	}
	b.stuck(4, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"), rec(4, "d", "x"))
	b.wantCheckpoint(b.checkpointKey(), "3")
	b.sink.fault = nil
	b.wantTally(b.done(rec(3, "c", "x"), rec(4, "d", "x")), dedupe.Tally{In: 2, Skipped: 1, Retry: 1, Out: 1})
	b.stuckInAggregate()
}

// stuckInAggregate: the checkpoint stays before an aggregate of which a part
// failed.
func (b *bench) stuckInAggregate() {
	b.Helper()
	b.settings.Chunk = 0
	b.sink.fault = func(o []dedupe.Output) (int, int, error) { return 2, 2, errCrash }
	b.stuck(6, rec(5, "e", "x"), b.aggregate(6, payload(60, "f", "x"), payload(61, "g", "x")))
	b.wantCheckpoint(b.checkpointKey(), "5")
}

func checkpointNotWritten(f *fixture) {
	b := f.checkpointed()
	failing := &hooked{Store: f.Store, moveFail: dedupe.ErrTryAgain}
	b.settings.Checkpoints = failing
	b.done(rec(1, "a", "x"))
	failing.moveFail = nil
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, Retry: 1, Out: 1})
	b.wantCheckpoint(b.checkpointKey(), "1")
}

// checkpointOfAnother: two consumers of one scope and stream would skip each
// other's records. The batch fails, and none is skipped.
func checkpointOfAnother(f *fixture) {
	b := f.checkpointed()
	b.done(rec(1, "a", "x"))
	b.settings.Consumer = "you"
	if r := b.stuck(1, rec(1, "a", "x"), rec(2, "b", "x")); !errors.Is(r.Err, dedupe.ErrOtherConsumer) {
		b.Errorf("want %v, got %v", dedupe.ErrOtherConsumer, r.Err)
	}
	b.wantDelivered(delivery{"a", 1})
}

// checkpointTakenMeanwhile: between the read and the write another consumer
// has made the row its own.
func checkpointTakenMeanwhile(f *fixture) {
	b := f.checkpointed()
	b.settings.Checkpoints = &hooked{Store: f.Store, moveFail: dedupe.ErrOtherConsumer}
	r := b.stuck(1, rec(1, "a", "x"), rec(2, "b", "x"))
	if !errors.Is(r.Err, dedupe.ErrOtherConsumer) {
		b.Errorf("want %v, got %v", dedupe.ErrOtherConsumer, r.Err)
	}
	b.wantTally(r.Tally, dedupe.Tally{In: 2, Failed: 2, Out: 2})
}

// checkpointAndFirst: where the first record of a chunk fails, nothing moves;
// what was not opened counts as failed too.
func checkpointAndFirst(f *fixture) {
	b := f.checkpointed()
	b.settings.Chunk = 2
	b.sink.fault = crashBefore
	b.wantTally(b.stuck(1, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")).Tally, dedupe.Tally{In: 3, Failed: 3})
	b.wantCheckpoint(b.checkpointKey(), "")
	b.sink.fault = func(o []dedupe.Output) (int, int, error) {
		if deliveryOf(o[0]).n < 3 {
			return len(o), len(o), nil
		}
		return 0, 0, errCrash
	}
	b.wantTally(b.stuck(3, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")).Tally, dedupe.Tally{In: 3, Retry: 2, Failed: 1, Out: 2})
	b.wantCheckpoint(b.checkpointKey(), "2")
}

func checkpointNotRead(f *fixture) {
	b := f.checkpointed()
	b.settings.Checkpoints = &hooked{Store: f.Store, readFail: dedupe.ErrTryAgain}
	b.wantTally(b.stuck(1, rec(1, "a", "x"), rec(2, "b", "x")).Tally, dedupe.Tally{In: 2, Failed: 2})
	b.wantDelivered()
}

// milliseconds: arrivals finer than engines keep are cut, so that memory and
// store agree on what is purged.
func milliseconds(f *fixture) {
	end := window + horizon
	for _, beyond := range []time.Duration{time.Microsecond, time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
		for _, together := range []bool{true, false} {
			b := f.bench()
			b.settings.Scope = freshScope()
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

// thirdDerivation: the third derived id is free, and own ids that equal the
// second and third derived id of an earlier record come after it.
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
	b.settings.Scope = freshScope()
	b.done(rec(1, "a", "x"), rec(2, first, "x"))
	b.sink.got = nil
	b.wantTally(b.done(rec(4, "a", "y"), rec(5, second, "y")), dedupe.Tally{In: 2, Synthetic: 1, Natural: 1, Out: 1})
	b.wantDelivered(delivery{second, 4})
}

// defaultChunk: a large batch is decided and sent in parts.
func defaultChunk(f *fixture) {
	b := f.bench()
	var largest int
	b.sink.fault = func(o []dedupe.Output) (int, int, error) {
		largest = max(largest, len(o))
		return len(o), len(o), nil
	}
	var batch []dedupe.Record
	for n := range 2*dedupe.DefaultChunk + 1 {
		batch = append(batch, rec(n, fmt.Sprint("id-", n), "x"))
	}
	b.done(batch...)
	if largest != dedupe.DefaultChunk {
		f.Errorf("want chunks of %d, got one of %d", dedupe.DefaultChunk, largest)
	}
}

func passedUnchanged(f *fixture) {
	b := f.bench()
	b.settings.PassNatural = true
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "a", "y"), rec(4, "a", "y")),
		dedupe.Tally{In: 4, New: 1, Natural: 2, Synthetic: 1, Out: 4})
	ay := format.DerivedID("a", "y")
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 2}, delivery{ay, 3}, delivery{"a", 4})

	b = f.bench()
	b.settings.Scope, b.settings.PassSynthetic = freshScope(), true
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "a", "y"), rec(4, "a", "y")),
		dedupe.Tally{In: 4, New: 1, Natural: 1, Synthetic: 2, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 3}, delivery{"a", 4})
}

// ledgerCost: one put a new key, whatever copies are in the batch.
func ledgerCost(f *fixture) {
	b := f.bench()
	counted := &hooked{Store: f.Store}
	b.store = counted
	b.done(rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "b", "x"), rec(4, "c", "x"), rec(5, "b", "x"))
	if counted.puts != 3 || counted.calls != 1 || counted.raises != 0 {
		b.Errorf("want 3 puts in one call, got %d in %d and %d raises", counted.puts, counted.calls, counted.raises)
	}

	// With the checkpoint one read a batch and one write a chunk more.
	b = f.checkpointed()
	counted = &hooked{Store: f.Store}
	b.store, b.settings.Checkpoints, b.settings.Chunk = counted, counted, 2
	b.done(rec(11, "d", "x"), rec(12, "e", "x"), rec(13, "f", "x"), rec(14, "g", "x"), rec(15, "h", "x"))
	if counted.puts != 5 || counted.reads != 1 || counted.moves != 3 {
		b.Errorf("want 5 puts, one read and 3 writes of the checkpoint, got %d, %d and %d", counted.puts, counted.reads, counted.moves)
	}
}
