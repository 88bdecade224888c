package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	pageInCode = regexp.MustCompile(`\b(docs/(?:adr/)?[a-z0-9-]+\.md)(?:#([a-z0-9-]+))?`)
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	makeTarget = regexp.MustCompile("(?m)^make ([a-z-]+)|`make ([a-z-]+)")
)

// TestLinks: a link within the project leads to a file, and to a heading if it names one.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := documents(t)
	anchors := map[string][]string{}
	for _, d := range all {
		anchors[d.path] = d.anchors()
	}
	for _, d := range all {
		for _, l := range link.FindAllStringSubmatch(strings.Join(d.prose(), "\n"), -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			path, fragment, _ := strings.Cut(l[1], "#")
			target := d.path
			if path != "" {
				target = filepath.Join(filepath.Dir(d.path), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", d.path, l[1])
			}
			if fragment != "" && !slices.Contains(anchors[target], fragment) {
				t.Errorf("%s links to %s, which has no such heading", d.path, l[1])
			}
		}
	}
}

// TestLinksInCode: a page that code names exists, and has the heading that is named with it: in comments, help, errors and
// URLs.
func TestLinksInCode(t *testing.T) {
	t.Parallel()
	found := pageInCode.FindAllStringSubmatch(goSource(t), -1)
	for _, l := range found {
		if _, err := os.Stat(filepath.Join(root, l[1])); err != nil {
			t.Errorf("code names %s, which does not exist", l[1])
		} else if l[2] != "" && !slices.Contains(readDocument(t, l[1]).anchors(), l[2]) {
			t.Errorf("code links to %s#%s, which has no such heading", l[1], l[2])
		}
	}
	if len(found) < 50 {
		t.Errorf("code names %d pages", len(found))
	}
}

// TestMakeTargets: the targets that documents name exist.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	makefile := "\n" + read(t, "Makefile")
	for _, d := range documents(t) {
		for _, target := range makeTarget.FindAllStringSubmatch(d.text, -1) {
			if name := target[1] + target[2]; !strings.Contains(makefile, "\n"+name+":") {
				t.Errorf("%s: there is no make target %q", d.path, name)
			}
		}
	}
}

// TestIndex: docs/README.md links to every page of docs.
func TestIndex(t *testing.T) {
	t.Parallel()
	index := read(t, "docs/README.md")
	for _, d := range documents(t) {
		page, ok := strings.CutPrefix(d.path, "docs/")
		if ok && page != "README.md" && !strings.Contains(index, "]("+page+")") {
			t.Errorf("docs/README.md does not link to %s", page)
		}
	}
}
