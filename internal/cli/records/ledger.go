package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/history"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgerdynamo "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// importBatch is how many records are entered at a time, at most, with --rate or in a log.
const importBatch = 20_000

// These are the values of --format that dedupe does not have.
const (
	parquetFormat    = "parquet"
	snowplowManifest = "snowplow-manifest"
)

type ledgerCommand struct {
	Import  ledgerImportCommand  `cmd:"" help:"Enter records that were processed before, so that their copies are duplicates."`
	Runs    ledgerRuns           `cmd:"" help:"List the runs of dedupe that a SQLite ledger knows."`
	Compact ledgerCompact        `cmd:"" help:"Delete the entries of a SQLite ledger whose window has ended, and make the file smaller."`
	Explain ledgerExplainCommand `cmd:"" help:"Show what the ledger knows of a record, and what it would answer."`
	Stat    ledgerStatCommand    `cmd:"" help:"Count the entries of a log ledger, and the memory that they need."`
	Verify  ledgerVerifyCommand  `cmd:"" help:"Check the log of a log ledger, row by row."`
}

type ledgerImportCommand struct {
	Files []string `arg:"" name:"file" help:"Files, directories, patterns or s3:// names, as of dedupe. JSON may be lines, arrays or concatenated values. With snowplow-manifest also dynamodb:TABLE."`

	Format          string         `enum:"json,snowplow,parquet,snowplow-manifest" default:"json" help:"json or snowplow: as of dedupe. parquet: the paths are columns. snowplow-manifest: the events manifest of Snowplow's batch job, as its table or an export of that. Default: ${default}." placeholder:"FORMAT"`
	Ledger          string         `help:"Short for --store sqlite:FILE; a missing file is made. With --store dynamodb:, the ONCEBOX_LEDGER of the function if that is log, as in log?lanes=16; it needs --window. Default: one row a key." placeholder:"FILE"`
	Scope           string         `help:"Name space of the ids: the scope of the function (as in orders, or sqs:orders for a queue) or of the runs. Default: ${default}." default:"default" placeholder:"NAME"`
	IDPath          string         `name:"id-path" help:"Path of the id, as in event.id. Required with json and parquet." placeholder:"P"`
	FingerprintPath string         `help:"Path of the fingerprint. By default, and where it is absent, the fingerprint is computed; Parquet needs one." placeholder:"P"`
	ContextsPath    string         `help:"Path of the array that gets the duplicate context: it does not count for a computed fingerprint. Default: ${default}." default:"contexts" placeholder:"P"`
	Volatile        []string       `help:"Path that does not count for a computed fingerprint. Repeatable, or with commas in between." placeholder:"P"`
	TimePath        string         `help:"Path of the record's time. Default: the beginning of the import." placeholder:"P"`
	Window          *time.Duration `help:"How long after a record a copy of it is a duplicate: the window of the function. Default: forever." placeholder:"D"`
	IDs             offline.IDs    `name:"ids" enum:"first-keeps,derived" default:"first-keeps" help:"derived: the function gives every record a derived id, so that copies are found under it. Default: ${default}." placeholder:"POLICY"`
	Rate            cli.RowRate    `help:"Enter at most N records a second, to leave the capacity of the table to others. Default: no limit." placeholder:"N"`
}

func (ledgerImportCommand) Help() string {
	return `A new function, or a new ledger, knows no record: the first copies of old records go through. This command enters
records that were processed before: in files of a lake, a backup or a former pipeline. No output is written.

Scope, paths, volatile members, window and ids must be those of the function or of the runs that will meet the
copies. Otherwise a copy has another fingerprint, and is a synthetic duplicate: renamed, and not dropped. If the
ledger has an entry of one of the ids that was made with other settings, the exit code is 4.

The command is safe to repeat and to stop. An import that was stopped goes on where it was, about a second back. One
that had finished does nothing. Entries that exist stay as they are.

With a window, give the records' times: --time-path. Without it they count from the beginning of the import. In
DynamoDB an entry is deleted window + 14 days after its record's time; older records are left out (too_old).
Each record costs a write unit there. One that the ledger knows costs a read unit, too.

late counts records that the ledger has from elsewhere: a function that runs already may have delivered them. A record
that cannot be read is left out (bad), and the exit code is 4.

With --ledger log the records are appended to the log of a log ledger: about 35 of them for a write unit, if they are in the
order of their times. The entries of a window have to fit into 2 GiB of memory: 67 million.

With --format snowplow-manifest the files are an export of the events manifest to S3, or dynamodb:TABLE is the table
itself. It is read whole each time, and only rows that still count are entered.

Examples:
  oncebox ledger import 's3://lake/orders/2027/**/*.gz' --id-path order.id --ledger seen.db
  oncebox ledger import past.parquet --format parquet --id-path id --fingerprint-path fingerprint --ledger seen.db
  oncebox --store dynamodb: ledger import past.gz --scope orders --id-path id --time-path at --window 48h --rate 500
  oncebox --store dynamodb: ledger import past.gz --scope orders --id-path id --time-path at --window 48h --ledger log
  oncebox --store dynamodb: ledger import dynamodb:manifest --format snowplow-manifest --scope enriched --window 48h`
}

