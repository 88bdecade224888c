//go:build unix

package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimlink"
)

var screenshots = flag.Bool("screenshots", false, "write the screenshots of docs/page-and-links.md")

// TestPage drives the claim page of `oncebox local` in Chromium through all its states; drive.js has the steps. In
// each state axe-core finds nothing, in light and dark, narrow and wide. No token is in a request's address or
// Referer, or in the server's log.
func TestPage(t *testing.T) {
	testengine.CheckOnly(t)
	browser := testengine.Tool(t, "browser")
	s := newServer(t)
	s.campaigns()
	allowed, foreign := s.shop(), s.shop()
	t.Setenv("ONCEBOX_CORS_ORIGINS", allowed.URL)
	s.links = s.serve("--link-keys", s.keyFile)
	config := map[string]any{
		"links": s.links, "open": s.serve(), "tokens": s.tokens(), "allowed": allowed.URL, "foreign": foreign.URL,
		"seatmap": s.seatmap(), "screenshots": "",
	}
	config["challenged"] = s.challenged() // the last one: it sets variables
	if *screenshots {
		config["screenshots"] = "../../docs/picture"
	}
	encoded, err := json.Marshal(config)
	must(t, err)
	drive := exec.CommandContext(t.Context(), browser, "drive.js", string(encoded))
	drive.Stderr = os.Stderr
	out, err := drive.Output()
	if err != nil {
		t.Errorf("drive.js: %v", err)
	}
	passed := 0
	for line := range strings.Lines(string(out)) {
		var result struct {
			Name   string
			Errors []string
		}
		must(t, json.Unmarshal([]byte(line), &result))
		t.Run(result.Name, func(t *testing.T) {
			for _, e := range result.Errors {
				t.Error(e)
			}
		})
		passed++
	}
	if passed == 0 {
		t.Error("drive.js tried nothing")
	}
	log := s.log.String()
	if !strings.Contains(log, `"GET /c/{campaign}"`) {
		t.Error("the log has no line about the page")
	}
	for name, token := range s.tokens() {
		if strings.Contains(log, token) {
			t.Errorf("the token %s is in the log", name)
		}
	}
}

// server runs `oncebox local`, with one store for all servers of a test.
type server struct {
	*testing.T
	program, store, keyFile string
	key                     *claimlink.PrivateKey
	signed                  map[string]string
	links                   string // the address of the server with links
	log                     *lockedBuffer
}

func newServer(t *testing.T) *server {
	dir := t.TempDir()
	s := &server{
		T: t, program: filepath.Join(dir, "oncebox"), store: "sqlite:" + filepath.Join(dir, "codes.db"),
		keyFile: filepath.Join(dir, "link.key.pub"), log: &lockedBuffer{},
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", s.program, "../../cmd/oncebox")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var err error
	s.key, err = claimlink.NewKey()
	must(t, err)
	public, err := s.key.Public()
	must(t, err)
	must(t, os.WriteFile(s.keyFile, []byte(public), 0o600))
	s.run("init")
	return s
}

func (s *server) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, s.program, append([]string{"--store", s.store}, args...)...)
}

func (s *server) run(args ...string) {
	s.Helper()
	if out, err := s.command(s.Context(), args...).CombinedOutput(); err != nil {
		s.Fatalf("oncebox %v: %v\n%s", args, err, out)
	}
}

func (s *server) load(campaign string, items ...string) {
	s.Helper()
	load := s.command(s.Context(), "load", campaign, "-")
	load.Stdin = strings.NewReader(strings.Join(items, "\n") + "\n")
	if out, err := load.CombinedOutput(); err != nil {
		s.Fatalf("oncebox load: %v\n%s", err, out)
	}
}

// soon is the time from the creation of the campaign "soon" until it opens. The page waits for it.
const soon = 10 * time.Second

