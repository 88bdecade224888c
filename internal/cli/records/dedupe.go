package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/memledger"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// inMemory is the --ledger that ends with the run.
const inMemory = offline.InMemory

// deadLettersOfStdout is the default of --dead-letters without --out.
const deadLettersOfStdout = "oncebox.dead.ndjson"

type dedupeCommand struct {
	Files []string `arg:"" optional:"" name:"file" help:"NDJSON, one record a line; read in this order. Also gzip or zstd, directories, patterns with **, and s3:// names. Without files, or as -: stdin."`

	Out             string          `help:"Where survivors go: a file, or s3://BUCKET/KEY. A name in .gz or .zst is compressed. - is stdout, the default." placeholder:"FILE"`
	Sink            string          `help:"The same as the function's ONCEBOX_SINK: ndjson:FILE is --out FILE. Other sinks cannot be cut where a stopped run ends, and are refused." placeholder:"ADDRESS"`
	Ledger          string          `type:"ledgerfile" help:"Short for --store sqlite:FILE; a missing file is made. :memory: forgets everything after the run." placeholder:"FILE"`
	Scope           string          `help:"Name space of the ids. Default: ${default}." default:"default" placeholder:"NAME"`
	Format          string          `enum:"json,snowplow" default:"json" help:"What a line is: json, or snowplow for enriched events of Snowplow. Default: ${default}." placeholder:"FORMAT"`
	Records         offline.Records `enum:"lines,array,concatenated,auto,dead-letters" default:"lines" help:"Where the records are: lines, array (a JSON array), concatenated (JSON values with white space or nothing between), auto (the beginning of each file decides), or dead-letters: in the dead-letter file of an earlier run. Default: ${default}." placeholder:"FORM"`
	IDPath          string          `name:"id-path" help:"Path of the id, as in event.id: a string, or a number as written. Required with --format json." placeholder:"P"`
	FingerprintPath string          `help:"Path of the fingerprint. By default, and where it is absent, the fingerprint is computed." placeholder:"P"`
	OwnerPath       string          `help:"Path of a text that identifies the sending of the record. The same text again is a retry. Default: the run and the line." placeholder:"P"`
	ContextsPath    string          `help:"Path of the array that gets the duplicate context. Default: ${default}." default:"contexts" placeholder:"P"`
	Volatile        []string        `help:"Path that does not count for a computed fingerprint. Repeatable, or with commas in between." placeholder:"P"`
	Natural         onOff           `negatable:"" default:"on" help:"Drop natural duplicates. off: they pass unchanged. Default: ${default}."`
	Synthetic       onOff           `negatable:"" default:"on" help:"Give synthetic duplicates a new id. off: they pass unchanged. Default: ${default}."`
	IDs             offline.IDs     `name:"ids" enum:"first-keeps,derived,rename-all" default:"first-keeps" help:"Which records get a new id: first-keeps, derived or rename-all. Default: ${default}." placeholder:"POLICY"`
	Window          *time.Duration  `help:"How long after a record a copy of it is a duplicate, as in 48h or 7d. Default: forever." placeholder:"D"`
	TimePath        string          `help:"Path of the record's time (RFC 3339, or seconds or milliseconds since 1970). Default: the beginning of the run." placeholder:"P"`
	DeadLetters     string          `help:"File for records that cannot be processed. Default: OUT.dead.ndjson, with stdout oncebox.dead.ndjson." placeholder:"FILE"`
	Report          string          `help:"Folder for a report: records.csv lists what is dropped, renamed or dead-lettered, report.html has the numbers." placeholder:"DIR"`
	DryRun          bool            `help:"Write neither outputs nor ledger. With --report, the report says what a run would do."`
	PoisonLimit     cli.PoisonLimit `help:"Refuse the input if this share of the first lines cannot be processed for one reason; off: do not look. Default: ${default}." default:"90% of 100" placeholder:"P% of N"`
	BatchSize       int             `help:"Lines decided at a time, at most. It does not change the result. Default: ${default}." default:"50000" placeholder:"N"`
	Publish         string          `help:"Publish the output: write it to NAME.RUN.ndjson (.tsv with --format snowplow), and add it to the list NAME.json when the run is finished. With NAME.jsonl the output is NAME.RUN.jsonl." placeholder:"NAME"`
	ReplaceRun      string          `help:"Undo this finished run and all later ones of the ledger and scope. The files are its corrected inputs and all later ones. See: oncebox ledger runs." placeholder:"RUN"`
}

