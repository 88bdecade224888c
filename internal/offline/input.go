package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Input is a file of records.
type Input struct {
	Name string // in deadLetters lines and in errors
	// Open opens it from its beginning. Unless the job forgets, it is opened
	// several times and has to have the same content each time.
	Open func() (io.ReadCloser, error)
	// Size is how many bytes are read of it: what is appended later does not
	// count. With Unknown everything is read, and the job must forget.
	Size int64
}

// Unknown is the Size of an Input that is read to its end.
const Unknown int64 = -1

var errShorter = errors.New("has become shorter since the run began")

// open opens an input for one pass, which ends with ctx.
func (in Input) open(ctx context.Context) (io.ReadCloser, error) {
	file, err := in.Open()
	if err != nil {
		return nil, err
	}
	return &pass{ctx: ctx, file: file, name: in.Name, left: in.Size}, nil
}

// pass is one reading of an input: exactly its size.
type pass struct {
	ctx  context.Context
	file io.ReadCloser
	name string
	left int64
}

func (p *pass) Close() error { return p.file.Close() }

func (p *pass) Read(b []byte) (n int, err error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if p.left == 0 {
		return 0, io.EOF
	}
	if p.left != Unknown && int64(len(b)) > p.left {
		b = b[:p.left]
	}
	n, err = p.file.Read(b)
	if p.left != Unknown {
		p.left -= int64(n)
	}
	switch {
	case errors.Is(err, io.EOF) && p.left > 0:
		return n, fmt.Errorf("%s: %w", p.name, errShorter)
	case err != nil && !errors.Is(err, io.EOF):
		return n, fmt.Errorf("%s: %w", p.name, err)
	}
	return n, err
}
