package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestCounting: on a terminal, commands that do not know the total show how much is done and how fast, without the time
// that is left. The result stays on the screen.
func TestCounting(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings []string
		args     []string
		bar      string
		result   string
	}{
		{
			"withdraw all", nil, []string{"withdraw", "spring", "--all", "--yes"},
			`withdrawing from spring \(\d+, \d+ items/s\) \[\d+s\] `, "withdrawn 3000, already 0, held 0, unknown 0",
		},
		{
			"sweep", []string{"--item-life", "1s"}, []string{"sweep", "spring"},
			`sweeping spring \(\d+, \d+ rows/s\) \[\d+s\] `, "returned 0, expired 3000, withdrawn 0",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newShell(t)
			s.stocked(3000, test.settings...)
			screen := s.at(test.args...).ends(exitDone)
			if !regexp.MustCompile(test.bar).MatchString(screen) || !strings.HasSuffix(strings.TrimSpace(screen), "\r"+test.result) {
				t.Errorf("want progress and then %q, got %q", test.result, screen)
			}
			if r := s.run(exitDone, test.args...); r.stderr != "" {
				t.Errorf("not on a terminal: %q", r.stderr)
			}
			if screen := s.at(append([]string{"--quiet"}, test.args...)...).ends(exitDone); strings.Contains(screen, "\r ") || strings.Contains(screen, "/s)") {
				t.Errorf("--quiet: %q", screen)
			}
		})
	}
}

// TestBytesProgress: on a terminal a run shows its progress and leaves its summary in a line of its own, also where the
// total is not known.
func TestBytesProgress(t *testing.T) {
	s := newShell(t)
	s.file("in", manyRecords(20_000))
	if err := syscall.Mkfifo(s.dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for i, input := range []string{"in", "pipe"} {
		if input == "pipe" {
			go func() { _ = os.WriteFile(s.dir+"/pipe", []byte(manyRecords(20_000)), 0o600) }()
		}
		screen := s.at("dedupe", input, "--id-path", "id", "--fingerprint-path", "fp", "--ledger", inMemory, "--out", fmt.Sprint("out", i)).ends(exitDone)
		if !regexp.MustCompile(`deduplicating, [0-9,]+ lines/s`).MatchString(screen) || !regexp.MustCompile(`\rin 20000 = .*\r\n$`).MatchString(screen) {
			t.Errorf("%s: want progress and the summary behind it, got %q", input, screen)
		}
	}
}
