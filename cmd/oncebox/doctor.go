package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/doctor"
	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/claimapi"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

type doctorCommand struct {
	Deployed bool `help:"Check the deployed functions, and make, confirm and end claims in scratch campaigns."`
	deployedFlags
}

func (doctorCommand) Help() string {
	return `Checks the store (tables, index, TTL, version of the layout, clock) or the SQLite file, and the ONCEBOX_
variables as the functions would read them. It changes nothing.

With --deployed it finds the functions of a CloudFormation stack, and checks their tables and their settings. Then it
invokes the functions as their callers do, through the alias of each function, and tests:

  a claim, its release, a hold and its confirmation
  claims that have ended, items that have ended
  a sweep

It works in two scratch campaigns, oncebox-doctor-..., and deletes them at the end. It touches no other campaign. It
takes seconds. Each step says which permissions of docs/iam.md it proves.

Name functions without a stack with --function, once for each: NAME, NAME:ALIAS or an ARN. Doctor invokes the function
that you name: NAME without an alias is the function itself. In a stack doctor knows the sweep by its description,
"oncebox sweep ...".

With --records it also puts six records into the source stream: a record and its copy, another record with the same id,
two in a KPL aggregate, and a poison record, which is not JSON. Consumers of the destination get four of them. They have
the member oncebox_doctor. Other consumers of the source get all six: a consumer that fails at such records blocks its
shard. The dead letter and its notification are deleted. The alarm about dead letters goes off for about 5 minutes. The
records stay for the retention of the streams. Nothing is put if several dedupe functions read the stream.

The exit code is 4 if a check failed, and 0 if there are only warnings. It is safe to interrupt and to repeat. A run
that was killed leaves its scratch campaigns. A run that starts 10 minutes later or after that deletes them. A run with
--clean deletes them at once. With --records, a run that was interrupted deletes its dead letter, or names it if the
function has not stored it yet.

Examples:
  oncebox doctor
  oncebox --store dynamodb: doctor --output json
  oncebox doctor --deployed --stack oncebox
  oncebox doctor --deployed --records
  oncebox doctor --deployed --function claims:live --function sweep:live`
}

func (c doctorCommand) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	report := doctor.NewReport(a.printCheck)
	area := report.Area("versions")
	area.Info("oncebox", fmt.Sprintf("%s (%s, %s/%s)", currentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
	var err error
	if c.Deployed {
		err = c.checkDeployed(ctx, a, report)
	} else {
		checkVariables(report)
		err = a.checkStore(ctx, report)
	}
	if err != nil {
		return err
	}
	return a.conclude(report)
}

// check refuses flags that have no effect.
func (c doctorCommand) check() error {
	if c.Deployed {
		return nil
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"--records", c.Records}, {"--function", len(c.Function) > 0}, {"--link-key", c.LinkKey != ""},
		{"--clean", c.Clean},
	} {
		if flag.set {
			const hint = "Without --deployed only the store and the variables are checked."
			return &usageError{fmt.Errorf("%s needs --deployed", flag.name), hint}
		}
	}
	return nil
}

// explain returns the text for an error of a check.
func (a *app) explain(ctx context.Context) func(error) string {
	return func(err error) string {
		text, hint := describeError(a.explainAWS(ctx, err), exitFailed)
		if hint != "" {
			text += ". " + hint
		}
		return text
	}
}

// checkStore checks the store of --store.
func (a *app) checkStore(ctx context.Context, report *doctor.Report) error {
	path, ok, err := a.sqlitePath()
	if err != nil {
		return err
	}
	if ok {
		return a.checkFile(ctx, path, report.Area("store"))
	}
	client, err := newDynamoClient(ctx)
	if err == nil {
		err = checkDynamoCredentials(ctx, client)
	}
	if err != nil {
		report.Area("store").Fail("AWS", a.explain(ctx)(err), "")
		return ctx.Err()
	}
	doctor.Tables{
		Client: client, Bank: a.BankTable, Dedupe: a.DedupeTable, Local: dynamo.Local(client), Explain: a.explain(ctx),
	}.Check(ctx, report)
	return ctx.Err()
}

