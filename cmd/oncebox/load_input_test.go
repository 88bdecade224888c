package main

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestLoadChecksTheFile checks which files load refuses, with line numbers, before it changes anything. --trim and
// --raw say what to do.
func TestLoadChecksTheFile(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.file("spaces.txt", "A-1\n A-2\nA-3 \n\n  \nA\u200b-4\n")
	const bad = "oncebox: spaces.txt: 3 lines cannot be loaded:\n  line 2 begins with a space (U+0020)\n  line 3 ends with a space (U+0020)\n" +
		"  line 6 has a zero-width space (U+200B) at byte 2\n" +
		"Nothing was changed. --trim removes white space and invisible characters, --raw takes items as they are.\n"
	for _, command := range [][]string{{"load", "spring", "spaces.txt"}, {"load", "spring", "spaces.txt", "--dry-run"}, {"withdraw", "spring", "spaces.txt"}} {
		s.run(exitUsage, command...).plainly(t, bad)
	}
	s.file("tab.txt", "A\tB\n")
	for _, flag := range []string{"--trim", "--raw"} { // neither lets a control character through
		s.run(exitUsage, "load", "spring", "tab.txt", "--lines", flag).plainly(t, "oncebox: tab.txt: 1 line cannot be loaded:\n  line 1 has a control character (U+0009) at byte 2\nNothing was changed.\n")
	}
	s.file("short.csv", "1,A-1\n2\n")
	s.run(exitUsage, "load", "spring", "short.csv", "--column", "2").plainly(t, // which no flag lets through
		"oncebox: short.csv: 1 line cannot be loaded:\n  line 2 has 1 column, the items are in column 2\nNothing was changed.\n")
	s.run(exitUsage, "load", "spring", s.file("blank.txt", "\n \n")).saying(t, "blank.txt: holds no items")
	s.counts(itembank.Counts{})

	r := s.run(exitDone, "load", "spring", "spaces.txt", "--trim", "--dry-run")
	if want := "first items: \"A-1\", \"A-2\", \"A-3\", \"A-4\"\nwould add 4, known 0, repeated 0 of 4 lines, skipped 2 blank lines; nothing was changed\n"; r.stdout != want {
		t.Errorf("want\n%s\ngot\n%s", want, r.stdout)
	}
	s.counts(itembank.Counts{})
	if r := s.run(exitDone, "load", "spring", "spaces.txt", "--trim"); r.stdout != "added 4, known 0, repeated 0 of 4 lines, skipped 2 blank lines\n" {
		t.Errorf("unexpected %s", r.stdout)
	}
	var loaded loadJSON
	s.json(&loaded, "load", "spring", "spaces.txt", "--raw")
	if want := (itembank.Tally{Rows: 5, Added: 4, Known: 1}); loaded.Tally != want || loaded.Blank != 1 { // with --raw two spaces are an item
		t.Errorf("want %+v and 1 blank line, got %+v", want, loaded)
	}
	s.run(exitDone, "load", "spring", s.file("plain.txt", "A-1\nA-2\nA-3\nA-4\n")).saying(t, "added 0, known 4")
	s.run(exitDone, "withdraw", "spring", "spaces.txt", "--raw").saying(t, "withdrawn 5, already 0, held 0, unknown 0")
	s.counts(itembank.Counts{Loaded: 8, Free: 3, Ended: 5})
}

