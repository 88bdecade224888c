package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	code     = regexp.MustCompile("`([^`]+)`")
	testCase = regexp.MustCompile(`^[a-z]+/[a-z'-]*(\.\.\.)?$`)
	testName = regexp.MustCompile(`^Test[A-Z][A-Za-z]+$`)
	mutant   = regexp.MustCompile(`^[a-z]+(-[a-z']+)+$`)
)

// TestGuaranteesNameTests: the cases, tests and mutants that docs/guarantees.md names exist.
func TestGuaranteesNameTests(t *testing.T) {
	t.Parallel()
	source := goSource(t)
	found := 0
	for _, line := range readDocument(t, "docs/guarantees.md").prose() {
		for _, name := range code.FindAllStringSubmatch(line, -1) {
			text := `"` + name[1]
			switch {
			case testName.MatchString(name[1]):
				text = "func " + name[1] + "("
			case testCase.MatchString(name[1]):
				if !strings.HasSuffix(name[1], "/") && !strings.HasSuffix(name[1], "...") {
					text += `"`
				}
				text = strings.TrimSuffix(text, "...")
			case mutant.MatchString(name[1]):
				text += `"`
			default:
				continue
			}
			found++
			if !strings.Contains(source, text) {
				t.Errorf("docs/guarantees.md names %s, which does not exist", name[1])
			}
		}
	}
	if found < 80 {
		t.Errorf("docs/guarantees.md names %d cases, tests and mutants", found)
	}
}

// goSource is all Go code of the project, one file after the other.
func goSource(t *testing.T) string {
	t.Helper()
	var source strings.Builder
	must(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) == ".go":
			relative, err := filepath.Rel(root, path)
			must(t, err)
			source.WriteString(read(t, relative))
		}
		return nil
	}))
	return source.String()
}
