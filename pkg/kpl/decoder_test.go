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

	"github.com/oncebox/oncebox/internal/testkit/readertest"
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
	readertest.CheckRecords(t, want, got)
	if got := base64.StdEncoding.EncodeToString(readertest.Encode(want)); got != vector {
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
		"magic alone":        []byte(readertest.Magic),
		"a part of it":       []byte(readertest.Magic[:3]),
		"the empty message":  readertest.Sign(),
		"the message alone":  good[len(readertest.Magic):],
		"no MD5":             good[:len(good)-16],
		"a byte too few":     good[:len(good)-1],
		"a byte too many":    append(bytes.Clone(good), 0),
		"twenty other bytes": append([]byte(readertest.Magic), make([]byte, 16)...),
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

func TestPoison(t *testing.T) {
	t.Parallel()
	d := new(kpl.Decoder)
	for _, c := range readertest.Poison {
		data := readertest.Sign(c.Message...)
		records, aggregated, err := readertest.Decode(t, d, data)
		if !errors.Is(err, kpl.ErrPoison) || !strings.Contains(err.Error(), c.Says) || !aggregated || records != nil {
			t.Errorf("%s: want %q, got %d records, %v, %v", c.Name, c.Says, len(records), aggregated, err)
		}
	}
}

func TestLegal(t *testing.T) {
	t.Parallel()
	d := new(kpl.Decoder)
	for _, c := range readertest.Legal {
		data := readertest.Sign(c.Message...)
		records, aggregated, err := readertest.Decode(t, d, data)
		if err != nil || !aggregated {
			t.Errorf("%s: %v, %v", c.Name, aggregated, err)
			continue
		}
		readertest.CheckRecords(t, c.Want, records)
	}
}

// Data, which is required, and existing keys are never nil.
func TestEmptyIsNotNil(t *testing.T) {
	t.Parallel()
	data := readertest.Encode([]kpl.UserRecord{{ExplicitHashKey: []byte{}}, {}})
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

func TestRecordsAreTheInput(t *testing.T) {
	t.Parallel()
	data := readertest.Encode([]kpl.UserRecord{readertest.User("k", "h"), readertest.User("l")})
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
	readertest.CheckRecords(t, []kpl.UserRecord{
		{Data: []byte("!"), PartitionKey: []byte("!"), ExplicitHashKey: []byte("!")},
		{Data: []byte("!"), PartitionKey: []byte("!")},
	}, mine)
}

// A Decoder must not keep its last input in memory.
func TestNextDecodeForgets(t *testing.T) {
	t.Parallel()
	for name, next := range map[string][]byte{
		"plain":   []byte("plain"),
		"poison":  readertest.Sign(readertest.Message(readertest.Good, "\xFF")...),
		"smaller": readertest.Encode([]kpl.UserRecord{readertest.User("k")}),
		"none":    readertest.Sign(readertest.Message()...),
	} {
		var d kpl.Decoder
		old, _, err := d.Decode(readertest.Encode([]kpl.UserRecord{readertest.User("k", "0"), readertest.User("l", "1")}))
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
		data := readertest.Encode(records)
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
	fill := func(part string) []byte {
		return readertest.Sign(readertest.Message(strings.Repeat(part, size/len(part)))...)
	}
	for name, data := range map[string][]byte{
		"smallest records":      fill(readertest.Record("\x08\x00", "\x1A\x00")),
		"empty keys":            fill("\x0A\x00"),
		"empty hash keys":       fill("\x12\x00"),
		"records of nothing":    fill("\x1A\x00"),
		"good until the last":   readertest.Sign(append(readertest.Message(strings.Repeat(readertest.Record("\x08\x00", "\x1A\x00"), size/6)), "\x1A\x00"...)...),
		"unknown fields":        fill("\x38\x00"),
		"fields in one record":  readertest.Sign(readertest.Message(readertest.Record("\x08\x00", strings.Repeat("\x1A\x00", size/2)))...),
		"announces the largest": readertest.Sign(readertest.Message("\x0A"+readertest.Largest, strings.Repeat("\x00", size))...),
	} {
		var d kpl.Decoder
		allocated := allocatedBy(func() { _, _, _ = d.Decode(data) })
		if limit := uint64(12*len(data) + 64<<10); allocated > limit {
			t.Errorf("%s: %d bytes made it allocate %d", name, len(data), allocated)
		}
	}
}

// TestMost: an aggregate beyond the limit of a Decoder takes no memory.
func TestMost(t *testing.T) {
	for name, part := range map[string]string{
		"records": readertest.Record("\x08\x00", "\x1A\x00"), "keys": "\x0A\x00", "hash keys": "\x12\x00",
	} {
		const most = 10_000
		d := kpl.Decoder{Most: most}
		fits := readertest.Sign(readertest.Message(strings.Repeat(part, most-1))...)
		if _, aggregated, err := d.Decode(fits); !aggregated || err != nil {
			t.Errorf("%s at the limit: %v", name, err)
		}
		d = kpl.Decoder{Most: most}
		data := readertest.Sign(readertest.Message(strings.Repeat(part, most+1))...)
		allocated := allocatedBy(func() {
			if records, aggregated, err := d.Decode(data); !errors.Is(err, kpl.ErrTooMany) || !aggregated || records != nil {
				t.Errorf("%s: %d records, %v", name, len(records), err)
			}
		})
		if allocated > 10_000 {
			t.Errorf("%s: it took %d bytes", name, allocated)
		}
	}
}

func TestExtremeRoomIsGivenBack(t *testing.T) {
	small := readertest.Encode([]kpl.UserRecord{readertest.User("k", "0")})
	huge := readertest.Sign([]byte("\x0A\x00\x12\x00" + strings.Repeat("\x0A\x00\x12\x00"+readertest.Record("\x08\x00", "\x1A\x00"), 100_000))...)
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
