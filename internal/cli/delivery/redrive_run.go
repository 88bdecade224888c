package delivery

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/shared/suggest"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/recordhandler/full"
)

type redriveRun struct {
	From        []string    `arg:"" optional:"" help:"s3://BUCKET/PREFIX, dir:PATH, or files with letters: those of redrive export, and messages that SQS got. Default: ONCEBOX_DEAD_LETTERS."`
	Name        []string    `help:"Only the letter with this name. Repeatable." sep:"none" placeholder:"NAME"`
	Set         []string    `help:"A setting of the function for this run, without ONCEBOX_ and as a flag is written. Repeatable." sep:"none" placeholder:"NAME=VALUE"`
	Jq          string      `help:"A jq program that changes the payload of each poison record before it is read." placeholder:"PROGRAM"`
	Scope       string      `help:"The scope of this run." placeholder:"NAME"`
	Function    string      `help:"Also run the batches that Lambda gave up for this function." placeholder:"NAME"`
	TakeOver    []string    `help:"The run with this id has ended: the letters that it has begun and not finished count as not begun. Repeatable." sep:"none" placeholder:"RUN"`
	Reason      string      `help:"Why you run it; it is stored with each marker." placeholder:"TEXT"`
	PastHorizon bool        `help:"Also run letters past the horizon, whose copies may have been forgotten."`
	DryRun      bool        `help:"Read the letters and say what would happen. Nothing is decided, sent or marked."`
	Rate        cli.RowRate `help:"Run at most N letters a second. Default: no limit." placeholder:"N"`
	letterFilter
	atOnce
}

func (redriveRun) Help() string {
	return `Takes each letter through the steps of the dedupe function with its original owner, and then stores a marker beside
it, done/NAME. The letters stay. Nothing is put into the source stream. The ledger comes from --store; the other
settings are the variables of the function, of which ONCEBOX_ID_PATH, ONCEBOX_SINK and ONCEBOX_DEAD_LETTERS are
required. A poison record needs something that has changed: a new program, --set or --jq. With ONCEBOX_LEDGER=log it
takes up to 2 GiB of memory for entries, or what its option memory says, as in log?lanes=16&memory=8GiB.

It is safe to interrupt and to repeat. A letter with a marker is not run again. Several runs may be at work: one of
them sends a letter. A run that is killed may have sent the letters that it had begun: up to --parallel of them. No other
run sends these until --take-over says that the killed run has ended. Then they are sent again, under the same ids. A
sink with transactions or objects needs no --take-over: a letter that runs again does nothing there. Finish an
interrupted run with the same --set and --jq.

These are not run, and the exit code is 4:
  still-poison  cannot be read with these settings, or is refused by the sink again
  past-horizon  is older than ONCEBOX_HORIZON; --past-horizon runs it
  lost          is a batch without a payload, and the stream no longer has its records
  begun         another run has begun it and not finished it; --take-over RUN runs it if that run has ended
  refused       is of another scope or function, or --jq has no single result for it, or its records are not as many
                as it says, or the sink is its source

If 20 letters fail one after the other, the run stops with exit code 1: a part is down.

Batches that Lambda gave up, and messages of CloudWatch Logs, run only with --function. --jq does not change them: run
them first; what is poison in them is stored as letters of its own. A message that SQS or SNS got from Lambda for a
batch has no payload: give it in a file, and its records are read from the stream, as long as that has all of them.

Examples:
  oncebox --store dynamodb: redrive run --dry-run s3://my-dead-letters --set id-path=order.id
  oncebox --store dynamodb: redrive run s3://my-dead-letters --set id-path=order.id --reason "new path since Friday"
  oncebox redrive run dir:failed --jq '.id //= .orderId' --since 2027-03-05 --rate 200
  oncebox --store dynamodb: redrive run s3://my-dead-letters --kind batch --function orders-dedupe
  oncebox redrive run messages.json --function orders-dedupe`
}

func (c redriveRun) Run(ctx context.Context, a *cli.App) error {
	if err := c.check(); err != nil {
		return err
	}
	environ, from, err := c.inputs(a)
	if err != nil {
		return err
	}
	options, err := recordhandler.ParseOptions(environ)
	if err != nil {
		return cli.BadUsage(err, "")
	}
	options.Scope = cmp.Or(c.Scope, options.Scope)
	options.Clients = full.Clients
	job, err := c.job(options)
	if err != nil {
		return err
	}
	closeItems, err := c.openItems(ctx, a, job, cmp.Or(from.store, options.DeadLetterStore), from.files)
	if err != nil {
		return err
	}
	defer closeItems()
	return a.WithRecords(ctx, options, func(h *recordhandler.Handler) error {
		job.Target = targets(a.Globals, h, options)
		return c.run(ctx, a, job)
	})
}

