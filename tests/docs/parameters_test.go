package docs

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/goldenfile"
)

// TestParameters checks that docs/deploy.md lists the parameters of the plain templates, with their defaults.
func TestParameters(t *testing.T) {
	t.Parallel()
	parameters := map[string]any{}
	for _, golden := range []string{"plain-records-of-queue", "plain-records-of-stream", "plain-both"} {
		template, err := goldenfile.Read(filepath.Join(root, "tests/stack/testdata/goldens"), golden)
		must(t, err)
		maps.Copy(parameters, template["Parameters"].(map[string]any))
	}
	var listed []string
	for _, row := range readDocument(t, "docs/deploy.md").tables(t, "Parameters")[0] {
		name := strings.Trim(row[0], "`")
		listed = append(listed, name)
		want := "required"
		if p, _ := parameters[name].(map[string]any); p["Default"] != nil {
			want = p["Default"].(string)
		}
		if got := strings.Trim(row[1], "`"); got != want {
			t.Errorf("%s has the default %q, and the page says %q", name, want, got)
		}
	}
	if want := slices.Sorted(maps.Keys(parameters)); !slices.Equal(slices.Sorted(slices.Values(listed)), want) {
		t.Errorf("the page lists %v\nwant %v", listed, want)
	}
}
