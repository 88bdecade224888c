package kpl_test

import (
	"crypto/md5"
	"fmt"
	"testing"

	"github.com/oncebox/oncebox/pkg/kpl"
)

// FuzzDecode decodes the input as a record, as a message, and as a record with the MD5 corrected: without the last two,
// hardly any input would pass the MD5. One Decoder decodes all inputs, as in production.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(vectorBytes(f))
	f.Add(aggregateOf(3, 20, 2))
	f.Add(encode([]kpl.UserRecord{x("k", "0"), x("l"), x("k", "1"), {}}))
	for _, c := range poisonCases {
		f.Add(c.message)
		f.Add(sign(c.message...))
	}
	for _, c := range legalCases {
		f.Add(c.message)
		f.Add(sign(c.message...))
	}
	var d kpl.Decoder
	f.Fuzz(func(t *testing.T, data []byte) {
		checkDecode(t, &d, data)
		checkDecode(t, &d, sign(data...))
		if len(data) > len(magic)+md5.Size {
			checkDecode(t, &d, sign(data[len(magic):len(data)-md5.Size]...))
		}
	})
}

// aggregateOf makes an aggregate with payloads of one size, and with keys of the length of a UUID.
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
