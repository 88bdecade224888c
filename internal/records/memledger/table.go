package memledger

import (
	"encoding/binary"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// bucketSize is the mean number of entries of a bucket. Larger buckets take longer to search; smaller buckets leave
// more room unused.
const bucketSize = 24

// table is a hash table that grows bucket by bucket (linear hashing: Litwin, 1980). So it never holds two tables at
// once, and a bucket has only the room for its entries, as Go's allocator rounds it up. Its keys are hashes already.
type table struct {
	buckets []bucket
	// round is the power of two with round <= len(buckets) < 2*round. The buckets before len(buckets)-round are split.
	round uint64
	count int // the number of entries
}

type bucket []entry

// entry has no pointers, so that the garbage collector does not look into buckets. It has 56 bytes.
type entry struct {
	key     dedupe.Key
	owner   dedupe.Digest
	content dedupe.Digest
	purgeAt int64
}

var _ dedupe.Table = (*table)(nil)

func newTable() *table { return &table{buckets: make([]bucket, 1), round: 1} }

// bucketOf returns the index of a key's bucket.
func (t *table) bucketOf(k dedupe.Key) uint64 {
	hash := binary.LittleEndian.Uint64(k[:])
	if i := hash & (2*t.round - 1); i < uint64(len(t.buckets)) {
		return i
	}
	return hash & (t.round - 1)
}

func (t *table) Find(k dedupe.Key) (dedupe.Existing, bool) {
	e := t.buckets[t.bucketOf(k)].find(k)
	if e == nil {
		return dedupe.Existing{}, false
	}
	return dedupe.Existing{Owner: e.owner, Content: e.content, PurgeAt: e.purgeAt}, true
}

func (t *table) Set(k dedupe.Key, is dedupe.Existing) {
	e := entry{k, is.Owner, is.Content, is.PurgeAt}
	if old := t.buckets[t.bucketOf(k)].find(k); old != nil {
		*old = e
		return
	}
	if t.count++; t.count > bucketSize*len(t.buckets) {
		t.split()
	}
	b := &t.buckets[t.bucketOf(k)]
	*b = append(b.withRoom(), e)
}

func (b bucket) find(k dedupe.Key) *entry {
	for i := range b {
		if b[i].key == k {
			return &b[i]
		}
	}
	return nil
}

// withRoom returns the bucket with room for one more entry. append would double its room.
func (b bucket) withRoom() bucket {
	if len(b) < cap(b) {
		return b
	}
	return append(slices.Grow(bucket(nil), len(b)+1), b...)
}

// split moves the entries of the next bucket whose hash has this round's bit into a new bucket.
func (t *table) split() {
	from := uint64(len(t.buckets)) - t.round
	old := t.buckets[from]
	moved := 0
	for i := range old {
		if t.moves(old[i].key) {
			moved++
		}
	}
	stay, move := slices.Grow(bucket(nil), len(old)-moved), slices.Grow(bucket(nil), moved)
	for _, e := range old {
		if t.moves(e.key) {
			move = append(move, e)
		} else {
			stay = append(stay, e)
		}
	}
	t.buckets[from] = stay
	if t.buckets = append(t.buckets, move); uint64(len(t.buckets)) == 2*t.round {
		t.round *= 2
	}
}

// moves reports whether a split moves the entry of a key.
func (t *table) moves(k dedupe.Key) bool { return binary.LittleEndian.Uint64(k[:])&t.round != 0 }
