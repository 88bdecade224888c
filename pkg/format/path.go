package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// path is a parsed path: the names and indexes that lead to a value.
type path []string

// parsePath reads a path in the syntax of gjson, but allows only names, array indexes and escapes, because a record
// has one id, which a rename replaces.
func parsePath(option, text string) (path, error) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return nil, &OptionError{option, "must be UTF-8 without control characters"}
	}
	var parts path
	var part []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			if i++; i == len(text) {
				return nil, &OptionError{option, `ends with a single \; write \\ for a \ in a name`}
			}
			part = append(part, text[i])
		case c == '.':
			parts, part = append(parts, string(part)), nil
		case strings.IndexByte(`*?#|`, c) >= 0, len(part) == 0 && strings.IndexByte(`@![{`, c) >= 0:
			return nil, &OptionError{option, fmt.Sprintf(
				`has a %c; only names and array indexes with dots between are allowed, no wildcards, queries, modifiers or pipes; `+
					`write \%c for a %c in a name`, c, c, c)}
		default:
			part = append(part, c)
		}
	}
	parts = append(parts, string(part))
	if slices.Contains(parts, "") {
		return nil, &OptionError{
			option, `has an empty part; write one dot between names and array indexes, and \. for a dot in a name`,
		}
	}
	return parts, nil
}

// pathTo returns the path along names, in the syntax of parsePath. It returns "" if a name cannot be in a path. It
// also escapes commas, because settings are lists of paths with commas between them.
func pathTo(names ...string) string {
	var out []byte
	for i, name := range names {
		if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return ""
		}
		if i > 0 {
			out = append(out, '.')
		}
		for j := range len(name) {
			if c := name[j]; strings.IndexByte(`\.*?#|,`, c) >= 0 || j == 0 && strings.IndexByte(`@![{`, c) >= 0 {
				out = append(out, '\\')
			}
			out = append(out, name[j])
		}
	}
	return string(out)
}

// inside reports whether p leads to the value of q or into that value.
func (p path) inside(q path) bool { return len(p) >= len(q) && slices.Equal(p[:len(q)], q) }

// index returns the array index of a part, or -1 if the part is not an index. An index has only one spelling, so that
// two paths never lead to the same element.
func index(part string) int {
	n, err := strconv.Atoi(part)
	if err != nil || n < 0 || strconv.Itoa(n) != part {
		return -1
	}
	return n
}

// place is the value at a path, or at the beginning of a path. The places of all paths form one tree, so that one
// scan finds all values.
type place struct {
	name    string
	index   int  // the name as an array index, or -1
	number  int  // the index in scan.found
	once    bool // on the path of the id: a record that has it twice is bad
	leftOut bool // not part of the canonical form
	host    bool // has the contexts: not part of the canonical form if it has nothing else
	below   []*place
}

// tree makes places. The root, which is the record itself, has the number 0.
type tree struct {
	root  *place
	count int
}

func newTree() *tree { return &tree{&place{index: -1}, 1} }

// add returns the places along a path, from the root to its end.
func (t *tree) add(p path) []*place {
	at := t.root
	trail := []*place{at}
	for _, name := range p {
		i := slices.IndexFunc(at.below, func(b *place) bool { return b.name == name })
		if i < 0 {
			i = len(at.below)
			at.below = append(at.below, &place{name: name, index: index(name), number: t.count})
			t.count++
		}
		at = at.below[i]
		trail = append(trail, at)
	}
	return trail
}

// member returns the place of a member below p, or nil if no path leads there. name is the name as the record writes
// it.
func (p *place) member(name []byte, escaped bool) *place {
	if p == nil || len(p.below) == 0 {
		return nil
	}
	if escaped {
		var space [64]byte
		name = appendText(space[:0], name, escaped)
	}
	for _, b := range p.below {
		if b.name == string(name) {
			return b
		}
	}
	return nil
}

// element returns the place of an array's element below p, or nil if no path leads there.
func (p *place) element(index int) *place {
	if p == nil {
		return nil
	}
	for _, b := range p.below {
		if b.index == index {
			return b
		}
	}
	return nil
}
