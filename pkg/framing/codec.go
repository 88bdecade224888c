package framing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// maxWindow is the largest window of zstd that is decoded: that of its highest level, 22.
const maxWindow = 128 << 20

const reasonWindow = "a zstd frame with a window of more than 128 MiB"

// codec is a compression format. Its readers and writers are used again: each has tables and a window, which cost far
// more than a small payload. An aggregate may have many.
type codec struct {
	magic            []byte
	readers, writers sync.Pool
}

// reader reads a stream after Reset.
type reader interface {
	io.Reader
	Reset(io.Reader) error
}

// writer writes to a stream after Reset.
type writer interface {
	io.WriteCloser
	Reset(io.Writer)
}

var (
	gzipCodec = codec{
		magic:   []byte{0x1f, 0x8b},
		readers: sync.Pool{New: func() any { return new(gzip.Reader) }},
		writers: sync.Pool{New: func() any { return gzip.NewWriter(nil) }},
	}
	zstdCodec = codec{
		magic: []byte{0x28, 0xb5, 0x2f, 0xfd},
		readers: sync.Pool{New: func() any {
			return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(dedupe.MaxOpenedBytes)))
		}},
		writers: sync.Pool{New: func() any { return must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))) }},
	}
)

// must is for options that are constant.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func codecOf(payload []byte) *codec {
	for _, c := range []*codec{&gzipCodec, &zstdCodec} {
		if bytes.HasPrefix(payload, c.magic) {
			return c
		}
	}
	return nil
}

// decompress decompresses a payload into the room. broken is the reason for a payload that is broken.
func (c *codec) decompress(ctx context.Context, payload []byte, broken string, room *dedupe.Room) ([]byte, error) {
	if err := ctx.Err(); err != nil { // an aggregate may have many payloads
		return nil, err
	}
	if err := checkWindow(payload, room); err != nil {
		return nil, err
	}
	r := c.readers.Get().(reader)
	defer c.readers.Put(r)
	err := r.Reset(bytes.NewReader(payload))
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(r, int64(room.Bytes())+1))
	}
	size := len(text)
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, &format.BadRecord{Reason: reasonWindow}
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		size = room.Bytes() + 1
	}
	if err := room.Take(0, size); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, &format.BadRecord{Reason: broken}
	}
	return text, nil
}

// checkWindow refuses a zstd frame whose window is larger than all that the record may open to.
func checkWindow(payload []byte, room *dedupe.Room) error {
	var h zstd.Header
	if err := h.Decode(payload); err == nil && h.WindowSize > uint64(room.Limit()) && h.WindowSize <= maxWindow {
		return room.Take(0, room.Bytes()+1)
	}
	return nil // the decoder says what is wrong with other headers
}

// compress compresses a text.
func (c *codec) compress(write func(io.Writer) error) ([]byte, error) {
	var payload bytes.Buffer
	w := c.writers.Get().(writer)
	defer c.writers.Put(w)
	w.Reset(&payload)
	if err := errors.Join(write(w), w.Close()); err != nil {
		return nil, err
	}
	return payload.Bytes(), nil
}
