package format

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"unique"
)

// Digest returns the digest of an event, whose members are its columns. It leaves out the same columns as computed
// fingerprints. It returns the zero Digest if the event is bad or has its own fingerprint.
func (f *Snowplow) Digest(record []byte) Digest {
	var e event
	if e.split(record) != nil {
		return Digest{}
	}
	if text, err := e.fingerprint(); text != "" || err != nil {
		return Digest{}
	}
	entries := make([]entry, 0, snowplowColumns)
	for i, name := range columnNames {
		if !f.leftOut[i] {
			sum := sha256.Sum256(e.column(i).of(e.text))
			entries = append(entries, entry{
				name: unique.Make(name), sum: binary.BigEndian.Uint64(sum[:]), below: unopened, nameable: true,
			})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name.Value(), b.name.Value()) })
	return Digest{entries}
}
