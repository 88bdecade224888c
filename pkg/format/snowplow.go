package format

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// SnowplowOptions say how to read enriched events of Snowplow. The zero value is enough for a stream.
type SnowplowOptions struct {
	// Volatile names further columns that differ between copies of an event, such as page_title. A computed fingerprint
	// leaves them out, together with the columns that NewSnowplow lists.
	Volatile []string
	// TimeColumn names the column of the time, such as collector_tstamp. If it is set, every event must have a time.
	TimeColumn string
}

// Snowplow reads and renames enriched events of Snowplow: lines of 131 columns with tabs between them. It is safe for
// concurrent use.
//
// The id is event_id, which must be a UUID: Enrich writes only UUIDs (ConversionUtils.validateUuid), and a loader
// refuses others (snowplow-scala-analytics-sdk, ValueDecoder: uuidColumnDecoder).
//
// The fingerprint is event_fingerprint. If that column is empty, it is the lower-case hex SHA-256 of the event.
// Enrich fills the column only with its event fingerprint enrichment. Enrich's hash is made from the parameters of
// the request, and cannot be computed from an event. So the computed fingerprint is made from the event itself, with
// these columns empty: event_id, contexts, derived_contexts and the volatile ones.
//
// An event has exactly 131 columns. If it has more, a value contains a tab or the format has changed. It is then
// unknown which column is which, and Snowplow's loaders refuse the event too.
//
// Enrich writes no line end. One at the end of an event (LF or CR LF) is not a part of the last column, and stays.
type Snowplow struct {
	leftOut [snowplowColumns]bool // the columns that a computed fingerprint leaves out
	time    int                   // the index of the time column, or -1

	contexts     *tree // of the derived contexts
	schema, data *place

	byColumn, computed string // the versions
}

// NewSnowplow makes a Snowplow. The error is an *OptionError.
//
// Always volatile are collector_tstamp, dvce_sent_tstamp, derived_tstamp, v_collector, user_ipaddress, network_userid,
// all columns whose names begin with geo_ or ip_, etl_tstamp, etl_tags, v_etl, base_currency, and the amounts in it.
func NewSnowplow(o SnowplowOptions) (*Snowplow, error) {
	f := &Snowplow{time: -1, contexts: newTree()}
	f.schema, f.data = f.contexts.end("schema"), f.contexts.end("data")
	if o.TimeColumn != "" {
		f.time = slices.Index(columnNames[:], o.TimeColumn)
		if f.time < 0 || !strings.HasSuffix(o.TimeColumn, "_tstamp") {
			return nil, &OptionError{"TimeColumn", "is not a column of times, such as collector_tstamp"}
		}
	}
	for _, column := range []int{columnEventID, columnContexts, columnDerivedContexts} {
		f.leftOut[column] = true
	}
	for i, name := range slices.Concat(volatileColumns, o.Volatile) {
		column := slices.Index(columnNames[:], name)
		switch number := i - len(volatileColumns) + 1; {
		case column < 0:
			return nil, &OptionError{"Volatile", fmt.Sprintf("name %d is not a column of enriched events", number)}
		case column == columnFingerprint:
			return nil, &OptionError{"Volatile", "names event_fingerprint, which decides wherever it is set"}
		}
		f.leftOut[column] = true
	}
	var names []string
	for i, leftOut := range f.leftOut {
		if leftOut {
			names = append(names, columnNames[i])
		}
	}
	f.byColumn, f.computed = version("p1", "snowplow"), version("c1", "snowplow", names)
	return f, nil
}

// end returns the place of a member of the root.
func (t *tree) end(name string) *place { return t.add(path{name})[1] }

// Read returns the values that identify the event. The error is a *BadRecord. Read does not look into the derived
// contexts: they matter only for a synthetic duplicate, and Rename checks them.
func (f *Snowplow) Read(_ context.Context, record []byte) (fields Fields, _ error) {
	var e event
	err := e.split(record)
	if err == nil {
		fields.ID, err = e.id()
	}
	if err == nil && f.time >= 0 {
		fields.Time, err = e.time(f.time)
	}
	if err == nil {
		fields.Version = f.byColumn
		fields.Fingerprint, err = e.fingerprint()
	}
	if err != nil {
		return Fields{}, err
	}
	if fields.Fingerprint == "" {
		fields.Version, fields.Fingerprint = f.computed, f.compute(&e)
	}
	return fields, nil
}

// The reasons about an event.
const (
	reasonNotEvent        = "not an enriched event of 131 columns with tabs between them"
	reasonNoEventID       = "the event_id is empty"
	reasonEventIDNoUUID   = "the event_id is not a UUID"
	reasonNoTime          = "the time is not of the form 2013-11-26 00:03:57.885"
	reasonDerivedContexts = "the derived_contexts are not a contexts document of Snowplow"
)

// event is an enriched event and the ends of its columns.
type event struct {
	text []byte // without a line end
	ends [snowplowColumns]int
}

func (e *event) split(record []byte) *BadRecord {
	e.text = withoutLineEnd(record)
	const last = snowplowColumns - 1
	begin := 0
	for i := range last {
		length := bytes.IndexByte(e.text[begin:], '\t')
		if length < 0 {
			return bad(reasonNotEvent)
		}
		e.ends[i] = begin + length
		begin = e.ends[i] + 1
	}
	if bytes.IndexByte(e.text[begin:], '\t') >= 0 {
		return bad(reasonNotEvent)
	}
	e.ends[last] = len(e.text)
	return nil
}

func withoutLineEnd(record []byte) []byte {
	line, ended := bytes.CutSuffix(record, []byte("\n"))
	if ended {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	return line
}

// column is the place of a column, which may be empty.
func (e *event) column(i int) span {
	if i == 0 {
		return span{0, e.ends[0]}
	}
	return span{e.ends[i-1] + 1, e.ends[i]}
}

func (e *event) id() (string, *BadRecord) {
	id := string(e.column(columnEventID).of(e.text))
	if id == "" {
		return "", bad(reasonNoEventID)
	}
	if _, ok := parseUUID(id); !ok {
		return "", bad(reasonEventIDNoUUID)
	}
	return id, nil
}

func (e *event) time(column int) (time.Time, *BadRecord) {
	t, err := time.Parse("2006-01-02 15:04:05.999", string(e.column(column).of(e.text)))
	if err != nil {
		return time.Time{}, bad(reasonNoTime)
	}
	return t, nil
}

// fingerprint returns the event_fingerprint, which may be empty.
func (e *event) fingerprint() (string, *BadRecord) {
	text := e.column(columnFingerprint).of(e.text)
	if !utf8.Valid(text) {
		return "", bad("the event_fingerprint is not Unicode")
	}
	if len(text) > MaxText {
		return "", bad(fmt.Sprintf("the event_fingerprint is longer than %d bytes", MaxText))
	}
	return string(text), nil
}

// usualEvent is the number of bytes that compute has on the stack.
const usualEvent = 4096

// compute returns the SHA-256 of the event with all columns empty that are left out.
func (f *Snowplow) compute(e *event) string {
	var space [usualEvent]byte
	counted := space[:0]
	begin := 0
	for i := range snowplowColumns {
		if f.leftOut[i] {
			column := e.column(i)
			counted = append(counted, e.text[begin:column.from]...)
			begin = column.to
		}
	}
	sum := sha256.Sum256(append(counted, e.text[begin:]...))
	return hex.EncodeToString(sum[:])
}
