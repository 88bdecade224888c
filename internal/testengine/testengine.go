// Package testengine starts the engines that `make tools` installs under
// <module root>/.tools, on free loopback ports, for the length of a test.
//
// A test whose engine is not installed is skipped; with ONCEBOX_REQUIRE=all in
// the environment it fails, so that CI cannot pass by skipping.
//
// Nothing outlives the test binary on Linux, however it ends. Elsewhere an
// engine survives a test binary that panics or is killed.
package testengine

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// managed tells whether Main will stop the shared engines.
var managed atomic.Bool

// Main runs the tests of m, then stops every engine they shared, and returns
// the exit code. A package that uses [Dynoxide], [DynamoDBLocal], [Kinesis],
// [CloudFormation] or [SQS] calls it from its TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }
func Main(m *testing.M) int {
	managed.Store(true)
	defer func() {
		for _, e := range []*engine{dynoxide, dynamoDBLocal, kinesisMock, cloudFormation} {
			e.stop()
		}
	}()
	return m.Run()
}

// Dynoxide returns the endpoint of this test process's dynoxide, a small
// DynamoDB API; it starts it at the first call. All tests of the process share
// it, so each needs table names of its own.
func Dynoxide(t testing.TB) string {
	t.Helper()
	return dynoxide.endpoint(t)
}

// FreshDynoxide starts a dynoxide of the caller's own, and returns its endpoint. It
// remembers the token of every transaction for ten minutes, and goes through all of
// them at the next one: who measures begins with none.
func FreshDynoxide(t testing.TB) (endpoint string, stop func()) {
	t.Helper()
	e := &engine{name: dynoxide.name, args: dynoxide.args}
	if err := e.start(Tool(t, e.name), testPort(t)); err != nil {
		t.Fatalf("testengine: %v", err)
	}
	return e.process.url, e.stop
}

// DynamoDBLocal returns the endpoint of this test process's Amazon DynamoDB
// Local; it starts it at the first call. All tests of the process share it, so
// each needs table names of its own. It listens on every interface: it has no
// option not to.
func DynamoDBLocal(t testing.TB) string {
	t.Helper()
	return dynamoDBLocal.endpoint(t)
}

// Kinesis returns the endpoint of this test process's kinesis-mock, a Kinesis
// API with shards, splits and merges, in memory; it starts it at the first call.
// All tests of the process share it, so each needs stream names of its own. It
// knows no limits of throughput.
func Kinesis(t testing.TB) string {
	t.Helper()
	return kinesisMock.endpoint(t)
}

// CloudFormation returns the endpoint of this test process's CloudFormation, with
// the services that the project's stack needs, in memory; it starts it at the first
// call. All tests of the process share it, so each needs stack names of its own. It
// takes any credentials, and everything is in one account, 123456789012. But for
// [SQS], no service of it is for more than reading back what a stack has made.
func CloudFormation(t testing.TB) string {
	t.Helper()
	// It reads the address of a template by the host's name, and finds no bucket in
	// that of 127.0.0.1.
	return strings.Replace(cloudFormation.endpoint(t), "127.0.0.1", "localhost", 1)
}

// SQS returns the endpoint of an SQS API, which the process's CloudFormation has in
// it. All tests of the process share it, so each needs queue names of its own.
func SQS(t testing.TB) string {
	t.Helper()
	return cloudFormation.endpoint(t)
}

