package powertools

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
)

// dialect is how a language writes the JSON that it has read.
type dialect struct {
	comma, colon string
	number       func(literal string) (string, error)
	plain        func(r rune) bool // in a string: written as it is
	// order sorts the members of an object. No two of them have the same name.
	order func([]member) ([]member, error)
}

// member is a member of an object. Its name is a sequence of code points, which may be surrogates without a partner.
type member struct {
	name  []rune
	value []byte // as written
}

// writer writes a valid text again.
type writer struct {
	text jsonscan.Text
	dialect
}

// value writes the value at i, and returns the index after it.
func (w writer) value(i int) (written []byte, end int, err error) {
	switch w.text.At(i) {
	case '{':
		return w.object(i + 1)
	case '[':
		return w.array(i + 1)
	case '"':
		text, end := w.read(i)
		return w.quote(text), end, nil
	case 't', 'f', 'n':
		end = w.text.Skip(i, 1)
		return w.text[i:end], end, nil
	}
	end = w.text.Number(i)
	number, err := w.number(string(w.text[i:end]))
	if err != nil {
		err = fmt.Errorf("the number at byte %d %w", i+1, err)
	}
	return []byte(number), end, err
}

func (w writer) array(i int) ([]byte, int, error) {
	var items [][]byte
	for i = w.text.Space(i); w.text.At(i) != ']'; i = w.next(i) {
		item, end, err := w.value(i)
		if err != nil {
			return nil, 0, err
		}
		items, i = append(items, item), end
	}
	return slices.Concat([]byte("["), bytes.Join(items, []byte(w.comma)), []byte("]")), i + 1, nil
}

// object writes an object. Of members with the same name the last counts, at the place of the first.
func (w writer) object(i int) ([]byte, int, error) {
	var members []member
	places := map[string]int{}
	for i = w.text.Space(i); w.text.At(i) != '}'; i = w.next(i) {
		name, end := w.read(i)
		value, end, err := w.value(w.text.Space(w.text.Space(end) + 1))
		if err != nil {
			return nil, 0, err
		}
		i = end
		quoted := string(w.quote(name))
		if at, known := places[quoted]; known {
			members[at].value = value
			continue
		}
		places[quoted] = len(members)
		members = append(members, member{name, value})
	}
	members, err := w.order(members)
	if err != nil {
		return nil, 0, err
	}
	texts := make([][]byte, len(members))
	for n, m := range members {
		texts[n] = slices.Concat(w.quote(m.name), []byte(w.colon), m.value)
	}
	return slices.Concat([]byte("{"), bytes.Join(texts, []byte(w.comma)), []byte("}")), i + 1, nil
}

// next returns the index of what follows a member or an item that ends at i: another, or the closing bracket.
func (w writer) next(i int) int {
	if i = w.text.Space(i); w.text.At(i) == ',' {
		i = w.text.Space(i + 1)
	}
	return i
}

var escapes = map[byte]rune{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', '"': '"', '\\': '\\', '/': '/'}

// read reads the string at i. Two escaped surrogates that belong together are one code point.
func (w writer) read(i int) (text []rune, end int) {
	end, _ = w.text.String(i)
	escaped := false // the last code point
	for rest := w.text[i+1 : end-1]; len(rest) > 0; {
		if rest[0] != '\\' {
			r, size := utf8.DecodeRune(rest)
			text, rest, escaped = append(text, r), rest[size:], false
			continue
		}
		if rest[1] != 'u' {
			text, rest, escaped = append(text, escapes[rest[1]]), rest[2:], false
			continue
		}
		code, _ := strconv.ParseUint(string(rest[2:6]), 16, 16) // the text is valid
		r, last := rune(code), len(text)-1
		if escaped && isHigh(text[last]) && isLow(r) {
			text[last] = (text[last]-0xD800)<<10 + (r - 0xDC00) + 0x10000
		} else {
			text = append(text, r)
		}
		rest, escaped = rest[6:], true
	}
	return text, end
}

func isHigh(r rune) bool { return r >= 0xD800 && r < 0xDC00 }
func isLow(r rune) bool  { return r >= 0xDC00 && r < 0xE000 }

// quote writes a string. Both languages know the same short escapes.
func (w writer) quote(text []rune) []byte {
	out := []byte{'"'}
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r < ' ' && strings.ContainsRune("\b\f\n\r\t", r):
			out = append(out, '\\', "btn?fr"[r-'\b'])
		case !isHigh(r) && !isLow(r) && w.plain(r):
			out = utf8.AppendRune(out, r)
		default:
			for _, unit := range units(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
	}
	return append(out, '"')
}

// units appends the UTF-16 of a code point. Package utf16 would replace surrogates.
func units(to []uint16, r rune) []uint16 {
	if r < 0x10000 {
		return append(to, uint16(r))
	}
	r -= 0x10000
	return append(to, uint16(0xD800+r>>10), uint16(0xDC00+r&0x3FF))
}

var errTooLarge = errors.New("is too large: it is no double-precision number")

func double(literal string) (float64, error) {
	f, err := strconv.ParseFloat(literal, 64)
	if math.IsInf(f, 0) {
		return 0, errTooLarge
	}
	return f, err
}

// python is json.dumps(value, sort_keys=True).
var python = dialect{
	comma: ", ", colon: ": ", number: pythonNumber,
	plain: func(r rune) bool { return r >= ' ' && r <= '~' },
	order: func(members []member) ([]member, error) {
		slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.name, b.name) })
		return members, nil
	},
}

