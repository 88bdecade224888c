package claimapi

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/openapitest"
	"github.com/oncebox/oncebox/pkg/itembank"
)

func parseDocument(t *testing.T) *openapitest.Document {
	t.Helper()
	d, err := openapitest.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDocumentHasEveryRoute: the routes and the operations of the document are the same. The document does not have
// the routes of the claim page, which serve HTML to browsers.
func TestDocumentHasEveryRoute(t *testing.T) {
	t.Parallel()
	var want []string
	for _, r := range routes {
		want = append(want, r.name())
	}
	slices.Sort(want)
	if got := parseDocument(t).Operations(); !slices.Equal(got, want) {
		t.Errorf("the document has the operations\n%s\nand the API has the routes\n%s",
			strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestDocumentHasEveryProblem: the document has each problem of the table, with its answer as the example, and an
// operation that can return it. It has no other problem.
func TestDocumentHasEveryProblem(t *testing.T) {
	t.Parallel()
	d, h := parseDocument(t), &Handler{from: ClaimantFrom{source: fromLink}, intN: func(int) int { return 1 }}
	schemas, _ := d.At("components", "schemas").(map[string]any)
	for _, p := range append([]problem{internal}, problems...) {
		answer := h.refusal(exampleCause(p), "LV7fzho-PHcEJPw=")
		if answer.slug != p.slug {
			t.Fatalf("the cause of %s is answered %s", p.slug, answer.slug)
		}
		var want any
		if err := json.Unmarshal([]byte(answer.text()), &want); err != nil {
			t.Fatal(err)
		}
		example, err := json.Marshal(d.At("components", "examples", p.slug, "value"))
		var got any
		if err := errors.Join(err, json.Unmarshal(example, &got)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the example of %s is\n%s\nand the answer is\n%s (%v)", p.slug, example, answer.text(), err)
		}
		if err := answered(d, answer); err != nil {
			t.Errorf("no operation answers %s: %v", p.slug, err)
		}
		delete(schemas, p.slug)
	}
	for name := range schemas {
		if name == strings.ToLower(name) { // schemas that are no problems have names such as Claim
			t.Errorf("the document has the problem %s, which the API never answers", name)
		}
	}
}

// exampleCause returns an error for which the answer is the problem.
func exampleCause(p problem) error {
	switch p.slug {
	case internal.slug:
		return errors.New("no cause of the table")
	case "invalid-request":
		return &itembank.InvalidError{Field: "claimant", Detail: "has 257 bytes, at most 256 are allowed"}
	case "claimed-elsewhere":
		return &itembank.ClaimedElsewhereError{Campaign: "morning"}
	case "method-not-allowed":
		return &methodError{[]string{"GET", "DELETE"}}
	}
	return p.causes[0]
}

// answered returns nil if the document says that an operation may return this answer.
func answered(d *openapitest.Document, r reply) (err error) {
	for _, operation := range d.Operations() {
		a := openapitest.Answer{Operation: operation, Status: r.status, Headers: r.headers, Body: r.text()}
		if err = d.Check(a); err == nil {
			return nil
		}
	}
	return err
}
