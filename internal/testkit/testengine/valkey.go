package testengine

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Valkey returns the address of a server that speaks the protocol of Valkey and Redis. The first call starts it. All
// tests of the process share it, so each needs scopes of its own.
func Valkey(t testing.TB) string {
	t.Helper()
	return valkey.shared(t).addr
}

var valkey = &engine{name: "redis-server", make: newValkey}

func newValkey(bin string, listen *port) *process { return valkeyProcess(bin, listen) }

// ValkeyServer is a server of one test, which can kill it and start it again. Its data is in memory only.
type ValkeyServer struct {
	Addr string
	*process
}

// FreshValkey starts a server for the caller alone. It ends with the test. settings are further arguments of the
// server, such as "--maxmemory", "10mb".
func FreshValkey(t testing.TB, settings ...string) *ValkeyServer {
	t.Helper()
	p := valkeyProcess(Tool(t, valkey.name), testPort(t), settings...)
	s := &ValkeyServer{p.addr, p}
	s.Start(t)
	t.Cleanup(s.Kill)
	return s
}

// Start starts the server on its address again, without its data.
func (s *ValkeyServer) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatalf("testengine: %v", err)
	}
}

// Kill kills the server.
func (s *ValkeyServer) Kill() { s.stop() }

// Freeze stops the server until Thaw, as if its machine hung: its connections stay open.
func (s *ValkeyServer) Freeze() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *ValkeyServer) Thaw() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

func valkeyProcess(bin string, listen *port, settings ...string) *process {
	return &process{
		path: bin,
		args: append([]string{
			"--port", listen.number(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
			"--dir", filepath.Clean(os.TempDir()), "--dbfilename", "testengine-" + listen.number() + ".rdb",
		}, settings...),
		env:   os.Environ(),
		addr:  listen.addr(),
		ready: answersPing,
		end:   syscall.SIGKILL,
	}
}

// answersPing reports whether a server of the protocol answers. One that asks for a password answers too.
func answersPing(p *process) error {
	conn, err := net.DialTimeout("tcp", p.addr, attemptTimeout)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(conn, "PING\r\n"); err == nil {
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	if closeErr := conn.Close(); err == nil {
		err = closeErr
	}
	return err
}
