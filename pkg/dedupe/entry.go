package dedupe

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
)

// Key is what the ledger compares: the 128 bits that format.KeyOf makes of an id.
type Key = format.Key

// Never is the purge time of an entry that is kept for good.
const Never int64 = 0

// Entry says that a key was seen, and by which record.
type Entry struct {
	Scope       string // name space of keys
	Key         Key
	Owner       string // the one record that holds the entry; see Position
	Fingerprint string // tells copies of a record from other records of the same key
	Version     string // settings that made the fingerprint; not compared
	Arrival     time.Time
	PurgeAt     int64 // epoch seconds, or Never
}

// purged reports whether the entry may be replaced by a record of this arrival.
// It is the condition of a put, in memory: the time is tested, so that rows
// which the engine has not deleted yet do not count.
func (e Entry) purged(arrival time.Time) bool {
	return e.PurgeAt != Never && time.Unix(e.PurgeAt, 0).Before(arrival)
}

// Retention says how long entries count.
type Retention struct {
	// Window is how long after an arrival a copy is surely a duplicate.
	Window time.Duration
	// Horizon is the longest time after its arrival at which a record may
	// still be processed: at least the stream's retention.
	Horizon time.Duration
	// ForGood keeps entries for ever and ignores the other two.
	ForGood bool
}

// PurgeAt is when the entry of a record may go: window and horizon after its
// arrival, in seconds, rounded up. At the window's end alone a copy that arrived
// inside the window and is processed late would meet a purged row, and pass.
func (r Retention) PurgeAt(arrival time.Time) int64 {
	if r.ForGood {
		return Never
	}
	end := arrival.Add(r.Window + r.Horizon)
	if end.Nanosecond() > 0 {
		return end.Unix() + 1
	}
	return end.Unix()
}

// Stream is a Kinesis stream. A consumer is not part of it: all consumers of a
// stream see the same records.
type Stream struct{ Account, Region, Name string }

func (s Stream) String() string { return s.Account + "/" + s.Region + "/" + s.Name }

// ParseStreamARN reads arn:PARTITION:kinesis:REGION:ACCOUNT:stream/NAME, with or
// without a /consumer/... suffix.
func ParseStreamARN(arn string) (Stream, error) {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "kinesis" {
		return Stream{}, fmt.Errorf("%q is not the ARN of a Kinesis stream", arn)
	}
	name, ok := strings.CutPrefix(parts[5], "stream/")
	name, _, _ = strings.Cut(name, "/")
	if !ok || name == "" {
		return Stream{}, fmt.Errorf("%q is not the ARN of a Kinesis stream", arn)
	}
	return Stream{Account: parts[4], Region: parts[3], Name: name}, nil
}

// Plain is the sub-sequence of a record that is not part of an aggregate.
const Plain = -1

// Position is where a record is. Its text is the record's owner: never a batch,
// since batches change under bisect and partial failure.
type Position struct {
	Stream   Stream
	Shard    string
	Sequence string // decimal
	Sub      int    // position inside a KPL aggregate, or Plain
}

func (p Position) String() string {
	sub := ""
	if p.Sub != Plain {
		sub = "#" + strconv.Itoa(p.Sub)
	}
	// In one go: every record has its owner made.
	return p.Stream.Account + "/" + p.Stream.Region + "/" + p.Stream.Name + "/" + p.Shard + "/" + p.Sequence + sub
}

// sequenceDigits is the longest sequence number that there may be. Those of Kinesis
// have 56 digits; the pattern in its API Reference ("Record") would allow 129.
const sequenceDigits = 128

// CompareSequence orders sequence numbers: decimal texts, too large for integers,
// whose lengths differ.
func CompareSequence(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// PadSequence puts zeros before a sequence number, for engines: so texts, which have
// one length then, order as their numbers do. The error is about a text that is none
// of up to 128 digits.
func PadSequence(sequence string) (string, error) {
	digits := strings.TrimLeft(sequence, "0")
	if sequence == "" || len(digits) > sequenceDigits || strings.Trim(digits, "0123456789") != "" {
		return "", fmt.Errorf("sequence number %.140q: want a decimal of up to %d digits", sequence, sequenceDigits)
	}
	return strings.Repeat("0", sequenceDigits-len(digits)) + digits, nil
}

// UnpadSequence takes the zeros away.
func UnpadSequence(padded string) string {
	if s := strings.TrimLeft(padded, "0"); s != "" {
		return s
	}
	return "0"
}
