package format_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
)

func TestReadID(t *testing.T) {
	t.Parallel()
	const (
		missing  = "the id is missing, null or empty"
		neither  = "the id is neither a string nor a number"
		unlawful = "the id is not Unicode"
		twice    = "a member on the path of the id is there twice"
	)
	for _, test := range []struct {
		record, id, reason string
	}{
		{`{"a":{"id":"order-1"}}`, "order-1", ""},
		{"\t\r\n {\"a\" :\t{ \"id\"\n: \"order-1\" } }\n", "order-1", ""},
		{`{"a":{"id":17}}`, "17", ""},
		{`{"a":{"id":-17.50e+3}}`, "-17.50e+3", ""},
		{`{"a":{"id":0}}`, "0", ""},
		{`{"a":{"id":12345678901234567890123456789012345678901234567890}}`, "12345678901234567890123456789012345678901234567890", ""},
		{`{"a":{"id":" "}}`, " ", ""},
		{`{"a":{"id":"null"}}`, "null", ""},
		{`{"a":{"id":"\u00fc\n\ud83d\ude00\/\\\"\u0000"}}`, "ü\n😀/\\\"\x00", ""},
		{`{"a":{"id":"ü😀` + "\x7f" + `"}}`, "ü😀\x7f", ""},
		{`{"a":{"id":"\ufffd"}}`, "\ufffd", ""},
		{`{"a":{"id":"` + strings.Repeat("x", 5000) + `"}}`, strings.Repeat("x", 5000), ""},

		{`{}`, "", missing},
		{`{"id":"x"}`, "", missing},
		{`{"a":null}`, "", missing},
		{`{"a":"id"}`, "", missing},
		{`{"a":["id"]}`, "", missing},
		{`{"a":{"ID":"x"}}`, "", missing},
		{`{"a":{"id":null}}`, "", missing},
		{`{"a":{"id":""}}`, "", missing},
		{`{"a":{"id":true}}`, "", neither},
		{`{"a":{"id":false}}`, "", neither},
		{`{"a":{"id":[]}}`, "", neither},
		{`{"a":{"id":["x"]}}`, "", neither},
		{`{"a":{"id":{}}}`, "", neither},
		// A repair with U+FFFD would make one id of these.
		{`{"a":{"id":"` + "\xff" + `"}}`, "", unlawful},
		{`{"a":{"id":"\n` + "\xc3" + `"}}`, "", unlawful},
		{`{"a":{"id":"` + "\xed\xa0\x80" + `"}}`, "", unlawful},
		{`{"a":{"id":"\ud800"}}`, "", unlawful},
		{`{"a":{"id":"\udc00\ud800"}}`, "", unlawful},
		{`{"a":{"id":"\ud800x\udc00"}}`, "", unlawful},

		// Readers differ in which of two members they take.
		{`{"a":{"id":"x","id":"y"}}`, "", twice},
		{`{"a":{"id":"x","id":"x"}}`, "", twice},
		{`{"a":{"\u0069d":"x","id":"y"}}`, "", twice},
		{`{"a":{"id":"x"},"a":{"id":"y"}}`, "", twice},
		{`{"a":{"id":"x"},"a":{}}`, "", twice},
		{`{"a":{"id":"x"},"a":1}`, "", twice},
		{`{"a":1,"a":{"id":"y"}}`, "", twice},
		{`{"a":{"b":1},"a":{"id":"y"}}`, "", twice},
		{`{"a":{"id":null,"id":"y"}}`, "", twice},
		{`{"a":{"id":[],"id":"y"}}`, "", twice},
		{`{"a":{"id":"x","b":1,"b":2},"id":"y","b":{"id":1,"id":2}}`, "x", ""},
	} {
		fields, err := newJSON(t, format.Options{IDPath: "a.id"}).Read(context.Background(), []byte(test.record))
		checkReason(t, test.record, err, test.reason)
		if fields.ID != test.id {
			t.Errorf("%.60s: want id %q, got %q", test.record, test.id, fields.ID)
		}
	}
}

