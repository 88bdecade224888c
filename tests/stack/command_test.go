package stack

import (
	"debug/elf"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testengine"
)

const root = "../.."

// TestSynthWithAndWithoutTheCLI: the app makes one template, whether `cdk synth`
// runs it as cdk.json says, or it runs by itself, and the one that the other tests
// are about.
func TestSynthWithAndWithoutTheCLI(t *testing.T) {
	t.Parallel()
	code := standIn(t, elf.EM_AARCH64)
	functions := []string{"oncebox:claim-code", "oncebox:dedupe-code"}

	alone := t.TempDir()
	// What the CLI adds to the context unless it is told not to.
	context := map[string]any{"aws:cdk:enable-path-metadata": true, "aws:cdk:enable-asset-metadata": true}
	maps.Copy(context, cdkJSON(t))
	for _, name := range functions {
		context[name] = code
	}
	encoded, err := json.Marshal(context)
	must(t, err)
	command(t, root, []string{"CDK_OUTDIR=" + alone, "CDK_CONTEXT_JSON=" + string(encoded)}, "go", "run", "./infra/app")

	withCLI := t.TempDir()
	arguments := []string{"synth", "--quiet", "--output", withCLI}
	for _, name := range functions {
		arguments = append(arguments, "--context", name+"="+code)
	}
	command(t, root, nil, testengine.Tool(t, "cdk"), arguments...)

	byItself, byCLI := templateIn(t, alone, "oncebox"), templateIn(t, withCLI, "oncebox")
	if !reflect.DeepEqual(byItself, byCLI) {
		t.Error("the app by itself and the CLI make different templates")
	}
	for _, r := range byItself["Resources"].(map[string]any) {
		delete(r.(map[string]any), "Metadata")
	}
	if !reflect.DeepEqual(byItself, synth(t, nil)) {
		t.Error("the app makes another template than infra.NewStack")
	}
}

// TestDefaultFolders: functions are taken from where `make zip` leaves them; where
// there are none, the app says so and ends.
func TestDefaultFolders(t *testing.T) {
	t.Parallel()
	app := build(t, "./infra/app")
	empty, full := t.TempDir(), dist(t)
	environment := []string{"CDK_OUTDIR=" + t.TempDir(), `CDK_CONTEXT_JSON={"oncebox:id-path":"id"}`}
	command(t, full, environment, app)

	missing := prepare(t, empty, environment, app)
	out, err := missing.CombinedOutput()
	if err == nil || missing.ProcessState.ExitCode() != 1 {
		t.Errorf("without functions it ends with %v", err)
	}
	for _, part := range []string{"oncebox: claim API Claims: there is no function at dist/claim/bootstrap", "record dedup Records: there is no function at dist/dedupe/bootstrap"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("it says\n%s\nand not %q", out, part)
		}
	}
	if strings.Contains(string(out), "goroutine") {
		t.Errorf("it panics:\n%s", out)
	}
}

// TestExample: the example works as its comment says, and has what it claims.
func TestExample(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	command(t, dist(t), []string{"CDK_OUTDIR=" + out}, build(t, "./examples/stack"))
	tpl := templateIn(t, out, "tickets")

	for kind, want := range map[string]int{functionType: 2, tableType: 2, streamType: 1, mappingType: 1, authorizerType: 1} {
		if got := len(tpl.resources(kind)); got != want {
			t.Errorf("there are %d of %s, want %d", got, kind, want)
		}
	}
	key := slices.Collect(maps.Keys(tpl.resources("AWS::KMS::Key")))
	topic := slices.Collect(maps.Keys(tpl.resources("AWS::SNS::Topic")))
	if len(key) != 1 || len(topic) != 1 {
		t.Fatalf("there are %d keys and %d topics", len(key), len(topic))
	}
	for _, check := range [][]string{
		is(tableType, "Properties.Replicas.*.SSESpecification.KMSMasterKeyId", arnOf(key[0]))(tpl, bothJobs),
		is(streamType, "Properties.StreamEncryption.KeyId", arnOf(key[0]))(tpl, bothJobs),
		is(alarmType, "Properties.AlarmActions.0", ref(topic[0]))(tpl, bothJobs),
		is(mappingType, "Properties.EventSourceArn", "arn:aws:kinesis:eu-west-1:123456789012:stream/orders")(tpl, bothJobs),
		is(routeType, "Properties.AuthorizationType", "JWT")(tpl, bothJobs),
		each(functionType, environment)(tpl, bothJobs),
	} {
		for _, wrong := range check {
			t.Error(wrong)
		}
	}
	if len(tpl.resources(alarmType)) == 0 {
		t.Error("there are no alarms")
	}
	lint(t, filepath.Join(out, "tickets.template.json"))
}

// TestLint: cfn-lint finds nothing in what the stack can be. W3005 is about orders
// that the CDK writes out though CloudFormation would find them.
func TestLint(t *testing.T) {
	var files []string
	for name, context := range map[string]map[string]any{
		"committed": nil, "jwt": jwt, "existing": everythingExists, "every": everySetting,
		"key": with(everySetting, "key-arn", theirKey, "alarm-topic-arn", theirTopic),
		"other": values("auth", "open", "architecture", "x86_64", "parallelization", "10", "aggregation", "off", "disposable", "on",
			"warm-read-units", "12000", "warm-write-units", "4000", "source-retention", "8760h", "horizon", "8760h",
			"batch-window", "300s", "batch-size", "10000", "retries", "-1", "log-retention-days", "3653", "endpoint-url", "http://localhost"),
	} {
		encoded, err := trySynth(t, context)
		must(t, err)
		file := filepath.Join(t.TempDir(), name+".json")
		must(t, os.WriteFile(file, encoded, 0o600))
		files = append(files, file)
	}
	lint(t, files...)
}

func lint(t *testing.T, files ...string) {
	t.Helper()
	command(t, ".", nil, testengine.Tool(t, "cfn-lint"), append([]string{"--ignore-checks", "W3005", "--"}, files...)...)
}

// dist is a folder with functions where `make zip` leaves them.
func dist(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range []string{"claim", "dedupe"} {
		must(t, os.CopyFS(filepath.Join(folder, "dist", name), os.DirFS(standIn(t, elf.EM_AARCH64))))
	}
	return folder
}

func build(t *testing.T, program string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	command(t, root, nil, "go", "build", "-o", path, program)
	return path
}

// command runs a program, which ends well.
func command(t *testing.T, folder string, environment []string, name string, arguments ...string) {
	t.Helper()
	if out, err := prepare(t, folder, environment, name, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
	}
}

// prepare makes a command that knows nothing of the developer's own account.
func prepare(t *testing.T, folder string, environment []string, name string, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, arguments...)
	cmd.Dir = folder
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "CDK_") })
	cmd.Env = append(cmd.Env, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
	cmd.Env = append(cmd.Env, environment...)
	return cmd
}

func templateIn(t *testing.T, folder, stack string) template {
	t.Helper()
	encoded, err := os.ReadFile(filepath.Join(folder, stack+".template.json"))
	must(t, err)
	return decode(t, encoded)
}