// checkFile opens a SQLite store as both jobs do.
func (a *app) checkFile(ctx context.Context, path string, area doctor.Area) error {
	bank, err := sqlitestore.Open(ctx, path)
	if err != nil {
		area.Fail(path, a.explain(ctx)(a.missingStore(err)), "")
		return ctx.Err()
	}
	defer func() { _ = bank.Close() }() // the file was only read
	campaigns, err := bank.Campaigns(ctx)
	if err != nil {
		area.Fail(path, a.explain(ctx)(err), "")
		return ctx.Err()
	}
	ledger, err := ledgersqlite.Open(ctx, path)
	if err != nil {
		area.Fail(path, a.explain(ctx)(err), "")
		return ctx.Err()
	}
	defer func() { _ = ledger.Close() }() // the file was only read
	area.OK(path, fmt.Sprintf("a store of this version, with %s", quantity(int64(len(campaigns)), "campaign")))
	area.Info("clock", "a SQLite file has the clock of this machine, and there is nothing to compare it with")
	return nil
}

// checkVariables reads the variables of this environment as the functions would.
func checkVariables(report *doctor.Report) {
	area, environ := report.Area("settings"), os.Environ()
	p, err := newParser(&cli{})
	if err == nil {
		err = p.checkNames(environ, nil)
	}
	var wrong *usageError
	switch {
	case errors.As(err, &wrong):
		area.Fail("variables", wrong.Error(), wrong.hint)
	case os.Getenv("ONCEBOX_CLAIMANT_FROM") == "" && os.Getenv("ONCEBOX_SINK") == "":
		area.OK("variables", "none is misspelt; there are no settings of functions")
	default:
		area.OK("variables", "none is misspelt")
	}
	if os.Getenv("ONCEBOX_CLAIMANT_FROM") != "" {
		_, _, err := claimapi.ParseSettings(functionVariables(environ, claimapi.Variables()))
		addSettings(area, "claim function", err)
	}
	if os.Getenv("ONCEBOX_SINK") != "" {
		_, _, err := recordhandler.ParseSettings(functionVariables(environ, recordhandler.Variables()))
		addSettings(area, "dedupe function", err)
	}
}

func addSettings(area doctor.Area, name string, err error) {
	if err != nil {
		area.Fail(name, strings.ReplaceAll(err.Error(), "\n", "; "),
			"Correct the variables: with these the function would not start.")
		return
	}
	area.OK(name, "would start with these variables")
}

// functionVariables returns the variables with these names, because functions share the environment with other
// programs here. It adds names of tables if they are not set, because the command line has defaults for them.
func functionVariables(environ, names []string) (variables []string) {
	for _, table := range []string{"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=dedupe"} {
		environ = append([]string{table}, environ...) // the last one of a name counts
	}
	for _, v := range environ {
		if name, value, _ := strings.Cut(v, "="); value != "" && slices.Contains(names, name) {
			variables = append(variables, v)
		}
	}
	return variables
}

// printCheck prints each check when it is made. With --output json, all checks are printed at the end.
func (a *app) printCheck(c doctor.Check) {
	if a.Output == outputJSON {
		return
	}
	fmt.Fprintf(a.stdout, "%-10s  %-8s  %s: %s\n", c.Status, c.Area, c.Name, c.Detail)
	const indent = "                      "
	if c.Do != "" {
		fmt.Fprintf(a.stdout, "%sdo: %s\n", indent, c.Do)
	}
	if c.Status != doctor.OK {
		return
	}
	for _, p := range c.Proves {
		fmt.Fprintf(a.stdout, "%sproves %s\n", indent, p)
	}
}

// doctorJSON is a report with --output json.
type doctorJSON struct {
	Checks    []doctor.Check `json:"checks"`
	Failures  int            `json:"failures"`
	Warnings  int            `json:"warnings"`
	NotPlayed int            `json:"not_played"`
}

// conclude prints the counts. The error is errLook if a check failed.
func (a *app) conclude(r *doctor.Report) error {
	j := doctorJSON{r.Checks, r.Count(doctor.Failure), r.Count(doctor.Warning), r.Count(doctor.NotPlayed)}
	text := fmt.Sprintf("%s, %s, %s", quantity(int64(len(j.Checks)), "check"), quantity(int64(j.Failures), "failure"),
		quantity(int64(j.Warnings), "warning"))
	if j.NotPlayed > 0 {
		text += fmt.Sprintf(", %s not played", quantity(int64(j.NotPlayed), "step"))
	}
	if err := a.print(j, text); err != nil || j.Failures == 0 {
		return err
	}
	return fmt.Errorf("%w: %s", errLook, quantity(int64(j.Failures), "failure"))
}