func (dedupeCommand) Help() string {
	return `Writes every record once, in the order of the input and byte for byte. A record with the id and the fingerprint of
an earlier record is a natural duplicate and is dropped. A record with the id of an earlier record and another
fingerprint is a synthetic duplicate and gets a new id, the same in every run. Earlier records are those of this
run, and those of any other run with the same ledger and scope. Empty lines are skipped.

Inputs may be compressed: gzip and zstd are found by their content. A directory stands for all files below it, and so
does s3://BUCKET/PREFIX/. A pattern in quotes may have *, **, ?, [a-z] and {a,b}. Files come in the order of the bytes
of their names. Hidden and temporary files are left out: names that begin with . or _, or end with ~, .tmp, .part,
.swp or .crdownload.

With --out FILE a stopped run goes on when the same command is started again, and each survivor is in the file
once. FILE.run beside it says that the run is unfinished. A file with other content is not touched. Any other command on
the ledger and scope closes the stopped run: its output stays, and its later records are decided again. With stdout the
same command starts over and prints everything again. After a finished run all of its records are known: the same
command prints nothing. Use --out where the reader of stdout may fail (a full disk behind gzip). The output on S3 is a
file in the working folder until the run ends; an object that exists is not replaced.

--report DIR writes records.csv, with a line for each record that is dropped, renamed or dead-lettered, and
report.html, with the numbers and a chart. --dry-run writes nothing else: the ledger is only read.

--ids says which records get a new id. It is made of the old id and the fingerprint, so it is the same in every run.
A renamed record gets the duplicate context with its old id.
  first-keeps  synthetic duplicates; the first record of an id keeps it
  derived      every record: the ids do not depend on the order of the records
  rename-all   every record whose id has two or more fingerprints in these inputs; to find them, the inputs are read
               once more, and TMPDIR (or /var/tmp) needs room for about 100 bytes a record
With each of them, a copy of a record of an earlier run with the same --ids is dropped.

With --window a copy that arrives later passes. Arrivals are the times at --time-path, or the beginning of the
run. In a SQLite ledger this is exact, however old the records are. DynamoDB deletes entries by the clock: there a
record that is processed more than 14 days after its arrival is a dead letter.

The inputs are read once before, for a digest that tells whether it is the same run; stdin and pipes are copied to
a temporary file for that. --ledger :memory: needs neither, except with --ids rename-all.

With --records array the elements of a JSON array are the records, and with concatenated JSON values of any form. Each is
written in one line: line ends between its members are left out, and nothing else. Numbers stay as they are written. A
file that breaks its form is refused before anything is changed.

With --format snowplow each line is an enriched event of Snowplow. Its id, fingerprint and contexts are known columns.
--volatile names further columns that do not count for a computed fingerprint, and --time-path names a column of
times, such as collector_tstamp.

--publish NAME writes the output of each run to a file of its own, NAME.RUN.ndjson, which is never changed after the run
has finished. The list NAME.json says which outputs count: with a ledger those of all runs of the scope, with :memory:
that of the last run. It is replaced by a rename, so readers see it old or new, and whole outputs only. A run that
finishes after a later one does not move the list back. A run of another ledger or scope is refused.

--replace-run RUN puts a wrong run right. Its entries and those of all later runs are deleted from the ledger, their
published outputs are taken out of the list, and then the files are deduplicated as one new run: give the corrected
inputs of the run and all later inputs, in order. The command names the outputs that do not count any more. It needs a
SQLite ledger whose scope is kept forever (no --window), and which no function and no import of named owners uses.

If nearly all of the first 100 lines cannot be processed for one reason (another format, a wrong path ...), nothing is
changed and the exit code is 2: see --poison-limit. If records share an id and differ only in one or two members, the
command names these members at the end: they may belong into --volatile.

A record that cannot be processed (no JSON, no id, longer than 10 MiB ...) is a dead letter: it is stored whole in
the dead-letter file, as {"file","line","reason","data":base64}, and the exit code is 4. After a fix, such as another
--id-path, --records dead-letters reads the records of that file. The summary goes to stderr, as JSON with --output json.

Examples:
  oncebox dedupe orders.ndjson --id-path order.id --ledger seen.db --out unique.ndjson
  oncebox dedupe events.gz --id-path id --volatile sent_at --ledger :memory: > unique.ndjson
  oncebox dedupe 's3://lake/2027/**/*.gz' --id-path id --ledger seen.db --out s3://lake/unique/2027.ndjson.zst
  oncebox dedupe days/ --id-path id --ledger seen.db --dry-run --report report
  oncebox dedupe unique.ndjson.dead.ndjson --records dead-letters --id-path orderId --ledger seen.db --out rest.ndjson
  oncebox dedupe export.json.gz --records array --id-path id --ledger seen.db --out unique.ndjson
  oncebox dedupe a.ndjson b.ndjson --id-path id --window 48h --time-path at --ledger seen.db --out unique.ndjson
  oncebox dedupe enriched.tsv --format snowplow --ids rename-all --ledger seen.db --out unique.tsv
  oncebox dedupe monday.ndjson --id-path id --ledger seen.db --publish lake/orders
  oncebox dedupe corrected.ndjson later.ndjson --id-path id --ledger seen.db --out right.ndjson --replace-run RUN`
}

