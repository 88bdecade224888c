package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Input is a file of records.
type Input struct {
	Name string // the name in dead letters and in errors
	// Open opens the input at its beginning. The job calls it several times, unless Forgets is set. The content must
	// be the same each time.
	Open func() (io.ReadCloser, error)
	// Size is the number of bytes to read. Bytes that are appended to the file later are not part of the run. With
	// Unknown the input is read to its end. Then Forgets must be set, and IDs must not be RenameAll. The bytes may be
	// compressed.
	Size int64
	// Records says how the records are in the content. "" means OneALine. Numbers of lines are then those of records.
	Records Records

	content int64                         // the size of the content without compression; known after the first reading
	peek    func() (io.ReadCloser, error) // opens the input for a reading before the first Open
}

// Unknown is the Size of an Input that must be read to its end.
const Unknown int64 = -1

var errShorter = errors.New("the input has become shorter since the run began")

// peekable makes it possible to read the beginning of each input before the first reading.
func peekable(inputs []Input) []Input {
	list := slices.Clone(inputs)
	for i, in := range inputs {
		if list[i].peek = in.Open; in.Size == Unknown {
			s := &stream{from: in.Open}
			list[i].Open, list[i].peek = s.open, s.peek
		}
	}
	return list
}

// peeked returns the inputs for the reading before the first reading.
func peeked(inputs []Input) []Input {
	list := slices.Clone(inputs)
	for i := range list {
		list[i].Open = list[i].peek
	}
	return list
}

// stream is an input that can be opened only once. It keeps the bytes that were read by peek.
type stream struct {
	from func() (io.ReadCloser, error)
	file io.ReadCloser // nil until it is opened
	head bytes.Buffer
}

func (s *stream) peek() (_ io.ReadCloser, err error) {
	if s.file, err = s.from(); err != nil {
		return nil, err
	}
	return io.NopCloser(io.TeeReader(s.file, &s.head)), nil
}

func (s *stream) open() (io.ReadCloser, error) {
	if s.file == nil {
		return s.from()
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(&s.head, s.file), s.file}, nil
}

// open opens the content of an input for one reading. Its reads fail after ctx has ended.
func (in Input) open(ctx context.Context) (*unpacked, error) {
	file, err := in.Open()
	if err != nil {
		return nil, err
	}
	raw := &reading{ctx: ctx, file: file, name: in.Name, left: in.Size}
	content, err := unpack(raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	if content.from, err = in.split(content.from); err != nil {
		return nil, errors.Join(content.explain(err), content.Close())
	}
	return content, nil
}

// reading reads the bytes of an input once, exactly to its size.
type reading struct {
	ctx    context.Context
	file   io.ReadCloser
	name   string
	left   int64
	failed error // the error, if the reading has failed
}

func (r *reading) Close() error { return r.file.Close() }

// buffer returns the size of a buffer for the reading.
func (r *reading) buffer() int {
	const most = 64 << 10
	if r.left == Unknown {
		return most
	}
	return int(min(r.left, most))
}

func (r *reading) Read(b []byte) (n int, err error) {
	if n, err = r.read(b); err != nil && !errors.Is(err, io.EOF) {
		r.failed = err
	}
	return n, err
}

func (r *reading) read(b []byte) (n int, err error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	if r.left != Unknown && int64(len(b)) > r.left {
		b = b[:r.left]
	}
	n, err = r.file.Read(b)
	if r.left != Unknown {
		r.left -= int64(n)
	}
	switch {
	case errors.Is(err, io.EOF) && r.left > 0:
		return n, fmt.Errorf("%s: %w", r.name, errShorter)
	case err != nil && !errors.Is(err, io.EOF):
		return n, fmt.Errorf("%s: %w", r.name, err)
	}
	return n, err
}
