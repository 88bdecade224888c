package goldenfile

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPatched has the test cases of RFC 7386, appendix A, whose values are objects.
func TestPatched(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ object, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		if got := patched(decoded(t, c.object), decoded(t, c.patch)); !reflect.DeepEqual(got, decoded(t, c.want)) {
			t.Errorf("%s with %s: got %v, want %s", c.object, c.patch, got, c.want)
		}
	}
}

// TestDifference: a difference turns any object into any other one.
func TestDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := objects(3).Draw(t, "from"), objects(3).Draw(t, "to")
		if got := patched(from, difference(from, to)); !reflect.DeepEqual(got, to) {
			t.Fatalf("got %v", got)
		}
		if same := difference(from, from); len(same) > 0 {
			t.Fatalf("an object differs from itself: %v", same)
		}
	})
}

// objects are objects with few names, so that two of them have some in common.
func objects(depth int) *rapid.Generator[map[string]any] {
	values := []*rapid.Generator[any]{
		rapid.SampledFrom([]any{"x", "y", 1.0, true, []any{}, []any{"x"}, []any{map[string]any{"a": "x"}}}),
	}
	if depth > 0 {
		values = append(values, objects(depth-1).AsAny())
	}
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.OneOf(values...), 0, 3)
}

// TestContent writes a base and a difference, and reads them back.
func TestContent(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	long := strings.Repeat("x", lineLength)
	base := map[string]any{"A": "<a>", "B": map[string]any{"Ref": "A"}, "C": []any{long, []any{}, 1.0}}
	other := map[string]any{"A": "<a>", "B": map[string]any{"GetAtt": "A"}, "C": []any{}, "D": long[:50]}
	for _, c := range []struct {
		name               string
		bases              []string
		settings, template map[string]any
		want               string
	}{
		{"base", nil, nil, base, `{
 "template": {
  "A": "<a>",
  "B": {"Ref": "A"},
  "C": [
   "` + long + `",
   [],
   1
  ]
 }
}
`},
		{"other", []string{"base"}, map[string]any{"page": "on"}, other, `{
 "bases": ["base"],
 "difference": {"B": {"GetAtt": "A", "Ref": null}, "C": [], "D": "` + long[:50] + `"},
 "settings": {"page": "on"}
}
`},
	} {
		content, err := Content(folder, c.bases, c.settings, c.template)
		must(t, err)
		if string(content) != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, content, c.want)
		}
		must(t, os.WriteFile(Path(folder, c.name), content, 0o600))
		if got, err := Read(folder, c.name); err != nil || !reflect.DeepEqual(got, c.template) {
			t.Errorf("%s: read %v, %v", c.name, got, err)
		}
	}
	if _, err := Content(folder, nil, nil, decoded(t, `{"a":null}`)); err == nil {
		t.Error("a template with a null is not refused")
	}
	if _, err := Content(folder, []string{"missing"}, nil, other); err == nil {
		t.Error("a missing base is not refused")
	}
}

func decoded(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), &object))
	return object
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
