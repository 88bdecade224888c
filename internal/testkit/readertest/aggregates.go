// Package readertest holds inputs for the readers of records, good and broken. The readers' own tests read them, and
// tests/reference compares what other readers find in them.
package readertest

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/kpl"
)

// Magic begins an aggregate.
const Magic = "\xF3\x89\x9A\xC2"

// Sign makes an aggregate of a message, which may be broken.
func Sign(message ...byte) []byte {
	sum := md5.Sum(message)
	return slices.Concat([]byte(Magic), message, sum[:])
}

// keyTable is field 1 of a message.
const keyTable = "\x0A\x01k"

// Good is a valid user record with key 0 and payload "x".
const Good = "\x1A\x05\x08\x00\x1A\x01x"

// Message makes a message of the key table and of hand-made parts.
func Message(parts ...string) []byte {
	return []byte(keyTable + strings.Join(parts, ""))
}

// Record makes a user record of hand-made fields.
func Record(fields ...string) string {
	record := strings.Join(fields, "")
	return string(binary.AppendUvarint([]byte{0x1A}, uint64(len(record)))) + record
}

// Largest is the varint of 2^64-1.
var Largest = strings.Repeat("\xFF", 9) + "\x01"

var (
	endless   = strings.Repeat("\xFF", 9) + "\x80\x00" // would be more than 10 bytes
	over64    = strings.Repeat("\xFF", 9) + "\x02"     // bit 64
	padded0   = strings.Repeat("\x80", 9) + "\x00"     // 0, in ten bytes
	groupOf4  = "\x23\x24"                             // start and end of group 4
	wrapsTo0  = "\x80\x80\x80\x80\x10"                 // 2^32, 0 as a 32-bit int
	wrapsTo1n = "\xFF\xFF\xFF\xFF\x0F"                 // 2^32-1, -1 as a 32-bit int
)

