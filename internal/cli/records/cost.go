package records

import (
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/cost"
)

type costCommand struct {
	ClaimsPerDay    float64       `help:"New claims a day." placeholder:"N"`
	Rate            float64       `name:"records-per-second" help:"Records a second, of all shards together." placeholder:"N"`
	Window          time.Duration `default:"48h" help:"How long after a record a copy of it is a duplicate. Default: ${default}." placeholder:"D"`
	Horizon         time.Duration `default:"14d" help:"How long after its arrival a record may still be processed. Default: ${default}." placeholder:"D"`
	Batch           int           `default:"1000" help:"Records in a batch, as they come: the batch size, or less if the batch window ends before. Default: ${default}." placeholder:"N"`
	Shards          int           `default:"1" help:"Shards of the stream. Default: ${default}." placeholder:"N"`
	Parallelization int           `default:"1" help:"Batches of a shard that are processed at once. Default: ${default}." placeholder:"N"`
	Lanes           int           `default:"8" help:"Lanes of the log ledger. Default: ${default}." placeholder:"N"`
	Copies          float64       `default:"0" help:"Share of the records that are copies, as in 0.05. Default: ${default}." placeholder:"SHARE"`
	FunctionMemory  int           `help:"Memory of a function with the log ledger, in MB. Default: what the entries need." placeholder:"MB"`
	ColdStarts      *float64      `help:"Environments that begin in a day. Default: each one lasts two hours." placeholder:"N"`
	Ledger          string        `default:"keys" enum:"keys,log,valkey" help:"Ledger of the stack: keys, log or valkey. Default: ${default}." placeholder:"LEDGER"`
	RecordSize      int           `default:"1024" help:"Bytes of a record in a stream. Default: ${default}." placeholder:"BYTES"`
	SystemLogLevel  string        `default:"info" enum:"info,warn" help:"system-log-level of the settings file: info or warn. Default: ${default}." placeholder:"LEVEL"`
	Rest            time.Duration `default:"200ms" help:"What an invocation takes besides the ledger: sink and acks. Default: ${default}." placeholder:"D"`
}

func (costCommand) Help() string {
	return `Calculates the bill of a stack in a month of 30 days: claims, records, or both, with all that the stack has. For
records it also compares the three ledgers of the dedupe function: one row a key in DynamoDB (keys), the log ledger
(log), and Valkey (valkey). It asks no service and changes nothing.

Units and sizes are calculated from counted ones, which tests compare with what the functions send. Prices are those of
us-east-1, on demand, without free tiers and discounts. docs/costs.md has both, and what is not counted.
docs/ledgers.md says what each ledger asks for besides money.

Examples:
  oncebox cost --claims-per-day 100000
  oncebox cost --records-per-second 500 --window 48h
  oncebox cost --records-per-second 33000 --shards 40 --batch 2500 --window 1h --ledger log
  oncebox cost --claims-per-day 100000 --records-per-second 500 --output json`
}

// costs is the JSON output of the command.
type costs struct {
	*cost.Comparison
	Stack cost.Bill `json:"stack"`
}

func (c costCommand) Run(a *cli.App) error {
	stack := cost.Stack{
		ClaimsPerDay: c.ClaimsPerDay, Ledger: c.Ledger, RecordBytes: c.RecordSize, SystemLogLevel: c.SystemLogLevel,
	}
	if c.Rate != 0 {
		stack.Records = c.load()
	}
	if err := stack.Check(); err != nil {
		return cli.BadUsage(err, "")
	}
	out := costs{Stack: stack.Month()}
	text := billTable(out.Stack)
	if stack.Records != nil {
		comparison := cost.Compare(*stack.Records)
		out.Comparison = &comparison
		text = costTable(comparison) + "\n\n" + text
	}
	return a.Print(out, text)
}

