package reference

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncebox/oncebox/internal/testkit/readertest"
	"github.com/oncebox/oncebox/pkg/format"
)

// FuzzJSON: Read finds the id that gjson finds.
func FuzzJSON(f *testing.F) {
	for _, seed := range readertest.JSON {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		for _, path := range []string{"id", "meta.id"} {
			compareID(t, path, record)
		}
	})
}

func compareID(t *testing.T, path string, record []byte) {
	read, err := format.NewJSON(format.Options{IDPath: path})
	if err != nil {
		t.Fatal(err)
	}
	fields, err := read.Read(t.Context(), record)
	if !gjson.ValidBytes(record) || record[len(record)-len(bytes.TrimLeft(record, " \t\r\n"))] != '{' {
		return
	}
	id := gjson.GetBytes(record, path)
	if badRecord, bad := errors.AsType[*format.BadRecord](err); bad {
		missing := id.Type == gjson.Null || id.Type == gjson.String && id.Str == ""
		if strings.HasPrefix(badRecord.Reason, "the id is missing") && !missing {
			t.Fatalf("gjson finds the id %s", id.Raw)
		}
		return
	}
	found := id.Type == gjson.Number && id.Raw == fields.ID || id.Type == gjson.String && id.Str == fields.ID
	if err != nil || !found {
		t.Fatalf("gjson finds the id %s, Read finds %q, %v", id.Raw, fields.ID, err)
	}
}