func (c dedupeCommand) Run(ctx context.Context, a *cli.App) error {
	if err := c.checkHistory(a); err != nil {
		return err
	}
	out, err := c.output()
	if err != nil {
		return err
	}
	c.setDefaults(out)
	job, err := c.job(a)
	if err != nil {
		return err
	}
	files := &sources{}
	from, err := files.expand(ctx, c.Files)
	if err != nil {
		return err
	}
	if err := c.checkPaths(a, out, from); err != nil {
		return err
	}
	if c.DryRun {
		job.Preview, job.DeadLetters = true, ""
	} else if err := out.addTo(ctx, job, files); err != nil {
		return err
	}
	inputs, remove, err := files.inputs(ctx, from, a.Stdin, job.Forgets && c.IDs != offline.RenameAll)
	defer remove()
	if err != nil {
		return err
	}
	job.Inputs = inputs
	if err := setRecords(inputs, c.Records, c.Format); err != nil {
		return err
	}
	made := c.makesLedger()
	ledger, closeLedger, err := c.openLedger(ctx, a, job)
	if err != nil {
		return c.explainFirstLines(err)
	}
	defer closeLedger()
	undo, err := c.makeReportFolder()
	if err != nil {
		return err
	}
	if out.file == "" && c.Publish == "" {
		signal.Ignore(syscall.SIGPIPE) // a closed stdout is an error like others
	}
	progress, finish := runProgress(a, time.Now)
	job.Store, job.Progress = ledger, progress
	report, err := job.Run(ctx)
	finish()
	switch {
	case made && errors.Is(err, offline.ErrRefused): // that error says that nothing was changed
		a.Remark("the ledger %s is new and empty", c.Ledger)
	case made:
		a.Remark("made the ledger %s", c.Ledger)
	}
	if err != nil || a.Output != cli.OutputJSON { // the summary as JSON has them
		remarkClosed(a, report.Closed)
	}
	if err != nil {
		undo()
		return c.explainFirstLines(err)
	}
	if err := c.writeReport(report, a.CurrentVersion()); err != nil {
		return err
	}
	if a.Output != cli.OutputJSON {
		c.remarkHistory(a, report)
	}
	deadLetters := report.DeadLetters
	if c.DryRun {
		if a.Output == cli.OutputText {
			a.Remark("dry run: neither outputs nor the ledger are written")
		}
		deadLetters = cmp.Or(c.listing(), "the report of --report DIR")
	}
	return c.summarize(a, report, deadLetters)
}

func (c *dedupeCommand) setDefaults(out output) {
	if len(c.Files) == 0 {
		c.Files = []string{"-"}
	}
	if c.DeadLetters == "" && c.Publish == "" {
		c.DeadLetters = out.deadLetters()
	}
}

