package kpl

import (
	"crypto/md5"
	"errors"
	"fmt"
)

// ErrPoison means that the record is an aggregate by its MD5, but its message is broken. Decoding it again gives the
// same error: store the record whole, as a dead letter. The error says what is wrong and at which byte of the record,
// counted from 0. It never holds content of the record.
var ErrPoison = errors.New("kpl: poison aggregate")

// ErrTooMany means that an aggregate has more user records or keys than Decoder.Most. No memory was taken for them.
var ErrTooMany = errors.New("kpl: too many user records or keys in an aggregate")

const (
	magic    = "\xF3\x89\x9A\xC2"
	overhead = len(magic) + md5.Size

	// smallestRecord is the size of a user record without data: its own tag and size, the tag and index of its key, the
	// tag and size of its data.
	smallestRecord = 6

	// keptCapacity is the number of user records or keys for which a Decoder keeps its memory. A record of 1 MiB has
	// fewer, unless its payloads have a few bytes only.
	keptCapacity = 1 << 16
)

// UserRecord is a record as a user of the producer put it.
type UserRecord struct {
	Data            []byte
	PartitionKey    []byte
	ExplicitHashKey []byte // nil: none. A decimal number, which is not checked
}

// Decoder opens aggregates. It keeps its memory for the next call. The zero value is ready to use. A Decoder is not
// safe for concurrent use.
type Decoder struct {
	// Most is the largest number of user records, and of keys, of an aggregate. 0 means that there is no limit.
	Most int

	keys, hashKeys [][]byte
	records        []UserRecord
}

// Decode returns the user records of an aggregate, in order. The index of a record is its sub-sequence. The records are
// parts of data, and are valid until data changes or Decode is called again.
//
// A plain record is not an error: aggregated is false, and there are no records. The errors are ErrPoison and ErrTooMany,
// with aggregated true and no records.
func (d *Decoder) Decode(data []byte) (records []UserRecord, aggregated bool, err error) {
	d.forget()
	if !isAggregate(data) {
		return nil, false, nil
	}
	if err := d.read(data[:len(data)-md5.Size]); err != nil {
		return nil, true, err
	}
	return d.records, true, nil
}

// isAggregate distinguishes aggregates and plain records as KCL does. The MD5 is a checksum of the format: it
// distinguishes an aggregate from a payload that begins like one by chance. It does not protect against an attacker.
func isAggregate(data []byte) bool {
	if len(data) <= overhead || string(data[:len(magic)]) != magic {
		return false
	}
	end := len(data) - md5.Size
	return md5.Sum(data[len(magic):end]) == [md5.Size]byte(data[end:])
}

// read fills the Decoder from an aggregate without its MD5. The fields are counted first, so that memory is allocated
// once. The tables are read before the user records, since they may come after them.
func (d *Decoder) read(w wire) error {
	n, err := count(w)
	if err != nil {
		return err
	}
	if d.Most > 0 && max(n.keys, n.hashKeys, n.records) > d.Most {
		return ErrTooMany
	}
	d.keys = withCapacity(d.keys, n.keys)
	d.hashKeys = withCapacity(d.hashKeys, n.hashKeys)
	// If there are more records than the bytes can hold, some of them are broken.
	d.records = withCapacity(d.records, min(n.records, len(w)/smallestRecord))
	if err := d.readTables(w, n); err != nil {
		return err
	}
	return d.readRecords(w)
}

// counts holds the number of fields of an aggregate.
type counts struct{ keys, hashKeys, records int }

// count counts the fields of the message and checks them. It does not read the user records.
func count(w wire) (n counts, err error) {
	for at := len(magic); at < len(w); {
		f, err := w.next(at)
		if err != nil {
			return n, err
		}
		switch f.tag {
		case tagKeyTable:
			n.keys++
		case tagHashKeyTable:
			n.hashKeys++
		case tagRecord:
			n.records++
		default:
			if f.number() <= lastOfMessage {
				return n, f.wrongType()
			}
		}
		at = f.end
	}
	return n, nil
}

// readTables stops after the last key. The KPL writes the tables first, so that nothing is read twice.
func (d *Decoder) readTables(w wire, n counts) error {
	for at := len(magic); len(d.keys) < n.keys || len(d.hashKeys) < n.hashKeys; {
		f, err := w.next(at)
		if err != nil {
			return err
		}
		switch f.tag {
		case tagKeyTable:
			d.keys = append(d.keys, w.bytes(f))
		case tagHashKeyTable:
			d.hashKeys = append(d.hashKeys, w.bytes(f))
		}
		at = f.end
	}
	return nil
}

