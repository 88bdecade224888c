package valkeystore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// patient asks a ledger again about records whose error may pass, as a Decider does.
type patient struct {
	testing.TB
	dedupe.Ledger
}

func withPatience(t testing.TB, l dedupe.Ledger) dedupe.Ledger { return patient{t, l} }

func (p patient) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	p.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		answers, err := p.Ledger.Enter(ctx, q)
		again := false
		for _, a := range answers {
			again = again || errors.Is(a.Err, dedupe.ErrTryAgain)
		}
		if err != nil || !again {
			return answers, err
		}
		if time.Now().After(deadline) {
			p.Fatalf("still %s", texts(answers))
		}
	}
}

// wantTryAgain asks once and expects ErrTryAgain for each record, with a text.
func wantTryAgain(t testing.TB, l dedupe.Ledger, q dedupe.Question, says string) {
	t.Helper()
	got, err := l.Enter(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got {
		if !errors.Is(a.Err, dedupe.ErrTryAgain) || !strings.Contains(a.Err.Error(), says) {
			t.Errorf("want %v with %q, got %s", dedupe.ErrTryAgain, says, text(a))
		}
	}
}

// TestKilledServer: while a server is down, the records of the other server get their answers. When it is back, the
// ledger continues within the same decision. The server has lost its rows, so its records are new again: copies are
// delivered, and no record is lost.
func TestKilledServer(t *testing.T) {
	a, b := testengine.FreshValkey(t), testengine.FreshValkey(t)
	l := open(t, options(a.Addr, b.Addr))
	const n = 100
	q := question(newScope(), many(n)...)
	want(t, l, q, repeated("put", n))
	b.Kill()
	got, err := l.Enter(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	after := map[dedupe.Found]dedupe.Outcome{dedupe.Mine: dedupe.Retry, dedupe.NotKnown: dedupe.New}
	counts := map[dedupe.Found]int{}
	for i, a := range got {
		if counts[a.Found]++; a.Found == dedupe.NotKnown && !errors.Is(a.Err, dedupe.ErrTryAgain) {
			t.Errorf("record %d: got %s", i, text(a))
		}
	}
	if counts[dedupe.Mine] == 0 || counts[dedupe.NotKnown] == 0 || len(counts) != 2 {
		t.Fatalf("want some records with Mine and some with NotKnown, got %v", counts)
	}
	started := false
	decider := dedupe.Decider{Ledger: l, Scope: q.Scope, Retention: retention, Clock: dedupe.Clock{
		Pause: func(context.Context, time.Duration) error {
			if !started {
				started = true
				b.Start(t)
			}
			return nil
		},
	}}
	for i, decision := range decider.Decide(t.Context(), q.Records) {
		if decision.Err != nil || decision.Outcome != after[got[i].Found] {
			t.Errorf("record %d: want %d, got %+v", i, after[got[i].Found], decision)
		}
	}
	want(t, l, q, repeated("mine", n))
	if text, err := admin(t, b.Addr, "GET", rowKey(q.Scope)).ToString(); err != nil || !strings.Contains(text, `"server":2`) {
		t.Errorf("the scope's row was not put again: %q, %v", text, err)
	}
}

// TestServerThatNeverWas: a server that cannot be reached at the start is not taken for a wrong setting.
func TestServerThatNeverWas(t *testing.T) {
	s := testengine.FreshValkey(t)
	s.Kill()
	l := open(t, options(s.Addr))
	q := question(newScope(), rec{"a", "1", "x", 0})
	if err := l.Warm(t.Context(), q.Scope, retention); !errors.Is(err, dedupe.ErrTryAgain) {
		t.Errorf("got %v", err)
	}
	wantTryAgain(t, l, q, "connect on "+s.Addr)
	s.Start(t)
	want(t, withPatience(t, l), q, "put")
}

// TestSlowServer: a server that hangs costs the time-out of a call, not the time-out of the function.
func TestSlowServer(t *testing.T) {
	s := testengine.FreshValkey(t)
	o := options(s.Addr)
	o.Timeout = 5 * time.Second
	l := open(t, o)
	q := question(newScope(), rec{"a", "1", "x", 0})
	want(t, withPatience(t, l), q, "put")
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	wantTryAgain(t, l, q, "enter records on "+s.Addr)
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	want(t, withPatience(t, l), q, "mine")
}

// TestNoMemory: a full server answers with an error, and still has its rows afterwards.
func TestNoMemory(t *testing.T) {
	s := testengine.FreshValkey(t)
	l := open(t, options(s.Addr))
	q := question(newScope(), rec{"a", "1", "x", 0})
	want(t, l, q, "put")
	admin(t, s.Addr, "CONFIG", "SET", "maxmemory", "1")
	wantTryAgain(t, l, question(q.Scope, rec{"b", "2", "x", 0}), "the server has no memory left")
	admin(t, s.Addr, "CONFIG", "SET", "maxmemory", "0")
	want(t, l, question(q.Scope, rec{"a", "1", "x", 0}, rec{"b", "2", "x", 0}), "mine put")
}

// TestForgottenScript: if the script was removed, it is loaded again.
func TestForgottenScript(t *testing.T) {
	s := testengine.FreshValkey(t)
	l := open(t, options(s.Addr))
	q := question(newScope(), many(50)...)
	want(t, l, q, repeated("put", 50))
	admin(t, s.Addr, "SCRIPT", "FLUSH")
	want(t, l, q, repeated("mine", 50))
}

// TestFlush: a flush loses all rows, but no record is lost.
func TestFlush(t *testing.T) {
	s := testengine.FreshValkey(t)
	l := open(t, options(s.Addr))
	q := question(newScope(), rec{"a", "1", "x", 0}, rec{"a", "2", "x", 0})
	want(t, l, q, "put same")
	admin(t, s.Addr, "FLUSHALL")
	want(t, l, q, "put same")
}

// TestRepliesOfOthers: rows of another version are faults, and make no record a copy.
func TestRepliesOfOthers(t *testing.T) {
	l := open(t, options(testengine.Valkey(t)))
	for name, source := range map[string]string{
		"a letter":  "return 'x'",
		"too short": "return ''",
		"no text":   "return {1}",
		"an error":  "return redis.error_reply('ONCEBOX rows of another layout')",
	} {
		l.servers[0].close()
		l.servers[0].source = source
		got, err := l.Enter(t.Context(), question(newScope(), rec{"a", "1", "x", 0}))
		if err != nil || got[0].Err == nil || got[0].Found != dedupe.NotKnown || errors.Is(got[0].Err, dedupe.ErrTryAgain) {
			t.Errorf("%s: got %s, %v", name, texts(got), err)
		}
	}
}

// endpoint is an address that leads to the primary, like the address of a managed service.
type endpoint struct {
	net.Listener
	primary atomic.Pointer[string]
	mu      sync.Mutex
	open    []net.Conn
}

func newEndpoint(t testing.TB, primary string, wrap ...func(net.Listener) net.Listener) *endpoint {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrap {
		listener = w(listener)
	}
	e := &endpoint{Listener: listener}
	e.primary.Store(&primary)
	t.Cleanup(func() { _ = e.Close(); e.cut() })
	go e.serve()
	return e
}

func (e *endpoint) serve() {
	for {
		client, err := e.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", *e.primary.Load())
		if err != nil {
			_ = client.Close()
			continue
		}
		e.mu.Lock()
		e.open = append(e.open, client, server)
		e.mu.Unlock()
		go pump(client, server)
		go pump(server, client)
	}
}

func pump(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}

func (e *endpoint) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, conn := range e.open {
		_ = conn.Close()
	}
	e.open = nil
}

// replicate makes a server a replica of a primary and waits until it has all data.
func replicate(t testing.TB, replica, primary *testengine.ValkeyServer) {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	admin(t, replica.Addr, "REPLICAOF", host, port)
	offset := func(address, field string) string {
		info, err := admin(t, address, "INFO", "replication").ToString()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(info) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
				return value
			}
		}
		return ""
	}
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if offset(replica.Addr, "master_link_status") == "up" &&
			offset(replica.Addr, "slave_repl_offset") == offset(primary.Addr, "master_repl_offset") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the replica does not catch up")
		}
	}
}

