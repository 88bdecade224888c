package logledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// layout is the version of chain rows and items. Other versions are refused.
const layout = 1

// The kinds of items.
const (
	kindRows = 'r'
	kindSeal = 's' // the end of an epoch; it has no rows
)

// The data of an item is a header, and one row for each entry. A row ends with the tag of its owner. Sizes are in
// bytes.
const (
	HeaderSize = 2 + 8 + len(dedupe.Digest{}) + 2*8 + 2*4 + 2*positionSize
	RowSize    = keySize + contentSize + TagSize
	TagSize    = 6

	keySize      = 12
	contentSize  = 8
	positionSize = 24 // a sequence number of Kinesis has 56 decimal digits
)

// rowKey is the part of a key that rows store, as two numbers that compare fast. In a scope of three billion entries,
// two keys have the same rowKey with a probability of 10^-10. A record is then taken for a synthetic duplicate,
// because contents are hashes of the whole key.
type rowKey struct {
	high uint64
	low  uint32
}

func rowKeyOf(k dedupe.Key) rowKey {
	return rowKey{binary.BigEndian.Uint64(k[:]), binary.BigEndian.Uint32(k[8:])}
}

// laneOf computes the lane from a part of the key that rows do not store.
func laneOf(k dedupe.Key, lanes int) int {
	return int(binary.BigEndian.Uint32(k[keySize:]) % uint32(lanes))
}

func (k rowKey) before(other rowKey) bool {
	return k.high < other.high || k.high == other.high && k.low < other.low
}

// content is a hash of the whole key and the fingerprint.
type content [contentSize]byte

// tag is the part of an owner's digest that rows store. It is compared within one item at a time. So another record is
// taken for the owner once in 2.8 * 10^14 comparisons. It is then delivered a second time.
type tag [TagSize]byte

func tagOf(o dedupe.Owner) tag {
	digest := o.Digest()
	return tag(digest[:TagSize])
}

// row is an entry of the log.
type row struct {
	key     rowKey
	content content
	tag     tag
}

func (r row) compare(other row) int {
	return cmp.Or(cmp.Compare(r.key.high, other.key.high), cmp.Compare(r.key.low, other.key.low),
		bytes.Compare(r.content[:], other.content[:]), bytes.Compare(r.tag[:], other.tag[:]))
}

// span bounds the records whose rows an item may have. With it, tags need not be read for other records.
type span struct {
	source      dedupe.Digest // hash of the source of all owners; zero if they have several sources
	first, last position      // both zero if any owner has no position
}

// arrivals are the earliest and the latest arrival of an item's records, in milliseconds since 1970.
type arrivals struct{ least, greatest int64 }

// item is a decoded item of the log. Its plain rows come first. The derived rows of synthetic records follow, under the
// keys of their own ids.
type item struct {
	seal  bool
	nonce uint64 // distinguishes the item from all others
	span  span
	at    arrivals
	plain int // number of plain rows
	rows  []row
}

// parts returns the plain rows and the derived rows.
func (i item) parts() [2][]row { return [2][]row{i.rows[:i.plain], i.rows[i.plain:]} }

// contentOf hashes a domain, the whole key and the fingerprint. So two keys that share their first bytes have different
// contents.
func contentOf(k dedupe.Key, fingerprint string) content {
	var space [200]byte // large enough for most fingerprints, so that they need no heap
	text := append(space[:0], "oncebox/log/content/1\x00"...)
	text = append(append(text, k[:]...), fingerprint...)
	sum := sha256.Sum256(text)
	return content(sum[:])
}

// sources hashes sources, and remembers the last one, because most records have the same source as the record before.
type sources struct {
	last string
	is   dedupe.Digest
}

func (s *sources) digest(source string) dedupe.Digest {
	if s.is == (dedupe.Digest{}) || s.last != source {
		s.last, s.is = source, dedupe.ContentDigest(source)
	}
	return s.is
}

// position is a sequence number as a big-endian number.
type position [positionSize]byte

// mostDigits is the largest number of digits of a sequence number that fits into a position.
const mostDigits = 57

// hasPosition reports whether a sequence is a number that fits into a position.
func hasPosition(sequence string) bool {
	return len(sequence) <= mostDigits && dedupe.IsSequence(sequence)
}