func (d *Decoder) readRecords(w wire) error {
	for at := d.readUsual(w, len(magic)); at < len(w); {
		f, err := w.next(at)
		if err != nil {
			return err
		}
		if f.tag == tagRecord {
			if err := d.readRecord(w[:f.end], int(f.value)); err != nil {
				return err
			}
		}
		at = d.readUsual(w, f.end)
	}
	return nil
}

// readUsual reads user records as long as they have the usual form: a key, optionally a hash key, and data, with
// numbers of one or two bytes. (AWS's aggregator for Java writes a hash key into all: AggRecord.java of
// awslabs/kinesis-aggregation.) It returns the position after them. readRecord reads what follows. So readUsual saves
// time, and never decides that a record is poison.
func (d *Decoder) readUsual(w wire, at int) (end int) {
	const header = 12 // at most four tags and four numbers
	for at+header <= len(w) && w[at] == tagRecord {
		size, begin := w.short(at + 1)
		if w[begin] != tagKeyIndex {
			break
		}
		key, next := w.short(begin + 1)
		var hashKey []byte
		if w[next] == tagHashKeyIndex {
			var index int
			if index, next = w.short(next + 1); index >= len(d.hashKeys) {
				break
			}
			hashKey = d.hashKeys[index]
		}
		if w[next] != tagData {
			break
		}
		dataSize, dataBegin := w.short(next + 1)
		end := dataBegin + dataSize
		if end != begin+size || key >= len(d.keys) { // count has checked that begin+size is in the message
			break
		}
		d.add(w[dataBegin:end:end], d.keys[key], hashKey)
		at = end
	}
	return at
}

// readRecord reads the user record from begin to the end of w. A field that occurs again replaces its earlier value, so
// the values are checked at the end.
func (d *Decoder) readRecord(w wire, begin int) error {
	var data []byte
	var key, hashKey uint64
	var hasKey, hasHashKey bool
	for at := begin; at < len(w); {
		f, err := w.next(at)
		if err != nil {
			return err
		}
		switch f.tag {
		case tagKeyIndex:
			key, hasKey = f.value, true
		case tagHashKeyIndex:
			hashKey, hasHashKey = f.value, true
		case tagData:
			data = w.bytes(f)
		default:
			if f.number() <= lastOfRecord {
				return f.wrongType()
			}
		}
		at = f.end
	}
	switch {
	case !hasKey:
		return d.bad(begin, "has no partition key index")
	case data == nil:
		return d.bad(begin, "has no data")
	case key >= uint64(len(d.keys)):
		return d.bad(begin, "has partition key %d of a table of %d", key, len(d.keys))
	case hasHashKey && hashKey >= uint64(len(d.hashKeys)):
		return d.bad(begin, "has explicit hash key %d of a table of %d", hashKey, len(d.hashKeys))
	}
	var explicit []byte
	if hasHashKey {
		explicit = d.hashKeys[hashKey]
	}
	d.add(data, d.keys[key], explicit)
	return nil
}

// add writes a user record field by field. (A composite literal would be built elsewhere and copied, which takes longer
// than reading the record.) The capacity suffices, since each record takes at least smallestRecord bytes.
func (d *Decoder) add(data, key, hashKey []byte) {
	last := len(d.records)
	d.records = d.records[:last+1]
	r := &d.records[last]
	r.Data, r.PartitionKey, r.ExplicitHashKey = data, key, hashKey
}

// bad returns an error with the sub-sequence of the user record that is being read.
func (d *Decoder) bad(at int, format string, args ...any) error {
	return poison(at, "user record %d %s", len(d.records), fmt.Sprintf(format, args...))
}

// forget empties the Decoder, so that it keeps neither the last input nor the memory of an extremely large aggregate.
func (d *Decoder) forget() {
	d.keys = emptied(d.keys)
	d.hashKeys = emptied(d.hashKeys)
	d.records = emptied(d.records)
}

// withCapacity returns an empty slice for n elements, which is s if its capacity suffices.
func withCapacity[T any](s []T, n int) []T {
	if n > cap(s) {
		return make([]T, 0, n)
	}
	return s
}

func emptied[T any](s []T) []T {
	if cap(s) > keptCapacity {
		return nil
	}
	clear(s)
	return s[:0]
}
