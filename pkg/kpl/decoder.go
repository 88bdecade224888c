package kpl

import (
	"crypto/md5"
	"errors"
	"fmt"
)

// ErrPoison says that the record is an aggregate by its MD5, but its message is
// broken. Nothing of it was delivered and decoding it again changes nothing:
// keep it whole for somebody to look at. The error says what is wrong and at
// which byte of the record, counted from 0; it never holds the record's content.
var ErrPoison = errors.New("kpl: poison aggregate")

const (
	magic    = "\xF3\x89\x9A\xC2"
	overhead = len(magic) + md5.Size

	// smallestRecord is the size of a user record without data: its own tag and
	// size, then tag and number of its key, tag and size of its data.
	smallestRecord = 6

	// keepRoom is how many user records or keys a Decoder keeps room for: more
	// than a record of 1 MiB has unless its payloads are of a few bytes only.
	keepRoom = 1 << 16
)

// UserRecord is a record as a producer's user put it.
type UserRecord struct {
	Data            []byte
	PartitionKey    []byte
	ExplicitHashKey []byte // nil: none. A decimal number, which nobody has checked
}

// Decoder opens aggregates. It keeps its room for the next call, so that a warm
// one allocates nothing. The zero value is ready; a Decoder serves one goroutine
// at a time.
type Decoder struct {
	keys, hashKeys [][]byte
	records        []UserRecord
}

// Decode returns the user records of an aggregate, in order; the sub-sequence of
// each is its index. They are parts of data and stay good until data is changed
// or Decode is called again.
//
// A plain record is no error: aggregated is false and there are no records. The
// only error is ErrPoison; aggregated is true then, and there are no records.
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

// isAggregate draws the line between aggregates and plain records where KCL does.
// MD5 is what the format has for a checksum. It tells an aggregate from a payload
// that happens to begin like one, and protects against nobody.
func isAggregate(data []byte) bool {
	if len(data) <= overhead || string(data[:len(magic)]) != magic {
		return false
	}
	end := len(data) - md5.Size
	return md5.Sum(data[len(magic):end]) == [md5.Size]byte(data[end:])
}

// read fills the Decoder from the aggregate without its MD5. The tables may come
// behind the user records, so they are read first; and what there is is counted
// before that, so that room is made once.
func (d *Decoder) read(w wire) error {
	n, err := count(w)
	if err != nil {
		return err
	}
	d.keys = room(d.keys, n.keys)
	d.hashKeys = room(d.hashKeys, n.hashKeys)
	// Not for more records than so many bytes can hold: some are broken then.
	d.records = room(d.records, min(n.records, len(w)/smallestRecord))
	if err := d.readTables(w, n); err != nil {
		return err
	}
	return d.readRecords(w)
}

// counts is how many of each an aggregate has.
type counts struct{ keys, hashKeys, records int }

// count also checks all fields of the message, but does not look into records.
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

// readTables stops at the last key: in what the KPL writes the tables come
// first, and nothing is read twice.
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

// readUsual reads user records from a place on as long as they have the form that
// libraries give to most: a key, a hash key or none, data and nothing else, in
// numbers of one or two bytes. (AWS's aggregator for Java gives all a hash key:
// AggRecord.java of awslabs/kinesis-aggregation.) It returns the place behind them.
// What is there is for the others to read and to judge, so that this saves time and
// decides nothing.
func (d *Decoder) readUsual(w wire, at int) (end int) {
	const header = 12 // four tags and four numbers, at most
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
		if end != begin+size || key >= len(d.keys) { // begin+size is in the message, says count
			break
		}
		d.add(w[dataBegin:end:end], d.keys[key], hashKey)
		at = end
	}
	return at
}

// readRecord reads the user record from a place to the end. A field given again
// replaces what it said before, so that nothing is judged until the end.
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

// add writes a user record field by field: one written as a whole is put together
// elsewhere and copied, which takes longer than reading it. There is room for it,
// since each takes at least smallestRecord bytes.
func (d *Decoder) add(data, key, hashKey []byte) {
	last := len(d.records)
	d.records = d.records[:last+1]
	r := &d.records[last]
	r.Data, r.PartitionKey, r.ExplicitHashKey = data, key, hashKey
}

// bad names the user record that is being read by its sub-sequence.
func (d *Decoder) bad(at int, format string, args ...any) error {
	return poison(at, "user record %d %s", len(d.records), fmt.Sprintf(format, args...))
}

// forget empties the Decoder, so that it holds on to no input that its caller
// is done with, nor to the room that one extreme aggregate took.
func (d *Decoder) forget() {
	d.keys = emptied(d.keys)
	d.hashKeys = emptied(d.hashKeys)
	d.records = emptied(d.records)
}

// room returns an empty slice with room for n, which is s if s has it.
func room[T any](s []T, n int) []T {
	if n > cap(s) {
		return make([]T, 0, n)
	}
	return s
}

func emptied[T any](s []T) []T {
	if cap(s) > keepRoom {
		return nil
	}
	clear(s)
	return s[:0]
}
