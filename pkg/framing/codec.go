package framing

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

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
			z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(dedupe.MaxOpenedBytes))
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

// decompress decompresses a payload into the room. broken is the reason for a payload that is broken.
func (c *codec) decompress(payload []byte, broken string, room *dedupe.Room) ([]byte, error) {
	r, closeReader, err := c.open(bytes.NewReader(payload))
	if err != nil {
		return nil, &format.BadRecord{Reason: broken}
	}
	defer closeReader()
	text, err := io.ReadAll(io.LimitReader(r, int64(room.Bytes())+1))
	size := len(text)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		size = room.Bytes() + 1 // the decoder would take more memory than this for its window
	}
	if err := room.Take(0, size); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, &format.BadRecord{Reason: broken}
	}
	return text, nil
}
