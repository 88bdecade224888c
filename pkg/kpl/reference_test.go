package kpl_test

import (
	"bytes"
	"crypto/md5"
	"errors"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/kpl"
)

const magic = "\xF3\x89\x9A\xC2"

// sign makes an aggregate of a message, which may be broken.
func sign(message ...byte) []byte {
	sum := md5.Sum(message)
	return slices.Concat([]byte(magic), message, sum[:])
}

// checkDecode compares a Decoder with the reference.
func checkDecode(t rapid.TB, d *kpl.Decoder, data []byte) {
	t.Helper()
	before := bytes.Clone(data)
	records, aggregated, err := d.Decode(data)
	wantAggregated, wantRecords, good := reference(data)
	switch {
	case !bytes.Equal(data, before):
		t.Fatalf("the input was changed\n%x\n%x", before, data)
	case aggregated != wantAggregated:
		t.Fatalf("aggregated: want %v, got %v, %v\n%x", wantAggregated, aggregated, err, data)
	case (err == nil) != good || err != nil && !errors.Is(err, kpl.ErrPoison):
		t.Fatalf("good: want %v, got %v\n%x", good, err, data)
	case err != nil && records != nil:
		t.Fatalf("poison was delivered in part: %v\n%x", err, data)
	}
	checkRecords(t, wantRecords, records)
	for _, r := range records {
		for _, b := range [][]byte{r.Data, r.PartitionKey, r.ExplicitHashKey} {
			if cap(b) != len(b) {
				t.Fatalf("appending to %x overwrites the input", b)
			}
		}
	}
	if len(records) > 0 {
		again, _, err := new(kpl.Decoder).Decode(encode(records))
		if err != nil {
			t.Fatal(err)
		}
		checkRecords(t, records, again)
	}
}

func checkRecords(t rapid.TB, want, got []kpl.UserRecord) {
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

func encode(records []kpl.UserRecord) []byte {
	var e kpl.Encoder
	for _, r := range records {
		e.Add(r)
	}
	return e.Bytes()
}

// reference decodes with protobuf's own package and by the rules of the package documentation, regardless of speed.
func reference(data []byte) (aggregated bool, records []kpl.UserRecord, good bool) {
	message, framed := bytes.CutPrefix(data, []byte(magic))
	if !framed || len(message) <= md5.Size {
		return false, nil, true
	}
	message, sum := message[:len(message)-md5.Size], message[len(message)-md5.Size:]
	if want := md5.Sum(message); !bytes.Equal(sum, want[:]) {
		return false, nil, true
	}
	fields, good := parse(message, protowire.BytesType, protowire.BytesType, protowire.BytesType)
	if !good {
		return true, nil, false
	}
	for _, encoded := range fields[3] {
		record, good := referenceRecord(encoded, fields[1], fields[2])
		if !good {
			return true, nil, false
		}
		records = append(records, record)
	}
	return true, records, true
}

func referenceRecord(encoded []byte, keys, hashKeys [][]byte) (r kpl.UserRecord, good bool) {
	fields, good := parse(encoded, protowire.VarintType, protowire.VarintType, protowire.BytesType)
	if !good || fields[1] == nil || fields[3] == nil {
		return r, false
	}
	r.Data = last(fields[3])
	if r.PartitionKey, good = pick(keys, fields[1]); good && fields[2] != nil {
		r.ExplicitHashKey, good = pick(hashKeys, fields[2])
	}
	return r, good
}

// parse returns the values of fields 1, 2 and 3, which have these types.
func parse(message []byte, types ...protowire.Type) (fields map[protowire.Number][][]byte, good bool) {
	fields = make(map[protowire.Number][][]byte)
	for len(message) > 0 {
		number, wireType, size := protowire.ConsumeTag(message)
		if size < 0 || number > protowire.MaxValidNumber || wireType == protowire.StartGroupType {
			return nil, false
		}
		message = message[size:]
		size = protowire.ConsumeFieldValue(number, wireType, message)
		if size < 0 {
			return nil, false
		}
		value := message[:size]
		message = message[size:]
		if number > 3 {
			continue
		}
		if wireType != types[number-1] {
			return nil, false
		}
		if wireType == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		fields[number] = append(fields[number], value)
	}
	return fields, true
}

// pick returns the key of the last of these indexes.
func pick(keys [][]byte, indices [][]byte) (key []byte, good bool) {
	index, _ := protowire.ConsumeVarint(last(indices))
	if index >= uint64(len(keys)) {
		return nil, false
	}
	return keys[index], true
}

func last(values [][]byte) []byte { return values[len(values)-1] }
