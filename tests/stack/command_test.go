package stack

import (
	"debug/elf"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// TestSynthWithAndWithoutTheCLI checks that the app makes the default golden, whether `cdk synth` runs it as cdk.json
// says or it runs by itself.
func TestSynthWithAndWithoutTheCLI(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	settings := contextOf(t, nil)
	context := map[string]any{ // the CLI adds these to the context by default
		"aws:cdk:enable-path-metadata": true, "aws:cdk:enable-asset-metadata": true,
	}
	maps.Copy(context, settings)
	encoded, err := json.Marshal(context)
	must(t, err)
	alone := t.TempDir()
	command(t, root, []string{"CDK_OUTDIR=" + alone, "CDK_CONTEXT_JSON=" + string(encoded)}, "go", "run", "./infra/app")

	withCLI := t.TempDir()
	arguments := []string{"synth", "--quiet", "--output", withCLI}
	for name, value := range settings {
		arguments = append(arguments, "--context", name+"="+value.(string))
	}
	command(t, root, nil, testengine.Tool(t, "cdk"), arguments...)

	golden := withoutMetadata(readGolden(t, "default"))
	for _, folder := range []string{alone, withCLI} {
		made := normalized(t, readTemplate(t, filepath.Join(folder, "oncebox.template.json")))
		if found := differences("", golden, withoutMetadata(made)); len(found) > 0 {
			t.Errorf("the app makes another template:\n%s", strings.Join(found, "\n"))
		}
	}
}

// withoutMetadata removes the metadata of resources, to which the CLI adds.
func withoutMetadata(tpl template) template {
	for _, r := range tpl["Resources"].(map[string]any) {
		delete(r.(map[string]any), "Metadata")
	}
	return tpl
}

// TestDefaultFolders checks that the app takes functions from where `make zip` puts them, and says where they are
// missing.
func TestDefaultFolders(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	app := build(t, "./infra/app")
	file := writeSettings(t, "stack: oncebox\nclaims: {auth: iam}\nrecords: {id-path: id}")
	environment := []string{"CDK_OUTDIR=" + t.TempDir(), `CDK_CONTEXT_JSON={"oncebox:settings":"` + file + `"}`}
	command(t, dist(t), environment, app)

	missing := prepare(t, t.TempDir(), environment, app)
	out, err := missing.CombinedOutput()
	if err == nil || missing.ProcessState.ExitCode() != 1 {
		t.Errorf("without functions it ends with %v", err)
	}
	says(t, string(out), "oncebox: there is no function at dist/claim/bootstrap ... no function at dist/sweep/bootstrap"+
		" ... no function at dist/dedupe/bootstrap")
	if strings.Contains(string(out), "goroutine") {
		t.Errorf("it panics:\n%s", out)
	}
}

// example returns a template of examples/stack, which the command in its comment makes. It runs once.
func example(stack string) func(*testing.T) template {
	return func(t *testing.T) template {
		t.Helper()
		out := filepath.Join(os.Getenv(inFolder), "example")
		exampleRun.Do(func() { command(t, dist(t), []string{"CDK_OUTDIR=" + out}, build(t, "./examples/stack")) })
		return readTemplate(t, filepath.Join(out, stack+".template.json"))
	}
}

var exampleRun sync.Once

// dist returns a folder with functions at the places where `make zip` puts them.
func dist(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for _, name := range []string{"claim", "sweep", "dedupe"} {
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

// command runs a program, which must succeed.
func command(t *testing.T, folder string, environment []string, name string, arguments ...string) {
	t.Helper()
	if out, err := prepare(t, folder, environment, name, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
	}
}

// prepare returns a command that has no access to the developer's own account.
func prepare(t *testing.T, folder string, environment []string, name string, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, arguments...)
	cmd.Dir = folder
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "AWS_") || strings.HasPrefix(variable, "CDK_")
	})
	cmd.Env = append(cmd.Env, "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE="+os.DevNull)
	cmd.Env = append(append(cmd.Env, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull), environment...)
	return cmd
}
