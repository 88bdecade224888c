package docs

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// How the tests take a block is said in the line of its opening fence:
//
//	sh              commands, which run as pasted: each must succeed
//	console         commands behind "$ ", each with its output below it
//	text output     what the commands of the block before print
//	sh skip: WHY    commands that do not run here, for one of the reasons below
//	go PATH         code that is in that file; js PATH, too
//	yaml NAME       a settings file: tests/stack makes its stack
//	yaml part of NAME  lines of a settings file: tests/stack puts them into a file
//
// In an output "..." stands for any text, and a line of nothing else for any lines.
const (
	shell   = "sh"
	console = "console"
	output  = "output"
	skipped = "skip: "
)

// reasons are why a block does not run.
var reasons = map[string]bool{
	"needs an AWS account":        true,
	"needs a GitHub account":      true,
	"needs a container engine":    true,
	"needs root":                  true,
	"needs DuckDB":                true,
	"downloads tools":             true,
	"takes minutes":               true,
	"CI runs it by itself":        true,
	"the tests build the program": true,
	"needs a module of yours":     true,
}

// others are the languages of blocks without commands.
var others = map[string]bool{
	"text": true, "json": true, "mermaid": true, "go": true, "js": true, "hcl": true, "sql": true, "yaml": true,
}

// TestBlocks checks that every block has a type, and a reason if it does not run.
func TestBlocks(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		for i, b := range d.blocks {
			at := fmt.Sprintf("%s:%d", d.path, b.line)
			why, isSkipped := strings.CutPrefix(b.note, skipped)
			switch {
			case b.isCommands() && isSkipped:
				if !reasons[why] {
					t.Errorf("%s: %q is not one of the reasons to leave a block out", at, why)
				}
			case b.isCommands() && b.note != "":
				t.Errorf("%s: %q is not understood", at, b.note)
			case b.note == output && (b.language != "text" || i == 0 || !d.blocks[i-1].runs()):
				t.Errorf("%s: this output belongs to no block that runs", at)
			case !b.isCommands() && !others[b.language]:
				t.Errorf("%s: %q is not a language of blocks here", at, b.language)
			}
		}
	}
}

func (b block) isCommands() bool { return b.language == shell || b.language == console }
func (b block) runs() bool       { return b.isCommands() && b.note == "" }

// newFolder is a line of a document behind which its commands begin in a new folder.
const newFolder = "<!-- new folder -->"

// parts returns a document for each folder in which its commands run, with the blocks of that folder.
func (d document) parts() []document {
	all := []document{{path: d.path, text: d.text}}
	lines, next := strings.Split(d.text, "\n"), 0
	for _, b := range d.blocks {
		for ; next < b.line; next++ {
			if lines[next] == newFolder {
				all = append(all, document{path: d.path, text: d.text})
			}
		}
		last := &all[len(all)-1]
		last.blocks = append(last.blocks, b)
	}
	return all
}

// TestCommands runs the commands of each document in a new folder, with the program on the PATH and the files of
// examples/data, examples/javascript and events. It compares their output. The commands of a document share a shell, up
// to a line that begins a new folder.
func TestCommands(t *testing.T) {
	t.Parallel()
	var all []document
	for _, d := range documents(t) {
		all = append(all, d.parts()...)
	}
	for _, d := range all {
		var ran, left int
		for _, b := range d.blocks {
			switch {
			case b.runs():
				ran++
			case b.isCommands():
				left++
			}
		}
		if ran+left == 0 {
			continue
		}
		t.Run(d.path, func(t *testing.T) {
			t.Parallel()
			t.Logf("%d blocks run, %d do not", ran, left)
			if d.path != "README.md" {
				testengine.CheckOnly(t)
			}
			if ran > 0 {
				newSession(t, d).run(t)
			}
		})
	}
}

// A session is the shell that runs a document's commands.
type session struct {
	path     string // of the document
	commands []command
	folder   string // the commands' working directory
	log      string // the folder of their output
}

// A command is a block, or one command of a console block, with its output.
type command struct {
	line   int
	text   string
	want   string // "" is not compared in blocks of language sh
	exact  bool   // want is compared
	status bool   // it may fail: the next command prints its exit code
}

func newSession(t *testing.T, d document) *session {
	t.Helper()
	s := &session{path: d.path, folder: t.TempDir(), log: t.TempDir()}
	for _, folder := range []string{"examples/data", "examples/javascript", "events"} {
		must(t, os.CopyFS(filepath.Join(s.folder, folder), os.DirFS(filepath.Join(root, folder))))
	}
	address := testengine.Address(t)
	local := strings.NewReplacer("oncebox local", "oncebox local --addr "+address, "localhost:8080", address, "127.0.0.1:8080", address)
	for i, b := range d.blocks {
		switch {
		case b.runs() && b.language == shell:
			c := command{line: b.line, text: "set -e -o pipefail\n" + local.Replace(b.text)}
			if i+1 < len(d.blocks) && d.blocks[i+1].note == output {
				c.want, c.exact = local.Replace(d.blocks[i+1].text), true
			}
			s.commands = append(s.commands, c)
		case b.runs():
			s.commands = append(s.commands, consoleCommands(t, d, b, local)...)
		}
	}
	return s
}

