package tests

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports: what ships must not depend on the deployment tools or on test
// packages, and the domain on nothing that does I/O.
func TestImports(t *testing.T) {
	t.Parallel()
	for _, rule := range []struct {
		packages  string
		forbidden []string // import paths, with all below them
	}{
		{"../pkg/...", neverShipped},
		{"../functions/...", neverShipped},
		{"../cmd/...", neverShipped},
		{"../functions/...", []string{"modernc.org/sqlite", module + "/cmd"}},
		// It would cost every start of a function (docs/adr/0006-settings-of-functions.md).
		{"../functions/...", []string{"github.com/aws/aws-sdk-go-v2/config"}},
		{"../pkg/...", []string{"github.com/aws/aws-sdk-go-v2/config"}},
		{"../infra/...", append([]string{"modernc.org/sqlite", module + "/cmd", module + "/examples"}, testPackages...)},
		{"../pkg/itembank", append([]string{"github.com/aws", "modernc.org/sqlite", "net/http", "os/exec"}, neverShipped...)},
		{"../pkg/dedupe", append([]string{"github.com/aws", "modernc.org/sqlite", "net/http", "os/exec"}, neverShipped...)},
		{"../pkg/kpl", append([]string{"github.com/google", "google.golang.org", "net/http"}, neverShipped...)},
		{"../pkg/format", append([]string{"github.com/aws", "github.com/tidwall", "modernc.org/sqlite", "net/http"}, neverShipped...)},
		{"../pkg/dedupe/dynamostore", []string{"modernc.org/sqlite", module + "/pkg/dedupe/sqlitestore", module + "/pkg/itembank"}},
		{"../pkg/dedupe/sqlitestore", []string{"github.com/aws", module + "/pkg/dedupe/dynamostore", module + "/pkg/itembank"}},
		{"../pkg/itembank/dynamostore", []string{"modernc.org/sqlite", module + "/pkg/itembank/sqlitestore"}},
		{"../pkg/itembank/sqlitestore", []string{"github.com/aws", module + "/pkg/itembank/dynamostore"}},
	} {
		deps := dependencies(t, rule.packages)
		for _, forbidden := range rule.forbidden {
			if i := slices.IndexFunc(deps, func(dep string) bool { return dep == forbidden || strings.HasPrefix(dep, forbidden+"/") }); i >= 0 {
				t.Errorf("%s depends on %s", rule.packages, deps[i])
			}
		}
	}
}

const module = "github.com/oncebox/oncebox"

var (
	testPackages = []string{"testing", "pgregory.net/rapid", module + "/internal/testengine", module + "/tests"}
	neverShipped = append([]string{
		"github.com/aws/aws-cdk-go", "github.com/aws/constructs-go", "github.com/aws/jsii-runtime-go",
		module + "/infra", module + "/examples",
	}, testPackages...)
)

// TestExamplesUseWhatUsersCan: an example in another module could not import more.
func TestExamplesUseWhatUsersCan(t *testing.T) {
	t.Parallel()
	imports := run(t, "go", "list", "-f", `{{join .Imports "\n"}}`, "../examples/...")
	if !slices.Contains(imports, module+"/infra") {
		t.Fatalf("the examples import %v", imports)
	}
	for _, path := range imports {
		if strings.HasPrefix(path, module+"/internal") {
			t.Errorf("an example imports %s", path)
		}
	}
}

// dependencies lists what packages import, directly or not, without their
// tests. The conformance suites and fault harnesses are test packages themselves.
func dependencies(t *testing.T, pattern string) []string {
	t.Helper()
	packages := run(t, "go", "list", pattern)
	packages = slices.DeleteFunc(packages, func(p string) bool { return strings.HasSuffix(p, "test") || strings.HasSuffix(p, "fault") })
	if len(packages) == 0 {
		t.Fatalf("no packages in %s", pattern)
	}
	return run(t, "go", append([]string{"list", "-deps"}, packages...)...)
}

func run(t *testing.T, name string, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return strings.Fields(string(out))
}