// Lambda starts the Lambda runtime interface emulator for the function whose
// executable is bootstrap, and returns the URL to POST events to. The emulator
// runs the function at the first invocation and stops at the end of the test.
// The function sees env ("KEY=value") and none of the developer's own AWS
// settings or credentials.
//
// The emulator crashes when two invocations overlap.
func Lambda(t testing.TB, bootstrap string, env ...string) string {
	t.Helper()
	bin := Tool(t, "aws-lambda-rie")
	bootstrap, err := filepath.Abs(bootstrap)
	if err != nil {
		t.Fatalf("testengine: %v", err)
	}
	// The emulator itself would only notice at the first invocation.
	if _, err := os.Stat(bootstrap); err != nil {
		t.Fatalf("testengine: %v", err)
	}
	invoke, runtimeAPI := testPort(t), testPort(t)
	mark := "TESTENGINE_FUNCTION=" + runtimeAPI.addr()
	p := &process{
		path: bin,
		args: []string{
			"--runtime-interface-emulator-address", invoke.addr(),
			"--runtime-api-address", runtimeAPI.addr(),
			bootstrap,
		},
		env:  append(baseEnv(), append(env, mark)...),
		url:  "http://" + invoke.addr(),
		mark: mark,
		// On SIGTERM the emulator ends its function first; killed, it would orphan it.
		end: syscall.SIGTERM,
	}
	if err := p.start(); err != nil {
		t.Fatalf("testengine: %v", err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("testengine: output of the Lambda emulator:\n%s", p.output())
		}
	})
	return p.url + "/2015-03-31/functions/function/invocations"
}

func testPort(t testing.TB) *port {
	t.Helper()
	p, err := freePort()
	if err != nil {
		t.Fatalf("testengine: %v", err)
	}
	t.Cleanup(p.release)
	return p
}

// baseEnv is what a function may inherit from the developer's environment.
func baseEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
}

var (
	dynoxide = &engine{
		name: "dynoxide",
		args: func(port string) []string { return []string{"serve", "--host", "127.0.0.1", "--port", port} },
	}
	dynamoDBLocal = &engine{
		name: "dynamodb-local",
		args: func(port string) []string { return []string{"-port", port} },
	}
	kinesisMock = &engine{
		name: "kinesis-mock",
		args: func(port string) []string { return []string{"--port", port} },
	}
	cloudFormation = &engine{
		name: "moto-cloudformation",
		args: func(port string) []string { return []string{"--port", port} },
	}
)

// engine is one that a test process starts; endpoint does so at most once.
type engine struct {
	name string
	args func(port string) []string

	once    sync.Once
	process *process
	err     error
}

func (e *engine) endpoint(t testing.TB) string {
	t.Helper()
	bin := Tool(t, e.name)
	if !managed.Load() {
		t.Fatal("testengine: nothing would stop the engine: TestMain must call testengine.Main")
	}
	e.once.Do(func() {
		var listen *port
		if listen, e.err = freePort(); e.err == nil { // held for as long as this process lives
			e.err = e.start(bin, listen)
		}
	})
	if e.err != nil {
		t.Fatalf("testengine: %v", e.err)
	}
	return e.process.url
}

func (e *engine) start(bin string, listen *port) error {
	e.process = &process{
		path: bin,
		args: e.args(listen.number()),
		env:  os.Environ(),
		url:  "http://" + listen.addr(),
		end:  syscall.SIGKILL, // it keeps everything in memory: nothing to close
	}
	return e.process.start()
}

func (e *engine) stop() {
	if e.process != nil {
		e.process.stop()
	}
}

// Tool returns the path of a tool that `make tools` installs. Without it, the test
// ends here, as without an engine.
func Tool(t testing.TB, name string) string {
	t.Helper()
	require := os.Getenv("ONCEBOX_REQUIRE")
	if require != "" && require != "all" {
		t.Fatalf("testengine: ONCEBOX_REQUIRE=%q: the only known value is \"all\"", require)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatalf("testengine: %v", err)
	}
	path := filepath.Join(root, ".tools", "bin", name)
	if _, err := os.Stat(path); err != nil {
		const format = "testengine: %s is not installed: run `make tools` (%v)"
		if require == "all" {
			t.Fatalf(format, name, err)
		}
		t.Skipf(format, name, err)
	}
	return path
}

// moduleRoot returns the nearest directory upwards that holds a go.mod: the go
// command runs a test in its package's directory.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", &os.PathError{Op: "find go.mod above", Path: start, Err: os.ErrNotExist}
		}
		dir = parent
	}
}
