package records

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
)

// fileUse is a file and its purpose in a run.
type fileUse struct{ what, path string }

// writes returns the files that a run writes to.
func (c *dedupeCommand) writes(a *cli.App, out output) []fileUse {
	var uses []fileUse
	if c.Report != "" {
		uses = append(uses, fileUse{"the listing of --report", c.listing()}, fileUse{"the page of --report", filepath.Join(c.Report, reportPage)})
	}
	if c.DryRun {
		return uses
	}
	if c.Publish != "" {
		uses = append(uses, fileUse{"the list of --publish", offline.ManifestOf(c.Publish)})
	} else {
		uses = append(uses, fileUse{"--dead-letters", c.DeadLetters})
	}
	ledger := c.Ledger
	if path, ok := strings.CutPrefix(a.Store, cli.SQLitePrefix); ledger == "" && ok {
		ledger = path
	}
	if ledger != "" && ledger != inMemory {
		uses = append(uses, fileUse{"the ledger", ledger})
	}
	if out.file == "" {
		return uses
	}
	if out.object != nil {
		uses = append(uses, fileUse{"--out", out.name})
	}
	return append(uses, fileUse{"--out", out.file}, fileUse{"the lock of --out", out.file + ".lock"},
		fileUse{"the mark of --out", out.file + ".run"},
		fileUse{"the lock of --dead-letters", c.DeadLetters + ".lock"},
		fileUse{"the mark of --dead-letters", c.DeadLetters + ".run"})
}

// checkPaths refuses to write to a file that is also read, or written for another purpose.
func (c *dedupeCommand) checkPaths(a *cli.App, out output, from []source) error {
	writes := c.writes(a, out)
	if err := checkNotIncluded(c.Files, writes); err != nil {
		return err
	}
	uses := slices.Clone(writes)
	for _, in := range from {
		if in.isFile() {
			uses = append(uses, fileUse{"an input", in.name})
		}
	}
	for i, written := range writes {
		for _, other := range uses[i+1:] {
			if samePath(written.path, other.path) {
				return cli.BadUsage(fmt.Errorf("%s is %s as well as %s", written.path, written.what, other.what), "")
			}
		}
	}
	return checkStreams(from, out, a.Stdout)
}

// checkNotIncluded refuses to write to a file that a directory, prefix or pattern among the inputs would include in a
// later run.
func checkNotIncluded(inputs []string, writes []fileUse) error {
	for _, name := range inputs {
		for _, written := range writes {
			if includes(name, written.path) {
				return cli.BadUsage(
					fmt.Errorf("%s is %s, and a later run would find it among the inputs %s",
						written.path, written.what, name),
					"Choose a place outside of the inputs.",
				)
			}
		}
	}
	return nil
}

// checkStreams refuses to read stdin twice, and to read the file that stdout writes to.
func checkStreams(from []source, out output, stdout io.Writer) error {
	for i, in := range from {
		if in.name == "-" && slices.Contains(from[:i], in) {
			return cli.BadUsage(errors.New("- is named twice, and stdin can be read only once"), "")
		}
		if out.file == "" && in.isFile() && isStdout(stdout, in.name) {
			return cli.BadUsage(fmt.Errorf("%s is stdout as well as an input", in.name), "")
		}
	}
	return nil
}

func samePath(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	a, errX = filepath.Abs(a)
	b, errY = filepath.Abs(b)
	return errX == nil && errY == nil && a == b
}

// isStdout reports whether stdout is redirected to a file of that name.
func isStdout(stdout io.Writer, path string) bool {
	file, ok := stdout.(*os.File)
	if !ok {
		return false
	}
	x, errX := file.Stat()
	y, errY := os.Stat(path)
	return errX == nil && errY == nil && x.Mode().IsRegular() && os.SameFile(x, y)
}
