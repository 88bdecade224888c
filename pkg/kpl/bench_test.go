package kpl_test

import (
	"crypto/md5"
	"fmt"
	"testing"

	"github.com/oncebox/oncebox/pkg/kpl"
)

// BenchmarkDecode is to be read in pairs: decode cannot be faster than the md5
// over the same bytes that is part of it.
func BenchmarkDecode(b *testing.B) {
	for _, shape := range []struct{ records, size, keys int }{
		{1, 100, 1},
		{10, 1000, 10},
		{100, 100, 100},
		{100, 500, 10},
		{1000, 20, 10},
		{1000, 100, 1000},
		{1000, 1000, 1},
	} {
		data := aggregateOf(shape.records, shape.size, shape.keys)
		name := fmt.Sprintf("%dx%dB,%dkeys", shape.records, shape.size, shape.keys)
		b.Run(name+"/decode", func(b *testing.B) {
			var d kpl.Decoder
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				records, _, err := d.Decode(data)
				if err != nil || len(records) != shape.records {
					b.Fatal(len(records), err)
				}
			}
		})
		b.Run(name+"/md5", func(b *testing.B) {
			message := data[len(magic) : len(data)-md5.Size]
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				sum := md5.Sum(message)
				if sum[0] != data[len(data)-md5.Size] {
					b.Fatal("another sum")
				}
			}
		})
	}
}

// aggregateOf makes an aggregate with payloads of a size and keys in turn, as
// long as UUIDs are.
func aggregateOf(records, size, keys int) []byte {
	var e kpl.Encoder
	for i := range records {
		e.Add(kpl.UserRecord{
			Data:         make([]byte, size),
			PartitionKey: fmt.Appendf(nil, "%036d", i%keys),
		})
	}
	return e.Bytes()
}
