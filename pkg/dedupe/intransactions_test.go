package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var txCases = []testCase{
	{"tx/once", txOnce},
	{"tx/finishes-entries-of-a-stream-sink", txFinishes},
	{"tx/refused-effects", txRefused},
	{"tx/nearly-all-effects-refused", txWrongSetting},
	{"tx/busy-store", txBusy},
	{"tx/failed-record", txFailed},
	{"tx/not-tried-says-nothing-about-settings", txNotTried},
	{"tx/effect-that-ends-its-goroutine", txEnds},
	{"tx/effect-that-panics", txPanics},
	{"tx/raised-purge-time", txRaised},
	{"tx/fingerprint-settings-changed-before-the-finish", txFinishedOld},
	{"tx/ids-derived-for-others", txDerived},
	{"tx/purged-within-a-batch", txPurged},
	{"tx/lost-reply-of-a-finish", txLostFinish},
}

// withTx gives the bench a TxSink with its entries in memory. Its effects are deliveries of the bench's sink.
func (b *bench) withTx(effect func(dedupe.Output) error) *bench {
	records, inMemory := b.store.(*memstore.Records)
	if !inMemory {
		b.Skip("the entries of a TxSink in memory are in memory")
	}
	b.tx = memstore.NewEffects(records, func(_ context.Context, o dedupe.Output) (bool, error) {
		if err := effect(o); err != nil {
			return false, err
		}
		_, err := b.sink.Send(b.ctx, []dedupe.Output{o})
		return false, err
	})
	return b
}

func anyEffect(dedupe.Output) error { return nil }

// txOnce: the effect of a record is done once, however often the record comes.
func txOnce(f *fixture) {
	b := f.bench().withTx(anyEffect)
	batch := []dedupe.Record{
		rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "a", "y"), aggregate(4, payload(4, "b", "x"), payload(5, "a", "y")),
	}
	b.wantTally(b.done(batch...), dedupe.Tally{In: 5, New: 2, Natural: 2, Synthetic: 1, Out: 3})
	b.wantTally(b.done(batch...), dedupe.Tally{In: 5, Retry: 3, Natural: 2})
	b.wantDelivered(delivery{"a", 1}, delivery{format.DerivedID("a", "y"), 3}, delivery{"b", 4})
}

// txFinishes: a record whose entry was put with another sink gets its effect. A copy of it does not.
func txFinishes(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"))
	b.sink.got = nil
	b.withTx(anyEffect)
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "x")), dedupe.Tally{In: 2, Retry: 1, Natural: 1, Out: 1})
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, Retry: 1})
	b.wantDelivered(delivery{"a", 1})
}

// txRefused: if an effect can never be done, its record becomes a dead letter. The id stays free.
func txRefused(f *fixture) {
	refuse := true
	b := f.bench().withTx(func(o dedupe.Output) error {
		if refuse && o.ID == "a" {
			return &dedupe.PoisonError{Reason: "refused"}
		}
		return nil
	})
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "b", "x")), dedupe.Tally{In: 2, New: 1, DeadLettered: 1, Out: 1})
	b.wantDeadLetters(1)
	refuse = false
	b.wantTally(b.done(rec(3, "a", "x")), dedupe.Tally{In: 1, New: 1, Out: 1})
	b.wantDelivered(delivery{"b", 2}, delivery{"a", 3})
}

// txWrongSetting: if nearly all effects are refused for one reason, a setting is wrong. Nothing is dead-lettered.
func txWrongSetting(f *fixture) {
	b := f.bench().withTx(func(dedupe.Output) error { return &dedupe.PoisonError{Reason: "refused"} })
	batch := make([]dedupe.Record, 120)
	for i := range batch {
		batch[i] = rec(i+1, fmt.Sprint("id", i), "x")
	}
	if r := b.process(batch...); !errors.Is(r.Err, dedupe.ErrWrongSetting) || r.Done != 0 {
		b.Errorf("done %d, %v", r.Done, r.Err)
	}
	b.wantDeadLetters()
}

