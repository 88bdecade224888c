package tests

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// onlyATool is a module that pins a tool: it has no Go code, and shares nothing with the other modules.
const onlyATool = "tools/d2"

var modulesOfMake = regexp.MustCompile(`(?m)^MODULES = (.+)$`)

// TestModules: make runs the tests of each module, and all modules take Go and each library in the same version.
func TestModules(t *testing.T) {
	t.Parallel()
	modules := map[string]map[string]string{}
	for _, file := range sourceFiles(t) {
		if folder := filepath.Dir(file); filepath.Base(file) == "go.mod" && folder != onlyATool {
			modules[folder] = requirements(t, filepath.Join("..", folder))
		}
	}
	made := strings.Fields(modulesOfMake.FindStringSubmatch(read(t, "../Makefile"))[1])
	if found := slices.Sorted(maps.Keys(modules)); !slices.Equal(found, made) {
		t.Errorf("MODULES of the Makefile has %v, and the modules are %v", made, found)
	}
	versions := map[string]string{}
	for _, folder := range made {
		for path, version := range modules[folder] {
			if known, ok := versions[path]; ok && known != version {
				t.Errorf("%s: go.mod of %s has %s, another has %s", path, folder, version, known)
			}
			versions[path] = version
		}
	}
}

// requirements returns the versions that a go.mod names: of each module, of Go, and of the toolchain.
func requirements(t *testing.T, folder string) map[string]string {
	t.Helper()
	edit := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	edit.Dir = folder
	out, err := edit.Output()
	must(t, err)
	var file struct {
		Go, Toolchain string
		Require       []struct{ Path, Version string }
	}
	must(t, json.Unmarshal(out, &file))
	versions := map[string]string{"go": file.Go, "toolchain": file.Toolchain}
	for _, r := range file.Require {
		versions[r.Path] = r.Version
	}
	return versions
}
