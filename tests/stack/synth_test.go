// Package stack tests the CloudFormation templates that infra makes. It deploys nothing.
//
// The templates in testdata/goldens are the goldens: golden_test.go compares the stack with them, and every other test
// that needs a template reads one of them. After an intended change run `go test ./tests/stack -update` and read the
// diff: CONTRIBUTING.md says how.
package stack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testengine"
)

// inFolder is the variable with the folder of the child process that runs the tests.
const inFolder = "STACK_TESTS_FOLDER"

// TestMain runs the tests in a child process. jsii reads the environment before main, so the environment must be set
// for a new process. jsii also leaves files behind: jsii.Close would remove them, but it races with itself after a
// synth. So the parent removes the child's folder.
func TestMain(m *testing.M) {
	if os.Getenv(inFolder) != "" {
		os.Exit(m.Run())
	}
	code, err := runInFolder()
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

func runInFolder() (code int, err error) {
	jsii.Close() // the parent makes no synth
	folder, err := os.MkdirTemp("", "oncebox-stack-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	tests := exec.Command(self, os.Args[1:]...)
	tests.Env = append(os.Environ(), inFolder+"="+folder, "TMPDIR="+folder,
		"CDK_CONTEXT_JSON=", // the developer's own context must not change the templates
		"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20") // a list of major versions
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	err = tests.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil // the tests failed and printed why
	}
	return tests.ProcessState.ExitCode(), err
}

// synth returns the template of infra.NewStack with these context values, which override cdk.json. The names of the
// values have no "oncebox:". The functions are stand-ins unless their -code values name others.
//
// jsii handles one call at a time, so a test that calls synth does not run in parallel.
func synth(t *testing.T, values map[string]any) template {
	t.Helper()
	made, err := trySynth(t, values)
	must(t, err)
	return made
}

// refused returns the error of a stack that infra refuses to make.
func refused(t *testing.T, values map[string]any) string {
	t.Helper()
	_, err := trySynth(t, values)
	if err == nil {
		t.Fatalf("%v is not refused", values)
	}
	return err.Error()
}

func trySynth(t *testing.T, values map[string]any) (template, error) {
	t.Helper()
	app := newApp(t, withDefaults(t, values))
	stack, err := infra.NewStack(app)
	if err != nil {
		return nil, err
	}
	return templateOf(t, app, stack), nil
}

// values reads context values as in "jobs=claims; auth=open". The last of a name counts.
func values(text string) map[string]any {
	all := map[string]any{}
	for pair := range strings.SplitSeq(text, "; ") {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return all
}

// with returns a context with more or other values.
func with(context, more map[string]any) map[string]any {
	all := maps.Clone(context)
	maps.Copy(all, more)
	return all
}

// bothJobs is the value of oncebox:jobs in goldens that do not set it.
const bothJobs = "claims,records"

// codeNames are the context values with the folders of the functions.
var codeNames = []string{"claim-code", "sweep-code", "dedupe-code"}

// withDefaults adds the values of cdk.json, both jobs, and stand-ins for the functions.
func withDefaults(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	context := cdkJSON(t)
	context["oncebox:jobs"] = bothJobs
	code := standIn(t, elf.EM_AARCH64)
	if values["architecture"] == "x86_64" {
		code = standIn(t, elf.EM_X86_64)
	}
	for _, name := range codeNames {
		context["oncebox:"+name] = code
	}
	for name, value := range values {
		context["oncebox:"+name] = value
	}
	return context
}

// cdkJSON returns the context of cdk.json.
func cdkJSON(t *testing.T) map[string]any {
	t.Helper()
	encoded, err := os.ReadFile(root + "/cdk.json")
	must(t, err)
	var file struct {
		Context map[string]any `json:"context"`
	}
	must(t, json.Unmarshal(encoded, &file))
	return file.Context
}

func newApp(t *testing.T, context map[string]any) awscdk.App {
	t.Helper()
	testengine.Command(t, "node") // jsii runs it
	return awscdk.NewApp(&awscdk.AppProps{Context: &context, Outdir: jsii.String(t.TempDir())})
}

// synthTheirs returns the template of a stack of another team, which add fills with constructs.
func synthTheirs(t *testing.T, context map[string]any, add func(awscdk.Stack)) template {
	t.Helper()
	app := newApp(t, context)
	stack := theirStack(app)
	add(stack)
	return templateOf(t, app, stack)
}

// theirStack returns a stack of another team.
func theirStack(app awscdk.App) awscdk.Stack {
	return awscdk.NewStack(app, jsii.String("theirs"), &awscdk.StackProps{
		Env: &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-west-1")},
	})
}

func templateOf(t *testing.T, app awscdk.App, stack awscdk.Stack) template {
	t.Helper()
	folder := *app.Synth(nil).Directory()
	var validation struct {
		PluginReports []struct {
			Violations []json.RawMessage `json:"violations"` // without the violations that infra acknowledges with a reason
		} `json:"pluginReports"`
	}
	report, err := os.ReadFile(filepath.Join(folder, "validation-report.json"))
	must(t, err)
	must(t, json.Unmarshal(report, &validation))
	for _, plugin := range validation.PluginReports {
		if len(plugin.Violations) > 0 {
			t.Errorf("the CDK's own validation finds faults: %s", report)
		}
	}
	return readTemplate(t, filepath.Join(folder, *stack.TemplateFile()))
}

// standIn returns a code folder whose bootstrap is only the header of an executable. Synth looks at the header, and
// copies and hashes the file, which takes long with the 10 MB of a built function.
func standIn(t *testing.T, machine elf.Machine) (folder string) {
	t.Helper()
	folder = filepath.Join(os.Getenv(inFolder), machine.String())
	must(t, os.MkdirAll(folder, 0o700))
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	header.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	var encoded bytes.Buffer
	must(t, binary.Write(&encoded, binary.LittleEndian, header))
	must(t, os.WriteFile(filepath.Join(folder, "bootstrap"), encoded.Bytes(), 0o700))
	return folder
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