func (c ledgerImportCommand) Run(ctx context.Context, a *cli.App) error {
	if err := cli.CheckScope(c.Scope); err != nil {
		return err
	}
	log, err := c.logLedger()
	if err != nil {
		return err
	}
	retention, err := retentionOf(c.Window, (c.Ledger == "" || log != nil) && a.Store == cli.DynamoDBStore)
	if err != nil {
		return err
	}
	if log != nil && c.Window == nil {
		err := fmt.Errorf("--ledger %s needs --window: a log ledger keeps nothing forever", c.Ledger)
		return cli.BadUsage(err, "Give the window of the function.")
	}
	source, settings, remove, err := c.source(ctx, a, retention)
	if err != nil {
		return err
	}
	defer remove()
	ledger, closeLedger, err := c.openLedger(ctx, a, log)
	if err != nil {
		return err
	}
	defer closeLedger()
	progress, finish := a.Counting("entering", "records")
	past := history.Import{
		Source: source, Settings: settings, Store: ledger, Scope: c.Scope, Retention: retention,
		Derive: c.IDs == offline.Derived,
	}
	if log != nil {
		past.Batch = importBatch       // each call appends an item to each lane
		past.Settings += " into a log" // an import into another ledger is another import
	}
	if progress != nil {
		past.Progress = func(records int64) { progress(records, 0) }
	}
	if n := int(c.Rate); n > 0 {
		past.Batch = min(n, importBatch)
		past.Wait = rate.NewLimiter(rate.Limit(n), past.Batch).WaitN
	}
	report, err := past.Run(ctx)
	finish()
	if err != nil {
		return err
	}
	return reportImport(a, report)
}

// source returns the records of the past, and the options that change these records. Call remove after use.
func (c ledgerImportCommand) source(ctx context.Context, a *cli.App, keep dedupe.Retention) (
	source history.Source, settings string, remove func(), err error,
) {
	if table, ok := strings.CutPrefix(c.Files[0], cli.DynamoDBStore); ok && c.Format == snowplowManifest && len(c.Files) == 1 {
		source, err := manifestTable(ctx, table, keep)
		return source, "", func() {}, err
	}
	files := &sources{}
	from, err := files.expand(ctx, c.Files)
	if err != nil {
		return nil, "", nil, err
	}
	const readTwice = false
	inputs, remove, err := files.inputs(ctx, from, a.Stdin, readTwice)
	if err == nil && c.Format == "json" {
		err = setRecords(inputs, offline.Auto, c.Format)
	}
	if err == nil {
		source, settings, err = c.sourceOf(ctx, inputs, keep)
	}
	if err != nil {
		remove()
		return nil, "", nil, err
	}
	return source, settings, remove, nil
}

func (c ledgerImportCommand) sourceOf(ctx context.Context, inputs []offline.Input, keep dedupe.Retention) (
	history.Source, string, error,
) {
	switch c.Format {
	case snowplowManifest:
		return manifestExport(inputs, keep), "", nil
	case parquetFormat:
		if c.FingerprintPath == "" || c.IDPath == "" {
			return nil, "", cli.BadUsage(
				errors.New("--format parquet needs --id-path and --fingerprint-path: a fingerprint cannot be computed of columns"),
				"Name the columns, or import the records as JSON.",
			)
		}
		columns := history.Columns{ID: c.IDPath, Fingerprint: c.FingerprintPath, Time: c.TimePath}
		return history.Parquet(inputs, columns), fmt.Sprintf("parquet %+q", columns), nil
	}
	as := dedupeCommand{
		Format: c.Format, IDPath: c.IDPath, FingerprintPath: c.FingerprintPath, ContextsPath: c.ContextsPath,
		TimePath: c.TimePath, Volatile: c.Volatile,
	}
	lines, err := as.lines()
	if err != nil {
		return nil, "", err
	}
	check := offline.Job{Inputs: inputs, Format: lines}
	if err := check.CheckFirstLines(ctx); err != nil {
		return nil, "", c.explain(err)
	}
	return history.Lines(inputs, lines), lines.Settings(), nil
}

// explain adds advice to an error about first lines that are not records, as dedupe does.
func (c ledgerImportCommand) explain(err error) error {
	e, ok := errors.AsType[*offline.NotRecordsError](err)
	if !ok {
		return err
	}
	paths := dedupeCommand{IDPath: c.IDPath, TimePath: c.TimePath, FingerprintPath: c.FingerprintPath}
	return cli.WithHint(err, paths.otherPath(e))
}

