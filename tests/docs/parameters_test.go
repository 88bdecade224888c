package docs

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestParameters checks that docs/deploy.md lists the parameters of the plain templates, with their defaults.
func TestParameters(t *testing.T) {
	t.Parallel()
	var template struct {
		Parameters map[string]struct{ Default *string }
	}
	must(t, json.Unmarshal([]byte(read(t, "tests/stack/testdata/plain-both.template.json")), &template))
	var listed []string
	for _, row := range readDocument(t, "docs/deploy.md").tables(t, "Parameters")[0] {
		name := strings.Trim(row[0], "`")
		listed = append(listed, name)
		want := "required"
		if p := template.Parameters[name]; p.Default != nil {
			want = *p.Default
		}
		if got := strings.Trim(row[1], "`"); got != want {
			t.Errorf("%s has the default %q, and the page says %q", name, want, got)
		}
	}
	if want := slices.Sorted(maps.Keys(template.Parameters)); !slices.Equal(slices.Sorted(slices.Values(listed)), want) {
		t.Errorf("the page lists %v\nwant %v", listed, want)
	}
}
