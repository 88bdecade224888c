package reference

import (
	"bytes"
	"crypto/md5"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/readertest"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// compare compares a Decoder with the reference.
func compare(t rapid.TB, d *kpl.Decoder, data []byte) {
	t.Helper()
	records, aggregated, err := readertest.Decode(t, d, data)
	wantAggregated, wantRecords, good := reference(data)
	if aggregated != wantAggregated || (err == nil) != good {
		t.Fatalf("want aggregated %v, good %v; got aggregated %v, %v\n%x", wantAggregated, good, aggregated, err, data)
	}
	readertest.CheckRecords(t, wantRecords, records)
}

func TestHandMadeAggregates(t *testing.T) {
	t.Parallel()
	var d kpl.Decoder
	for _, message := range handMade() {
		compare(t, &d, readertest.Sign(message...))
	}
}

func handMade() (messages [][]byte) {
	for _, c := range readertest.Poison {
		messages = append(messages, c.Message)
	}
	for _, c := range readertest.Legal {
		messages = append(messages, c.Message)
	}
	return messages
}

func TestTruncatedMessages(t *testing.T) {
	t.Parallel()
	var d kpl.Decoder
	whole := readertest.Message("\x12\x010", readertest.Good,
		readertest.Record("\x08\x00", "\x10\x00", "\x1A\x80\x01"+strings.Repeat("x", 128), "\x22\x01t"), "\x3D1234")
	for n := range whole {
		compare(t, &d, readertest.Sign(whole[:n]...))
	}
}

// Each byte of a message takes each value.
func TestEveryChangedByte(t *testing.T) {
	t.Parallel()
	var d kpl.Decoder
	whole := readertest.Message("\x12\x010", readertest.Good, readertest.Record("\x08\x00", "\x10\x00", "\x1A\x02xy", "\x22\x01t"), "\x3D1234",
		"\x39\x00\x00\x00\x00\x00\x00\x00\x00")
	for i := range whole {
		changed := bytes.Clone(whole)
		for value := range 256 {
			changed[i] = byte(value)
			compare(t, &d, readertest.Sign(changed...))
		}
	}
}

// TestAggregates: a Decoder that is used again reads what the Encoder writes.
func TestAggregates(t *testing.T) {
	t.Parallel()
	var d kpl.Decoder
	rapid.Check(t, func(t *rapid.T) {
		compare(t, &d, readertest.Encode(rapid.SliceOfN(readertest.UserRecords(), 1, 300).Draw(t, "records")))
	})
}

// No checksum detects a changed message with a new MD5.
func TestChangedMessages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := readertest.Encode(rapid.SliceOfN(readertest.UserRecords(), 1, 8).Draw(t, "records"))
		changed := data[len(readertest.Magic) : len(data)-16]
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			if len(changed) == 0 {
				break
			}
			at := rapid.IntRange(0, len(changed)-1).Draw(t, "at")
			switch rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				changed[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			case 1:
				changed[at] = rapid.Byte().Draw(t, "byte")
			case 2:
				changed = changed[:at]
			case 3:
				changed = append(bytes.Clone(changed[at:]), changed[:at]...)
			}
		}
		var d kpl.Decoder
		compare(t, &d, readertest.Sign(changed...))
	})
}

// FuzzDecode decodes the input as a record, as a message, and as a record with the MD5 corrected: without the last two,
// hardly any input would pass the MD5. One Decoder decodes all inputs, as in production.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(readertest.Encode([]kpl.UserRecord{ // the vector of pkg/kpl
		{PartitionKey: []byte("pk0"), Data: []byte("a")}, {PartitionKey: []byte("pk1"), Data: []byte("b")},
	}))
	f.Add(readertest.Encode(slices.Repeat([]kpl.UserRecord{{PartitionKey: []byte("k"), Data: make([]byte, 20)}}, 3)))
	for _, message := range handMade() {
		f.Add(message)
		f.Add(readertest.Sign(message...))
	}
	f.Add(readertest.Encode([]kpl.UserRecord{readertest.User("k", "0"), readertest.User("l"), readertest.User("k", "1"), {}}))
	var d kpl.Decoder
	f.Fuzz(func(t *testing.T, data []byte) {
		compare(t, &d, data)
		compare(t, &d, readertest.Sign(data...))
		if len(data) > len(readertest.Magic)+md5.Size {
			compare(t, &d, readertest.Sign(data[len(readertest.Magic):len(data)-md5.Size]...))
		}
	})
}

// reference decodes with protobuf's own package and by the rules of the package documentation, regardless of speed.
func reference(data []byte) (aggregated bool, records []kpl.UserRecord, good bool) {
	message, framed := bytes.CutPrefix(data, []byte(readertest.Magic))
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
