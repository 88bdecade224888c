package operate

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/cli/doctor"
	"github.com/oncebox/oncebox/pkg/claimapi"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

type doctorCommand struct {
	Deployed bool `help:"Check the deployed functions, and make, confirm and end claims in scratch campaigns."`
	Strict   bool `help:"Steps that were not played and facts that were not read are failures: exit code 4."`
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

It also looks at the parts around the functions, and changes nothing there: routes, authorizers and domains of the API,
the rule of the sweep, event source mappings, sources, alarms, and concurrency. It sends one request without
credentials to each address of the API, which must answer 401 or 403 unless the API is open by choice.

With --expected-rate N it compares the limits of the account with a sale of N claims a second: API Gateway, Lambda and
DynamoDB. It says what to raise.

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

The exit code is 4 if a check failed, and 0 if there are only warnings. What doctor could not read or try is "not
played". With --strict the exit code is then 4, too, for a pipeline that must know everything. It is safe to interrupt
and to repeat. A run that was killed leaves its scratch campaigns. A run that starts 10 minutes later or after that
deletes them. A run with --clean deletes them at once. With --records, a run that was interrupted deletes its dead
letter, or names it if the function has not stored it yet.

Examples:
  oncebox doctor
  oncebox --store dynamodb: doctor --output json
  oncebox doctor --deployed --stack oncebox
  oncebox doctor --deployed --records
  oncebox doctor --deployed --expected-rate 5000
  oncebox doctor --deployed --function claims:live --function sweep:live`
}

func (c doctorCommand) Run(ctx context.Context, a *cli.App) error {
	if err := c.check(); err != nil {
		return err
	}
	report := doctor.NewReport(func(c doctor.Check) { printCheck(a, c) })
	area := report.Area("versions")
	area.Info("oncebox", fmt.Sprintf("%s (%s, %s/%s)", a.CurrentVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
	var err error
	if c.Deployed {
		err = c.checkDeployed(ctx, a, report)
	} else {
		reportVariables(a, report)
		err = checkStore(ctx, a, report)
	}
	if err != nil {
		return err
	}
	return conclude(a, report, c.Strict)
}

// check refuses flags that have no effect.
func (c doctorCommand) check() error {
	if c.ExpectedRate < 0 {
		return cli.BadUsage(fmt.Errorf("--expected-rate %d: must be a number of claims a second", c.ExpectedRate), "As in 5000.")
	}
	if c.Deployed {
		return nil
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"--records", c.Records}, {"--function", len(c.Function) > 0}, {"--link-key", c.LinkKey != ""},
		{"--clean", c.Clean}, {"--strict", c.Strict}, {"--expected-rate", c.ExpectedRate != 0},
	} {
		if flag.set {
			const hint = "Without --deployed only the store and the variables are checked."
			return cli.BadUsage(fmt.Errorf("%s needs --deployed", flag.name), hint)
		}
	}
	return nil
}

// explainer returns the text for an error of a check.
func explainer(ctx context.Context, a *cli.App) func(error) string {
	return func(err error) string {
		text, hint := cli.DescribeError(a.ExplainAWS(ctx, err), cli.ExitFailed)
		if hint != "" {
			text += ". " + hint
		}
		return text
	}
}

// checkStore checks the store of --store.
func checkStore(ctx context.Context, a *cli.App, report *doctor.Report) error {
	path, ok, err := a.SQLitePath()
	if err != nil {
		return err
	}
	if ok {
		return checkFile(ctx, a, path, report.Area("store"))
	}
	client, err := cli.NewDynamoClient(ctx)
	if err == nil {
		err = cli.CheckDynamoCredentials(ctx, client)
	}
	if err != nil {
		report.Area("store").Fail("AWS", explainer(ctx, a)(err), "")
		return ctx.Err()
	}
	doctor.Tables{
		Client: client, Bank: a.BankTable, Dedupe: a.DedupeTable, Local: dynamo.Local(client), Explain: explainer(ctx, a),
	}.Check(ctx, report)
	return ctx.Err()
}

// checkFile opens a SQLite store as both jobs do.
func checkFile(ctx context.Context, a *cli.App, path string, area doctor.Area) error {
	bank, err := sqlitestore.Open(ctx, path)
	if err != nil {
		area.Fail(path, explainer(ctx, a)(a.MissingStore(err)), "")
		return ctx.Err()
	}
	defer func() { _ = bank.Close() }() // the file was only read
	campaigns, err := bank.Campaigns(ctx)
	if err != nil {
		area.Fail(path, explainer(ctx, a)(err), "")
		return ctx.Err()
	}
	ledger, err := ledgersqlite.Open(ctx, path)
	if err != nil {
		area.Fail(path, explainer(ctx, a)(err), "")
		return ctx.Err()
	}
	defer func() { _ = ledger.Close() }() // the file was only read
	area.OK(path, fmt.Sprintf("a store of this version, with %s", cli.Quantity(int64(len(campaigns)), "campaign")))
	area.Info("clock", "a SQLite file has the clock of this machine, and there is nothing to compare it with")
	return nil
}

// reportVariables reads the variables of this environment as the functions would.
func reportVariables(a *cli.App, report *doctor.Report) {
	area := report.Area("settings")
	switch wrong := a.CheckVariables(); {
	case wrong != nil:
		text, hint := cli.DescribeError(wrong, cli.ExitUsage)
		area.Fail("variables", text, hint)
	case a.Getenv("ONCEBOX_CLAIMANT_FROM") == "" && a.Getenv("ONCEBOX_SINK") == "":
		area.OK("variables", "none is misspelt; there are no settings of functions")
	default:
		area.OK("variables", "none is misspelt")
	}
	if a.Getenv("ONCEBOX_CLAIMANT_FROM") != "" {
		_, _, err := claimapi.ParseSettings(functionVariables(a.Environ, claimapi.Variables()))
		addSettings(area, "claim function", err)
	}
	if a.Getenv("ONCEBOX_SINK") != "" {
		_, o, err := recordhandler.ParseSettings(functionVariables(a.Environ, recordhandler.Variables()))
		name := "dedupe function"
		if o.NeedsClients() {
			name += " of dist/dedupe-full"
		}
		addSettings(area, name, err)
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
func printCheck(a *cli.App, c doctor.Check) {
	if a.Output == cli.OutputJSON {
		return
	}
	fmt.Fprintf(a.Stdout, "%-10s  %-8s  %s: %s\n", c.Status, c.Area, c.Name, c.Detail)
	const indent = "                      "
	if c.Do != "" {
		fmt.Fprintf(a.Stdout, "%sdo: %s\n", indent, c.Do)
	}
	if c.Status != doctor.OK {
		return
	}
	for _, p := range c.Proves {
		fmt.Fprintf(a.Stdout, "%sproves %s\n", indent, p)
	}
}

// doctorJSON is a report with --output json.
type doctorJSON struct {
	Checks    []doctor.Check `json:"checks"`
	Failures  int            `json:"failures"`
	Warnings  int            `json:"warnings"`
	NotPlayed int            `json:"not_played"`
}

// conclude prints the counts. The error is cli.ErrLook if a check failed, and with strict also if a step was not played.
func conclude(a *cli.App, r *doctor.Report, strict bool) error {
	j := doctorJSON{r.Checks, r.Count(doctor.Failure), r.Count(doctor.Warning), r.Count(doctor.NotPlayed)}
	text := fmt.Sprintf("%s, %s, %s", cli.Quantity(int64(len(j.Checks)), "check"), cli.Quantity(int64(j.Failures), "failure"),
		cli.Quantity(int64(j.Warnings), "warning"))
	if j.NotPlayed > 0 {
		text += fmt.Sprintf(", %s not played", cli.Quantity(int64(j.NotPlayed), "step"))
	}
	if err := a.Print(j, text); err != nil {
		return err
	}
	switch {
	case j.Failures > 0:
		return fmt.Errorf("%w: %s", cli.ErrLook, cli.Quantity(int64(j.Failures), "failure"))
	case strict && j.NotPlayed > 0:
		return fmt.Errorf("%w: %s not played, and --strict wants all", cli.ErrLook, cli.Quantity(int64(j.NotPlayed), "step"))
	}
	return nil
}
