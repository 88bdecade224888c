package valkeystore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// many returns n records with different ids.
func many(n int) (all []rec) {
	for i := range n {
		all = append(all, rec{fmt.Sprint("id-", i), fmt.Sprint(i), "x", 0})
	}
	return all
}

func repeated(answer string, n int) string {
	return strings.TrimSuffix(strings.Repeat(answer+" ", n), " ")
}

// TestSeveralServers: each server has a part of the keys.
func TestSeveralServers(t *testing.T) {
	a, b, c := testengine.FreshValkey(t), testengine.FreshValkey(t), testengine.FreshValkey(t)
	l := open(t, options(a.Addr, b.Addr, c.Addr))
	const n = 300
	q := question(newScope(), many(n)...)
	want(t, l, q, repeated("put", n))
	want(t, open(t, options(a.Addr, b.Addr, c.Addr)), q, repeated("mine", n))
	for _, s := range []*testengine.ValkeyServer{a, b, c} {
		if keys, err := admin(t, s.Addr, "DBSIZE").AsInt64(); err != nil || keys < 10 {
			t.Errorf("%s has %d hashes, %v", s.Addr, keys, err)
		}
	}
}

// TestCluster: all keys of a script call are in one slot, and the client finds the nodes of a cluster by itself. A
// replica that is down does not matter.
func TestCluster(t *testing.T) {
	primary, primaryBus := clusterNode(t)
	l := open(t, options(primary.Addr))
	q := question(newScope(), many(300)...)
	if err := l.Warm(t.Context(), q.Scope, retention); !errors.Is(err, dedupe.ErrTryAgain) { // no node has the slots yet
		t.Errorf("want %v, got %v", dedupe.ErrTryAgain, err)
	}
	admin(t, primary.Addr, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, "the cluster is up", func() bool { return l.Warm(t.Context(), q.Scope, retention) == nil })
	want(t, l, q, repeated("put", 300))
	want(t, l, q, repeated("mine", 300))

	replica, _ := clusterNode(t)
	host, port, _ := net.SplitHostPort(primary.Addr)
	id, err := admin(t, primary.Addr, "CLUSTER", "MYID").ToString()
	if err != nil {
		t.Fatal(err)
	}
	admin(t, replica.Addr, "CLUSTER", "MEET", host, port, primaryBus)
	says := func(s *testengine.ValkeyServer, text string, command ...string) func() bool {
		return func() bool {
			reply, err := admin(t, s.Addr, command...).ToAny()
			return err == nil && strings.Contains(fmt.Sprint(reply), text)
		}
	}
	eventually(t, "the replica knows the primary", says(replica, id, "CLUSTER", "NODES"))
	eventually(t, "the primary has the slots", says(replica, "cluster_state:ok", "CLUSTER", "INFO"))
	admin(t, replica.Addr, "CLUSTER", "REPLICATE", id)
	_, port, _ = net.SplitHostPort(replica.Addr)
	eventually(t, "the primary knows the replica", says(primary, port, "CLUSTER", "SLOTS"))
	replica.Kill()
	want(t, open(t, options(primary.Addr)), q, repeated("mine", 300))
}

// clusterNode starts a node of a cluster, and returns the port that other nodes ask.
func clusterNode(t *testing.T) (node *testengine.ValkeyServer, bus string) {
	_, bus, _ = net.SplitHostPort(testengine.Address(t))
	return testengine.FreshValkey(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "600000",
		"--cluster-config-file", filepath.Join(t.TempDir(), "nodes.conf")), bus
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// TestSkewedKeys: if one key has more records than fit into a script call, they keep their order.
func TestSkewedKeys(t *testing.T) {
	l := open(t, options(testengine.Valkey(t)))
	q := question(newScope())
	wanted := []string{"put"}
	for i := range 2*maxRecords + 10 {
		fingerprint := fmt.Sprint(i)
		if i%2 == 1 {
			fingerprint = fmt.Sprint(i - 1) // a copy of the record before
		}
		q.Records = append(q.Records, rec{"a", fmt.Sprint(i), fingerprint, 0}.candidate())
		switch {
		case i == 0:
		case i == 1:
			wanted = append(wanted, "same")
		case i%2 == 1:
			wanted = append(wanted, "same1")
		default:
			wanted = append(wanted, "put1")
		}
	}
	want(t, l, q, strings.Join(wanted, " "))
}

// TestWrongSettings: each wrong setting is refused with the reason, and not with ErrTryAgain.
func TestWrongSettings(t *testing.T) {
	shared := testengine.Valkey(t)
	two := func(o Options) Options { o.Addresses = []string{"a:1", "b:2"}; return o }
	for name, test := range map[string]struct {
		options Options
		says    string
	}{
		"no server":     {options(), "0 servers"},
		"no port":       {options("localhost"), `"localhost" is not HOST:PORT`},
		"twice":         {options("a:1", "a:1"), "a:1 is named twice"},
		"buckets":       {func() Options { o := options("a:1"); o.Buckets = -1; return o }(), "-1 buckets"},
		"since alone":   {func() Options { o := options("a:1"); o.Since = epoch; return o }(), "belong together"},
		"previous only": {func() Options { o := two(options()); o.Previous = &Servers{}; return o }(), "belong together"},
		"previous": {func() Options {
			o := two(options())
			o.Previous, o.Since = &Servers{Addresses: []string{"c"}}, epoch
			return o
		}(), `"c" is not HOST:PORT`},
	} {
		if _, err := Open(test.options); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: want %q, got %v", name, test.says, err)
		}
	}
	for name, test := range map[string]struct {
		retention dedupe.Retention
		says      string
	}{
		"for good":        {dedupe.Retention{ForGood: true}, "kept for ever"},
		"no window":       {dedupe.Retention{Horizon: time.Hour}, "window must be above 0"},
		"a short horizon": {dedupe.Retention{Window: time.Hour, Horizon: time.Minute}, "more than 32 slices of 1m0s"},
	} {
		q := question(newScope(), rec{"a", "1", "x", 0})
		q.Retention = test.retention
		l := open(t, options(shared))
		warm := l.Warm(t.Context(), q.Scope, q.Retention)
		got, err := l.Enter(t.Context(), q)
		if err == nil {
			err = got[0].Err
		}
		for _, err := range []error{warm, err} {
			if err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, dedupe.ErrTryAgain) {
				t.Errorf("%s: want %q, got %v", name, test.says, err)
			}
		}
	}
}

