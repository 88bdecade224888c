package mutanttest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Change replaces a text that occurs once in a file of the module.
type Change struct{ File, Old, New string }

// Build builds the tests of a package with changes of the source. root is the path of the module, and the path of the
// package begins there. It returns the path of the test binary.
func Build(t testing.TB, root, pkg string, changes ...Change) (bin string) {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, texts := t.TempDir(), map[string]string{}
	for _, c := range changes {
		path := filepath.Join(root, c.File)
		if _, changed := texts[path]; !changed {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], c.Old); n != 1 {
			t.Fatalf("%s has %q %d times", c.File, c.Old, n)
		}
		texts[path] = strings.Replace(texts[path], c.Old, c.New, 1)
	}
	replaced := map[string]string{}
	for path, text := range texts {
		replaced[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replaced)))
		write(t, replaced[path], []byte(text))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	write(t, file, overlay)
	bin = filepath.Join(dir, "mutant.test")
	compile := exec.CommandContext(t.Context(),
		"go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", file, "-o", bin, "./"+pkg)
	compile.Dir = root
	if output, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return bin
}

func write(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
