package format

import (
	"crypto/sha256"

	"github.com/google/uuid"
)

// Key is the form in which a ledger stores an id. Two records have the same id if their keys are equal.
type Key [16]byte

// The tags separate the different kinds of hashed data. Without them, an id could be chosen that has the key of
// another id, and the record with the other id would be dropped as a duplicate.
const (
	tagUUID  = 'u'
	tagBytes = 'b'
)

// KeyOf returns the key of an id: the first 128 bits of the SHA-256 of a tag and the id. A UUID (8-4-4-4-12, in upper
// or lower case) has its own tag and is hashed as its 16 bytes, so that UUIDs are compared by value. Other ids are
// compared byte for byte. (With 64 bits, two million records a minute would lose a good record every two days.)
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

// usualID is the number of bytes that KeyOf has on the stack.
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

// parseUUID reads only the form 8-4-4-4-12. Package uuid also reads other forms.
func parseUUID(id string) (uuid.UUID, bool) {
	if len(id) != 36 {
		return uuid.UUID{}, false
	}
	u, err := uuid.Parse(id)
	return u, err == nil
}
