package tests

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// environment is an execution environment of Lambda: a process of a built function, which takes one invocation at a
// time from a runtime API in this process. It can be killed at any moment, which the emulator's function cannot. The
// next invocation starts another process.
type environment struct {
	bootstrap string
	env       []string
	log       *os.File
	read      int64            // bytes of the log
	process   *functionProcess // nil: none was started
	usual     time.Duration    // how long the last invocation took
}

// invoke sends an event to the function. kill means that the process is killed during the invocation, or soon after
// it.
func (e *environment) invoke(ctx context.Context, event json.RawMessage, kill bool) (json.RawMessage, error) {
	if e.process == nil || e.process.hasEnded() {
		var err error
		if e.process, err = e.start(); err != nil {
			return nil, err
		}
	}
	if kill {
		killed := e.process
		time.AfterFunc(rand.N(e.usual+50*time.Millisecond), killed.kill)
	}
	begun := time.Now()
	answer, err := e.process.invoke(ctx, event)
	e.usual = time.Since(begun)
	return answer, err
}

// functionProcess is a process of the function with its runtime API.
type functionProcess struct {
	command *exec.Cmd
	next    chan invocation
	answers chan answer
	ended   chan struct{}
}

type invocation struct {
	id       string
	deadline time.Time
	event    json.RawMessage
}

type answer struct {
	path string
	body []byte
}

func (e *environment) start() (*functionProcess, error) {
	p := &functionProcess{next: make(chan invocation), answers: make(chan answer), ended: make(chan struct{})}
	api := httptest.NewServer(p)
	p.command = exec.Command(e.bootstrap)
	p.command.Env = append(e.env, "AWS_LAMBDA_RUNTIME_API="+api.Listener.Addr().String())
	p.command.Stdout, p.command.Stderr = e.log, e.log
	if err := p.command.Start(); err != nil {
		api.Close()
		return nil, err
	}
	go func() {
		_ = p.command.Wait() // it was killed
		close(p.ended)
		api.CloseClientConnections()
		api.Close()
	}()
	return p, nil
}

func (p *functionProcess) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// kill kills the process with SIGKILL.
func (p *functionProcess) kill() { _ = p.command.Process.Kill() } // an error says that it has ended

func (p *functionProcess) stop() {
	p.kill()
	<-p.ended
}

// invoke gives an event to the process. Lambda ends a process that misses its deadline.
func (p *functionProcess) invoke(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
	deadline, _ := ctx.Deadline()
	next, answers := p.next, (chan answer)(nil)
	for {
		select {
		case next <- invocation{uuid.NewString(), deadline, event}:
			next, answers = nil, p.answers
		case a := <-answers:
			return a.read()
		case <-p.ended:
			return nil, eventsource.ErrCrashed
		case <-ctx.Done():
			p.stop()
			return nil, eventsource.ErrTimedOut
		}
	}
}

// read returns the function's answer.
func (a answer) read() (json.RawMessage, error) {
	if strings.HasSuffix(a.path, "/response") {
		return a.body, nil
	}
	return nil, functionError(a.body)
}

// functionError is the error of an invocation that the function has answered with an error.
type functionError string

func (e functionError) Error() string { return string(e) }

// ServeHTTP is the runtime API (Lambda Developer Guide, "Using the Lambda runtime API for custom runtimes").
func (p *functionProcess) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the process was killed
		}
		select {
		case p.answers <- answer{r.URL.Path, body}:
			w.WriteHeader(http.StatusAccepted)
		case <-p.ended:
		}
		return
	}
	select {
	case i := <-p.next:
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", i.id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(i.deadline.UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:dedupe")
		_, _ = w.Write(i.event) // fails only if the process was killed
	case <-p.ended:
	case <-r.Context().Done():
	}
}

// newEnvironment makes an environment of a function. The end of its log is shown if the test fails.
func newEnvironment(t *testing.T, bootstrap string, env ...string) *environment {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	must(t, err)
	e := &environment{bootstrap: bootstrap, env: env, log: log}
	t.Cleanup(func() {
		if e.process != nil {
			e.process.stop()
		}
		if t.Failed() {
			text := e.newLog()
			t.Logf("the end of the log of an environment:\n%s", text[max(0, len(text)-4096):])
		}
		must(t, log.Close())
	})
	return e
}

// newLog returns the function's log lines since the last call.
func (e *environment) newLog() []byte {
	text, err := io.ReadAll(io.NewSectionReader(e.log, e.read, math.MaxInt64-e.read))
	if err != nil {
		panic(err)
	}
	e.read += int64(len(text))
	return text
}
