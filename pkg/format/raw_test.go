package format_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/format"
)

// hashOfX is the SHA-256 of x: sha256sum gives it.
const hashOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

func TestRaw(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		format     format.Raw
		key        string
		id, reason string
	}{
		"content":               {format.Raw{}, "k", hashOfX, ""},
		"content without a key": {format.Raw{}, "", hashOfX, ""},
		"key":                   {format.Raw{PartitionKey: true}, "ключ", "ключ", ""},
		"no key":                {format.Raw{PartitionKey: true}, "", "", "has none"},
		"key in Latin-1":        {format.Raw{PartitionKey: true}, "caf\xe9", "", "not Unicode"},
	} {
		fields, err := test.format.ReadKeyed(t.Context(), test.key, []byte("x"))
		if bad, ok := errors.AsType[*format.BadRecord](err); ok != (test.reason != "") ||
			ok && !strings.Contains(bad.Reason, test.reason) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (fields.ID != test.id || fields.Fingerprint != hashOfX || fields.Version != "r1") {
			t.Errorf("%s: %+v", name, fields)
		}
	}
	fields, err := format.Raw{}.Read(t.Context(), nil)
	if err != nil || fields.ID != fields.Fingerprint || len(fields.ID) != 64 {
		t.Errorf("an empty record: %+v, %v", fields, err)
	}
}

func TestRawRename(t *testing.T) {
	t.Parallel()
	key, data, err := format.Raw{PartitionKey: true}.RenameKeyed(t.Context(), "k", []byte{0xff}, "k", "new")
	if err != nil || key != "new" || string(data) != "\xff" {
		t.Errorf("key %q, data %q: %v", key, data, err)
	}
	_, _, err = format.Raw{}.RenameKeyed(t.Context(), "k", nil, "old", "new")
	_, plainErr := format.Raw{PartitionKey: true}.Rename(t.Context(), nil, "old", "new")
	for _, err := range []error{err, plainErr} {
		if _, ok := errors.AsType[*format.BadRecord](err); !ok {
			t.Errorf("want a bad record, got %v", err)
		}
	}
}
