package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestGenerate checks the codes of a file, that --load loads this file, and what is refused with nothing changed.
func TestGenerate(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	for args, want := range map[string]string{
		"a.txt --pattern S-?????? --count 114":     "--pattern \"S-??????\": 114 codes with 6 random characters could be guessed",
		"a.txt --pattern S,???????? --count 1":     "--pattern \"S,????????\": must be",
		"a.txt --pattern S-???????? --count 0":     "--count 0: must be from 1",
		"- --pattern ?????? --count 1 --load":      "the codes need a file with a name",
		"nowhere/a.txt --pattern ?????? --count 1": "nowhere/a.txt: no such file",
	} {
		s.run(exitUsage, append([]string{"generate", "spring"}, strings.Fields(args)...)...).saying(t, want)
	}
	s.run(exitUsage, "generate", "spring", "", "--pattern", "??????", "--count", "1").saying(t, `a file with a name, which "" is not`)
	s.run(exitNo, "generate", "autumn", "a.txt", "--pattern", "??????", "--count", "1").saying(t, "no such campaign")
	for _, name := range []string{"a.txt", "-"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			t.Errorf("a refused command left its file %s", name)
		}
	}
	make113 := []string{"generate", "spring", "my codes.txt", "--pattern", "S-???-???", "--count", "113"}
	s.run(exitDone, append(make113, "--load")...).saying(t, "made 113 codes in my codes.txt; the chance to guess one of them is at most 1 in 1,003,", "added 113")
	content, err := os.ReadFile(filepath.Join(s.dir, "my codes.txt"))
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`^S-[CDFHJKMPQRTVWXY2346789]{3}-[CDFHJKMPQRTVWXY2346789]{3}$`)
	different := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		if different[line] = true; !code.MatchString(strings.TrimSuffix(line, "\n")) {
			t.Errorf("%q is not a code of the pattern", line)
		}
	}
	if len(different) != 113 {
		t.Errorf("the file has %d different codes", len(different))
	}
	s.counts(itembank.Counts{Loaded: 113, Free: 113})
	s.run(exitUsage, make113...).saying(t, "my codes.txt exists", "`oncebox load spring 'my codes.txt'`")
	s.run(exitDone, "load", "spring", "my codes.txt").saying(t, "added 0, known 113")
}

// TestGenerateKilled: a command that is killed while it loads leaves the whole file, which load goes on with.
func TestGenerateKilled(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	const n = interruptedLines / 6
	count := strconv.Itoa(n)
	c := s.command(t.Context(), nil, "generate", "spring", "codes.txt", "--pattern", "S-????-?????", "--count", count, "--load")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s.untilProgress()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	if got := s.loaded(); got == 0 || got == n {
		t.Fatalf("the load was not cut on its way: %d of %d loaded", got, n)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, ".codes*")); err != nil || len(left) > 0 {
		t.Errorf("files are left behind: %v, %v", left, err)
	}
	s.run(exitDone, "load", "spring", "codes.txt").saying(t, "went on after", "added "+count+", known 0, repeated 0 of "+count+" lines")
	s.counts(itembank.Counts{Loaded: n, Free: n})
}
