package dedupe_test

import (
	"context"
	"crypto/md5"
	"errors"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var decodeCases = []testCase{
	{"records/poison", poison},
	{"records/panic", panics},
	{"records/unknown-format-error", unknownFormatError},
	{"records/aggregates", aggregates},
}

// poison: a record that cannot be read is dead-lettered alone, and blocks no other record.
func poison(f *fixture) {
	b := f.bench()
	broken := `{"id":"a"`
	b.wantTally(b.done(rec(1, "a", "x"), rawRec(2, broken), rawRec(3, `{"n":3}`), rec(4, "b", "x"), rawRec(5, ""), rawRec(6, `{"id":null}`)),
		dedupe.Tally{In: 6, New: 2, DeadLettered: 4, Out: 2})
	b.wantDelivered(delivery{"a", 1}, delivery{"b", 4})
	for _, letter := range b.deadLetters.byOwner {
		if letter.Position.Sequence == "2" && string(letter.Data) != broken {
			b.Errorf("want the whole payload %q, got %q", broken, letter.Data)
		}
	}
	if len(b.deadLetters.byOwner) != 4 {
		b.Errorf("want 4 dead letters, got %d", len(b.deadLetters.byOwner))
	}
}

// panicking panics on one payload.
type panicking struct{ dedupe.Format }

func (p panicking) Read(ctx context.Context, payload []byte) (format.Fields, error) {
	if string(payload) == "panic" {
		panic("a bug")
	}
	return p.Format.Read(ctx, payload)
}

func panics(f *fixture) {
	b := f.bench()
	b.format = panicking{b.format}
	b.wantTally(b.done(rec(1, "a", "x"), rawRec(2, "panic"), rec(3, "b", "x")), dedupe.Tally{In: 3, New: 2, DeadLettered: 1, Out: 2})
	b.wantDeadLetters(2)
}

// unreadable fails for records with the id "a". Its error contains the record.
type unreadable struct{ dedupe.Format }

func (u unreadable) Read(ctx context.Context, payload []byte) (format.Fields, error) {
	fields, err := u.Format.Read(ctx, payload)
	if err != nil || fields.ID != "a" {
		return fields, err
	}
	return format.Fields{}, errors.New("cannot read " + string(payload))
}

// unknownFormatError: the reason of a dead letter never contains data of the record.
func unknownFormatError(f *fixture) {
	b := f.bench()
	b.done(rec(1, "a", "x"))
	b.format = unreadable{b.format}
	b.wantTally(b.done(rec(2, "a", "y"), rec(3, "b", "x")), dedupe.Tally{In: 2, DeadLettered: 1, New: 1, Out: 1})
	b.wantReason(2, "it cannot be handled (*errors.errorString)")
}

// wantReason wants exactly one dead letter, of record n, with this reason.
func (b *bench) wantReason(n int, reason string) {
	b.Helper()
	b.wantDeadLetters(n)
	for _, letter := range b.deadLetters.byOwner {
		if letter.Reason != reason || !letter.Arrival.Equal(rec(n, "", "").Arrival) {
			b.Errorf("want reason %q, got %+v", reason, letter)
		}
	}
}

func aggregates(f *fixture) {
	b := f.bench()
	first := aggregate(1, payload(10, "a", "x"), payload(11, "b", "x"), payload(12, "a", "x"), []byte("?"))
	b.wantTally(b.done(first, rec(2, "b", "x"), rec(3, "c", "x")),
		dedupe.Tally{In: 6, New: 3, Natural: 2, DeadLettered: 1, Out: 3})
	b.wantTally(b.done(first), dedupe.Tally{In: 4, Retry: 2, Natural: 1, DeadLettered: 1, Out: 2})
	b.wantDelivered(delivery{"a", 10}, delivery{"b", 11}, delivery{"c", 3}, delivery{"a", 10}, delivery{"b", 11})
	for owner, letter := range b.deadLetters.byOwner {
		if want := stream.String() + "/" + shard + "/1#3"; owner != want || letter.PartitionKey != "own" || letter.ExplicitHashKey != "7" {
			b.Errorf("want the fourth user record dead-lettered as %s with its own keys, got %s, %+v", want, owner, letter)
		}
	}

	broken := aggregate(4, payload(40, "d", "x"))
	broken.Data = resigned(broken.Data, 0xff)
	b.deadLetters.byOwner = map[string]dedupe.DeadLetter{}
	b.wantTally(b.done(broken, rec(5, "e", "x")), dedupe.Tally{In: 2, New: 1, DeadLettered: 1, Out: 1})
	b.wantDeadLetters(4)
}

// resigned changes the first byte of an aggregate's message and corrects the digest.
func resigned(aggregate []byte, first byte) []byte {
	const magic = 4
	message := slices.Clone(aggregate[magic : len(aggregate)-md5.Size])
	message[0] = first
	digest := md5.Sum(message)
	return slices.Concat(aggregate[:magic], message, digest[:])
}
