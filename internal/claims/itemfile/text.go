package itemfile

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// NotTextError says that a file is not text in UTF-8.
type NotTextError struct{ detail string }

func (e *NotTextError) Error() string { return e.detail }

// Is reports whether target is itembank.ErrInvalid, the family of this error.
func (e *NotTextError) Is(target error) bool { return target == itembank.ErrInvalid }

const byteOrderMark = "\xef\xbb\xbf"

// formats are files that are not text, by their first bytes.
var formats = []struct{ begin, detail string }{
	{"\xff\xfe", "it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8"},
	{"\x1f\x8b", "it is compressed with gzip; unpack it before, for example with zcat"},
	{"PK\x03\x04", "it is a ZIP archive or a spreadsheet; unpack it before, or save the sheet as CSV in UTF-8"},
}

// firstBytes is how many bytes decide whether a file is text.
const firstBytes = 512

// textOf returns a reader of a text in UTF-8. It skips the byte order mark, and returns a *NotTextError if the file
// begins as a file of another format.
func textOf(file io.Reader) (*bufio.Reader, error) {
	r := bufio.NewReaderSize(file, maxLine)
	first, _ := r.Peek(firstBytes) // the next read finds the error again
	for _, format := range formats {
		if strings.HasPrefix(string(first), format.begin) {
			return nil, &NotTextError{format.detail}
		}
	}
	switch {
	case alternates(first, 0):
		return nil, &NotTextError{"it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16BE -t UTF-8"}
	case alternates(first, 1):
		return nil, &NotTextError{"it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16LE -t UTF-8"}
	case isBinary(first):
		return nil, &NotTextError{"it is a binary file, and not text"}
	}
	if bytes.HasPrefix(first, []byte(byteOrderMark)) {
		_, _ = r.Discard(len(byteOrderMark)) // cannot fail: Peek has read these bytes
	}
	return r, nil
}

// alternates reports whether nearly every second byte is zero, as in UTF-16. at is the place of the zero in each pair.
func alternates(first []byte, at int) bool {
	pairs, zeros := len(first)/2, 0
	for i := range pairs {
		if first[2*i+at] == 0 && first[2*i+1-at] != 0 {
			zeros++
		}
	}
	return pairs > 1 && zeros*4 > pairs*3
}

// isBinary reports whether many bytes are control characters that text does not have. A few of them are bad lines.
func isBinary(first []byte) bool {
	controls := 0
	for _, b := range first {
		if b < ' ' && b != '\t' && b != '\n' && b != '\r' {
			controls++
		}
	}
	return controls > 4 && controls*20 > len(first)
}
