package format

import (
	"crypto/sha256"

	"github.com/google/uuid"
)

// Key is what a ledger knows of an id: two records are the same when their keys
// are equal.
type Key [16]byte

// KeyOf returns the key of an id: the raw bytes of a UUID (of the form 8-4-4-4-12,
// in either case), so that UUIDs compare by value; else the first 128 bits of
// the id's SHA-256, so that ids compare byte for byte. (64 bits would lose a
// good record every two days at two million a minute.)
func KeyOf(id string) Key {
	if u, ok := parseUUID(id); ok {
		return Key(u)
	}
	sum := sha256.Sum256([]byte(id))
	return Key(sum[:16])
}

// derived is the name space of derived ids:
// uuid5(URL, "https://github.com/oncebox/oncebox").
var derived = uuid.MustParse("f75bcdec-c9df-522e-9113-3b335390f077")

// DerivedID returns the id of the synthetic duplicate that has this id and this
// fingerprint: uuid5(uuid5(name space, id), fingerprint). It is the same in
// every run and on every machine; a UUID gives the same in either case.
func DerivedID(id, fingerprint string) string {
	if u, ok := parseUUID(id); ok {
		id = u.String() // in lower case
	}
	return uuid.NewSHA1(uuid.NewSHA1(derived, []byte(id)), []byte(fingerprint)).String()
}

// parseUUID reads the form 8-4-4-4-12; package uuid reads others too.
func parseUUID(id string) (uuid.UUID, bool) {
	if len(id) != 36 {
		return uuid.UUID{}, false
	}
	u, err := uuid.Parse(id)
	return u, err == nil
}
