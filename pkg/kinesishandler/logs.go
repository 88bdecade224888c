package kinesishandler

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// decodeLogs makes a batch from a message that CloudWatch Logs sends to the function directly. The message has no
// position: its owner is the log group and the hash of the message, so that it is the same on every attempt of
// Lambda. Its arrival is the time of its latest log event.
//
// A message that cannot be opened becomes a record too, and is dead-lettered. Its arrival is now.
func decodeLogs(data []byte) source {
	var message struct {
		Owner     string `json:"owner"`
		LogGroup  string `json:"logGroup"`
		LogEvents []struct {
			Timestamp float64 `json:"timestamp"` // in milliseconds
		} `json:"logEvents"`
	}
	if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		_ = json.NewDecoder(io.LimitReader(r, maxMessage)).Decode(&message) // the framing reports what is wrong with it
	}
	var arrival time.Time
	for _, e := range message.LogEvents {
		if t, ok := timeOf(e.Timestamp); ok && t.After(arrival) {
			arrival = t
		}
	}
	if arrival.IsZero() {
		arrival = time.Now().UTC()
	}
	sum := sha256.Sum256(data)
	return source{shared: true, logs: true, batch: dedupe.Batch{
		Stream:  dedupe.Stream{Account: message.Owner, Name: "logs:" + message.LogGroup},
		Order:   dedupe.None,
		Records: []dedupe.Record{{Sequence: hex.EncodeToString(sum[:]), Arrival: arrival, Data: data}},
	}}
}

// maxMessage limits the memory for a message. A message of CloudWatch Logs has about 1 MiB after decompression.
const maxMessage = 64 << 20
