package format

import (
	"slices"
	"unicode/utf8"
)

// The limits of MemberNames: as much as a message can show.
const (
	mostNames   = 50
	longestName = 64 // bytes
)

// MemberNames returns the names of the members of a record, at the top level and in the record's order. It is for a
// message about a wrong path: "the members are: id, sent_at". Each name is written as a path of Options. It returns at
// most 50 different names. It leaves out names that cannot be in a path (empty, not Unicode, with control characters).
// It shortens names of more than 64 bytes; these end with "…". It returns nil for a payload that is not a record.
//
// Names are content of the record: show them only to a person who may see the record, and do not log them.
func MemberNames(record []byte) []string {
	s, err := newTree().tabulate(record)
	if err != nil {
		return nil
	}
	var names []string
	for m := 1; m < len(s.nodes) && len(names) < mostNames; m = s.nodes[m].next {
		if name := shorten(pathTo(s.meaning(m))); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// shorten cuts a name between two runes.
func shorten(name string) string {
	if len(name) <= longestName {
		return name
	}
	end := longestName
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + "…"
}
