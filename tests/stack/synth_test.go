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
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// inFolder is the variable with the folder of the child process that runs the tests.
const inFolder = "STACK_TESTS_FOLDER"

// cdkValidation is the variable that turns off the CDK's own validation of templates, which takes most of the time of a
// synth. make check has it, for the tests of validated.
const cdkValidation = "CDK_VALIDATION"

// validated has the tests that make every template there is.
const validated = "^(TestGoldens|TestTheirStacks)$"

// TestMain runs the tests in a child process. jsii reads the environment before main, so the environment must be set
// for a new process. jsii also leaves files behind: jsii.Close would remove them, but it races with itself after a
// synth. So the parent removes the child's folder.
func TestMain(m *testing.M) {
	if os.Getenv(inFolder) != "" {
		os.Exit(m.Run())
	}
	flag.Parse()
	code, err := runInFolder(false)
	if err == nil && code == 0 && !testing.Short() {
		code, err = runInFolder(true, "-test.run="+validated)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

func runInFolder(validation bool, more ...string) (code int, err error) {
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
	tests := exec.Command(self, append(os.Args[1:], more...)...)
	tests.Env = append(os.Environ(), inFolder+"="+folder, "TMPDIR="+folder,
		"CDK_CONTEXT_JSON=", // the developer's own context must not change the templates
		"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20", // a list of major versions
		"CDK_DISABLE_STACK_TRACE=1",
		fmt.Sprintf("%s=%t", cdkValidation, validation))
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	err = tests.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil // the tests failed and printed why
	}
	return tests.ProcessState.ExitCode(), err
}

// synth returns the template of infra.NewStack with these settings (see fileOf). The functions are stand-ins unless
// their -code values name others.
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
	app := newApp(t, contextOf(t, values))
	stack, err := infra.NewStack(app)
	if err != nil {
		return nil, err
	}
	return templateOf(t, app, stack), nil
}

// values reads settings as in "claims=none; sink=kinesis:unique". The last of a name counts.
func values(text string) map[string]any {
	all := map[string]any{}
	for pair := range strings.SplitSeq(text, "; ") {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return all
}

// with returns settings with more or other values.
func with(settings, more map[string]any) map[string]any {
	all := maps.Clone(settings)
	maps.Copy(all, more)
	return all
}

// codeNames are the context values with the folders of the functions.
var codeNames = []string{"claim-code", "sweep-code", "dedupe-code"}

// fileOf returns the content of a settings file. A name without a part, as in sink, is the key of the part that has it.
// A key without a value is left out. The file has stack=oncebox, both parts, auth=iam and id-path=id, unless the settings
// say otherwise.
func fileOf(t *testing.T, settings map[string]any) map[string]any {
	t.Helper()
	claims, records := map[string]any{"auth": "iam"}, map[string]any{"id-path": "id"}
	file := map[string]any{"stack": "oncebox", "claims": claims, "records": records}
	for name, value := range settings {
		path := pathOf(t, name)
		part, key, hasPart := strings.Cut(path, ".")
		at := map[string]map[string]any{"claims": claims, "records": records}[part]
		if !hasPart {
			at, key = file, path
		}
		at[key] = value
		if value == "" {
			delete(at, key)
		}
	}
	return file
}

// pathOf returns the path of a setting in the file.
func pathOf(t *testing.T, name string) string {
	t.Helper()
	for _, path := range settingPaths(t) {
		if _, key, _ := strings.Cut(path, "."); key == name {
			return path
		}
	}
	return name
}

// contextOf returns the context with a settings file, and with stand-ins for the functions.
func contextOf(t *testing.T, settings map[string]any) map[string]any {
	t.Helper()
	context, inFile := map[string]any{}, maps.Clone(settings)
	code := standIn(t, elf.EM_AARCH64)
	if settings["architecture"] == "x86_64" {
		code = standIn(t, elf.EM_X86_64)
	}
	for _, name := range codeNames {
		context["oncebox:"+name] = code
		if own, ok := settings[name]; ok {
			context["oncebox:"+name] = own
			delete(inFile, name)
		}
	}
	encoded, err := json.Marshal(fileOf(t, inFile)) // JSON is YAML
	must(t, err)
	context["oncebox:settings"] = writeSettings(t, string(encoded))
	return context
}

func writeSettings(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "prod.yaml")
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// settingPaths returns the paths of all settings, in their order: those that a refusal of unknown keys lists.
func settingPaths(t *testing.T) []string {
	t.Helper()
	knownPaths.Do(func() {
		const none = "qqqqqqqqqqqqqqqqqq"
		code := standIn(t, elf.EM_AARCH64)
		_, err := infra.NewStack(newApp(t, map[string]any{
			"oncebox:settings":   writeSettings(t, none+": 1\nclaims: {"+none+": 1}\nrecords: {"+none+": 1}"),
			"oncebox:claim-code": code,
		}))
		for _, list := range regexp.MustCompile(`(?m)^((?:claims\.|records\.)?)q+ in .*allowed: (.*?)(?:, claims, records)?\)$`).FindAllStringSubmatch(fmt.Sprint(err), -1) {
			for key := range strings.SplitSeq(list[2], ", ") {
				knownPaths.all = append(knownPaths.all, list[1]+key)
			}
		}
	})
	return knownPaths.all
}

var knownPaths struct {
	sync.Once
	all []string
}

func newApp(t *testing.T, context map[string]any) awscdk.App {
	t.Helper()
	testengine.Command(t, "node") // jsii runs it
	return awscdk.NewApp(&awscdk.AppProps{
		Context: &context, Outdir: jsii.String(t.TempDir()),
		TreeMetadata: jsii.Bool(os.Getenv(cdkValidation) == "true"), // only reports of validations read it
	})
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
	if os.Getenv(cdkValidation) == "true" {
		checkValidation(t, folder)
	}
	return readTemplate(t, filepath.Join(folder, *stack.TemplateFile()))
}

// checkValidation checks that the CDK's own validation finds no faults.
func checkValidation(t *testing.T, folder string) {
	t.Helper()
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