// campaigns makes a campaign for each state.
func (s *server) campaigns() {
	for name, flags := range map[string][]string{
		"spring": nil, "busy": nil, "offline": nil, "broken": nil, "themed": nil, "sold-out": nil, "closed": nil, "embedded": nil,
		"seats": {"--hold", "15m"}, "later": {"--opens", "2099-03-01T09:00:00Z"}, "last": nil,
		"yoga": {"--scope", "term"}, "judo": {"--scope", "term"},
		"soon": {"--opens", time.Now().Add(soon).UTC().Format(time.RFC3339)},
	} {
		s.run(append([]string{"campaign", "create", name}, flags...)...)
		if name != "sold-out" {
			s.load(name, strings.ToUpper(name)+"-MH47-YFPN", strings.ToUpper(name)+"-2", strings.ToUpper(name)+"-3")
		}
	}
	s.run("campaign", "create", "stage", "--columns")
	seats := filepath.Join(s.TempDir(), "seats.csv")
	must(s.T, os.WriteFile(seats, []byte("seat,row,note,aisle\n12A,12,<b>at the back</b> & left,\n"), 0o600))
	s.run("load", "stage", seats, "--column", "seat", "--with", "row,note,aisle")
	s.load("sold-out", "ONE")
	s.run("claim", "sold-out", "somebody")
	s.run("claim", "yoga", "ann")
	s.run("campaign", "close", "closed")
	s.run("campaign", "set", "last", "--closes", "2001-01-01")
	s.run("campaign", "page", "themed", "--language", "de", "--title", "Frühling & mehr",
		"--text", "10 % auf alles.\nBis Ende März.", "--theme", "testdata/theme.css", "--logo", "testdata/logo.png")
}

// tokens returns links of ann, by their purpose.
func (s *server) tokens() map[string]string {
	if s.signed != nil {
		return s.signed
	}
	sign := func(c claimlink.Claims) string {
		c.Claimant = "ann"
		if c.Expires.IsZero() {
			c.Expires = time.Now().Add(time.Hour)
		}
		token, err := s.key.Sign(c)
		must(s.T, err)
		return token
	}
	s.signed = map[string]string{
		"expired": sign(claimlink.Claims{Campaign: "spring", Expires: time.Now().Add(-time.Hour)}),
		"term":    sign(claimlink.Claims{Scope: "term"}),
	}
	for _, campaign := range []string{
		"spring", "sold-out", "later", "soon", "closed", "last", "busy", "offline", "broken", "seats", "themed", "embedded", "stage",
	} {
		s.signed[campaign] = sign(claimlink.Claims{Campaign: campaign})
	}
	return s.signed
}

// challenged serves an open API with a challenge, whose provider accepts one solution.
func (s *server) challenged() (base string) {
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"success":%t}`, r.FormValue("response") == "right" && r.FormValue("secret") == "the secret")
	}))
	s.Cleanup(provider.Close)
	secret := filepath.Join(s.TempDir(), "secret")
	must(s.T, os.WriteFile(secret, []byte("the secret\n"), 0o600))
	s.Setenv("ONCEBOX_CHALLENGE", "turnstile?site-key=site&secret-file="+secret+"&url="+provider.URL)
	return s.serve()
}

// seatmap starts examples/seatmap.
func (s *server) seatmap() (base string) {
	page, api := testengine.Address(s.T), testengine.Address(s.T)
	startExample(s.T, "seatmap", page, api)
	eventually(s.T, "http://"+page+"/campaigns/hall/items")
	return "http://" + page
}

// shop is a site of another origin whose page embeds the element.
func (s *server) shop() *httptest.Server {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><html lang="en"><title>Shop</title><main><h1>Shop</h1>
<script src="%s/c/embedded/claim.js" defer></script><oncebox-claim></oncebox-claim></main></html>`, s.links)
	}))
	s.Cleanup(shop.Close)
	return shop
}

var servingOn = regexp.MustCompile(`on (http://127\.0\.0\.1:\d+)`)

// serve starts `oncebox local` on a free port. The test ends it.
func (s *server) serve(flags ...string) (base string) {
	s.Helper()
	local := s.command(context.WithoutCancel(s.Context()),
		append([]string{"--log-level", "debug", "local", "--addr", "127.0.0.1:0"}, flags...)...)
	stderr, err := local.StderrPipe()
	must(s.T, err)
	must(s.T, local.Start())
	copied := make(chan struct{})
	s.Cleanup(func() {
		_ = local.Process.Signal(os.Interrupt)
		<-copied
		if err := local.Wait(); err != nil {
			s.Errorf("local ended with %v", err)
		}
	})
	reader := bufio.NewReader(stderr)
	line, err := reader.ReadString('\n')
	match := servingOn.FindStringSubmatch(line)
	go func() {
		defer close(copied)
		_, _ = io.Copy(s.log, reader)
	}()
	if match == nil {
		s.Fatalf("local said %q (%v)", line, err)
	}
	return match[1]
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
