package offline

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// maxLine is the most bytes of a record: as much as a record of a Kinesis stream
// may ever have. A longer line is dead-lettered without being held in memory.
const maxLine = 10 << 20

// byteOrderMark at the beginning of a file belongs to no line.
const byteOrderMark = "\xef\xbb\xbf"

// line is a line of an input.
type line struct {
	file    int    // from 1
	number  int64  // in its file, from 1
	text    []byte // without \n; a \r in front of that is white space to JSON, and stays
	tooLong bool   // text is its beginning, and lineReader.rest has what follows
}

// blank reports whether there is nothing in a line.
func (l line) blank() bool { return len(bytes.Trim(l.text, " \t\r")) == 0 }

// lineReader reads the lines of all inputs, in order. The last line of a file
// need not have an end.
type lineReader struct {
	inputs []Input
	limit  int // maxLine
	at     int // the input that is read
	file   io.ReadCloser
	buf    *bufio.Reader
	lines  int64 // read of this input
	within bool  // a line that is too long: rest has something to read
	done   int64 // bytes read of all inputs
}

func newLineReader(inputs []Input, limit int) *lineReader {
	return &lineReader{inputs: inputs, limit: limit, buf: bufio.NewReaderSize(nil, 64<<10)}
}

// next appends a line's text to room, of which the line is a part then. The
// error is io.EOF behind the last line of the last input.
func (r *lineReader) next(ctx context.Context, room []byte) (l line, grown []byte, err error) {
	begin := len(room)
	for {
		if err := r.open(ctx); err != nil {
			return line{}, room, err
		}
		room, err = r.appendLine(room)
		if err == nil {
			break
		}
		if !errors.Is(err, io.EOF) {
			return line{}, room, err
		}
		r.close()
		r.at, r.lines = r.at+1, 0
	}
	r.lines++
	text := room[begin:len(room):len(room)]
	return line{file: r.at + 1, number: r.lines, text: text, tooLong: len(text) > r.limit}, room, nil
}

// appendLine reads up to the end of a line, or to where it is too long.
func (r *lineReader) appendLine(room []byte) ([]byte, error) {
	for begin := len(room); ; {
		chunk, ended, err := r.chunk()
		room = append(room, chunk...)
		switch {
		case ended, errors.Is(err, io.EOF) && len(room) > begin:
			return room, nil
		case err != nil:
			return room, err
		case len(room)-begin > r.limit:
			r.within = true
			return room, nil
		}
	}
}

// rest writes what follows of a line that is too long.
func (r *lineReader) rest(w io.Writer) error {
	for r.within {
		chunk, ended, err := r.chunk()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r.within = !ended && err == nil
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// chunk reads a part of a line; ended says that the line's end was behind it.
func (r *lineReader) chunk() (chunk []byte, ended bool, err error) {
	chunk, err = r.buf.ReadSlice('\n')
	r.done += int64(len(chunk))
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	chunk, ended = bytes.CutSuffix(chunk, []byte("\n"))
	return chunk, ended, err
}

// open opens the next input, if none is open.
func (r *lineReader) open(ctx context.Context) (err error) {
	if r.file != nil {
		return nil
	}
	if r.at == len(r.inputs) {
		return io.EOF
	}
	if r.file, err = r.inputs[r.at].open(ctx); err != nil {
		return err
	}
	r.buf.Reset(r.file)
	if mark, _ := r.buf.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		n, _ := r.buf.Discard(len(byteOrderMark)) // it was peeked
		r.done += int64(n)
	}
	return nil
}

func (r *lineReader) close() {
	if r.file != nil {
		_ = r.file.Close() // it was only read from
		r.file = nil
	}
}

// skip passes over lines that are done, given by their bytes.
func (r *lineReader) skip(ctx context.Context, done int64) error {
	for r.at < len(r.inputs) && r.done+r.inputs[r.at].Size <= done {
		r.done += r.inputs[r.at].Size
		r.at++
	}
	for r.done < done {
		if err := r.open(ctx); err != nil {
			return err
		}
		_, ended, err := r.chunk()
		if err != nil {
			return err
		}
		if ended {
			r.lines++
		}
	}
	return nil
}
