package format

import (
	"crypto/sha256"

	"github.com/google/uuid"
)

// Key is what a ledger stores of an id: two records are the same if their keys are equal.
type Key [16]byte

// The tags say what is hashed. Without them, an id could be chosen that has the key of another id, and the record with
// the other id would be dropped as its duplicate.
const (
	tagUUID  = 'u'
	tagBytes = 'b'
)

// KeyOf returns the key of an id: the first 128 bits of the SHA-256 of a tag and the id. A UUID (8-4-4-4-12, in upper
// or lower case) has a tag of its own and is hashed as its 16 bytes, so that UUIDs compare by value. Other ids compare
// byte for byte. (With 64 bits, two million records a minute would lose a good record every two days.)
func KeyOf(id string) Key {
	var space [usualID]byte // so that a usual id needs no allocation
	text := space[:0]
	if u, ok := parseUUID(id); ok {
		text = append(append(text, tagUUID), u[:]...)
	} else {
		text = append(append(text, tagBytes), id...)
	}
	sum := sha256.Sum256(text)
	return Key(sum[:16])
}

// usualID is the number of bytes for which KeyOf has room.
const usualID = 256

// derived is the name space of derived ids:
// uuid5(URL, "https://github.com/oncebox/oncebox").
var derived = uuid.MustParse("f75bcdec-c9df-522e-9113-3b335390f077")

// DerivedID returns the new id of a synthetic duplicate with this id and fingerprint:
// uuid5(uuid5(name space, id), fingerprint). It is the same in every run and on every machine. A UUID gives the same
// derived id in upper and lower case.
func DerivedID(id, fingerprint string) string {
	if u, ok := parseUUID(id); ok {
		id = u.String() // in lower case
	}
	return uuid.NewSHA1(uuid.NewSHA1(derived, []byte(id)), []byte(fingerprint)).String()
}

// parseUUID reads the form 8-4-4-4-12 only. Package uuid reads other forms, too.
func parseUUID(id string) (uuid.UUID, bool) {
	if len(id) != 36 {
		return uuid.UUID{}, false
	}
	u, err := uuid.Parse(id)
	return u, err == nil
}