// TestFixedWithTheScope: with other buckets, or with a server at another place, no row would be found.
func TestFixedWithTheScope(t *testing.T) {
	a, b := testengine.FreshValkey(t), testengine.FreshValkey(t)
	q := question(newScope(), many(20)...)
	want(t, open(t, options(a.Addr, b.Addr)), q, repeated("put", 20))
	buckets := options(a.Addr, b.Addr)
	buckets.Buckets = 65
	for name, test := range map[string]struct {
		options Options
		says    string
	}{
		"buckets":      {buckets, "it is server 1 of 2, with 64 buckets, and the settings say server 1 of 2, with 65 buckets"},
		"another one":  {options(a.Addr), "it is server 1 of 2, with 64 buckets, and the settings say server 1 of 1"},
		"other places": {options(b.Addr, a.Addr), "it is server 2 of 2, with 64 buckets, and the settings say server 1 of 2"},
	} {
		l := open(t, test.options)
		got, err := l.Enter(t.Context(), q)
		if warm := l.Warm(t.Context(), q.Scope, retention); warm == nil || !strings.Contains(warm.Error(), test.says) {
			t.Errorf("%s: want %q, got %v", name, test.says, warm)
		}
		if err != nil || got[0].Err == nil || errors.Is(got[0].Err, dedupe.ErrTryAgain) {
			t.Errorf("%s: got %s, %v", name, texts(got), err)
		}
	}
	want(t, open(t, options(a.Addr, b.Addr)), q, repeated("mine", 20))
	for _, layout := range []string{"0", "2"} {
		admin(t, a.Addr, "SET", rowKey(q.Scope), `{"layout":`+layout+`}`)
		says := " has layout " + layout + ", and this version of oncebox reads layout 1; use the version that wrote it, or another scope"
		if err := open(t, options(a.Addr, b.Addr)).Warm(t.Context(), q.Scope, retention); err == nil ||
			!strings.HasSuffix(err.Error(), says) {
			t.Errorf("got %v", err)
		}
	}
}

// TestAnotherWindow: the slices of a scope keep their length, and a record sees as many slices as its window needs.
func TestAnotherWindow(t *testing.T) {
	l, scope := open(t, options(testengine.Valkey(t))), newScope()
	ask := func(r dedupe.Retention, answers string, all ...rec) {
		t.Helper()
		q := question(scope, all...)
		q.Retention = r
		want(t, l, q, answers)
	}
	ask(retention, "put", rec{"a", "1", "x", 0})
	longer := dedupe.Retention{Window: 5 * time.Hour, Horizon: 24 * time.Hour}
	ask(longer, "same same put", rec{"a", "2", "x", 5 * time.Hour}, rec{"a", "3", "x", -5 * time.Hour}, rec{"a", "4", "x", 7 * time.Hour})
	shorter := dedupe.Retention{Window: time.Minute, Horizon: time.Hour}
	ask(shorter, "same put", rec{"a", "5", "x", time.Minute}, rec{"a", "6", "x", 3 * time.Hour})
	for _, refused := range []struct {
		dedupe.Retention
		says string
	}{
		{dedupe.Retention{Window: 33 * time.Hour, Horizon: 24 * time.Hour}, "the window of 33h0m0s is more than 32 slices of 1h0m0s"},
		{dedupe.Retention{Window: time.Minute, Horizon: time.Minute}, "the horizon of 1m0s is shorter than the scope's slices of 1h0m0s"},
	} {
		q := question(scope, rec{"a", "7", "x", 0})
		q.Retention = refused.Retention
		if got, err := l.Enter(t.Context(), q); err != nil || !strings.Contains(text(got[0]), refused.says) {
			t.Errorf("want %q, got %s, %v", refused.says, texts(got), err)
		}
	}
}

