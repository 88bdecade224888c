// Package testengine starts engines for tests, on free loopback ports. `make tools` installs
// the engines in the folder .tools of the repository.
//
// A test is skipped if its engine is not installed. With ONCEBOX_REQUIRE=all in the
// environment it fails instead, so that CI cannot pass by skipping.
//
// On Linux no engine outlives the test binary, however it ends. On other systems an engine
// survives a test binary that panics or is killed.
package testengine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// managed is true if Main will stop the shared engines.
var managed atomic.Bool

// Main runs the tests of m, stops the engines that they shared, and returns the exit code. A
// package that uses [Dynoxide], [DynamoDBLocal], [Kinesis], [S3], [CloudFormation], [SQS], [Firehose]
// or [Valkey] calls it from its TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }
func Main(m *testing.M) int {
	managed.Store(true)
	defer func() {
		for _, e := range []*engine{dynoxide, dynamoDBLocal, kinesisMock, s3, cloudFormation, valkey} {
			e.stop()
		}
	}()
	return m.Run()
}

// Dynoxide returns the endpoint of dynoxide, a small DynamoDB API. The first call starts it.
// All tests of the process share it, so each needs table names of its own.
func Dynoxide(t testing.TB) string {
	t.Helper()
	return dynoxide.endpoint(t)
}

// FreshDynoxide starts a dynoxide for the caller alone and returns its endpoint. A benchmark
// needs a new one: dynoxide remembers the tokens of all transactions for ten minutes and
// searches them in each transaction.
func FreshDynoxide(t testing.TB) (endpoint string, stop func()) {
	t.Helper()
	e := &engine{name: dynoxide.name, args: dynoxide.args}
	e.process = e.of(Tool(t, e.name), testPort(t))
	if err := e.process.start(); err != nil {
		t.Fatalf("testengine: %v", err)
	}
	return e.process.url, e.stop
}

// DynamoDBLocal returns the endpoint of Amazon DynamoDB Local. The first call starts it. All
// tests of the process share it, so each needs table names of its own. It listens on every
// network interface, which cannot be turned off.
func DynamoDBLocal(t testing.TB) string {
	t.Helper()
	return dynamoDBLocal.endpoint(t)
}

// Kinesis returns the endpoint of kinesis-mock, a Kinesis API in memory with shards, splits and
// merges. The first call starts it. All tests of the process share it, so each needs stream
// names of its own. It has no limits of throughput. Its time for a record grows with the
// number of records in the stream: 10,000 records take minutes.
func Kinesis(t testing.TB) string {
	t.Helper()
	return kinesisMock.endpoint(t)
}

// CloudFormation returns the endpoint of a CloudFormation in memory, with the services that the
// stack of this project needs. The first call starts it. All tests of the process share it, so
// each needs stack names of its own. It accepts any credentials, and stacks are in the account
// 123456789012. A caller that assumes a role of another account is in that account. Tests only read
// back from its services what a stack has made, except from [SQS] and [Firehose], and from state
// machines, which run.
func CloudFormation(t testing.TB) string {
	t.Helper()
	// It takes the bucket of a template from the host name, which fails for 127.0.0.1.
	return strings.Replace(cloudFormation.endpoint(t), "127.0.0.1", "localhost", 1)
}

// SQS returns the endpoint of an SQS API, which is part of the engine of [CloudFormation]. All
// tests of the process share it, so each needs queue names of its own.
func SQS(t testing.TB) string {
	t.Helper()
	return cloudFormation.endpoint(t)
}

// Firehose returns the endpoint of a Firehose API and of the S3 API to which its streams write, both part of the engine
// of [CloudFormation]. A record is in an object as soon as it is put. All tests of the process share it, so each needs
// names of its own.
func Firehose(t testing.TB) string {
	t.Helper()
	return cloudFormation.endpoint(t)
}

// Lambda starts the Lambda runtime interface emulator for the function whose executable is
// bootstrap, and returns the URL that takes events by POST. The emulator starts the function at
// the first invocation and ends with the test. The function gets the variables env
// ("KEY=value") and none of the developer's AWS settings or credentials.
//
// The emulator crashes if two invocations overlap.
func Lambda(t testing.TB, bootstrap string, env ...string) string {
	t.Helper()
	bin := Tool(t, "aws-lambda-rie")
	bootstrap, err := filepath.Abs(bootstrap)
	if err != nil {
		t.Fatalf("testengine: %v", err)
	}
	// The emulator would report a missing file only at the first invocation.
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
		// On SIGTERM the emulator ends its function. On SIGKILL it would leave it behind.
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

// baseEnv is the part of the developer's environment that a function gets.
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

// engine is a program that a test process starts at most once. It has args, if it speaks HTTP, or else a function that
// makes its process.
type engine struct {
	name string
	args func(port string) []string
	make func(bin string, listen *port) *process

	once    sync.Once
	process *process
	err     error
}

func (e *engine) endpoint(t testing.TB) string {
	t.Helper()
	return e.shared(t).url
}

// shared returns the process of all tests. The first call starts it.
func (e *engine) shared(t testing.TB) *process {
	t.Helper()
	bin := Tool(t, e.name)
	if !managed.Load() {
		t.Fatal("testengine: nothing would stop the engine: TestMain must call testengine.Main")
	}
	e.once.Do(func() {
		var listen *port
		if listen, e.err = freePort(); e.err == nil { // this process holds the port until it ends
			e.process = e.of(bin, listen)
			e.err = e.process.start()
		}
	})
	if e.err != nil {
		t.Fatalf("testengine: %v", e.err)
	}
	return e.process
}

func (e *engine) of(bin string, listen *port) *process {
	if e.make != nil {
		return e.make(bin, listen)
	}
	return &process{
		path: bin,
		args: e.args(listen.number()),
		env:  os.Environ(),
		url:  "http://" + listen.addr(),
		end:  syscall.SIGKILL, // all its data is in memory
	}
}

func (e *engine) stop() {
	if e.process != nil {
		e.process.stop()
	}
}

// Tool returns the path of a tool that `make tools` installs. If the tool is missing, the test
// is skipped or fails, as for an engine. Under -short only dynoxide and s3 are used: `make test`
// installs no other tool.
func Tool(t testing.TB, name string) string {
	t.Helper()
	if name != dynoxide.name && name != s3.name {
		CheckOnly(t)
	}
	missing := missing(t)
	path, err := installed(name)
	if err != nil {
		missing("testengine: %s is not installed: run `make tools` (%v)", name, err)
	}
	return path
}

// Command returns the path of a command that the developer has to install, such as node. If it
// is missing, the test is skipped or fails, as for an engine.
func Command(t testing.TB, name string) string {
	t.Helper()
	missing := missing(t)
	path, err := exec.LookPath(name)
	if err != nil {
		missing("testengine: %s is not installed (%v)", name, err)
	}
	return path
}

// missing returns what ends a test that needs something that is not installed.
func missing(t testing.TB) func(format string, args ...any) {
	t.Helper()
	switch require := os.Getenv("ONCEBOX_REQUIRE"); require {
	case "":
		return t.Skipf
	case "all":
		return t.Fatalf
	default:
		t.Fatalf("testengine: ONCEBOX_REQUIRE=%q: the only known value is \"all\"", require)
		return nil
	}
}

// installed returns the path of a tool in the nearest .tools above the working directory. The go
// command runs a test in the folder of its package, which may be in a module below the root.
func installed(name string) (path string, err error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, ".tools", "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", &os.PathError{Op: "find .tools/bin/" + name + " above", Path: start, Err: os.ErrNotExist}
		}
	}
}
