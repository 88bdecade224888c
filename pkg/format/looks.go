package format

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"unicode"
	"unicode/utf8"
)

// LooksLike guesses what a payload is, for a message that explains why it is not a record: "it looks like gzip". The
// result is one of a few fixed texts, which contain nothing of the payload. It is never empty.
//
// The result for one whole JSON object is "a JSON object". If such a payload is not a record, the reason is
// different, for example a wrong path.
func LooksLike(payload []byte) string {
	text := bytes.Trim(payload, " \t\r\n")
	switch {
	case len(text) == 0:
		return "an empty record"
	case isEvent(payload):
		return LooksLikeEvent
	}
	for _, guess := range []func([]byte) string{likePacked, likeUnicode, likeJSON, likeBase64, likeTable} {
		if kind := guess(text); kind != "" {
			return kind
		}
	}
	if isText(text) {
		return "plain text"
	}
	return "binary data, or text that is not UTF-8"
}

// LooksLikeEvent is the result of LooksLike for an event that Snowplow reads.
const LooksLikeEvent = "an enriched event of Snowplow"

func isEvent(payload []byte) bool {
	var e event
	if e.split(payload) != nil {
		return false
	}
	_, err := e.id()
	return err == nil
}

// likePacked names data that begins with the signature of a compression or container format.
func likePacked(data []byte) string {
	for _, s := range []struct{ begins, kind string }{
		{"\x1f\x8b", "gzip"},                    // RFC 1952, section 2.3.1
		{"\x28\xb5\x2f\xfd", "Zstandard"},       // RFC 8878, section 3.1.1
		{"PK\x03\x04", "a ZIP archive"},         // APPNOTE.TXT of PKWARE, section 4.3.7
		{"\xfd7zXZ\x00", "xz"},                  // The .xz File Format 1.2.1, section 2.1.1.1
		{"PAR1", "a Parquet file"},              // Parquet, "File format"
		{"\xf3\x89\x9a\xc2", "a KPL aggregate"}, // aggregation-format.md of amazon-kinesis-producer
	} {
		if bytes.HasPrefix(data, []byte(s.begins)) {
			return s.kind
		}
	}
	// bzip2 has its level from 1 to 9 at index 3. The first block begins with the digits of pi.
	if len(data) >= 10 && string(data[:3]) == "BZh" && string(data[4:10]) == "1AY&SY" {
		return "bzip2"
	}
	return ""
}

// likeUnicode names text that begins with a byte order mark, and UTF-16 without one.
func likeUnicode(text []byte) string {
	switch {
	case bytes.HasPrefix(text, []byte("\ufeff")):
		return "UTF-8 text with a byte order mark"
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")), isUTF16(text):
		return "UTF-16 text"
	}
	return ""
}

// isUTF16 reports whether data is mostly ASCII in UTF-16: about every second byte is zero, and no other byte is.
func isUTF16(data []byte) bool {
	head := data[:min(len(data), 64)]
	var zeros [2]int // at even and at odd indexes
	for i, c := range head {
		if c == 0 {
			zeros[i%2]++
		}
	}
	return len(head) >= 4 && min(zeros[0], zeros[1]) == 0 && max(zeros[0], zeros[1]) >= len(head)/4 &&
		isText(bytes.ReplaceAll(head, []byte{0}, nil))
}

// likeJSON names JSON, and text that begins like JSON objects and arrays. text must not be empty.
func likeJSON(text []byte) string {
	var value json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&value)
	cut := errors.Is(err, io.ErrUnexpectedEOF)
	rest := bytes.TrimLeft(text[decoder.InputOffset():], " \t\r\n")
	switch first := text[0]; {
	case err == nil && len(rest) == 0:
		return kindOfJSON(first)
	case first == '[' && cut:
		return "the beginning of a JSON array"
	case first != '{':
		return ""
	case cut:
		return "the beginning of a JSON object"
	case err == nil && rest[0] == '{':
		return "several JSON objects in one record"
	case err == nil && string(rest) == ",":
		return "an element of a JSON array"
	default:
		return "a JSON object with a syntax error"
	}
}

// kindOfJSON names a JSON value by its first byte.
func kindOfJSON(first byte) string {
	switch first {
	case '{':
		return "a JSON object"
	case '[':
		return "a JSON array"
	case '"':
		return "a JSON string"
	case 't', 'f', 'n':
		return "a JSON literal"
	default:
		return "a JSON number"
	}
}

// likeBase64 names base64 of a JSON object, and of packed data.
func likeBase64(text []byte) string {
	const (
		shortest = 8    // a shorter text may be a word
		enough   = 1024 // a multiple of 4
	)
	if len(text) < shortest {
		return ""
	}
	head := bytes.TrimRight(text[:min(len(text), enough)], "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		data, err := encoding.DecodeString(string(head))
		if err != nil {
			continue
		}
		if kind := likePacked(data); kind != "" {
			return "base64 of " + kind
		}
		if kind := likeJSON(data); kind == "a JSON object" || kind == "the beginning of a JSON object" {
			return "base64 of JSON"
		}
	}
	return ""
}

// likeTable names text that has the separators of a table in its first line. A comma followed by a space belongs to a
// sentence.
func likeTable(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	has := func(separator string) bool {
		return bytes.Count(line, []byte(separator)) > bytes.Count(line, []byte(separator+" "))
	}
	switch {
	case !isText(line):
		return ""
	case bytes.IndexByte(line, '\t') >= 0:
		return "TSV"
	case has(","), has(";"):
		return "CSV"
	}
	return ""
}

func isText(text []byte) bool {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\r' && r != '\n' }
	return utf8.Valid(text) && !bytes.ContainsFunc(text, control)
}
