package kpl

import (
	"encoding/binary"
	"fmt"
)

// The part of the protobuf wire format that an aggregate needs: a field is a tag (number times 8 plus wire type) and a
// value. Source: protobuf.dev, "Encoding".
//
// Package protowire of google.golang.org/protobuf is not used, since it opens and reads the program's executable at
// every start. The tests compare this file with protowire.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5

	tagKeyTable     = 1<<3 | wireBytes
	tagHashKeyTable = 2<<3 | wireBytes
	tagRecord       = 3<<3 | wireBytes
	lastOfMessage   = 3

	tagKeyIndex     = 1<<3 | wireVarint
	tagHashKeyIndex = 2<<3 | wireVarint
	tagData         = 3<<3 | wireBytes
	lastOfRecord    = 3 // field 4, the tags, is treated as unknown

	maxNumber = 1<<29 - 1
)

// wire is a Kinesis record up to the end of the message that is read. All positions are those in the record, so that an
// error names the position that a dump of the record shows.
type wire []byte

// field is one field of a message. It has four words, so that it stays in registers: next to the MD5, reading fields
// takes most of the time.
type field struct {
	tag   uint64
	value uint64 // the number of a varint, else the position where the bytes begin
	at    int    // the position where the field begins
	end   int    // the position after it
}

func (f field) number() uint64 { return f.tag >> 3 }

func (f field) wrongType() error {
	return poison(f.at, "field %d has the wrong wire type %d", f.number(), f.tag&7)
}

// bytes returns the bytes of a field without a copy. Their capacity is their length, so that appending to them does not
// overwrite the next field.
func (w wire) bytes(f field) []byte { return w[f.value:f.end:f.end] }

// next reads the field at a position, which must be before the end.
func (w wire) next(at int) (f field, err error) {
	tag, begin := uint64(w[at]), at+1
	if tag >= 0x80 {
		if tag, begin, err = w.varint(at); err != nil {
			return f, err
		}
	}
	if tag < 1<<3 || tag > maxNumber<<3|7 {
		return f, poison(at, "there is no field number %d", tag>>3)
	}
	var size uint64
	switch tag & 7 {
	case wireVarint:
		value, end, err := w.varint(begin)
		return field{tag, value, at, end}, err
	case wireBytes:
		if begin < len(w) && w[begin] < 0x80 { // like varint, without the call
			size, begin = uint64(w[begin]), begin+1
		} else if size, begin, err = w.longVarint(begin); err != nil {
			return f, err
		}
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	default:
		return f, poison(at, "field %d has wire type %d", tag>>3, tag&7)
	}
	if left := len(w) - begin; size > uint64(left) {
		return f, poison(begin, "%d bytes are announced, but %d are left", size, left)
	}
	return field{tag, uint64(begin), at, begin + int(size)}, nil
}

// varint reads the number at a position, and returns the position after it. Most numbers have one byte.
func (w wire) varint(at int) (value uint64, end int, err error) {
	if at < len(w) && w[at] < 0x80 {
		return uint64(w[at]), at + 1, nil
	}
	return w.longVarint(at)
}

// short reads a number of one or two bytes at a position with at least two bytes. For a longer number the end is 0,
// where no field can be.
func (w wire) short(at int) (value, end int) {
	value = int(w[at])
	if value < 0x80 {
		return value, at + 1
	}
	if w[at+1] < 0x80 {
		return value&0x7F | int(w[at+1])<<7, at + 2
	}
	return 0, 0
}

func (w wire) longVarint(at int) (value uint64, end int, err error) {
	value, n := binary.Uvarint(w[at:])
	switch {
	case n == 0:
		return 0, 0, poison(at, "a varint has no end")
	case n < 0:
		return 0, 0, poison(at, "a varint has more than 64 bits")
	}
	return value, at + n, nil
}

func poison(at int, format string, args ...any) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrPoison, at, fmt.Sprintf(format, args...))
}
