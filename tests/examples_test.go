package tests

import (
	"go/doc"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// notRun are the public packages whose examples are compiled and not run.
var notRun = map[string]string{
	"itembank/dynamostore":    "it needs DynamoDB",
	"dedupe/dynamostore":      "it needs DynamoDB",
	"idempotency/dynamostore": "it needs DynamoDB",
	"idempotency/oncelambda":  "it needs Lambda",
	"itembank/enginetest":     "a suite runs in a test",
	"dedupe/enginetest":       "a suite runs in a test",
	"idempotency/enginetest":  "a suite runs in a test",
	"dedupe/logledger":        "it needs DynamoDB",
	"dedupe/valkeystore":      "it needs Valkey",
	"sink/dynamosink":         "it needs DynamoDB",
	"sink/sinktest":           "a suite runs in a test",
}

// TestEveryPackageHasAnExample checks that each public package has an Example. The tests run it if it can be run.
func TestEveryPackageHasAnExample(t *testing.T) {
	t.Parallel()
	for _, path := range golist(t, "../pkg/...") {
		name := strings.TrimPrefix(path, module+"/pkg/")
		if strings.Contains(name, "internal/") {
			continue
		}
		examples := examplesOf(t, filepath.Join("../pkg", name))
		runs := slices.ContainsFunc(examples, func(e *doc.Example) bool { return e.Output != "" })
		_, excused := notRun[name]
		switch {
		case len(examples) == 0:
			t.Errorf("package %s has no Example", name)
		case !runs && !excused:
			t.Errorf("package %s has no Example with an output, so the tests run none", name)
		case runs && excused:
			t.Errorf("package %s has an Example that runs: it is not to be excused", name)
		}
	}
}

func examplesOf(t *testing.T, folder string) []*doc.Example {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	must(t, err)
	var examples []*doc.Example
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(t, err)
		examples = append(examples, doc.Examples(parsed)...)
	}
	return examples
}

// TestExamplesBuildForLambda builds the examples that are Lambda functions, as functions are built for deployment.
func TestExamplesBuildForLambda(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	const withLambda = `{{range .Imports}}{{if eq . "github.com/aws/aws-lambda-go/lambda"}}{{$.ImportPath}}{{end}}{{end}}`
	functions := golist(t, "-f", withLambda, "../examples/...")
	if len(functions) < 3 {
		t.Fatalf("the Lambda functions of the examples are %q", functions)
	}
	for _, path := range functions {
		folder := "." + strings.TrimPrefix(path, module)
		build := exec.CommandContext(t.Context(), "../scripts/build-function", folder, "arm64", filepath.Join(t.TempDir(), "bootstrap"))
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", folder, err, out)
		}
	}
}
