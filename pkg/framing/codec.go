package framing

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/oncebox/oncebox/pkg/format"
)

// maxOpened limits the size of a payload after decompression. A message of CloudWatch Logs has about 1 MiB.
const maxOpened = 64 << 20

// codec is a compression format.
type codec struct {
	magic []byte
	open  func(io.Reader) (io.Reader, func(), error)
	pack  func(io.Writer) (io.WriteCloser, error)
}

var (
	gzipCodec = codec{
		magic: []byte{0x1f, 0x8b},
		open: func(r io.Reader) (io.Reader, func(), error) {
			z, err := gzip.NewReader(r)
			return z, func() {}, err
		},
		pack: func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
	}
	zstdCodec = codec{
		magic: []byte{0x28, 0xb5, 0x2f, 0xfd},
		open: func(r io.Reader) (io.Reader, func(), error) {
			z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxOpened))
			if err != nil {
				return nil, nil, err
			}
			return z, z.Close, nil
		},
		pack: func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
	}
)

func codecOf(payload []byte) *codec {
	for _, c := range []*codec{&gzipCodec, &zstdCodec} {
		if bytes.HasPrefix(payload, c.magic) {
			return c
		}
	}
	return nil
}

// decompress decompresses a payload, up to maxOpened bytes. broken and tooLong are the reasons for a payload that is
// broken and for one that is too large after decompression.
func (c *codec) decompress(payload []byte, broken, tooLong string) ([]byte, error) {
	r, closeReader, err := c.open(bytes.NewReader(payload))
	if err != nil {
		return nil, &format.BadRecord{Reason: broken}
	}
	defer closeReader()
	text, err := io.ReadAll(io.LimitReader(r, maxOpened+1))
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), len(text) > maxOpened:
		return nil, &format.BadRecord{Reason: tooLong}
	case err != nil:
		return nil, &format.BadRecord{Reason: broken}
	}
	return text, nil
}
