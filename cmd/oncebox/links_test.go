package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/claimlink"
)

// makeLinks are the flags that most tests of `links make` give.
var makeLinks = []string{"--key", "link.key", "--page", "https://shop.example/p?x=1", "--expires", "2099-01-01"}

func (s *shell) links(code int, args ...string) result {
	s.Helper()
	return s.run(code, append(append([]string{"links", "make"}, args...), makeLinks...)...)
}

// linked returns the claims in the token of a link.
func (s *shell) linked(link string) claimlink.Claims {
	s.Helper()
	keys, err := claimlink.ParseKeys(s.read("link.key.pub"))
	if err != nil {
		s.Fatal(err)
	}
	token, ok := strings.CutPrefix(link, "https://shop.example/p?x=1#t=")
	claims, err := keys.Verify(token, time.Now())
	if !ok || err != nil {
		s.Fatalf("link %s: %v", link, err)
	}
	return claims
}

func TestLinksKeygen(t *testing.T) {
	s := newShell(t)
	var made keyJSON
	s.json(&made, "links", "keygen", "link.key")
	secret := strings.Split(s.read("link.key"), "\n")[1]
	if s.read("link.key.pub") != made.PublicKey+"\n" || made.KeyID == "" || strings.Contains(made.PublicKey, secret) {
		t.Errorf("made %+v", made)
	}
	info, err := os.Stat(filepath.Join(s.dir, "link.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key has the mode %v, %v", info.Mode(), err)
	}

	s.run(exitUsage, "links", "keygen", "link.key").saying(t, "link.key exists, and is not written over")
	s.file("other.key.pub", "theirs")
	s.run(exitUsage, "links", "keygen", "other.key").saying(t, "other.key.pub exists")
	if _, err := os.Stat(filepath.Join(s.dir, "other.key")); !os.IsNotExist(err) || s.read("other.key.pub") != "theirs" {
		t.Errorf("something was written: %v", err)
	}
	s.run(exitUsage, "links", "keygen", "none/link.key").saying(t, "none/link.key: no such file or directory")
}

func TestLinksMake(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "links", "keygen", "link.key")
	s.file("customers.csv", "\ufeffname,claimant\nAnn,ann\n\n\"Bob, \"\"B\"\"\",\"b,ob\"\n")
	r := s.links(exitDone, "spring", "customers.csv")
	rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	if got := strings.Join(rows[0], "|") + "|" + rows[1][0] + "|" + rows[2][0]; got != `name|claimant|link|Ann|Bob, "B"` {
		t.Errorf("got %s", got)
	}
	expires := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, claimant := range []string{"ann", "b,ob"} {
		want := claimlink.Claims{Claimant: claimant, Campaign: "spring", Expires: expires}
		if got := s.linked(rows[i+1][2]); got != want || rows[i+1][1] != claimant {
			t.Errorf("row %v: got %+v", rows[i+1], got)
		}
	}
	r.saying(t, "made 2 links", "expire at 2099-01-01T00:00:00Z")
	if again := s.links(exitDone, "spring", "customers.csv"); again.stdout != r.stdout {
		t.Error("the same command makes other links")
	}
	if quiet := s.links(exitDone, "--quiet", "spring", "customers.csv"); quiet.stderr != "" {
		t.Errorf("stderr %q", quiet.stderr)
	}

	// The rows keep their separator.
	r = s.want(exitDone, s.runWith("name;claimant\nAnn;\"a;nn\"\n", slices.Concat([]string{"links", "make", "spring", "-"}, makeLinks)...))
	if !strings.HasPrefix(r.stdout, "name;claimant;link\nAnn;\"a;nn\";https://") {
		t.Errorf("got %s", r.stdout)
	}

	// Without a row of names, for a scope, from stdin, as JSON.
	args := append([]string{"--output", "json", "links", "make", "workshops", "-", "--scope", "--column", "2"}, makeLinks...)
	r = s.want(exitDone, s.runWith("Ann,ann\n", args...), args...)
	var link linkJSON
	if err := json.Unmarshal([]byte(r.stdout), &link); err != nil {
		t.Fatal(err)
	}
	want := claimlink.Claims{Claimant: "ann", Scope: "workshops", Expires: expires}
	if got := s.linked(link.Link); got != want || link.Claimant != "ann" || link.Line != 1 {
		t.Errorf("got %+v, %+v", link, got)
	}
}

// TestLinksOfOneClaimant: two customers under one name would share an item, so such rows are named.
func TestLinksOfOneClaimant(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "links", "keygen", "link.key")
	s.file("customers.csv", "claimant\nann\nbob\nann\n"+strings.Repeat("bob\n", 9))
	r := s.links(exitLook, "spring", "customers.csv")
	r.saying(t, "line 4 has the claimant of line 2", "line 5 has the claimant of line 3", "and 5 more")
	rows := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(rows) != 13 || rows[1] != rows[3] {
		t.Errorf("rows %q", rows)
	}
}