// TestLoadLooksLikeCSV checks that a table needs an option about its columns.
func TestLoadLooksLikeCSV(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.file("codes.csv", "id,code\n1,A-1\n2,A-2\n")
	const says = "oncebox: codes.csv: it looks like CSV with \"id\", \"code\" in its first row; " +
		"say --column NAME if these are the names of the columns, --column N if they are not, or --lines if every line is one item\n"
	s.run(exitUsage, "load", "spring", "codes.csv").plainly(t, says)
	s.run(exitUsage, "load", "spring", "codes.csv", "--dry-run").plainly(t, says)
	s.run(exitUsage, "withdraw", "spring", "codes.csv").plainly(t, says)
	s.want(exitUsage, s.runWith("id;code\n1;A-1\n", "load", "spring", "-")).plainly(t, strings.Replace(says, "codes.csv", "-", 1))
	s.want(exitUsage, s.runWith("\xff\xfeA\x00", "load", "spring", "-")).plainly(t,
		"oncebox: -: it is text in UTF-16; save it as UTF-8, or convert it with iconv -f UTF-16 -t UTF-8\n")
	s.file("One.CSV", "code\nA-1\nA-2\n")
	const names = "oncebox: One.CSV: its first line, \"code\", may be the name of a column; say --column \"code\" if it is, or --lines if it is an item\n"
	s.run(exitUsage, "load", "spring", "One.CSV").plainly(t, names)
	s.run(exitUsage, "load", "spring", s.file("two.tsv", "A-1\nA-2\n")).saying(t, `its first line, "A-1", may be`)
	s.run(exitUsage, "withdraw", "spring", "One.CSV").plainly(t, names)
	s.file("latin.csv", "code\ncaf\xe9\n")
	s.run(exitUsage, "load", "spring", "latin.csv", "--column", "code").plainly(t, "oncebox: latin.csv: 1 line cannot be loaded:\n"+
		"  line 2 is not valid UTF-8\nNothing was changed. The file must be text in UTF-8. If it is in Latin-1: "+
		"iconv -f ISO-8859-1 -t UTF-8 FILE > NEW-FILE\n")
	s.run(exitUsage, "load", "spring", "codes.csv", "--column", "2").saying(t, `oncebox: codes.csv: --column 2: the first row has "code" there,`)
	s.counts(itembank.Counts{})
	s.run(exitDone, "load", "spring", "One.CSV", "--column", "code", "--dry-run").saying(t, "would add 2,")
	s.run(exitDone, "load", "spring", "codes.csv", "--column", "code").saying(t, "added 2, known 0, repeated 0 of 2 lines")
	s.run(exitDone, "load", "spring", "codes.csv", "--lines").saying(t, "added 3, known 0, repeated 0 of 3 lines")
	s.counts(itembank.Counts{Loaded: 5, Free: 5})
	s.want(exitDone, s.runWith("id;code\n1;A-1\n2;A-3\n", "load", "spring", "-", "--column", "code")).saying(t, "added 1, known 1")
	for _, dryRun := range [][]string{{"--dry-run"}, nil} {
		r := s.runWith("code;price\nA-1;9,50\nA-3;9,50\nA-4;9,50\n", append([]string{"load", "spring", "-", "--column", "price"}, dryRun...)...)
		s.want(exitDone, r).saying(t, "warning: 2 of 3 lines of - repeat the item of another line; is it the right file, and the right --column?\n")
	}
	if r := s.runWith("A-8\nA-8\n", "load", "spring", "-"); r.stderr != "" {
		t.Errorf("a remark about half of the lines: %s", r.stderr)
	}

	s.run(exitDone, "campaign", "close", "spring")
	s.run(exitUsage, "reconcile", "spring", "--repair", "--items", "codes.csv").plainly(t, says)
}

// TestLoadWarnsOfCase: items that differ only in case are loaded, with a warning.
func TestLoadWarnsOfCase(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	r := s.run(exitDone, "load", "spring", s.file("codes.txt", "x-1\nSPRING-1\nspring-1\nX-1\nx-1\n"))
	if want := "warning: " + s.dir + "/codes.txt has 2 groups of items that differ only in upper and lower case, such as lines 1 and 4; they are different items\n"; r.stderr != want {
		t.Errorf("want %s, got %s", want, r.stderr)
	}
	if want := "added 4, known 0, repeated 1 of 5 lines\n"; r.stdout != want {
		t.Errorf("want %s, got %s", want, r.stdout)
	}
	if r := s.run(exitDone, "--quiet", "load", "spring", "codes.txt"); r.stderr != "" {
		t.Errorf("--quiet: %s", r.stderr)
	}
	if r := s.run(exitDone, "--output", "json", "load", "spring", "codes.txt"); !strings.HasPrefix(r.stderr, `{"remark":"warning: `) {
		t.Errorf("unexpected %s", r.stderr)
	}
	if r := s.run(exitDone, "load", "spring", s.file("same.txt", "spring-1\nspring-2\n")); r.stderr != "" {
		t.Errorf("unexpected %s", r.stderr)
	}
}

// TestDryRunShowsTheFirstItems checks that a dry run shows five items, in JSON, too.
func TestDryRunShowsTheFirstItems(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.file("codes.csv", "id,code\n1,\"A \"\"1\"\"\"\n2,A-2\n3,A-3\n4,A-4\n5,A-5\n6,A-6\n")
	s.run(exitDone, "load", "spring", "codes.csv", "--column", "code", "--dry-run").saying(t, `first items: "A \"1\"", "A-2", "A-3", "A-4", "A-5"`+"\n", "would add 6")
	var would dryRunJSON
	s.json(&would, "load", "spring", "codes.csv", "--column", "code", "--dry-run")
	if got := strings.Join(would.FirstItems, " "); got != `A "1" A-2 A-3 A-4 A-5` || !would.DryRun || would.Added != 6 || would.Blank != 0 {
		t.Errorf("unexpected %+v", would)
	}
}
