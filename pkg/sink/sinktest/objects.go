package sinktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ObjectStore is an empty storage for an object sink.
type ObjectStore struct {
	// Open makes a sink on the storage, without the memory of other sinks.
	Open func() dedupe.ObjectSink
	// Read returns the data of all records that a reader finds who does not know chains.
	Read func() []string
}

// ObjectCase is a test of an object sink.
type ObjectCase struct {
	Name string
	run  func(*objectBench)
}

// Run runs the case.
func (c ObjectCase) Run(t testing.TB, s ObjectStore) {
	c.run(&objectBench{TB: t, ObjectStore: s, ctx: t.Context(), key: chainKey("orders", "shard-1")})
}

// ObjectCases returns the cases of the level "objects".
func ObjectCases() []ObjectCase {
	return []ObjectCase{
		{"once", objectsOnce},
		{"another-writer", objectsAnotherWriter},
		{"another-writer-of-later-records", objectsLater},
		{"given-up-in-between", objectsGivenUp},
		{"many-late", objectsManyLate},
		{"nothing-to-deliver", objectsNothing},
		{"aggregates", objectsAggregates},
		{"numbers-of-all-lengths", objectsLengths},
		{"letters", objectsLetters},
		{"apart", objectsApart},
	}
}

// Objects runs all cases of the level "objects": each record is in one committed object, also if other processes
// commit it too.
func Objects(t *testing.T, setup func(testing.TB) ObjectStore) {
	for _, c := range ObjectCases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, setup(t)) })
	}
}

type objectBench struct {
	testing.TB
	ObjectStore
	ctx context.Context
	key dedupe.ChainKey
}

func chainKey(scope, shard string) dedupe.ChainKey {
	stream := dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "My.Orders_1"}
	return dedupe.ChainKey{Scope: scope, Stream: stream, Shard: shard}
}

// recordsOf makes records from sequence numbers. A record with a "-" before its number has no output.
func recordsOf(sequences ...string) (records []dedupe.ChainRecord) {
	for _, s := range sequences {
		s, dropped := strings.CutPrefix(s, "-")
		r := dedupe.ChainRecord{Sequence: s}
		if !dropped {
			r.Outputs = []dedupe.Output{{ID: s, Data: data(s)}}
		}
		records = append(records, r)
	}
	return records
}

func data(text string) []byte { return fmt.Appendf(nil, "{\"n\":%q}", text) }

// open opens the chain for a batch of records.
func (b *objectBench) open(s dedupe.ObjectSink, records []dedupe.ChainRecord) dedupe.Chain {
	b.Helper()
	c, err := s.Open(b.ctx, b.key, records[0].Sequence, records[len(records)-1].Sequence)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// commit commits the records that are not done by the chain, and returns the sequence numbers that this call wrote.
func (b *objectBench) commit(c dedupe.Chain, records []dedupe.ChainRecord) (written []string) {
	b.Helper()
	rest := slices.DeleteFunc(slices.Clone(records), func(r dedupe.ChainRecord) bool { return c.Done(r.Sequence) })
	if len(rest) == 0 {
		return nil
	}
	committed, err := c.Commit(b.ctx, rest)
	if err != nil || committed.Done != len(rest) {
		b.Fatalf("commit: %d of %d records are done: %v", committed.Done, len(rest), err)
	}
	for i, r := range rest {
		if committed.Written == nil || committed.Written[i] {
			written = append(written, r.Sequence)
		}
	}
	return written
}

// process opens a chain and commits to it, as a new container does.
func (b *objectBench) process(sequences ...string) (written []string) {
	b.Helper()
	records := recordsOf(sequences...)
	return b.commit(b.open(b.Open(), records), records)
}

func (b *objectBench) wantWritten(got []string, want ...string) {
	b.Helper()
	if !slices.Equal(got, want) {
		b.Errorf("want the records %v to be written by this call, got %v", want, got)
	}
}

// wantRead checks the records that a reader finds, in any order of the objects.
func (b *objectBench) wantRead(sequences ...string) {
	b.Helper()
	var want []string
	for _, s := range sequences {
		want = append(want, string(data(s)))
	}
	got := b.Read()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("want the records %v in objects, got %v", want, got)
	}
}

// objectsOnce: a record that an object has handled is done, for a sink that remembers the object and for one that
// does not.
func objectsOnce(b *objectBench) {
	first := b.Open()
	records := recordsOf("1", "2", "3")
	b.wantWritten(b.commit(b.open(first, records), records), "1", "2", "3")
	b.wantWritten(b.commit(b.open(first, records), records))
	b.wantWritten(b.process("1", "2", "3", "4"), "4")
	b.wantWritten(b.process("2", "3"))
	b.wantRead("1", "2", "3", "4")
}

