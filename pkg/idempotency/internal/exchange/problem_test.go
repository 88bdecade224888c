package exchange

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/aws/requestid"
)

// TestProblemsAreDocumented compares the table with its page. Every slug is a heading whose text begins with the
// status, every heading is a slug, and no row hides the cause of a later row.
func TestProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../../docs/idempotency-problems.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+string(docs), "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		sections[heading] = strings.TrimSpace(text)
	}
	for _, p := range append([]problem{internal, invalidKey}, problems...) {
		text := sections[p.slug]
		if !strings.HasPrefix(text, fmt.Sprintf("**%d.**", p.status)) || !strings.Contains(text, "\nWhat to do: ") {
			t.Errorf("the page does not explain %s, status %d: %.60q", p.slug, p.status, text)
		}
		delete(sections, p.slug)
		for _, cause := range p.causes {
			if got := problemOf(cause); got.slug != p.slug {
				t.Errorf("%v is answered as %s, want %s", cause, got.slug, p.slug)
			}
		}
		if p.title == "" || !strings.HasSuffix(p.detail, ".") {
			t.Errorf("%s has the title %q and the detail %q", p.slug, p.title, p.detail)
		}
	}
	for heading := range sections {
		t.Errorf("the page explains %q, which is never answered", heading)
	}
}

// TestSecondsOf: Retry-After has whole seconds, at least one, and never as many as a lease.
func TestSecondsOf(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]string{
		-time.Second: "1", 0: "1", time.Second: "1", time.Second + 1: "2", 3500 * time.Millisecond: "4", 15 * time.Minute: "5",
	} {
		if got := secondsOf(left); got != want {
			t.Errorf("%s: want %s, got %s", left, want, got)
		}
	}
}

// TestRequestID: log lines name a request as the lines of all functions do. This package does not import the other: it
// would import a library of AWS into servers that need none.
func TestRequestID(t *testing.T) {
	t.Parallel()
	if RequestID != requestid.Key {
		t.Errorf("want %s, got %s", requestid.Key, RequestID)
	}
}