func checkReason(t *testing.T, record string, err error, reason string) {
	t.Helper()
	var badRecord *format.BadRecord
	switch {
	case reason == "" && err != nil:
		t.Errorf("%.60s: %v", record, err)
	case reason != "" && (!errors.As(err, &badRecord) || badRecord.Reason != reason ||
		err.Error() != "bad record: "+reason):
		t.Errorf("%.60s: want %q, got %v", record, reason, err)
	}
}

// TestNotJSON: each of these records is refused completely, by encoding/json too.
func TestNotJSON(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id"})
	values := []string{
		"-", "+1", "01", "-01", "00", ".5", "1.", "1.e1", "1e", "1e+", "1E-", "1e1.5", "0x1", "1_0", "NaN", "Infinity",
		"-Infinity", "1a",
		"t", "tru", "truee", "True", "fals", "nul", "nulll", "None", "undefined",
		`"`, `"a`, `'a'`, `"\"`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\U0041"`, `"\u+123"`, "\"\n\"", "\"\x00\"", "\"\x1f\"",
		"\"\t\"",
		"[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", "]", "[1]]",
		"{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,"a":1}`, `{"a" 1}`, `{"a":1 "b":2}`, `{a:1}`, `{1:1}`,
		`{null:1}`, `{"a":1]`, `{"a":1:2}`, `{"a",1}`, `{"\u00":1}`,
		"1 // one", "/* one */ 1", "\v1", "\u00a01", "\ufeff1",
	}
	records := []string{"", " ", "\ufeff" + `{"id":"x"}`, `{"id":"x"}{}`, `{"id":"x"},`, `{"id":"x"} x`, `{"id":"x"}` +
		"\x00", `{"id":"x"`, `{"id":"x","id"}`, `{"id":"x","v":}`, `{"id":"x",,"a":1}`}
	for _, value := range values {
		records = append(records, `{"id":"x","v":`+value+`}`, `{"id":"x","v":[[`+value+`]]}`)
	}
	for _, record := range records {
		if json.Valid([]byte(record)) {
			t.Fatalf("the test is wrong: %q is JSON", record)
		}
		_, err := f.Read(context.Background(), []byte(record))
		checkReason(t, record, err, "not valid JSON")
		_, err = f.Rename(context.Background(), []byte(record), "x", "y")
		checkReason(t, record, err, "not valid JSON")
	}
	for _, record := range []string{`"x"`, `17`, `-0.5`, `null`, ` true `, `[]`, `[{"id":"x"}]`} {
		_, err := f.Read(context.Background(), []byte(record))
		checkReason(t, record, err, "not a JSON object")
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id"})
	for _, nest := range []struct{ open, inner, closing string }{{"[", "1", "]"}, {`{"a":`, "1", "}"}, {"[", "[]", "]"},
		{"[", "{}", "]"}} {
		for levels, reason := range map[int]string{format.MaxDepth: "", format.MaxDepth + 1: "nested deeper than 1000",
			2_000_000: "nested deeper than 1000"} {
			inside := levels - 1 - len(nest.inner)/2
			record := `{"id":"x","v":` + strings.Repeat(nest.open, inside) + nest.inner + strings.Repeat(nest.closing, inside) +
				`}`
			_, err := f.Read(context.Background(), []byte(record))
			checkReason(t, record, err, reason)
		}
	}
	open := `{"id":"x","v":` + strings.Repeat("[", 2_000_000)
	_, err := f.Read(context.Background(), []byte(open))
	checkReason(t, open, err, "nested deeper than 1000")
}

func TestReadFingerprint(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id", FingerprintPath: "m.fp"})
	for _, test := range []struct{ member, fingerprint, reason string }{
		{`"fp1"`, "fp1", ""},
		{`"\u0066p1"`, "fp1", ""},
		{`17`, "17", ""},
		{`1.0`, "1.0", ""},
		{`" "`, " ", ""},
		{`"` + strings.Repeat("x", format.MaxText) + `"`, strings.Repeat("x", format.MaxText), ""},
		{`"x","fp":"y"`, "x", ""},
		{`"` + strings.Repeat("x", format.MaxText+1) + `"`, "", "the fingerprint is longer than 1000 bytes"},
		{strings.Repeat("1", format.MaxText+1), "", "the fingerprint is longer than 1000 bytes"},
		{`true`, "", "the fingerprint is neither a string nor a number"},
		{`{}`, "", "the fingerprint is neither a string nor a number"},
		{`["x"]`, "", "the fingerprint is neither a string nor a number"},
		{`"\ud800"`, "", "the fingerprint is not Unicode"},
		{"\"\xff\"", "", "the fingerprint is not Unicode"},
	} {
		record := `{"id":"x","m":{"fp":` + test.member + `}}`
		fields, err := f.Read(context.Background(), []byte(record))
		checkReason(t, record, err, test.reason)
		if fields.Fingerprint != test.fingerprint || test.reason == "" && !strings.HasPrefix(fields.Version, "p1-") {
			t.Errorf("%.60s: want %q, got %q, %s", record, test.fingerprint, fields.Fingerprint, fields.Version)
		}
	}
	computed := newJSON(t, format.Options{IDPath: "id"})
	for _, record := range []string{`{"id":"x"}`, `{"id":"x","m":null}`, `{"id":"x","m":{"fp":null}}`,
		`{"id":"x","m":{"fp":""}}`, `{"id":"x","m":["fp"]}`} {
		want := mustRead(t, computed, record)
		if got := mustRead(t, f, record); got != want || len(got.Fingerprint) != 64 ||
			!strings.HasPrefix(got.Version, "c1-") {
			t.Errorf("%s: want %+v, got %+v", record, want, got)
		}
	}
}

func mustRead(t testing.TB, f *format.JSON, record string) format.Fields {
	t.Helper()
	fields, err := f.Read(context.Background(), []byte(record))
	if err != nil {
		t.Fatalf("%.200q: %v", record, err)
	}
	return fields
}

func TestReadOwner(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id", OwnerPath: "from.0.o"})
	for _, test := range []struct{ member, owner, reason string }{
		{`"run-1"`, "run-1", ""},
		{`49590338271490256608559692538361571095921575989136588898`, "49590338271490256608559692538361571095921575989136588898", ""},
		{`null`, "", "the owner is missing, null or empty"},
		{`""`, "", "the owner is missing, null or empty"},
		{`[]`, "", "the owner is neither a string nor a number"},
		{`"\udfff"`, "", "the owner is not Unicode"},
		{`"` + strings.Repeat("x", format.MaxText+1) + `"`, "", "the owner is longer than 1000 bytes"},
	} {
		record := `{"id":"x","from":[{"o":` + test.member + `}]}`
		fields, err := f.Read(context.Background(), []byte(record))
		checkReason(t, record, err, test.reason)
		if fields.Owner != test.owner {
			t.Errorf("%.60s: want %q, got %q", record, test.owner, fields.Owner)
		}
	}
	_, err := f.Read(context.Background(), []byte(`{"id":"x","from":[]}`))
	checkReason(t, "no owner", err, "the owner is missing, null or empty")
	if fields := mustRead(t, newJSON(t, format.Options{IDPath: "id"}), `{"id":"x"}`); fields.Owner != "" ||
		!fields.Time.IsZero() {
		t.Errorf("without paths: want no owner and no time, got %+v", fields)
	}
}

func TestReadTime(t *testing.T) {
	t.Parallel()
	const (
		missing = "the time is missing, null or empty"
		neither = "the time is neither a string nor a number"
		wrong   = "the time is neither a time of RFC 3339 nor a number of seconds or milliseconds since 1970"
	)
	f := newJSON(t, format.Options{IDPath: "id", TimePath: "at"})
	for _, test := range []struct{ member, time, reason string }{
		{`"2026-11-20T21:14:02Z"`, "2026-11-20T21:14:02Z", ""},
		{`"2026-11-20T21:14:02.981234567+01:30"`, "2026-11-20T19:44:02.981234567Z", ""},
		{`1795209242`, "2026-11-20T21:14:02Z", ""},
		{`1795209242.5`, "2026-11-20T21:14:02.5Z", ""},
		{`1795209242981`, "2026-11-20T21:14:02.981Z", ""},
		{`1795209242981.25`, "2026-11-20T21:14:02.98125Z", ""},
		{`1795209242981.002`, "2026-11-20T21:14:02.981002Z", ""},
		{`1.795209242981e12`, "2026-11-20T21:14:02.981Z", ""},
		{`99999999999`, "5138-11-16T09:46:39Z", ""},
		{`100000000000`, "1973-03-03T09:46:40Z", ""},
		{`0`, "1970-01-01T00:00:00Z", ""},
		{`-1`, "1969-12-31T23:59:59Z", ""},
		{`null`, "", missing},
		{`""`, "", missing},
		{`true`, "", neither},
		{`"yesterday"`, "", wrong},
		{`"1795209242"`, "", wrong},
		{`"2026-11-20"`, "", wrong},
		{`"2026-11-20T21:14:02"`, "", wrong},
		{`"2026-11-31T21:14:02Z"`, "", wrong},
		{`1e400`, "", wrong},
		{`1e300`, "", wrong},
		{`-253402300800000`, "", wrong},
		{`253402300800000`, "", wrong},
	} {
		record := `{"id":"x","at":` + test.member + `}`
		fields, err := f.Read(context.Background(), []byte(record))
		checkReason(t, record, err, test.reason)
		if got := fields.Time.Format(time.RFC3339Nano); test.reason == "" && got != test.time {
			t.Errorf("%s: want %s, got %s", record, test.time, got)
		}
	}
	_, err := f.Read(context.Background(), []byte(`{"id":"x"}`))
	checkReason(t, "no time", err, missing)
}

// TestReasonsHoldNothing: a reason goes to logs and metrics, so it must not contain anything of the record.
func TestReasonsHoldNothing(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "id", OwnerPath: "owner", TimePath: "at", FingerprintPath: "fp"})
	const secret = "xyzzy"
	for _, record := range []string{
		secret, `"` + secret + `"`, `{"id":["` + secret + `"]}`, `{"id":"` + secret + "\xff" + `"}`, `{"` + secret + `":1}`,
		`{"id":"` + secret + `","owner":["` + secret + `"]}`, `{"id":"` + secret + `","owner":"o","at":"` + secret + `"}`,
		`{"id":"` + secret + `","owner":"` + strings.Repeat(secret, 1000) + `"}`,
	} {
		_, err := f.Read(context.Background(), []byte(record))
		if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(fmt.Sprintf("%+v %#v", err, err), secret) {
			t.Errorf("%.60s: %v", record, err)
		}
	}
}

