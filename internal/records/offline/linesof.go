package offline

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"iter"
)

// Line is a line of an input, for a reader without a job.
type Line struct {
	Input   string // the name of the input
	Number  int64  // the number of the line in its input, from 1
	Text    []byte // without the end of the line; valid until the next line
	TooLong bool   // Text is only the beginning
}

// Lines returns the lines of inputs, in order, without blank ones. It reads compressed inputs, too.
func Lines(ctx context.Context, inputs []Input) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := newLineReader(inputs, maxLine)
		defer lines.close()
		var buffer []byte
		for {
			var l line
			var err error
			if l, buffer, err = lines.next(ctx, buffer[:0]); errors.Is(err, io.EOF) {
				return
			}
			if err == nil && l.tooLong {
				err = lines.rest(io.Discard)
			}
			if err != nil {
				yield(Line{}, refuseBroken(err))
				return
			}
			if l.blank() {
				continue
			}
			if !yield(Line{Input: inputs[l.file-1].Name, Number: l.number, Text: l.text, TooLong: l.tooLong}, nil) {
				return
			}
		}
	}
}

// Content opens the content of an input, unpacked if it is compressed.
func (in Input) Content(ctx context.Context) (io.ReadCloser, error) {
	content, err := in.open(ctx)
	if err != nil {
		return nil, refuseBroken(err)
	}
	return content, nil
}

// DigestOf returns the SHA-256 of the contents of inputs, in order.
func DigestOf(ctx context.Context, inputs []Input) ([]byte, error) {
	h := sha256.New()
	for _, in := range inputs {
		sum, _, err := in.digest(ctx, func(int64) {})
		if err != nil {
			return nil, refuseBroken(err)
		}
		_, _ = h.Write(sum) // a hash never fails
	}
	return h.Sum(nil), nil
}
