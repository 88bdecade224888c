package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestProgressOfResumedLoad: the bar counts the lines that are left, so that rate and time belong to this run.
func TestProgressOfResumedLoad(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.file("codes.txt", lines(1500))
	s.run(exitDone, "load", "spring", "codes.txt")
	for _, test := range []struct {
		cut string // makes a finished load an interrupted one
		bar string
	}{
		{"UPDATE load SET finished = 0, rows = 1000, added = 1000", `loading spring +\d+% .*\((50|[1-5]\d\d)/500, \d+ lines/s\) \[\d+s:\d+s\]`},
		{"UPDATE load SET finished = 0", `^\s*went on after 1500 lines`},
	} {
		s.sql(test.cut)
		screen := s.at("load", "spring", "codes.txt").ends(exitDone)
		if !regexp.MustCompile(test.bar).MatchString(screen) || !strings.Contains(screen, "added 1500, known 0, repeated 0 of 1500 lines") {
			t.Errorf("want progress like %s, got %q", test.bar, screen)
		}
	}
}