// targets returns a function that returns the Processor for the letters of a stream. With one row a key, it refuses a
// scope with a log ledger.
func targets(g cli.Globals, h *recordhandler.Handler, o recordhandler.Options) func(context.Context, dedupe.Stream) (
	redrive.Processor, string, error,
) {
	var withoutLog sync.Map // scopes
	return func(ctx context.Context, s dedupe.Stream) (redrive.Processor, string, error) {
		p, scope, err := h.LetterProcessor(ctx, s)
		if _, known := withoutLog.Load(scope); err != nil || known || o.Ledger != (recordhandler.LedgerSetting{}) {
			return p, scope, err
		}
		if err := g.RefuseLog(ctx, scope); err != nil {
			return nil, "", err
		}
		withoutLog.Store(scope, true)
		return p, scope, nil
	}
}

// letterSources are the places of letters: a store, or files.
type letterSources struct {
	store string
	files []string
}

// inputs returns the settings of this run, and the places of the letters.
func (c redriveRun) inputs(a *cli.App) (environ []string, from letterSources, err error) {
	environ = slices.Clip(a.Environ)
	for _, argument := range c.From {
		switch {
		case !cli.IsDeadLetterStore(argument):
			from.files = append(from.files, argument)
		case from.store != "":
			return nil, from, cli.BadUsage(errors.New("more than one dead-letter store was named"), "Run one after the other.")
		default:
			from.store = argument
		}
	}
	switch {
	case from.store != "" && len(from.files) > 0:
		return nil, from, cli.BadUsage(errors.New("a dead-letter store and files were named"), "Run one after the other.")
	case len(c.Name) > 0 && len(from.files) > 0:
		return nil, from, cli.BadUsage(errors.New("--name is for letters of a store, and files were named"), "")
	}
	if a.Getenv(varDeadLetters) == "" && from.store != "" {
		environ = append(environ, varDeadLetters+"="+from.store) // new letters come from parts of an old letter
	}
	for _, setting := range c.Set {
		variable, err := variableOfSetting(setting)
		if err != nil {
			return nil, from, err
		}
		environ = append(environ, variable)
	}
	return environ, from, nil
}

// notSettable are variables of the function that are not for --set.
var notSettable = map[string]string{
	"ONCEBOX_DEDUPE_TABLE": "--dedupe-table", "ONCEBOX_LOG_LEVEL": "--log-level", "ONCEBOX_SCOPE": "--scope",
	varDeadLetters: "the variable " + varDeadLetters,
}

// variableOfSetting returns the variable for NAME=VALUE, where NAME is like a flag.
func variableOfSetting(setting string) (string, error) {
	name, value, ok := strings.Cut(setting, "=")
	if !ok {
		return "", cli.BadUsage(fmt.Errorf("--set %s: must be NAME=VALUE, as in id-path=order.id", setting), "")
	}
	variable := cli.VariablePrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	if instead := notSettable[variable]; instead != "" {
		return "", cli.BadUsage(fmt.Errorf("--set %s: use %s for it", setting, instead), "")
	}
	if !slices.Contains(recordhandler.Variables(), variable) {
		var names []string
		for _, v := range recordhandler.Variables() {
			names = append(names, strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(v, cli.VariablePrefix), "_", "-")))
		}
		hint := ""
		if meant := suggest.Closest(name, names); meant != "" {
			hint = "Did you mean " + meant + "?"
		}
		return "", cli.BadUsage(fmt.Errorf("--set %s: %s is not a setting of the function", setting, name), hint)
	}
	return variable + "=" + value, nil
}

// job makes a job from the flags, without letters and parts.
func (c redriveRun) job(o recordhandler.Options) (*redrive.Job, error) {
	job := &redrive.Job{
		Retention: o.Retention, PastHorizon: c.PastHorizon, Records: streamReader(), Keep: c.keep,
		Decode:   func(event json.RawMessage) (dedupe.Batch, error) { return recordhandler.Decode(event, o.Unaggregated) },
		Function: c.Function, DryRun: c.DryRun,
		Marker:      deadletter.Marker{Patch: c.Jq, Settings: c.Set, Reason: c.Reason},
		Concurrency: c.Parallel, Now: time.Now,
	}
	if o.Sink.Table == nil && o.Sink.Objects == nil { // other sinks send a letter again that comes again
		job.Runner = newRunner(c.TakeOver)
	}
	if c.Rate > 0 {
		job.Pace = rate.NewLimiter(rate.Limit(c.Rate), 1).Wait
	}
	if c.Jq != "" {
		patch, err := redrive.NewPatch(c.Jq)
		if err != nil {
			return nil, cli.BadUsage(fmt.Errorf("--jq: %w", err), "")
		}
		job.Patch = patch
	}
	return job, nil
}

