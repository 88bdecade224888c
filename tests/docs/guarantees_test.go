package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	code     = regexp.MustCompile("`([^`]+)`")
	testCase = regexp.MustCompile(`^[a-z-]+/[a-z'-]*(\.\.\.)?$`)
	testName = regexp.MustCompile(`^Test[A-Z][A-Za-z]+$`)
	mutant   = regexp.MustCompile(`^[a-z]+(-[a-z']+)+$`)
	named    = regexp.MustCompile(`func Test\w+\(|\{?"[a-z][a-z/'-]*"?,?`)
)

// TestGuaranteesNameTests: the cases, tests and mutants that docs/guarantees.md names exist.
func TestGuaranteesNameTests(t *testing.T) {
	t.Parallel()
	names := named.FindAllString(goSource(t), -1)
	slices.Sort(names)
	source := strings.Join(slices.Compact(names), "\n") // much shorter
	found := 0
	for _, line := range readDocument(t, "docs/guarantees.md").prose() {
		for _, name := range code.FindAllStringSubmatch(line, -1) {
			texts := inSource(name[1])
			if texts == nil {
				continue
			}
			found++
			if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(source, text) }) {
				t.Errorf("docs/guarantees.md names %s, which does not exist", name[1])
			}
		}
	}
	if found < 80 {
		t.Errorf("docs/guarantees.md names %d cases, tests and mutants", found)
	}
}

// inSource returns what the source has for the name of a test, case or mutant, one of these; nil for other names. A case
// has its subject in front, which the source may write elsewhere.
func inSource(name string) []string {
	subject, ofSubject, _ := strings.Cut(name, "/")
	ofSubject, some := strings.CutSuffix(ofSubject, "...")
	switch {
	case testName.MatchString(name):
		return []string{"func " + name + "("}
	case mutant.MatchString(name):
		return []string{`"` + name + `"`}
	case !testCase.MatchString(name):
		return nil
	case ofSubject == "":
		return []string{`"` + subject + "/", `"` + subject + `"`}
	case some:
		return []string{`"` + subject + "/" + ofSubject, `{"` + ofSubject}
	}
	return []string{`"` + name + `"`, `{"` + ofSubject + `",`}
}

// goSource returns all Go code of the project, one file after the other.
func goSource(t *testing.T) string {
	t.Helper()
	source, err := readGoSource()
	must(t, err)
	return source
}

var readGoSource = sync.OnceValues(func() (string, error) {
	var source strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) == ".go":
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		}
		return nil
	})
	return source.String(), err
})