// TestFailover: exactly the rows that the replica did not have yet are lost. Copies of their records are delivered,
// and no record is lost.
func TestFailover(t *testing.T) {
	primary, replica := testengine.FreshValkey(t), testengine.FreshValkey(t, "--repl-diskless-sync-delay", "0")
	e := newEndpoint(t, primary.Addr)
	l := open(t, options(e.Addr().String()))
	scope := newScope()
	want(t, l, question(scope, rec{"early", "1", "x", 0}, rec{"name", "2", "x", 0}), "put put")
	replicate(t, replica, primary)
	admin(t, replica.Addr, "REPLICAOF", "127.0.0.1", "1") // cuts the link; the replica keeps its rows
	want(t, l, question(scope, rec{"late", "3", "x", 0}, rec{"name", "4", "y", 0}), "put put1")

	primary.Kill()
	admin(t, replica.Addr, "REPLICAOF", "NO", "ONE")
	e.primary.Store(&replica.Addr)
	want(t, withPatience(t, l), question(scope,
		rec{"early", "1", "x", 0}, rec{"early", "5", "x", 0}, // kept
		rec{"late", "6", "x", 0}, rec{"late", "3", "x", 0}, // lost: the copy is new, and the original becomes its copy
		rec{"name", "4", "y", 0}, // lost, but it gets the same id again
	), "mine same put same put1")
}