// Poison are broken messages, each with the fault and its byte in the record. What follows the key table begins at
// byte 7.
var Poison = []struct {
	Name    string
	Message []byte
	Says    string
}{
	{"tag without end", Message("\x80"), "at byte 7: a varint has no end"},
	{"tag of 10 bytes and on", Message(endless), "at byte 7: a varint has more than 64 bits"},
	{"tag of 65 bits", Message(over64), "at byte 7: a varint has more than 64 bits"},
	{"field number 0", Message("\x02\x00"), "at byte 7: there is no field number 0"},
	{"field number 2^29", Message("\x82\x80\x80\x80\x10\x00"), "at byte 7: there is no field number 536870912"},
	{"field number 2^61-1", Message(Largest), "at byte 7: there is no field number 2305843009213693951"},
	{"zeros", Message("\x00\x00\x00\x00"), "at byte 7: there is no field number 0"},

	{"no size", Message("\x0A"), "at byte 8: a varint has no end"},
	{"size without end", Message("\x0A\xFF"), "at byte 8: a varint has no end"},
	{"size of 65 bits", Message("\x0A" + over64), "at byte 8: a varint has more than 64 bits"},
	{"size of 2^64-1", Message("\x0A" + Largest), "at byte 18: 18446744073709551615 bytes are announced, but 0 are left"},
	{"size of 2^63", Message("\x0A" + strings.Repeat("\x80", 9) + "\x01"), "9223372036854775808 bytes are announced"},
	{"key after the end", Message("\x0A\x02k"), "at byte 9: 2 bytes are announced, but 1 are left"},
	{"hash key after the end", Message("\x12\x02k"), "at byte 9: 2 bytes are announced, but 1 are left"},
	{"record after the end", Message(Good[:len(Good)-1]), "at byte 9: 5 bytes are announced, but 4 are left"},
	{"unknown bytes after the end", Message("\x3A\x02k"), "at byte 9: 2 bytes are announced, but 1 are left"},
	{"unknown varint without end", Message("\x38\x80"), "at byte 8: a varint has no end"},
	{"unknown varint of 65 bits", Message("\x38" + over64), "at byte 8: a varint has more than 64 bits"},
	{"unknown fixed64 after the end", Message("\x39\x00\x00\x00\x00\x00\x00\x00"), "at byte 8: 8 bytes are announced, but 7 are left"},
	{"unknown fixed32 after the end", Message("\x3D\x00\x00\x00"), "at byte 8: 4 bytes are announced, but 3 are left"},

	{"group", Message(groupOf4), "at byte 7: field 4 has wire type 3"},
	{"end of a group", Message("\x24"), "at byte 7: field 4 has wire type 4"},
	{"records as a group", Message("\x1B\x08\x00\x1A\x01x\x1C"), "at byte 7: field 3 has wire type 3"},
	{"wire type 6", Message("\x26\x00"), "at byte 7: field 4 has wire type 6"},
	{"wire type 7", Message("\x27\x00"), "at byte 7: field 4 has wire type 7"},
	{"key table as a number", Message("\x08\x00"), "at byte 7: field 1 has the wrong wire type 0"},
	{"hash key table as fixed64", Message("\x11\x00\x00\x00\x00\x00\x00\x00\x00"), "at byte 7: field 2 has the wrong wire type 1"},
	{"record as fixed32", Message("\x1D\x00\x00\x00\x00"), "at byte 7: field 3 has the wrong wire type 5"},

	{"empty record", Message("\x1A\x00"), "at byte 9: user record 0 has no partition key index"},
	{"no partition key", Message(Record("\x1A\x01x")), "at byte 9: user record 0 has no partition key index"},
	{"hash key only", Message("\x12\x010", Record("\x10\x00", "\x1A\x01x")), "at byte 12: user record 0 has no partition key index"},
	{"no data", Message(Record("\x08\x00")), "at byte 9: user record 0 has no data"},
	{"no data in the second", Message(Good, Record("\x08\x00")), "at byte 16: user record 1 has no data"},

	{"key index out of range", Message(Record("\x08\x01", "\x1A\x01x")), "at byte 9: user record 0 has partition key 1 of a table of 1"},
	{"key index out of range in the third", Message(Good, Good, Record("\x08\x01", "\x1A\x01x")), "at byte 23: user record 2 has partition key 1 of a table of 1"},
	{"key index of 2^32", Message(Record("\x08"+wrapsTo0, "\x1A\x01x")), "has partition key 4294967296 of a table of 1"},
	{"key index of 2^32-1", Message(Record("\x08"+wrapsTo1n, "\x1A\x01x")), "has partition key 4294967295 of a table of 1"},
	{"key index of 2^64-1", Message(Record("\x08"+Largest, "\x1A\x01x")), "has partition key 18446744073709551615 of a table of 1"},
	{"last of two key indices", Message(Record("\x08\x00", "\x08\x01", "\x1A\x01x")), "has partition key 1 of a table of 1"},
	{"no key table", []byte(Good), "at byte 6: user record 0 has partition key 0 of a table of 0"},
	{"no hash key table", Message(Record("\x08\x00", "\x10\x00", "\x1A\x01x")), "has explicit hash key 0 of a table of 0"},
	{"hash key index out of range", Message("\x12\x010", Record("\x08\x00", "\x10\x01", "\x1A\x01x")), "has explicit hash key 1 of a table of 1"},
	{"hash key index of 2^64-1", Message("\x12\x010", Record("\x08\x00", "\x10"+Largest, "\x1A\x01x")), "has explicit hash key 18446744073709551615 of a table of 1"},

	{"key index without end", Message(Record("\x08\x80")), "at byte 10: a varint has no end"},
	{"key index that ends after the record", Message(Record("\x08\x80"), Good), "at byte 10: a varint has no end"},
	{"no key index", Message(Record("\x08")), "at byte 10: a varint has no end"},
	{"key index of 65 bits", Message(Record("\x08"+over64, "\x1A\x01x")), "at byte 10: a varint has more than 64 bits"},
	{"data that ends after the record", Message(Record("\x08\x00", "\x1A\x01"), Good), "at byte 13: 1 bytes are announced, but 0 are left"},
	{"size of data without end, behind numbers of two bytes", Message("\x12\x010", "\x1A\x88\x00\x08\x80\x00\x10\x80\x00\x1A\x80"), "at byte 20: a varint has no end"},
	{"tag in a record without end", Message(Record("\x08\x00", "\x1A\x01x", "\x80"), Good), "at byte 14: a varint has no end"},
	{"field number 0 in a record", Message(Record("\x08\x00", "\x1A\x01x", "\x00\x00")), "at byte 14: there is no field number 0"},
	{"key index as bytes", Message(Record("\x0A\x01\x00", "\x1A\x01x")), "at byte 9: field 1 has the wrong wire type 2"},
	{"hash key index as fixed32", Message(Record("\x08\x00", "\x15\x00\x00\x00\x00", "\x1A\x01x")), "at byte 11: field 2 has the wrong wire type 5"},
	{"data as a number", Message(Record("\x08\x00", "\x18\x01")), "at byte 11: field 3 has the wrong wire type 0"},
	{"data as a group", Message(Record("\x08\x00", "\x1B\x1C")), "at byte 11: field 3 has wire type 3"},
	{"group in a record", Message(Record("\x08\x00", "\x1A\x01x", groupOf4)), "at byte 14: field 4 has wire type 3"},
	{"wire type 6 in a record", Message(Record("\x08\x00", "\x1A\x01x", "\x3E")), "at byte 14: field 7 has wire type 6"},
	{"tags after the end", Message(Record("\x08\x00", "\x1A\x01x", "\x22\x02t")), "at byte 16: 2 bytes are announced, but 1 are left"},

	{"good records, then garbage", Message(Good, Good, "\xFF"), "at byte 21: a varint has no end"},
	{"bad record, then good ones", Message("\x1A\x00", Good, Good), "at byte 9: user record 0 has no partition key index"},
}

