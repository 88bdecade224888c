// Package docs tests the documents: their links, names and tables are true, and their commands and programs run.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// A document is a Markdown file of the project.
type document struct {
	path   string // from the root of the project
	text   string
	blocks []block
}

// A block is a fenced block of a document.
type block struct {
	line     int    // of the opening fence
	language string // the first word behind the fence
	note     string // the rest of that line: how the tests take the block
	text     string
}

var (
	fence   = regexp.MustCompile("^( *)```(.*)$")
	heading = regexp.MustCompile(`^#+ (.+)$`)
)

// documents reads every Markdown file that belongs to the project.
func documents(t *testing.T) (all []document) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", ".github/*.md", ".github/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		must(t, err)
		for _, path := range paths {
			path, err := filepath.Rel(root, path)
			must(t, err)
			all = append(all, readDocument(t, path))
		}
	}
	if len(all) < 20 {
		t.Fatalf("found %d documents", len(all))
	}
	return all
}

func readDocument(t *testing.T, path string) document {
	t.Helper()
	d := document{path: path, text: read(t, path)}
	lines := strings.Split(d.text, "\n")
	for i := 0; i < len(lines); i++ {
		open := fence.FindStringSubmatch(lines[i])
		if open == nil {
			continue
		}
		b := block{line: i + 1}
		b.language, b.note, _ = strings.Cut(open[2], " ")
		for i++; i < len(lines) && lines[i] != open[1]+"```"; i++ {
			b.text += strings.TrimPrefix(lines[i], open[1]) + "\n"
		}
		if i == len(lines) {
			t.Fatalf("%s:%d: the block is not closed", path, b.line)
		}
		d.blocks = append(d.blocks, b)
	}
	return d
}

// prose is the document without its blocks, line by line.
func (d document) prose() []string {
	lines, inBlock := strings.Split(d.text, "\n"), false
	for i, line := range lines {
		if fence.MatchString(line) {
			inBlock, lines[i] = !inBlock, ""
		} else if inBlock {
			lines[i] = ""
		}
	}
	return lines
}

// anchors returns the fragments that links to the document may have.
func (d document) anchors() (all []string) {
	for _, line := range d.prose() {
		if h := heading.FindStringSubmatch(line); h != nil {
			all = append(all, anchor(h[1]))
		}
	}
	return all
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// A table is a list of rows of cells, without the head.
type table [][]string

// tables returns the tables of a section. The section ends at the next heading of its level or above.
func (d document) tables(t *testing.T, section string) (all []table) {
	t.Helper()
	lines := d.section(t, section)
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "|") {
			continue
		}
		var rows table
		for ; i < len(lines) && strings.HasPrefix(lines[i], "|"); i++ {
			rows = append(rows, cells(lines[i]))
		}
		if len(rows) < 3 {
			t.Fatalf("%s: section %q has a table without rows", d.path, section)
		}
		all = append(all, rows[2:])
	}
	return all
}

func (d document) section(t *testing.T, name string) []string {
	t.Helper()
	lines := d.prose()
	start := slices.IndexFunc(lines, func(line string) bool {
		h := heading.FindStringSubmatch(line)
		return h != nil && h[1] == name
	})
	if start < 0 {
		t.Fatalf("%s has no section %q", d.path, name)
	}
	level := strings.Index(lines[start], " ")
	end := slices.IndexFunc(lines[start+1:], func(line string) bool {
		return heading.MatchString(line) && strings.Index(line, " ") <= level
	})
	if end < 0 {
		return lines[start+1:]
	}
	return lines[start+1 : start+1+end]
}

// cells returns the cells of a table's row. A bar in a cell is written \|.
func cells(row string) []string {
	const bar = "\x00"
	parts := strings.Split(strings.Trim(strings.ReplaceAll(row, `\|`, bar), "| "), "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(strings.ReplaceAll(parts[i], bar, "|"))
	}
	return parts
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	must(t, err)
	return string(raw)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
