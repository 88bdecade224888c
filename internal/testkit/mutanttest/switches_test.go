package mutanttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const shapes = `package main

import "fmt"

type number int

func (number) plus(n int) int { return n + 1 }

func sum[T int | int64](_ string, all ...T) (s T) {
	for _, n := range all {
		s += n
	}
	return s
}

func says() { fmt.Print("hello ") }

func safe() {
	defer rescue()
	panic("x")
}

func rescue() { _ = recover() }

const limit = 5

func main() {
	safe()
	says()
	fmt.Print(number(0).plus(1), " ", sum("", 1, 2), " ", limit)
}
`

// TestSwitches builds a program with all mutants, and runs it as each of them and as none.
func TestSwitches(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "main.go"), []byte(shapes))
	files := switches{}
	of := func(name, from, to string) Mutant {
		return Mutant{name, []Change{{File: "main.go", Old: from, New: to}}}
	}
	for name, m := range map[string]struct {
		Mutant
		joint bool
	}{
		"method":     {of("method", "n + 1", "n + 2"), true},
		"generic":    {of("generic", "s += n", "s -= n"), true},
		"signature":  {of("signature", `func says() { fmt.Print("hello `, `func says() { fmt.Print("bye `), true},
		"constant":   {of("constant", "limit = 5", "limit = 6"), false},
		"recovering": {of("recovering", "_ = recover()", "_ = 0"), false},
	} {
		if files.add(t, root, m.Mutant) != m.joint {
			t.Errorf("%s: want joint %t", name, m.joint)
		}
	}
	for path, text := range files.texts(t) {
		write(t, path, []byte(text))
	}
	bin := filepath.Join(root, "bin")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, filepath.Join(root, "main.go"), filepath.Join(root, "mutant__.go"))
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	want := map[string]string{
		"": "hello 2 3 5", "method": "hello 3 3 5", "generic": "hello 2 -3 5", "signature": "bye 2 3 5",
	}
	for name, want := range want {
		run := exec.CommandContext(t.Context(), bin)
		run.Env = append(os.Environ(), variable+"="+name)
		output, err := run.CombinedOutput()
		if got := strings.TrimSpace(string(output)); err != nil || got != want {
			t.Errorf("mutant %q: want %q, got %q, %v", name, want, got, err)
		}
	}
}