// TestLinksRefused: nothing is printed for a file of which one row is wrong.
func TestLinksRefused(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "links", "keygen", "link.key")
	s.file("good.csv", "claimant\nann\n")
	long := strings.Repeat("a", 257)
	for content, says := range map[string]string{
		"":                                       "has no customers",
		"claimant\n":                             "has no customers",
		"name\nann\n":                            `no column "claimant"; its first row has "name"`,
		"claimant,link\nann,x\n":                 "has a column link already",
		"\xff\xfec\x00":                          "bad.csv: it is text in UTF-16",
		"claimant\nann\n \n":                     "1 line is wrong:\n  line 3 column 1 has white space around the claimant",
		"claimant,x\nann,1\n,1\nann\n":           "2 lines are wrong:\n  line 3 column 1 is empty\n  line 4 has 1 column, and the first row has 2",
		"claimant\n" + long + "\n":               "line 2 column 1 has 257 bytes, at most 256 are allowed",
		"claimant\n\xff\n":                       "line 2 column 1 is not valid UTF-8\nNo link was made. The file must be text in UTF-8. If it is in Latin-1: iconv -f",
		"claimant\n\ufffd\n":                     "line 2 column 1 has the character U+FFFD",
		"claimant\n\"a\x00\"\n":                  "line 2 column 1 has a control character (U+0000)",
		"claimant\nann\n\"bob\n":                 "line 3 is not CSV",
		"claimant\n" + strings.Repeat(" x\n", 8): "8 lines are wrong:\n  line 2 column 1 has white space around the claimant",
	} {
		s.file("bad.csv", content)
		if r := s.links(exitUsage, "spring", "bad.csv"); r.stdout != "" || !strings.Contains(r.stderr, says) {
			t.Errorf("%q: want %q, got %q and on stdout %q", content, says, r.stderr, r.stdout)
		}
	}
	for content, name := range map[string]string{ // "": each row is a customer
		"e-mail\nann\n":         "e-mail", // made of the words for claimants
		"Customer ID\n1\n":      "Customer ID",
		"login\na@b.c\nd@e.f\n": "login", // it alone is no address
		"login\na@b.c\nbob\n":   "",
		"login\nbob\n":          "",
		"a@b.c\nd@e.f\n":        "",
		"user@mail.id\nann\n":   "", // an address may be made of these words
		"ann\n":                 "",
	} {
		s.file("numbered.csv", content)
		if name == "" {
			s.links(exitDone, "spring", "numbered.csv", "--column", "1").saying(t, "made ")
			continue
		}
		r := s.links(exitUsage, "spring", "numbered.csv", "--column", "1")
		r.saying(t, fmt.Sprintf("--column 1: the first row has %[1]q there, which may be the name of the column\nSay --column %[1]q if it is.", name))
		s.links(exitDone, "spring", "numbered.csv", "--column", name).saying(t, "made ")
	}
	s.file("named.csv", "claimant\nlogin\na@b.c\n")
	s.links(exitDone, "spring", "named.csv").saying(t, "made 2 links")
	for says, args := range map[string][]string{
		"campaign: must be":                         {"Spring", "good.csv"},
		"scope: must be":                            {"Shop", "good.csv", "--scope"},
		"none.csv: no such file":                    {"spring", "none.csv"},
		". is a directory":                          {"spring", "."},
		"--column 2: the first row has 1 column":    {"spring", "good.csv", "--column", "2"},
		"is not one private key":                    {"spring", "good.csv", "--key", "link.key.pub"},
		"none.key: no such file":                    {"spring", "good.csv", "--key", "none.key"},
		"--page \"shop.example\": must be an https": {"spring", "good.csv", "--page", "shop.example"},
		"--page \"http://x.example\": must be":      {"spring", "good.csv", "--page", "http://x.example"},
		"as in http://localhost:9090/.":             {"spring", "good.csv", "--page", "http://shop:9090/s"},
		"must have no #":                            {"spring", "good.csv", "--page", "https://x.example/#a"},
		"--expires 2020-01-01T00:00:00Z: is over":   {"spring", "good.csv", "--expires", "2020-01-01"},
	} {
		given := slices.Concat([]string{"links", "make"}, makeLinks, args)
		if r := s.run(exitUsage, given...); r.stdout != "" || !strings.Contains(r.stderr, says) {
			t.Errorf("%q: want %q, got %q and on stdout %q", args, says, r.stderr, r.stdout)
		}
	}
}

// TestLinksOnThisMachine goes the way of a customer: a link, the local server, the item.
func TestLinksOnThisMachine(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.file("codes.txt", "CODE-1\nCODE-2\n")
	s.run(exitDone, "load", "spring", "codes.txt")
	s.run(exitDone, "links", "keygen", "link.key")
	s.file("customers.csv", "claimant\nann\n")
	r := s.links(exitDone, "--output", "json", "spring", "customers.csv")
	var link linkJSON
	if err := json.Unmarshal([]byte(r.stdout), &link); err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(link.Link, "#t=")

	base, example := s.serveWithExample("--link-keys", "link.key.pub")
	if !strings.Contains(example, "Authorization: Bearer TOKEN") {
		t.Errorf("the example is %s", example)
	}
	claim := base + "/campaigns/spring/claims"
	if got := s.post(claim, `{"claimant":"ann"}`); got.status != http.StatusUnauthorized {
		t.Errorf("without a link: %d %s", got.status, got.body)
	}
	if got := s.sendAs(token, http.MethodPost, claim, ""); got.status != http.StatusCreated || !strings.Contains(got.body, `"claimant":"ann"`) {
		t.Errorf("with the link: %d %s", got.status, got.body)
	}

	// The same through an event, with the variables of the function.
	s.env = []string{"ONCEBOX_CLAIMANT_FROM=link", "ONCEBOX_LINK_KEYS=" + s.read("link.key.pub")}
	s.file("event.json", `{"version":"2.0","rawPath":"/campaigns/spring/claims/me","headers":{"authorization":`+
		strconv.Quote("Bearer "+token)+`},"requestContext":{"http":{"method":"GET"}}}`)
	r = s.run(exitDone, "invoke", "claim", "event.json")
	r.saying(t, `"statusCode": 200`)
	if strings.Contains(r.stderr, token) || strings.Contains(r.stderr, "ann") {
		t.Errorf("the log is %s", r.stderr)
	}

	s.env = nil
	s.run(exitUsage, "local", "--link-keys", "link.key").saying(t, "link.key: it is a private key")
	s.run(exitUsage, "local", "--link-keys", "none.pub").saying(t, "none.pub: no such file")
}
