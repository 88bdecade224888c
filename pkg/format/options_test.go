package format_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/format"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		options format.Options
		option  string // the one that the error names; "" is valid
		says    string
	}{
		{"least", format.Options{IDPath: "id"}, "", ""},
		{"most", format.Options{
			IDPath: "e.id", FingerprintPath: "e.fp", OwnerPath: "e.owner", ContextsPath: "e.contexts", TimePath: "e.at",
			Volatile: []string{"e.x", "y", "parts.0.z", "parts.1"},
		}, "", ""},
		{"everything inside a volatile member", format.Options{
			IDPath: "v.id", FingerprintPath: "v.fp", OwnerPath: "v.owner", ContextsPath: "v.contexts", TimePath: "v.at", Volatile: []string{"v"},
		}, "", ""},
		{"volatile time and fingerprint", format.Options{IDPath: "id", FingerprintPath: "fp", TimePath: "at", Volatile: []string{"fp", "at"}}, "", ""},
		{"begins like another", format.Options{IDPath: "id", OwnerPath: "id2", Volatile: []string{"i", "context"}}, "", ""},

		{"no id", format.Options{OwnerPath: "a"}, "IDPath", "is required"},
		{"id is owner", format.Options{IDPath: "a", OwnerPath: "a"}, "IDPath", "leads to the value of OwnerPath, or into it"},
		{"id is fingerprint", format.Options{IDPath: "a", FingerprintPath: "a"}, "IDPath", "FingerprintPath"},
		{"id is time", format.Options{IDPath: "a", TimePath: "a"}, "IDPath", "TimePath"},
		{"id is volatile", format.Options{IDPath: "a", Volatile: []string{"a"}}, "IDPath", "Volatile"},
		{"owner is volatile", format.Options{IDPath: "a", OwnerPath: "b", Volatile: []string{"b"}}, "OwnerPath", "Volatile"},
		{"id in the contexts", format.Options{IDPath: "contexts.0.id"}, "IDPath", "ContextsPath"},
		{"owner in the contexts", format.Options{IDPath: "id", ContextsPath: "a.b", OwnerPath: "a.b.0.c"}, "OwnerPath", "ContextsPath"},
		{"time in the contexts", format.Options{IDPath: "id", TimePath: "contexts.0.at"}, "TimePath", "ContextsPath"},
		{"volatile in the contexts", format.Options{IDPath: "id", Volatile: []string{"contexts.0"}}, "Volatile", "ContextsPath"},
		{"contexts in the id", format.Options{IDPath: "id", ContextsPath: "id.x"}, "ContextsPath", "IDPath"},
		{"contexts are volatile", format.Options{IDPath: "id", Volatile: []string{"contexts"}}, "ContextsPath", "Volatile"},
		{"owner in the id", format.Options{IDPath: "a", OwnerPath: "a.b"}, "OwnerPath", "IDPath"},
		{"volatile in the time", format.Options{IDPath: "id", TimePath: "at", Volatile: []string{"at.x"}}, "Volatile", "TimePath"},
		{"volatile twice", format.Options{IDPath: "id", Volatile: []string{"a", "b", "a"}}, "Volatile", "Volatile"},
		{"volatile in volatile", format.Options{IDPath: "id", Volatile: []string{"a.b", "a"}}, "Volatile", "Volatile"},
		{"the same in other words", format.Options{IDPath: "a", OwnerPath: `\a`}, "IDPath", "OwnerPath"},
		{"contexts in an array", format.Options{IDPath: "id", ContextsPath: "a.0.contexts"}, "ContextsPath", "only names are allowed"},

		{"owner with a wildcard", format.Options{IDPath: "id", OwnerPath: "o*"}, "OwnerPath", "only names and array indexes"},
		{"volatile with a query", format.Options{IDPath: "id", Volatile: []string{"a", "b.#.c"}}, "Volatile", "only names and array indexes"},
		{"volatile empty", format.Options{IDPath: "id", Volatile: []string{""}}, "Volatile", "empty part"},
	} {
		_, err := format.NewJSON(test.options)
		var wrong *format.OptionError
		switch {
		case test.option == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.option != "" && (!errors.As(err, &wrong) || wrong.Option != test.option ||
			!strings.Contains(wrong.Error(), test.says)):
			t.Errorf("%s: want %s ... %s, got %v", test.name, test.option, test.says, err)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path   string
		record string // whose id is "x" by this path; "" is a path that is refused
	}{
		{"id", `{"id":"x"}`},
		{"a.b.c", `{"a":{"b":{"c":"x"}}}`},
		{"a.1.c", `{"a":[0,{"c":"x"}]}`},
		{"a.10", `{"a":[0,1,2,3,4,5,6,7,8,9,"x",11]}`},
		{"a.1.c", `{"a":{"1":{"c":"x"}}}`},
		{"0", `{"0":"x"}`},
		{"a.01", `{"a":{"1":"y","01":"x"}}`},
		{`a\.b`, `{"a":{"b":"y"},"a.b":"x"}`},
		{`\@timestamp.a\*\?\|\#\\`, `{"@timestamp":{"a*?|#\\":"x"}}`},
		{`\@this`, `{"@this":"x"}`},
		{"a@b", `{"a@b":"x"}`},
		{`a!b[c{d`, `{"a!b[c{d":"x"}`},
		{`$id:-_/ ~+=()<>%&`, `{"$id:-_/ ~+=()<>%&":"x"}`},
		{"größe", `{"gr\u00f6\u00dfe":"x"}`},
		{"😀", `{"\ud83d\ude00":"x"}`},
		{"a", `{"\u0061":"x"}`},
		{"�", `{"\udfff":"y","\ufffd":"x"}`},

		{"", ""},
		{".", ""},
		{"a.", ""},
		{".a", ""},
		{"a..b", ""},
		{"..a", ""},
		{`a\`, ""},
		{"a*", ""},
		{"a?", ""},
		{"*", ""},
		{"a.#", ""},
		{"a.#.b", ""},
		{`a.#(b=="c").d`, ""},
		{"a|b", ""},
		{"@this", ""},
		{"a.@reverse.0", ""},
		{"@timestamp", ""},
		{"!a", ""},
		{"[a,b]", ""},
		{"{a,b}", ""},
		{"a.{b}", ""},
		{"a\x00", ""},
		{"a\nb", ""},
		{"a\xff", ""},
	} {
		f, err := format.NewJSON(format.Options{IDPath: test.path})
		if test.record == "" {
			if err == nil {
				t.Errorf("%q is no plain path, but was not refused", test.path)
			} else if !strings.HasPrefix(err.Error(), "IDPath: ") {
				t.Errorf("%q: the error does not name the option: %v", test.path, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", test.path, err)
			continue
		}
		if fields, err := f.Read(context.Background(), []byte(test.record)); err != nil || fields.ID != "x" {
			t.Errorf("%q in %s: want x, got %q, %v", test.path, test.record, fields.ID, err)
		}
	}
}

// TestNoIndex: an index has one spelling, and a name is never an index of an array.
func TestNoIndex(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"a.01", "a.-1", "a.+1", "a.2", "a.x", "a.18446744073709551616"} {
		f := newJSON(t, format.Options{IDPath: path})
		if fields, err := f.Read(context.Background(), []byte(`{"a":["x","y"]}`)); err == nil {
			t.Errorf("%s led to %q", path, fields.ID)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	version := func(o format.Options, record string) string {
		fields, err := newJSON(t, o).Read(context.Background(), []byte(record))
		if err != nil {
			t.Fatal(err)
		}
		return fields.Version
	}
	const record = `{"id":"a","i":"b","o":"c","fp":"d","at":1}`
	base := format.Options{IDPath: "id", Volatile: []string{"x", "y"}}
	// Versions are stored: if these change, fingerprints have changed.
	if got := version(base, record); got != wantComputed {
		t.Errorf("computed: want %s, got %s", wantComputed, got)
	}
	if got := version(format.Options{IDPath: "id", FingerprintPath: "fp"}, record); got != wantByPath {
		t.Errorf("by path: want %s, got %s", wantByPath, got)
	}
	for _, same := range []format.Options{
		{IDPath: `\id`, Volatile: []string{"y", "x"}, ContextsPath: "contexts"},
		{IDPath: "id", Volatile: []string{"x", "y"}, TimePath: "at"},
		{IDPath: "id", Volatile: []string{"x", "y"}, FingerprintPath: "absent"},
	} {
		if got := version(same, record); got != wantComputed {
			t.Errorf("%+v: want %s, got %s", same, wantComputed, got)
		}
	}
	seen := map[string]format.Options{}
	for _, other := range []format.Options{
		base,
		{IDPath: "i", Volatile: []string{"x", "y"}},
		{IDPath: "id", OwnerPath: "o", Volatile: []string{"x", "y"}},
		{IDPath: "id", ContextsPath: "c", Volatile: []string{"x", "y"}},
		{IDPath: "id", Volatile: []string{"x"}},
		{IDPath: "id", Volatile: []string{"x.y"}},
		{IDPath: "id", Volatile: []string{`x\.y`}},
		{IDPath: "id", Volatile: []string{"x y"}},
		{IDPath: "id"},
		{IDPath: "id", FingerprintPath: "fp"},
		{IDPath: "id", FingerprintPath: "i"},
	} {
		got := version(other, record)
		if twin, found := seen[got]; found {
			t.Errorf("%+v and %+v have version %s", other, twin, got)
		}
		seen[got] = other
	}
}

const (
	wantComputed = "c1-13732e50"
	wantByPath   = "p1-2b48aefb"
)

func newJSON(t testing.TB, o format.Options) *format.JSON {
	t.Helper()
	f, err := format.NewJSON(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
