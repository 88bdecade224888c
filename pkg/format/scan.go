package format

import (
	"bytes"
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
)

// MaxDepth is the deepest nesting of a record; the record itself is level 1. Without a limit, a few megabytes of
// brackets overflow the stack, which ends the process. 1,000 is also the default of Jackson 2.15 and later, which led
// to no complaints (jackson-core issue 1233). Jackson 3 has 500.
const MaxDepth = 1000

// span is a part of a record: the bytes from one index up to another. A value is never empty, so the zero span means
// "no value".
type span struct{ from, to int }

func (s span) of(text []byte) []byte { return text[s.from:s.to] }

// node is a value in the table of a scan. Its inner values follow it directly, up to next.
type node struct {
	name        span // of a member, without its quotes
	value       span
	next        int
	nameEscaped bool // the name has escapes
	escaped     bool // the value is a string that has escapes
	leftOut     bool
	host        bool
}

// scan reads one record. It writes into slices of fixed length and keeps no pointer, so that they can be on the
// caller's stack.
type scan struct {
	text  jsonscan.Text
	found []span // the first value of each place, by the number of the place
	nodes []node // the table of values; values beyond its length are only counted
	count int    // the number of values
	twice bool   // a place that must be there once is there again
}

// record checks the whole record and finds the values of the places.
func (s *scan) record(root *place) *BadRecord {
	begin := s.text.Space(0)
	end := s.value(begin, 1, root, node{})
	if end >= 0 && s.text.Space(end) != len(s.text) {
		end = jsonscan.NotJSON
	}
	switch {
	case end == jsonscan.TooDeep:
		return bad(reasonTooDeep)
	case end < 0:
		return bad(reasonNotJSON)
	case s.text[begin] != '{':
		return bad(reasonNotObject)
	case s.twice:
		return bad(reasonTwice)
	}
	return nil
}

// tabulate scans a record with a table of all its values.
func (t *tree) tabulate(record []byte) (*scan, *BadRecord) {
	counted := &scan{text: record, found: make([]span, t.count)}
	if err := counted.record(t.root); err != nil {
		return nil, err
	}
	s := &scan{text: record, found: make([]span, t.count), nodes: make([]node, counted.count)}
	return s, s.record(t.root)
}

// meaning returns the meaning of the name of node n.
func (s *scan) meaning(n int) string {
	return string(appendText(nil, s.nodes[n].name.of(s.text), s.nodes[n].nameEscaped))
}

// value scans the value that begins at i and returns its end. n has its name.
func (s *scan) value(i, depth int, at *place, n node) int {
	number := s.count
	s.count++
	var end int
	switch s.text.At(i) {
	case '{':
		end = s.object(i, depth, at)
	case '[':
		end = s.array(i, depth, at)
	case '"':
		end, n.escaped = s.text.String(i)
	case 't':
		end = s.text.Literal(i, "true")
	case 'f':
		end = s.text.Literal(i, "false")
	case 'n':
		end = s.text.Literal(i, "null")
	default:
		end = s.text.Number(i)
	}
	if end < 0 {
		return end
	}
	n.value = span{i, end}
	switch {
	case at == nil:
	case s.found[at.number].to == 0:
		s.found[at.number] = n.value
		n.leftOut, n.host = at.leftOut, at.host
	case at.once:
		s.twice = true
	}
	if number < len(s.nodes) {
		n.next = s.count
		s.nodes[number] = n
	}
	return end
}

func (s *scan) object(i, depth int, at *place) int {
	if depth > MaxDepth {
		return jsonscan.TooDeep
	}
	i = s.text.Space(i + 1)
	if s.text.At(i) == '}' {
		return i + 1
	}
	for {
		if s.text.At(i) != '"' {
			return jsonscan.NotJSON
		}
		end, escaped := s.text.String(i)
		if end < 0 {
			return end
		}
		n := node{name: span{i + 1, end - 1}, nameEscaped: escaped}
		if i = s.text.Space(end); s.text.At(i) != ':' {
			return jsonscan.NotJSON
		}
		i = s.value(s.text.Space(i+1), depth+1, at.member(n.name.of(s.text), escaped), n)
		if i < 0 {
			return i
		}
		switch i = s.text.Space(i); s.text.At(i) {
		case ',':
			i = s.text.Space(i + 1)
		case '}':
			return i + 1
		default:
			return jsonscan.NotJSON
		}
	}
}

func (s *scan) array(i, depth int, at *place) int {
	if depth > MaxDepth {
		return jsonscan.TooDeep
	}
	i = s.text.Space(i + 1)
	if s.text.At(i) == ']' {
		return i + 1
	}
	for index := 0; ; index++ {
		i = s.value(i, depth+1, at.element(index), node{})
		if i < 0 {
			return i
		}
		switch i = s.text.Space(i); s.text.At(i) {
		case ',':
			i = s.text.Space(i + 1)
		case ']':
			return i + 1
		default:
			return jsonscan.NotJSON
		}
	}
}

// appendText appends the meaning of a scanned string, without its quotes. Strings that are not Unicode also stay
// distinct: invalid UTF-8 stays unchanged, U+0000 becomes the bytes 0 0, and half of a surrogate pair becomes the
// byte 0 and its two bytes, of which the first is D8 to DF. So different strings give different bytes, and a byte
// from 1 to D7 never follows the byte 0.
func appendText(out, raw []byte, escaped bool) []byte {
	if !escaped {
		return append(out, raw...)
	}
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		var r rune
		switch r, i = unescape(raw, i); {
		case r == 0:
			out = append(out, 0, 0)
		case utf16.IsSurrogate(r):
			out = append(out, 0, byte(r>>8), byte(r))
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// unicodeText returns the meaning of a scanned string, and whether it is Unicode.
func unicodeText(raw []byte) (string, bool) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), utf8.Valid(raw)
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		var r rune
		if r, i = unescape(raw, i); utf16.IsSurrogate(r) {
			return "", false
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out), utf8.Valid(out)
}

// unescape reads the escape at i of a scanned string and returns the index after it. A surrogate pair is one rune.
// Half of a pair is returned unchanged.
func unescape(raw []byte, i int) (r rune, next int) {
	switch c := raw[i+1]; c {
	case 'b':
		return '\b', i + 2
	case 'f':
		return '\f', i + 2
	case 'n':
		return '\n', i + 2
	case 'r':
		return '\r', i + 2
	case 't':
		return '\t', i + 2
	case 'u':
		r, i = codeUnit(raw, i), i+6
	default:
		return rune(c), i + 2
	}
	if utf16.IsSurrogate(r) && len(raw)-i >= 6 && raw[i] == '\\' && raw[i+1] == 'u' {
		if pair := utf16.DecodeRune(r, codeUnit(raw, i)); pair != utf8.RuneError {
			return pair, i + 6
		}
	}
	return r, i
}

// codeUnit reads the four digits of the escape \u at i.
func codeUnit(raw []byte, i int) rune {
	var unit [2]byte
	hex.Decode(unit[:], raw[i+2:i+6]) //nolint:errcheck,gosec // the scan has checked the digits
	return rune(unit[0])<<8 | rune(unit[1])
}
