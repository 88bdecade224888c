// Package deploy deploys the stack of infra/app with the command line of the CDK to an emulated CloudFormation. Then it
// reads every resource back from its service: an emulated deployment may succeed although a resource is missing or has
// other properties.
package deploy

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// root is the project's folder, where cdk.json is.
const root = "../.."

// buildDir holds the built functions, which the tests of this process share.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "oncebox-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := testengine.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var (
	claimARM  = builder("claim", "arm64")
	sweepARM  = builder("sweep", "arm64")
	dedupeARM = builder("dedupe", "arm64")
)

// builder returns a function that builds a Lambda function of oncebox once and returns its folder.
func builder(name, arch string) func() (string, error) {
	return builderOf("./functions/"+name, name, arch)
}

// builderOf is builder for any package.
func builderOf(source, name, arch string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir := filepath.Join(buildDir, name+"-"+arch)
		build := exec.Command(root+"/scripts/build-function", source, arch, filepath.Join(dir, "bootstrap"))
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", build.Path, err, out)
		}
		return dir, nil
	})
}

// built builds a function. It skips the test first if a tool is missing.
func built(t *testing.T, build func() (string, error)) (dir string) {
	t.Helper()
	testengine.Tool(t, "cdk")
	testengine.Tool(t, "moto-cloudformation")
	dir, err := build()
	must(t, err)
	return dir
}

// codeFact describes a zip with the executable of a folder.
func codeFact(t *testing.T, dir string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "bootstrap"))
	must(t, err)
	return fileFact("bootstrap", 0o755, content)
}

func fileFact(name string, mode fs.FileMode, content []byte) string {
	return fmt.Sprintf("%s %v %x", name, mode, sha256.Sum256(content))
}

// cdk runs the command line of the CDK in a folder against the emulator.
func cdk(t *testing.T, dir string, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testengine.Tool(t, "cdk"), args...)
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "AWS_") { // which would lead to the developer's account
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL="+testengine.CloudFormation(t), "AWS_REGION="+region,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_CONFIG_FILE="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("cdk %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// An assembly is the output of `cdk synth`: one stack, with its template and assets.
type assembly struct {
	stack string
	dir   string
}

// synth makes the assembly of a stack with these settings. The functions are in the folders of code.
func synth(t *testing.T, stack, settings string, code map[string]string) assembly {
	t.Helper()
	a := assembly{stack: stack, dir: t.TempDir()}
	file := filepath.Join(t.TempDir(), "test.yaml")
	must(t, os.WriteFile(file, []byte("stack: "+stack+"\n"+settings), 0o600))
	args := []string{"synth", "--quiet", "--output", a.dir, "--context", "oncebox:settings=" + file}
	for function, folder := range code {
		args = append(args, "--context", "oncebox:"+function+"-code="+folder)
	}
	_, err := cdk(t, root, args...)
	must(t, err)
	return a
}

// cdk runs a command on the assembly. It runs in the assembly's folder, where no cdk.json is.
func (a assembly) cdk(t *testing.T, command string, args ...string) (output string, err error) {
	t.Helper()
	return cdk(t, a.dir, append([]string{command, a.stack, "--app", a.dir}, args...)...)
}

func (a assembly) deploy(t *testing.T) (output string) {
	t.Helper()
	bootstrap.Do(func() {
		_, bootstrap.err = cdk(t, a.dir, "bootstrap", "aws://"+account+"/"+region)
	})
	must(t, bootstrap.err)
	// The direct method needs no change set.
	output, err := a.cdk(t, "deploy", "--method", "direct", "--require-approval", "never")
	must(t, err)
	return output
}

// bootstrap makes the resources that the CDK needs in the account, once.
var bootstrap struct {
	sync.Once
	err error
}

// diff returns an error if the assembly differs from the deployed stack.
func (a assembly) diff(t *testing.T) error {
	t.Helper()
	_, err := a.cdk(t, "diff", "--method", "template", "--fail")
	return err
}

func (a assembly) destroy(t *testing.T) {
	t.Helper()
	_, err := a.cdk(t, "destroy", "--force")
	must(t, err)
}

func (a assembly) templatePath() string { return filepath.Join(a.dir, a.stack+".template.json") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
