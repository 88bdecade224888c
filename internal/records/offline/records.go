package offline

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
)

// Records says how the records are in an input. Array and Concatenated are the framings of package framing, for files
// of any size.
type Records string

// These are the forms. A record is a line, an element of a JSON array, or a JSON value. With Auto the beginning of each
// input decides. DeadLetters are lines of the dead-letter file of a run: a record is what the letter holds.
const (
	OneALine     Records = "lines"
	Array        Records = "array"
	Concatenated Records = "concatenated"
	Auto         Records = "auto"
	DeadLetters  Records = "dead-letters"
)

// split returns the content with one record a line. It only leaves out line ends, and what is between records.
func (in Input) split(content io.Reader) (io.Reader, error) {
	switch in.Records {
	case OneALine, DeadLetters, "":
		return content, nil
	}
	from := bufio.NewReaderSize(content, splitBuffer)
	head, err := from.Peek(splitBuffer)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s := &splitter{name: in.Name, from: from, array: in.Records == Array}
	if bytes.HasPrefix(head, []byte(byteOrderMark)) {
		_, _ = from.Discard(len(byteOrderMark)) // cannot fail: Peek has read these bytes
		head = head[len(byteOrderMark):]
	}
	if in.Records == Auto {
		form := formOf(head)
		if form == OneALine {
			return from, nil
		}
		s.array = form == Array
	}
	return s, nil
}

// splitBuffer is the number of bytes that decide about the form of an input.
const splitBuffer = 64 << 10

// formOf returns the form of an input by its beginning. A line is never an array, because a record is an object.
func formOf(head []byte) Records {
	head = bytes.TrimLeft(head, " \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte("[")):
		return Array
	case !bytes.HasPrefix(head, []byte("{")):
		return OneALine
	}
	var s splitter
	for _, c := range head {
		inside := s.depth > 0 && !s.quoted
		switch {
		case s.records > 0 && c == '\n', c == '\n' && !inside:
			return OneALine
		case c == '\n', s.records > 0 && !isSpace(c): // a value of several lines, or a second one in the line
			return Concatenated
		}
		if s.records == 0 && s.step(c) != nil {
			return OneALine
		}
	}
	return OneALine
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// splitter reads JSON values and returns each in a line of its own. It only finds their ends. The format decides
// whether a value is a record.
type splitter struct {
	name   string
	from   *bufio.Reader
	array  bool
	buffer []byte // the lines of the part that was read last
	out    []byte // the rest of buffer, which was not returned yet
	err    error

	at      position
	depth   int   // open brackets of the value
	quoted  bool  // in a string of the value
	escaped bool  // after a backslash in it
	plain   bool  // in a number or a literal that is a value by itself
	records int64 // values that have ended
}

// position is a place between the values of an array.
type position int

const (
	beforeArray position = iota
	afterBracket
	afterValue
	afterComma
	afterArray
)

func (s *splitter) Read(b []byte) (int, error) {
	for len(s.out) == 0 && s.err == nil {
		s.buffer = s.buffer[:0]
		s.fill()
		s.out = s.buffer
	}
	n := copy(b, s.out)
	if s.out = s.out[n:]; n > 0 || len(b) == 0 {
		return n, nil
	}
	return 0, s.err
}

// fill reads a part of the input.
func (s *splitter) fill() {
	_, err := s.from.Peek(1)
	part, _ := s.from.Peek(s.from.Buffered())
	for _, c := range part {
		if s.err = s.step(c); s.err != nil {
			return
		}
	}
	_, _ = s.from.Discard(len(part))
	if s.err = err; errors.Is(err, io.EOF) {
		s.err = s.end()
	}
}

// end ends the input. A blank input has no records.
func (s *splitter) end() error {
	if s.plain {
		s.endValue()
	}
	inArray := s.array && s.at != beforeArray && s.at != afterArray
	if inArray || s.depth > 0 || s.quoted {
		return s.broken("it ends in the middle of its records. Get the whole file")
	}
	return io.EOF
}

func (s *splitter) broken(format string, args ...any) error {
	return &brokenError{fmt.Sprintf("%s cannot be read after record %d: ", s.name, s.records) + fmt.Sprintf(format, args...)}
}

// step takes a byte.
func (s *splitter) step(c byte) error {
	switch {
	case s.quoted:
		return s.inString(c)
	case s.depth > 0:
		s.inValue(c)
		return nil
	case s.plain && c != ',' && c != ']' && !jsonscan.EndsWord(c):
		s.buffer = append(s.buffer, c)
		return nil
	case s.plain:
		s.endValue()
	}
	if isSpace(c) {
		return nil
	}
	if s.array {
		return s.inArray(c)
	}
	return s.begin(c)
}

func (s *splitter) inString(c byte) error {
	switch {
	case c == '\n':
		return s.broken("there is a line break in a string")
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.quoted = false
	}
	s.buffer = append(s.buffer, c)
	if !s.quoted && s.depth == 0 {
		s.endValue()
	}
	return nil
}

func (s *splitter) inValue(c byte) {
	switch c {
	case '\n', '\r':
		return
	case '"':
		s.quoted = true
	case '{', '[':
		s.depth++
	case '}', ']':
		s.depth--
	}
	if s.buffer = append(s.buffer, c); s.depth == 0 {
		s.endValue()
	}
}

func (s *splitter) endValue() {
	s.buffer = append(s.buffer, '\n')
	s.plain, s.at = false, afterValue
	s.records++
}

// inArray takes a byte between the elements of an array.
func (s *splitter) inArray(c byte) error {
	switch {
	case s.at == beforeArray && c == '[':
		s.at = afterBracket
	case s.at == beforeArray:
		return s.broken("it begins with %q, and not with [ as a JSON array. Say --records auto", c)
	case s.at == afterArray:
		return s.broken("it has %q after its array", c)
	case c == ']' && s.at != afterComma:
		s.at = afterArray
	case c == ',' && s.at == afterValue:
		s.at = afterComma
	case s.at == afterValue:
		return s.broken("an element is followed by %q, and not by , or ]", c)
	default:
		return s.begin(c)
	}
	return nil
}

// begin begins a value.
func (s *splitter) begin(c byte) error {
	switch c {
	case '{', '[':
		s.depth = 1
	case '"':
		s.quoted = true
	case '}', ']', ',', ':':
		return s.broken("there is %q instead of a JSON value", c)
	default:
		s.plain = true
	}
	s.buffer = append(s.buffer, c)
	return nil
}
