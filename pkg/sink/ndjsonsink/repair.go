package ndjsonsink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// maxTail is more than the size of any record. A longer last line was not written by this sink.
const maxTail = 64 << 20

// repair makes a file end with a complete line:
//
//   - A last line that is JSON but has no line end gets one: a person or another program may have omitted it.
//   - The beginning of an object is a line that was cut by a crash. Its record does not count as delivered, so the
//     line is removed.
//   - Anything else was written by another program, and is an error.
func repair(f *os.File, size int64) error {
	tail, err := lastLine(f, size)
	switch {
	case err != nil || len(tail) == 0:
		return err
	case json.Valid(tail):
		_, err := f.Write([]byte{'\n'})
		return err
	case isBeginning(tail):
		return f.Truncate(size - int64(len(tail)))
	}
	return errors.New("its last line has no line end and is not JSON; if this is the right file, end or delete that line")
}

// isBeginning reports whether a text may be the beginning of a record: of an object, or of white space before it.
func isBeginning(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r")
	return len(text) == 0 || text[0] == '{'
}

// lastLine returns the text after the last line end.
func lastLine(f *os.File, size int64) ([]byte, error) {
	for n := int64(64 << 10); ; n *= 4 {
		n = min(n, size)
		tail := make([]byte, n)
		if _, err := f.ReadAt(tail, size-n); err != nil {
			return nil, err
		}
		if i := bytes.LastIndexByte(tail, '\n'); i >= 0 {
			return tail[i+1:], nil
		}
		if n == size {
			return tail, nil
		}
		if n >= maxTail {
			return nil, fmt.Errorf("its last line is longer than %d bytes, so it is not an NDJSON file", maxTail)
		}
	}
}
