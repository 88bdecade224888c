package dedupe_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var deliverCases = []testCase{
	{"records/crash-before-the-sink", crashBeforeSink},
	{"records/crash-after-the-sink", crashAfterSink},
	{"records/poison-that-cannot-be-stored", poisonNotStored},
	{"records/poison-stored-in-part", poisonStoredInPart},
	{"records/too-large-for-the-sink", tooLarge},
	{"records/bad-outputs", badOutputs},
	{"records/whole-outputs", wholeOutputs},
	{"records/sink-that-does-too-little", sinkDoesTooLittle},
	{"records/sink-fails-in-the-middle", sinkFails},
	{"records/chunks", chunks},
	{"records/default-chunk", defaultChunk},
	{"records/passed-unchanged", passedUnchanged},
	{"records/id-is-the-partition-key", idIsPartitionKey},
}

// crashBeforeSink: the invocation ends after the ledger has the entries and before the sink has any record.
func crashBeforeSink(f *fixture) {
	b := f.bench()
	b.hook = failBefore(dedupefault.Send, errCrash)
	b.fails(1, rec(1, "a", "x"), rec(2, "a", "y"))
	b.wantDelivered()
	b.hook = nil
	b.done(rec(3, "a", "x"), rec(4, "a", "y")) // copies are not delivered instead
	b.wantDelivered()
	b.done(rec(1, "a", "x"), rec(2, "a", "y"))
	b.wantDelivered(delivery{"a", 1}, delivery{format.DerivedID("a", "y"), 2})
}

// crashAfterSink: records that were delivered are delivered again, under the same ids, and counted as retries.
func crashAfterSink(f *fixture) {
	b := f.bench()
	b.hook = failAfter(dedupefault.Send, errCrash)
	b.fails(1, rec(1, "a", "x"), rec(2, "a", "y"))
	b.hook = nil
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "y")), dedupe.Tally{In: 2, Retry: 2, Out: 2})
	ay := format.DerivedID("a", "y")
	b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{"a", 1}, delivery{ay, 2})
}

// poisonNotStored: a dead letter counts as stored only if the store says so. Until then the record fails, and no record
// after it is sent.
func poisonNotStored(f *fixture) {
	b := f.bench()
	b.hook = failBefore(dedupefault.PutDeadLetters, errCrash)
	batch := []dedupe.Record{rec(1, "a", "x"), rawRec(2, "?"), rec(3, "b", "x")}
	r := b.fails(2, batch...)
	b.wantTally(r.Tally, dedupe.Tally{In: 3, New: 1, Failed: 2, Out: 1})
	b.wantDelivered(delivery{"a", 1})
	b.hook = nil
	b.done(batch[1:]...)
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 3})
	b.wantDeadLetters(2)
}

// poisonStoredInPart: of several dead letters, the number that the store returns are stored, counted from the first.
func poisonStoredInPart(f *fixture) {
	b := f.bench()
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		fourth := slices.IndexFunc(c.Letters, func(l dedupe.DeadLetter) bool { return l.Position.Sequence == "4" })
		if fourth < 0 {
			return c.Do(ctx)
		}
		c.Letters = c.Letters[:fourth]
		if err := c.Do(ctx); err != nil {
			return err
		}
		return errCrash
	}
	many := []dedupe.Record{rec(1, "m", "x"), rawRec(2, "?"), rec(3, "n", "x"), rawRec(4, "?"), rawRec(5, "?"), rec(6, "o", "x")}
	b.wantTally(b.fails(4, many...).Tally, dedupe.Tally{In: 6, New: 2, DeadLettered: 1, Failed: 3, Out: 2})
	storesLess := func(hidden int) dedupefault.Hook { // it returns no error
		return func(ctx context.Context, c *dedupefault.Call) error {
			err := c.Do(ctx)
			if c.Method == dedupefault.PutDeadLetters {
				c.Done -= hidden
			}
			return err
		}
	}
	b.hook = storesLess(1)
	b.fails(5, many...)
	b.hook = storesLess(9)
	b.fails(2, many...)
	b.hook = nil
	b.done(many[1:]...)
	b.wantDelivered(delivery{"m", 1}, delivery{"n", 3}, delivery{"m", 1}, delivery{"n", 3}, delivery{"m", 1}, delivery{"n", 3}, delivery{"o", 6})
	b.wantDeadLetters(2, 4, 5)
}

