package recordhandler

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
)

// This file reads the JSON of a Kinesis event. With encoding/json this would take longer than all other work on the
// records (docs/adr/0003-dependencies.md). Strings with escapes or with invalid UTF-8 are rare. encoding/json reads
// them, so that they get the same meaning.
//
// The result is the same as that of encoding/json for events.KinesisEvent, with three exceptions. Lambda does not
// send these, and JSON readers treat them differently, so they are refused: a known name twice in an object, a known
// name in another case, such as "Data", and data as a list of numbers.

// maxLevels is the deepest nesting of an event. encoding/json has the same limit.
const maxLevels = 10_000

// The known names of an event. Names that the handler does not use are checked too: if their values are not strings,
// the event is of another kind.
var (
	eventNames  = []string{"Records"}
	recordNames = []string{
		"kinesis", "eventVersion", "eventID", "eventName", "invokeIdentityArn", "awsRegion", "eventSource", "eventSourceARN",
	}
	kinesisNames = []string{
		"kinesisSchemaVersion", "partitionKey", "sequenceNumber", "data", "approximateArrivalTimestamp", "encryptionType",
	}
)

// eventRecord is a record of an event. Strings without escapes are parts of the event.
type eventRecord struct {
	source, arn, id        []byte
	sequence, partitionKey []byte
	arrival                float64 // in milliseconds
	data                   []byte
}

// eventReader reads an event. Each method reads one value and moves past it. null counts as absent.
type eventReader struct {
	text jsonscan.Text
	at   int
	data []byte // of all records, in one buffer; at most three quarters of the size of the event
	add  func(r eventRecord) error
}

// readEvent reads an event and calls add for each record, in order. found reports whether the event has a list of
// records. Errors: ErrNotKinesis, and the errors of add.
func readEvent(raw []byte, add func(r eventRecord) error) (found bool, err error) {
	r := &eventReader{text: raw, data: make([]byte, 0, base64.StdEncoding.DecodedLen(len(raw))), add: add}
	r.at = r.text.Space(0)
	err = r.object("the event", eventNames, 1, func(name string) error {
		found = r.text.At(r.at) == '['
		return r.list('[', name, r.record)
	})
	if err == nil && r.text.Space(r.at) != len(raw) {
		err = r.notJSON()
	}
	return found, err
}

