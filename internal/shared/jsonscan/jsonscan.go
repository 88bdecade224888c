// Package jsonscan scans JSON text (RFC 8259) and finds the ends of its values. It knows only the grammar: it makes
// no values and allocates no memory.
package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// Text is JSON text. Its methods take the index of a beginning and return the index after the end, or NotJSON.
type Text []byte

// A method returns one of these results if there is no index.
const (
	NotJSON = -1
	TooDeep = -2
)

// At returns the byte at i. After the end of the text it returns 0, which is never valid in JSON.
func (t Text) At(i int) byte {
	if i < len(t) {
		return t[i]
	}
	return 0
}

// Space returns the index of the first byte from i on that is not white space.
func (t Text) Space(i int) int {
	for i < len(t) && (t[i] == ' ' || t[i] == '\n' || t[i] == '\r' || t[i] == '\t') {
		i++
	}
	return i
}

// String scans the string whose quote is at i, and reports whether it has escapes. It does not check for valid UTF-8.
func (t Text) String(i int) (end int, escaped bool) {
	for i++; ; i++ {
		i = t.ordinary(i)
		switch t.At(i) {
		case '"':
			return i + 1, escaped
		case '\\':
			escaped = true
			if i = t.escape(i + 1); i < 0 {
				return i, escaped
			}
		default: // a control character, or the end of the text
			return NotJSON, escaped
		}
	}
}

// ordinary returns the index of the first special byte of a string from i on: a quote, a backslash or a control
// character. If there is none, it returns the end of the text. It tests eight bytes at a time, because most of a text
// is in strings.
func (t Text) ordinary(i int) int {
	for ; i+8 <= len(t); i += 8 {
		if others := notOrdinary(binary.LittleEndian.Uint64(t[i:])); others != 0 {
			return i + bits.TrailingZeros64(others)/8
		}
	}
	for i < len(t) && t[i] >= ' ' && t[i] != '"' && t[i] != '\\' {
		i++
	}
	return i
}

// notOrdinary sets the highest bit of each byte that is special. Above the lowest of these bits, other bits may be set,
// too, since the subtraction borrows. (Sean Eron Anderson, "Bit Twiddling Hacks", "Determine if a word has a byte less
// than n".)
func notOrdinary(word uint64) uint64 {
	const (
		ones = 0x0101010101010101
		high = 0x80 * ones
	)
	quote, backslash := word^'"'*ones, word^'\\'*ones // 0 for a byte that matches
	return ((word-' '*ones)&^word | (quote-ones)&^quote | (backslash-ones)&^backslash) & high
}

// escape scans the escape whose letter is at i and returns the index of its last byte.
func (t Text) escape(i int) int {
	switch t.At(i) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		for range 4 {
			if i++; !isHex(t.At(i)) {
				return NotJSON
			}
		}
		return i
	}
	return NotJSON
}

// Number scans a number.
func (t Text) Number(i int) int {
	if t.At(i) == '-' {
		i++
	}
	if t.At(i) == '0' {
		i++
	} else if i = t.digits(i); i < 0 {
		return i
	}
	if t.At(i) == '.' {
		if i = t.digits(i + 1); i < 0 {
			return i
		}
	}
	if t.At(i) == 'e' || t.At(i) == 'E' {
		i++
		if t.At(i) == '+' || t.At(i) == '-' {
			i++
		}
		i = t.digits(i)
	}
	return i
}

// digits scans at least one digit.
func (t Text) digits(i int) int {
	begin := i
	for IsDigit(t.At(i)) {
		i++
	}
	if i == begin {
		return NotJSON
	}
	return i
}

// Literal scans the word true, false or null.
func (t Text) Literal(i int, word string) int {
	if len(t)-i < len(word) || string(t[i:i+len(word)]) != word {
		return NotJSON
	}
	return i + len(word)
}

// Skip scans any value with at most this number of levels of objects and arrays. A deeper value is TooDeep.
func (t Text) Skip(i, levels int) int {
	switch t.At(i) {
	case '{', '[':
		return t.skipNested(i, levels)
	case '"':
		end, _ := t.String(i)
		return end
	case 't':
		return t.Literal(i, "true")
	case 'f':
		return t.Literal(i, "false")
	case 'n':
		return t.Literal(i, "null")
	default:
		return t.Number(i)
	}
}

// skipNested scans an object or an array.
func (t Text) skipNested(i, levels int) int {
	if levels == 0 {
		return TooDeep
	}
	object, last := t[i] == '{', t[i]+2 // the brackets that match: { and }, [ and ]
	if i = t.Space(i + 1); t.At(i) == last {
		return i + 1
	}
	for {
		if object {
			if i = t.name(i); i < 0 {
				return i
			}
		}
		if i = t.Skip(i, levels-1); i < 0 {
			return i
		}
		switch i = t.Space(i); t.At(i) {
		case ',':
			i = t.Space(i + 1)
		case last:
			return i + 1
		default:
			return NotJSON
		}
	}
}

// name scans the name and the colon of a member, up to its value.
func (t Text) name(i int) int {
	if t.At(i) != '"' {
		return NotJSON
	}
	end, _ := t.String(i)
	if end < 0 {
		return end
	}
	if i = t.Space(end); t.At(i) != ':' {
		return NotJSON
	}
	return t.Space(i + 1)
}

// EndsWord reports whether the next value may begin, or a space may stand, right behind a number or a literal. Other
// bytes make it another word: 1-2 and nullx are no values.
func EndsWord(next byte) bool {
	switch next {
	case ' ', '\t', '\r', '\n', '"', '{', '[':
		return true
	}
	return false
}

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return IsDigit(c) || 'a' <= c|' ' && c|' ' <= 'f' }
