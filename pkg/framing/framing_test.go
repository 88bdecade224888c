package framing_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/framing"
)

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func zip(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	must(t, err)
	must(t, w.Close())
	return b.String()
}

func zstdOf(t testing.TB, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return string(w.EncodeAll([]byte(text), nil))
}

// eventsOf returns the content of a compressed payload of Snowplow.
func eventsOf(events ...string) string {
	text := []byte{1, 7}
	for _, e := range events {
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(e))), e...)
	}
	return string(text)
}

const message = `{"messageType":"DATA_MESSAGE","owner":"1","logGroup":"g<","logStream":"s","subscriptionFilters":["f"],` +
	`"logEvents":[{"id":"a","timestamp":1,"message":"<x>"}, {"id":"b"},{},7]}`

const common = `"owner":"1","logGroup":"g<","logStream":"s"`

func TestOpen(t *testing.T) {
	t.Parallel()
	const alone = "alone"
	for name, test := range map[string]struct {
		framing, payload string
		want             []string // nil: poison; alone: a record by itself
		reason           string
	}{
		"lines":                 {"lines", "{\"a\":1}\n\n \r\n b \r\nc", []string{`{"a":1}`, " b ", "c"}, ""},
		"one line":              {"lines", "a\n", []string{"a"}, ""},
		"no line end":           {"lines", "a", []string{alone}, ""},
		"blank":                 {"lines", " \n\n", []string{alone}, ""},
		"empty":                 {"lines", "", []string{alone}, ""},
		"array":                 {"array", " [ {\"a\":[1]} ,\n2,\"]\" ]\n", []string{`{"a":[1]}`, "2", `"]"`}, ""},
		"array of one":          {"array", `[{}]`, []string{"{}"}, ""},
		"empty array":           {"array", ` [ ]`, []string{}, ""},
		"object":                {"array", `{"a":[1,2]}`, []string{alone}, ""},
		"array cut":             {"array", `[{"a":1},{"a"`, nil, "array"},
		"array without an end":  {"array", `[1`, nil, "array"},
		"array and more":        {"array", `[1]2`, nil, "array"},
		"empty array and more":  {"array", `[],`, nil, "array"},
		"no comma":              {"array", `[1 2]`, nil, "array"},
		"comma at the end":      {"array", `[1,]`, nil, "array"},
		"concatenated":          {"concatenated", `{"a":"}{"}{"b":2}` + "\n" + `{}`, []string{`{"a":"}{"}`, `{"b":2}`, "{}"}, ""},
		"one value":             {"concatenated", ` {"a":1} `, []string{alone}, ""},
		"no value":              {"concatenated", `a{}`, []string{alone}, ""},
		"second value cut":      {"concatenated", `{}{"a"`, nil, "after its last JSON value"},
		"no space":              {"concatenated", `1"a"2{}null[3]`, []string{"1", `"a"`, "2", "{}", "null", "[3]"}, ""},
		"another word":          {"concatenated", `{}1-2`, nil, "after its last JSON value"},
		"another literal":       {"concatenated", `{}nullx`, nil, "after its last JSON value"},
		"something behind":      {"concatenated", `{},{}`, nil, "after its last JSON value"},
		"logs":                  {"logs", zip(t, message), []string{`{"id":"a","timestamp":1,"message":"<x>",` + common + `}`, `{"id":"b",` + common + `}`, "{}", "7"}, ""},
		"logs without owner":    {"logs", zip(t, `{"messageType":"DATA_MESSAGE","logEvents":[{"id":"a"}]}`), []string{`{"id":"a"}`}, ""},
		"control message":       {"logs", zip(t, `{"messageType":"CONTROL_MESSAGE","logEvents":[{"id":""}]}`), []string{}, ""},
		"no gzip":               {"logs", message, []string{alone}, ""},
		"gzip cut":              {"logs", zip(t, message)[:40], nil, "broken gzip"},
		"gzip header":           {"logs", "\x1f\x8b", nil, "broken gzip"},
		"gzip of something":     {"logs", zip(t, "something"), nil, "without a message"},
		"another message":       {"logs", zip(t, `{"messageType":"NEWS"}`), nil, "without a message"},
		"log events not a list": {"logs", zip(t, `{"messageType":"DATA_MESSAGE","logEvents":{}}`), nil, "without a message"},
		"events":                {"snowplow", zip(t, eventsOf("a\tb", "", "c")), []string{"a\tb", "", "c"}, ""},
		"events in zstd":        {"snowplow", zstdOf(t, eventsOf("a\tb")), []string{"a\tb"}, ""},
		"no events":             {"snowplow", zip(t, eventsOf()), []string{}, ""},
		"plain event":           {"snowplow", "a\tb", []string{alone}, ""},
		"no header":             {"snowplow", zip(t, "\x01"), nil, "broken"},
		"other version":         {"snowplow", zip(t, "\x02"+eventsOf("a")[1:]), nil, "version"},
		"event cut":             {"snowplow", zip(t, eventsOf("a", "bc")[:11]), nil, "broken"},
		"length cut":            {"snowplow", zip(t, eventsOf("a", "bc")[:9]), nil, "broken"},
		"negative length":       {"snowplow", zip(t, "\x01\x01\xff\xff\xff\xff"), nil, "broken"},
		"zstd cut":              {"snowplow", zstdOf(t, eventsOf("a"))[:8], nil, "broken"},
	} {
		f, err := framing.Named(test.framing)
		must(t, err)
		records, framed, err := f.Open(t.Context(), []byte(test.payload), dedupe.NewRoom())
		bad, poison := errors.AsType[*format.BadRecord](err)
		switch {
		case (err != nil) != (test.want == nil) || poison && !strings.Contains(bad.Reason, test.reason) || err != nil && !poison:
			t.Errorf("%s: %v", name, err)
		case err == nil && framed == slices.Equal(test.want, []string{alone}) || framed && !slices.Equal(texts(records), test.want):
			t.Errorf("%s: framed %t, %q", name, framed, records)
		}
	}
	if _, err := framing.Named("one"); err == nil {
		t.Error("a framing of another name was accepted")
	}
}

