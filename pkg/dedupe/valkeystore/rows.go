package valkeystore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The sizes are the same as in enter.lua.
const (
	contentSize = 8
	ownerSize   = 6
	// recordSize is the size of a record in a script call: the number of its first slice in 2 bytes, a heldID, and
	// the rest.
	recordSize = 2 + 1 + len(format.Key{}) + contentSize + ownerSize
)

// tagContent separates the hashes of contents from other hashes.
const tagContent = "oncebox content\x00"

// record is a candidate in the form for the server.
type record struct {
	index   int   // of the candidate
	arrival int64 // in milliseconds
	key     format.Key
	content [contentSize]byte
	owner   [ownerSize]byte
	has     heldID
}

// heldID says which id a record has on the previous servers.
type heldID byte

const (
	noID      heldID = iota // it is not on the previous servers
	ownID                   // its own id; it keeps that unless another record has it
	derivedID               // a derived id; it keeps that
	dropped                 // no id; it is only looked up
)

func recordOf(index int, c *dedupe.Candidate) record {
	r := record{index: index, arrival: c.Arrival.UnixMilli(), key: format.KeyOf(c.ID)}
	r.content = contentOf(r.key, c.Fingerprint)
	digest := c.Owner.Digest()
	copy(r.owner[:], digest[:])
	r.owner[0] &^= derivedMark
	return r
}

// derivedMark is the bit of an owner that says that its record has a derived id. 47 bits are left. If two owners of
// one key had the same 47 bits, a copy would look like a retry: it would be delivered, but no record would be lost.
const derivedMark = 0x80

// contentOf distinguishes copies from other records with the same key. Two records of one key with the same 64 bits
// would be taken for copies. Among 10^9 pairs of records, this has a probability of 10^-10.
func contentOf(key format.Key, fingerprint string) [contentSize]byte {
	text := make([]byte, 0, 256)
	text = append(append(append(text, tagContent...), key[:]...), fingerprint...)
	sum := sha256.Sum256(text)
	return [contentSize]byte(sum[:])
}

// appendTo appends the record in the form for a script call. first is the number of the first slice that it sees.
func (r *record) appendTo(b []byte, first int) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(first))
	b = append(append(b, byte(r.has)), r.key[:]...)
	return append(append(b, r.content[:]...), r.owner[:]...)
}

// answerOf returns the answer for a letter of enter.lua.
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
