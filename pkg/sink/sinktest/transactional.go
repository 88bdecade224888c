package sinktest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// TxTarget is a dedupe.TxSink under test.
type TxTarget struct {
	Sink dedupe.TxSink
	// Entries are the sink's entries, in the form for a function with a stream sink.
	Entries dedupe.Entries
	// Effects returns how often the effect of the record with an id has happened. A sink that cannot distinguish once
	// from twice returns at most 1; the suite then finds fewer faults.
	Effects func(t testing.TB, id string) int
	// Payload makes a record that the sink accepts: a JSON object with the members id and fp, which the suite's
	// format reads. nil: an object with only these two.
	Payload func(id, fp string) []byte
	// Refused makes a record that Check accepts, but whose effect can never be done. It may prepare the store for
	// that. nil: the sink refuses no effect.
	Refused func(t testing.TB, id string) []byte
	// Versions is set for a sink that upserts and deletes items by a version.
	Versions *Versions

	batch func(dedupe.Batch) dedupe.Batch // set by a mutant
}

// Transactional runs all cases of the level "transactional" as parallel subtests of t. open returns the sink under test.
// It may return the same sink each time.
func Transactional(t *testing.T, open func(testing.TB) TxTarget) {
	for _, c := range TransactionalCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}

// TxCase is one requirement on every sink of the level "transactional".
type TxCase struct {
	Name string
	test func(*txCase)
}

// TransactionalCases returns all cases, for a test that runs them one by one.
func TransactionalCases() []TxCase {
	return []TxCase{
		{"entry-and-effect", entryAndEffect},
		{"found-entry", foundEntry},
		{"entry-of-a-stream-sink", entryOfStreamSink},
		{"nothing-to-finish", nothingToFinish},
		{"purged-entry", purgedEntry},
		{"entry-that-comes-again-after-its-purge", afterPurge},
		{"raised-purge-time", raisedPurge},
		{"refused-effect", refusedEffect},
		{"race-for-an-entry", raceForEntry},
		{"race-for-a-finish", raceForFinish},
		{"processor/once", processorOnce},
		{"processor/lost-replies", processorLostReplies},
		{"processor/switched-from-a-stream-sink", processorSwitched},
		{"processor/refused-alone", processorRefused},
		{"processor/name-outlives-its-derived-ids", processorNameOutlives},
		{"processor/order-of-a-partition-key", processorOrder},
		{"versions/newer-stays", newerStays},
		{"versions/equal", equalVersions},
		{"versions/not-comparable", notComparable},
		{"versions/times-of-one-form", timesOfOneForm},
		{"versions/texts-of-other-forms", textsOfOtherForms},
		{"versions/histories", versionHistories},
		{"versions/delete", deleteLeavesVersion},
	}
}

// Run runs the case on a sink.
func (c TxCase) Run(t testing.TB, target TxTarget) {
	if target.Payload == nil {
		target.Payload = payload
	}
	c.test(&txCase{TB: t, TxTarget: target, scope: newName(), id: newName()})
}

type txCase struct {
	testing.TB
	TxTarget
	scope string
	id    string // of the case's record
}

// epoch is the arrival of the first record. It is far in the future, so that a store that deletes by real time
// deletes nothing.
var epoch = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)

// The retention of the suite.
const window, horizon = 100 * time.Second, 10 * time.Second

var retention = dedupe.Retention{Window: window, Horizon: horizon}

// ownerOf returns the owner of the record with a number.
func ownerOf(n int) dedupe.Owner {
	return dedupe.Owner{Source: "123456789012/us-east-1/orders/shardId-0", Sequence: fmt.Sprint(n), Sub: dedupe.Plain}
}

// entry returns the entry of the record with number n, which arrives n seconds after the epoch.
func (c *txCase) entry(n int, id string) dedupe.Entry {
	arrival := epoch.Add(time.Duration(n) * time.Second)
	return dedupe.Entry{
		Scope: c.scope, Key: format.KeyOf(id), Owner: ownerOf(n), Fingerprint: "x", Version: "v",
		Arrival: arrival, PurgeAt: retention.PurgeAt(arrival), Done: true,
	}
}

func (c *txCase) output(id string) dedupe.Output {
	return dedupe.Output{ID: id, PartitionKey: "pk", Data: c.Payload(id, "x")}
}

func (c *txCase) transaction(n int) dedupe.Transaction {
	return dedupe.Transaction{Entry: c.entry(n, c.id), Output: c.output(c.id)}
}

// transact runs a transaction, and repeats it while the store is busy.
func (c *txCase) transact(t dedupe.Transaction) (dedupe.TxResult, error) {
	for range 50 {
		result, err := c.Sink.Transact(c.Context(), t)
		if !errors.Is(err, dedupe.ErrTryAgain) {
			return result, err
		}
		time.Sleep(10 * time.Millisecond) // a busy store is asked again, as a Processor does
	}
	return c.Sink.Transact(c.Context(), t)
}

