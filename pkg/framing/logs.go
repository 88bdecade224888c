package framing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/oncebox/oncebox/internal/shared/jsonscan"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The reasons why a payload of logs is poison as a whole.
const (
	reasonGzip     = "broken gzip"
	reasonNoLogs   = "a gzip without a message of CloudWatch Logs"
	reasonEnvelope = "a message of CloudWatch Logs with more than 64 KiB beside its log events"
)

const (
	// maxEnvelope is the largest size of a message without its log events, in bytes. These are the names of an account, a
	// log group, a log stream and subscription filters, of at most 512 characters each.
	maxEnvelope = 64 << 10
	// maxEventLevels is the deepest nesting of a log event. encoding/json, which reads the message, has the same limit.
	maxEventLevels = 10_000
)

// Logs opens what a subscription filter of CloudWatch Logs sends: a gzip with the log events of one log stream
// (CloudWatch Logs User Guide, "Real-time processing of log data with subscriptions"). Control messages have no
// records.
//
// A record is a log event as it came, with owner, logGroup and logStream of its message as members at the end:
//
//	{"id":"3195...","timestamp":1432826855000,"message":"...","owner":"123456789012","logGroup":"g","logStream":"s"}
//
// The id of CloudWatch Logs is unique for a log event. So the path of the id is "id".
type Logs struct{}

// envelope is a message of CloudWatch Logs.
type envelope struct {
	MessageType string          `json:"messageType"`
	Owner       json.RawMessage `json:"owner"`
	LogGroup    json.RawMessage `json:"logGroup"`
	LogStream   json.RawMessage `json:"logStream"`
	LogEvents   json.RawMessage `json:"logEvents"`
}

var _ dedupe.Framing = Logs{}

// Open returns the log events. A payload that is not a gzip is a single record.
func (Logs) Open(ctx context.Context, payload []byte, room *dedupe.Room) (records [][]byte, framed bool, err error) {
	if !bytes.HasPrefix(payload, gzipCodec.magic) {
		return nil, false, nil
	}
	text, err := gzipCodec.decompress(ctx, payload, reasonGzip, room)
	if err != nil {
		return nil, false, err
	}
	var e envelope
	switch {
	case json.Unmarshal(text, &e) != nil:
	case len(text)-len(e.LogEvents) > maxEnvelope:
		return nil, false, &format.BadRecord{Reason: reasonEnvelope}
	case e.MessageType == "CONTROL_MESSAGE":
		return nil, true, nil
	case e.MessageType == "DATA_MESSAGE":
		records, err := e.records(room)
		return records, err == nil, err
	}
	return nil, false, &format.BadRecord{Reason: reasonNoLogs}
}

// records returns the log events with the members of the message. If this package has packed the message, the events
// have these members already. An event that is not an object stays unchanged: the format decides about it.
func (e envelope) records(room *dedupe.Room) (records [][]byte, err error) {
	var common []byte
	for _, member := range []struct {
		name  string
		value json.RawMessage
	}{{"owner", e.Owner}, {"logGroup", e.LogGroup}, {"logStream", e.LogStream}} {
		if member.value != nil {
			common = append(append(common, `,"`+member.name+`":`...), member.value...)
		}
	}
	if len(e.LogEvents) == 0 || string(e.LogEvents) == "null" {
		return nil, nil
	}
	err = elements(jsonscan.Text(e.LogEvents), maxEventLevels, func(event []byte) error {
		if err := room.Take(1, len(event)+len(common)); err != nil {
			return err
		}
		inner, isObject := bytes.CutSuffix(event, []byte("}"))
		empty := len(bytes.TrimSpace(inner)) == 1
		if isObject && !empty && !bytes.Contains(inner, common) {
			event = slices.Concat(inner, common, []byte("}"))
		}
		records = append(records, event)
		return nil
	})
	switch {
	case errors.Is(err, errArray):
		return nil, &format.BadRecord{Reason: reasonNoLogs}
	case err != nil:
		return nil, err
	}
	return records, nil
}

// Pack makes a message of CloudWatch Logs, with all members of the original.
func (Logs) Pack(original []byte, records [][]byte) ([]byte, error) {
	text, err := gzipCodec.decompress(context.Background(), original, reasonGzip, dedupe.NewRoom())
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	members["logEvents"] = slices.Concat([]byte("["), bytes.Join(records, []byte(",")), []byte("]"))
	return gzipCodec.compress(func(w io.Writer) error { return writeObject(w, members) })
}

// writeObject writes an object without changing its values. encoding/json would change white space in them.
func writeObject(w io.Writer, members map[string]json.RawMessage) error {
	before := byte('{')
	for _, name := range slices.Sorted(maps.Keys(members)) {
		quoted, err := json.Marshal(name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%c%s:%s", before, quoted, members[name]); err != nil {
			return err
		}
		before = ','
	}
	_, err := w.Write([]byte("}"))
	return err
}