// positionOf returns the position of a sequence number for which hasPosition is true.
func positionOf(sequence string) (p position) {
	n, _ := new(big.Int).SetString(sequence, 10)
	n.FillBytes(p[:])
	return p
}

// mayHold reports whether the item may have the row of a record.
func (s *span) mayHold(r *record) bool {
	if s.source != (dedupe.Digest{}) && s.source != r.source {
		return false
	}
	if s.first == (position{}) && s.last == (position{}) || !hasPosition(r.Owner.Sequence) {
		return true
	}
	if !r.placed {
		r.position, r.placed = positionOf(r.Owner.Sequence), true
	}
	return bytes.Compare(s.first[:], r.position[:]) <= 0 && bytes.Compare(r.position[:], s.last[:]) <= 0
}

// spanBuilder computes the span of records.
type spanBuilder struct {
	source      dedupe.Digest
	first, last string // sequence numbers
	any, mixed  bool   // any: there are records; mixed: they have several sources
	unnumbered  bool   // some records have no position
}

func (s *spanBuilder) add(r *record) {
	sequence := r.Owner.Sequence
	if !s.any {
		s.any, s.source, s.first, s.last = true, r.source, sequence, sequence
	}
	s.mixed = s.mixed || r.source != s.source
	s.unnumbered = s.unnumbered || !hasPosition(sequence)
	if s.unnumbered {
		return
	}
	if dedupe.CompareSequence(sequence, s.first) < 0 {
		s.first = sequence
	}
	if dedupe.CompareSequence(sequence, s.last) > 0 {
		s.last = sequence
	}
}

func (s *spanBuilder) span() span {
	switch {
	case s.mixed: // positions of different sources cannot be compared
		return span{}
	case s.unnumbered:
		return span{source: s.source}
	}
	return span{s.source, positionOf(s.first), positionOf(s.last)}
}

// encode returns the data of an item.
func (i item) encode() []byte {
	kind := byte(kindRows)
	if i.seal {
		kind = kindSeal
	}
	b := make([]byte, 0, HeaderSize+len(i.rows)*RowSize)
	b = append(b, layout, kind)
	b = binary.BigEndian.AppendUint64(b, i.nonce)
	b = append(b, i.span.source[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(i.at.least))
	b = binary.BigEndian.AppendUint64(b, uint64(i.at.greatest))
	b = binary.BigEndian.AppendUint32(b, uint32(i.plain))
	b = binary.BigEndian.AppendUint32(b, uint32(len(i.rows)-i.plain))
	b = append(append(b, i.span.first[:]...), i.span.last[:]...)
	for _, r := range i.rows {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, r.key.high), r.key.low)
		b = append(append(b, r.content[:]...), r.tag[:]...)
	}
	return b
}

// decode reads the data of an item. It refuses data that this version did not write, so that no decision is based on
// them.
func decode(b []byte) (i item, err error) {
	if len(b) < HeaderSize || b[0] != layout || b[1] != kindRows && b[1] != kindSeal {
		return i, errLayout
	}
	i.seal, b = b[1] == kindSeal, b[2:]
	take := func(n int) (head []byte) {
		head, b = b[:n], b[n:]
		return head
	}
	i.nonce = binary.BigEndian.Uint64(take(8))
	copy(i.span.source[:], take(len(i.span.source)))
	i.at.least = int64(binary.BigEndian.Uint64(take(8)))
	i.at.greatest = int64(binary.BigEndian.Uint64(take(8)))
	plain, derived := binary.BigEndian.Uint32(take(4)), binary.BigEndian.Uint32(take(4))
	copy(i.span.first[:], take(positionSize))
	copy(i.span.last[:], take(positionSize))
	if uint64(len(b)) != (uint64(plain)+uint64(derived))*RowSize {
		return i, fmt.Errorf("logledger: an item has %d bytes of rows, and its header says %d rows", len(b), plain+derived)
	}
	i.plain, i.rows = int(plain), make([]row, plain+derived)
	for n := range i.rows {
		r := &i.rows[n]
		r.key = rowKey{binary.BigEndian.Uint64(take(8)), binary.BigEndian.Uint32(take(4))}
		copy(r.content[:], take(contentSize))
		copy(r.tag[:], take(TagSize))
	}
	return i, nil
}
