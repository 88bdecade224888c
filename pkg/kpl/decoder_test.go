package kpl_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/oncebox/oncebox/pkg/kpl"
)

// vector is an aggregate of two records: a with key pk0, and b with key pk1.
const vector = "84mawgoDcGswCgNwazEaBQgAGgFhGgUIARoBYoA4lzDZUZf4PCBW3STYSm0="

func vectorBytes(t testing.TB) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(vector)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestVector(t *testing.T) {
	t.Parallel()
	want := []kpl.UserRecord{
		{Data: []byte("a"), PartitionKey: []byte("pk0")},
		{Data: []byte("b"), PartitionKey: []byte("pk1")},
	}
	got, aggregated, err := new(kpl.Decoder).Decode(vectorBytes(t))
	if err != nil || !aggregated {
		t.Fatal(aggregated, err)
	}
	checkRecords(t, want, got)
	if got := base64.StdEncoding.EncodeToString(encode(want)); got != vector {
		t.Errorf("encoded: want %s, got %s", vector, got)
	}
}

func TestPlainRecord(t *testing.T) {
	t.Parallel()
	good := vectorBytes(t)
	cases := map[string][]byte{
		"nil":                nil,
		"empty":              {},
		"JSON":               []byte(`{"id":"order-1"}`),
		"magic alone":        []byte(magic),
		"a part of it":       []byte(magic[:3]),
		"the empty message":  sign(),
		"the message alone":  good[len(magic):],
		"no MD5":             good[:len(good)-16],
		"a byte too few":     good[:len(good)-1],
		"a byte too many":    append(bytes.Clone(good), 0),
		"twenty other bytes": append([]byte(magic), make([]byte, 16)...),
	}
	for i := range good {
		cases[fmt.Sprintf("byte %d is another", i)] = flip(good, i)
	}
	d := new(kpl.Decoder)
	for name, data := range cases {
		if records, aggregated, err := d.Decode(data); records != nil || aggregated || err != nil {
			t.Errorf("%s: got %v, %v, %v", name, records, aggregated, err)
		}
	}
}

func flip(data []byte, i int) []byte {
	data = bytes.Clone(data)
	data[i] ^= 0x10
	return data
}

// The parts of hand-made messages: field 1 of a message, and a valid user record with key 0 and payload "x".
var (
	keyTable = []byte("\x0A\x01k")
	good     = "\x1A\x05\x08\x00\x1A\x01x"
)

func message(parts ...string) []byte {
	return append(bytes.Clone(keyTable), strings.Join(parts, "")...)
}

// record makes a user record of hand-made fields.
func record(fields ...string) string {
	return string(protowire.AppendBytes([]byte{0x1A}, []byte(strings.Join(fields, ""))))
}

var (
	endless   = strings.Repeat("\xFF", 9) + "\x80\x00" // would be more than 10 bytes
	over64    = strings.Repeat("\xFF", 9) + "\x02"     // bit 64
	largest   = strings.Repeat("\xFF", 9) + "\x01"     // 2^64-1
	padded0   = strings.Repeat("\x80", 9) + "\x00"     // 0, in ten bytes
	groupOf4  = "\x23\x24"                             // start and end of group 4
	wrapsTo0  = "\x80\x80\x80\x80\x10"                 // 2^32, 0 as a 32-bit int
	wrapsTo1n = "\xFF\xFF\xFF\xFF\x0F"                 // 2^32-1, -1 as a 32-bit int
)

