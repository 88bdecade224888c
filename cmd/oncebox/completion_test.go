package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

func TestCompletion(t *testing.T) {
	s := newShell(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		s.env = []string{"SHELL=/usr/bin/" + shell}
		explained, script := s.run(exitDone, "completion", shell), s.run(exitDone, "completion", "-c", shell)
		explained.saying(t, "oncebox completion -c "+shell)
		script.saying(t, "Completion of oncebox in "+shell)
		if s.run(exitDone, "completion") != explained || s.run(exitDone, "completion", "--code") != script {
			t.Errorf("%s is not completed by default where SHELL names it", shell)
		}
		s.env = append(s.env, "ONCEBOX_OUTPUT=json")
		if s.run(exitDone, "completion", "-c", shell) != script {
			t.Errorf("%s: --output changes the script", shell)
		}
	}
	s.run(exitUsage, "completion", "csh").saying(t, "bash", "csh")
	s.env = []string{"SHELL=/bin/csh"}
	s.run(exitUsage, "completion").saying(t, "/bin/csh", "oncebox completion bash")
}

// completionDrivers print the completions of the last of their arguments, which are the words of a command line.
var completionDrivers = map[string][]string{
	"bash": {"--norc", "-c", `source ./script
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _oncebox; printf '%s\n' "${COMPREPLY[@]}"`, "bash"},
	"zsh": {"-f", "-c", `autoload -U +X compinit && compinit -D -u; source ./script
		emulate sh; setopt kshglob noshglob braceexpand nokshautoload # as bashcompinit
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _oncebox; printf '%s\n' "${COMPREPLY[@]}"`, "zsh"},
	"fish": {"--no-config", "-c", `source ./script; complete -C "$argv"`},
}

// completer completes command lines in a shell.
type completer struct {
	*shell
	name, path string
}

// newCompleter gives the script to a shell of the machine.
func newCompleter(t *testing.T, name string) completer {
	s := newShell(t)
	s.file("script", s.run(exitDone, "completion", "-c", name).stdout)
	return completer{s, name, testengine.Command(t, name)}
}

// complete returns the words that can be the last one of a line, and the descriptions that fish shows.
func (c completer) complete(line string) (words, descriptions []string) {
	c.Helper()
	if c.name == "bash" { // it takes these as words of their own
		line = strings.NewReplacer("=", " = ", ":", " : ").Replace(line)
	}
	typed := line[strings.LastIndex(line, " ")+1:]
	args := strings.Fields(line)
	if typed == "" && !strings.HasSuffix(line, "= ") {
		args = append(args, "")
	}
	command := exec.CommandContext(c.Context(), c.path, append(slices.Clone(completionDrivers[c.name]), args...)...)
	command.Dir, command.Env = c.dir, append(command.Environ(), "HOME="+c.dir)
	out, err := command.CombinedOutput()
	if err != nil {
		c.Fatalf("%q: %v\n%s", line, err, out)
	}
	for found := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		word, description, _ := strings.Cut(found, "\t")
		if word != "" && strings.HasPrefix(word, typed) { // zsh leaves out the others by itself
			words = append(words, word[strings.Index(word, "=")+1:])
			descriptions = append(descriptions, description)
		}
	}
	return words, descriptions
}

// TestCompletedLines: each shell completes commands, flags and values. Before them there can be flags with values, also
// with values that are names of commands.
func TestCompletedLines(t *testing.T) {
	for shell := range completionDrivers {
		t.Run(shell, func(t *testing.T) {
			c := newCompleter(t, shell)
			for line, want := range map[string][]string{
				"oncebox cam":                                     {"campaign"},
				"oncebox campaign ":                               {"close", "create", "delete", "list", "open", "page", "set", "show"},
				"oncebox load --dr":                               {"--dry-run"},
				"oncebox load x --help --dr":                      {"--dry-run"},
				"oncebox campaign create x --on-end ":             {"burn", "return"},
				"oncebox --output ":                               {"json", "text"},
				"oncebox --output=":                               {"json", "text"},
				"oncebox --output=j":                              {"json"},
				"oncebox campaign list --output j":                {"json"},
				"oncebox dedupe --par":                            nil,
				"oncebox dedupe --no-":                            {"--no-natural", "--no-synthetic"},
				"oncebox --output=json cam":                       {"campaign"},
				"oncebox --store dynamodb: stat":                  {"status"},
				"oncebox --bank-table claim campaign sho":         {"show"},
				"oncebox campaign create --scope list --on-end b": {"burn"},
				"oncebox claim spring --sl":                       {"--slot"}, // short for claim make
				"oncebox claim show spring --it":                  nil,
				"oncebox cost --rec":                              {"--record-size", "--records-per-second"},
				"oncebox completion ":                             {"bash", "fish", "zsh"},
				"oncebox nonesuch --sto":                          {"--store"},
			} {
				got, _ := c.complete(line)
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%q: want %q, got %q", line, want, got)
				}
			}
		})
	}
}

// TestCompletedGrammar: bash completes every command, flag and value of the grammar.
func TestCompletedGrammar(t *testing.T) {
	c := newCompleter(t, "bash")
	for path, command := range commands(newTestProgram(t)) {
		var want []string
		for _, flags := range command.AllFlags(true) {
			for _, flag := range flags {
				want = append(want, "--"+flag.Name)
				if flag.Enum == "" {
					continue
				}
				values, _ := c.complete("oncebox " + path + " --" + flag.Name + " ")
				if strings.Join(values, ",") != strings.TrimSuffix(flag.Enum, ",") {
					t.Errorf("%s --%s: want %s, got %q", path, flag.Name, flag.Enum, values)
				}
			}
		}
		got, _ := c.complete("oncebox " + path + " --")
		for _, flag := range want {
			if !slices.Contains(got, flag) {
				t.Errorf("%s: %s is missing in %q", path, flag, got)
			}
		}
		if names, _ := c.complete("oncebox " + path); !slices.Contains(names, command.Name) {
			t.Errorf("%s is not completed: %q", path, names)
		}
	}
}

// TestFishCompletion: fish describes what it completes, and completes file names.
func TestFishCompletion(t *testing.T) {
	c := newCompleter(t, "fish")
	c.file("items.txt", "")
	for line, want := range map[string][2]string{
		"oncebox withd":            {"withdraw", "Take free items out of a campaign for good"},
		"oncebox confirm x y --sl": {"--slot", "Which claim of the claimant, in a campaign with --per-claimant: 1 to that number"},
		"oncebox load x it":        {"items.txt", ""},
		"oncebox dedupe --out it":  {"items.txt", ""},
	} {
		words, descriptions := c.complete(line)
		if !slices.Equal(words, want[:1]) || !slices.Equal(descriptions, want[1:]) {
			t.Errorf("%q: want %q, got %q, %q", line, want, words, descriptions)
		}
	}
}
