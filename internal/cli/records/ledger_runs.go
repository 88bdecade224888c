package records

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

type ledgerRuns struct {
	Ledger string `type:"ledgerfile" help:"Short for --store sqlite:FILE." placeholder:"FILE"`
	Scope  string `help:"Name space of the ids. Default: ${default}." default:"default" placeholder:"NAME"`
}

func (ledgerRuns) Help() string {
	return `Prints the runs of oncebox dedupe in one scope, in the order in which they began. The id of a run begins with its
time, in UTC. ` + "`oncebox dedupe --replace-run RUN`" + ` undoes a run and all later ones.

Examples:
  oncebox ledger runs --ledger seen.db
  oncebox ledger runs --ledger seen.db --scope orders --output json`
}

// runJSON is a run in results.
type runJSON struct {
	Number       int64    `json:"number"`
	Run          string   `json:"run"`
	State        string   `json:"state"` // finished, unfinished, closed or replaced
	ReplacedBy   string   `json:"replaced_by,omitempty"`
	Inputs       []string `json:"inputs"`
	Output       string   `json:"output,omitempty"`    // absent: stdout
	Published    string   `json:"published,omitempty"` // --publish
	In           int64    `json:"in"`
	Out          int64    `json:"out"`
	DeadLettered int64    `json:"dead_lettered"`
}

func (c ledgerRuns) Run(ctx context.Context, a *cli.App) error {
	if err := cli.CheckScope(c.Scope); err != nil {
		return err
	}
	path, err := ledgerFile(a, c.Ledger, "a ledger in DynamoDB has no history of runs")
	if err != nil {
		return err
	}
	store, err := ledgersqlite.OpenToRead(ctx, path)
	if err != nil {
		return a.MissingStore(err)
	}
	defer func() { _ = store.Close() }() // the file was only read
	runs, err := store.Runs(ctx, c.Scope)
	if err != nil {
		return err
	}
	list := make([]runJSON, 0, len(runs))
	for _, r := range runs {
		list = append(list, runToJSON(r))
	}
	return a.Print(list, cli.Table(func(row func(...string)) {
		row("NUMBER", "RUN", "STATE", "IN", "OUT", "OUTPUT", "INPUTS")
		for _, r := range list {
			row(strconv.FormatInt(r.Number, 10), r.Run, r.State, strconv.FormatInt(r.In, 10),
				strconv.FormatInt(r.Out, 10), cmp.Or(r.Output, "-"), cmp.Or(strings.Join(r.Inputs, " "), "-"))
		}
	}))
}

// ledgerFile returns the file of a SQLite ledger. flag is the value of --ledger. other is the error for a ledger in
// DynamoDB.
func ledgerFile(a *cli.App, flag, other string) (path string, err error) {
	if flag != "" {
		a.Store = cli.SQLitePrefix + flag
	}
	path, ok, err := a.SQLitePath()
	if err == nil && !ok {
		err = cli.BadUsage(errors.New(other), "Use --ledger FILE.")
	}
	return path, err
}

func runToJSON(r ledgersqlite.PastRun) runJSON {
	about := offline.AboutRun(r.Run)
	j := runJSON{
		Number: r.Number, Run: r.ID, State: "unfinished", ReplacedBy: r.ReplacedBy, Inputs: about.Inputs,
		Output: about.Output, Published: about.Published,
		In: r.Tally.In, Out: r.Tally.Out, DeadLettered: r.Tally.DeadLettered,
	}
	switch {
	case r.ReplacedBy != "":
		j.State = "replaced"
	case r.Closed:
		j.State = "closed"
	case r.Finished:
		j.State = "finished"
	}
	return j
}