// poisonCases are broken messages, each with the fault and its byte in the record. The bytes after the key table
// begin at byte 7.
var poisonCases = []struct {
	name    string
	message []byte
	says    string
}{
	{"tag without end", message("\x80"), "at byte 7: a varint has no end"},
	{"tag of 10 bytes and on", message(endless), "at byte 7: a varint has more than 64 bits"},
	{"tag of 65 bits", message(over64), "at byte 7: a varint has more than 64 bits"},
	{"field number 0", message("\x02\x00"), "at byte 7: there is no field number 0"},
	{"field number 2^29", message("\x82\x80\x80\x80\x10\x00"), "at byte 7: there is no field number 536870912"},
	{"field number 2^61-1", message(largest), "at byte 7: there is no field number 2305843009213693951"},
	{"zeros", message("\x00\x00\x00\x00"), "at byte 7: there is no field number 0"},

	{"no size", message("\x0A"), "at byte 8: a varint has no end"},
	{"size without end", message("\x0A\xFF"), "at byte 8: a varint has no end"},
	{"size of 65 bits", message("\x0A" + over64), "at byte 8: a varint has more than 64 bits"},
	{"size of 2^64-1", message("\x0A" + largest), "at byte 18: 18446744073709551615 bytes are announced, but 0 are left"},
	{"size of 2^63", message("\x0A" + strings.Repeat("\x80", 9) + "\x01"), "9223372036854775808 bytes are announced"},
	{"key after the end", message("\x0A\x02k"), "at byte 9: 2 bytes are announced, but 1 are left"},
	{"hash key after the end", message("\x12\x02k"), "at byte 9: 2 bytes are announced, but 1 are left"},
	{"record after the end", message(good[:len(good)-1]), "at byte 9: 5 bytes are announced, but 4 are left"},
	{"unknown bytes after the end", message("\x3A\x02k"), "at byte 9: 2 bytes are announced, but 1 are left"},
	{"unknown varint without end", message("\x38\x80"), "at byte 8: a varint has no end"},
	{"unknown varint of 65 bits", message("\x38" + over64), "at byte 8: a varint has more than 64 bits"},
	{"unknown fixed64 after the end", message("\x39\x00\x00\x00\x00\x00\x00\x00"), "at byte 8: 8 bytes are announced, but 7 are left"},
	{"unknown fixed32 after the end", message("\x3D\x00\x00\x00"), "at byte 8: 4 bytes are announced, but 3 are left"},

	{"group", message(groupOf4), "at byte 7: field 4 has wire type 3"},
	{"end of a group", message("\x24"), "at byte 7: field 4 has wire type 4"},
	{"records as a group", message("\x1B\x08\x00\x1A\x01x\x1C"), "at byte 7: field 3 has wire type 3"},
	{"wire type 6", message("\x26\x00"), "at byte 7: field 4 has wire type 6"},
	{"wire type 7", message("\x27\x00"), "at byte 7: field 4 has wire type 7"},
	{"key table as a number", message("\x08\x00"), "at byte 7: field 1 has the wrong wire type 0"},
	{"hash key table as fixed64", message("\x11\x00\x00\x00\x00\x00\x00\x00\x00"), "at byte 7: field 2 has the wrong wire type 1"},
	{"record as fixed32", message("\x1D\x00\x00\x00\x00"), "at byte 7: field 3 has the wrong wire type 5"},

	{"empty record", message("\x1A\x00"), "at byte 9: user record 0 has no partition key index"},
	{"no partition key", message(record("\x1A\x01x")), "at byte 9: user record 0 has no partition key index"},
	{"hash key only", message("\x12\x010", record("\x10\x00", "\x1A\x01x")), "at byte 12: user record 0 has no partition key index"},
	{"no data", message(record("\x08\x00")), "at byte 9: user record 0 has no data"},
	{"no data in the second", message(good, record("\x08\x00")), "at byte 16: user record 1 has no data"},

	{"key index out of range", message(record("\x08\x01", "\x1A\x01x")), "at byte 9: user record 0 has partition key 1 of a table of 1"},
	{"key index out of range in the third", message(good, good, record("\x08\x01", "\x1A\x01x")), "at byte 23: user record 2 has partition key 1 of a table of 1"},
	{"key index of 2^32", message(record("\x08"+wrapsTo0, "\x1A\x01x")), "has partition key 4294967296 of a table of 1"},
	{"key index of 2^32-1", message(record("\x08"+wrapsTo1n, "\x1A\x01x")), "has partition key 4294967295 of a table of 1"},
	{"key index of 2^64-1", message(record("\x08"+largest, "\x1A\x01x")), "has partition key 18446744073709551615 of a table of 1"},
	{"last of two key indices", message(record("\x08\x00", "\x08\x01", "\x1A\x01x")), "has partition key 1 of a table of 1"},
	{"no key table", []byte(good), "at byte 6: user record 0 has partition key 0 of a table of 0"},
	{"no hash key table", message(record("\x08\x00", "\x10\x00", "\x1A\x01x")), "has explicit hash key 0 of a table of 0"},
	{"hash key index out of range", message("\x12\x010", record("\x08\x00", "\x10\x01", "\x1A\x01x")), "has explicit hash key 1 of a table of 1"},
	{"hash key index of 2^64-1", message("\x12\x010", record("\x08\x00", "\x10"+largest, "\x1A\x01x")), "has explicit hash key 18446744073709551615 of a table of 1"},

	{"key index without end", message(record("\x08\x80")), "at byte 10: a varint has no end"},
	{"key index that ends after the record", message(record("\x08\x80"), good), "at byte 10: a varint has no end"},
	{"no key index", message(record("\x08")), "at byte 10: a varint has no end"},
	{"key index of 65 bits", message(record("\x08"+over64, "\x1A\x01x")), "at byte 10: a varint has more than 64 bits"},
	{"data that ends after the record", message(record("\x08\x00", "\x1A\x01"), good), "at byte 13: 1 bytes are announced, but 0 are left"},
	{"size of data without end, behind numbers of two bytes", message("\x12\x010", "\x1A\x88\x00\x08\x80\x00\x10\x80\x00\x1A\x80"), "at byte 20: a varint has no end"},
	{"tag in a record without end", message(record("\x08\x00", "\x1A\x01x", "\x80"), good), "at byte 14: a varint has no end"},
	{"field number 0 in a record", message(record("\x08\x00", "\x1A\x01x", "\x00\x00")), "at byte 14: there is no field number 0"},
	{"key index as bytes", message(record("\x0A\x01\x00", "\x1A\x01x")), "at byte 9: field 1 has the wrong wire type 2"},
	{"hash key index as fixed32", message(record("\x08\x00", "\x15\x00\x00\x00\x00", "\x1A\x01x")), "at byte 11: field 2 has the wrong wire type 5"},
	{"data as a number", message(record("\x08\x00", "\x18\x01")), "at byte 11: field 3 has the wrong wire type 0"},
	{"data as a group", message(record("\x08\x00", "\x1B\x1C")), "at byte 11: field 3 has wire type 3"},
	{"group in a record", message(record("\x08\x00", "\x1A\x01x", groupOf4)), "at byte 14: field 4 has wire type 3"},
	{"wire type 6 in a record", message(record("\x08\x00", "\x1A\x01x", "\x3E")), "at byte 14: field 7 has wire type 6"},
	{"tags after the end", message(record("\x08\x00", "\x1A\x01x", "\x22\x02t")), "at byte 16: 2 bytes are announced, but 1 are left"},

	{"good records, then garbage", message(good, good, "\xFF"), "at byte 21: a varint has no end"},
	{"bad record, then good ones", message("\x1A\x00", good, good), "at byte 9: user record 0 has no partition key index"},
}

