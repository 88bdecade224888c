package claims

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
)

// TestCodesDiffer: a code that the random source repeats, and a code that is known, are made anew. The other codes stay. A
// byte that would make some characters likelier is skipped.
func TestCodesDiffer(t *testing.T) {
	t.Parallel()
	// 255 is skipped, and 22 is the first character again.
	random := bytes.NewReader([]byte{0, 255, 0, 22, 1, 0, 0, 2, 2, 0, 1, 3, 3})
	c := generateCommand{Pattern: "A-??", Count: 3}
	var asked []string
	codes, err := c.codes(random, nil, func(part []string) (unknown []string, err error) {
		asked = append(asked, strings.Join(part, " "))
		return slices.DeleteFunc(part, func(code string) bool { return code == "A-CD" }), nil
	})
	if got := strings.Join(codes, " "); err != nil || got != "A-CC A-FF A-HH" {
		t.Errorf("got %q, %v", got, err)
	}
	if got := strings.Join(asked, ", "); got != "A-CC A-CD A-FF, A-HH" {
		t.Errorf("asked for %q", got)
	}
}

// TestCodesEnd: a campaign that knows all codes ends the command.
func TestCodesEnd(t *testing.T) {
	t.Parallel()
	c := generateCommand{Campaign: "spring", Pattern: "????????", Count: 1}
	reads := 0
	_, err := c.codes(strings.NewReader(strings.Repeat("abcdefghijklmnopqrstuvwxyz0123456789", 9)), nil, func([]string) ([]string, error) {
		reads++
		return nil, nil
	})
	if err == nil || !strings.Contains(err.Error(), "spring knows too many codes") || reads > 9 {
		t.Errorf("%d reads, %v", reads, err)
	}
}

// TestFileOfCodesAppearsWhole: while codes are made there is no file, a command that fails leaves none, and a file that
// exists or that another command makes meanwhile is not touched.
func TestFileOfCodesAppearsWhole(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c := generateCommand{Campaign: "spring", File: filepath.Join(folder, "my codes.txt")}
	names := func() (names []string) {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasPrefix(file.Name(), ".my codes.txt-") {
				names = append(names, file.Name())
			}
		}
		return names
	}
	failed := errors.New("failed")
	err := c.writeFile(func() ([]string, error) {
		if there := names(); len(there) > 0 {
			t.Errorf("there is %q before the codes are made", there)
		}
		return []string{"A-1"}, failed
	})
	left, readErr := os.ReadDir(folder)
	if !errors.Is(err, failed) || readErr != nil || len(left) > 0 {
		t.Errorf("a command that failed left %v, %v, %v", left, readErr, err)
	}
	refused := func(err error, says string) {
		t.Helper()
		message, hint := cli.DescribeError(err, cli.ExitUsage)
		if cli.ExitCode(t.Context(), err) != cli.ExitUsage || !strings.HasSuffix(message, says) || !strings.Contains(hint, "load spring '"+c.File+"'` loads") {
			t.Errorf("got %s\n%s", message, hint)
		}
	}
	refused(c.writeFile(func() ([]string, error) {
		if err := c.writeFile(func() ([]string, error) { return []string{"B-1", "B-2"}, nil }); err != nil {
			t.Error(err)
		}
		return []string{"A-1"}, nil
	}), "exists, and is not written over; somebody made it meanwhile, and the codes were thrown away")
	refused(c.writeFile(func() ([]string, error) {
		t.Error("codes are made for a file that exists")
		return []string{"A-1"}, nil
	}), "exists, and is not written over")
	content, err := os.ReadFile(c.File)
	left, readErr = os.ReadDir(folder)
	if err := errors.Join(err, readErr); err != nil || string(content) != "B-1\nB-2\n" || len(left) != 1 {
		t.Errorf("got %q in %v, %v", content, left, err)
	}
}
