package claims

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
)

// TestCodesDiffer: a code that the random source repeats, and the codes of a part with a known one, are made anew. A byte
// that would make some characters likelier is skipped.
func TestCodesDiffer(t *testing.T) {
	t.Parallel()
	// 255 is skipped, and 22 is the first character again.
	random := bytes.NewReader([]byte{0, 255, 0, 22, 1, 0, 0, 2, 2, 3, 3})
	c := generateCommand{Pattern: "A-??", Count: 2}
	var asked []string
	codes, err := c.codes(random, nil, func(part []string) (bool, error) {
		asked = append(asked, strings.Join(part, " "))
		return len(asked) == 1, nil
	})
	if got := strings.Join(codes, " "); err != nil || got != "A-FF A-HH" {
		t.Errorf("got %q, %v", got, err)
	}
	if got := strings.Join(asked, ", "); got != "A-CC A-CD, A-FF A-HH" {
		t.Errorf("asked for %q", got)
	}
}

// TestCodesEnd: a campaign that knows all codes ends the command.
func TestCodesEnd(t *testing.T) {
	t.Parallel()
	c := generateCommand{Campaign: "spring", Pattern: "????????", Count: 1}
	reads := 0
	_, err := c.codes(strings.NewReader(strings.Repeat("abcdefghijklmnopqrstuvwxyz0123456789", 9)), nil, func([]string) (bool, error) {
		reads++
		return true, nil
	})
	if err == nil || !strings.Contains(err.Error(), "spring knows too many codes") || reads > 9 {
		t.Errorf("%d reads, %v", reads, err)
	}
}

// TestFileOfCodesAppearsWhole: while codes are made the file is empty, a command that fails removes it, and a file that
// exists is not touched.
func TestFileOfCodesAppearsWhole(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c := generateCommand{Campaign: "spring", File: filepath.Join(folder, "codes.txt")}
	failed := errors.New("failed")
	if err := c.writeFile(func() ([]string, error) { return []string{"A-1"}, failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	names := func() (names []string) {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			names = append(names, file.Name())
		}
		return names
	}
	if left := names(); len(left) > 0 {
		t.Errorf("a command that failed left %v", left)
	}
	err := c.writeFile(func() ([]string, error) {
		if content, err := os.ReadFile(c.File); err != nil || len(content) > 0 {
			t.Errorf("the file has %q, %v", content, err)
		}
		other := c.writeFile(func() ([]string, error) { return []string{"B-1"}, nil })
		if cli.ExitCode(t.Context(), other) != cli.ExitUsage {
			t.Errorf("another command wrote the same file: %v", other)
		}
		return []string{"A-1", "A-2"}, nil
	})
	content, readErr := os.ReadFile(c.File)
	if err := errors.Join(err, readErr); err != nil || string(content) != "A-1\nA-2\n" || len(names()) != 1 {
		t.Errorf("got %q in %v, %v", content, names(), err)
	}
}

// TestFileOfAnotherCommandStays: a command whose empty file was deleted neither replaces nor removes the file that
// another command made meanwhile.
func TestFileOfAnotherCommandStays(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{nil, errors.New("failed")} {
		c := generateCommand{Campaign: "spring", File: filepath.Join(t.TempDir(), "codes.txt")}
		err := c.writeFile(func() ([]string, error) {
			err := errors.Join(os.Remove(c.File), c.writeFile(func() ([]string, error) { return []string{"B-1"}, nil }))
			if err != nil {
				t.Error(err)
			}
			return []string{"A-1"}, failed
		})
		content, readErr := os.ReadFile(c.File)
		if err == nil || readErr != nil || string(content) != "B-1\n" {
			t.Errorf("got %q, %v, %v", content, readErr, err)
		}
	}
}
