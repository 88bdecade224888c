package dedupe

import (
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/aws/arn"
)

// Stream names a Kinesis stream. It does not name the consumer, because all consumers of a stream see the same records.
type Stream struct{ Account, Region, Name string }

func (s Stream) String() string { return s.Account + "/" + s.Region + "/" + s.Name }

// ParseStreamARN reads arn:PARTITION:kinesis:REGION:ACCOUNT:stream/NAME. It ignores a suffix /consumer/...
func ParseStreamARN(text string) (Stream, error) {
	stream, ok := arn.Of("kinesis", text)
	name, isStream := strings.CutPrefix(stream.Resource, "stream/")
	name, _, _ = strings.Cut(name, "/")
	if !ok || !isStream || name == "" {
		return Stream{}, fmt.Errorf("%q is not the ARN of a Kinesis stream", text)
	}
	return Stream{Account: stream.Account, Region: stream.Region, Name: name}, nil
}

// Position is the place of a user record in a stream.
type Position struct {
	Stream   Stream
	Shard    string // "" for a source without shards
	Sequence string // decimal, if there is a shard
	Sub      int    // index in a KPL aggregate, or Plain
}

// Owner returns the owner of the record at the position.
func (p Position) Owner() Owner {
	return Owner{Source: sourceOf(p.Stream, p.Shard), Sequence: p.Sequence, Sub: p.Sub}
}

func sourceOf(s Stream, shard string) string {
	if shard == "" { // for example a queue
		return s.String()
	}
	return s.Account + "/" + s.Region + "/" + s.Name + "/" + shard
}

// sequenceDigits is the length of the longest sequence number that this package accepts. Kinesis uses 56 digits. The
// pattern in its API Reference ("Record") would allow 129.
const sequenceDigits = 128

// CompareSequence compares two sequence numbers by value, as cmp.Compare does. They are decimal texts of different
// lengths, too long for an integer.
func CompareSequence(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// IsSequence reports whether a text is a sequence number: a decimal of up to 128 digits.
func IsSequence(text string) bool {
	return text != "" && len(text) <= sequenceDigits && strings.Trim(text, "0123456789") == ""
}

// PadSequence pads a sequence number with leading zeros, so that an engine can compare sequence numbers as texts. It
// returns an error unless the sequence number has 1 to 128 digits, leading zeros not counted.
func PadSequence(sequence string) (string, error) {
	digits := strings.TrimLeft(sequence, "0")
	if sequence == "" || len(digits) > sequenceDigits || strings.Trim(digits, "0123456789") != "" {
		return "", fmt.Errorf("sequence number %.140q: want a decimal of up to %d digits", sequence, sequenceDigits)
	}
	return strings.Repeat("0", sequenceDigits-len(digits)) + digits, nil
}

// PadSequences calls PadSequence for the first and the last sequence number of a range.
func PadSequences(first, last string) (from, to string, err error) {
	if from, err = PadSequence(first); err != nil {
		return "", "", err
	}
	to, err = PadSequence(last)
	return from, to, err
}

// UnpadSequence removes the leading zeros that PadSequence added.
func UnpadSequence(padded string) string {
	if s := strings.TrimLeft(padded, "0"); s != "" {
		return s
	}
	return "0"
}