// Legal are legal messages that the KPL does not write.
var Legal = []struct {
	Name    string
	Message []byte
	Want    []kpl.UserRecord
}{
	{"empty data", Message(Record("\x08\x00", "\x1A\x00")), []kpl.UserRecord{{PartitionKey: []byte("k")}}},
	{"empty keys", []byte("\x0A\x00\x12\x00" + Record("\x08\x00", "\x10\x00", "\x1A\x01x")), []kpl.UserRecord{{Data: []byte("x"), ExplicitHashKey: []byte{}}}},
	{"key that is not UTF-8", []byte("\x0A\x02\xFF\xC0" + Good), []kpl.UserRecord{{Data: []byte("x"), PartitionKey: []byte("\xFF\xC0")}}},
	{"hash key that is no number", Message("\x12\x02\x80z", Record("\x08\x00", "\x10\x00", "\x1A\x01x")), []kpl.UserRecord{User("k", "\x80z")}},
	{"no user records", Message(), nil},
	{"unknown fields only", []byte("\x38\x00"), nil},
	{"unused keys", Message("\x0A\x01u", "\x12\x01u", Good), []kpl.UserRecord{User("k")}},
	{"the same key twice", Message("\x0A\x01k", Good, Record("\x08\x01", "\x1A\x01x")), []kpl.UserRecord{User("k"), User("k")}},
	{"some with a hash key", Message("\x12\x010", Good, Record("\x08\x00", "\x10\x00", "\x1A\x01x"), Good), []kpl.UserRecord{User("k"), User("k", "0"), User("k")}},
	{"tables behind", []byte(Record("\x08\x01", "\x10\x01", "\x1A\x01x") + Good + "\x12\x010\x0A\x01k\x0A\x01l\x12\x011"), []kpl.UserRecord{User("l", "1"), User("k")}},
	{"tables between", Message(Record("\x08\x01", "\x1A\x01x"), "\x0A\x01l", Good), []kpl.UserRecord{User("l"), User("k")}},
	{"fields of a record in another order", Message("\x12\x010", Record("\x1A\x01x", "\x10\x00", "\x08\x00")), []kpl.UserRecord{User("k", "0")}},

	{"last of a repeated data", Message(Record("\x1A\x01y", "\x08\x00", "\x1A\x01x")), []kpl.UserRecord{User("k")}},
	{"last of a repeated data is empty", Message(Record("\x1A\x01y", "\x08\x00", "\x1A\x00")), []kpl.UserRecord{{PartitionKey: []byte("k")}}},
	{"last of a repeated key index", Message("\x0A\x01l", Record("\x08\x00", "\x08\x01", "\x1A\x01x")), []kpl.UserRecord{User("l")}},
	{"an index that does not count", Message(Record("\x08\x07", "\x10\x07", "\x08\x00", "\x10\x00", "\x1A\x01x"), "\x12\x010"), []kpl.UserRecord{User("k", "0")}},

	{"long varints", Message("\x8A\x80\x00\x81\x00l", "\x9A\x00\x88\x80\x00\x88\x00\x81\x80\x00\x1A\x01x"), []kpl.UserRecord{User("l")}},
	{"a zero of ten bytes", Message(Record("\x08"+padded0, "\x1A\x01x")), []kpl.UserRecord{User("k")}},
	{"tags", Message(Record("\x08\x00", "\x1A\x01x", "\x22\x06\x0A\x01t\x12\x01v", "\x22\x03\x0A\x01u")), []kpl.UserRecord{User("k")}},
	{"tags that are none", Message(Record("\x22\x01\xFF", "\x08\x00", "\x20\x07", "\x1A\x01x")), []kpl.UserRecord{User("k")}},
	{"unknown fields", Message("\x38\xFF\x01", "\x39\x0112345\x1A\x08", "\x3A\x03\x1A\x01x", Good, "\x3D\x1A\x00\x00\x0A"), []kpl.UserRecord{User("k")}},
	{"unknown fields of a record", Message(Record("\x38"+Largest, "\x08\x00", "\x39\x0112345\x1A\x08", "\x3A\x02\x08\x07", "\x1A\x01x", "\x3D\x1A\x00\x00\x0A")), []kpl.UserRecord{User("k")}},
	{"largest field number", Message("\xFA\xFF\xFF\xFF\x0F\x01u", Good), []kpl.UserRecord{User("k")}},
}

