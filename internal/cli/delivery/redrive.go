package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

type redriveCommand struct {
	List   redriveList   `cmd:"" help:"List dead letters, and which of them are done."`
	Show   redriveShow   `cmd:"" help:"Print everything about one dead letter, with its payload."`
	Run    redriveRun    `cmd:"" help:"Deliver dead letters through the rules, the ledger and the sink of the dedupe function."`
	Export redriveExport `cmd:"" help:"Write dead letters to a file, as NDJSON."`
	Erase  redriveErase  `cmd:"" help:"Remove one dead letter for good, with all its versions."`
}

// varDeadLetters is the setting of the function.
const varDeadLetters = "ONCEBOX_DEAD_LETTERS"

// atOnce is the number of letters that are read or redriven at the same time.
type atOnce struct {
	Parallel int `help:"Letters at the same time, 1 to 1000. Default: ${default}." default:"32" placeholder:"N"`
}

func (p atOnce) check() error {
	const most = 1000
	if p.Parallel < 1 || p.Parallel > most {
		return cli.BadUsage(fmt.Errorf("--parallel %d: must be from 1 to %d", p.Parallel, most), "")
	}
	return nil
}

// letterFilter selects letters.
type letterFilter struct {
	Since time.Time `help:"Only letters that arrived at this time or later: ${times}. Of a batch, its first record counts." placeholder:"T"`
	Until time.Time `help:"Only letters that arrived before this time." placeholder:"T"`
	Kind  string    `help:"Only letters of this kind: poison (one record), or batch (that Lambda gave up)." enum:"poison,batch," default:"" placeholder:"KIND"`
	Why   string    `help:"Only letters whose reason contains this text." placeholder:"TEXT"`
}

// keep selects a letter. A letter whose arrival is not known is in every range of times.
func (f letterFilter) keep(l deadletter.Letter) bool {
	at := l.Arrival()
	return (at.IsZero() || !at.Before(f.Since) && (f.Until.IsZero() || at.Before(f.Until))) &&
		(f.Kind == "" || f.Kind == kindOf(l)) && strings.Contains(l.Reason(), f.Why)
}

func kindOf(l deadletter.Letter) string {
	if l.Batch != nil {
		return "batch"
	}
	return "poison"
}

// openArchive opens the store of an argument, or the function's store.
func openArchive(ctx context.Context, a *cli.App, argument string) (*deadletter.Archive, error) {
	setting := cmp.Or(argument, a.Getenv(varDeadLetters))
	if setting == "" {
		return nil, cli.BadUsage(
			errors.New("no dead-letter store was named"), "Name s3://BUCKET or dir:PATH, or set "+varDeadLetters+".",
		)
	}
	archive, err := deadletter.OpenArchive(ctx, sdkconfig.Load, setting)
	if err != nil {
		return nil, cli.BadUsage(err, "")
	}
	return archive, nil
}

// functionRetention reads the horizon of the function, for commands that need none of its other settings.
func functionRetention(environ []string) (dedupe.Retention, error) {
	const name = "ONCEBOX_HORIZON"
	const longest = 100 * 365 * 24 * time.Hour
	p := settings.NewParser(environ)
	horizon := p.Duration(name, recordhandler.DefaultHorizon, time.Second, longest, "a duration, as in 14d")
	if err := p.Err(); err != nil {
		return dedupe.Retention{}, cli.BadUsage(err, "")
	}
	return dedupe.Retention{Horizon: horizon}, nil
}

// newLook returns a job that lists letters.
func newLook(
	ctx context.Context, a *cli.App, archive *deadletter.Archive, f letterFilter, p atOnce,
) (*redrive.Job, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	retention, err := functionRetention(a.Environ)
	if err != nil {
		return nil, err
	}
	return &redrive.Job{
		Items: redrive.FromArchive(ctx, archive), Retention: retention, Records: streamReader(), Keep: f.keep,
		Markers: archive, Concurrency: p.Parallel, Now: time.Now,
	}, nil
}

// letterJSON is a letter in results.
type letterJSON struct {
	Name    string         `json:"name"`
	Kind    string         `json:"kind,omitempty"`
	Status  redrive.Status `json:"status"`
	Why     string         `json:"why,omitempty"` // the reason for lost, refused and failed letters
	Arrival *time.Time     `json:"arrival,omitempty"`
	Owner   string         `json:"owner,omitempty"`
	Reason  string         `json:"reason,omitempty"`
	Scope   string         `json:"scope,omitempty"`
	Records int            `json:"records,omitempty"`
}

func toLetterJSON(r redrive.Report) letterJSON {
	l := letterJSON{Name: r.Name, Status: r.Status, Why: r.Why}
	if r.Letter.Poison == nil && r.Letter.Batch == nil { // it could not be read
		return l
	}
	if arrival := r.Letter.Arrival().UTC(); !arrival.IsZero() { // the arrival of a foreign event is not known
		l.Arrival = &arrival
	}
	l.Kind, l.Owner, l.Reason = kindOf(r.Letter), r.Letter.Owner(), r.Letter.Reason()
	l.Records = r.Letter.Records()
	if r.Letter.Poison != nil {
		l.Scope = r.Letter.Poison.Scope
	}
	return l
}

// arrivalText returns the arrival in a layout, or "-" if it is not known.
func (l letterJSON) arrivalText(layout string) string {
	if l.Arrival == nil {
		return "-"
	}
	return l.Arrival.Format(layout)
}

