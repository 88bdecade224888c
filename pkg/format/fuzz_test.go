package format_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/readertest"
	"github.com/oncebox/oncebox/pkg/format"
)

// seeds are good and bad records of every kind.
var seeds = readertest.JSON

// FuzzRead checks these properties of Read:
//
//   - It never panics.
//   - It accepts the JSON that encoding/json accepts, up to MaxDepth levels.
//   - White space changes nothing, and a Rename changes only the id.
func FuzzRead(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		original := slices.Clone(record)
		for _, o := range properties {
			fuzzRead(t, newJSON(t, o), record)
		}
		if !bytes.Equal(record, original) {
			t.Fatal("the record was changed")
		}
	})
}

func fuzzRead(t *testing.T, f *format.JSON, record []byte) {
	fields, err := f.Read(context.Background(), record)
	reason := ""
	var badRecord *format.BadRecord
	if errors.As(err, &badRecord) {
		reason = badRecord.Reason
	} else if err != nil {
		t.Fatalf("no BadRecord: %v", err)
	}
	if strings.HasPrefix(reason, "nested deeper") {
		return
	}
	if valid := isJSON(record); valid != (reason != "not valid JSON") {
		t.Fatalf("encoding/json says %v, Read says %v", valid, err)
	}
	if err == nil {
		fuzzSpace(t, f, record, fields)
		fuzzRename(t, f, record, fields)
	}
}

func isJSON(record []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(record))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return false
	}
	_, err := decoder.Token()
	return errors.Is(err, io.EOF)
}

func fuzzSpace(t *testing.T, f *format.JSON, record []byte, want format.Fields) {
	var compact, indented bytes.Buffer
	if err := errors.Join(json.Compact(&compact, record), json.Indent(&indented, record, "\t", " \r")); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{compact.String(), indented.String()} {
		if got := mustRead(t, f, other); got != want {
			t.Fatalf("white space matters: %+v, %+v\n%s\n%s", want, got, record, other)
		}
	}
}

func fuzzRename(t *testing.T, f *format.JSON, record []byte, fields format.Fields) {
	renamed, err := f.Rename(context.Background(), record, fields.ID, "new")
	if err != nil {
		return
	}
	if !json.Valid(renamed) || !bytes.Contains(renamed, []byte("originalEventId")) {
		t.Fatalf("Rename wrote %q", renamed)
	}
	fields.ID = "new"
	if got := mustRead(t, f, string(renamed)); got != fields {
		t.Fatalf("want %+v, got %+v\n%s\n%s", fields, got, record, renamed)
	}
}

// FuzzNumbers: two numbers have the same form if and only if they have the same value.
func FuzzNumbers(f *testing.F) {
	numbers := []string{"0", "-0", "1", "1.0", "10e-1", "0.1E+1", "12345678901234567890.1", "1e400", "10e399", "-1.50",
		"-15e-1", "0.0e5", "100", "1e2"}
	for _, a := range numbers {
		for _, b := range numbers {
			f.Add(a, b)
		}
	}
	read, err := format.NewJSON(format.Options{IDPath: "id"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := rational(a), rational(b)
		if x == nil || y == nil {
			return
		}
		first := mustRead(t, read, `{"id":"x","n":`+a+`}`)
		second := mustRead(t, read, `{"id":"x","n":`+b+`}`)
		if same := x.Cmp(y) == 0; same != (first.Fingerprint == second.Fingerprint) {
			t.Fatalf("%s and %s: the same is %v", a, b, same)
		}
	})
}

// rational returns the value of a JSON number, or nil if big.Rat cannot hold it.
func rational(text string) *big.Rat {
	if text == "" || strings.Trim(text, "0123456789+-.eE") != "" || !json.Valid([]byte(text)) {
		return nil
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(strings.TrimLeft(text[i+1:], "+-0")) > 3 {
		return nil
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return value
}
