package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const recorded = "../../docs/picture/demo"

// TestRecordingIsOne checks that the two files of docs/picture show the same session.
func TestRecordingIsOne(t *testing.T) {
	t.Parallel()
	cast, svg := read(t, recorded+".cast"), read(t, recorded+".svg")
	s := linesOf(t, cast)
	if !bytes.Equal(s.cast(), cast) {
		t.Error("demo.cast is not as this program writes it")
	}
	if !bytes.Equal(s.svg(), svg) {
		t.Error("demo.svg does not show demo.cast")
	}
	if len(s.lines) < 10 || s.lines[0] != "$ oncebox demo" {
		t.Errorf("the recording has %d lines and begins with %q", len(s.lines), s.lines[0])
	}
}

// linesOf reads a recording back.
func linesOf(t *testing.T, cast []byte) (s session) {
	t.Helper()
	for i, line := range bytes.Split(bytes.TrimSpace(cast), []byte("\n")) {
		if i == 0 {
			continue // the header
		}
		var event []any
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		s.lines = append(s.lines, strings.TrimSuffix(event[2].(string), "\r\n"))
	}
	return s
}

// TestWrap cuts lines as a terminal of that width does.
func TestWrap(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("ä", columns)
	for line, want := range map[string][]string{
		"":          {""},
		"a":         {"a"},
		full:        {full},
		full + "b":  {full, "b"},
		full + full: {full, full},
	} {
		if got := wrap(line); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("wrap(%q) is %q", line, got)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