// done runs a transaction that must have its effect.
func (c *txCase) done(t dedupe.Transaction) dedupe.TxResult {
	c.Helper()
	if err := c.Sink.Check(c.Context(), t.Output); err != nil {
		c.Fatalf("Check refuses a good record: %v", err)
	}
	result, err := c.transact(t)
	if err != nil || result.Existing != nil {
		c.Fatalf("a transaction of a good record: %+v, %v", result, err)
	}
	return result
}

// finds runs a transaction that must find an entry of an owner.
func (c *txCase) finds(t dedupe.Transaction, owner dedupe.Owner, done bool) dedupe.Existing {
	c.Helper()
	result, err := c.transact(t)
	if err != nil || result.Existing == nil {
		c.Fatalf("a transaction of %s whose entry exists: %+v, %v", t.Entry.Owner.Sequence, result, err)
	}
	if result.Existing.Owner != owner.Digest() || result.Existing.Done != done || result.Superseded {
		c.Fatalf("want an entry of %s, done %t; got %+v", owner.Sequence, done, result)
	}
	return *result.Existing
}

// put puts an entry as a function with a stream sink does.
func (c *txCase) put(e dedupe.Entry) *dedupe.Existing {
	c.Helper()
	e.Done = false
	results, err := c.Entries.PutIfAbsent(c.Context(), []dedupe.Entry{e})
	if err != nil || results[0].Err != nil {
		c.Fatal(err, results)
	}
	return results[0].Existing
}

func (c *txCase) wantEffects(id string, want int) {
	c.Helper()
	if got := c.Effects(c.TB, id); got != want {
		c.Errorf("the effect of %s has happened %d times, want %d", id, got, want)
	}
}

// entryAndEffect: a transaction leaves both an entry and an effect, and the entry is Done.
func entryAndEffect(c *txCase) {
	t := c.transaction(1)
	if c.done(t).Superseded {
		c.Error("the first effect is superseded")
	}
	c.wantEffects(c.id, 1)
	existing := c.put(c.entry(2, c.id))
	if existing == nil || *existing != t.Entry.Existing() {
		c.Errorf("want the entry %+v, got %+v", t.Entry.Existing(), existing)
	}
}

// foundEntry: an existing entry decides alone, whatever the conditions of the effect say. The record that holds the
// entry finds it like any other record, because the owner is not part of the condition.
func foundEntry(c *txCase) {
	t := c.transaction(1)
	c.done(t)
	if got := c.finds(c.transaction(2), t.Entry.Owner, true); got != t.Entry.Existing() {
		c.Errorf("want the entry %+v, got %+v", t.Entry.Existing(), got)
	}
	c.finds(t, t.Entry.Owner, true)
	late := t
	late.Finish = true
	c.finds(late, t.Entry.Owner, true)
	c.wantEffects(c.id, 1)
}

// entryOfStreamSink: an entry that a function with another sink has put is not Done. Its record gets its effect,
// once, and no other record does.
func entryOfStreamSink(c *txCase) {
	t := c.transaction(1)
	if existing := c.put(t.Entry); existing != nil {
		c.Fatalf("the entry exists already: %+v", existing)
	}
	raised := retention.PurgeAt(epoch.Add(time.Hour))
	c.raise(t.Entry, raised)
	c.finds(t, t.Entry.Owner, false)
	other := c.transaction(2)
	c.finds(other, t.Entry.Owner, false)
	other.Finish = true
	c.finds(other, t.Entry.Owner, false)
	c.wantEffects(c.id, 0)
	t.Finish = true
	c.done(t)
	c.wantEffects(c.id, 1)
	if got := c.finds(t, t.Entry.Owner, true); got.PurgeAt != raised {
		c.Errorf("the purge time is %d, want %d as it was raised", got.PurgeAt, raised)
	}
	c.wantEffects(c.id, 1)
}

// nothingToFinish: a missing entry is not finished.
func nothingToFinish(c *txCase) {
	t := c.transaction(1)
	t.Finish = true
	result, err := c.transact(t)
	if err != nil || result.Existing == nil || *result.Existing != (dedupe.Existing{}) {
		c.Fatalf("want the zero Existing, got %+v, %v", result, err)
	}
	c.wantEffects(c.id, 0)
	t.Finish = false
	c.done(t)
}

