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
var buildElsewhere = regexp.MustCompile(`(?s)\nfor function in claim sweep dedupe; do\n  CGO_ENABLED=0 .*?\ndone\n`)

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
