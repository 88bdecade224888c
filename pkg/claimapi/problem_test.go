package claimapi

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimlink"
)

// TestProblemsAreDocumented compares the table with docs/problems.md. Every slug is a heading whose text begins with
// the status, and every heading of the second level is a slug.
func TestProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+string(docs), "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		sections[heading] = strings.TrimSpace(text)
	}
	for _, p := range append([]problem{internal}, problems...) {
		text, ok := sections[p.slug]
		if !ok || !strings.HasPrefix(text, "**"+strconv.Itoa(p.status)) || !strings.Contains(text, "\nWhat to do: ") {
			t.Errorf("docs/problems.md does not explain %s, status %d: %.60q", p.slug, p.status, text)
		}
		delete(sections, p.slug)
	}
	for heading := range sections {
		t.Errorf("docs/problems.md explains %q, which the API never answers", heading)
	}
}

// TestProblemsAreWellFormed: every slug is unique and can be an anchor, and every problem has its texts.
func TestProblemsAreWellFormed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	slug := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	for _, p := range append([]problem{internal}, problems...) {
		if !slug.MatchString(p.slug) || seen[p.slug] || p.title == "" || !strings.HasSuffix(p.detail, ".") {
			t.Errorf("problem %+v is not well formed", p)
		}
		seen[p.slug] = true
	}
}

// TestNoCauseIsShadowed: the first match counts, so no row may match the cause of a later row.
func TestNoCauseIsShadowed(t *testing.T) {
	t.Parallel()
	for _, p := range problems {
		for _, cause := range p.causes {
			if got := problemOf(cause); got.slug != p.slug {
				t.Errorf("%v is answered as %s, want %s", cause, got.slug, p.slug)
			}
		}
	}
}

// TestChallenges: an answer 401 names the scheme of its API. If a token was refused, it also has the error. Other
// answers have no challenge.
func TestChallenges(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]map[error]string{
		fromJWT: {errNoIdentity: `Bearer realm="oncebox"`, errNotYours: ""},
		fromIAM: {errRoleSession: "AWS4-HMAC-SHA256", errNotYours: ""},
		fromLink: {
			errNoIdentity: `Bearer realm="oncebox"`, claimlink.ErrInvalid: `Bearer error="invalid_token"`,
			claimlink.ErrExpired: `Bearer error="invalid_token"`, errOtherCampaign: "",
		},
		fromContext: {errNoContext: ""},
	} {
		h := &Handler{from: ClaimantFrom{source: source}}
		for err, challenge := range want {
			if got := h.refusal(err, "").headers["WWW-Authenticate"]; got != challenge {
				t.Errorf("with %s, the challenge of %v is %q, want %q", source, err, got, challenge)
			}
		}
	}
}
