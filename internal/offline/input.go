package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Input is a file of records.
type Input struct {
	Name string // in dead letters and in errors
	// Open opens the input at its beginning. It is called several times, unless the job forgets. The content must be
	// the same each time.
	Open func() (io.ReadCloser, error)
	// Size is how many bytes are read. Bytes that are appended to the file later are not part of the run. With Unknown
	// the input is read to its end, and the job must forget.
	Size int64
}

// Unknown is the Size of an Input that is read to its end.
const Unknown int64 = -1

var errShorter = errors.New("the input has become shorter since the run began")

// open opens an input for one reading, which fails when ctx ends.
func (in Input) open(ctx context.Context) (io.ReadCloser, error) {
	file, err := in.Open()
	if err != nil {
		return nil, err
	}
	return &reading{ctx: ctx, file: file, name: in.Name, left: in.Size}, nil
}

// reading reads an input once, exactly to its size.
type reading struct {
	ctx  context.Context
	file io.ReadCloser
	name string
	left int64
}

func (r *reading) Close() error { return r.file.Close() }

func (r *reading) Read(b []byte) (n int, err error) {
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
