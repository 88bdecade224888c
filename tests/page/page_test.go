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
	"iter"
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
	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

var (
	screenshots = flag.Bool("screenshots", false, "write the screenshots of docs/page-and-links.md")
	forms       = flag.String("forms", "", "a folder for pictures of each state, narrow and wide, in light and dark")
)

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
		"seatmap": s.seatmap(), "screenshots": "", "forms": *forms,
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

// server runs `oncebox local`, with one store for all servers of a test. The test fills the store by itself: a command
// for each campaign would take longer than the browser.
type server struct {
	*testing.T
	program, path, keyFile string
	bank                   *itembank.Operator
	key                    *claimlink.PrivateKey
	signed                 map[string]string
	links                  string // the address of the server with links
	log                    *lockedBuffer
}

func newServer(t *testing.T) *server {
	dir := t.TempDir()
	s := &server{
		T: t, program: filepath.Join(dir, "oncebox"), path: filepath.Join(dir, "codes.db"),
		keyFile: filepath.Join(dir, "link.key.pub"), log: &lockedBuffer{},
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", s.program, "../../cmd/oncebox")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	store, err := sqlitestore.Create(t.Context(), s.path)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	s.bank = itembank.NewOperator(store)
	s.key, err = claimlink.NewKey()
	must(t, err)
	public, err := s.key.Public()
	must(t, err)
	must(t, os.WriteFile(s.keyFile, []byte(public), 0o600))
	return s
}

func (s *server) create(campaign string, settings itembank.Settings, items ...string) {
	s.Helper()
	_, _, err := s.bank.CreateCampaign(s.Context(), campaign, settings)
	must(s.T, err)
	if len(items) > 0 {
		_, err = s.bank.Load(s.Context(), campaign, itembank.Items(items...), nil)
		must(s.T, err)
	}
}

func (s *server) claim(campaign, claimant string, items ...string) {
	s.Helper()
	_, err := s.bank.Claim(s.Context(), campaign, claimant, itembank.Choosing(items...))
	must(s.T, err)
}

func (s *server) setPage(campaign string, page claimpage.Page) {
	s.Helper()
	document, err := page.Encode()
	must(s.T, err)
	must(s.T, s.bank.SetPageDocument(s.Context(), campaign, document))
}

// campaigns makes a campaign for each state.
func (s *server) campaigns() {
	hold := itembank.Settings{Hold: 15 * time.Minute}
	for name, settings := range map[string]itembank.Settings{
		"spring": {}, "busy": {}, "offline": {}, "broken": {}, "themed": {}, "closed": {}, "embedded": hold, "seats": hold,
		"later": {OpensAt: time.Date(2099, 3, 1, 9, 0, 0, 0, time.UTC)}, "last": {ClosesAt: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)},
		"yoga": {Scope: "term"}, "judo": {Scope: "term"}, "soon": {},
	} {
		code := strings.ToUpper(name)
		s.create(name, settings, code+"-MH47-YFPN", code+"-2", code+"-3")
	}
	s.create("sold-out", itembank.Settings{}, "ONE")
	s.claim("sold-out", "somebody")
	s.create("comes-back", hold, "LAST")
	s.claim("comes-back", "somebody")
	s.create("not-loaded", itembank.Settings{})
	s.create("pair", itembank.Settings{Choice: true}, "PAIR-1", "PAIR-2")
	s.claim("pair", "ann", "PAIR-2", "PAIR-1")
	s.claim("yoga", "ann")
	s.create("stage", itembank.Settings{Columns: true})
	seat := itembank.Line{Number: 1, Item: "12A", Columns: []itembank.Column{
		{Name: "row", Value: "12"}, {Name: "note", Value: "<b>at the back</b> & left"}, {Name: "aisle"},
	}}
	_, err := s.bank.Load(s.Context(), "stage", func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) { yield(seat, nil) }
	}, nil)
	must(s.T, err)
	must(s.T, s.bank.CloseCampaign(s.Context(), "closed"))
	s.setPage("closed", claimpage.Page{Languages: map[string]claimpage.Texts{"en": {"title": "Summer sale"}}})
	theme, err := os.ReadFile("testdata/theme.css")
	must(s.T, err)
	logo, err := os.ReadFile("testdata/logo.png")
	must(s.T, err)
	s.setPage("themed", claimpage.Page{Theme: string(theme), Logo: logo, Languages: map[string]claimpage.Texts{"de": {
		"title": "Frühling & mehr", "text": "10 % auf alles.\nBis Ende März.",
		"shop_url": "https://shop.example/", "contact_url": "mailto:hilfe@shop.example",
	}}})
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
		"comes-back", "not-loaded", "pair",
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
	address := testengine.Address(s.T)
	startExample(s.T, "seatmap", address, "1h") // no test is slower
	eventually(s.T, "http://"+address+"/campaigns/hall/items")
	return "http://" + address
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
	local := exec.CommandContext(context.WithoutCancel(s.Context()), s.program,
		append([]string{"--store", "sqlite:" + s.path, "--log-level", "debug", "local", "--addr", "127.0.0.1:0"}, flags...)...)
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
