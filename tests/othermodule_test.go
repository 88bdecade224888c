package tests

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// buildElsewhere matches the loop of docs/deploy.md that builds the functions in another module.
var buildElsewhere = regexp.MustCompile(`(?s)\nfor function in claim sweep dedupe dedupe-full; do\n  CGO_ENABLED=0 .*?\ndone\n`)

// requireTheClone matches the block of docs/library.md that requires a clone.
var requireTheClone = regexp.MustCompile(`(?s)\ngo mod edit -replace .*?\ngo mod tidy\n`)

// TestLibraryInAnotherModule runs what docs/library.md says in a module beside a clone, which here is this source.
func TestLibraryInAnotherModule(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	root, err := filepath.Abs("..")
	must(t, err)
	folder := t.TempDir()
	theirs := filepath.Join(folder, "shop")
	must(t, os.Mkdir(theirs, 0o700))
	must(t, os.Symlink(root, filepath.Join(folder, "oncebox")))
	must(t, os.WriteFile(filepath.Join(theirs, "main.go"), []byte(read(t, "../examples/library/main.go")), 0o600))
	commands := "go mod init theirs.example/shop" + requireTheClone.FindString(read(t, "../docs/library.md")) + "go vet ."
	run := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	run.Dir, run.Env = theirs, append(os.Environ(), "GOPROXY=off", "GOSUMDB=off")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestFunctionsAreBuiltInAnotherModule runs what docs/deploy.md says in a module that requires this one. Here it takes
// this source, and the checksums that this module has.
func TestFunctionsAreBuiltInAnotherModule(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	root, err := filepath.Abs("..")
	must(t, err)
	theirs := t.TempDir()
	must(t, os.WriteFile(filepath.Join(theirs, "go.sum"), []byte(read(t, "../go.sum")), 0o600))
	must(t, os.WriteFile(filepath.Join(theirs, "go.mod"), []byte("module theirs.example/stack\n\ngo 1.26\n\n"+
		"require github.com/oncebox/oncebox v0.0.0\n\nreplace github.com/oncebox/oncebox => "+root+"\n"), 0o600))
	commands := buildElsewhere.FindString(read(t, "../docs/deploy.md"))
	build := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	build.Dir, build.Env = theirs, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range shipped {
		file, err := elf.Open(filepath.Join(theirs, "dist", f.name, "bootstrap"))
		must(t, err)
		equal(t, f.name+" is built for", file.Machine, elf.EM_AARCH64)
		must(t, file.Close())
	}
}
