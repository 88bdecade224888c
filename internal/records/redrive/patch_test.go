package redrive_test

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/records/redrive"
)

func TestPatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ program, payload, want, why string }{
		{`.id //= .orderId`, `{"orderId":"a"}`, `{"id":"a","orderId":"a"}`, ""},
		{`.`, `{"n":123456789012345678901234567890,"x":1.5,"y":-0.001,"z":1e3,"t":"é<"}`,
			`{"n":123456789012345678901234567890,"t":"é<","x":1.5,"y":-0.001,"z":1000}`, ""},
		{`.`, `[0.0,-0.0]`, `[0,-0]`, ""},
		{`.`, `{"n":0.1234567890123456789}`, "", "which jq would change"},
		{`.`, `[[1e999]]`, "", "which jq would change"},
		{`.`, `1e-310`, "", "which jq would change"},
		{`empty`, `{}`, "", "no result"},
		{`.,.`, `{}`, "", "more than one result"},
		{`.[]`, `{"a":1,"b":2}`, "", "more than one result"},
		{`1, error("x")`, `{}`, "", "x"},
		{`.a.b`, `{"a":1}`, "", "expected an object"},
		{`error("no order")`, `{}`, "", "no order"},
		{`.`, `{`, "", "not JSON"},
		{`.`, ``, "", "not JSON"},
		{`.`, `{} {}`, "", "more than one JSON value"},
		{`env | length`, `{}`, `0`, ""},
	} {
		p, err := redrive.NewPatch(test.program)
		must(t, err)
		got, err := p(t.Context(), []byte(test.payload))
		if string(got) != test.want || (err == nil) != (test.why == "") || err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s of %s: %s, %v", test.program, test.payload, got, err)
		}
	}
	for _, program := range []string{"|", "nothing(1)", "$x", "input"} {
		if _, err := redrive.NewPatch(program); err == nil {
			t.Errorf("%q is a program", program)
		}
	}
}
