package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/oncebox/oncebox/internal/cli"
)

// TestHelpOfEveryCommand checks that the help of every command has an example and the global flags in one line, and
// that `oncebox help COMMAND` prints the same.
func TestHelpOfEveryCommand(t *testing.T) {
	s := newShell(t)
	p := newTestProgram(t)
	all := commands(p)
	if len(all) < 20 {
		t.Fatalf("only %d commands were found", len(all))
	}
	for path := range all {
		words := strings.Fields(path)
		help := printed(t, p, append(words, "--help")...)
		hasExample := strings.Contains(help, "\n    oncebox "+path) || strings.Contains(help, "| oncebox "+path)
		if !hasExample {
			t.Errorf("%s has no example:\n%s", path, help)
		}
		const globals = "\nGlobal flags: --help, --store, --bank-table, --dedupe-table, --output, --quiet, --log-level, --version\n`oncebox --help` explains them.\n"
		if !strings.HasPrefix(help, "Usage: oncebox "+path) || strings.Count(help, globals) != 1 || strings.Contains(help, "--store=URL") {
			t.Errorf("unexpected help of %s:\n%s", path, help)
		}
		if again := printed(t, p, append([]string{"help"}, words...)...); again != help {
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
	for _, command := range []string{"withdraw", "dedupe"} {
		if help := s.run(exitDone, "help", command).stdout; strings.Contains(help, "(ONCEBOX_") {
			t.Errorf("%s has variables:\n%s", command, help)
		}
	}
}

// printed returns what a command line prints that only explains. The process does not end after --help.
func printed(t *testing.T, p *cli.Program, args ...string) string {
	t.Helper()
	type ended struct{}
	var stdout strings.Builder
	p.Stdout, p.Exit = &stdout, func(int) { panic(ended{}) }
	func() {
		defer func() {
			if cause := recover(); cause != nil && cause != (ended{}) {
				panic(cause)
			}
		}()
		command, err := p.Parse(args)
		if err == nil {
			err = command.Run(&cli.App{})
		}
		if err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}()
	return stdout.String()
}

var exampleLine = regexp.MustCompile(`(?m)^  (.*oncebox .*)$`)

// TestExamples checks that the program accepts the examples of the help texts.
func TestExamples(t *testing.T) {
	t.Parallel()
	p := newTestProgram(t)
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
