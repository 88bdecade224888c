package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

var servingOn = regexp.MustCompile(`on (http://127\.0\.0\.1:\d+)`)

// serve starts `oncebox local` on a free port and returns its URL.
func (s *shell) serve() string {
	s.Helper()
	base, _ := s.serveWithExample()
	return base
}

// serveWithExample starts `oncebox local` on a free port, with flags. It returns its URL and the example that it prints. At the end of
// the test it is interrupted and must end well.
func (s *shell) serveWithExample(flags ...string) (base, example string) {
	s.Helper()
	local := s.command(context.Background(), nil, append([]string{"local", "--addr", "127.0.0.1:0"}, flags...)...)
	stderr, err := local.StderrPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := local.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = local.Process.Signal(os.Interrupt)
		if err := local.Wait(); err != nil {
			s.Errorf("local ended with %v", err)
		}
	})
	reader := bufio.NewReader(stderr)
	line, err := reader.ReadString('\n')
	match := servingOn.FindStringSubmatch(line)
	if match == nil {
		s.Fatalf("local said %q (%v)", line, err)
	}
	if example, err = reader.ReadString('\n'); err != nil {
		s.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }() // its log lines
	return match[1], strings.TrimSuffix(example, "\n")
}

type httpReply struct {
	status int
	header http.Header
	body   string
}

func (s *shell) post(url, body string) httpReply {
	s.Helper()
	return s.send(http.MethodPost, url, body)
}

func (s *shell) send(method, url, body string) httpReply {
	s.Helper()
	return s.sendAs("", method, url, body)
}

// sendAs sends a request with the token of a personal link, if there is one.
func (s *shell) sendAs(token, method, url, body string) httpReply {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return httpReply{response.StatusCode, response.Header, string(text)}
}

// curl sends the request of a curl command, as a shell reads it.
func (s *shell) curl(command string) httpReply {
	s.Helper()
	out, err := exec.CommandContext(s.Context(), "sh", "-c", `curl() { printf '%s\0' "$@"; }; `+command).Output()
	if err != nil {
		s.Fatalf("%s: %v", command, err)
	}
	args := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	var method, url, header, body string
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-X":
			i++
			method = args[i]
		case "-H":
			i++
			header = args[i]
		case "-d":
			i++
			body = args[i]
		default:
			url = args[i]
		}
	}
	if header != "Content-Type: application/json" {
		s.Errorf("%s: unexpected header %q", command, header)
	}
	return s.send(method, url, body)
}

// TestLocal: the HTTP API over a socket, ended by Ctrl-C.
func TestLocal(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
	base := s.serve()

	claims := base + "/campaigns/spring/claims"
	first := s.post(claims, `{"claimant":"ann/é #"}`)
	if first.status != http.StatusCreated || !strings.Contains(first.body, `"item":"A-1"`) {
		t.Fatalf("want 201 with the item, got %+v", first)
	}
	location := first.header.Get("Location")
	again := s.send(http.MethodGet, base+location, "")
	if again.status != http.StatusOK || !strings.Contains(again.body, `"A-1"`) {
		t.Errorf("GET %s: want the claim, got %+v", location, again)
	}
	head := s.send(http.MethodHead, base+location, "")
	if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Type") != again.header.Get("Content-Type") {
		t.Errorf("HEAD %s: want the headers of GET, got %+v", location, head)
	}
	for _, test := range []struct {
		name, body string
		status     int
	}{
		{"nothing left", `{"claimant":"bob"}`, http.StatusConflict},
		{"invalid UTF-8", "{\"claimant\":\"\xff\"}", http.StatusBadRequest},
		{"a large body", strings.Repeat("x", 1<<20), http.StatusRequestEntityTooLarge},
	} {
		if got := s.post(claims, test.body); got.status != test.status {
			t.Errorf("%s: want %d, got %+v", test.name, test.status, got)
		}
	}
	if got := s.send(http.MethodHead, base+"/campaigns/spring/claims/nobody", ""); got.status != http.StatusNotFound || got.body != "" {
		t.Errorf("HEAD of no claim: want 404, got %+v", got)
	}
}

// TestLocalExample: the curl command that local prints makes a claim, and / says what answers here.
func TestLocalExample(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "autumn", "--closes", "2020-01-01")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
	base, example := s.serveWithExample()
	command, ok := strings.CutPrefix(example, "try: ")
	if !ok || !strings.HasPrefix(command, "curl ") {
		t.Fatalf("unexpected example %q", example)
	}
	if got := s.curl(command); got.status != http.StatusCreated || !strings.Contains(got.body, `"item":"A-1"`) {
		t.Errorf("%s: want the item, got %+v", command, got)
	}

	var root struct{ Service, Version, Store, Example string }
	reply := s.send(http.MethodGet, base+"/", "")
	if err := json.Unmarshal([]byte(reply.body), &root); err != nil || reply.status != http.StatusOK || reply.header.Get("Content-Type") != "application/json" {
		t.Fatalf("GET /: %+v (%v)", reply, err)
	}
	if root.Service != "oncebox claim API" || root.Version == "" || root.Store != "sqlite:oncebox.db" {
		t.Errorf("unexpected %+v", root)
	}
	if got := s.curl(strings.Replace(root.Example, "CAMPAIGN", "spring", 1)); got.status != http.StatusOK {
		t.Errorf("%s: want the claim again, got %+v", root.Example, got)
	}
	if got := s.curl(root.Example); got.status != http.StatusBadRequest && got.status != http.StatusNotFound {
		t.Errorf("%s: want a refusal of the placeholder, got %+v", root.Example, got)
	}
	if head := s.send(http.MethodHead, base+"/", ""); head.status != http.StatusOK || head.body != "" {
		t.Errorf("HEAD /: %+v", head)
	}
	if post := s.post(base+"/", "{}"); post.status != http.StatusNotFound {
		t.Errorf("POST /: want 404, got %+v", post)
	}
}

