// Package stack tests the template that infra makes, as text: nothing is deployed.
package stack

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
)

// jsii reads the environment and unpacks itself before main. So the tests run in a
// child of this process, with a folder for all that they leave: jsii.Close, which
// would tidy up, races with itself once a synth was made.
const inFolder = "STACK_TESTS_FOLDER"

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
	jsii.Close() // this process makes no synth
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
		"CDK_CONTEXT_JSON=", // the developer's own
		"JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20") // a list of major versions
	tests.Stdout, tests.Stderr = os.Stdout, os.Stderr
	err = tests.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil // tests failed, and said so
	}
	return tests.ProcessState.ExitCode(), err
}

// A template is a CloudFormation template, as encoding/json decodes it.
type template map[string]any

// synth makes the template of infra.NewStack with context values, their names
// without "oncebox:", over those of cdk.json. The functions are stand-ins unless
// claim-code and dedupe-code say otherwise. Each caller gets a copy of its own, of a
// template that is made once per process.
//
// jsii takes one call at a time. So a test that uses it other than by synth, which
// waits its turn, does not run in parallel.
func synth(t *testing.T, values map[string]any) template {
	t.Helper()
	encoded, err := trySynth(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, encoded)
}

// refused is the error of a stack that infra refuses to make.
func refused(t *testing.T, values map[string]any) string {
	t.Helper()
	_, err := trySynth(t, values)
	if err == nil {
		t.Fatalf("%v is not refused", values)
	}
	return err.Error()
}

var synthesized = struct {
	sync.Mutex
	templates map[string][]byte
}{templates: map[string][]byte{}}

func trySynth(t *testing.T, values map[string]any) ([]byte, error) {
	t.Helper()
	context := withDefaults(t, values)
	key, err := json.Marshal(context) // sorts
	must(t, err)
	synthesized.Lock()
	defer synthesized.Unlock()
	if encoded, ok := synthesized.templates[string(key)]; ok {
		return encoded, nil
	}
	app := newApp(t, context)
	stack, err := infra.NewStack(app)
	if err != nil {
		return nil, err
	}
	encoded := templateOf(t, app, stack)
	synthesized.templates[string(key)] = encoded
	return encoded, nil
}

// withDefaults adds what cdk.json sets, and stand-ins for the functions.
func withDefaults(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	context := cdkJSON(t)
	code := standIn(t, elf.EM_AARCH64)
	if values["architecture"] == "x86_64" {
		code = standIn(t, elf.EM_X86_64)
	}
	context["oncebox:claim-code"], context["oncebox:dedupe-code"] = code, code
	for name, value := range values {
		context["oncebox:"+name] = value
	}
	return context
}

// cdkJSON is the context of cdk.json.
func cdkJSON(t *testing.T) map[string]any {
	t.Helper()
	encoded, err := os.ReadFile("../../cdk.json")
	must(t, err)
	var file struct {
		Context map[string]any `json:"context"`
	}
	must(t, json.Unmarshal(encoded, &file))
	return file.Context
}

func newApp(t *testing.T, context map[string]any) awscdk.App {
	t.Helper()
	return awscdk.NewApp(&awscdk.AppProps{Context: &context, Outdir: jsii.String(t.TempDir())})
}

// theirs is where the constructs are in a stack of another team's.
var theirs = &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-west-1")}

// synthTheirs makes the template of that stack, which add fills.
func synthTheirs(t *testing.T, context map[string]any, add func(awscdk.Stack)) template {
	t.Helper()
	app := newApp(t, context)
	stack := awscdk.NewStack(app, jsii.String("theirs"), &awscdk.StackProps{Env: theirs})
	add(stack)
	return decode(t, templateOf(t, app, stack))
}

func templateOf(t *testing.T, app awscdk.App, stack awscdk.Stack) []byte {
	t.Helper()
	folder := *app.Synth(nil).Directory()
	encoded, err := os.ReadFile(filepath.Join(folder, *stack.TemplateFile()))
	must(t, err)
	var validation struct {
		PluginReports []json.RawMessage `json:"pluginReports"`
	}
	report, err := os.ReadFile(filepath.Join(folder, "validation-report.json"))
	must(t, err)
	must(t, json.Unmarshal(report, &validation))
	if len(validation.PluginReports) > 0 {
		t.Errorf("the CDK's own validation finds faults: %s", report)
	}
	return encoded
}

func decode(t *testing.T, encoded []byte) template {
	t.Helper()
	var decoded template
	must(t, json.Unmarshal(encoded, &decoded))
	return decoded
}

// standIn is a code folder whose bootstrap is the header of an executable and
// nothing more: synth looks at the header, and hashes and copies the file, which
// takes its time with the 10 MB of a function that was built.
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

// A resource is one of a template's.
type resource map[string]any

func (r resource) properties() map[string]any {
	properties, _ := r["Properties"].(map[string]any)
	return properties
}

// resources are those of a type, such as AWS::Lambda::Function, by logical id.
func (tpl template) resources(kind string) map[string]resource {
	found := map[string]resource{}
	all, _ := tpl["Resources"].(map[string]any)
	for id, r := range all {
		if r, ok := r.(map[string]any); ok && r["Type"] == kind {
			found[id] = r
		}
	}
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
