package records

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
)

// checkHistory refuses flags that cannot be combined with --publish and --replace-run.
func (c *dedupeCommand) checkHistory(a *cli.App) error {
	const oneOfTwo = "Leave out one of the two."
	onDynamoDB := c.Ledger == "" && a.Store == cli.DynamoDBStore
	switch {
	case c.DryRun && (c.Publish != "" || c.ReplaceRun != ""):
		return cli.BadUsage(errors.New("--dry-run changes nothing: it excludes --publish and --replace-run"), oneOfTwo)
	case c.Publish != "" && c.Out != "":
		return cli.BadUsage(errors.New("--publish and --out exclude each other: --publish names the output itself"), oneOfTwo)
	case c.Sink != "" && (c.Out != "" || c.Publish != ""):
		return cli.BadUsage(errors.New("--sink excludes --out and --publish: each of them names the output"), "Choose one.")
	case c.Publish != "" && c.DeadLetters != "":
		return cli.BadUsage(
			errors.New("--publish and --dead-letters exclude each other: --publish names the dead-letter file itself"), oneOfTwo,
		)
	case c.Publish != "" && onDynamoDB:
		return cli.BadUsage(errors.New("--publish does not work with a ledger in DynamoDB"), "Use --ledger FILE, or --ledger :memory:.")
	case c.ReplaceRun == "":
	case onDynamoDB, c.Ledger == inMemory:
		return cli.BadUsage(errors.New("--replace-run needs a SQLite ledger: only that has a history of runs"), "Use --ledger FILE.")
	case c.Window != nil:
		return cli.BadUsage(
			errors.New("--replace-run and --window exclude each other: entries that end may have gone already"), oneOfTwo,
		)
	}
	return nil
}

// remarkClosed reports the stopped runs that were closed.
func remarkClosed(a *cli.App, runs []offline.ClosedRun) {
	for _, r := range runs {
		file, upload := cmp.Or(r.Output, "stdout"), ""
		if r.Host != "" {
			file += " on host " + r.Host
		}
		if r.Place != "" {
			upload = fmt.Sprintf(". If %s exists, it has these lines. Otherwise copy that file to it", r.Place)
		}
		a.Remark("closed the stopped run %s at line %d of %s; its later records are decided again%s", r.ID, r.Lines, file, upload)
	}
}

// remarkHistory reports what a run has changed in addition to its own output.
func (c *dedupeCommand) remarkHistory(a *cli.App, r offline.Report) {
	for _, replaced := range r.Replaced {
		if replaced.Output == "" {
			a.Remark("run %s was undone: what it printed does not count any more", replaced.ID)
		} else {
			a.Remark("run %s was undone: its output %s does not count any more", replaced.ID, replaced.Output)
		}
	}
	if c.Publish == "" {
		return
	}
	output, manifest := r.Output, offline.ManifestOf(c.Publish)
	if r.NewerRun != "" {
		a.Remark("%s names run %s, which is later, and stays as it is: %s was not published", manifest, r.NewerRun, output)
	} else {
		a.Remark("published %s in %s", output, manifest)
	}
}
