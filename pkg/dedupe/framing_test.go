package dedupe_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var framingCases = []testCase{
	{"framing/opened-and-packed", framed},
	{"framing/each-by-itself", framedApart},
	{"framing/inside-an-aggregate", framedInAggregate},
	{"framing/broken", brokenFrame},
	{"framing/packed-too-large", packedTooLarge},
	{"framing/too-large-only-when-packed", tooLargeOnlyPacked},
	{"framing/nothing-to-deliver", emptyFrame},
	{"framing/too-much", tooMuch},
	{"framing/too-much-in-an-aggregate", tooMuchInAggregate},
	{"framing/chunks-end-when-much-is-opened", muchInChunks},
}

// lines is a Framing of lines after a marker.
type lines struct{}

const (
	lineMark    = "lines\n"
	paddingMark = "MiB\n" // each byte before it takes room for 1 MiB, as if it were compressed
)

// large is a frame that opens to some MiB.
func large(mib int, payloads ...[]byte) []byte {
	text, _ := bytes.CutPrefix(frame(payloads...), []byte(lineMark))
	return slices.Concat([]byte(lineMark), bytes.Repeat([]byte("z"), mib), []byte(paddingMark), text)
}

func (lines) Open(_ context.Context, payload []byte, room *dedupe.Room) ([][]byte, bool, error) {
	text, ok := strings.CutPrefix(string(payload), lineMark)
	switch {
	case !ok:
		return nil, false, nil
	case text == "broken":
		return nil, false, &format.BadRecord{Reason: "broken lines"}
	case text == "":
		return nil, true, nil
	}
	size := 0
	if padding, rest, ok := strings.Cut(text, paddingMark); ok {
		size, text = len(padding)<<20, rest
	}
	if err := room.Take(strings.Count(text, "\n")+1, size); err != nil {
		return nil, false, err
	}
	return bytes.Split([]byte(text), []byte("\n")), true, nil
}

func (lines) Pack(original []byte, records [][]byte) ([]byte, error) {
	if !bytes.HasPrefix(original, []byte(lineMark)) {
		return nil, errors.New("they did not come in lines")
	}
	return append([]byte(lineMark), bytes.Join(records, []byte("\n"))...), nil
}

func frame(payloads ...[]byte) []byte {
	packed, _ := lines{}.Pack([]byte(lineMark), payloads) // it never fails
	return packed
}

func frameRec(n int, payloads ...[]byte) dedupe.Record { return rawRec(n, string(frame(payloads...))) }

// wantSent compares the payloads that the sink got.
func (b *bench) wantSent(want ...[]byte) {
	b.Helper()
	if len(b.sink.outputs) != len(want) {
		b.Fatalf("want %d outputs, got %v", len(want), b.sink.outputs)
	}
	for i, o := range b.sink.outputs {
		if !bytes.Equal(o.Data, want[i]) {
			b.Errorf("output %d: want %q, got %q", i, want[i], o.Data)
		}
	}
}

func (f *fixture) framedBench() *bench {
	b := f.bench()
	b.framing, b.sink.raw, b.settings.OpenedBytes = lines{}, true, 32<<20
	return b
}

// framed: each record in a frame is decided alone. The records of a frame that are not dropped are sent in one frame.
func framed(f *fixture) {
	b := f.framedBench()
	frames := []dedupe.Record{
		frameRec(1, payload(1, "a", "x"), payload(2, "a", "x"), payload(3, "b", "x")), rec(2, "c", "x"),
		frameRec(3, payload(4, "a", "x")),
	}
	b.wantTally(b.done(frames...), dedupe.Tally{In: 5, New: 3, Natural: 2, Out: 3})
	b.wantSent(frame(payload(1, "a", "x"), payload(3, "b", "x")), payload(2, "c", "x"))
	b.wantTally(b.done(frames...), dedupe.Tally{In: 5, Retry: 3, Natural: 2, Out: 3})
}

// framedApart: records of two frames are never packed together, because they may have different partition keys.
func framedApart(f *fixture) {
	b := f.framedBench()
	one, two := frameRec(1, payload(1, "a", "x")), frameRec(2, payload(2, "b", "x"))
	two.PartitionKey = "other"
	b.done(one, two)
	b.wantSent(one.Data, two.Data)
	if first, second := b.sink.outputs[0].PartitionKey, b.sink.outputs[1].PartitionKey; first != "pk" || second != "other" {
		b.Errorf("partition keys %q and %q", first, second)
	}
}

// framedInAggregate: the parts of an aggregate and the records in their frames are numbered in one sequence.
func framedInAggregate(f *fixture) {
	b := f.framedBench()
	r := aggregate(1, payload(1, "a", "x"), frame(payload(2, "b", "x"), payload(3, "a", "x")), payload(4, "d", "x"))
	b.wantTally(b.done(r), dedupe.Tally{In: 4, New: 3, Natural: 1, Out: 3})
	b.wantTally(b.done(r), dedupe.Tally{In: 4, Retry: 3, Natural: 1, Out: 3})
}

// brokenFrame: a broken frame is poison as a whole, and blocks no other record.
func brokenFrame(f *fixture) {
	b := f.framedBench()
	b.wantTally(b.done(rawRec(1, lineMark+"broken"), rec(2, "a", "x")), dedupe.Tally{In: 2, New: 1, DeadLettered: 1, Out: 1})
	b.wantDeadLetters(1)
}

