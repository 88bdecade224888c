package testengine

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const (
	readyTimeout = 90 * time.Second
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
	log    *os.File      // what it prints
	exited chan struct{} // closed once the engine is gone
}

// start runs the engine and waits until it answers HTTP.
func (p *process) start() (err error) {
	// Not a pipe: when the test binary dies, a pipe breaks, and an emulator that
	// notes the signal it got would die of that before it ended its function.
	if p.log, err = os.CreateTemp("", "testengine-*"); err != nil {
		return err
	}
	_ = os.Remove(p.log.Name()) // its contents live as long as someone has it open
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Env = p.env
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
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
		return fmt.Errorf("%s: %w; its output:\n%s", filepath.Base(p.path), err, p.output())
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
	if p.cmd == nil || p.cmd.Process == nil {
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

// output returns what the engine has printed so far.
func (p *process) output() string {
	content, err := io.ReadAll(io.NewSectionReader(p.log, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(content)
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
