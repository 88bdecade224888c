package recordhandler

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// maxDirect is the largest message whose arrival is read. CloudWatch Logs makes none of more than a few MiB.
const maxDirect = 32 << 20

// decodeLogs makes a batch from a message that CloudWatch Logs sends to the function directly. The message has no
// position: its owner is the log group and the hash of the message, so that it is the same on every attempt of
// Lambda. Its arrival is the time of its latest log event.
//
// A message that cannot be opened becomes a record too, and is dead-lettered. Its arrival is zero: it has no time.
func decodeLogs(data []byte) source {
	var message struct {
		Owner     string  `json:"owner"`
		LogGroup  string  `json:"logGroup"`
		LogEvents logTime `json:"logEvents"`
	}
	if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		// The framing reports what is wrong with the message.
		_ = json.NewDecoder(io.LimitReader(r, maxDirect)).Decode(&message)
	}
	sum := sha256.Sum256(data)
	return source{shared: true, logs: true, batch: dedupe.Batch{
		Stream:  dedupe.Stream{Account: message.Owner, Name: "logs:" + message.LogGroup},
		Order:   dedupe.None,
		Records: []dedupe.Record{{Sequence: hex.EncodeToString(sum[:]), Arrival: message.LogEvents.latest, Data: data}},
	}}
}

// logTime reads the time of the latest of the log events, and keeps no log event in memory.
type logTime struct{ latest time.Time }

// UnmarshalJSON implements json.Unmarshaler. It skips log events without a time. The message is a dead letter if it has
// more log events than a record may open to.
func (l *logTime) UnmarshalJSON(list []byte) error {
	d := json.NewDecoder(bytes.NewReader(list))
	if _, err := d.Token(); err != nil {
		return err
	}
	for n := 0; d.More() && n < dedupe.MaxOpenedRecords; n++ {
		var event struct {
			Timestamp float64 `json:"timestamp"` // in milliseconds
		}
		err := d.Decode(&event)
		if _, otherType := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !otherType {
			return err
		}
		if t, ok := timeOf(event.Timestamp); ok && t.After(l.latest) {
			l.latest = t
		}
	}
	return nil
}
