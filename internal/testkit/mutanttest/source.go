package mutanttest

import (
	"context"
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

// Mutant breaks a rule of the source.
type Mutant struct {
	Name    string
	Changes []Change
}

// A Binary has the tests of a package, and breaks the rules of one mutant, or of none if it has no name.
type Binary struct{ path, mutant string }

// Command returns the command that runs the tests.
func (b Binary) Command(ctx context.Context, args ...string) *exec.Cmd {
	run := exec.CommandContext(ctx, b.path, args...)
	run.Env = append(os.Environ(), variable+"="+b.mutant)
	return run
}

// Binaries has the tests of a package for many mutants.
type Binaries struct {
	root, pkg string
	joint     string // the path of the binary for the mutants that only change bodies of functions
	own       map[string][]Change
}

// Build builds the tests of a package, once for all mutants that only change the bodies of functions: a link takes far
// longer than the tests of most mutants. root is the path of the module, and the path of the package begins there.
func Build(t testing.TB, root, pkg string, mutants ...Mutant) Binaries {
	t.Helper()
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	b := Binaries{root: root, pkg: pkg, own: map[string][]Change{}}
	files := switches{}
	for _, m := range mutants {
		if !files.add(t, root, m) {
			b.own[m.Name] = m.Changes
		}
	}
	b.joint = b.build(t, files.texts(t))
	return b
}

// Of returns the binary of a mutant. It builds the binary if the mutant changes more than bodies of functions.
func (b Binaries) Of(t testing.TB, mutant string) Binary {
	t.Helper()
	changes, own := b.own[mutant]
	if !own {
		return Binary{b.joint, mutant}
	}
	texts := map[string]string{}
	for _, c := range changes {
		path := filepath.Join(b.root, c.File)
		if _, changed := texts[path]; !changed {
			texts[path] = read(t, path)
		}
		if n := strings.Count(texts[path], c.Old); n != 1 {
			t.Fatalf("%s has %q %d times", c.File, c.Old, n)
		}
		texts[path] = strings.Replace(texts[path], c.Old, c.New, 1)
	}
	return Binary{b.build(t, texts), mutant}
}

// Intact returns the binary without any mutant.
func (b Binaries) Intact() Binary { return Binary{b.joint, ""} }

// build builds the tests with other texts of some files. It returns the path of the binary.
func (b Binaries) build(t testing.TB, texts map[string]string) (bin string) {
	t.Helper()
	dir, replaced := t.TempDir(), map[string]string{}
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
		"go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", file, "-o", bin, "./"+b.pkg)
	compile.Dir = b.root
	if output, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return bin
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