// packedTooLarge: a frame that is now too large for the sink is sent in two parts.
func packedTooLarge(f *fixture) {
	b := f.framedBench()
	b.sink.check = func(o dedupe.Output) error {
		if bytes.Count(o.Data, []byte("\n")) > 2 {
			return &dedupe.PoisonError{Reason: "too large"}
		}
		return nil
	}
	p := [][]byte{payload(1, "a", "x"), payload(2, "b", "x"), payload(3, "c", "x"), payload(4, "d", "x")}
	b.done(frameRec(1, p...))
	b.wantSent(frame(p[:2]...), frame(p[2:]...))
}

// tooLargeOnlyPacked: if the sink takes a record alone, but not in a frame, the record is sent alone. Otherwise its
// batch would fail each time.
func tooLargeOnlyPacked(f *fixture) {
	b := f.framedBench()
	p := [][]byte{payload(1, "a", "a long fingerprint"), payload(2, "b", "x")}
	b.sink.check = func(o dedupe.Output) error {
		if len(o.Data) > len(p[0]) {
			return &dedupe.PoisonError{Reason: "too large"}
		}
		return nil
	}
	b.wantTally(b.done(frameRec(1, p...)), dedupe.Tally{In: 2, New: 2, Out: 2})
	b.wantSent(p[0], frame(p[1]))
}

// emptyFrame: a frame without records is done.
func emptyFrame(f *fixture) {
	b := f.framedBench()
	b.wantTally(b.done(rawRec(1, lineMark), rec(2, "a", "x")), dedupe.Tally{In: 2, New: 1, Skipped: 1, Out: 1})
}

// wantTooMuch processes Kinesis record 2 behind another one. It must be one dead letter with all that it holds, again
// when it is redriven, and block nothing.
func (b *bench) wantTooMuch(record dedupe.Record) {
	b.Helper()
	b.wantTally(b.done(rec(1, "first", "x"), record, rec(3, "last", "x")),
		dedupe.Tally{In: 3, New: 2, DeadLettered: 1, Out: 2})
	b.wantDeadLetters(2)
	for _, letter := range b.deadLetters.byOwner {
		if !strings.Contains(letter.Reason, "100,000 records, or to more bytes") || !bytes.Equal(letter.Data, record.Data) {
			b.Errorf("the dead letter has the reason %q and %d bytes", letter.Reason, len(letter.Data))
		}
		if _, poison := errors.AsType[*dedupe.PoisonError](b.redrive(letter).Err); !poison {
			b.Error("a redrive delivered a record that opens to too much")
		}
	}
}

// tooMuch: a payload that opens to more than the limits is one dead letter, and so is an aggregate.
func tooMuch(f *fixture) {
	lines := bytes.Repeat([]byte("\n"), dedupe.MaxOpenedRecords) // this many and one
	b := f.framedBench()
	b.wantTooMuch(rawRec(2, lineMark+string(lines)))
	b = f.framedBench()
	b.wantTooMuch(rawRec(2, string(large(33, payload(1, "a", "x")))))
	b = f.framedBench()
	b.wantTooMuch(aggregate(2, make([][]byte, dedupe.MaxOpenedRecords+1)...))

	b = f.framedBench()
	b.wantTally(b.done(rawRec(1, string(large(32, payload(1, "a", "x"))))), dedupe.Tally{In: 1, New: 1, Out: 1})
	if err := dedupe.NewRoom().Take(dedupe.MaxOpenedRecords, dedupe.MaxOpenedBytes); err != nil {
		b.Errorf("a record at the limits: %v", err)
	}
}

// tooMuchInAggregate: the frames of an aggregate share the room. None of its parts takes its id: the producer, or an
// operator, can put them into the stream again in smaller records.
func tooMuchInAggregate(f *fixture) {
	b := f.framedBench()
	one, two := payload(1, "a", "x"), payload(2, "b", "x")
	b.wantTooMuch(aggregate(2, one, large(20, two), large(20, payload(3, "c", "x"))))
	b.wantTally(b.done(rawRec(4, string(one)), rawRec(5, string(large(20, two)))), dedupe.Tally{In: 2, New: 2, Out: 2})

	// Whether a part can be read now does not matter: no part may be delivered before the whole is a dead letter.
	b = f.framedBench()
	b.format = readFails{b.format, func(payload string) error {
		if payload == string(two) {
			return dedupe.ErrTryAgain
		}
		return nil
	}}
	b.wantTally(b.done(aggregate(1, one, two, large(33, one))), dedupe.Tally{In: 1, DeadLettered: 1})

	half := bytes.Repeat([]byte("\n"), dedupe.MaxOpenedRecords/2)
	b = f.framedBench()
	b.wantTooMuch(aggregate(2, append([]byte(lineMark), half...), append([]byte(lineMark), half...)))
}

// muchInChunks: a chunk ends when its frames have opened to 32 MiB. Otherwise a batch of small
// compressed records could take any memory, although each of them keeps to the limits.
func muchInChunks(f *fixture) {
	for _, whole := range []bool{false, true} {
		b := f.framedBench()
		b.settings.WholeBatch = whole
		var records []dedupe.Record
		for n := range 6 {
			records = append(records, rawRec(n+1, string(large(16, payload(n, string(rune('a'+n)), "x")))))
		}
		b.wantTally(b.done(records...), dedupe.Tally{In: 6, New: 6, Out: 6})
		if puts := b.calls[dedupefault.PutIfAbsent]; puts != 3 {
			b.Errorf("whole batch %t: want 3 chunks of 32 MiB, got %d", whole, puts)
		}
	}
}
