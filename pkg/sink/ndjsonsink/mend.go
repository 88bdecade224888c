package ndjsonsink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// maxTail is more than any record: a longer last line is not this sink's.
const maxTail = 64 << 20

// repair ends a file with a whole line. A last line without its end is finished
// if it is JSON by itself: a person or another program may have left the end
// out. The beginning of an object is the half line of a crash, of a record that
// nobody was told is delivered: it is cut off. Anything else is somebody's, and
// an error.
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
	return errors.New("its last line has no end and is not JSON; if the file is the right one, end or remove that line")
}

// isBeginning reports whether a text may be the beginning of a record: of an object, in
// front of which JSON allows white space.
func isBeginning(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r")
	return len(text) == 0 || text[0] == '{'
}

// lastLine returns what stands behind the last line end.
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
			return nil, fmt.Errorf("its last line is longer than %d bytes: it is no NDJSON file", maxTail)
		}
	}
}