// TestReadAllocations: Read allocates its results, the text of the time, and one buffer for the canonical form.
func TestReadAllocations(t *testing.T) {
	for _, test := range []struct {
		name    string
		options format.Options
		want    float64
	}{
		{"by path", format.Options{IDPath: "event_id", FingerprintPath: "event_fingerprint", Volatile: []string{"sent_at"}}, 2},
		{"by path, with owner and times", format.Options{IDPath: "event_id", FingerprintPath: "event_fingerprint", OwnerPath: "user_id", TimePath: "collector_tstamp"}, 4},
		{"computed", format.Options{IDPath: "event_id", Volatile: []string{"sent_at", "etl_tstamp"}}, 3},
	} {
		f := newJSON(t, test.options)
		got := testing.AllocsPerRun(100, func() {
			if _, err := f.Read(context.Background(), page); err != nil {
				t.Fatal(err)
			}
		})
		if got != test.want {
			t.Errorf("%s: want %v allocations, got %v", test.name, test.want, got)
		}
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	f := newJSON(t, format.Options{IDPath: "event_id", Volatile: []string{"sent_at"}})
	want := mustRead(t, f, string(page))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				if got, err := f.Read(context.Background(), page); err != nil || got != want {
					t.Errorf("want %+v, got %+v, %v", want, got, err)
				}
				if _, err := f.Rename(context.Background(), page, want.ID, "new"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}
