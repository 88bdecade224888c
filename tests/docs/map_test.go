package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var mapped = regexp.MustCompile("^`([^`]+)`$")

// TestMapIsComplete: the map of CONTRIBUTING.md names every top-level folder and every folder with a Go package, each
// with a line, and nothing that does not exist.
func TestMapIsComplete(t *testing.T) {
	t.Parallel()
	var onMap []string
	for _, rooms := range readDocument(t, "CONTRIBUTING.md").tables(t, "Map") {
		for _, row := range rooms {
			name := mapped.FindStringSubmatch(row[0])
			if name == nil || len(row) != 2 || row[1] == "" {
				t.Errorf("%q is not a folder with a line about it", row)
				continue
			}
			onMap = append(onMap, name[1])
			if _, err := os.Stat(filepath.Join(root, name[1])); err != nil {
				t.Errorf("the map has %s, which does not exist", name[1])
			}
		}
	}
	for _, folder := range folders(t) {
		if !slices.Contains(onMap, folder) {
			t.Errorf("the map does not have %s", folder)
		}
	}
}

// folders are the top-level folders and those with Go files. Hidden folders are tools and settings.
func folders(t *testing.T) (all []string) {
	t.Helper()
	ignored := []string{"bin", "dist", "cdk.out", "testdata"} // of .gitignore, and data of tests
	must(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if err != nil || !entry.IsDir() || path == root {
			return err
		}
		if strings.HasPrefix(name, ".") || slices.Contains(ignored, name) || name == "node_modules" {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		code, err := filepath.Glob(filepath.Join(path, "*.go"))
		if len(code) > 0 || !strings.Contains(relative, "/") {
			all = append(all, filepath.ToSlash(relative))
		}
		return err
	}))
	return all
}
