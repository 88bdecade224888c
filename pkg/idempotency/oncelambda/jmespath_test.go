package oncelambda_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/oncelambda"
)

// zipped returns a text in gzip in base64.
func zipped(t testing.TB, text string) string {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	_, err := w.Write([]byte(text))
	must(t, errors.Join(err, w.Close()))
	return base64.StdEncoding.EncodeToString(buffer.Bytes())
}

// members makes an event from its members.
func members(t testing.TB, members map[string]any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(members)
	must(t, err)
	return text
}

func found(t testing.TB, expression string, in json.RawMessage) (string, error) {
	t.Helper()
	search, err := oncelambda.JMESPath[json.RawMessage](expression)
	must(t, err)
	return search(t.Context(), in)
}

// TestJMESPath: an expression finds JSON values, also in texts, base64 and gzip. It finds nothing if nothing is there.
func TestJMESPath(t *testing.T) {
	t.Parallel()
	order := `{"id":"order-1","user":{"name":"ann","age":7},"cents":19.90}`
	event := members(t, map[string]any{
		"body": order, "base64": base64.StdEncoding.EncodeToString([]byte(order)), "gzip": zipped(t, order),
		"empty": "", "null": nil, "list": []any{}, "object": map[string]any{}, "zero": 0, "no": false,
		"long": strings.Repeat("x", 2000),
	})
	for expression, want := range map[string]string{
		"powertools_json(body).id":                                         `"order-1"`,
		"powertools_json(body).[user.name, id]":                            `["ann","order-1"]`,
		"powertools_json(body).user":                                       `{"age":7,"name":"ann"}`,
		"powertools_json(body).cents":                                      `19.9`,
		"powertools_json(powertools_base64(base64)).id":                    `"order-1"`,
		"powertools_json(powertools_base64_gzip(gzip)).id":                 `"order-1"`,
		"powertools_json(body).user.age > `6` && powertools_json(body).id": `"order-1"`,
		"powertools_json(body) | sum([user.age, cents])":                   `26.9`,
		"zero":                           `0`,
		"no":                             `false`,
		"[powertools_json(body).x, no]":  `[null,false]`,
		"absent":                         "",
		"null":                           "",
		"empty":                          "",
		"list":                           "",
		"object":                         "",
		"[absent, null]":                 "",
		"{a: absent, b: null}":           "",
		"[empty, absent]":                "",
		"{a: empty, b: null}":            "",
		"[empty, zero]":                  `["",0]`,
		"[list, absent]":                 "",
		"{a: {b: absent}, c: [[empty]]}": "",
	} {
		got, err := found(t, expression, event)
		if err != nil || got != want {
			t.Errorf("%s: want %s, got %s, %v", expression, want, got, err)
		}
	}
	long, err := found(t, "long", event)
	must(t, err)
	equal(t, "a text that is too long for a key", long[:7]+" and digits: "+fmt.Sprint(len(long[7:])), "sha256: and digits: 64")
}

// TestJMESPathOfTypes: the JSON of an event type of AWS has the names that AWS gives its members.
func TestJMESPathOfTypes(t *testing.T) {
	t.Parallel()
	queue, err := oncelambda.JMESPath[events.SQSMessage]("[messageId, powertools_json(body).id]")
	must(t, err)
	got, err := queue(t.Context(), events.SQSMessage{MessageId: "m-1", Body: `{"id":7}`})
	must(t, err)
	equal(t, "key", got, `["m-1",7]`)
	stream, err := oncelambda.JMESPath[events.KinesisEventRecord]("powertools_json(powertools_base64(kinesis.data)).id")
	must(t, err)
	got, err = stream(t.Context(), events.KinesisEventRecord{Kinesis: events.KinesisRecord{Data: []byte(`{"id":"a"}`)}})
	must(t, err)
	equal(t, "key", got, `"a"`)
}

// TestNumbersKeepTheirDigits: no two numbers become one. Numbers that a float64 holds can be compared and added.
func TestNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, number := range []string{
		"9007199254740992", "9007199254740993", "0.1", "0.10000000000000001", "123456789012345", "1234567890123456789",
		"1e400", "1e401", "1e-320", "1.0000001e-320", "-9007199254740993", "-9007199254740992", "0", "1e-400",
	} {
		key, err := found(t, "powertools_json(body).id", members(t, map[string]any{"body": `{"id":` + number + `}`}))
		must(t, err)
		if other, twice := seen[key]; twice {
			t.Errorf("%s and %s have the key %s", number, other, key)
		}
		seen[key] = number
	}
	same, err := found(t, "id == `17` && id", json.RawMessage(`{"id":17.0}`))
	must(t, err)
	equal(t, "a number that is compared", same, "17")
}

// TestJMESPathErrors: an expression that is wrong is refused at the start, and an event on which it fails is refused.
// No error has a part of the event.
func TestJMESPathErrors(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"a..b": "a..b", "powertools_jsn(body)": "there is no function powertools_jsn", "": "",
		"a[?powertools_gzip(b)]": "there is no function powertools_gzip",
	} {
		_, err := oncelambda.JMESPath[json.RawMessage](expression)
		if !errors.Is(err, idempotency.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", expression, err)
		}
	}
	const secret = "secret-5555"
	event := members(t, map[string]any{
		"text": secret, "number": 17, "null": nil, "open": `{"card":"` + secret, "two": `{} "` + secret + `"`,
		"bytes": base64.StdEncoding.EncodeToString([]byte("\xff" + secret)),
		"cut":   zipped(t, secret)[:20], "bomb": zipped(t, strings.Repeat("0", 10_000_001)),
	})
	for expression, want := range map[string]string{
		"powertools_json(text)":         "powertools_json: the text is not JSON",
		"powertools_json(open)":         "powertools_json: the text is not JSON",
		"powertools_json(two)":          "more than one JSON value",
		"powertools_json(null)":         "of a type that it does not take",
		"powertools_json(number)":       "of a type that it does not take",
		"sum([text])":                   "of a type that it does not take",
		"powertools_base64(text)":       "powertools_base64: the text is not base64",
		"powertools_base64(bytes)":      "powertools_base64: the text is not UTF-8",
		"powertools_base64_gzip(bytes)": "powertools_base64_gzip: the text is not gzip in base64",
		"powertools_base64_gzip(cut)":   "powertools_base64_gzip: the text is not gzip in base64",
		"powertools_base64_gzip(bomb)":  "more than 10000000 bytes",
	} {
		_, err := found(t, expression, event)
		if !errors.Is(err, idempotency.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), expression) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v", expression, err)
		}
	}
	if _, err := found(t, "a", json.RawMessage(`{`)); err == nil {
		t.Error("an event that is not JSON is not refused")
	}
}
