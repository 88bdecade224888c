// Package framing opens payloads that hold several records, for a dedupe.Processor: each record is then decided by
// itself. Every type is a dedupe.Framing without settings, and safe for concurrent use.
//
//	lines         Lines         {"id":1}\n{"id":2}\n     a record is a line; blank lines are skipped
//	array         Array         [{"id":1},{"id":2}]      a record is an element
//	concatenated  Concatenated  {"id":1}{"id":2}         a record is a JSON value, as Firehose joins them
//	logs          Logs          gzip of CloudWatch Logs  a record is a log event
//	snowplow      Snowplow      gzip or zstd of events   a record is an enriched event
//
// A payload that does not have the form of its framing, such as an object where arrays are expected, is a record by
// itself. A payload that begins in the form and then breaks it is poison as a whole: what is behind the break is not
// known.
//
// The records that are left of a payload go on in its form, with its separators. With Single each goes on by itself.
//
// The number of a record in its payload is a part of its owner. So a program must not change its framing while records
// are undone: a record that then comes again has another owner, and is dropped as a copy of itself.
package framing

import (
	"bytes"
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/jsonscan"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The reasons for which a payload is poison as a whole.
const (
	reasonArray        = "a JSON array that is broken"
	reasonConcatenated = "JSON values, and behind them something that is none"
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

// Single is a framing whose records go on one by one: for a destination that reads no frames.
func Single(f dedupe.Framing) dedupe.Framing { return single{f} }

type single struct{ dedupe.Framing }

func (single) Pack([]byte, [][]byte) ([]byte, error) { return nil, nil }

// Lines opens payloads of lines that end with LF or CR LF.
type Lines struct{}

// Open returns the lines that are not blank.
func (Lines) Open(_ context.Context, payload []byte) (records [][]byte, framed bool, err error) {
	if !bytes.Contains(payload, lineFeed) || len(bytes.TrimSpace(payload)) == 0 {
		return nil, false, nil
	}
	for line := range bytes.SplitSeq(payload, lineFeed) {
		if len(bytes.TrimSpace(line)) > 0 {
			records = append(records, bytes.TrimSuffix(line, []byte("\r")))
		}
	}
	return records, true, nil
}

var lineFeed = []byte("\n")

// Pack joins lines by the first line end of the original, with one at the end if the original has one there.
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

// maxLevels is the deepest nesting of a record, as in package format, in an array.
const maxLevels = format.MaxDepth + 1

// Array opens payloads that are JSON arrays.
type Array struct{}

// Open returns the elements as they are written. An empty array has no records. The format of the records decides
// whether an element is a record.
func (Array) Open(_ context.Context, payload []byte) (records [][]byte, framed bool, err error) {
	text := jsonscan.Text(payload)
	at := text.Space(0)
	if text.At(at) != '[' {
		return nil, false, nil
	}
	if at = text.Space(at + 1); text.At(at) == ']' {
		return endArray(text, at+1, nil)
	}
	for {
		to := text.Skip(at, maxLevels)
		if to < 0 {
			return nil, false, &format.BadRecord{Reason: reasonArray}
		}
		records = append(records, payload[at:to])
		switch at = text.Space(to); text.At(at) {
		case ',':
			at = text.Space(at + 1)
		case ']':
			return endArray(text, at+1, records)
		default:
			return nil, false, &format.BadRecord{Reason: reasonArray}
		}
	}
}

// endArray returns the records of an array if only white space is behind it.
func endArray(text jsonscan.Text, at int, all [][]byte) (records [][]byte, framed bool, err error) {
	if text.Space(at) != len(text) {
		return nil, false, &format.BadRecord{Reason: reasonArray}
	}
	return all, true, nil
}

// Pack makes an array.
func (Array) Pack(_ []byte, records [][]byte) ([]byte, error) {
	return fmt.Appendf(nil, "[%s]", bytes.Join(records, []byte(","))), nil
}

// Concatenated opens payloads of JSON values, with white space or nothing between them.
type Concatenated struct{}

// Open returns the values. A payload with one value is a record by itself.
func (Concatenated) Open(_ context.Context, payload []byte) (records [][]byte, framed bool, err error) {
	spans := values(payload)
	for _, s := range spans {
		if s.to < 0 {
			return nil, false, &format.BadRecord{Reason: reasonConcatenated}
		}
		records = append(records, payload[s.from:s.to])
	}
	if len(records) < 2 {
		return nil, false, nil
	}
	return records, true, nil
}

// Pack joins values by what is between the first two of the original, with what is behind the last one there.
func (Concatenated) Pack(original []byte, records [][]byte) ([]byte, error) {
	spans := values(original)
	first, second, last := spans[0], spans[1], spans[len(spans)-1]
	return append(bytes.Join(records, original[first.to:second.from]), original[last.to:]...), nil
}

// span is a part of a payload. to is below 0 if there is no value.
type span struct{ from, to int }

// values returns where the values are. It returns none if the first one is none.
func values(payload []byte) (spans []span) {
	text := jsonscan.Text(payload)
	for at := text.Space(0); at < len(text); {
		s := span{at, text.Skip(at, maxLevels)}
		if s.to < 0 && len(spans) == 0 {
			return nil
		}
		if spans = append(spans, s); s.to < 0 {
			return spans
		}
		at = text.Space(s.to)
	}
	return spans
}