func (c *dedupeCommand) excludesIDs(flag string) error {
	return cli.BadUsage(
		fmt.Errorf("--ids %s and %s exclude each other: one gives new ids, the other keeps the old ones", c.IDs, flag),
		"Leave out one of the two.",
	)
}

// job checks the options and makes a job from them, without inputs and ledger.
func (c *dedupeCommand) job(a *cli.App) (*offline.Job, error) {
	const mostLines = 1_000_000
	switch {
	case c.IDs != offline.FirstKeeps && !bool(c.Synthetic):
		return nil, c.excludesIDs("--no-synthetic")
	case c.IDs != offline.FirstKeeps && !bool(c.Natural):
		return nil, c.excludesIDs("--no-natural")
	case c.BatchSize < 1 || c.BatchSize > mostLines:
		return nil, cli.BadUsage(fmt.Errorf("--batch-size %d: must be from 1 to %d", c.BatchSize, mostLines), "")
	case offline.CompressionOf(c.DeadLetters) != offline.NotCompressed:
		return nil, cli.BadUsage(fmt.Errorf("--dead-letters %s: the file is not compressed", c.DeadLetters), "Choose another name.")
	case cli.IsDeadLetterStore(c.DeadLetters):
		return nil, cli.BadUsage(
			fmt.Errorf("--dead-letters %s: this is a dead-letter store of the Lambda function, and the command writes a file",
				c.DeadLetters),
			"Name a file with --dead-letters.",
		)
	}
	if err := cli.CheckScope(c.Scope); err != nil {
		return nil, err
	}
	retention, err := retentionOf(c.Window, c.Ledger == "" && a.Store == cli.DynamoDBStore)
	if err != nil {
		return nil, err
	}
	lines, err := c.lines()
	if err != nil {
		return nil, err
	}
	return &offline.Job{
		Format: lines, Scope: c.Scope, Retention: retention, PassNatural: !bool(c.Natural), PassSynthetic: !bool(c.Synthetic),
		IDs: c.IDs, PoisonLimit: dedupe.PoisonLimit(c.PoisonLimit), Forgets: c.Ledger == inMemory, Listing: c.listing(), Stream: a.Stdout, DeadLetters: c.DeadLetters, BatchSize: c.BatchSize,
		Publish: c.Publish, Replaces: c.ReplaceRun, LedgerName: c.ledgerName(a),
	}, nil
}

