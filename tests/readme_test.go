package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goBlock    = regexp.MustCompile("(?s)```go\n(.*?)```")
	link       = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	makeTarget = regexp.MustCompile("(?m)^make ([a-z-]+)|`make ([a-z-]+)")
	quoted     = regexp.MustCompile("`((?:claimapi|dynamostore|Bank|request|run|Decider|Processor)\\.[A-Za-z.]+)`")
)

// TestReadmeCode: the Go code of the README is part of an Example, which runs.
func TestReadmeCode(t *testing.T) {
	t.Parallel()
	example := unindent(read(t, "../pkg/itembank/example_test.go"))
	blocks := goBlock.FindAllStringSubmatch(read(t, "../README.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("README.md has no Go code")
	}
	for _, block := range blocks {
		if !strings.Contains(example, unindent(block[1])) {
			t.Errorf("this code is in no Example:\n%s", block[1])
		}
	}
}

// unindent makes code comparable whatever function it stands in.
func unindent(code string) string {
	lines := strings.Split(code, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// TestDocuments: links lead somewhere, and the make targets exist.
func TestDocuments(t *testing.T) {
	t.Parallel()
	makefile := read(t, "../Makefile")
	documents, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, more...)
	}
	for _, document := range documents {
		text := read(t, document)
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), l[1])); err != nil {
				t.Errorf("%s: dead link: %v", document, err)
			}
		}
		for _, target := range makeTarget.FindAllStringSubmatch(text, -1) {
			if name := target[1] + target[2]; !strings.Contains(makefile, "\n"+name+":") {
				t.Errorf("%s: no make target %q", document, name)
			}
		}
	}
}

// TestLivesNameRealFunctions keeps the README's tables true.
func TestLivesNameRealFunctions(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, pattern := range []string{"../pkg/itembank/*.go", "../pkg/itembank/dynamostore/*.go", "../pkg/claimapi/*.go", "../pkg/dedupe/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source.WriteString(read(t, file))
		}
	}
	names := quoted.FindAllStringSubmatch(read(t, "../README.md"), -1)
	if len(names) < 14 {
		t.Fatalf("README.md names %d functions in the lives of a claim and of a record", len(names))
	}
	for _, n := range names {
		function := n[1][strings.LastIndex(n[1], ".")+1:]
		if !regexp.MustCompile(`func (\([^)]*\) )?` + function + `\(`).MatchString(source.String()) {
			t.Errorf("README.md names %s, which is not there", n[1])
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
