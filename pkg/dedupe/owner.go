package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Plain is the sub-sequence number of a record that is not part of a KPL aggregate.
const Plain = -1

// Owner is the identity of one record. It does not have the batch, because a record can come in different batches: by
// bisect, and after partial failures.
type Owner struct {
	// Source is where the record comes from. For a stream it is account/region/name/shard. It does not have the
	// consumer, because all consumers of a stream see the same records.
	Source   string
	Sequence string // of the record in its source: a sequence number, a line number or a message id
	Sub      int    // index in a KPL aggregate, or Plain
	// Place is where a run over files has read a record whose identity says something else. It is a RunSource and a
	// line. It is not part of the identity, but engines store it.
	Place string
}

// String returns the owner for people: source, sequence and sub-sequence. ReadRunLine reads it.
func (o Owner) String() string {
	text := o.Sequence
	if o.Source != "" {
		text = o.Source + "/" + o.Sequence
	}
	if o.Sub != Plain {
		text += "#" + strconv.Itoa(o.Sub)
	}
	if o.Place != "" {
		text = o.Place + " " + text
	}
	return text
}

// Digest is 128 bits of a SHA-256. Engines store and compare it instead of a text of any length.
type Digest [16]byte

// Digest returns the digest of the owner.
func (o Owner) Digest() Digest {
	var space [200]byte // large enough for most owners, so that they need no heap
	b := binary.AppendVarint(space[:0], int64(o.Sub))
	b = binary.AppendUvarint(b, uint64(len(o.Source)))
	b = append(b, o.Source...)
	return digestOf(append(b, o.Sequence...))
}

// ContentDigest returns the digest of a fingerprint.
func ContentDigest(fingerprint string) Digest {
	var space [200]byte
	return digestOf(append(space[:0], fingerprint...))
}

func digestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest(sum[:])
}