// logLedger returns the settings of the log ledger that --ledger names, or nil if it names none.
func (c ledgerImportCommand) logLedger() (*logledger.Options, error) {
	if address.Scheme(c.Ledger) != "log" {
		return nil, nil
	}
	o, err := logledger.Parse(c.Ledger)
	if err != nil {
		return nil, cli.BadUsage(fmt.Errorf("--ledger: %w", err), "")
	}
	o.Memory = cmp.Or(o.Memory, cli.MemoryOfLog)
	return &o, nil
}

// openLedger opens the ledger that gets the entries: a log ledger, if log is not nil.
func (c ledgerImportCommand) openLedger(ctx context.Context, a *cli.App, log *logledger.Options) (history.Store, func(), error) {
	switch {
	case log != nil:
		return openLogLedger(ctx, a, *log)
	case c.Ledger == "":
		return a.OpenRows(ctx, c.Scope)
	case c.Ledger == inMemory:
		return nil, nil, cli.BadUsage(errors.New("--ledger :memory: forgets everything after the import"), "Name a file.")
	case recordhandler.IsLedger(c.Ledger):
		err := fmt.Errorf("--ledger %s: the entries of an import are in a file, or in DynamoDB", address.Scheme(c.Ledger))
		return nil, nil, cli.BadUsage(err, "Give --ledger FILE, or --store "+cli.DynamoDBStore+" with --ledger log or without --ledger.")
	}
	store, err := ledgersqlite.Create(ctx, c.Ledger)
	if err != nil {
		return nil, nil, err
	}
	return store, func() { _ = store.Close() }, nil // every write is on the disk already
}

// logHistory is a log ledger, with the runs of imports in the table.
type logHistory struct {
	dedupe.Ledger
	dedupe.Runs
}

func openLogLedger(ctx context.Context, a *cli.App, o logledger.Options) (history.Store, func(), error) {
	client, err := a.LogClient(ctx)
	if err != nil {
		return nil, nil, err
	}
	ledger, err := logledger.New(ledgerdynamo.NewLog(client, a.DedupeTable), o)
	if err != nil {
		return nil, nil, err
	}
	return logHistory{ledger, ledgerdynamo.New(client, a.DedupeTable)}, func() {}, nil
}

// importSummary is the JSON output of an import.
type importSummary struct {
	Read     int64 `json:"read"`
	Entered  int64 `json:"entered"`
	Known    int64 `json:"known"`
	Late     int64 `json:"late"`
	TooOld   int64 `json:"too_old"`
	Bad      int64 `json:"bad"`
	Resumed  int64 `json:"resumed"`
	Finished bool  `json:"finished_before"`

	OtherSettings *offline.OtherSettings `json:"other_settings,omitempty"` // the entry of a record with one of the ids
}

// reportImport prints the results of an import.
func reportImport(a *cli.App, r history.Report) error {
	switch {
	case r.Finished:
		a.Remark("this import has finished before: nothing was done")
	case r.Resumed > 0:
		a.Remark("went on after %s that were done before", cli.Quantity(r.Resumed, "record"))
	}
	text := fmt.Sprintf("read %d = entered %d + known %d + late %d + too_old %d + bad %d",
		r.Read, r.Entered, r.Known, r.Late, r.TooOld, r.Bad)
	err := a.Print(importSummary{
		r.Read, r.Entered, r.Known, r.Late, r.TooOld, r.Bad, r.Resumed, r.Finished, r.OtherSettings,
	}, text)
	switch {
	case err != nil:
		return err
	case r.Bad > 0:
		first := ""
		if r.FirstBad != "" {
			first = "; the first one is at " + r.FirstBad
		}
		return fmt.Errorf("%w: %s could not be entered%s", cli.ErrLook, cli.Quantity(r.Bad, "record"), first)
	case r.TooOld > 0 && r.TooOld == r.Read:
		return fmt.Errorf("%w: all %s are too old, and nothing was entered. An entry is deleted --window + 14 days after "+
			"its record's time", cli.ErrLook, cli.Quantity(r.TooOld, "record"))
	}
	return otherSettings(r.OtherSettings)
}

// otherSettings returns an error if the ledger has an entry that was made with other settings.
func otherSettings(other *offline.OtherSettings) error {
	if other == nil {
		return nil
	}
	return cli.WithHint(
		fmt.Errorf("%w: the ledger has the id %s from %s, whose fingerprint was made with other settings. "+
			"Copies of such records are not found: they pass under a new id", cli.ErrLook, other.ID, other.Owner),
		"Give the same paths and --volatile to all runs and imports of a scope, or use another scope.",
	)
}