// User is the user record with the payload "x".
func User(key string, hashKey ...string) kpl.UserRecord {
	r := kpl.UserRecord{Data: []byte("x"), PartitionKey: []byte(key)}
	if len(hashKey) > 0 {
		r.ExplicitHashKey = []byte(hashKey[0])
	}
	return r
}

// UserRecords draws user records, with keys from a small set, so that some repeat, and from a large one.
func UserRecords() *rapid.Generator[kpl.UserRecord] {
	key := rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "b", "\xFF"}),
		rapid.StringN(-1, 40, 300),
	)
	return rapid.Custom(func(t *rapid.T) kpl.UserRecord {
		r := kpl.UserRecord{
			Data:         rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data"),
			PartitionKey: []byte(key.Draw(t, "key")),
		}
		if rapid.Bool().Draw(t, "with hash key") {
			r.ExplicitHashKey = []byte(key.Draw(t, "hash key"))
		}
		return r
	})
}

// Encode makes an aggregate of user records.
func Encode(records []kpl.UserRecord) []byte {
	var e kpl.Encoder
	for _, r := range records {
		e.Add(r)
	}
	return e.Bytes()
}

// Decode decodes a record and checks what holds for every record: the input stays as it is, poison is not delivered in
// part, appending to a payload or key overwrites nothing, and the user records can be encoded again.
func Decode(t rapid.TB, d *kpl.Decoder, data []byte) (records []kpl.UserRecord, aggregated bool, err error) {
	t.Helper()
	before := bytes.Clone(data)
	records, aggregated, err = d.Decode(data)
	switch {
	case !bytes.Equal(data, before):
		t.Fatalf("the input was changed\n%x\n%x", before, data)
	case err != nil && !errors.Is(err, kpl.ErrPoison):
		t.Fatalf("want ErrPoison, got %v\n%x", err, data)
	case err != nil && records != nil:
		t.Fatalf("poison was delivered in part: %v\n%x", err, data)
	}
	for _, r := range records {
		for _, b := range [][]byte{r.Data, r.PartitionKey, r.ExplicitHashKey} {
			if cap(b) != len(b) {
				t.Fatalf("appending to %x overwrites the input", b)
			}
		}
	}
	if len(records) > 0 {
		again, _, err := new(kpl.Decoder).Decode(Encode(records))
		if err != nil {
			t.Fatal(err)
		}
		CheckRecords(t, records, again)
	}
	return records, aggregated, err
}

// CheckRecords compares user records. An empty hash key differs from a nil one.
func CheckRecords(t rapid.TB, want, got []kpl.UserRecord) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("want %d user records, got %d", len(want), len(got))
	}
	for i := range got {
		if g, w := got[i], want[i]; !bytes.Equal(g.Data, w.Data) || !bytes.Equal(g.PartitionKey, w.PartitionKey) ||
			!bytes.Equal(g.ExplicitHashKey, w.ExplicitHashKey) || (g.ExplicitHashKey == nil) != (w.ExplicitHashKey == nil) {
			t.Fatalf("user record %d: want %q, got %q", i, w, g)
		}
	}
}