// consoleCommands returns the commands of a console block. A line that begins with "> " continues the command above.
func consoleCommands(t *testing.T, d document, b block, local *strings.Replacer) (all []command) {
	t.Helper()
	for i, line := range strings.Split(strings.TrimSuffix(b.text, "\n"), "\n") {
		text, isCommand := strings.CutPrefix(line, "$ ")
		more, goesOn := strings.CutPrefix(line, "> ")
		switch {
		case isCommand:
			if n := len(all); n > 0 && strings.HasPrefix(text, "echo $?") {
				all[n-1].status = true
			}
			all = append(all, command{line: b.line + 1 + i, text: local.Replace(text) + "\n", exact: true})
		case len(all) == 0:
			t.Fatalf("%s:%d: the block does not begin with a command", d.path, b.line)
		case goesOn && all[len(all)-1].want == "":
			all[len(all)-1].text += local.Replace(more) + "\n"
		default:
			all[len(all)-1].want += local.Replace(line) + "\n"
		}
	}
	return all
}

// script sources each command, so that folders, variables and jobs stay for the next command. A command's output and
// exit code go to files. Background jobs end with the script.
func (s *session) script(t *testing.T) string {
	t.Helper()
	var script bytes.Buffer
	script.WriteString("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\nstatus=0\n")
	for i, c := range s.commands {
		file := filepath.Join(s.log, strconv.Itoa(i))
		must(t, os.WriteFile(file+".sh", []byte(c.text), 0o600))
		fmt.Fprintf(&script, "(exit $status); source %[1]s.sh >%[1]s.out 2>&1; status=$?; set +e +o pipefail; echo $status >%[1]s.status\n", file)
	}
	script.WriteString("exit 0\n")
	return script.String()
}

func (s *session) run(t *testing.T) {
	t.Helper()
	if slices.ContainsFunc(s.commands, func(c command) bool { return strings.HasPrefix(c.text, "node ") }) {
		testengine.Command(t, "node")
	}
	program, err := program()
	must(t, err)
	shell := exec.CommandContext(t.Context(), "bash", "-c", s.script(t))
	shell.Dir = s.folder
	shell.Env = []string{
		"PATH=" + filepath.Dir(program) + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"HOME=" + s.folder, "TMPDIR=" + os.TempDir(), "LC_ALL=C.UTF-8", "TZ=UTC",
	}
	out, err := shell.CombinedOutput()
	for i, c := range s.commands {
		file := filepath.Join(s.log, strconv.Itoa(i))
		printed, _ := os.ReadFile(file + ".out") // missing: an earlier command ended the shell
		status, failed := os.ReadFile(file + ".status")
		code := cmp.Or(strings.TrimSpace(string(status)), "an end of the shell")
		if failed != nil || code != "0" && !c.status {
			t.Fatalf("%s:%d: %s\nended with %s:\n%s", s.path, c.line, c.text, code, printed)
		}
		if c.exact && !matches(string(printed), c.want) {
			t.Errorf("%s:%d: %s\nprints\n%s\nand the document says\n%s", s.path, c.line, c.text, printed, c.want)
		}
	}
	if err != nil {
		t.Errorf("%s: the shell ended with %v: %s", s.path, err, out)
	}
}

// matches compares an output with the text in a document.
func matches(got, want string) bool {
	pattern := regexp.QuoteMeta(trimLines(want))
	pattern = regexp.MustCompile(`(?m)^\\\.\\\.\\\.$\n?`).ReplaceAllString(pattern, `(?:.*\n)*?`)
	pattern = strings.ReplaceAll(pattern, `\.\.\.`, `.*`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(trimLines(got))
}

// trimLines removes the white space at the ends of lines, which readers do not see.
func trimLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestMatches is about the comparison itself.
func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
		match     bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a \nb\n\n", "a\nb\n", true},
		{"a\nb\n", "a\n", false},
		{"", "a\n", false},
		{"code 17x\n", "code ...\n", true},
		{"code 17x\n", "code ...y\n", false},
		{"a.b\n", "aXb\n", false},
		{"a\n1\n2\nb\n", "a\n...\nb\n", true},
		{"a\nb\n", "a\n...\nb\n", true},
		{"a\n1\n2\n", "a\n...\nb\n", false},
		{"a\n1\n2\n", "a\n...\n", true},
	} {
		if got := matches(c.got, c.want); got != c.match {
			t.Errorf("matches(%q, %q) is %v", c.got, c.want, got)
		}
	}
}

// program builds the command line program once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "oncebox")
	return path, testengine.BuildOncebox(path)
})

// scratch is a folder for the length of the test binary.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "oncebox-docs-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(scratch); err != nil {
		panic(err)
	}
	os.Exit(code)
}
