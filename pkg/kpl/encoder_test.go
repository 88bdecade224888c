package kpl_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/readertest"
	"github.com/oncebox/oncebox/pkg/kpl"
)

func TestEncoderBytes(t *testing.T) {
	t.Parallel()
	var e kpl.Encoder
	for _, r := range []kpl.UserRecord{readertest.User("k", "1"), readertest.User("l"), readertest.User("k", "0"), readertest.User("m", "1")} {
		e.Add(r)
	}
	want := readertest.Sign([]byte("\x0A\x01k\x0A\x01l\x0A\x01m" + "\x12\x011\x12\x010" +
		readertest.Record("\x08\x00", "\x10\x00", "\x1A\x01x") +
		readertest.Record("\x08\x01", "\x1A\x01x") +
		readertest.Record("\x08\x00", "\x10\x01", "\x1A\x01x") +
		readertest.Record("\x08\x02", "\x10\x00", "\x1A\x01x"))...)
	if got := e.Bytes(); !bytes.Equal(got, want) || e.Len() != 4 {
		t.Errorf("want %x\n got %x (%d)", want, got, e.Len())
	}
	if got := e.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("the second time: %x", got)
	}
}

func TestEncoderReset(t *testing.T) {
	t.Parallel()
	var e kpl.Encoder
	e.Add(kpl.UserRecord{Data: make([]byte, 1000), PartitionKey: []byte("old"), ExplicitHashKey: []byte("0")})
	e.Add(readertest.User("older"))
	e.Reset()
	if e.Len() != 0 || !bytes.Equal(e.Bytes(), readertest.Sign()) {
		t.Errorf("not empty: %d, %x", e.Len(), e.Bytes())
	}
	e.Add(readertest.User("k", "1"))
	handedOut := e.Bytes()
	want := readertest.Encode([]kpl.UserRecord{readertest.User("k", "1")})
	if !bytes.Equal(handedOut, want) {
		t.Errorf("want %x, got %x", want, handedOut)
	}
	e.Add(readertest.User("l"))
	if !bytes.Equal(handedOut, want) {
		t.Error("an aggregate was changed after it was handed out")
	}
}

func TestEncoderCopies(t *testing.T) {
	t.Parallel()
	var e kpl.Encoder
	r := readertest.User("k", "0")
	e.Add(r)
	r.Data[0], r.PartitionKey[0], r.ExplicitHashKey[0] = '!', '!', '!'
	e.Add(readertest.User("k", "0"))
	if got, want := e.Bytes(), readertest.Encode([]kpl.UserRecord{readertest.User("k", "0"), readertest.User("k", "0")}); !bytes.Equal(got, want) {
		t.Errorf("want %x, got %x", want, got)
	}
}

// A size up to 127 takes one byte, up to 16,383 two bytes, and up to 2,097,151 three bytes.
func TestSizesAtTheEdgesOfVarints(t *testing.T) {
	t.Parallel()
	var d kpl.Decoder
	for _, n := range []int{0, 1, 121, 122, 123, 127, 128, 16_376, 16_377, 16_378, 16_383, 16_384, 2_097_151, 2_097_152} {
		var e kpl.Encoder
		r := kpl.UserRecord{Data: make([]byte, n), PartitionKey: bytes.Repeat([]byte("k"), n),
			ExplicitHashKey: []byte(strings.Repeat("0", n))}
		checkAdd(t, &e, r)
		got, _, err := d.Decode(e.Bytes())
		if err != nil {
			t.Fatal(n, err)
		}
		readertest.CheckRecords(t, []kpl.UserRecord{r}, got)
	}
}

// An index takes two bytes from 128 on, and three bytes from 16,384 on.
func TestIndicesAtTheEdgesOfVarints(t *testing.T) {
	t.Parallel()
	var e kpl.Encoder
	var records []kpl.UserRecord
	for i := range 16_400 {
		r := readertest.User(fmt.Sprint("k", i), fmt.Sprint(i))
		announced := e.SizeWith(r)
		e.Add(r)
		if e.Size() != announced {
			t.Fatalf("record %d: %d bytes were announced, Size says %d", i, announced, e.Size())
		}
		records = append(records, r)
	}
	data := e.Bytes()
	got, _, err := new(kpl.Decoder).Decode(data)
	if err != nil || len(data) != e.Size() {
		t.Fatal(len(data), e.Size(), err)
	}
	readertest.CheckRecords(t, records, got)
}

// checkAdd adds a record and checks all sizes.
func checkAdd(t rapid.TB, e *kpl.Encoder, r kpl.UserRecord) {
	before, announced := e.Len(), e.SizeWith(r)
	e.Add(r)
	if size := e.Size(); size != announced || size != len(e.Bytes()) || e.Len() != before+1 {
		t.Fatalf("%d bytes were announced; Size says %d, and there are %d; %d records", announced, size, len(e.Bytes()),
			e.Len())
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var e, again kpl.Encoder
		var d kpl.Decoder
		for range rapid.IntRange(1, 3).Draw(t, "aggregates") {
			e.Reset()
			records := rapid.SliceOfN(readertest.UserRecords(), 1, 300).Draw(t, "records")
			for _, r := range records {
				checkAdd(t, &e, r)
				again.Add(r)
			}
			data := e.Bytes()
			if !bytes.Equal(data, again.Bytes()) {
				t.Fatal("the same records, other bytes")
			}
			again.Reset()
			got, aggregated, err := readertest.Decode(t, &d, data)
			if err != nil || !aggregated {
				t.Fatal(aggregated, err)
			}
			readertest.CheckRecords(t, records, got)
		}
	})
}
