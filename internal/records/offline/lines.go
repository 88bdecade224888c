package offline

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// maxLine is the maximum size of a record in bytes. It is the largest maximum that a Kinesis stream can have. A
// longer line becomes a dead letter, and is never held in memory.
const maxLine = 10 << 20

// byteOrderMark may stand at the beginning of a file. It is not part of the first line.
const byteOrderMark = "\xef\xbb\xbf"

// line is a line of an input.
type line struct {
	file    int    // the number of the file, from 1
	number  int64  // the number of the line in its file, from 1
	text    []byte // without \n; a \r before that stays, because JSON takes it as white space
	tooLong bool   // text is only the beginning; lineReader.rest reads the rest
}

// blank reports whether a line has only white space.
func (l line) blank() bool { return len(bytes.Trim(l.text, " \t\r")) == 0 }

// lineReader reads the lines of all inputs, in order. The last line of a file need not end with \n.
type lineReader struct {
	inputs []Input
	limit  int       // maxLine
	at     int       // the index of the input that is being read
	file   *unpacked // nil if no input is open
	buf    *bufio.Reader
	lines  int64 // the number of lines read from this input
	within bool  // in a line that is too long: rest has not been called
	done   int64 // the number of bytes read from all inputs
}

func newLineReader(inputs []Input, limit int) *lineReader {
	return &lineReader{inputs: inputs, limit: longestLetter(inputs, limit), buf: bufio.NewReaderSize(nil, 64<<10)}
}

// next reads a line. It appends the line's text to buffer and returns the longer buffer. After the last line of the
// last input it returns io.EOF.
func (r *lineReader) next(ctx context.Context, buffer []byte) (l line, longer []byte, err error) {
	begin := len(buffer)
	for {
		if err := r.open(ctx); err != nil {
			return line{}, buffer, err
		}
		buffer, err = r.appendLine(buffer)
		if err == nil {
			break
		}
		if !errors.Is(err, io.EOF) {
			return line{}, buffer, err
		}
		r.close()
		r.at, r.lines = r.at+1, 0
	}
	r.lines++
	text := buffer[begin:len(buffer):len(buffer)]
	return line{file: r.at + 1, number: r.lines, text: text, tooLong: len(text) > r.limit}, buffer, nil
}

// appendLine reads to the end of a line, or to the limit if the line is too long.
func (r *lineReader) appendLine(buffer []byte) ([]byte, error) {
	for begin := len(buffer); ; {
		chunk, ended, err := r.chunk()
		buffer = append(r.withRoom(buffer, begin, len(chunk)), chunk...)
		switch {
		case ended, errors.Is(err, io.EOF) && len(buffer) > begin:
			return buffer, nil
		case err != nil:
			return buffer, err
		case len(buffer)-begin > r.limit:
			r.within = true
			return buffer, nil
		}
	}
}

// withRoom returns the buffer with room for n more bytes of the line that begins at begin. It doubles the buffer, but
// never beyond the size of the longest line. It does so because append would hold two buffers of that size for a
// moment.
func (r *lineReader) withRoom(buffer []byte, begin, n int) []byte {
	if len(buffer)+n <= cap(buffer) {
		return buffer
	}
	most := max(begin+r.limit+r.buf.Size(), len(buffer)+n)
	return append(make([]byte, 0, min(2*cap(buffer)+n, most)), buffer...)
}

// rest writes the rest of a line that is too long.
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

// chunk reads a part of a line. ended reports whether the line ends with it.
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
		n, _ := r.buf.Discard(len(byteOrderMark)) // cannot fail: Peek has read these bytes
		r.done += int64(n)
	}
	return nil
}

func (r *lineReader) close() {
	if r.file != nil {
		_ = r.file.Close() // the file was only read
		r.file = nil
	}
}

// skip skips the lines that are done. done is their size in bytes.
func (r *lineReader) skip(ctx context.Context, done int64) error {
	for r.at < len(r.inputs) && r.done+r.inputs[r.at].content <= done {
		r.done += r.inputs[r.at].content
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