// TestServersThatForget: a server that evicts is refused, and so is a server without the commands.
func TestServersThatForget(t *testing.T) {
	s := testengine.FreshValkey(t, "--maxmemory-policy", "volatile-lru")
	err := open(t, options(s.Addr)).Warm(t.Context(), newScope(), retention)
	if err == nil || !strings.Contains(err.Error(), "maxmemory-policy volatile-lru") || errors.Is(err, dedupe.ErrTryAgain) {
		t.Errorf("got %v", err)
	}
	admin(t, s.Addr, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	if err := open(t, options(s.Addr)).Warm(t.Context(), newScope(), retention); err != nil {
		t.Error(err)
	}
}

func TestInfo(t *testing.T) {
	for text, says := range map[string]string{
		"": "",
		"redis_version:6.2.14\r\nmaxmemory_policy:noeviction\r\n":                     "is Redis 6.2.14: use Valkey, or Redis 7.0",
		"redis_version:7.0.0\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n":          "",
		"redis_version:7.2.4\r\nvalkey_version:8.1.1\r\nmaxmemory_policy:allkeys-lfu": "has the maxmemory-policy allkeys-lfu",
		"redis_version:10.0.0": "",
	} {
		if err := checkInfo(text); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: want %q, got %v", text, says, err)
		}
	}
}

// TestTLS: the certificate of the server is checked.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // only for its certificate
	defer web.Close()
	e := newEndpoint(t, testengine.Valkey(t), func(l net.Listener) net.Listener { return tls.NewListener(l, web.TLS) })
	o := options(e.Addr().String())
	q := question(newScope(), rec{"a", "1", "x", 0})
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if err := open(t, o).Warm(t.Context(), q.Scope, retention); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("want a refusal of the certificate, got %v", err)
	}
	o.TLS = web.Client().Transport.(*http.Transport).TLSClientConfig
	want(t, open(t, o), q, "put")
}

// TestCredentials: a user needs few permissions, and a changed password is read again.
func TestCredentials(t *testing.T) {
	s := testengine.FreshValkey(t)
	admin(t, s.Addr, "ACL", "SETUSER", "ledger", "on", ">secret", "~{oncebox:*", "resetchannels", "-@all",
		"+evalsha", "+eval", "+script|load", "+set", "+get", "+hget", "+hset", "+exists", "+pexpireat", "+pexpiretime")
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options(s.Addr)
	o.Credentials = FromFile(file)
	q := question(newScope(), rec{"a", "1", "x", 0})
	write(`{"username": "ledger", "password": "wrong"}`)
	l := open(t, o)
	if got, err := l.Enter(t.Context(), q); err != nil || got[0].Err == nil || errors.Is(got[0].Err, dedupe.ErrTryAgain) ||
		strings.Contains(text(got[0]), "wrong\"") {
		t.Errorf("got %s, %v", texts(got), err)
	}
	write(`{"username": "ledger", "password": "secret"}` + "\n")
	want(t, l, q, "put")
	admin(t, s.Addr, "ACL", "SETUSER", "ledger", "resetpass", ">changed")
	admin(t, s.Addr, "CLIENT", "KILL", "USER", "ledger")
	write(`{"username": "ledger", "password": "changed"}`)
	want(t, withPatience(t, l), q, "mine")
}

func TestParse(t *testing.T) {
	o, _, err := Parse("valkeys://a:1,b:2/")
	if err != nil || o.TLS == nil || fmt.Sprint(o.Addresses) != "[a:1 b:2]" {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, _, err = Parse("valkey://a:1"); err != nil || o.TLS != nil || fmt.Sprint(o.Servers) != "{[a:1] 65536}" {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, text := range []string{
		"", "valkey://", "valkey:a:1", "redis://a:1", "valkey://a", "valkey://a:1/0", "valkey://[::1]:6379/0", "valkey://a:1,", "valkey://secret@a:1", "valkey://a:1,a:1",
	} {
		if _, _, err := Parse(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	for text, want := range map[string]Credentials{
		" word \n": {Password: "word"}, `{"username":"u","password":"p","host":"h"}`: {"u", "p"}, `{"password":"p"}`: {"", "p"},
	} {
		if got, err := ParseCredentials([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "{", `{"username":"u"}`} {
		if _, err := ParseCredentials([]byte(text)); err == nil {
			t.Errorf("%q: want an error", text)
		}
	}
}
