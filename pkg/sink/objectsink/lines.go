package objectsink

import (
	"bytes"

	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Format says how records become lines.
type Format string

// The formats. In both a record is one line. If its "\n" is missing, it is added.
const (
	// NDJSON accepts JSON. If a record has line ends inside, they are removed with the other white space between its
	// values. Other records are unchanged.
	NDJSON Format = "ndjson"
	// Raw accepts text and does not change it. A record with a line end inside is poison.
	Raw Format = "raw"
)

// Compression says how a whole object is compressed.
type Compression string

// The compressions.
const (
	Gzip         Compression = "gzip"
	Zstd         Compression = "zstd"
	Uncompressed Compression = "none"
)

// DefaultObjectSize is how many bytes, uncompressed, an object has before the next one is begun.
const DefaultObjectSize = 64 << 20

// Encoding says how records are written into objects. All objects of a stream have the same Encoding.
type Encoding struct {
	Format      Format
	Compression Compression
}

var formatExtension = map[Format]string{NDJSON: ".ndjson", Raw: ".txt"}

var compressionExtension = map[Compression]string{Gzip: ".gz", Zstd: ".zst", Uncompressed: ""}

// Extension returns the extension of the names of objects, which tells readers how to read them.
func (e Encoding) Extension() string {
	return formatExtension[e.Format] + compressionExtension[e.Compression]
}

// known reports whether the format and the compression exist.
func (e Encoding) known() bool {
	_, format := formatExtension[e.Format]
	_, compression := compressionExtension[e.Compression]
	return format && compression
}

func (e Encoding) mediaType() string {
	switch {
	case e.Compression == Gzip:
		return "application/gzip"
	case e.Compression == Zstd:
		return "application/zstd"
	case e.Format == NDJSON:
		return "application/x-ndjson"
	}
	return "text/plain"
}

// The reasons why a record cannot be a line.
const (
	reasonNotJSON  = "it is not JSON, which objects of NDJSON hold"
	reasonLineEnd  = "it has a line end inside, and is a line of an object"
	reasonNothing  = "it is empty, and is a line of an object"
	lineEnds       = "\n\r"
	whiteSpaceJSON = " \t\r\n"
)

// line returns a record as a line, without its line end.
func (e Encoding) line(data []byte) ([]byte, error) {
	if e.Format == NDJSON {
		return jsonLine(data)
	}
	data = bytes.TrimSuffix(data, []byte("\n"))
	inner := bytes.TrimSuffix(data, []byte("\r"))
	switch {
	case len(inner) == 0:
		return nil, &dedupe.PoisonError{Reason: reasonNothing}
	case bytes.ContainsAny(inner, lineEnds):
		return nil, &dedupe.PoisonError{Reason: reasonLineEnd}
	}
	return data, nil
}

func jsonLine(data []byte) ([]byte, error) {
	if !json.Valid(data) {
		return nil, &dedupe.PoisonError{Reason: reasonNotJSON}
	}
	data = bytes.Trim(data, whiteSpaceJSON)
	if !bytes.ContainsAny(data, lineEnds) {
		return data, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil { // cannot fail, because the JSON is valid
		return nil, &dedupe.PoisonError{Reason: reasonNotJSON}
	}
	return compact.Bytes(), nil
}

// encode writes records as the body of an object. It also returns their size in bytes, uncompressed.
func (e Encoding) encode(outputs []dedupe.Output) (body []byte, size int64, err error) {
	var buffer bytes.Buffer
	var w io.WriteCloser = nopCloser{&buffer}
	switch e.Compression {
	case Gzip:
		w = gzip.NewWriter(&buffer)
	case Zstd:
		if w, err = zstd.NewWriter(&buffer, zstd.WithEncoderConcurrency(1)); err != nil {
			return nil, 0, err
		}
	}
	for _, o := range outputs {
		line, err := e.line(o.Data)
		if err != nil {
			return nil, 0, fmt.Errorf("record %.100q was not checked: %w", o.ID, err)
		}
		for _, part := range [][]byte{line, {'\n'}} {
			if _, err := w.Write(part); err != nil {
				return nil, 0, err
			}
		}
		size += int64(len(line)) + 1
	}
	if err := w.Close(); err != nil {
		return nil, 0, err
	}
	return buffer.Bytes(), size, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// reader returns the lines of an object.
func (e Encoding) reader(body []byte) (io.ReadCloser, error) {
	switch e.Compression {
	case Gzip:
		return gzip.NewReader(bytes.NewReader(body))
	case Zstd:
		d, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}