// txBusy: a busy store is asked again.
func txBusy(f *fixture) {
	busy := 3
	b := f.bench().withTx(func(dedupe.Output) error {
		if busy--; busy >= 0 {
			return dedupe.ErrTryAgain
		}
		return nil
	})
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, New: 1, Out: 1})
	if b.clock.pauses != 3 {
		b.Errorf("%d pauses", b.clock.pauses)
	}
}

// txFailed: no later record of the partition key is done after a record that failed, and the batch fails there.
func txFailed(f *fixture) {
	b := f.bench().withTx(func(o dedupe.Output) error {
		if o.ID == "b" {
			return errCrash
		}
		return nil
	})
	r := b.fails(2, rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x"))
	b.wantTally(r.Tally, dedupe.Tally{In: 3, New: 1, Failed: 2, Out: 1})
	b.wantDelivered(delivery{"a", 1})
}

// txNotTried: records after a failed one were not tried. They do not clear the suspicion of a wrong setting.
func txNotTried(f *fixture) {
	broken := true
	b := f.bench().withTx(func(dedupe.Output) error {
		if broken {
			return errCrash
		}
		return &dedupe.PoisonError{Reason: "refused"}
	})
	batch := make([]dedupe.Record, 120)
	for i := range batch {
		batch[i] = rec(i+1, fmt.Sprint("id", i), "x")
	}
	p := b.processor()
	process := func() dedupe.Result {
		return p.Process(b.ctx, dedupe.Batch{Stream: stream, Shard: shard, Records: batch})
	}
	if r := process(); !errors.Is(r.Err, errCrash) || r.Done != 0 {
		b.Errorf("done %d, %v", r.Done, r.Err)
	}
	broken = false
	if r := process(); !errors.Is(r.Err, dedupe.ErrWrongSetting) {
		b.Errorf("got %v", r.Err)
	}
	b.wantDeadLetters()
}

// txEnds: an effect that calls runtime.Goexit, as t.FailNow does, fails its record.
func txEnds(f *fixture) {
	b := f.bench().withTx(func(o dedupe.Output) error {
		if o.ID == "b" {
			runtime.Goexit()
		}
		return nil
	})
	parts := dedupe.Parts{Format: b.format, Tx: b.tx, DeadLetters: b.deadLetters}
	p, err := dedupe.NewProcessor(parts, b.settings) // with the real clock, which uses goroutines
	b.must(err)
	batch := dedupe.Batch{Stream: stream, Shard: shard, Records: []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x")}}
	if r := p.Process(b.ctx, batch); r.Done > 1 || r.Err == nil {
		b.Errorf("done %d, %v", r.Done, r.Err)
	}
	b.wantDeadLetters()
}

// txPanics: if an effect panics, only its record becomes a dead letter.
func txPanics(f *fixture) {
	b := f.bench().withTx(func(o dedupe.Output) error {
		if o.ID == "b" {
			panic("oops")
		}
		return nil
	})
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")),
		dedupe.Tally{In: 3, New: 2, DeadLettered: 1, Out: 2})
}

// txRaised: the entry of an id outlives the entry of an id derived from it, also if it is finished later. A busy
// store is asked again to raise it.
func txRaised(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"))
	b.sink.got = nil
	b.withTx(anyEffect)
	busy := &busyRaises{TxSink: b.tx, busy: 2}
	b.tx = busy
	late := at(rec(2, "a", "y"), window)
	b.wantTally(b.done(late), dedupe.Tally{In: 1, Synthetic: 1, Out: 1})
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, Retry: 1, Out: 1}) // the purge time does not change
	copied := at(rec(3, "a", "y"), 2*window-time.Second)
	b.wantTally(b.done(copied), dedupe.Tally{In: 1, Natural: 1})
	b.wantDelivered(delivery{format.DerivedID("a", "y"), 2}, delivery{"a", 1})
}

type busyRaises struct {
	dedupe.TxSink
	busy int
}

