package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 5 * time.Second
)

// process is one running engine.
type process struct {
	path string
	args []string
	env  []string
	url  string         // where it answers HTTP
	end  syscall.Signal // what ends it
	mark string         // an entry of env that its children inherit; "" if it has none

	cmd    *exec.Cmd
	output buffer
	exited chan struct{} // closed once the engine is gone
}

// start runs the engine and waits until it answers HTTP.
func (p *process) start() error {
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Env = p.env
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second // an orphan may still hold the output open
	p.cmd.SysProcAttr = dieWithParent(p.end)
	p.exited = make(chan struct{})

	started := make(chan error)
	go func() {
		// Linux ties "the parent's death" to the thread that forked: keep this
		// one for the engine's whole life. It is not unlocked: it ends here.
		runtime.LockOSThread()
		defer close(p.exited)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in cmd.ProcessState
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := p.awaitReady(); err != nil {
		p.stop()
		return fmt.Errorf("%s: %w; its output:\n%s", filepath.Base(p.path), err, p.output.String())
	}
	return nil
}

func (p *process) awaitReady() error {
	client := http.Client{
		Timeout:   time.Second,
		Transport: &http.Transport{DisableKeepAlives: true}, // and no proxy, whatever the environment says
	}
	timeout := time.After(readyTimeout)
	for {
		if resp, err := client.Get(p.url); err == nil {
			return resp.Body.Close()
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

// stop ends the engine and everything it started.
func (p *process) stop() {
	if p.cmd.Process == nil {
		return // it did not start
	}
	_ = p.cmd.Process.Signal(p.end) // fails only when the engine is gone
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

// port is a free TCP port of the loopback interface. It holds the UDP port of
// the same number, which no engine wants: test processes run side by side, and
// this keeps another one from choosing the port before our engine has bound it.
type port struct{ hold net.PacketConn }

func freePort() (*port, error) {
	for range 100 {
		tcp, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		udp, err := net.ListenPacket("udp4", tcp.Addr().String())
		if closeErr := tcp.Close(); closeErr != nil {
			return nil, closeErr
		}
		if err == nil {
			return &port{udp}, nil
		}
	}
	return nil, errors.New("no free port on the loopback interface")
}

func (p *port) addr() string { return p.hold.LocalAddr().String() }

func (p *port) number() string {
	return strconv.Itoa(p.hold.LocalAddr().(*net.UDPAddr).Port)
}

func (p *port) release() { _ = p.hold.Close() }

// buffer is a bytes.Buffer that may be read while the engine writes to it.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
