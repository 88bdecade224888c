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

// The reasons why a queue can never take a record.
const (
	reasonTooLarge = "it is too large for a message of the sink's queue"
	reasonNotText  = "it has bytes that a text message of SQS cannot have"
	reasonEmpty    = "it is empty, and SQS takes no empty message"
)

// Check returns a *dedupe.PoisonError for a record that the queue can never take. Such a record would fail its
// request each time. Check sends no request and returns no other error.
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

// isText reports whether a message may have these bytes (API reference, SendMessageBatch). With other bytes, SQS
// either refuses the message or replaces the bytes by U+FFFD, depending on the place.
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

// groupOf returns the message group of a record. A record without a partition key has its own group.
func groupOf(o dedupe.Output) string { return token(cmp.Or(o.PartitionKey, o.ID)) }

// maxToken is the largest length of deduplication ids and message groups (API reference,
// SendMessageBatchRequestEntry).
const maxToken = 128

// hashed begins each hash that replaces a text. A text that begins like this is hashed too. Otherwise an id could
// equal the hash of another id, and SQS would drop one of the two messages.
const hashed = "sha256:"

// token returns a text as a deduplication id or a message group. This is the text itself, or its hash if it is longer
// than 128 characters or has characters other than visible ASCII.
func token(text string) string {
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(text) <= maxToken && strings.IndexFunc(text, hidden) < 0 && !strings.HasPrefix(text, hashed) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return hashed + hex.EncodeToString(sum[:])
}
