package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestCompletionAtPrompt: a person who presses TAB in bash and zsh gets commands, flags, values and file names.
func TestCompletionAtPrompt(t *testing.T) {
	for shell, options := range map[string][]string{"bash": {"--norc", "-i"}, "zsh": {"-f", "-i"}} {
		t.Run(shell, func(t *testing.T) {
			c := newCompleter(t, shell)
			c.file("items.txt", "")
			command := exec.CommandContext(t.Context(), c.path, options...)
			command.Dir = c.dir
			command.Env = append(command.Environ(), "HOME="+c.dir, "TERM=dumb", "PS1=ready> ")
			prompt := c.onTerminal(command)
			prompt.until("ready> ")
			if shell == "zsh" {
				prompt.press("autoload -U compinit && compinit -D -u\r")
			}
			prompt.press("source ./script; oncebox() { echo \"got: $*.\"; }; echo load''ed\r")
			prompt.until("loaded")
			for i, line := range []struct{ typed, want string }{
				{"relea\t", "release "},
				{"campaign create x --on-e\tbu\t", "campaign create x --on-end burn "},
				{"--output=js\tload x ite\t", "--output=json load x items.txt "},
				{"--store dynamodb: dedupe --out i\t", "--store dynamodb: dedupe --out items.txt "},
			} {
				end := fmt.Sprint("end", i)
				prompt.press("oncebox " + line.typed + end + "\r")
				prompt.until(end + ".")
				if want := "got: " + line.want + end + "."; !strings.Contains(prompt.text(), want) {
					t.Errorf("want %q, got\n%s", want, prompt.text())
				}
			}
			prompt.press("exit\r")
			prompt.ends(exitDone)
		})
	}
}