func TestPoison(t *testing.T) {
	t.Parallel()
	d := new(kpl.Decoder)
	for _, c := range poisonCases {
		data := sign(c.message...)
		records, aggregated, err := d.Decode(data)
		if !errors.Is(err, kpl.ErrPoison) || !strings.Contains(err.Error(), c.says) || !aggregated || records != nil {
			t.Errorf("%s: want %q, got %d records, %v, %v", c.name, c.says, len(records), aggregated, err)
		}
		checkDecode(t, d, data)
	}
}

// legalCases are legal messages that the KPL does not write.
var legalCases = []struct {
	name    string
	message []byte
	want    []kpl.UserRecord
}{
	{"empty data", message(record("\x08\x00", "\x1A\x00")), []kpl.UserRecord{{PartitionKey: []byte("k")}}},
	{"empty keys", []byte("\x0A\x00\x12\x00" + record("\x08\x00", "\x10\x00", "\x1A\x01x")), []kpl.UserRecord{{Data: []byte("x"), ExplicitHashKey: []byte{}}}},
	{"key that is not UTF-8", []byte("\x0A\x02\xFF\xC0" + good), []kpl.UserRecord{{Data: []byte("x"), PartitionKey: []byte("\xFF\xC0")}}},
	{"hash key that is no number", message("\x12\x02\x80z", record("\x08\x00", "\x10\x00", "\x1A\x01x")), []kpl.UserRecord{x("k", "\x80z")}},
	{"no user records", message(), nil},
	{"unknown fields only", []byte("\x38\x00"), nil},
	{"unused keys", message("\x0A\x01u", "\x12\x01u", good), []kpl.UserRecord{x("k")}},
	{"the same key twice", message("\x0A\x01k", good, record("\x08\x01", "\x1A\x01x")), []kpl.UserRecord{x("k"), x("k")}},
	{"some with a hash key", message("\x12\x010", good, record("\x08\x00", "\x10\x00", "\x1A\x01x"), good), []kpl.UserRecord{x("k"), x("k", "0"), x("k")}},
	{"tables behind", []byte(record("\x08\x01", "\x10\x01", "\x1A\x01x") + good + "\x12\x010\x0A\x01k\x0A\x01l\x12\x011"), []kpl.UserRecord{x("l", "1"), x("k")}},
	{"tables between", message(record("\x08\x01", "\x1A\x01x"), "\x0A\x01l", good), []kpl.UserRecord{x("l"), x("k")}},
	{"fields of a record in another order", message("\x12\x010", record("\x1A\x01x", "\x10\x00", "\x08\x00")), []kpl.UserRecord{x("k", "0")}},

	{"last of a repeated data", message(record("\x1A\x01y", "\x08\x00", "\x1A\x01x")), []kpl.UserRecord{x("k")}},
	{"last of a repeated data is empty", message(record("\x1A\x01y", "\x08\x00", "\x1A\x00")), []kpl.UserRecord{{PartitionKey: []byte("k")}}},
	{"last of a repeated key index", message("\x0A\x01l", record("\x08\x00", "\x08\x01", "\x1A\x01x")), []kpl.UserRecord{x("l")}},
	{"an index that does not count", message(record("\x08\x07", "\x10\x07", "\x08\x00", "\x10\x00", "\x1A\x01x"), "\x12\x010"), []kpl.UserRecord{x("k", "0")}},

	{"long varints", message("\x8A\x80\x00\x81\x00l", "\x9A\x00\x88\x80\x00\x88\x00\x81\x80\x00\x1A\x01x"), []kpl.UserRecord{x("l")}},
	{"a zero of ten bytes", message(record("\x08"+padded0, "\x1A\x01x")), []kpl.UserRecord{x("k")}},
	{"tags", message(record("\x08\x00", "\x1A\x01x", "\x22\x06\x0A\x01t\x12\x01v", "\x22\x03\x0A\x01u")), []kpl.UserRecord{x("k")}},
	{"tags that are none", message(record("\x22\x01\xFF", "\x08\x00", "\x20\x07", "\x1A\x01x")), []kpl.UserRecord{x("k")}},
	{"unknown fields", message("\x38\xFF\x01", "\x39\x0112345\x1A\x08", "\x3A\x03\x1A\x01x", good, "\x3D\x1A\x00\x00\x0A"), []kpl.UserRecord{x("k")}},
	{"unknown fields of a record", message(record("\x38"+largest, "\x08\x00", "\x39\x0112345\x1A\x08", "\x3A\x02\x08\x07", "\x1A\x01x", "\x3D\x1A\x00\x00\x0A")), []kpl.UserRecord{x("k")}},
	{"largest field number", message("\xFA\xFF\xFF\xFF\x0F\x01u", good), []kpl.UserRecord{x("k")}},
}

