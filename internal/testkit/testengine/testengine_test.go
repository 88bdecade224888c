package testengine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// role is the environment variable that makes the test binary a function or a victim.
const role = "ENGINETEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "function" {
		serveFunction()
	}
	os.Exit(Main(m))
}

// TestS3HasAccounts: each call has buckets of its own on one server, which keeps what a test puts.
func TestS3HasAccounts(t *testing.T) {
	ask := func(method, url, body string) (status int, answer string) {
		t.Helper()
		request, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(content)
	}
	one, other, none := S3(t, "bucket"), S3(t, "bucket"), S3(t)
	if filepath.Dir(one) != filepath.Dir(other) {
		t.Errorf("there are two servers: %s and %s", one, other)
	}
	if status, answer := ask(http.MethodPut, one+"/bucket/a/b", "content"); status != http.StatusOK {
		t.Errorf("put: %d %s", status, answer)
	}
	if status, answer := ask(http.MethodGet, one+"/bucket/a/b", ""); status != http.StatusOK || answer != "content" {
		t.Errorf("get: %d %s", status, answer)
	}
	for account, code := range map[string]string{other: "NoSuchKey", none: "NoSuchBucket"} {
		if status, answer := ask(http.MethodGet, account+"/bucket/a/b", ""); !strings.Contains(answer, code) {
			t.Errorf("get from another account: want %s, got %d %s", code, status, answer)
		}
	}
}

func TestLambdaRunsTheFunctionInAnEnvironmentOfItsOwn(t *testing.T) {
	CheckOnly(t)
	t.Setenv("AWS_PROFILE", "the-developers-own")
	url := Lambda(t, executable(t), role+"=function", "GREETING=hello")
	for range 2 {
		reply := invoke(t, url, `{"n":1}`)
		if got := string(reply.Event); got != `{"n":1}` {
			t.Errorf("event: %s", got)
		}
		if reply.Greeting != "hello" || reply.Profile != "" {
			t.Errorf("the function saw GREETING=%q AWS_PROFILE=%q", reply.Greeting, reply.Profile)
		}
	}
}

func TestNoFunctionOutlivesItsTest(t *testing.T) {
	CheckOnly(t)
	var pids []int
	start := func(t *testing.T) (url string, got reply) {
		t.Helper()
		url = Lambda(t, executable(t), role+"=function")
		got = invoke(t, url, `{}`)
		pids = append(pids, got.PID)
		return url, got
	}
	t.Run("idle", func(t *testing.T) { start(t) })
	t.Run("busy", func(t *testing.T) {
		url, _ := start(t)
		client := http.Client{Timeout: 100 * time.Millisecond}
		if resp, err := client.Post(url, "", strings.NewReader(`"hang"`)); err == nil {
			_ = resp.Body.Close()
			t.Error("the function did not hang")
		}
	})
	t.Run("orphaned", func(t *testing.T) {
		_, got := start(t)
		kill(t, got.Parent)
	})
	for _, pid := range pids {
		awaitGone(t, pid)
	}
}

func TestNothingOutlivesAKilledTestBinary(t *testing.T) {
	if os.Getenv(role) == "victim" {
		url := Lambda(t, executable(t), role+"=function")
		got := invoke(t, url, `{}`)
		_ = json.NewEncoder(os.Stderr).Encode(victim{Engine: Dynoxide(t), Function: got.PID})
		kill(t, os.Getpid())
		select {} // until the signal arrives
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent died")
	}
	CheckOnly(t)
	Tool(t, "dynoxide")
	Tool(t, "aws-lambda-rie")

	var stderr bytes.Buffer
	cmd := exec.Command(executable(t), "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), role+"=victim")
	cmd.Stderr = &stderr
	_ = cmd.Run() // the error says that it was killed
	var got victim
	if err := json.Unmarshal(stderr.Bytes(), &got); err != nil {
		t.Fatalf("%v in %q", err, stderr.String())
	}
	awaitGone(t, got.Function)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get(got.Engine)
		if err != nil {
			break
		}
		_ = resp.Body.Close()
		if time.Now().After(deadline) {
			t.Fatal("the engine still answers")
		}
	}
}

// patience is how long a test waits for the end of a process on a busy machine.
const patience = 5 * time.Minute

