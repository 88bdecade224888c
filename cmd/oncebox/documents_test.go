package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	commandBlock = regexp.MustCompile("(?ms)^ *```(?:sh|console)[^\n]*\n(.*?)^ *```$")
	commandLine  = regexp.MustCompile(`(?:^|[|;&(] *)(?:\$ )?((?:[A-Z_]+=\S+ )*oncebox( .*)?)$`)
	word         = regexp.MustCompile(`"[^"]*"|'[^']*'|[^\s"']+`)
)

// TestDocumentsNameCommands checks that the program knows the arguments and flags of all oncebox commands in the
// documents. No test runs some of these commands, because they need an AWS account.
func TestDocumentsNameCommands(t *testing.T) {
	t.Parallel()
	parsed := map[string]bool{} // the pages repeat commands
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, arguments := range commandsIn(string(text)) {
				command := strings.Join(arguments, " ")
				if parsed[command] {
					continue
				}
				parsed[command] = true
				if _, err := newTestProgram(t).Parse(arguments); err != nil {
					t.Errorf("%s: oncebox %s: %v", page, command, err)
				}
			}
		}
	}
	if len(parsed) < 40 {
		t.Errorf("the documents have %d commands", len(parsed))
	}
}

// commandsIn finds the commands of oncebox in the blocks of a page, and returns their arguments.
func commandsIn(page string) (all [][]string) {
	for _, block := range commandBlock.FindAllStringSubmatch(page, -1) {
		lines := strings.ReplaceAll(block[1], "\\\n", "")
		for _, line := range strings.Split(lines, "\n") {
			command := commandLine.FindStringSubmatch(strings.TrimSpace(line))
			if command == nil {
				continue
			}
			var arguments []string
			for _, w := range word.FindAllString(command[2], -1) {
				if strings.ContainsAny(w[:1], "|>&;)") || w == "2>&1" {
					break
				}
				arguments = append(arguments, strings.Trim(w, `"'`))
			}
			all = append(all, arguments)
		}
	}
	return all
}
