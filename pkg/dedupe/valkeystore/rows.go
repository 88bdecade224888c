package valkeystore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The sizes are those of enter.lua.
const (
	contentSize = 8
	ownerSize   = 6
	// recordSize is what a script call gets of a record: the number of its first slice in 2 bytes, a heldID, and the rest.
	recordSize = 2 + 1 + len(format.Key{}) + contentSize + ownerSize
)

// tagContent says what the content is a hash of.
const tagContent = "oncebox content\x00"

// record is a candidate as the server gets it.
type record struct {
	index   int   // among the candidates
	arrival int64 // in milliseconds
	key     format.Key
	content [contentSize]byte
	owner   [ownerSize]byte
	has     heldID
}

// heldID says which id a record has on the previous servers.
type heldID byte

const (
	noID      heldID = iota // it is not there
	ownID                   // it keeps it, unless another record has it
	derivedID               // it keeps it
	dropped                 // it is only looked up
)

func recordOf(index int, c *dedupe.Candidate) record {
	r := record{index: index, arrival: c.Arrival.UnixMilli(), key: format.KeyOf(c.ID)}
	r.content = contentOf(r.key, c.Fingerprint)
	digest := c.Owner.Digest()
	copy(r.owner[:], digest[:])
	r.owner[0] &^= derivedMark
	return r
}

// derivedMark is the bit of an owner that says that its record has a derived id. 47 bits are left. Two owners of one
// key that have them in common would make a copy a retry: it would be delivered, and no record would be lost.
const derivedMark = 0x80

// contentOf tells copies from other records with the same key. Two records of one key that have all 64 bits in common
// would be taken for copies: of 10^9 pairs, one in 10^10 times.
func contentOf(key format.Key, fingerprint string) [contentSize]byte {
	text := make([]byte, 0, 256)
	text = append(append(append(text, tagContent...), key[:]...), fingerprint...)
	sum := sha256.Sum256(text)
	return [contentSize]byte(sum[:])
}

// appendTo appends the record as a script call gets it. first is the number of the first slice that it sees.
func (r *record) appendTo(b []byte, first int) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(first))
	b = append(append(b, byte(r.has)), r.key[:]...)
	return append(append(b, r.content[:]...), r.owner[:]...)
}

// answerOf is the answer for a letter of enter.lua.
func answerOf(letter byte) dedupe.Answer {
	switch letter {
	case 'p':
		return dedupe.Answer{Found: dedupe.Put}
	case 'd':
		return dedupe.Answer{Found: dedupe.Put, Derived: 1}
	case 'm':
		return dedupe.Answer{Found: dedupe.Mine}
	case 'n':
		return dedupe.Answer{Found: dedupe.Mine, Derived: 1}
	case 's':
		return dedupe.Answer{Found: dedupe.Same}
	case 't':
		return dedupe.Answer{Found: dedupe.Same, Derived: 1}
	case 'o':
		return dedupe.Answer{Found: dedupe.Other}
	}
	return dedupe.Answer{Err: fmt.Errorf("valkey: the answer %q to a record is unknown", letter)}
}