// x is the user record with the payload "x".
func x(key string, hashKey ...string) kpl.UserRecord {
	r := kpl.UserRecord{Data: []byte("x"), PartitionKey: []byte(key)}
	if len(hashKey) > 0 {
		r.ExplicitHashKey = []byte(hashKey[0])
	}
	return r
}

func TestLegal(t *testing.T) {
	t.Parallel()
	d := new(kpl.Decoder)
	for _, c := range legalCases {
		data := sign(c.message...)
		records, aggregated, err := d.Decode(data)
		if err != nil || !aggregated {
			t.Errorf("%s: %v, %v", c.name, aggregated, err)
			continue
		}
		checkRecords(t, c.want, records)
		checkDecode(t, d, data)
	}
}

// Data, which is required, and existing keys are never nil.
func TestEmptyIsNotNil(t *testing.T) {
	t.Parallel()
	data := encode([]kpl.UserRecord{{ExplicitHashKey: []byte{}}, {}})
	records, _, err := new(kpl.Decoder).Decode(data)
	if err != nil || len(records) != 2 {
		t.Fatal(records, err)
	}
	for _, r := range records {
		if r.Data == nil || r.PartitionKey == nil {
			t.Errorf("got %#v", r)
		}
	}
	if records[0].ExplicitHashKey == nil || records[1].ExplicitHashKey != nil {
		t.Errorf("an empty hash key must not be nil, and a missing one must be: %#v", records)
	}
}

