package docs

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestReadmeIsShort: a stranger reads it in three minutes.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	const most = 6000
	if size := len(read(t, "README.md")); size > most {
		t.Errorf("README.md has %d bytes, at most %d are allowed; the rest belongs to docs/", size, most)
	}
}

// TestLineWidth checks that lines have at most 120 columns. It permits tables, which cannot be broken, and lines
// without a space at which to break.
func TestLineWidth(t *testing.T) {
	t.Parallel()
	const most = 120
	for _, d := range documents(t) {
		for i, line := range strings.Split(d.text, "\n") {
			isTable := strings.HasPrefix(strings.TrimSpace(line), "|")
			if utf8.RuneCountInString(line) > most && !isTable && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s:%d has %d columns", d.path, i+1, utf8.RuneCountInString(line))
			}
		}
	}
}

// TestTablesAreWhole checks that every table has a head, so that no blank line cuts its rows off.
func TestTablesAreWhole(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(`^\|[-| ]+\|$`)
	for _, d := range documents(t) {
		lines := d.prose()
		for i, line := range lines[:len(lines)-1] {
			begins := strings.HasPrefix(line, "|") && (i == 0 || !strings.HasPrefix(lines[i-1], "|"))
			if begins && !rule.MatchString(lines[i+1]) {
				t.Errorf("%s:%d begins a table without a head", d.path, i+1)
			}
		}
	}
}

// TestNoPlainCopyOfAStore: a copy of a SQLite file alone lacks the latest claims. `oncebox backup` copies all.
func TestNoPlainCopyOfAStore(t *testing.T) {
	t.Parallel()
	plainCopy := regexp.MustCompile(`(?m)^.*\b(cp|rsync|scp)\b.*\.db\b.*$`)
	for _, d := range documents(t) {
		if line := plainCopy.FindString(d.text); line != "" {
			t.Errorf("%s copies a store without `oncebox backup`: %s", d.path, line)
		}
	}
}
