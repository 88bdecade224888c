package format

import (
	"bytes"
	"context"
	"math"
	"slices"
)

// duplicateSchema is Snowplow's schema of the context that a synthetic duplicate gets. Snowplow's loader writes the
// same context (iglu-central, schema "duplicate").
const duplicateSchema = "iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0"

// edit replaces a span of a record. The span may be empty.
type edit struct {
	at   span
	with []byte
}

// Rename returns a copy of the record in which the id is newID, and the contexts begin with a duplicate context that
// has oldID. No other byte changes. If the array is absent or null, Rename makes it, and also the objects on the path
// to it. If another value is there, the error is a *BadRecord. Rename also returns a *BadRecord for a record whose
// form or id Read refuses.
//
// Read of the copy returns newID, and the same other fields as before. Both ids must be Unicode, as Read and
// DerivedID return them. Rename does not check whether oldID is the id of the record.
func (f *JSON) Rename(_ context.Context, record []byte, oldID, newID string) ([]byte, error) {
	var space [usualPlaces]span
	s := scan{text: record, found: f.room(space[:])}
	if err := s.record(f.tree.root); err != nil {
		return nil, err
	}
	if _, err := s.required(f.id, "id", math.MaxInt); err != nil {
		return nil, err
	}
	addition, err := f.addContext(&s, oldID)
	if err != nil {
		return nil, err
	}
	return splice(record, edit{s.found[f.id.number], appendQuoted(nil, newID)}, addition), nil
}

// addContext returns the edit that puts the duplicate context before the others.
func (f *JSON) addContext(s *scan, oldID string) (edit, *BadRecord) {
	context := appendContext(nil, oldID)
	last := len(f.contexts) - 1
	found := last
	for s.found[f.contexts[found].number].to == 0 {
		found--
	}
	at := s.found[f.contexts[found].number]
	first := s.text[at.from]
	switch {
	case found < last && first != '{':
		return edit{}, bad(reasonNoParent)
	case found < last:
		return s.insertMember(at, f.contexts[found+1:], context), nil
	case first == '[':
		return s.insertElement(at, context), nil
	case first == 'n':
		return edit{at, slices.Concat([]byte("["), context, []byte("]"))}, nil
	default:
		return edit{}, bad(reasonNoContexts)
	}
}

// insertElement puts an element before the others of an array.
func (s *scan) insertElement(array span, element []byte) edit {
	if s.text[s.text.Space(array.from+1)] != ']' {
		element = append(element, ',')
	}
	return edit{span{array.from + 1, array.from + 1}, element}
}

// insertMember puts a member after the others of an object. If there are several names, the member has nested
// objects, and the innermost has an array of one element.
func (s *scan) insertMember(object span, names []*place, element []byte) edit {
	var member []byte
	if s.text[s.text.Space(object.from+1)] != '}' {
		member = append(member, ',')
	}
	for i, name := range names {
		if i > 0 {
			member = append(member, '{')
		}
		member = append(appendQuoted(member, name.name), ':')
	}
	member = append(append(append(member, '['), element...), ']')
	member = append(member, bytes.Repeat([]byte("}"), len(names)-1)...)
	return edit{span{object.to - 1, object.to - 1}, member}
}

// splice makes two edits that do not overlap.
func splice(record []byte, a, b edit) []byte {
	if b.at.from < a.at.from {
		a, b = b, a
	}
	return slices.Concat(record[:a.at.from], a.with, record[a.at.to:b.at.from], b.with, record[b.at.to:])
}

func appendContext(out []byte, oldID string) []byte {
	out = append(out, `{"schema":"`+duplicateSchema+`","data":{"originalEventId":`...)
	out = appendQuoted(out, oldID)
	return append(out, "}}"...)
}

// appendQuoted appends a text as a JSON string with the necessary escapes only. (encoding/json also escapes for HTML.)
func appendQuoted(out []byte, text string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ':
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