func TestTruncatedMessages(t *testing.T) {
	t.Parallel()
	var d kpl.Decoder
	whole := message("\x12\x010", good,
		record("\x08\x00", "\x10\x00", "\x1A\x80\x01"+strings.Repeat("x", 128), "\x22\x01t"), "\x3D1234")
	for n := range whole {
		checkDecode(t, &d, sign(whole[:n]...))
	}
}

// Each byte of a message takes each value.
func TestEveryChangedByte(t *testing.T) {
	t.Parallel()
	var d kpl.Decoder
	whole := message("\x12\x010", good, record("\x08\x00", "\x10\x00", "\x1A\x02xy", "\x22\x01t"), "\x3D1234",
		"\x39\x00\x00\x00\x00\x00\x00\x00\x00")
	for i := range whole {
		changed := bytes.Clone(whole)
		for value := range 256 {
			changed[i] = byte(value)
			checkDecode(t, &d, sign(changed...))
		}
	}
}

func TestRecordsAreTheInput(t *testing.T) {
	t.Parallel()
	data := encode([]kpl.UserRecord{x("k", "h"), x("l")})
	before := bytes.Clone(data)
	records, _, err := new(kpl.Decoder).Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	mine := slices.Clone(records)
	_ = append(records[0].Data, "overwritten"...)
	_ = append(records[0].PartitionKey, "overwritten"...)
	_ = append(records[0].ExplicitHashKey, "overwritten"...)
	if !bytes.Equal(data, before) {
		t.Errorf("appending changed the input: %x", data)
	}
	for i := range data {
		data[i] = '!'
	}
	checkRecords(t, []kpl.UserRecord{
		{Data: []byte("!"), PartitionKey: []byte("!"), ExplicitHashKey: []byte("!")},
		{Data: []byte("!"), PartitionKey: []byte("!")},
	}, mine)
}

