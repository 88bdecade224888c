package docs

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// metricIn finds the metrics that a function writes, with their units.
var metricIn = regexp.MustCompile(`\{Name: "(\w+)", Unit: emf\.(\w+)`)

// TestMetrics checks that docs/operations.md explains exactly the metrics that a function writes, with their units,
// and that docs/costs.md counts them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	costs := map[string]string{}
	for _, row := range readDocument(t, "docs/costs.md").tables(t, "Metrics")[0] {
		costs[row[0]] = row[1]
	}
	tables := readDocument(t, "docs/operations.md").tables(t, "Metrics")
	for i, c := range []struct{ source, row string }{
		{"pkg/claimapi/metrics.go", "the claim function"},
		{"pkg/recordhandler/metrics.go", "the dedupe function"},
		{"pkg/sweephandler/countfree.go", "the sweep function, free items of all campaigns"},
	} {
		source, err := os.ReadFile(root + "/" + c.source)
		must(t, err)
		var written, listed []string
		for _, m := range metricIn.FindAllStringSubmatch(string(source), -1) {
			written = append(written, m[1]+" "+m[2])
		}
		for _, row := range tables[i] {
			listed = append(listed, strings.Trim(row[0], "`")+" "+row[1])
		}
		if !slices.Equal(listed, written) {
			t.Errorf("docs/operations.md lists %v\n%s has %v", listed, c.source, written)
		}
		if costs[c.row] != strconv.Itoa(len(written)) {
			t.Errorf("docs/costs.md counts %s metrics for %s, which has %d", costs[c.row], c.row, len(written))
		}
	}
}
