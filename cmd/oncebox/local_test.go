package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
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
	return s.do(request)
}

func (s *shell) do(request *http.Request) httpReply {
	s.Helper()
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
	s.run(exitDone, "campaign", "create", "autumn")
	s.run(exitDone, "campaign", "set", "autumn", "--closes", "2020-01-01")
	for _, name := range []string{"empty", "gone"} {
		s.run(exitDone, "campaign", "create", name)
	}
	s.run(exitDone, "load", "gone", s.file("gone.txt", "G-1\n"))
	s.run(exitDone, "claim", "gone", "bob")
	if _, example := s.serveWithExample(); example != "no campaign has free items now; autumn is closed: oncebox campaign show autumn" {
		t.Errorf("unexpected example %q", example)
	}
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
	s.run(exitUsage, "local", "--addr", addr).saying(t,
		"oncebox: --addr "+addr+": address already in use\nChoose another port, for example --addr 127.0.0.1:")
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
