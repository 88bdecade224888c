// Package framing opens payloads that hold several records, for a dedupe.Processor: each record is then decided
// alone. Every type is a dedupe.Framing without settings, and safe for concurrent use.
//
//	lines         Lines         {"id":1}\n{"id":2}\n     a record is a line; blank lines are skipped
//	array         Array         [{"id":1},{"id":2}]      a record is an element
//	concatenated  Concatenated  {"id":1}{"id":2}         a record is a JSON value, as Firehose joins them
//	logs          Logs          gzip of CloudWatch Logs  a record is a log event
//	snowplow      Snowplow      gzip or zstd of events   a record is an enriched event
//
// A payload that does not have the form of its framing is a single record, for example an object where arrays are
// expected. A payload that begins in the form and then breaks it is poison as a whole, because the rest cannot be
// read. So is a payload that has no room: package dedupe limits the records and the bytes to which it may open.
//
// The records of a payload that are not dropped are sent in its form, with its separators. With Single each is sent
// alone.
//
// The number of a record in its payload is a part of its owner. So a program must not change its framing while
// records are not done: a record that then comes again has another owner, and is dropped as a copy of itself.
package framing

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The errors with which a payload is poison as a whole.
var (
	errArray        = &format.BadRecord{Reason: "a broken JSON array"}
	errConcatenated = &format.BadRecord{Reason: "the payload has text after its last JSON value"}
)

// Named returns the framing of a name: lines, array, concatenated, logs or snowplow.
func Named(name string) (dedupe.Framing, error) {
	switch name {
	case "lines":
		return Lines{}, nil
	case "array":
		return Array{}, nil
	case "concatenated":
		return Concatenated{}, nil
	case "logs":
		return Logs{}, nil
	case "snowplow":
		return Snowplow{}, nil
	}
	return nil, fmt.Errorf("%q is not a framing: use lines, array, concatenated, logs or snowplow", name)
}

// Single is a framing whose records are sent alone, for a destination that cannot read frames.
func Single(f dedupe.Framing) dedupe.Framing { return single{f} }

type single struct{ dedupe.Framing }

func (single) Pack([]byte, [][]byte) ([]byte, error) { return nil, nil }

// Lines opens payloads of lines that end with LF or CR LF.
type Lines struct{}

// Open returns the lines that are not blank.
func (Lines) Open(_ context.Context, payload []byte, room *dedupe.Room) (records [][]byte, framed bool, err error) {
	if !bytes.Contains(payload, lineFeed) || len(bytes.TrimSpace(payload)) == 0 {
		return nil, false, nil
	}
	for line := range bytes.SplitSeq(payload, lineFeed) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := room.Take(1, 0); err != nil {
			return nil, false, err
		}
		records = append(records, bytes.TrimSuffix(line, []byte("\r")))
	}
	return records, true, nil
}

var lineFeed = []byte("\n")

// Pack joins lines by the first line end of the original. The last line has a line end if it has one in the original.
func (Lines) Pack(original []byte, records [][]byte) ([]byte, error) {
	end := lineFeed
	if first, _, _ := bytes.Cut(original, lineFeed); bytes.HasSuffix(first, []byte("\r")) {
		end = []byte("\r\n")
	}
	payload := bytes.Join(records, end)
	if bytes.HasSuffix(original, lineFeed) {
		payload = append(payload, end...)
	}
	return payload, nil
}

// maxLevels is the deepest nesting in an array: one more than package format allows for a record.
const maxLevels = format.MaxDepth + 1

// Array opens payloads that are JSON arrays.
type Array struct{}

// Open returns the elements unchanged. An empty array has no records. The format of the records decides whether an
// element is a valid record.
func (Array) Open(_ context.Context, payload []byte, room *dedupe.Room) (records [][]byte, framed bool, err error) {
	if text := jsonscan.Text(payload); text.At(text.Space(0)) != '[' {
		return nil, false, nil
	}
	err = elements(payload, maxLevels, func(element []byte) error {
		if err := room.Take(1, 0); err != nil {
			return err
		}
		records = append(records, element)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return records, true, nil
}

// elements calls add with each element of a JSON array, until add returns an error. levels is the deepest nesting of
// an element.
func elements(text jsonscan.Text, levels int, add func(element []byte) error) error {
	at := text.Space(0)
	if text.At(at) != '[' {
		return errArray
	}
	if at = text.Space(at + 1); text.At(at) == ']' {
		return endArray(text, at+1)
	}
	for {
		to := text.Skip(at, levels)
		if to < 0 {
			return errArray
		}
		if err := add(text[at:to]); err != nil {
			return err
		}
		switch at = text.Space(to); text.At(at) {
		case ',':
			at = text.Space(at + 1)
		case ']':
			return endArray(text, at+1)
		default:
			return errArray
		}
	}
}

// endArray checks that only white space follows an array.
func endArray(text jsonscan.Text, at int) error {
	if text.Space(at) != len(text) {
		return errArray
	}
	return nil
}

// Pack makes an array.
func (Array) Pack(_ []byte, records [][]byte) ([]byte, error) {
	return fmt.Appendf(nil, "[%s]", bytes.Join(records, []byte(","))), nil
}

// Concatenated opens payloads of JSON values, with white space or nothing between them.
type Concatenated struct{}

// Open returns the values. A payload with one value is a single record.
func (Concatenated) Open(
	_ context.Context, payload []byte, room *dedupe.Room,
) (records [][]byte, framed bool, err error) {
	for s := range values(payload) {
		if s.to < 0 {
			return nil, false, errConcatenated
		}
		if err := room.Take(1, 0); err != nil {
			return nil, false, err
		}
		records = append(records, payload[s.from:s.to])
	}
	if len(records) < 2 {
		return nil, false, nil
	}
	return records, true, nil
}

// Pack joins values by the text between the first two values of the original. It ends with the text after the last
// one.
func (Concatenated) Pack(original []byte, records [][]byte) ([]byte, error) {
	var separator, end []byte
	last := -1
	for s := range values(original) {
		if last >= 0 && separator == nil {
			separator = original[last:s.from:s.from]
		}
		last, end = s.to, original[s.to:]
	}
	return append(bytes.Join(records, separator), end...), nil
}

// span is a part of a payload. If there is no value, to is below 0.
type span struct{ from, to int }

// values returns the spans of the values. There are none if the payload does not begin with a value.
func values(payload []byte) iter.Seq[span] {
	return func(yield func(span) bool) {
		text := jsonscan.Text(payload)
		begin := text.Space(0)
		for at := begin; at < len(text); {
			s := span{at, text.Skip(at, maxLevels)}
			if s.to > 0 && s.to < len(text) && isWord(text[at]) && !jsonscan.EndsWord(text[s.to]) {
				s.to = jsonscan.NotJSON
			}
			if s.to < 0 && at == begin || !yield(s) || s.to < 0 {
				return
			}
			at = text.Space(s.to)
		}
	}
}

// isWord reports whether a value that begins with this byte is a number or a literal.
func isWord(begin byte) bool { return begin != '{' && begin != '[' && begin != '"' }
