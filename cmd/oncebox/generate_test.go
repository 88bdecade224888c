package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
	s.run(exitNo, "generate", "autumn", "a.txt", "--pattern", "??????", "--count", "1").saying(t, "no such campaign")
	for _, name := range []string{"a.txt", "-"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			t.Errorf("a refused command left its file %s", name)
		}
	}
	make113 := []string{"generate", "spring", "codes.txt", "--pattern", "S-???-???", "--count", "113"}
	s.run(exitDone, append(make113, "--load")...).saying(t, "made 113 codes in codes.txt; the chance to guess one of them is at most 1 in 1,003,", "added 113")
	content, err := os.ReadFile(filepath.Join(s.dir, "codes.txt"))
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
	s.run(exitUsage, make113...).saying(t, "codes.txt exists", "`oncebox load spring codes.txt`")
	s.run(exitDone, "load", "spring", "codes.txt").saying(t, "added 0, known 113")
}
