package format

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"unique"
)

// The limits of a digest. A record beyond them has the zero Digest.
const (
	mostEntries  = 200
	longestEntry = 128 // bytes of a name
)

// mostDifferences is the largest number of paths that DiffersOnlyIn returns. If a record differs in more members, it is
// probably another record, and not a copy with volatile values.
const mostDifferences = 2

// Digest is a small summary of a record. DiffersOnlyIn compares the digests of two records with the same id. It takes
// 24 bytes for each member, at most 5 KB, plus the names, which all digests share. It has no values. The zero Digest
// is empty.
type Digest struct{ entries []entry } // nil in the zero Digest

// entry is a member of the record, or a member of a member.
type entry struct {
	name unique.Handle[string] // its meaning
	sum  uint64                // hash of the canonical form of the value; 0 if the entries of its members follow
	// below is the number of the entries that follow for the members of the value, an object. It is unopened if there
	// are none.
	below int32
	// nameable means that a volatile path can lead to the value: no earlier member has its name, and no path of the
	// options leads into it.
	nameable bool
}

const unopened = -1

// Digest returns the digest of a record. It leaves out the same values as computed fingerprints. It returns the zero
// Digest if the record is bad or has its own fingerprint, if it has more than 200 members (including those of objects
// at the top level), or if it has a name of more than 128 bytes.
func (f *JSON) Digest(record []byte) Digest {
	s, err := f.tree.tabulate(record)
	if err != nil || f.hasFingerprint(s) {
		return Digest{}
	}
	d := digester{scan: s, entries: []entry{}}
	if !d.add(0, f.tree.root, make([]int, len(s.nodes))) {
		return Digest{}
	}
	return Digest{slices.Clone(d.entries)} // the clone has no spare capacity
}

// hasFingerprint reports whether the record has a fingerprint, so that its members do not decide.
func (f *JSON) hasFingerprint(s *scan) bool {
	if f.fingerprint == nil {
		return false
	}
	text, err := s.textAt(f.fingerprint, "fingerprint", MaxText)
	return text != "" || err != nil
}

type digester struct {
	*scan
	entries []entry
	form    []byte // has room for a canonical form
}

// add appends the members of object n, which is at a place, and reports whether they are within the limits. It opens
// the objects among the members of the record. room is the same as for scan.canonical.
func (d *digester) add(n int, at *place, room []int) bool {
	members, room := d.sortedMembers(n, room)
	for i, m := range members {
		value := &d.nodes[m]
		if value.host && string(d.canonicalOf(m, room)) == "{}" {
			continue // the canonical form leaves it out too
		}
		if len(d.entries) == mostEntries || value.name.to-value.name.from > longestEntry {
			return false
		}
		to := at.member(value.name.of(d.text), value.nameEscaped)
		first := (i == 0 || d.compareNames(members[i-1], m) != 0) && (to == nil || !to.leftOut)
		last := i+1 == len(members) || d.compareNames(members[i+1], m) != 0

		e := len(d.entries)
		d.entries = append(d.entries, entry{
			name: unique.Make(d.meaning(m)), below: unopened, nameable: first && (to == nil || len(to.below) == 0),
		})
		// A path may lead into any of several objects with the same name, so none of these is opened.
		if n == 0 && first && last && d.text[value.value.from] == '{' {
			if !d.add(m, to, room) {
				return false
			}
			d.entries[e].below = int32(len(d.entries) - e - 1)
			continue
		}
		sum := sha256.Sum256(d.canonicalOf(m, room))
		d.entries[e].sum = binary.BigEndian.Uint64(sum[:])
	}
	return true
}

// canonicalOf returns the canonical form of node n, which is valid until the next call.
func (d *digester) canonicalOf(n int, room []int) []byte {
	d.form = d.canonical(d.form[:0], n, room)
	return d.form
}

// DiffersOnlyIn compares two records by their digests, which must come from the same JSON. If the records differ in
// one or two members, it returns the paths of these: with the paths in Volatile, both records have the same
// fingerprint. It returns nil if the records are equal, if they differ in more members or in one that no path can
// leave out, and if one of the digests is the zero Digest.
//
// Equal values are equal in whatever way they are written. Members that are objects in both records are compared
// member by member, because "meta.sent_at" is more exact than "meta".
func (d Digest) DiffersOnlyIn(other Digest) []string {
	if d.entries == nil || other.entries == nil {
		return nil
	}
	var c comparison
	if !c.members(d.entries, other.entries) {
		return nil
	}
	return c.paths
}

// comparison collects the paths of the members that differ.
type comparison struct{ paths []string }

// members compares the members of two objects with these parents. It returns false as soon as DiffersOnlyIn has no
// answer.
func (c *comparison) members(a, b []entry, parents ...string) bool {
	for len(a) > 0 || len(b) > 0 {
		var ok bool
		switch order := compareFirst(a, b); {
		case order < 0:
			ok, a = c.differs(a[0], parents), afterFirst(a)
		case order > 0:
			ok, b = c.differs(b[0], parents), afterFirst(b)
		default:
			ok, a, b = c.pair(a, b, parents), afterFirst(a), afterFirst(b)
		}
		if !ok {
			return false
		}
	}
	return true
}

// pair compares the first members of two lists. They have the same name.
func (c *comparison) pair(a, b []entry, parents []string) bool {
	x, y := a[0], b[0]
	switch {
	case x.below != unopened && y.below != unopened:
		return c.members(a[1:1+x.below], b[1:1+y.below], x.name.Value())
	case x.sum == y.sum:
		return true
	}
	return c.differs(x, parents)
}

// differs adds a member that differs, and reports whether an answer is still possible.
func (c *comparison) differs(e entry, parents []string) bool {
	path := pathTo(append(slices.Clip(parents), e.name.Value())...)
	c.paths = append(c.paths, path)
	return e.nameable && path != "" && len(c.paths) <= mostDifferences
}

// compareFirst compares the first names of two lists. The end of a list sorts after every name.
func compareFirst(a, b []entry) int {
	switch {
	case len(b) == 0:
		return -1
	case len(a) == 0:
		return 1
	case a[0].name == b[0].name:
		return 0
	default:
		return strings.Compare(a[0].name.Value(), b[0].name.Value())
	}
}

// afterFirst returns the list without its first member and that member's own members.
func afterFirst(list []entry) []entry { return list[1+max(0, list[0].below):] }
