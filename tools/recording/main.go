// Command recording runs a command and writes its output as a terminal recording, twice: NAME.cast, which `asciinema
// play` replays, and NAME.svg, which a browser shows. `make recording` records `oncebox demo`.
//
// The recording has its own even pace, because a demo that takes a second could not be read.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	columns   = 100
	lineDelay = 500 * time.Millisecond
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: recording NAME COMMAND [ARGUMENT...]")
	}
	if err := record(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

// record runs the command and writes both files.
func record(name string, command []string) error {
	output, err := exec.CommandContext(context.Background(), command[0], command[1:]...).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	s := newSession(prompt(command), string(output))
	if err := os.WriteFile(name+".cast", s.cast(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(name+".svg", s.svg(), 0o644)
}

// prompt returns the command as a user types it, without the folder of the program.
func prompt(command []string) string {
	typed := append([]string{filepath.Base(command[0])}, command[1:]...)
	return "$ " + strings.Join(typed, " ")
}

// A session is the text that the terminal shows, line by line.
type session struct{ lines []string }

// newSession wraps the lines of the output at the width of the terminal.
func newSession(prompt, output string) session {
	s := session{lines: []string{prompt}}
	for line := range strings.Lines(output) {
		s.lines = append(s.lines, wrap(strings.TrimSuffix(line, "\n"))...)
	}
	return s
}

// wrap cuts a line where the terminal would.
func wrap(line string) (lines []string) {
	for letters := []rune(line); ; letters = letters[columns:] {
		if len(letters) <= columns {
			return append(lines, string(letters))
		}
		lines = append(lines, string(letters[:columns]))
	}
}
