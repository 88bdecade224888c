package kpl

import (
	"crypto/md5"
	"encoding/binary"
)

// Encoder makes an aggregate, byte for byte as the KPL does: each key is in its table once, in the order of first
// use, and the tables come before the user records. (The KPL sends a single user record plain; the caller decides
// about that.) The zero value is ready to use. An Encoder is not safe for concurrent use.
//
// An Encoder checks neither sizes nor keys. By default Kinesis takes records of up to 1 MiB including the partition
// key, and keys of 1 to 256 characters.
type Encoder struct {
	keys, hashKeys table
	records        []byte // wire format
	count          int
}

// table is a key table: its wire format, and the index of each key.
type table struct {
	wire  []byte
	index map[string]uint64
}

// Add appends a user record, which the Encoder copies.
func (e *Encoder) Add(record UserRecord) {
	key := e.keys.add(tagKeyTable, record.PartitionKey)
	var hashKey uint64
	if record.ExplicitHashKey != nil {
		hashKey = e.hashKeys.add(tagHashKeyTable, record.ExplicitHashKey)
	}
	e.records = append(e.records, tagRecord)
	e.records = binary.AppendUvarint(e.records, uint64(recordSize(record, key, hashKey)))
	e.records = append(e.records, tagKeyIndex)
	e.records = binary.AppendUvarint(e.records, key)
	if record.ExplicitHashKey != nil {
		e.records = append(e.records, tagHashKeyIndex)
		e.records = binary.AppendUvarint(e.records, hashKey)
	}
	e.records = append(e.records, tagData)
	e.records = appendSized(e.records, record.Data)
	e.count++
}

// Len returns the number of user records.
func (e *Encoder) Len() int { return e.count }

// Size returns the size of the aggregate in bytes.
func (e *Encoder) Size() int {
	return overhead + len(e.keys.wire) + len(e.hashKeys.wire) + len(e.records)
}

// SizeWith returns the Size after Add(record), so that the caller can send the aggregate before it exceeds the limit.
func (e *Encoder) SizeWith(record UserRecord) int {
	key, size := e.keys.find(record.PartitionKey)
	var hashKey uint64
	if record.ExplicitHashKey != nil {
		var more int
		hashKey, more = e.hashKeys.find(record.ExplicitHashKey)
		size += more
	}
	return e.Size() + size + 1 + sizedSize(recordSize(record, key, hashKey))
}

// Bytes returns a copy of the aggregate. Without user records it has 20 bytes, which all decoders take for a plain
// record.
func (e *Encoder) Bytes() []byte {
	b := make([]byte, 0, e.Size())
	b = append(b, magic...)
	b = append(b, e.keys.wire...)
	b = append(b, e.hashKeys.wire...)
	b = append(b, e.records...)
	sum := md5.Sum(b[len(magic):])
	return append(b, sum[:]...)
}

// Reset removes all user records and keeps the memory for the next aggregate.
func (e *Encoder) Reset() {
	e.keys.reset()
	e.hashKeys.reset()
	e.records = e.records[:0]
	e.count = 0
}

// recordSize returns the size of a user record without its own tag and size.
func recordSize(record UserRecord, key, hashKey uint64) int {
	size := 1 + varintSize(key) + 1 + sizedSize(len(record.Data))
	if record.ExplicitHashKey != nil {
		size += 1 + varintSize(hashKey)
	}
	return size
}

// find returns the index of a key, and by how many bytes the table grows if the key is added.
func (t *table) find(key []byte) (index uint64, growth int) {
	if index, found := t.index[string(key)]; found {
		return index, 0
	}
	return uint64(len(t.index)), 1 + sizedSize(len(key))
}

func (t *table) add(tag byte, key []byte) uint64 {
	index, growth := t.find(key)
	if growth == 0 {
		return index
	}
	if t.index == nil {
		t.index = make(map[string]uint64)
	}
	t.index[string(key)] = index
	t.wire = appendSized(append(t.wire, tag), key)
	return index
}

func (t *table) reset() {
	clear(t.index)
	t.wire = t.wire[:0]
}

func appendSized(b, value []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// sizedSize returns the size of n bytes and the number n before them.
func sizedSize(n int) int { return varintSize(uint64(n)) + n }

func varintSize(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}
