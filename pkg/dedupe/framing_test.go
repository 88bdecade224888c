package dedupe_test

import (
	"bytes"
	"context"
	"errors"
	"strings"

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
}

// lines is a Framing of lines after a marker.
type lines struct{}

const lineMark = "lines\n"

func (lines) Open(_ context.Context, payload []byte) ([][]byte, bool, error) {
	text, ok := strings.CutPrefix(string(payload), lineMark)
	switch {
	case !ok:
		return nil, false, nil
	case text == "broken":
		return nil, false, &format.BadRecord{Reason: "broken lines"}
	case text == "":
		return nil, true, nil
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
	b.framing, b.sink.raw = lines{}, true
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