func (r *eventReader) record() error {
	var record eventRecord
	err := r.object("a record", recordNames, 3, func(name string) (err error) {
		switch name {
		case "kinesis":
			err = r.kinesis(&record)
		case "eventID":
			record.id, err = r.string(name)
		case "eventSource":
			record.source, err = r.string(name)
		case "eventSourceARN":
			record.arn, err = r.string(name)
		default:
			_, err = r.string(name)
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.add(record)
}

func (r *eventReader) kinesis(record *eventRecord) error {
	return r.object("kinesis", kinesisNames, 4, func(name string) (err error) {
		switch name {
		case "partitionKey":
			record.partitionKey, err = r.string(name)
		case "sequenceNumber":
			record.sequence, err = r.string(name)
		case "approximateArrivalTimestamp":
			record.arrival, err = r.milliseconds(name)
		case "data":
			record.data, err = r.base64(name)
		default:
			_, err = r.string(name)
		}
		return err
	})
}

// object reads an object at a level of nesting. member reads the values of known names. Other members are skipped.
func (r *eventReader) object(what string, known []string, level int, member func(name string) error) error {
	seen := 0 // bit i: known[i]
	return r.list('{', what, func() error {
		name, err := r.memberName()
		if err != nil {
			return err
		}
		for i, k := range known {
			if string(name) != k {
				continue
			}
			if seen&(1<<i) != 0 {
				return notKinesis(k + " occurs twice")
			}
			seen |= 1 << i
			return member(k)
		}
		for _, k := range known {
			if strings.EqualFold(string(name), k) {
				return notKinesis(k + " is in other upper and lower case")
			}
		}
		return r.skip(maxLevels - level)
	})
}

// memberName reads the name of a member, and the text between the name and the value.
func (r *eventReader) memberName() ([]byte, error) {
	if r.text.At(r.at) != '"' {
		return nil, r.notJSON()
	}
	name, err := r.string("a name")
	if err != nil {
		return nil, err
	}
	r.at = r.text.Space(r.at)
	if r.text.At(r.at) != ':' {
		return nil, r.notJSON()
	}
	r.at = r.text.Space(r.at + 1)
	return name, nil
}

// list reads an array or an object, depending on begin. what is its name in errors. next reads one element, or one
// member with its name.
func (r *eventReader) list(begin byte, what string, next func() error) error {
	if r.text.At(r.at) != begin {
		return r.nothing(what)
	}
	end := begin + 2 // [ and ], { and }
	r.at = r.text.Space(r.at + 1)
	if r.text.At(r.at) == end {
		r.at++
		return nil
	}
	for {
		if err := next(); err != nil {
			return err
		}
		r.at = r.text.Space(r.at)
		switch r.text.At(r.at) {
		case ',':
			r.at = r.text.Space(r.at + 1)
		case end:
			r.at++
			return nil
		default:
			return r.notJSON()
		}
	}
}

func (r *eventReader) string(what string) ([]byte, error) {
	if r.text.At(r.at) != '"' {
		return nil, r.nothing(what)
	}
	end, escaped := r.text.String(r.at)
	if end < 0 {
		return nil, r.notJSON()
	}
	quoted := r.text[r.at:end]
	r.at = end
	if text := quoted[1 : len(quoted)-1]; !escaped && utf8.Valid(text) {
		return text, nil
	}
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return nil, r.notJSON()
	}
	return []byte(text), nil
}

// base64 decodes a string into the buffer for data. It decodes data in Lambda's form without a scan before: a string
// that can be decoded has no escapes.
func (r *eventReader) base64(what string) ([]byte, error) {
	if r.text.At(r.at) == '"' {
		text, _, _ := bytes.Cut(r.text[r.at+1:], []byte(`"`))
		data, err := base64.StdEncoding.AppendDecode(r.data, text)
		if err == nil && !hasLineBreaks(text) {
			begin := len(r.data)
			r.at += len(text) + len(`""`)
			r.data = data
			return data[begin:len(data):len(data)], nil
		}
	}
	text, err := r.string(what)
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return nil, notKinesis(what + " is not base64")
	}
	return data, nil
}

// hasLineBreaks reports whether a text has the characters that package base64 skips. JSON allows them only as
// escapes.
func hasLineBreaks(text []byte) bool {
	return bytes.IndexByte(text, '\n') >= 0 || bytes.IndexByte(text, '\r') >= 0
}

// milliseconds reads a number of seconds with a fraction.
func (r *eventReader) milliseconds(what string) (float64, error) {
	end := r.text.Number(r.at)
	if end < 0 {
		return 0, r.nothing(what)
	}
	seconds, _ := strconv.ParseFloat(string(r.text[r.at:end]), 64) // infinite if the number is too large
	r.at = end
	return seconds * 1000, nil
}

// nothing reads a value that does not have the type of its name. null is allowed; any other value is an error.
func (r *eventReader) nothing(what string) error {
	begin := r.at
	if err := r.skip(maxLevels); err != nil {
		return err
	}
	if r.text[begin] != 'n' {
		return notKinesis(fmt.Sprintf("%s has the wrong type (at byte %d)", what, begin))
	}
	return nil
}

func (r *eventReader) skip(levels int) error {
	end := r.text.Skip(r.at, levels)
	if end < 0 {
		return r.notJSON()
	}
	r.at = end
	return nil
}

func (r *eventReader) notJSON() error {
	return notKinesis(fmt.Sprintf("not JSON (at or after byte %d)", r.at))
}