// load returns the load of the records on a ledger.
func (c costCommand) load() *cost.Load {
	load := &cost.Load{
		Rate: c.Rate, Window: c.Window, Horizon: c.Horizon, Batch: c.Batch, Shards: c.Shards,
		Parallelization: c.Parallelization, Lanes: c.Lanes, Copies: c.Copies, FunctionMemory: c.FunctionMemory,
		ColdStarts: cost.UsualColdStarts, Rest: c.Rest,
	}
	if c.ColdStarts != nil {
		load.ColdStarts = *c.ColdStarts
	}
	return load
}

// billTable returns the bill as text.
func billTable(b cost.Bill) string {
	var out strings.Builder
	const line = "%-10s%-18s%-44s%12s\n"
	fmt.Fprintf(&out, line, "JOB", "SERVICE", "FOR", "USD A MONTH")
	for _, i := range b.Items {
		fmt.Fprintf(&out, line, i.Job, i.Service, i.For, fmt.Sprintf("%.2f", i.USD))
	}
	fmt.Fprintf(&out, line, "together", "", "", fmt.Sprintf("%.2f", b.Total))
	return strings.TrimSuffix(out.String(), "\n")
}

// costTable returns the text output of the command.
func costTable(c cost.Comparison) string {
	var out strings.Builder
	const line = "%-28s%10s%10s%10s\n"
	row := func(name string, of func(e cost.Estimate) float64, digits int) {
		cell := func(e cost.Estimate) string { return fmt.Sprintf("%.*f", digits, of(e)) }
		fmt.Fprintf(&out, line, name, cell(c.Keys), cell(c.Log), cell(c.Valkey))
	}
	fmt.Fprintf(&out, line, "", cost.Keys, cost.Log, cost.Valkey)
	row("USD a day", func(e cost.Estimate) float64 { return e.Total }, 2)
	row("  units of DynamoDB", func(e cost.Estimate) float64 { return e.Day.Units }, 2)
	row("  storage in DynamoDB", func(e cost.Estimate) float64 { return e.Day.Storage }, 2)
	row("  nodes of ElastiCache", func(e cost.Estimate) float64 { return e.Day.Nodes }, 2)
	row("  Lambda", func(e cost.Estimate) float64 { return e.Day.Lambda }, 2)
	row("write units a record", func(e cost.Estimate) float64 { return e.PerRecord.Write }, 4)
	row("read units a record", func(e cost.Estimate) float64 { return e.PerRecord.Read }, 4)
	row("memory of the function, MB", func(e cost.Estimate) float64 { return float64(e.Memory) }, 0)

	s := c.LogSizes
	fmt.Fprintf(&out, "\nlog, in each of %d environments: %.1f million entries, %.2f GiB; the longest window that fits is %s\n",
		c.Environments, s.Entries/1e6, s.EntryBytes/(1<<30), s.LongestWindow)
	fmt.Fprintf(&out, "log, in each of %d lanes: %.1f items a second, %.2f attempts each, %.0f of %d write units and %.0f of %d "+
		"read units a second\n", c.Load.Lanes, s.Appends, s.Attempts, s.LaneWrites, cost.MostWrites, s.LaneReads, cost.MostReads)
	fmt.Fprintf(&out, "log, a cold start: %.2f GB, %.3f USD, %.0f s; %.0f s if all environments begin at once; %.0f in a day\n",
		s.ColdBytes/1e9, s.ColdUSD, s.ColdSeconds, s.DeploySeconds, c.Load.ColdStarts)
	fmt.Fprintf(&out, "valkey: %.1f GiB of entries, %d shards of %s with a replica each\n",
		c.Cluster.Memory, c.Cluster.Shards, c.Cluster.Node)
	for _, e := range []struct {
		name    string
		problem string
	}{{cost.Log, c.Log.Problem}, {cost.Valkey, c.Valkey.Problem}} {
		if e.problem != "" {
			fmt.Fprintf(&out, "%s cannot be used: %s\n", e.name, e.problem)
		}
	}
	fmt.Fprintf(&out, "\nUse %s: %s.", c.Use, c.Because)
	return out.String()
}