// mostDigits is how many digits of an integer Python reads (sys.int_info.default_max_str_digits).
const mostDigits = 4300

var errTooLong = fmt.Errorf("has more than %d digits, which Python does not read", mostDigits)

// pythonNumber writes integers of any size, and other numbers as the repr of a float.
func pythonNumber(literal string) (string, error) {
	if !strings.ContainsAny(literal, ".eE") {
		switch {
		case literal == "-0":
			return "0", nil
		case len(strings.TrimPrefix(literal, "-")) > mostDigits:
			return "", errTooLong
		}
		return literal, nil
	}
	f, err := double(literal)
	if err != nil {
		return "", err
	}
	scientific := strconv.FormatFloat(f, 'e', -1, 64)
	_, exponent, _ := strings.Cut(scientific, "e")
	if e, err := strconv.Atoi(exponent); err != nil || e < -4 || e >= 16 {
		return scientific, err
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text, nil
}

// javaScript is JSON.stringify(deepSort(value)).
var javaScript = dialect{
	comma: ",", colon: ":", number: javaScriptNumber,
	plain: func(r rune) bool { return r >= ' ' },
	order: deepSorted,
}

// javaScriptNumber is Number::toString of ECMAScript.
func javaScriptNumber(literal string) (string, error) {
	f, err := double(literal)
	if err != nil {
		return "", err
	}
	if size := math.Abs(f); size == 0 {
		return "0", nil
	} else if size >= 1e-6 && size < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64), nil
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	return strings.Replace(strings.Replace(text, "e-0", "e-", 1), "e+0", "e+", 1), nil
}

var errSigma = errors.New("an object has several members, and the name of one has a capital sigma: its place is not " +
	"known. Use another name")

// deepSorted sorts members by their names in lower case, and keeps the order of names that differ in case only. An
// object that is made in this order has its array indexes first, and __proto__ is no member.
func deepSorted(members []member) ([]member, error) {
	type sortable struct {
		member
		index int64 // of an array, or -1
		lower []uint16
	}
	all := make([]sortable, 0, len(members))
	for _, m := range members {
		if string(m.name) == "__proto__" {
			continue
		}
		lower, ok := lowerCase(m.name)
		if !ok && len(members) > 1 {
			return nil, errSigma
		}
		all = append(all, sortable{m, arrayIndex(string(m.name)), lower})
	}
	slices.SortStableFunc(all, func(a, b sortable) int {
		switch {
		case a.index >= 0 && b.index >= 0:
			return cmp.Compare(a.index, b.index)
		case a.index >= 0:
			return -1
		case b.index >= 0:
			return 1
		}
		return slices.Compare(a.lower, b.lower)
	})
	sorted := make([]member, len(all))
	for n, s := range all {
		sorted[n] = s.member
	}
	return sorted, nil
}

// arrayIndex returns the index that a name stands for, or -1.
func arrayIndex(name string) int64 {
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil || n == math.MaxUint32 || strconv.FormatUint(n, 10) != name {
		return -1
	}
	return int64(n)
}

// lowerCase is toLowerCase. It returns false for a name with a capital sigma, whose lower case depends on its place in
// a word.
func lowerCase(name []rune) (lower []uint16, ok bool) {
	for _, r := range name {
		switch r {
		case 'Σ':
			return nil, false
		case 'İ':
			lower = append(lower, 'i', 0x0307)
		default:
			lower = units(lower, unicode.ToLower(r))
		}
	}
	return lower, true
}
