package demo

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type demoCommand struct{}

func (demoCommand) Help() string {
	return `The demo runs the three jobs, claims, record dedup and idempotent calls, and checks every number that it prints. If
a number is wrong, the demo fails. By default it uses a SQLite file of its own, which it removes at the end. With
--store dynamodb: it uses the tables of a local engine and leaves its campaign there.

In the third job a worker freezes for longer than its lease. You need not wait for that: the clocks of the worker are
set back instead.

Example:
  oncebox demo`
}

func (demoCommand) Run(ctx context.Context, a *cli.App) error {
	dir, err := os.MkdirTemp("", "oncebox-demo-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if a.Store != cli.DynamoDBStore {
		a.Store = cli.SQLitePrefix + filepath.Join(dir, "demo.db")
	}
	if err := a.Create(ctx, false); err != nil {
		return err
	}
	store, closeStore, err := a.Open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	d := &demo{app: a, bank: itembank.NewOperator(store), campaign: demoName(), dir: dir}
	defer d.close()
	from, err := claimapi.ParseClaimantFrom("body")
	if err != nil {
		return err
	}
	for range demoContainers {
		log := slog.New(slog.DiscardHandler)
		d.containers = append(d.containers, claimapi.New(itembank.New(store), from, log, claimapi.WithAnyCaller(true)))
	}
	return d.run(ctx)
}

// demo is one run of the demo.
type demo struct {
	app        *cli.App
	bank       *itembank.Operator
	containers []*claimapi.Handler
	campaign   string // also the scope of the records, the prefix of the streams, and the namespace of the calls
	dir        string
	steps      int // printed so far
	closers    []func() error
	result     demoResult
}

// close closes the stores and files of the demo. It ignores their errors, because every number has already been read.
func (d *demo) close() {
	for _, c := range d.closers {
		_ = c()
	}
}

type demoResult struct {
	Store      string            `json:"store"`
	Loaded     itembank.Tally    `json:"loaded"`
	AfterStorm itembank.Counts   `json:"after_100_requests_of_20_customers"`
	AfterAll   itembank.Counts   `json:"after_the_bank_was_emptied"`
	Reloaded   itembank.Tally    `json:"loaded_again"`
	Records    demoRecordsResult `json:"records"`
	Calls      demoCallsResult   `json:"idempotency"`
}

func (d *demo) run(ctx context.Context) error {
	d.result.Store, _, _ = strings.Cut(d.app.Store, ":")
	if err := d.claims(ctx); err != nil {
		return err
	}
	d.text("")
	if err := d.records(ctx); err != nil {
		return err
	}
	d.text("")
	if err := d.calls(ctx); err != nil {
		return err
	}
	return d.app.Print(d.result, "\n"+demoPassed)
}

const demoPassed = "Every check passed: no code was given to two customers; no record was lost or delivered twice;\n" +
	"no order was charged twice."

// text prints a line for a person.
func (d *demo) text(format string, args ...any) {
	if d.app.Output == "text" {
		_, _ = fmt.Fprintf(d.app.Stdout, format+"\n", args...)
	}
}

// step prints an action of the demo and its outcome, in two columns.
func (d *demo) step(did, outcome string, args ...any) {
	d.steps++
	d.text("%3d. %-41s %s", d.steps, did, fmt.Sprintf(outcome, args...))
}

// check compares a number of the demo with the correct one.
func check(what string, got, want int64) error {
	if got != want {
		return fmt.Errorf("the demo failed: %s: %d, want %d", what, got, want)
	}
	return nil
}