// A Decoder must not keep its last input in memory.
func TestNextDecodeForgets(t *testing.T) {
	t.Parallel()
	for name, next := range map[string][]byte{
		"plain":   []byte("plain"),
		"poison":  sign(message(good, "\xFF")...),
		"smaller": encode([]kpl.UserRecord{x("k")}),
		"none":    sign(message()...),
	} {
		var d kpl.Decoder
		old, _, err := d.Decode(encode([]kpl.UserRecord{x("k", "0"), x("l", "1")}))
		if err != nil {
			t.Fatal(err)
		}
		got, _, _ := d.Decode(next)
		for _, r := range old[len(got):] {
			if r.Data != nil || r.PartitionKey != nil || r.ExplicitHashKey != nil {
				t.Errorf("%s: still there: %q", name, r)
			}
		}
	}
}

// The following tests measure memory, so they are not parallel.

func TestWarmDecoderAllocatesNothing(t *testing.T) {
	for _, n := range []int{1, 100, 1000} {
		var records []kpl.UserRecord
		for i := range n {
			r := kpl.UserRecord{Data: make([]byte, i), PartitionKey: fmt.Appendf(nil, "key-%d", i)}
			if i%2 == 1 {
				r.ExplicitHashKey = fmt.Append(nil, i)
			}
			records = append(records, r)
		}
		data := encode(records)
		var d kpl.Decoder
		decode := func() {
			if got, _, err := d.Decode(data); err != nil || len(got) != n {
				t.Fatal(len(got), err)
			}
		}
		decode()
		if allocs := testing.AllocsPerRun(100, decode); allocs != 0 {
			t.Errorf("%d user records: %v allocations a call", n, allocs)
		}
	}
	plain, d := make([]byte, 1000), new(kpl.Decoder)
	if allocs := testing.AllocsPerRun(100, func() { _, _, _ = d.Decode(plain) }); allocs != 0 {
		t.Errorf("plain record: %v allocations a call", allocs)
	}
}

// A cold Decoder allocates at most 12 times the size of a message, also of a hostile one. The first three messages come
// close to that.
func TestMemoryIsBounded(t *testing.T) {
	const size = 1 << 18
	fill := func(part string) []byte { return sign(message(strings.Repeat(part, size/len(part)))...) }
	for name, data := range map[string][]byte{
		"smallest records":      fill(record("\x08\x00", "\x1A\x00")),
		"empty keys":            fill("\x0A\x00"),
		"empty hash keys":       fill("\x12\x00"),
		"records of nothing":    fill("\x1A\x00"),
		"good until the last":   sign(append(message(strings.Repeat(record("\x08\x00", "\x1A\x00"), size/6)), "\x1A\x00"...)...),
		"unknown fields":        fill("\x38\x00"),
		"fields in one record":  sign(message(record("\x08\x00", strings.Repeat("\x1A\x00", size/2)))...),
		"announces the largest": sign(message("\x0A"+largest, strings.Repeat("\x00", size))...),
	} {
		var d kpl.Decoder
		allocated := allocatedBy(func() { _, _, _ = d.Decode(data) })
		if limit := uint64(12*len(data) + 64<<10); allocated > limit {
			t.Errorf("%s: %d bytes made it allocate %d", name, len(data), allocated)
		}
	}
}

func TestExtremeRoomIsGivenBack(t *testing.T) {
	small := encode([]kpl.UserRecord{x("k", "0")})
	huge := sign([]byte("\x0A\x00\x12\x00" + strings.Repeat("\x0A\x00\x12\x00"+record("\x08\x00", "\x1A\x00"), 100_000))...)
	var d kpl.Decoder
	before := heap()
	records, _, err := d.Decode(huge)
	if err != nil || len(records) != 100_000 {
		t.Fatal(len(records), err)
	}
	full := heap()
	if records, _, err = d.Decode(small); err != nil || len(records) != 1 {
		t.Fatal(len(records), err)
	}
	after := heap()
	runtime.KeepAlive(records)
	if full < before+5e6 || after > before+1e6 {
		t.Errorf("the heap had %d bytes before, %d with a huge aggregate, %d after the next one", before, full, after)
	}
	runtime.KeepAlive(&d)
	runtime.KeepAlive(huge)
}

func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(min(m.HeapAlloc, math.MaxInt64))
}
