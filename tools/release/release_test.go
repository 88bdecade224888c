package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// TestContents finds the modules of all programs on all platforms, which fails for a licence
// that is unknown or not allowed, and compares the SBOM and the notices with them.
func TestContents(t *testing.T) {
	t.Chdir("../..")
	c, err := contentsOf(t.Context(), programs)
	must(t, err)
	for program, want := range map[string]struct{ with, without string }{
		"oncebox":        {"modernc.org/sqlite", "pgregory.net/rapid"},
		"oncebox-claim":  {"github.com/aws/aws-sdk-go-v2/service/dynamodb", "modernc.org/sqlite"},
		"oncebox-sweep":  {"github.com/aws/aws-sdk-go-v2/service/dynamodb", "modernc.org/sqlite"},
		"oncebox-dedupe": {"github.com/aws/aws-sdk-go-v2/service/kinesis", "modernc.org/sqlite"},
	} {
		has := func(path string) bool {
			return slices.ContainsFunc(c.programs[program], func(m *module) bool { return m.path == path })
		}
		if !has(want.with) || !has(standardLibrary) || has(want.without) {
			t.Errorf("%s: want %s and %s, not %s, among %d modules",
				program, want.with, standardLibrary, want.without, len(c.programs[program]))
		}
	}
	notices := string(c.notices())
	for _, m := range c.modules {
		if len(m.ids()) == 0 {
			t.Errorf("%s has no licence", m.path)
		}
		for _, of := range slices.Concat(m.licences, m.notices) {
			if !strings.Contains(notices, of.content) || !strings.Contains(notices, "\n"+m.path+": "+of.name+"\n") {
				t.Errorf("the notices lack %s of %s", of.name, m.path)
			}
		}
	}
	checkSBOM(t, c)
}

// checkSBOM reads the SBOM back.
func checkSBOM(t *testing.T, c contents) {
	t.Helper()
	text, err := c.sbom("1.2.3")
	must(t, err)
	again, err := c.sbom("1.2.3")
	must(t, err)
	if !bytes.Equal(text, again) {
		t.Error("the same modules gave different SBOMs")
	}
	var bom cyclonedx.BOM
	must(t, cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom))
	components := map[string]cyclonedx.Component{}
	for _, component := range *bom.Components {
		components[component.BOMRef] = component
		if component.Version == "" || component.Licenses == nil || len(*component.Licenses) == 0 {
			t.Errorf("%s lacks a version or a licence", component.Name)
		}
	}
	if want := len(programs) + len(c.modules); len(components) != want {
		t.Errorf("want %d components, got %d", want, len(components))
	}
	for _, relation := range *bom.Dependencies {
		for _, ref := range *relation.Dependencies {
			if _, ok := components[ref]; !ok {
				t.Errorf("%s depends on %s, which is not a component", relation.Ref, ref)
			}
		}
	}
}

// TestIdentify reads texts that decide whether a module may be shipped.
func TestIdentify(t *testing.T) {
	t.Parallel()
	apache, err := os.ReadFile("../../LICENSE")
	must(t, err)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	openSSL, err := os.ReadFile(strings.TrimSpace(string(root)) + "/src/crypto/internal/boring/LICENSE")
	must(t, err)
	for name, c := range map[string]struct{ content, want string }{
		"allowed":     {string(apache), "^$"},
		"reviewed":    {strings.TrimSpace(string(openSSL)), "^$"},
		"not allowed": {string(openSSL) + "changed", "has the licence OpenSSL, which is not allowed"},
		"unknown":     {strings.Repeat("Do as you like on Mondays. ", 50), "only 0 % of LICENSE is a known licence"},
		"empty":       {"", "only 0 % of LICENSE is a known licence"},
	} {
		text, message := text{name: "LICENSE", content: c.content}, ""
		if err := text.identify("example.com/m"); err != nil {
			message = err.Error()
		}
		if !regexp.MustCompile(c.want).MatchString(message) {
			t.Errorf("%s: want %q, got %q", name, c.want, message)
		}
	}
}

// TestAModuleWithoutALicence must not be shipped.
func TestAModuleWithoutALicence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &module{path: "example.com/m", dir: dir, folders: map[string]bool{dir: true}}
	if err := m.findLicences(); err == nil || !strings.Contains(err.Error(), "example.com/m has no licence") {
		t.Errorf("want an error, got %v", err)
	}
	licence, err := os.ReadFile("../../LICENSE")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "COPYING"), licence, 0o600))
	must(t, m.findLicences())
	if ids := m.ids(); !slices.Equal(ids, []string{"Apache-2.0"}) {
		t.Errorf("got the licences %v", ids)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