func tooLarge(f *fixture) {
	b := f.bench()
	b.sink.check = func(o dedupe.Output) error {
		if len(o.Data) > 40 {
			return &dedupe.PoisonError{Reason: "too large for the sink"}
		}
		return nil
	}
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "b", "a fingerprint that makes it too large"), rec(3, "c", "x")),
		dedupe.Tally{In: 3, New: 2, DeadLettered: 1, Out: 2})
	b.wantDeadLetters(2)
}

// renaming fails or panics when it has to give a record a new id.
type renaming struct {
	dedupe.Format
	rename func() ([]byte, error)
}

func (r renaming) Rename(context.Context, []byte, string, string) ([]byte, error) { return r.rename() }

// badOutputs: if a record fails after it was decided, only this record is dead-lettered, with a fixed reason.
func badOutputs(f *fixture) {
	for reason, breaks := range map[string]func(*bench){
		"no array": func(b *bench) {
			b.format = renaming{b.format, func() ([]byte, error) { return nil, &format.BadRecord{Reason: "no array"} }}
		},
		"handling the record panicked": func(b *bench) {
			b.format = renaming{b.format, func() ([]byte, error) { panic("a bug") }}
		},
		"not this one": func(b *bench) {
			b.sink.check = func(o dedupe.Output) error {
				if o.ID != "b" {
					return &dedupe.PoisonError{Reason: "not this one"}
				}
				return nil
			}
		},
	} {
		b := f.bench()
		b.done(rec(1, "a", "x"))
		breaks(b)
		b.wantTally(b.done(rec(2, "a", "y"), rec(3, "b", "x")), dedupe.Tally{In: 2, DeadLettered: 1, New: 1, Out: 1})
		b.wantReason(2, reason)
		for _, letter := range b.deadLetters.byOwner {
			if letter.PartitionKey != "pk" || string(letter.Data) != string(payload(2, "a", "y")) {
				f.Errorf("%s: want the record as it came, got %+v", reason, letter)
			}
		}
	}
}

// wholeOutputs: the sink gets all fields of an output, and the ledger all fields of an entry.
func wholeOutputs(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"), aggregate(2, payload(20, "b", "x")))
	want := []dedupe.Output{
		{ID: "a", PartitionKey: "pk", Data: payload(1, "a", "x")},
		{ID: "b", PartitionKey: "own", ExplicitHashKey: "7", Aggregated: true, Data: payload(20, "b", "x")},
	}
	if !slices.EqualFunc(b.sink.outputs, want, func(a, b dedupe.Output) bool {
		return a.ID == b.ID && a.PartitionKey == b.PartitionKey && a.ExplicitHashKey == b.ExplicitHashKey &&
			a.Aggregated == b.Aggregated && string(a.Data) == string(b.Data)
	}) {
		f.Errorf("want outputs %+v, got %+v", want, b.sink.outputs)
	}
	owner := dedupe.Position{Stream: stream, Shard: shard, Sequence: "1", Sub: dedupe.Plain}.Owner().Digest()
	old := b.put(b.entry("a", "probe", epoch))
	if old == nil || old.Owner != owner || old.Content != dedupe.ContentDigest("x") {
		f.Errorf("want the entry of record 1, got %+v", old)
	}
}