// demoted returns a ledger on a primary that was replaced while its connection stays open. This primary has the row of
// record 1, and the new primary does not.
func demoted(t testing.TB, source string) (l *Ledger, scope string) {
	primary, replica := testengine.FreshValkey(t), testengine.FreshValkey(t)
	e := newEndpoint(t, primary.Addr)
	l = open(t, options(e.Addr().String()))
	l.servers[0].source = source
	l.servers[0].option.PipelineMultiplex = -1 // one connection: a second one could be opened later, to the new primary
	scope = newScope()
	want(t, l, question(scope, rec{"b", "0", "x", 0}), "put")
	replicate(t, replica, primary)
	admin(t, replica.Addr, "REPLICAOF", "NO", "ONE")
	want(t, l, question(scope, rec{"a", "1", "x", 0}), "put")
	e.primary.Store(&replica.Addr)
	admin(t, primary.Addr, "REPLICAOF", "127.0.0.1", "1") // it does not get the rows of the new primary yet
	return l, scope
}

// TestDemotedPrimary: a primary that becomes a replica keeps its connections open. It answers with errors, and the
// ledger connects to the new primary.
func TestDemotedPrimary(t *testing.T) {
	l, scope := demoted(t, enterScript)
	wantTryAgain(t, l, question(scope, rec{"b", "2", "x", 0}), "READONLY")
	want(t, withPatience(t, l), question(scope, rec{"b", "2", "x", 0}, rec{"a", "1", "x", 0}), "same put")
}

// bothDropped shows how two copies are both dropped if a replaced primary answers. The function of each ends before it
// delivers, and then each finds the other one.
func bothDropped(t testing.TB, source string) {
	l, scope := demoted(t, source)
	one, two := question(scope, rec{"a", "1", "x", 0}), question(scope, rec{"a", "2", "x", 0})
	other := open(t, options(l.servers[0].address)) // another function, which asks the new primary
	other.servers[0].source = source
	want(t, other, two, "put")
	dropped := 0
	for ledger, q := range map[*Ledger]dedupe.Question{l: two, other: one} {
		got, err := ledger.Enter(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Found == dedupe.Same {
			dropped++
		}
	}
	if dropped == 2 {
		t.Error("both copies are dropped")
	}
}

func TestNoReplacedPrimaryAnswers(t *testing.T) {
	bothDropped(t, enterScript)
	mutanttest.MustFail(t, func(t testing.TB) { bothDropped(t, strings.TrimPrefix(enterScript, "#!lua\n")) })
}