// victim is what a test binary started before it killed itself.
type victim struct {
	Engine   string
	Function int
}

func TestAMissingToolSkipsOrFails(t *testing.T) {
	empty := t.TempDir()
	t.Chdir(empty)
	engines := map[string]func(testing.TB){
		"dynoxide":            func(t testing.TB) { Dynoxide(t) },
		"dynamodb-local":      func(t testing.TB) { DynamoDBLocal(t) },
		"kinesis-mock":        func(t testing.TB) { Kinesis(t) },
		"s3":                  func(t testing.TB) { S3(t) },
		"moto-cloudformation": func(t testing.TB) { CloudFormation(t) },
		"redis-server":        func(t testing.TB) { Valkey(t) },
		"aws-lambda-rie":      func(t testing.TB) { Lambda(t, "bootstrap") },
		"cdk":                 func(t testing.TB) { Tool(t, "cdk") },
		"node":                func(t testing.TB) { Command(t, "node") },
	}
	t.Setenv("PATH", empty)
	for _, tc := range []struct{ require, outcome, message string }{
		{"", "skip", "is not installed"},
		{"all", "fail", "is not installed"},
		{"some", "fail", `the only known value is "all"`},
	} {
		t.Setenv("ONCEBOX_REQUIRE", tc.require)
		for name, use := range engines {
			t.Run(name+" with "+tc.require, func(t *testing.T) {
				got, outcome, message := record(use), tc.outcome, tc.message
				switch {
				case testing.Short() && name != "dynoxide" && name != "s3" && name != "node":
					outcome, message = "skip", "part of `make check`"
				case tc.require != "some" && name != "node":
					message += ": run `make tools`"
				}
				if got.outcome != outcome || !strings.Contains(got.message, message) {
					t.Errorf("got %s: %s", got.outcome, got.message)
				}
			})
		}
	}
}

func TestTheErrorOfAnEngineThatDoesNotComeUpHoldsItsOutput(t *testing.T) {
	listen := testPort(t)
	p := &process{
		path: "/bin/sh",
		args: []string{"-c", "echo out of luck; exit 3"},
		url:  "http://" + listen.addr(),
		end:  syscall.SIGKILL,
	}
	err := p.start()
	if err == nil || !strings.Contains(err.Error(), "out of luck") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

// recorder is a testing.TB that records how a test ended.
type recorder struct {
	testing.TB
	outcome, message string
}

// record runs a test on a goroutine of its own, which the test may end.
func record(test func(testing.TB)) *recorder {
	r := &recorder{outcome: "pass"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	return r
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(args ...any) { r.finish("skip", "%s", fmt.Sprint(args...)) }

func (r *recorder) Skipf(format string, args ...any) { r.finish("skip", format, args...) }

func (r *recorder) Fatalf(format string, args ...any) { r.finish("fail", format, args...) }

func (r *recorder) finish(outcome, format string, args ...any) {
	r.outcome, r.message = outcome, fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// reply is the answer of serveFunction.
type reply struct {
	Event             json.RawMessage
	Greeting, Profile string
	PID, Parent       int
}

// serveFunction is a Lambda function that echoes its events. It never ends by itself, not
// even when the runtime API is gone.
func serveFunction() {
	api := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for ; ; time.Sleep(10 * time.Millisecond) {
		next, err := http.Get(api + "next")
		if err != nil {
			continue
		}
		event, _ := io.ReadAll(next.Body)
		_ = next.Body.Close()
		if string(event) == `"hang"` {
			select {}
		}
		answer, _ := json.Marshal(reply{event, os.Getenv("GREETING"), os.Getenv("AWS_PROFILE"), os.Getpid(), os.Getppid()})
		id := next.Header.Get("Lambda-Runtime-Aws-Request-Id")
		if resp, err := http.Post(api+id+"/response", "application/json", bytes.NewReader(answer)); err == nil {
			_ = resp.Body.Close()
		}
	}
}

func invoke(t *testing.T, url, event string) (got reply) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(event))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, &got)
	}
	if err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return got
}

func kill(t *testing.T, pid int) {
	t.Helper()
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// awaitGone waits until a process is gone or a zombie.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d has not ended", pid)
		}
	}
}
