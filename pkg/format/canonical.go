package format

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// The canonical form is one byte string for all ways to write the same JSON document. Different documents have
// different canonical forms. The fingerprint is its SHA-256, in lower-case hexadecimal digits.
//
//	object  {  then each member, its name (as a string) and its value  }
//	array   [  then each element  ]
//	string  s  then its meaning (see appendText), then the bytes 0 1
//	number  n  then - if it is negative, digits, e, exponent, ;
//	others  t true, f false, z null
//
// Members are in the order of the bytes of their names' meaning. Members with the same name stay in the record's
// order, because JSON readers differ in which of them they use.
//
// The value of a number is its digits times ten to the exponent. The digits have no zeros at either end, so that a
// value has one form. Zero has no digits. Numbers are exact: they are never rounded, whatever the exponent. An
// exponent of more than 18 digits is not added to the other exponent, but follows it after a second e. Such numbers
// are equal only if they are written in the same way.
//
// The canonical form leaves out the id, the owner, the contexts and the volatile values. It also leaves out objects
// on the path to the contexts that are otherwise empty, because a rename may have made them. So a record has the same
// fingerprint before and after Rename.

// usualNodes is the number of values that fit on the stack. A record of 1 KB has about 40.
const usualNodes = 96

// compute returns the fingerprint of the scanned record.
func (f *JSON) compute(scanned *scan) string {
	var (
		places  [usualPlaces]span
		nodes   [usualNodes]node
		members [usualNodes]int
	)
	s := scan{text: scanned.text, found: f.room(places[:]), nodes: nodes[:]}
	room := members[:]
	if scanned.count > usualNodes {
		s.nodes, room = make([]node, scanned.count), make([]int, scanned.count)
	}
	_ = s.record(f.tree.root) // cannot fail, because the first scan did not
	out := make([]byte, 0, len(s.text)*5/4)
	sum := sha256.Sum256(s.canonical(out, 0, room))
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// canonical appends the canonical form of node n. room has at least one slot for each node from n on.
func (s *scan) canonical(out []byte, n int, room []int) []byte {
	value := s.nodes[n].value.of(s.text)
	switch value[0] {
	case '{':
		return s.canonicalObject(out, n, room)
	case '[':
		return s.canonicalArray(out, n, room)
	case '"':
		return appendString(out, value[1:len(value)-1], s.nodes[n].escaped)
	case 't', 'f':
		return append(out, value[0])
	case 'n':
		return append(out, 'z')
	default:
		return appendNumber(out, value)
	}
}

func (s *scan) canonicalObject(out []byte, n int, room []int) []byte {
	out = append(out, '{')
	members, room := s.sortedMembers(n, room)
	for _, m := range members {
		begin := len(out)
		out = appendString(out, s.nodes[m].name.of(s.text), s.nodes[m].nameEscaped)
		value := len(out)
		out = s.canonical(out, m, room)
		if s.nodes[m].host && string(out[value:]) == "{}" {
			out = out[:begin]
		}
	}
	return append(out, '}')
}

func (s *scan) canonicalArray(out []byte, n int, room []int) []byte {
	out = append(out, '[')
	for m := n + 1; m < s.nodes[n].next; m = s.nodes[m].next {
		if !s.nodes[m].leftOut {
			out = s.canonical(out, m, room)
		}
	}
	return append(out, ']')
}

// sortedMembers returns the members of object n that are not left out, in order, and the room that remains.
func (s *scan) sortedMembers(n int, room []int) (members, rest []int) {
	count := 0
	for m := n + 1; m < s.nodes[n].next; m = s.nodes[m].next {
		if !s.nodes[m].leftOut {
			room[count] = m
			count++
		}
	}
	members = room[:count]
	slices.SortFunc(members, func(a, b int) int {
		if order := s.compareNames(a, b); order != 0 {
			return order
		}
		return cmp.Compare(a, b)
	})
	return members, room[count:]
}

func (s *scan) compareNames(a, b int) int {
	x, y := &s.nodes[a], &s.nodes[b]
	if !x.nameEscaped && !y.nameEscaped {
		return bytes.Compare(x.name.of(s.text), y.name.of(s.text))
	}
	var left, right [64]byte
	return bytes.Compare(
		appendText(left[:0], x.name.of(s.text), x.nameEscaped),
		appendText(right[:0], y.name.of(s.text), y.nameEscaped))
}

func appendString(out, raw []byte, escaped bool) []byte {
	out = append(out, 's')
	out = appendText(out, raw, escaped)
	return append(out, 0, 1)
}

func appendNumber(out, raw []byte) []byte {
	out = append(out, 'n')
	raw, negative := bytes.CutPrefix(raw, []byte("-"))
	mantissa, exponent := raw, []byte(nil)
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		mantissa, exponent = raw[:i], raw[i+1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	scale := int64(-len(fraction))

	whole = bytes.TrimLeft(whole, "0")
	if len(whole) == 0 {
		fraction = bytes.TrimLeft(fraction, "0")
	}
	digits := len(whole) + len(fraction)
	if fraction = bytes.TrimRight(fraction, "0"); len(fraction) == 0 {
		whole = bytes.TrimRight(whole, "0")
	}
	scale += int64(digits - len(whole) - len(fraction))
	if len(whole)+len(fraction) == 0 {
		return append(out, ';') // zero, whatever its sign and exponent
	}
	if negative {
		out = append(out, '-')
	}
	out = append(out, whole...)
	out = append(out, fraction...)
	return appendExponent(append(out, 'e'), scale, exponent)
}

// appendExponent appends the sum of a scale and an exponent. The exponent is in its text form.
func appendExponent(out []byte, scale int64, exponent []byte) []byte {
	exponent = bytes.TrimPrefix(exponent, []byte("+"))
	exponent, negative := bytes.CutPrefix(exponent, []byte("-"))
	exponent = bytes.TrimLeft(exponent, "0")
	const exact = 18 // digits, so that adding a scale cannot overflow
	if len(exponent) <= exact {
		var n int64
		for _, c := range exponent {
			n = 10*n + int64(c-'0')
		}
		if negative {
			n = -n
		}
		return append(strconv.AppendInt(out, scale+n, 10), ';')
	}
	out = append(strconv.AppendInt(out, scale, 10), 'e')
	if negative {
		out = append(out, '-')
	}
	return append(append(out, exponent...), ';')
}
