package format_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/format"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// in64 returns a text in base64.
func in64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// in16 returns ASCII text in UTF-16, with the low byte first.
func in16(text string) string { return strings.Join(strings.Split(text, ""), "\x00") + "\x00" }

func TestLooksLike(t *testing.T) {
	t.Parallel()
	const (
		record = `{"id":"x","n":[1,2]}`
		binary = "binary data, or text that is not UTF-8"
	)
	for _, test := range []struct{ payload, want string }{
		{"", "an empty record"}, {" \r\n", "an empty record"},
		{gzipped(t, record), "gzip"},
		{"\x28\xb5\x2f\xfd\x04\x00", "Zstandard"},
		{enriched, format.LooksLikeEvent}, {unprinted + "\r\n", format.LooksLikeEvent},
		{with(enriched, "event_id", "order-1"), "TSV"}, {enriched + "\t", "TSV"},
		{"\xfd7zXZ\x00\x00", "xz"}, {"PAR1\x15\x04", "a Parquet file"}, {"PAR1", "a Parquet file"},
		{"PK\x03\x04\x14\x00", "a ZIP archive"}, {"PK-1", "plain text"},
		{"BZh91AY&SY\x00\x01", "bzip2"}, {"BZh9", "plain text"}, {"BZh9 is no archive", "plain text"},
		{"\xf3\x89\x9a\xc2\x0a\x01a", "a KPL aggregate"},
		{in64(record), "base64 of JSON"}, {in64(record + " "), "base64 of JSON"}, {in64(record) + "\n", "base64 of JSON"},
		{in64(`{"id":"` + strings.Repeat("x", 5000) + `"}`), "base64 of JSON"},
		{base64.RawURLEncoding.EncodeToString([]byte(`{"id":"????>>>>"}`)), "base64 of JSON"},
		{in64(gzipped(t, record)), "base64 of gzip"},
		{in64("some text of no kind"), "plain text"}, {"ew", "plain text"}, {"internationalisation", "plain text"},
		{"\xff\xfe" + in16(record), "UTF-16 text"}, {"\xfe\xff\x00{", "UTF-16 text"}, {in16(record), "UTF-16 text"},
		{"\x00" + in16(record), "UTF-16 text"}, // the high byte first, or a line of a file with the low byte first
		{"\xef\xbb\xbf" + record, "UTF-8 text with a byte order mark"},
		{record, "a JSON object"}, {" {} ", "a JSON object"}, {"{\"a\":\"\xff\"}", "a JSON object"},
		{`[` + record + `]`, "a JSON array"}, {`[]`, "a JSON array"},
		{`[`, "the beginning of a JSON array"}, {`[` + record + `,`, "the beginning of a JSON array"},
		{record + `,`, "an element of a JSON array"}, {record + " ,\r\n", "an element of a JSON array"},
		{`{`, "the beginning of a JSON object"}, {`{"id":"x","n":`, "the beginning of a JSON object"},
		{record + record, "several JSON objects in one record"}, {`{}{}`, "several JSON objects in one record"},
		{record + "\n" + record, "several JSON objects in one record"},
		{`{'id':'x'}`, "a JSON object with a syntax error"}, {`{"id":"x",}`, "a JSON object with a syntax error"},
		{record + `}`, "a JSON object with a syntax error"},
		{`"{\"id\":\"x\"}"`, "a JSON string"}, {`17.5e3`, "a JSON number"}, {`null`, "a JSON literal"},
		{"web\tpage_view\t2026-11-22", "TSV"}, {"1\t2", "TSV"}, {"{\t", "the beginning of a JSON object"},
		{"id,name\n1,Smith", "CSV"}, {`"id","name"`, "CSV"}, {`1,"Smith, John"`, "CSV"}, {"id;name", "CSV"},
		{"Hello, world; hello, you", "plain text"}, {"id\n1,2", "plain text"}, {"[INFO] ready", "plain text"},
		{"[2026-11-22 09:00] ready", "plain text"}, {"<id>é</id>", "plain text"}, {"}", "plain text"},
		{"\x00\x01\x02\x03", binary}, {"caf\xe9", binary}, {"a,b\x01", binary}, {"\x08\x96\x01\x12\x04abcd", binary},
	} {
		if got := format.LooksLike([]byte(test.payload)); got != test.want {
			t.Errorf("%.60q: want %s, got %s", test.payload, test.want, got)
		}
	}
}

// FuzzLooksLike checks that LooksLike never panics or changes the payload, and that it names whole JSON texts.
func FuzzLooksLike(f *testing.F) {
	more := []string{"a\tb", "a,b", `{}{}`, "eyJpZCI6IngifQ==", "\xff\xfe{\x00", "BZh91AY&SY"}
	for _, seed := range slices.Concat(seeds, more) {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		original := slices.Clone(payload)
		got := format.LooksLike(payload)
		if got == "" || !bytes.Equal(payload, original) {
			t.Fatalf("got %q, and the payload is %q", got, payload)
		}
		if !json.Valid(payload) {
			return
		}
		want := map[byte]string{
			'{': "a JSON object", '[': "a JSON array", '"': "a JSON string", 't': "a JSON literal", 'f': "a JSON literal",
			'n': "a JSON literal",
		}[bytes.TrimLeft(payload, " \t\r\n")[0]]
		if want == "" {
			want = "a JSON number"
		}
		if got != want {
			t.Fatalf("want %s, got %s", want, got)
		}
	})
}