// objectsAnotherWriter: if two writers see the same chain, the second leaves out the records that the first has
// handled.
func objectsAnotherWriter(b *objectBench) {
	one, two := recordsOf("1", "2", "3"), recordsOf("2", "3", "4")
	a, c := b.open(b.Open(), one), b.open(b.Open(), two)
	b.wantWritten(b.commit(a, one), "1", "2", "3")
	b.wantWritten(b.commit(c, two), "4")
	b.wantWritten(b.commit(a, recordsOf("4", "5")), "5")
	b.wantRead("1", "2", "3", "4", "5")
}

// objectsLater: an object that a Commit finds may have handled records of the next Commit of the same batch.
func objectsLater(b *objectBench) {
	batch := recordsOf("1", "2", "3")
	late := b.open(b.Open(), batch)
	b.wantWritten(b.process("2"), "2")
	b.wantWritten(b.commit(late, batch[:1]), "1")
	b.wantWritten(b.commit(late, batch[1:2]))
	b.wantWritten(b.commit(late, batch[2:]), "3")
	b.wantRead("1", "2", "3")
}

// objectsGivenUp: a batch that was given up between two objects is not done. It is written after the tip, once.
func objectsGivenUp(b *objectBench) {
	b.wantWritten(b.process("1", "2"), "1", "2")
	b.wantWritten(b.process("5", "6"), "5", "6")
	b.wantWritten(b.process("3", "4"), "3", "4")
	b.wantWritten(b.process("7"), "7")
	b.wantWritten(b.process("1", "2", "3", "4", "5", "6", "7", "8"), "8")
	b.wantRead("1", "2", "3", "4", "5", "6", "7", "8")
}

// objectsManyLate: many batches are written after the same tip. Each is found again, from anywhere.
func objectsManyLate(b *objectBench) {
	b.process("50")
	all := []string{"50"}
	for i := 40; i > 30; i-- {
		s := fmt.Sprint(i)
		b.wantWritten(b.process(s), s)
		all = append(all, s)
	}
	b.wantWritten(b.process("60"), "60")
	b.wantWritten(b.process("33", "34", "35"))
	b.wantWritten(b.process(slices.Sorted(slices.Values(all))...))
	b.wantRead(append(all, "60")...)
}

// objectsNothing: records of which nothing is delivered are handled by the object of their neighbours. Alone they make
// none.
func objectsNothing(b *objectBench) {
	b.process("-1", "-2")
	b.wantRead()
	b.process("-1", "2", "-3")
	b.wantRead("2")
	records := recordsOf("1", "2", "3")
	c := b.open(b.Open(), records)
	for _, r := range records {
		if !c.Done(r.Sequence) {
			b.Errorf("record %s is not done", r.Sequence)
		}
	}
}

// objectsAggregates: a record with several outputs is in an object as a whole.
func objectsAggregates(b *objectBench) {
	aggregate := []dedupe.ChainRecord{{Sequence: "1", Outputs: []dedupe.Output{
		{ID: "a", Data: data("a")}, {ID: "b", Data: data("b")}, {ID: "c", Data: data("c")},
	}}}
	one, two := b.open(b.Open(), aggregate), b.open(b.Open(), aggregate)
	b.wantWritten(b.commit(one, aggregate), "1")
	b.wantWritten(b.commit(two, aggregate))
	b.wantRead("a", "b", "c")
}

// objectsLengths: sequence numbers are compared by value.
func objectsLengths(b *objectBench) {
	long, longest := "49590338271490256608559692538361571095921575989136588898", strings.Repeat("9", 128)
	all := []string{"9", "10", "99", "100", long, longest}
	for _, s := range all {
		b.wantWritten(b.process(s), s)
	}
	b.wantWritten(b.process("8"), "8")
	b.wantWritten(b.process(append([]string{"8"}, all...)...))
	b.wantRead(append(all, "8")...)
}

// objectsLetters: a dead letter is written once, under its name, whatever other objects have handled.
func objectsLetters(b *objectBench) {
	b.process("1", "-2", "3")
	for i, created := range []bool{true, false} {
		got, err := b.Open().CommitLetter(b.ctx, b.key, "a/letter of 2.json", recordsOf("2")[0].Outputs)
		if err != nil || got != created {
			b.Errorf("letter, time %d: created %t, %v", i+1, got, err)
		}
	}
	b.wantWritten(b.process("1", "2", "3", "4"), "4")
	b.wantRead("1", "2", "3", "4")
}

// objectsApart: scopes, streams and shards have chains of their own.
func objectsApart(b *objectBench) {
	b.process("1")
	for _, key := range []dedupe.ChainKey{chainKey("orders", "shard-10"), chainKey("other", "shard-1")} {
		other := *b
		other.key = key
		other.wantWritten(other.process("1"), "1")
	}
	b.wantRead("1", "1", "1")
}