func texts(records [][]byte) (all []string) {
	for _, r := range records {
		all = append(all, string(r))
	}
	return all
}

// TestPackKeepsTheForm: the remaining records of a payload are read back, whichever they are, and the payload keeps
// its form.
func TestPackKeepsTheForm(t *testing.T) {
	t.Parallel()
	for name, originals := range map[string][]string{
		"lines":        {"{\"a\":1}\n{\"b\":2}\n{\"c\":3}", "{}\r\n{}\r\n\r\n{}\r\n", "x\n"},
		"array":        {`[{"a":1}, {"b":2} ,3]`},
		"concatenated": {`{"a":1}{"b":2}{}`, " {}\n{}\n{}\n", "{} {}"},
		"logs":         {zip(t, message)},
		"snowplow":     {zip(t, eventsOf("a", "b", "")), zstdOf(t, eventsOf("a", "b", "", "c"))},
	} {
		f, err := framing.Named(name)
		must(t, err)
		for _, original := range originals {
			all, _, err := f.Open(t.Context(), []byte(original), dedupe.NewRoom())
			must(t, err)
			rapid.Check(t, func(t *rapid.T) {
				var some [][]byte
				for _, r := range all {
					if rapid.Bool().Draw(t, "left") {
						some = append(some, r)
					}
				}
				if len(some) == 0 {
					return
				}
				payload, err := f.Pack([]byte(original), some)
				must(t, err)
				again, framed, err := f.Open(t.Context(), payload, dedupe.NewRoom())
				must(t, err)
				if !framed { // one value
					again = [][]byte{bytes.TrimSpace(payload)}
				}
				if !slices.Equal(texts(again), texts(some)) {
					t.Errorf("%q of %q is packed as %q", some, original, payload)
				}
			})
		}
	}
	for original, want := range map[string]string{"{}\r\n{}\r\n": "{}\r\n", "{}\n\n{}": "{}"} {
		if got, err := (framing.Lines{}).Pack([]byte(original), [][]byte{[]byte("{}")}); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", original, got, err)
		}
	}
	payload, err := framing.Single(framing.Array{}).Pack([]byte("[1,2]"), [][]byte{[]byte("1")})
	if payload != nil || err != nil {
		t.Errorf("records that go one by one are packed as %q: %v", payload, err)
	}
}

// TestPackedLogs: a message keeps its members, and the texts of its log events.
func TestPackedLogs(t *testing.T) {
	t.Parallel()
	event := `{"id":"a","message":"<&>"}`
	payload, err := framing.Logs{}.Pack([]byte(zip(t, message)), [][]byte{[]byte(event)})
	must(t, err)
	r, err := gzip.NewReader(bytes.NewReader(payload))
	must(t, err)
	var text bytes.Buffer
	_, err = text.ReadFrom(r)
	must(t, err)
	const want = `{"logEvents":[{"id":"a","message":"<&>"}],"logGroup":"g<","logStream":"s","messageType":"DATA_MESSAGE",` +
		`"owner":"1","subscriptionFilters":["f"]}`
	if text.String() != want {
		t.Errorf("got %s", text.String())
	}
}
