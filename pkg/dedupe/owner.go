package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// Plain is the sub-sequence number of a record that is not part of a KPL aggregate.
const Plain = -1

// Owner is the identity of one record. A batch is not part of it, because the batches that hold a record change under
// bisect and after partial failures.
type Owner struct {
	// Source is where the record comes from. For a stream it is account/region/name/shard, without a consumer: all
	// consumers of a stream see the same records.
	Source   string
	Sequence string // of the record in its source: the sequence number, the number of a line, the id of a message
	Sub      int    // index in a KPL aggregate, or Plain
}

// String is the owner as people read it: source, sequence and sub-sequence.
func (o Owner) String() string {
	text := o.Sequence
	if o.Source != "" {
		text = o.Source + "/" + o.Sequence
	}
	if o.Sub != Plain {
		text += "#" + strconv.Itoa(o.Sub)
	}
	return text
}

// Digest is 128 bits of a SHA-256: engines store and compare it in the place of a text of any length.
type Digest [16]byte

// Digest identifies the owner.
func (o Owner) Digest() Digest {
	var space [200]byte // of the usual owners; it keeps them off the heap
	b := binary.AppendVarint(space[:0], int64(o.Sub))
	b = binary.AppendUvarint(b, uint64(len(o.Source)))
	b = append(b, o.Source...)
	return digestOf(append(b, o.Sequence...))
}

// ContentDigest identifies a fingerprint.
func ContentDigest(fingerprint string) Digest {
	var space [200]byte
	return digestOf(append(space[:0], fingerprint...))
}

func digestOf(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest(sum[:])
}
