package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var testCommand = regexp.MustCompile(`^(?:ONCEBOX_REQUIRE=all )?go test (?:-C (\S+) )?-run (\S+) (\S+)$`)

// TestTrackRecord: each bug of docs/track-record.md has its facts and a command, whose test or case exists in its package.
// Two tests with one name are in two packages, so the package counts.
func TestTrackRecord(t *testing.T) {
	t.Parallel()
	page := readDocument(t, "docs/track-record.md")
	source := goSource(t)
	found := 0
	for _, rows := range slices.Concat(page.tables(t, "Claims"), page.tables(t, "Records"), page.tables(t, "Handlers")) {
		for _, row := range rows {
			found++
			if len(row) != 5 || slices.Contains(row, "") {
				t.Errorf("a row does not have five cells with a text: %q", row)
				continue
			}
			command := testCommand.FindStringSubmatch(strings.Trim(row[4], "`"))
			if command == nil {
				t.Errorf("%q is not a command that runs a test", row[4])
				continue
			}
			name, path, _ := strings.Cut(command[2], "/")
			if folder := filepath.Join(command[1], command[3]); !strings.Contains(testsIn(t, folder), "func "+name+"(") {
				t.Errorf("%s has no test %s", folder, name)
			}
			parts := strings.Split(path, "/")
			if last := parts[len(parts)-1]; last != "" && !strings.Contains(source, `"`+last+`"`) &&
				!strings.Contains(source, `/`+last+`"`) {
				t.Errorf("%s: there is no case %s", command[2], last)
			}
		}
	}
	if found < 40 {
		t.Errorf("the page has %d bugs", found)
	}
}

// testsIn returns the test code of a folder.
func testsIn(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	must(t, err)
	var source strings.Builder
	for _, file := range files {
		code, err := os.ReadFile(file)
		must(t, err)
		source.Write(code)
	}
	return source.String()
}