// purgedEntry: an entry counts for arrivals up to its purge time. The time is part of the condition, because a store
// deletes late.
func purgedEntry(c *txCase) {
	other := c.entry(1, c.id)
	other.PurgeAt = epoch.Unix() + 60
	c.put(other)
	t := c.transaction(2)
	t.Entry.Arrival = time.Unix(other.PurgeAt, 0).UTC()
	c.finds(t, other.Owner, false)
	t.Entry.Arrival = t.Entry.Arrival.Add(time.Millisecond)
	c.done(t)
	c.wantEffects(c.id, 1)
}

// afterPurge: a record that comes again after its entry was purged is a new transaction. A store that remembers
// requests by a token must not take it for the old one.
func afterPurge(c *txCase) {
	t := c.transaction(1)
	c.done(t)
	c.purge(t.Entry)
	var poison *dedupe.PoisonError
	result, err := c.transact(t)
	if errors.As(err, &poison) {
		return // the effect exists already, and the sink cannot distinguish it from a second one
	}
	if err != nil || result.Existing != nil {
		c.Fatalf("got %+v, %v", result, err)
	}
	c.finds(c.transaction(4), t.Entry.Owner, true)
}

// purge replaces an entry by one that no longer counts.
func (c *txCase) purge(e dedupe.Entry) {
	c.Helper()
	over := c.entry(3, c.id)
	over.Arrival, over.PurgeAt = time.Unix(e.PurgeAt+1, 0).UTC(), 1
	if existing := c.put(over); existing != nil {
		c.Fatalf("the entry is still there: %+v", existing)
	}
}

func (c *txCase) raise(e dedupe.Entry, purgeAt int64) {
	c.Helper()
	results, err := c.Sink.RaisePurge(c.Context(), []dedupe.RaiseRequest{
		{Scope: e.Scope, Key: e.Key, Owner: e.Owner.Digest(), PurgeAt: purgeAt},
		{Scope: e.Scope, Key: e.Key, Owner: ownerOf(99).Digest(), PurgeAt: 2 * purgeAt},
	})
	if err != nil || results[0].Err != nil || results[1].Err != nil || !results[0].Raised || results[1].Raised {
		c.Fatalf("raise: %+v, %v", results, err)
	}
}

// raisedPurge: an entry counts up to its raised purge time. Only its owner can raise it.
func raisedPurge(c *txCase) {
	t := c.transaction(1)
	c.done(t)
	late := c.transaction(2)
	late.Entry.Arrival = time.Unix(t.Entry.PurgeAt, 0).Add(time.Minute).UTC()
	c.raise(t.Entry, late.Entry.Arrival.Unix())
	c.finds(late, t.Entry.Owner, true)
	c.wantEffects(c.id, 1)
}

// refusedEffect: an effect that can never be done leaves no entry, or leaves the existing entry not Done.
func refusedEffect(c *txCase) {
	if c.Refused == nil {
		c.Skip("the sink refuses no effect")
	}
	t := c.transaction(1)
	t.Output.Data = c.Refused(c.TB, c.id)
	before := c.Effects(c.TB, c.id)
	c.refused(t)
	if existing := c.put(t.Entry); existing != nil {
		c.Fatalf("a refused effect left the entry %+v", existing)
	}
	t.Finish = true
	c.refused(t)
	t.Finish = false
	c.finds(t, t.Entry.Owner, false)
	c.wantEffects(c.id, before)
}

func (c *txCase) refused(t dedupe.Transaction) {
	c.Helper()
	if err := c.Sink.Check(c.Context(), t.Output); err != nil {
		c.Fatalf("Check has found it already: %v", err)
	}
	var poison *dedupe.PoisonError
	if result, err := c.transact(t); !errors.As(err, &poison) || poison.Reason == "" {
		c.Fatalf("want a *dedupe.PoisonError, got %+v, %v", result, err)
	}
}

// raceForEntry: of several records with one id at the same time, one has its effect.
func raceForEntry(c *txCase) {
	c.race(func(n int) dedupe.Transaction { return c.transaction(n) })
}

// raceForFinish: of several attempts of a record at the same time, one has its effect.
func raceForFinish(c *txCase) {
	c.put(c.entry(1, c.id))
	c.race(func(int) dedupe.Transaction {
		t := c.transaction(1)
		t.Finish = true
		return t
	})
}

func (c *txCase) race(transaction func(n int) dedupe.Transaction) {
	c.Helper()
	const runners = 8
	var had atomic.Int32
	errs := make([]error, runners)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			var result dedupe.TxResult
			if result, errs[i] = c.transact(transaction(i + 1)); errs[i] == nil && result.Existing == nil {
				had.Add(1)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		c.Fatal(err)
	}
	if had.Load() > 1 { // 0 is possible if the transaction with the effect lost its reply
		c.Errorf("%d of %d transactions had their effect", had.Load(), runners)
	}
	c.wantEffects(c.id, 1)
}