// TestLocalWithoutCampaigns: the example says what to do first.
func TestLocalWithoutCampaigns(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	base, example := s.serveWithExample()
	if want := "the store has no campaigns yet; make one: oncebox campaign create spring"; example != want {
		t.Errorf("want %q, got %q", want, example)
	}
	addr := strings.TrimPrefix(base, "http://")
	s.run(exitUsage, "local", "--addr", addr).plainly(t, "oncebox: --addr "+addr+": address already in use\nChoose another port, for example --addr 127.0.0.1:8081.\n")
}

// TestLocalHosts: a web page whose name leads to this machine (DNS rebinding) reads no claim and not what is served
// here. The operator names the hosts of a proxy.
func TestLocalHosts(t *testing.T) {
	t.Parallel()
	w := newFixture(t, memstore.NewItems(), itembank.Settings{})
	bank := itembank.NewOperator(w.store)
	_, err := bank.Load(t.Context(), w.name, itembank.Items("CODE-1"), nil)
	if err == nil {
		_, err = bank.Claim(t.Context(), w.name, "ann")
	}
	if err != nil {
		t.Fatal(err)
	}
	const rebound, proxy = "rebound.attacker.example:8080", "claims.example"
	for _, c := range []struct {
		name    string
		command localCommand
		refused []string
		served  []string
	}{
		{"loopback", localCommand{}, []string{rebound, proxy}, []string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080"}},
		{"proxy", localCommand{AllowHost: []string{"other.example", proxy}}, []string{rebound}, []string{proxy, "localhost"}},
		{"remote", localCommand{AllowRemote: true}, nil, []string{rebound}},
		{"remote proxy", localCommand{AllowRemote: true, AllowHost: []string{proxy}}, []string{rebound}, []string{proxy}},
	} {
		o, err := handlerOptions([]string{"ONCEBOX_CORS_ORIGINS=http://" + rebound})
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		h := c.command.handler(&cli.App{Globals: cli.Globals{Store: "dynamodb:"}}, claimapi.New(bank.Bank, o.ClaimantFrom, log, o.HandlerOptions()...), o)
		for status, hosts := range map[int][]string{http.StatusMisdirectedRequest: c.refused, http.StatusOK: c.served} {
			for _, host := range hosts {
				for path, says := range map[string]string{"/campaigns/" + w.name + "/claims/ann": "CODE-1", "/": "dynamodb:"} {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
					r.Host = host
					reply := httptest.NewRecorder()
					h.ServeHTTP(reply, r)
					if reply.Code != status || strings.Contains(reply.Body.String(), says) != (status == http.StatusOK) {
						t.Errorf("%s: GET %s for %s is answered %d %s", c.name, path, host, reply.Code, reply.Body)
					}
				}
			}
		}
	}
}

// TestLocalWithoutExample: the server goes on if the campaigns cannot be read for the example.
func TestLocalWithoutExample(t *testing.T) {
	t.Parallel()
	w := newFixture(t, memstore.NewItems(), itembank.Settings{})
	w.store.Before = func(string) error { return itembank.ErrTryAgain }
	var said strings.Builder
	a := &cli.App{Process: cli.Process{Stderr: &said}}
	remarkExample(t.Context(), a, itembank.NewOperator(w.store), "http://127.0.0.1:8080", claimapi.Options{})
	if want := "no example, because the campaigns could not be read: itembank: try again\n"; said.String() != want {
		t.Errorf("want %q, got %q", want, said.String())
	}
}

// TestLocalSources: the server refuses sources of claimants that only API Gateway verifies. It says what callers of a
// remote address could do with the source that is set.
func TestLocalSources(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "links", "keygen", "link.key")
	for _, source := range []string{"jwt:sub", "iam", "iam:role"} {
		s.env = []string{"ONCEBOX_CLAIMANT_FROM=" + source}
		s.run(exitUsage, "local").plainly(t, "oncebox: ONCEBOX_CLAIMANT_FROM="+source+" needs API Gateway, which verifies the callers; "+
			"there is none here\nUse ONCEBOX_CLAIMANT_FROM=body here, or --link-keys FILE for personal links.\n")
	}
	s.env = []string{"ONCEBOX_CALLER=iam"}
	s.run(exitUsage, "local").saying(t, "oncebox: ONCEBOX_CALLER=iam needs API Gateway, which verifies the callers; there is none here")
	s.env = nil
	const remote = `oncebox: --addr "0.0.0.0:0": other machines can reach this address, and `
	s.run(exitUsage, "local", "--addr", "0.0.0.0:0").saying(t, remote+"there is no authentication: every caller can claim for any claimant")
	links := s.run(exitUsage, "local", "--addr", "0.0.0.0:0", "--link-keys", "link.key.pub")
	links.saying(t, remote+"everybody with a personal link can claim; the connection is not encrypted")
	for _, host := range []string{"https://claims.example", "claims.example:8080", "claims.example/", "a b"} {
		s.run(exitUsage, "local", "--allow-host="+host).saying(t, fmt.Sprintf("--allow-host %q: must be a host name without a scheme", host))
	}
}
