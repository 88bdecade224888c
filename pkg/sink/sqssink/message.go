package sqssink

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// The reasons for which a queue can never take a record.
const (
	reasonTooLarge = "it is too large for a message of the sink's queue"
	reasonNotText  = "it has bytes that a text message of SQS cannot have"
	reasonEmpty    = "it is empty, and SQS takes no empty message"
)

// Check returns a *dedupe.PoisonError for a record that the queue can never take. Such a record would fail its request
// each time. Check makes no request and returns no other error.
func (s *Sink) Check(_ context.Context, o dedupe.Output) error {
	switch {
	case len(o.Data) == 0:
		return &dedupe.PoisonError{Reason: reasonEmpty}
	case s.size(o) > s.maxRecord:
		return &dedupe.PoisonError{Reason: reasonTooLarge}
	case s.encoding == EncodingText && !isText(o.Data):
		return &dedupe.PoisonError{Reason: reasonNotText}
	}
	return nil
}

// isText reports whether a message may have the bytes (API reference, SendMessageBatch). What SQS does with others is
// not the same everywhere: it refuses the message, or it puts U+FFFD in their place.
func isText(data []byte) bool {
	for len(data) > 0 {
		if c := data[0]; c < utf8.RuneSelf {
			if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
				return false
			}
			data = data[1:]
			continue
		}
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 || r == '\uFFFE' || r == '\uFFFF' {
			return false
		}
		data = data[size:]
	}
	return true
}

// size returns the bytes of the message of a record.
func (s *Sink) size(o dedupe.Output) int {
	if s.encoding == EncodingBase64 {
		return base64.StdEncoding.EncodedLen(len(o.Data))
	}
	return len(o.Data)
}

func (s *Sink) body(o dedupe.Output) string {
	if s.encoding == EncodingBase64 {
		return base64.StdEncoding.EncodeToString(o.Data)
	}
	return string(o.Data)
}

// groupOf returns the message group of a record. A record without a partition key is a group of its own.
func groupOf(o dedupe.Output) string { return token(cmp.Or(o.PartitionKey, o.ID)) }

// maxToken is how long deduplication ids and message groups may be (API reference, SendMessageBatchRequestEntry).
const maxToken = 128

// hashed begins each hash in the place of a text. A text that begins like this is hashed, too: else an id could be
// chosen that has the hash of another id, and SQS would drop the message of one of the two.
const hashed = "sha256:"

// token returns a text as a deduplication id or a message group: the text itself, or its hash if it is longer than 128
// characters, or has other characters than visible ASCII.
func token(text string) string {
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(text) <= maxToken && strings.IndexFunc(text, hidden) < 0 && !strings.HasPrefix(text, hashed) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hashed + hex.EncodeToString(sum[:])
}
