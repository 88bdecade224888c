package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestHelpOfEveryCommand checks that the help of every command has an example and the global flags in one line, and
// that `oncebox help COMMAND` prints the same.
func TestHelpOfEveryCommand(t *testing.T) {
	s := newShell(t)
	all := commands(newTestParser(t))
	if len(all) < 20 {
		t.Fatalf("only %d commands were found", len(all))
	}
	for path := range all {
		words := strings.Fields(path)
		help := s.run(exitDone, append(words, "--help")...).stdout
		hasExample := strings.Contains(help, "\n    oncebox "+path) || strings.Contains(help, "| oncebox "+path)
		if !hasExample && path != "completion" { // the library writes its help
			t.Errorf("%s has no example:\n%s", path, help)
		}
		const globals = "\nGlobal flags: --help, --store, --bank-table, --dedupe-table, --output, --quiet, --log-level, --version\n`oncebox --help` explains them.\n"
		if !strings.HasPrefix(help, "Usage: oncebox "+path) || strings.Count(help, globals) != 1 || strings.Contains(help, "--store=URL") {
			t.Errorf("unexpected help of %s:\n%s", path, help)
		}
		if again := s.run(exitDone, append([]string{"help"}, words...)...).stdout; again != help {
			t.Errorf("help %s prints something else:\n%s", path, again)
		}
	}
	top := s.run(exitDone, "--help").stdout
	for _, want := range []string{"--store=URL", "(ONCEBOX_STORE)", "load ", "completion "} {
		if !strings.Contains(top, want) {
			t.Errorf("the help of the program does not mention %s:\n%s", want, top)
		}
	}
	if help := s.run(exitDone, "help").stdout; help != top {
		t.Errorf("help prints something else:\n%s", help)
	}
	s.run(exitDone, "help", "campaign").saying(t, "campaign create", "campaign list")
	s.run(exitUsage, "help", "laod").saying(t, `did you mean "load"`)
	s.run(exitDone, "help", "dedupe").saying(t, "(ONCEBOX_WINDOW)")
	if help := s.run(exitDone, "help", "withdraw").stdout; strings.Contains(help, "ONCEBOX_") {
		t.Errorf("withdraw has variables:\n%s", help)
	}
}

var exampleLine = regexp.MustCompile(`(?m)^  (.*oncebox .*)$`)

// TestExamples checks that the program accepts the examples of the help texts.
func TestExamples(t *testing.T) {
	t.Parallel()
	p := newTestParser(t)
	examples := 0
	for path, command := range commands(p) {
		for _, line := range exampleLine.FindAllStringSubmatch(command.Detail, -1) {
			for part := range strings.SplitSeq(line[1], "&&") {
				args, ok := argumentsOf(t, part)
				if !ok {
					continue
				}
				examples++
				traced, err := kong.Trace(p.Kong, args)
				if err != nil || traced.Error != nil {
					t.Errorf("%s: %s: %v, %v", path, part, err, traced.Error)
				}
			}
		}
	}
	if examples < 30 {
		t.Errorf("only %d examples were found", examples)
	}
}

// argumentsOf lets a shell read a command of a pipe, and returns the arguments of oncebox.
func argumentsOf(t *testing.T, line string) (args []string, ok bool) {
	t.Helper()
	for command := range strings.SplitSeq(line, "|") {
		if _, after, found := strings.Cut(command, "oncebox "); found {
			after, _, _ = strings.Cut(after, " > ")
			out, err := exec.Command("sh", "-c", `printf '%s\n' `+after).Output()
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), true
		}
	}
	return nil, false
}

// formerWords are words that texts no longer use, with the words that replaced them.
var formerWords = map[string]string{
	"parked": "dead letters", "kept apart": "stored", "mend": "repair", "difference": "inconsistency", "whoever": "a named subject",
	"for ever": "forever", "not there yet": "not implemented yet", "bell": "notifier", "failure store": "dead-letter store",
}

// TestPlainWords checks that no help text uses a former word.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	for path, command := range commands(newTestParser(t)) {
		text := strings.ToLower(command.Help + "\n" + command.Detail)
		for _, flag := range command.Flags {
			if !flag.Hidden {
				text += "\n" + strings.ToLower(flag.Help)
			}
		}
		for word, now := range formerWords {
			if regexp.MustCompile(`\b` + word + `s?\b`).MatchString(text) {
				t.Errorf("the help of %s says %q, want %q", path, word, now)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	s := newShell(t)
	command := s.run(exitDone, "version").stdout
	if !strings.HasPrefix(command, "oncebox ") || s.run(exitDone, "--version").stdout != command {
		t.Errorf("unexpected %q", command)
	}
	var v struct{ Version string }
	s.json(&v, "version")
	if "oncebox "+v.Version+"\n" != command {
		t.Errorf("%q is not %q", v.Version, command)
	}
}

// TestCompletion checks the completion scripts of bash, zsh and fish, and the answers that they get.
func TestCompletion(t *testing.T) {
	s := newShell(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		s.run(exitDone, "completion", shell).saying(t, "oncebox completion -c "+shell)
		s.run(exitDone, "completion", "-c", shell).saying(t, "oncebox")
	}
	s.run(exitUsage, "completion", "csh").saying(t, "bash", "csh")
	for line, want := range map[string][]string{
		"oncebox cam":                         {"campaign"},
		"oncebox campaign ":                   {"close", "create", "delete", "list", "open", "page", "set", "show"},
		"oncebox load --dr":                   {"--dry-run"},
		"oncebox campaign create x --on-end ": {"burn", "return"},
		"oncebox --output ":                   {"json", "text"},
		"oncebox dedupe --par":                nil, // a former name
	} {
		s.env = []string{"COMP_LINE=" + line}
		got := strings.Fields(s.run(exitDone).stdout)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q: want %q, got %q", line, want, got)
		}
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		s.env = nil
		script := s.run(exitDone, "completion", "-c", "bash").stdout
		c := exec.Command(bash, "-c", script+"\ncomplete -p oncebox")
		var out bytes.Buffer
		c.Stdout, c.Stderr, c.Env = &out, &out, os.Environ()
		if err := c.Run(); err != nil || !strings.Contains(out.String(), "complete ") {
			t.Errorf("bash: %v\n%s", err, out.String())
		}
	}
}