func (c redriveRun) check() error {
	if c.Scope != "" {
		if err := cli.CheckScope(c.Scope); err != nil {
			return err
		}
	}
	return c.atOnce.check()
}

// newRunner names this run, for other runs and for people.
func newRunner(takesOver []string) deadletter.Runner {
	const digits = 8
	return deadletter.Runner{Run: strings.ToLower(rand.Text()[:digits]), By: thisProcess(), TakesOver: takesOver}
}

// thisProcess names this process for people.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return fmt.Sprintf("process %d on %s", os.Getpid(), host)
}

// openItems opens the letters, and the store of their markers.
func (c redriveRun) openItems(
	ctx context.Context, a *cli.App, job *redrive.Job, store string, files []string,
) (closeItems func(), err error) {
	folder := ""
	if len(files) > 0 {
		store, folder = markersOfFiles(store)
	}
	archive, err := openArchive(ctx, a, store)
	if err != nil {
		return nil, err
	}
	job.Markers = archive
	switch {
	case len(c.Name) > 0:
		job.Items = redrive.Named(archive, c.Name)
	case len(files) == 0:
		job.Items = redrive.FromArchive(ctx, archive)
	default:
		job.Items, closeItems, err = lettersOf(a, archive, folder, c.Function, files)
		return closeItems, err
	}
	return func() {}, nil
}

// markersOfFiles returns the store of the markers of letters from files. It is the whole bucket, since a batch that
// Lambda gave up is beside the prefix of the function. Letters that were not exported have their markers in the folder.
func markersOfFiles(store string) (whole, folder string) {
	at, err := deadletter.ParseSetting(store)
	if err != nil || at.Bucket == "" {
		return store, ""
	}
	return "s3://" + at.Bucket, at.Prefix
}

func lettersOf(a *cli.App, archive *deadletter.Archive, folder, function string, files []string) (
	items iter.Seq2[redrive.Item, error], closeItems func(), err error,
) {
	var opened []*os.File
	closeItems = func() {
		for _, file := range opened {
			_ = file.Close() // the file was only read
		}
	}
	var all []iter.Seq2[redrive.Item, error]
	for _, name := range files {
		text := a.Stdin
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				closeItems()
				return nil, nil, cli.BadUsage(cli.FileError(name, err), "")
			}
			opened, text = append(opened, file), file
		}
		all = append(all, redrive.FromReader(archive, folder, function, name, text))
	}
	return func(yield func(redrive.Item, error) bool) {
		for _, items := range all {
			for item, err := range items {
				if !yield(item, err) {
					return
				}
			}
		}
	}, closeItems, nil
}

// redriveSummary holds the results of a run, as JSON.
type redriveSummary struct {
	DryRun       bool                     `json:"dry_run,omitempty"`
	Letters      map[redrive.Status]int64 `json:"letters"`
	Reasons      map[string]int64         `json:"reasons,omitempty"` // the reasons for letters that were not done
	Records      int64                    `json:"records"`           // the records of the letters that were done
	Delivered    int64                    `json:"delivered"`
	Dropped      int64                    `json:"dropped"`
	DoneBefore   int64                    `json:"done_before"`
	DeadLettered int64                    `json:"dead_lettered"` // parts of letters that became new letters
	// SameIDs counts, in a dry run, the records with the id of a record before. The payloads of Copies are the same, too.
	SameIDs int64 `json:"same_ids,omitempty"`
	Copies  int64 `json:"copies,omitempty"`
	// Untagged counts the letters that are done and could not be tagged, so that they do not expire.
	Untagged int64 `json:"untagged,omitempty"`
}

// shownLetters is the number of letters that a run names, of those that were not done.
const shownLetters = 20

