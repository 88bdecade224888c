package itemfile

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// clean returns the item of a line, or "" for a blank line.
func (o Options) clean(line itembank.Line) (string, error) {
	item := line.Item
	switch {
	case item == "":
		return "", nil
	case !utf8.ValidString(item): // before anything could replace the bytes
		return "", badLine(line.Number, NotUTF8)
	case o.Raw:
	case o.Trim:
		item = strings.TrimSpace(strings.Map(visible, item))
	case o.isBlank(item):
		item = ""
	default:
		if detail := surplus(item); detail != "" {
			return "", &itembank.LineError{Line: line.Number, Err: &surplusError{itembank.InvalidError{Field: "item", Detail: detail}}}
		}
	}
	if item == "" {
		return "", nil
	}
	if detail := invalid(item); detail != "" {
		return "", badLine(line.Number, detail)
	}
	return item, nil
}

// visible drops invisible characters. It is for strings.Map.
func visible(r rune) rune {
	if isInvisible(r) {
		return -1
	}
	return r
}

// surplus names the white space or invisible character in an item that users do not mean to load, or "".
func surplus(item string) string {
	first, _ := utf8.DecodeRuneInString(item)
	last, _ := utf8.DecodeLastRuneInString(item)
	switch {
	case unicode.IsSpace(first):
		return "begins with " + nameOf(first)
	case unicode.IsSpace(last):
		return "ends with " + nameOf(last)
	}
	for i, r := range item {
		if isInvisible(r) {
			return fmt.Sprintf("has %s at byte %d", nameOf(r), i+1)
		}
	}
	return ""
}

// invalid returns the reason why an item is invalid with any options, or "".
func invalid(item string) string {
	err := itembank.ValidateItem(item)
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "item: ")
}

// otherInvisible are invisible characters that are neither format characters nor line separators: the combining
// grapheme joiner, and the fillers of Hangul and Khmer.
const otherInvisible = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"

// isInvisible reports whether a character is invisible and takes no room. It is also true for characters that break a
// line, but in a way that few programs show.
func isInvisible(r rune) bool {
	return r > unicode.MaxASCII &&
		(unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || strings.ContainsRune(otherInvisible, r))
}

var names = map[rune]string{
	' ': "a space", '\t': "a tab", '\r': "a carriage return", '\u00a0': "a no-break space",
	'\u00ad': "a soft hyphen", '\u200b': "a zero-width space", '\u200c': "a zero-width non-joiner",
	'\u200d': "a zero-width joiner", '\u2060': "a word joiner", '\ufeff': "a byte order mark",
}

// nameOf names a character as people know it.
func nameOf(r rune) string {
	name, ok := names[r]
	switch {
	case ok:
	case unicode.IsSpace(r):
		name = "white space"
	default:
		name = "an invisible character"
	}
	return fmt.Sprintf("%s (%U)", name, r)
}