// ledgerName returns the name of the ledger: its absolute path, or its table.
func (c *dedupeCommand) ledgerName(a *cli.App) string {
	path := c.Ledger
	if path == "" && a.Store == cli.DynamoDBStore {
		return cli.DynamoDBStore + a.DedupeTable
	}
	if path == "" {
		path = strings.TrimPrefix(a.Store, cli.SQLitePrefix)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// retentionOf returns the retention: forever, or a window. A SQLite ledger deletes nothing by itself, so the window
// is exact for records of any age. DynamoDB deletes by the clock and needs a horizon, as in the Lambda function.
func retentionOf(window *time.Duration, deletesByClock bool) (dedupe.Retention, error) {
	const longest = 100 * 365 * 24 * time.Hour
	if window == nil {
		return dedupe.Retention{ForGood: true}, nil
	}
	if *window < time.Second || *window > longest {
		return dedupe.Retention{}, cli.BadUsage(fmt.Errorf("--window %v: must be from 1s to %s; without the flag it is forever",
			*window, settings.FormatDuration(longest)), "")
	}
	r := dedupe.Retention{Window: *window}
	if deletesByClock {
		r.Horizon = recordhandler.DefaultHorizon
	}
	return r, nil
}

// openLedger opens the ledger. It makes a missing file of --ledger.
func (c *dedupeCommand) openLedger(ctx context.Context, a *cli.App, job *offline.Job) (
	ledger offline.Store, closeLedger func(), err error,
) {
	if c.DryRun {
		return c.openPreview(ctx, a, job)
	}
	switch c.Ledger {
	case "":
		return a.OpenRows(ctx, c.Scope)
	case inMemory:
		return forgetting{Ledger: memledger.New()}, func() {}, nil
	}
	store, err := c.createLedger(ctx, job)
	if err != nil {
		return nil, nil, err
	}
	return store, func() { _ = store.Close() }, nil // every write is on the disk already
}

// forgetting is the store of a job with Forgets, which uses only the ledger.
type forgetting struct {
	dedupe.Ledger
	dedupe.Runs
}

// makesLedger reports whether the command makes the ledger: --ledger names a file that does not exist.
func (c *dedupeCommand) makesLedger() bool {
	if c.Ledger == "" || c.Ledger == inMemory || c.DryRun || c.ReplaceRun != "" {
		return false
	}
	_, err := os.Stat(c.Ledger)
	return errors.Is(err, fs.ErrNotExist)
}

func (c *dedupeCommand) createLedger(ctx context.Context, job *offline.Job) (*ledgersqlite.Store, error) {
	if c.ReplaceRun != "" {
		return ledgersqlite.Open(ctx, c.Ledger) // Open returns an error for a missing file
	}
	if c.makesLedger() {
		if err := job.CheckNew(ctx); err != nil {
			return nil, err
		}
	}
	return ledgersqlite.Create(ctx, c.Ledger) // Create adds its tables if the file is for claims
}

// summarize prints the results of a run to stderr, because survivors may be on stdout.
func (c *dedupeCommand) summarize(a *cli.App, r offline.Report, deadLetters string) error {
	if r.Resumed > 0 {
		a.Remark("went on after %s that an earlier run had done", cli.Quantity(r.Resumed, "line"))
	}
	if a.Output == cli.OutputJSON {
		if err := json.NewEncoder(a.Stderr).Encode(summaryOf(r)); err != nil {
			return err
		}
	} else {
		c.remarkDifferences(a, r)
		a.Remark("in %d = new %d + retry %d + natural %d + synthetic %d + dead_lettered %d + skipped %d; out %d",
			r.In, r.New, r.Retry, r.Natural, r.Synthetic, r.DeadLettered, r.Skipped, r.Out)
	}
	return cmp.Or(cli.DeadLettered(r.DeadLettered, deadLetters), otherSettings(r.OtherSettings))
}

// dedupeSummary is the summary as JSON.
type dedupeSummary struct {
	Run          string `json:"run"`
	Resumed      int64  `json:"resumed"`
	In           int64  `json:"in"`
	New          int64  `json:"new"`
	Retry        int64  `json:"retry"`
	Natural      int64  `json:"natural"`
	Synthetic    int64  `json:"synthetic"`
	DeadLettered int64  `json:"dead_lettered"`
	Skipped      int64  `json:"skipped"`
	Out          int64  `json:"out"`

	// DifferOnlyIn is the number of records that share an id with another record and differ from it only in one or
	// two members.
	DifferOnlyIn []offline.Difference `json:"differ_only_in,omitempty"`
	// ComparedIDs is the number of ids whose records were compared. It is absent if all were compared.
	ComparedIDs int `json:"compared_ids,omitempty"`

	// OtherSettings is an entry of the ledger whose fingerprint was made with other settings.
	OtherSettings *offline.OtherSettings `json:"other_settings,omitempty"`

	Closed   []offline.ClosedRun   `json:"closed,omitempty"`    // stopped runs whose later records are decided again
	Replaced []offline.ReplacedRun `json:"replaced,omitempty"`  // the runs that --replace-run has undone
	NewerRun string                `json:"newer_run,omitempty"` // the output was not published: the list names this run
}

func summaryOf(r offline.Report) dedupeSummary {
	return dedupeSummary{
		OtherSettings: r.OtherSettings,
		DifferOnlyIn:  r.Differences, ComparedIDs: r.ComparedIDs, Closed: r.Closed, Replaced: r.Replaced, NewerRun: r.NewerRun,
		Run: r.Run, Resumed: r.Resumed, In: r.In, New: r.New, Retry: r.Retry,
		Natural: r.Natural, Synthetic: r.Synthetic, DeadLettered: r.DeadLettered, Skipped: r.Skipped, Out: r.Out,
	}
}
