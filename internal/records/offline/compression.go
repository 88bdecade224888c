package offline

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is the format of a compressed file.
type Compression string

// These are the formats.
const (
	NotCompressed Compression = ""
	Gzip          Compression = "gzip"
	Zstandard     Compression = "zstd"
)

// CompressionOf returns the format that a file's name implies.
func CompressionOf(name string) Compression {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return Gzip
	case strings.HasSuffix(name, ".zst"):
		return Zstandard
	}
	return NotCompressed
}

// brokenError says that compressed data cannot be read to its end.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

// refuseBroken adds to the error of a broken input that nothing was changed.
func refuseBroken(err error) error {
	if _, broken := errors.AsType[*brokenError](err); broken {
		return refuse("%w", err)
	}
	return err
}

// maxWindow limits the memory that a Zstandard frame may require. It is the window of `zstd --long`.
const maxWindow = 128 << 20

// magicBytes is the number of first bytes that identify the format.
const magicBytes = 4

// compressionOfContent identifies the format by the first bytes (RFC 1952, 2.3.1; RFC 8878, 3.1.1 and 3.1.2). No JSON
// text begins with these bytes.
func compressionOfContent(head []byte) Compression {
	zstdFrame := len(head) == magicBytes && head[1] == 0xb5 && head[0] == 0x28 && head[2] == 0x2f && head[3] == 0xfd
	skippable := len(head) == magicBytes && head[0]&0xf0 == 0x50 && string(head[1:]) == "\x2a\x4d\x18"
	switch {
	case len(head) >= 2 && head[0] == 0x1f && head[1] == 0x8b:
		return Gzip
	case zstdFrame, skippable:
		return Zstandard
	}
	return NotCompressed
}

// unpack returns the content of an input in any format. The content decides about the format, not the name: a file
// called .gz may have been unpacked on its way. Several gzip members or Zstandard frames are one content.
func unpack(raw *reading) (*unpacked, error) {
	buffered := bufio.NewReaderSize(raw, raw.buffer())
	head, err := buffered.Peek(magicBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	is := compressionOfContent(head)
	if named := CompressionOf(raw.name); is == NotCompressed && named != NotCompressed && len(head) < magicBytes {
		return nil, cutOff(raw.name, named) // even an empty file is longer when it is compressed
	}
	u := &unpacked{raw: raw, is: is, from: buffered, close: func() {}}
	switch is {
	case Gzip:
		r, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, u.explain(err)
		}
		u.from = r
	case Zstandard:
		r, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, u.explain(err)
		}
		u.from, u.close = r, r.Close
	}
	return u, nil
}

// unpacked reads the content of an input.
type unpacked struct {
	raw   *reading
	is    Compression
	from  io.Reader
	close func()
}

func (u *unpacked) Read(b []byte) (int, error) {
	n, err := u.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = u.explain(err)
	}
	return n, err
}

func (u *unpacked) Close() error {
	u.close()
	return u.raw.Close()
}

// explain returns an error that says what is wrong with the compressed data. It returns an error of the input itself
// unchanged.
func (u *unpacked) explain(err error) error {
	_, explained := errors.AsType[*brokenError](err)
	switch {
	case explained:
		return err
	case u.raw.failed != nil:
		return u.raw.failed
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return cutOff(u.raw.name, u.is)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return &brokenError{fmt.Sprintf("%s needs more than %d MiB of memory to be unpacked, because its window is larger. "+
			"Compress it again with `zstd --long`, or unpack it first", u.raw.name, maxWindow>>20)}
	}
	return &brokenError{fmt.Sprintf("%s is damaged: %v. Get it again from where it comes from", u.raw.name, err)}
}

func cutOff(name string, is Compression) error {
	return &brokenError{fmt.Sprintf("%s ends in the middle of its %s data: it was cut off, or is still being written. "+
		"Get the whole file", name, is)}
}

// packer compresses an output. Reset begins a gzip member or a Zstandard frame, Close ends it.
type packer interface {
	io.WriteCloser
	Reset(to io.Writer)
}

// newPacker returns a packer, or nil for an output that is not compressed.
func newPacker(c Compression) packer {
	switch c {
	case Gzip:
		return gzip.NewWriter(nil)
	case Zstandard:
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))
		if err != nil {
			panic(err) // cannot happen: the options are fixed
		}
		return w
	}
	return nil
}