// sinkDoesTooLittle: a record that the sink does not report as delivered counts as not delivered.
func sinkDoesTooLittle(f *fixture) {
	b := f.bench()
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "b", "x"), rec(3, "c", "x")}
	b.hook = sends(0, nil)
	b.fails(2, batch...)
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		if c.Method == dedupefault.Send {
			c.Sent = dedupefault.FirstDelivered(1, 2) // for three records
			return nil
		}
		return c.Do(ctx)
	}
	b.fails(1, batch...)
	b.hook = nil
	b.wantTally(b.done(batch...), dedupe.Tally{In: 3, Retry: 3, Out: 3})
}

func sinkFails(f *fixture) {
	b := f.bench()
	b.hook = sends(2, errCrash) // the second record was delivered too
	batch := []dedupe.Record{rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "b", "x"), rec(4, "c", "x")}
	b.wantTally(b.fails(3, batch...).Tally, dedupe.Tally{In: 4, New: 1, Natural: 1, Failed: 2, Out: 1})
	b.hook = nil
	b.wantTally(b.done(batch[2:]...), dedupe.Tally{In: 2, Retry: 2, Out: 2})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 3}, delivery{"b", 3}, delivery{"c", 4})
}

// chunks: the size of the chunks does not change the result.
func chunks(f *fixture) {
	ay := format.DerivedID("a", "y")
	for _, size := range []int{1, 2, 3, 500} {
		b := f.bench()
		b.settings.Chunk = size
		aggregated := aggregate(3, payload(30, "a", "x"), payload(31, "c", "x"), payload(32, "a", "y"))
		b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "y"), aggregated, rec(4, "b", "x"), rec(5, "c", "x")),
			dedupe.Tally{In: 7, New: 3, Natural: 3, Synthetic: 1, Out: 4})
		b.wantDelivered(delivery{"a", 1}, delivery{ay, 2}, delivery{"c", 31}, delivery{"b", 4})
	}
}

// defaultChunk: a large batch is decided and sent in chunks.
func defaultChunk(f *fixture) {
	b := f.bench()
	var largest int
	b.hook = func(ctx context.Context, c *dedupefault.Call) error {
		largest = max(largest, len(c.Outputs), len(c.Entries))
		return c.Do(ctx)
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
	b.settings.PassSynthetic = true
	b.wantTally(b.done(rec(1, "a", "x"), rec(2, "a", "x"), rec(3, "a", "y"), rec(4, "a", "y")),
		dedupe.Tally{In: 4, New: 1, Natural: 1, Synthetic: 2, Out: 3})
	b.wantDelivered(delivery{"a", 1}, delivery{"a", 3}, delivery{"a", 4})
}

// idIsPartitionKey: a synthetic duplicate gets its new id as its partition key, and keeps its payload.
func idIsPartitionKey(f *fixture) {
	b := f.bench()
	b.format, b.sink.raw = format.Raw{PartitionKey: true}, true
	keyed := func(n int, key, data string) dedupe.Record {
		r := rawRec(n, data)
		r.PartitionKey = key
		return r
	}
	ab := format.DerivedID("a", "844ecc08164e2eab27634a9adee1afa6599e589570e719784e080ce747fc0e45")
	b.wantTally(b.done(keyed(1, "a", "x1"), keyed(2, "a", "x1"), keyed(3, "a", "x2"), keyed(4, "b", "x2"), keyed(5, "", "x")),
		dedupe.Tally{In: 5, New: 2, Natural: 1, Synthetic: 1, DeadLettered: 1, Out: 3})
	b.done(keyed(3, "a", "x2"))
	for i, want := range []string{"a", ab, "b", ab} {
		if got := b.sink.outputs[i]; got.ID != want || got.PartitionKey != want {
			b.Errorf("output %d has the id %s and the key %s, want %s", i, got.ID, got.PartitionKey, want)
		}
	}
	b.wantSent([]byte("x1"), []byte("x2"), []byte("x2"), []byte("x2"))
	b.wantDeadLetters(5)
}
