package testengine

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The time-outs are long because test machines are busy: an engine that needs 2 s on an idle
// machine can take a minute.
const (
	readyTimeout   = 5 * time.Minute
	attemptTimeout = 30 * time.Second // of one request that asks whether the engine is ready
	stopTimeout    = 5 * time.Second  // until an engine that ignores its signal is killed
)

// process is one running engine.
type process struct {
	path string
	args []string
	env  []string
	url  string         // of its HTTP API, if it has one
	addr string         // otherwise
	end  syscall.Signal // ends it
	mark string         // an entry of env that its children inherit; "" if it starts none

	ready func(*process) error // nil: it is ready when it answers HTTP

	cmd    *exec.Cmd
	log    *os.File      // its output
	exited chan struct{} // closed when the engine has ended
}

// start runs the engine and waits until it is ready.
func (p *process) start() (err error) {
	// A file and not a pipe: a pipe breaks when the test binary dies. The emulator would then
	// die while it logs its signal, before it ends its function.
	if p.log, err = os.CreateTemp("", "testengine-*"); err != nil {
		return err
	}
	_ = os.Remove(p.log.Name()) // the file exists as long as a process has it open
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Env = p.env
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = dieWithParent(p.end)
	p.exited = make(chan struct{})

	started := make(chan error)
	go func() {
		// To Linux the parent of a process is the thread that forked it. So this goroutine
		// keeps its thread until the engine has ended.
		runtime.LockOSThread()
		defer close(p.exited)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // cmd.ProcessState holds the result
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := p.awaitReady(); err != nil {
		p.stop()
		return fmt.Errorf("%s: %w; its output:\n%s", filepath.Base(p.path), err, p.output())
	}
	return nil
}

func (p *process) awaitReady() error {
	ready := p.ready
	if ready == nil {
		ready = answersHTTP
	}
	timeout := time.After(readyTimeout)
	for {
		if ready(p) == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("ended before it was ready (%v)", p.cmd.ProcessState)
		case <-timeout:
			return fmt.Errorf("not ready after %v", readyTimeout)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func answersHTTP(p *process) error {
	client := http.Client{
		Timeout:   attemptTimeout,
		Transport: &http.Transport{DisableKeepAlives: true}, // without the proxy of the environment
	}
	resp, err := client.Get(p.url)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// stop ends the engine and all processes that it started.
func (p *process) stop() {
	if p.cmd == nil || p.cmd.Process == nil {
		return // the start failed
	}
	_ = p.cmd.Process.Signal(p.end) // an error says that the engine has ended
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	if p.mark != "" {
		killMarked(p.mark)
	}
}

// output returns the output of the engine so far.
func (p *process) output() string {
	content, err := io.ReadAll(io.NewSectionReader(p.log, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// port is a free TCP port of the loopback interface. It holds the UDP port with the same
// number, which no engine uses. This keeps other test processes from choosing the port before
// our engine has bound it.
type port struct{ hold net.PacketConn }

// The ports are below those that the system gives to connections and to listeners on port 0. Otherwise one of
// these could get the port while our engine, which can take a minute, has not bound it yet.
const (
	leastPort = 10_000
	ports     = 20_000
)

func freePort() (*port, error) {
	for range 100 {
		address := fmt.Sprint("127.0.0.1:", leastPort+rand.N(ports))
		udp, err := net.ListenPacket("udp4", address)
		if err != nil {
			continue // another test holds it
		}
		tcp, err := net.Listen("tcp4", address)
		if err == nil {
			return &port{udp}, tcp.Close()
		}
		_ = udp.Close()
	}
	return nil, errors.New("no free port on the loopback interface")
}

// Address returns an address of the loopback interface on which no program listens. No other test gets it until the end
// of the test.
func Address(t testing.TB) string {
	t.Helper()
	return testPort(t).addr()
}

func (p *port) addr() string { return p.hold.LocalAddr().String() }

func (p *port) number() string {
	return strconv.Itoa(p.hold.LocalAddr().(*net.UDPAddr).Port)
}

func (p *port) release() { _ = p.hold.Close() }