// text returns one line, with tabs between its parts.
func (l letterJSON) text() string {
	why := l.Reason
	if l.Why != "" && l.Why != why {
		why = strings.TrimPrefix(l.Reason+": "+l.Why, ": ")
	}
	return strings.Join([]string{
		string(l.Status), cmp.Or(l.Kind, "-"), l.arrivalText(time.RFC3339), cmp.Or(l.Owner, "-"), cmp.Or(why, "-"), l.Name,
	}, "\t")
}

type redriveList struct {
	Letters string `arg:"" optional:"" name:"store" help:"s3://BUCKET/PREFIX or dir:PATH. Default: ONCEBOX_DEAD_LETTERS."`
	Status  string `help:"Only letters with this status: pending, begun, done, past-horizon, lost, refused or failed." enum:"pending,begun,done,past-horizon,lost,refused,failed," default:"" placeholder:"STATUS"`
	letterFilter
	atOnce
}

func (redriveList) Help() string {
	return `Prints a line for each letter, in the order of the names: status, kind, arrival, owner, reason and name, with tabs
between. The counts go to stderr. With --output json, each letter is a line of JSON.

s3://BUCKET finds the poison records of every scope and the batches that Lambda gave up. A prefix narrows the search,
as in s3://BUCKET/poison/orders.

  pending       can be redriven
  begun         a run has begun it and not finished it
  done          has a marker: done/NAME beside it
  past-horizon  is older than ONCEBOX_HORIZON (14 days by default): copies of it may have been forgotten
  lost          is a batch without a payload, and the stream no longer has its records
  refused       is not a dead letter, or its records cannot be told
  failed        could not be read

The list reads each letter, and whether a run has begun it, which costs two requests each. For a batch without a payload
it asks the stream.

Examples:
  oncebox redrive list s3://my-dead-letters
  oncebox redrive list dir:failed --status pending --since 2027-03-05
  oncebox --output json redrive list s3://my-dead-letters/poison/orders --why "the id is missing"`
}

func (c redriveList) Run(ctx context.Context, a *cli.App) error {
	archive, err := openArchive(ctx, a, c.Letters)
	if err != nil {
		return err
	}
	job, err := newLook(ctx, a, archive, c.letterFilter, c.atOnce)
	if err != nil {
		return err
	}
	counts := map[redrive.Status]int64{}
	err = job.List(ctx, func(r redrive.Report) error {
		counts[r.Status]++
		if c.Status != "" && c.Status != string(r.Status) {
			return nil
		}
		l := toLetterJSON(r)
		return a.Print(l, l.text())
	})
	if err != nil {
		return err
	}
	a.Remark("%s", countsText(counts, redrive.Pending, redrive.Begun, redrive.Done, redrive.PastHorizon, redrive.Lost,
		redrive.Refused, redrive.Failed))
	if n := counts[redrive.Failed]; n > 0 {
		return fmt.Errorf("%s could not be read", cli.Quantity(n, "letter"))
	}
	return nil
}

// countsText returns the first count, and all other counts that are not 0.
func countsText(counts map[redrive.Status]int64, order ...redrive.Status) string {
	var parts []string
	for i, status := range order {
		if n := counts[status]; n > 0 || i == 0 {
			parts = append(parts, fmt.Sprintf("%s %d", status, n))
		}
	}
	return strings.Join(parts, ", ")
}

type redriveExport struct {
	File    string `arg:"" help:"The file to write; - is stdout. It must not exist."`
	Letters string `arg:"" optional:"" name:"store" help:"s3://BUCKET/PREFIX or dir:PATH. Default: ONCEBOX_DEAD_LETTERS."`
	Status  string `help:"Only letters with this status: pending, begun, done, past-horizon or lost. Default: all." enum:"pending,begun,done,past-horizon,lost," default:"" placeholder:"STATUS"`
	letterFilter
	atOnce
}

func (redriveExport) Help() string {
	return `Writes each letter as a line of JSON: the content of its object, whole, and the place of the object as the member
exported_from. ` + "`oncebox redrive run FILE`" + ` reads such a file, and marks the letters beside their objects. The letters stay
in the store.

Examples:
  oncebox redrive export letters.ndjson s3://my-dead-letters --status pending
  oncebox redrive export - dir:failed | jq -r .data | head -1 | base64 -d`
}

func (c redriveExport) Run(ctx context.Context, a *cli.App) (err error) {
	archive, err := openArchive(ctx, a, c.Letters)
	if err != nil {
		return err
	}
	job, err := newLook(ctx, a, archive, c.letterFilter, c.atOnce)
	if err != nil {
		return err
	}
	out := a.Stdout
	if c.File != "-" {
		file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return cli.BadUsage(cli.FileError(c.File, err), "Name a file that does not exist.")
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	written, unread := int64(0), int64(0)
	progress, finish := a.Counting("exporting", "letters")
	encoder := cli.NewEncoder(out)
	err = job.List(ctx, func(r redrive.Report) error {
		if r.Letter.Content == nil {
			unread++
			a.Remark("%s: %s", r.Name, r.Why)
			return nil
		}
		if c.Status != "" && c.Status != string(r.Status) {
			return nil
		}
		if written++; progress != nil {
			progress(written, -1)
		}
		line, err := redrive.Exported(r.Letter.Content, archive.Place(r.Name))
		if err != nil {
			return err
		}
		return encoder.Encode(json.RawMessage(line))
	})
	finish()
	if err != nil {
		return err
	}
	a.Remark("exported %s", cli.Quantity(written, "letter"))
	if unread > 0 {
		return fmt.Errorf("%w: %s of the store could not be exported", cli.ErrLook, cli.Quantity(unread, "object"))
	}
	return nil
}