func (s *busyRaises) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	if s.busy--; s.busy >= 0 {
		return nil, dedupe.ErrTryAgain
	}
	return s.TxSink.RaisePurge(ctx, raises)
}

// at returns a record that arrives later than those of rec.
func at(r dedupe.Record, after time.Duration) dedupe.Record {
	r.Arrival = r.Arrival.Add(after)
	return r
}

// txFinishedOld: finishing an entry does not change its fingerprint. A record of the same batch is compared with that
// fingerprint, like a record of a later batch.
func txFinishedOld(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"))
	b.sink.got = nil
	b.withTx(anyEffect)
	b.wantTally(b.done(rec(1, "a", "y"), rec(2, "a", "x"), rec(3, "a", "y")),
		dedupe.Tally{In: 3, Retry: 1, Natural: 1, Synthetic: 1, Out: 2})
}

// txDerived: a record whose id may be derived for an earlier record waits for that record, whatever their partition
// keys.
func txDerived(f *fixture) {
	derived := format.DerivedID("a", "y")
	b := f.bench().withTx(anyEffect)
	b.done(rec(1, "a", "x"))
	batch := []dedupe.Record{rec(2, "b", "x"), rec(3, "a", "y"), rec(4, derived, "y")}
	batch[1].PartitionKey = "other"
	b.wantTally(b.done(batch...), dedupe.Tally{In: 3, New: 1, Synthetic: 1, Natural: 1, Out: 2})
}

// txPurged: an entry of the same batch counts as long as an entry of an earlier batch.
func txPurged(f *fixture) {
	b := f.bench().withTx(anyEffect)
	first, last := rec(1, "a", "x"), at(rec(2, "a", "x"), window+horizon+2*time.Second)
	b.wantTally(b.done(first, last), dedupe.Tally{In: 2, New: 2, Out: 2})
}

// txLostFinish: an entry is finished once, also if the reply is lost. The record is then done.
func txLostFinish(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"))
	b.sink.got = nil
	b.withTx(anyEffect)
	b.tx = &lostFinish{TxSink: b.tx}
	b.wantTally(b.done(rec(1, "a", "x")), dedupe.Tally{In: 1, Retry: 1})
	b.wantDelivered(delivery{"a", 1})
}

// lostFinish loses the first reply to a transaction that finishes an entry.
type lostFinish struct {
	dedupe.TxSink
	lost bool
}

func (s *lostFinish) Transact(ctx context.Context, t dedupe.Transaction) (dedupe.TxResult, error) {
	result, err := s.TxSink.Transact(ctx, t)
	if err == nil && t.Finish && !s.lost {
		s.lost = true
		return dedupe.TxResult{}, dedupe.ErrTryAgain
	}
	return result, err
}

// TestTransactionsAtTheSameTime: records that do not depend on each other are processed at the same time, the others in
// order.
func TestTransactionsAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := &fixture{TB: t, store: memstore.NewRecords()}
	b := f.bench().withTx(anyEffect)
	var batch []dedupe.Record
	for i := range 400 {
		r := rec(i+1, fmt.Sprint("id", i%150), fmt.Sprint("fp", i%3))
		r.PartitionKey = fmt.Sprint("pk", i%40)
		batch = append(batch, r)
	}
	p, err := dedupe.NewProcessor(dedupe.Parts{Format: b.format, Tx: b.tx, DeadLetters: b.deadLetters}, b.settings)
	b.must(err)
	for range 2 {
		r := p.Process(context.Background(), dedupe.Batch{Stream: stream, Shard: shard, Records: batch})
		b.must(r.Err)
	}
	last := map[string]int{}
	for _, d := range b.sink.got {
		pk := batch[d.n-1].PartitionKey
		if d.n < last[pk] {
			b.Errorf("record %d came after %d of the same partition key", d.n, last[pk])
		}
		last[pk] = d.n
	}
	if len(b.sink.got) != 150 {
		b.Errorf("%d effects", len(b.sink.got))
	}
}
