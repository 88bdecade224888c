package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImports checks what packages import, directly or through others. Nothing that ships
// imports deployment tools or test packages, no library imports a function or a command, and
// the domain packages import nothing that does I/O.
func TestImports(t *testing.T) {
	t.Parallel()
	const valkey = "github.com/valkey-io"
	noEngine := append([]string{"github.com/aws", "modernc.org/sqlite", valkey, "net/http", "os/exec"}, neverShipped...)
	programs, commands := []string{module + "/functions", module + "/cmd"}, module+"/internal/cli"
	claims, records, once := module+"/pkg/itembank", module+"/pkg/dedupe", module+"/pkg/idempotency"
	imports := allImports(t)
	for _, rule := range []struct {
		packages  string
		forbidden []string // import paths, each with all paths below it
	}{
		{"../pkg/...", neverShipped},
		{"../functions/...", neverShipped},
		{"../cmd/...", neverShipped},
		{"../pkg/...", append([]string{commands}, programs...)},
		{"../internal/...", programs},
		{"../internal/shared/...", []string{module + "/internal/aws", module + "/pkg"}},
		{"../internal/aws/...", []string{claims, records, once}},
		{"../internal/claims/...", []string{records, once}},
		{"../internal/records/...", []string{claims, once}},
		{"../cmd/...", []string{module + "/functions"}},
		{"../functions/...", []string{"modernc.org/sqlite", module + "/cmd", commands}},
		// This package would delay every start of a function (docs/adr/0046-settings.md).
		{"../functions/...", []string{"github.com/aws/aws-sdk-go-v2/config"}},
		{"../pkg/...", []string{"github.com/aws/aws-sdk-go-v2/config"}},
		{"../infra/...", append([]string{"modernc.org/sqlite", module + "/cmd", commands, module + "/examples"}, testPackages...)},
		{"../pkg/itembank", noEngine},
		{"../pkg/itembank/engine", noEngine},
		{"../pkg/itembank/dynamostore", []string{"modernc.org/sqlite", claims + "/sqlitestore"}},
		{"../pkg/itembank/sqlitestore", []string{"github.com/aws", claims + "/dynamostore"}},
		// A server of claims needs no AWS SDK. Of AWS it has the types of events and the id of an invocation.
		{"../pkg/claimapi", []string{
			"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go", "github.com/aws/aws-lambda-go/lambda", "modernc.org/sqlite",
		}},
		{"../pkg/dedupe", noEngine},
		{"../pkg/dedupe/dynamostore", []string{"modernc.org/sqlite", valkey, records + "/sqlitestore", claims}},
		{"../pkg/dedupe/sqlitestore", []string{"github.com/aws", valkey, records + "/dynamostore", claims}},
		{"../pkg/dedupe/valkeystore", []string{"github.com/aws", "modernc.org/sqlite", records + "/dynamostore", claims}},
		{"../pkg/idempotency", noEngine},
		{"../pkg/idempotency/engine", noEngine},
		{"../pkg/idempotency/dynamostore", []string{"modernc.org/sqlite", valkey, once + "/sqlitestore", claims, records}},
		{"../pkg/idempotency/sqlitestore", []string{"github.com/aws", valkey, once + "/dynamostore", claims, records}},
		{"../pkg/idempotency/oncehttp", []string{"github.com/aws", "modernc.org/sqlite", valkey, claims, records}},
		{"../pkg/idempotency/oncelambda", []string{"github.com/aws/aws-sdk-go-v2", "modernc.org/sqlite", valkey, claims, records}},
		{"../pkg/kpl", append([]string{"github.com/google", "google.golang.org", "net/http"}, neverShipped...)},
		{"../pkg/format", append([]string{"github.com/tidwall"}, noEngine...)},
	} {
		reached := imports.from(t, strings.TrimPrefix(rule.packages, "../"))
		for _, forbidden := range rule.forbidden {
			for dep := range reached {
				if dep == forbidden || strings.HasPrefix(dep, forbidden+"/") {
					t.Errorf("%s depends on %s", rule.packages, dep)
				}
			}
		}
	}
}

const module = "github.com/oncebox/oncebox"

var (
	testPackages = []string{
		"testing", "pgregory.net/rapid", "github.com/santhosh-tekuri", module + "/internal/testkit", module + "/tests",
	}
	neverShipped = append([]string{
		"github.com/aws/aws-cdk-go", "github.com/aws/constructs-go", "github.com/aws/jsii-runtime-go",
		module + "/infra", module + "/examples",
	}, testPackages...)
)

// TestNoUnstableTypes checks that the only exported functions of package itembank that name the unstable package engine
// are those that take a store, and that no exported type does.
func TestNoUnstableTypes(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../pkg/itembank/*.go")
	must(t, err)
	takeStores := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, i := range file.Imports {
			if i.Name != nil {
				t.Errorf("%s imports %s under another name", path, i.Path.Value)
			}
		}
		ast.FileExports(file) // which leaves out what is not exported, fields too
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body = nil; n.Name.Name == "New" || n.Name.Name == "NewOperator" {
					takeStores++
					return false
				}
			case *ast.SelectorExpr: // the errors have the values of engine
				if of, ok := n.X.(*ast.Ident); ok && of.Name == "engine" && !strings.HasPrefix(n.Sel.Name, "Err") {
					t.Errorf("%s: the API has engine.%s", path, n.Sel.Name)
				}
			}
			return true
		})
	}
	if takeStores != 2 {
		t.Errorf("%d functions take a store", takeStores)
	}
}

// TestExamplesUseWhatUsersCan checks that the examples import no internal package, which a
// user's module cannot import.
func TestExamplesUseWhatUsersCan(t *testing.T) {
	t.Parallel()
	imports := golist(t, "-f", `{{join .Imports "\n"}}`, "../examples/...")
	if !slices.Contains(imports, module+"/infra") {
		t.Fatalf("the examples import %v", imports)
	}
	for _, path := range imports {
		if strings.HasPrefix(path, module+"/internal") {
			t.Errorf("an example imports %s", path)
		}
	}
}

// importGraph holds the direct imports of all packages, without the imports of their tests.
type importGraph map[string][]string

func allImports(t *testing.T) importGraph {
	t.Helper()
	list := golist(t, "-deps", "-f", `{{.ImportPath}},{{join .Imports ","}}`, "../...")
	graph := importGraph{}
	for _, line := range list {
		names := strings.Split(line, ",")
		graph[names[0]] = names[1:]
	}
	return graph
}

// from returns a package of this module, or with /... all packages below a folder, with all of their direct and indirect
// imports. It leaves out packages for tests: the conformance suites, whose names end in "test", and the harnesses below
// internal/testkit.
func (g importGraph) from(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	folder, all := strings.CutSuffix(module+"/"+pattern, "/...")
	reached := map[string]bool{}
	var add func(string)
	add = func(name string) {
		if !reached[name] {
			reached[name] = true
			for _, imported := range g[name] {
				add(imported)
			}
		}
	}
	for name := range g {
		inFolder := name == folder || all && strings.HasPrefix(name, folder+"/")
		if inFolder && !strings.HasSuffix(name, "test") && !strings.HasPrefix(name, module+"/internal/testkit/") {
			add(name)
		}
	}
	if len(reached) == 0 {
		t.Fatalf("no packages in %s", pattern)
	}
	return reached
}

func golist(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	return strings.Fields(string(out))
}
