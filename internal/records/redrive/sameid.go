package redrive

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/oncebox/oncebox/pkg/format"
)

// SameID says that a record of a letter has the id of a record before it.
type SameID struct {
	ID     string
	Letter string // the letter of the record before
	Copy   bool   // the fingerprints are the same, too
}

// ids knows the ids of all records that a dry run has read. The records of a run would be copies of each other, or get
// new ids, which a dry run does not ask the ledger about.
type ids map[[16]byte]idOf

type idOf struct {
	letter      string
	fingerprint [16]byte
}

// add adds the records of a letter, and returns those whose ids are known in the scope.
func (s ids) add(letter, scope string, records []format.Fields) (same []SameID) {
	for _, r := range records {
		key, fingerprint := digestOf(scope, r.ID), digestOf(r.Fingerprint)
		before, known := s[key]
		if !known {
			s[key] = idOf{letter, fingerprint}
			continue
		}
		same = append(same, SameID{r.ID, before.letter, before.fingerprint == fingerprint})
	}
	return same
}

func digestOf(parts ...string) (digest [16]byte) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	copy(digest[:], h.Sum(nil))
	return digest
}