func (c redriveRun) run(ctx context.Context, a *cli.App, job *redrive.Job) error {
	s := redriveSummary{DryRun: c.DryRun, Letters: map[redrive.Status]int64{}, Reasons: map[string]int64{}}
	progress, finish := a.Counting("redriving", "letters")
	seen, look := int64(0), 0
	err := job.Run(ctx, func(r redrive.Report) error {
		s.add(r)
		if seen++; progress != nil {
			progress(seen, -1)
		}
		for _, same := range r.Same {
			if s.SameIDs++; s.SameIDs <= shownLetters {
				a.Remark("%s", sameText(r.Name, same))
			}
			if same.Copy {
				s.Copies++
			}
		}
		if r.Untagged != nil && s.Untagged == 1 { // the others have the same reason
			a.Remark("%s is done. It does not expire: %v", r.Name, r.Untagged)
		}
		if isDone(r.Status) {
			return nil
		}
		if look++; look <= shownLetters {
			a.Remark("%s", toLetterJSON(r).text())
		}
		return nil
	})
	finish()
	if look > shownLetters {
		a.Remark("and %d more; `oncebox redrive list` lists them", look-shownLetters)
	}
	if printErr := a.Print(s, s.text()); printErr != nil {
		err = errors.Join(err, printErr)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return cli.WithHint(err, "The run can be repeated: what is done has a marker.")
	}
	return s.err()
}

// sameText says that a record of a letter has the id of a record before.
func sameText(letter string, s redrive.SameID) string {
	payload := "another payload"
	if s.Copy {
		payload = "the same payload"
	}
	return fmt.Sprintf("same id %q, with %s: %s and %s", s.ID, payload, letter, s.Letter)
}

func isDone(s redrive.Status) bool {
	return s == redrive.Done || s == redrive.AlreadyDone || s == redrive.Ready
}

// maxReasons limits the reasons in a summary, because all failures may have different reasons.
const maxReasons = 50

func (s *redriveSummary) add(r redrive.Report) {
	s.Letters[r.Status]++
	if r.Status == redrive.Done || r.Status == redrive.Ready {
		s.Records += r.Tally.In
		s.Delivered += r.Marker.Delivered
		s.Dropped += r.Marker.Dropped
		s.DoneBefore += r.Marker.DoneBefore
		s.DeadLettered += r.Tally.DeadLettered
	}
	if r.Untagged != nil {
		s.Untagged++
	}
	why := r.Why
	if r.Status == redrive.PastHorizon {
		why = "past the horizon"
	}
	if _, known := s.Reasons[why]; why != "" && (known || len(s.Reasons) < maxReasons) {
		s.Reasons[why]++
	}
}

func (s *redriveSummary) text() string {
	first := redrive.Done
	if s.DryRun {
		first = redrive.Ready
	}
	var b strings.Builder
	fmt.Fprintf(&b, "letters: %s\n", countsText(s.Letters, first, redrive.AlreadyDone, redrive.StillPoison,
		redrive.PastHorizon, redrive.Lost, redrive.Refused, redrive.Begun, redrive.Failed))
	for _, why := range slices.Sorted(maps.Keys(s.Reasons)) {
		fmt.Fprintf(&b, "  %d: %s\n", s.Reasons[why], why)
	}
	if s.DryRun {
		fmt.Fprintf(&b, "records: %d would be read", s.Records-s.DeadLettered)
	} else {
		fmt.Fprintf(&b, "records: delivered %d, dropped %d, done before %d", s.Delivered, s.Dropped, s.DoneBefore)
	}
	fmt.Fprintf(&b, ", dead-lettered %d", s.DeadLettered)
	if s.SameIDs > 0 {
		fmt.Fprintf(&b, "\nsame ids: %d with the same payload, %d with another payload", s.Copies, s.SameIDs-s.Copies)
	}
	if s.Untagged > 0 {
		fmt.Fprintf(&b, "\nuntagged: %d of them, which do not expire", s.Untagged)
	}
	return b.String()
}

// err returns cli.ErrLook if letters were not done.
func (s *redriveSummary) err() error {
	if n := s.Letters[redrive.Failed]; n > 0 {
		return cli.WithHint(fmt.Errorf("%s failed", cli.Quantity(n, "letter")), "It is safe to run them again.")
	}
	left := int64(0)
	for status, n := range s.Letters {
		if !isDone(status) {
			left += n
		}
	}
	switch {
	case left > 0:
		return fmt.Errorf("%w: %s not redriven", cli.ErrLook, cli.Quantity(left, "letter"))
	case s.DeadLettered > 0:
		return fmt.Errorf("%w: %s of the letters dead-lettered", cli.ErrLook, cli.Quantity(s.DeadLettered, "record"))
	}
	return nil
}
