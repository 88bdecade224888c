package framing

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The reasons why a payload of logs is poison as a whole.
const (
	reasonGzip    = "broken gzip"
	reasonTooLong = "a gzip with more than 64 MiB of content"
	reasonNoLogs  = "a gzip without a message of CloudWatch Logs"
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
	MessageType string            `json:"messageType"`
	Owner       json.RawMessage   `json:"owner"`
	LogGroup    json.RawMessage   `json:"logGroup"`
	LogStream   json.RawMessage   `json:"logStream"`
	LogEvents   []json.RawMessage `json:"logEvents"`
}

var _ dedupe.Framing = Logs{}

// Open returns the log events. A payload that is not a gzip is a single record.
func (Logs) Open(_ context.Context, payload []byte) (records [][]byte, framed bool, err error) {
	if !bytes.HasPrefix(payload, gzipCodec.magic) {
		return nil, false, nil
	}
	text, err := gunzip(payload)
	if err != nil {
		return nil, false, err
	}
	var e envelope
	if json.Unmarshal(text, &e) != nil {
		return nil, false, &format.BadRecord{Reason: reasonNoLogs}
	}
	switch e.MessageType {
	case "CONTROL_MESSAGE":
		return nil, true, nil
	case "DATA_MESSAGE":
		return e.records(), true, nil
	}
	return nil, false, &format.BadRecord{Reason: reasonNoLogs}
}

// records returns the log events with the members of the message. If this package has packed the message, the events
// have these members already. An event that is not an object stays unchanged: the format decides about it.
func (e envelope) records() [][]byte {
	var common []byte
	for _, member := range []struct {
		name  string
		value json.RawMessage
	}{{"owner", e.Owner}, {"logGroup", e.LogGroup}, {"logStream", e.LogStream}} {
		if member.value != nil {
			common = append(append(common, `,"`+member.name+`":`...), member.value...)
		}
	}
	records := make([][]byte, len(e.LogEvents))
	for i, event := range e.LogEvents {
		records[i] = event
		inner, isObject := bytes.CutSuffix(event, []byte("}"))
		empty := len(bytes.TrimSpace(inner)) == 1
		if isObject && !empty && !bytes.Contains(inner, common) {
			records[i] = slices.Concat(inner, common, []byte("}"))
		}
	}
	return records
}

// gunzip decompresses a payload.
func gunzip(payload []byte) ([]byte, error) {
	return gzipCodec.decompress(payload, reasonGzip, reasonTooLong)
}

// Pack makes a message of CloudWatch Logs, with all members of the original.
func (Logs) Pack(original []byte, records [][]byte) ([]byte, error) {
	text, err := gunzip(original)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	members["logEvents"] = slices.Concat([]byte("["), bytes.Join(records, []byte(",")), []byte("]"))
	var payload bytes.Buffer
	packed := gzip.NewWriter(&payload)
	if err := writeObject(packed, members); err != nil {
		return nil, err
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	return payload.Bytes(), nil
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
