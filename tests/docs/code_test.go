package docs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// TestCode checks that the Go and JavaScript code of a document is in the file that the block names. A Go file is a
// program or an Example, so it compiles, and its own test runs it. A document runs its JavaScript file.
func TestCode(t *testing.T) {
	t.Parallel()
	found := 0
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language != "go" && b.language != "js" {
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(root, b.note)); b.note == "" || err != nil {
				t.Errorf("%s:%d: the block names no file: %q", d.path, b.line, b.note)
				continue
			}
			if !strings.Contains(unindent(read(t, b.note)), unindent(b.text)) {
				t.Errorf("%s:%d: this code is not in %s:\n%s", d.path, b.line, b.note, b.text)
			}
		}
	}
	if found == 0 {
		t.Error("no document has code")
	}
}

// unindent removes indentation, so that code can be compared whatever function it is in.
func unindent(code string) string {
	lines := strings.Split(code, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

var goName = regexp.MustCompile("`((?:[a-z]+|\\(\\*[A-Za-z]+\\))\\.)?([A-Z][A-Za-z]*|[a-z][A-Za-z]*)\\.([A-Za-z]+)`")

// TestFunctionsExist checks that the functions in docs/how-it-works.md exist. They have the form `Type.method` or
// `package.Type.Method`.
func TestFunctionsExist(t *testing.T) {
	t.Parallel()
	source := goSource(t)
	found := 0
	for _, line := range strings.Split(read(t, "docs/how-it-works.md"), "\n") {
		columns := cells(line)
		if !strings.HasPrefix(line, "|") || len(columns) < 2 {
			continue
		}
		for _, name := range goName.FindAllStringSubmatch(columns[1], -1) {
			found++
			method := regexp.MustCompile(`func (\([a-zA-Z]* ?\*?` + name[2] + `\) )` + name[3] + `\(`)
			if !method.MatchString(source) {
				t.Errorf("docs/how-it-works.md names %s, which does not exist", name[0])
			}
		}
	}
	if found < 14 {
		t.Errorf("docs/how-it-works.md names %d functions", found)
	}
}

var quotedName = regexp.MustCompile("`([A-Za-z.]+)`")

// TestMethods checks that the tables of docs/library.md name exactly the methods of these types, each once. A table of
// several types names the type of each method.
func TestMethods(t *testing.T) {
	t.Parallel()
	page := readDocument(t, "docs/library.md")
	bank, operator := methodsOf[*itembank.Bank](), methodsOf[*itembank.Operator]()
	operator = slices.DeleteFunc(operator, func(name string) bool { return slices.Contains(bank, name) })
	for _, c := range []struct {
		section string
		table   int
		methods []string
	}{
		{"Methods of claims", 0, bank},
		{"Methods of claims", 1, operator},
		{"Methods of claims", 2, methodsOf[*claimapi.Handler]()},
		{"Methods of records", 0, slices.Concat(
			withType("Handler", methodsOf[*recordhandler.Handler]()), withType("Processor", methodsOf[*dedupe.Processor]()),
			withType("Decider", methodsOf[*dedupe.Decider]()), withType("Delivery", methodsOf[*dedupe.Delivery]()))},
		{"Handlers", 0, methodsOf[*idempotency.Runner]()},
	} {
		var listed []string
		for _, row := range page.tables(t, c.section)[c.table] {
			for _, name := range quotedName.FindAllStringSubmatch(row[0], -1) {
				listed = append(listed, name[1])
			}
		}
		slices.Sort(listed)
		slices.Sort(c.methods)
		if !slices.Equal(listed, c.methods) {
			t.Errorf("docs/library.md, %s, table %d has\n%v\nand the methods are\n%v", c.section, c.table+1, listed, c.methods)
		}
	}
}

func methodsOf[T any]() (names []string) {
	of := reflect.TypeFor[T]()
	for i := range of.NumMethod() {
		names = append(names, of.Method(i).Name)
	}
	return names
}

func withType(name string, methods []string) (names []string) {
	for _, method := range methods {
		names = append(names, name+"."+method)
	}
	return names
}
