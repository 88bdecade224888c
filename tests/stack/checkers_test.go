package stack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// A finding is a checker's message about a resource of a template.
type finding struct {
	Template    string `json:"template"`
	Rule        string `json:"rule"`
	Resource    string `json:"resource"`
	Description string `json:"description"`
}

func (f finding) String() string {
	return fmt.Sprintf("%s: %s of %s: %s", f.Rule, f.Resource, f.Template, f.Description)
}

func (a acceptance) covers(f finding) bool {
	whole := func(pattern, text string) bool {
		return pattern == "" || regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(text)
	}
	return whole(a.rule, f.Rule) && whole(a.resource, f.Resource) && whole(a.templates, f.Template)
}

// judge returns the findings without an acceptance, and the acceptances without a finding. A finding needs only the
// first acceptance that covers it.
func judge(findings []finding, accepted []acceptance) (open []finding, unneeded []acceptance) {
	needed := make([]bool, len(accepted))
	for _, f := range findings {
		i := slices.IndexFunc(accepted, func(a acceptance) bool { return a.covers(f) })
		if i < 0 {
			open = append(open, f)
			continue
		}
		needed[i] = true
	}
	for i, a := range accepted {
		if !needed[i] {
			unneeded = append(unneeded, a)
		}
	}
	return open, unneeded
}

// TestCheckers gives all templates to cfn-lint and to cdk-nag. Each of their findings is accepted for a reason.
func TestCheckers(t *testing.T) {
	testengine.CheckOnly(t)
	folder := t.TempDir()
	var files []string
	for _, s := range theirStacks {
		files = append(files, writeTemplate(t, folder, s.name, normalized(t, s.make(t))))
	}
	t.Parallel() // jsii takes one call at a time, and makes no more templates here
	for _, g := range slices.Concat(goldens, plainGoldens) {
		files = append(files, writeTemplate(t, folder, g.name, g.read(t)))
	}
	open, unneeded := judge(append(cfnLint(t, files), cdkNag(t, files)...), accepted)
	for _, f := range open {
		t.Errorf("%s\nCorrect it, or accept it with its reason in accepted_test.go.", f)
	}
	for _, a := range unneeded {
		t.Errorf("no checker finds %q in resources %q of %q any more: remove it from accepted_test.go",
			a.rule, a.resource, a.templates)
	}
}

// TestCheckersFind plants a fault for each checker in the default golden.
func TestCheckersFind(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	changed := readGolden(t, "default")
	for _, f := range changed.resources(functionType) {
		at(template(f), "Properties").(map[string]any)["MemorySize"] = 64
	}
	for _, p := range changed.resources(policyType) {
		statements := list(at(template(p), "Properties.PolicyDocument.Statement"))
		statements[0].(map[string]any)["Action"] = "dynamodb:*"
	}
	file := writeTemplate(t, t.TempDir(), "default", changed)
	found, _ := judge(append(cfnLint(t, []string{file}), cdkNag(t, []string{file})...), accepted)
	for rule, n := range map[string]int{
		"E3034": len(changed.resources(functionType)), "AwsSolutions-IAM5[Action::dynamodb:*]": len(changed.resources(policyType)),
	} {
		if got := count(found, rule); got != n {
			t.Errorf("want %d findings of %s, got %d of %v", n, rule, got, found)
		}
	}
}

func count(findings []finding, rule string) (n int) {
	for _, f := range findings {
		if f.Rule == rule {
			n++
		}
	}
	return n
}

// TestJudge checks that an acceptance covers exactly its own findings, and must be needed.
func TestJudge(t *testing.T) {
	t.Parallel()
	findings := []finding{
		{Template: "a", Rule: "R1", Resource: "Bucket1"}, {Template: "a", Rule: "R10", Resource: "Bucket1"},
		{Template: "b", Rule: "R1", Resource: "Bucket1"}, {Template: "a", Rule: "R1", Resource: "Queue"},
	}
	for _, c := range []struct {
		of             acceptance
		open, unneeded int
	}{
		{acceptance{rule: "R1"}, 1, 0}, {acceptance{rule: "R1.*"}, 0, 0}, {acceptance{rule: "R1", resource: "Bucket"}, 4, 1},
		{acceptance{rule: "R1", resource: "Bucket.*"}, 2, 0}, {acceptance{rule: "R1", templates: "b|c"}, 3, 0},
		{acceptance{rule: "R2"}, 4, 1},
	} {
		open, unneeded := judge(findings, []acceptance{c.of})
		if len(open) != c.open || len(unneeded) != c.unneeded {
			t.Errorf("%+v: got %v and %v", c.of, open, unneeded)
		}
	}
}

// cfnLint returns the findings of cfn-lint, which exits with a status other than 0 if it has findings.
func cfnLint(t *testing.T, files []string) (all []finding) {
	t.Helper()
	tool := testengine.Tool(t, "cfn-lint")
	out, err := prepare(t, ".", nil, tool, append([]string{"--format", "json", "--"}, files...)...).Output()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	var matches []struct {
		Filename string
		Location struct{ Path []any }
		Message  string
		Rule     struct{ ID string }
	}
	if err := json.Unmarshal(out, &matches); err != nil {
		t.Fatalf("cfn-lint: %v\n%s", err, out)
	}
	for _, m := range matches {
		f := finding{templateName(m.Filename), m.Rule.ID, "", m.Message}
		if path := m.Location.Path; len(path) > 1 {
			f.Resource = fmt.Sprint(path[1])
		}
		all = append(all, f)
	}
	return all
}

// cdkNag returns what cdk-nag finds.
func cdkNag(t *testing.T, files []string) (all []finding) {
	t.Helper()
	out, err := prepare(t, ".", nil, testengine.Tool(t, "cdk-nag"), files...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("cdk-nag: %v\n%s", err, exit.Stderr)
	}
	must(t, err)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var f finding
		if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("cdk-nag: %v\n%s", err, out)
		}
		all = append(all, f)
	}
}

// writeTemplate writes a template for the checkers, and returns its file.
func writeTemplate(t *testing.T, folder, name string, tpl template) (file string) {
	t.Helper()
	file = filepath.Join(folder, name+".template.json")
	must(t, os.WriteFile(file, encoded(t, tpl), 0o600))
	return file
}

func templateName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), ".template.json")
}
