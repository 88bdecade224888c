package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	once "github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

// keyArguments name a key.
type keyArguments struct {
	Namespace string `arg:"" help:"The namespace of the key: the second argument of idempotency.New, or the prefix of keys of Powertools."`
	Key       string `arg:"" help:"The key of the call. Of Powertools: its hash, or the JSON of which the hash is made."`
}

// ofPowertools is the part of a help about tables of Powertools.
const ofPowertools = `With --store powertools-python:TABLE or powertools-typescript:TABLE the command works on a table of Powertools for AWS
Lambda. NAMESPACE is the part of an id before the last #. KEY is the part after it, or the JSON that the JMESPath
expression of the functions selects, with its quotes. Names other than the defaults are options, such as
?key-attr=pk&sort-key-attr=sk&static-pk-value=idempotency%23pay; also status-attr, expiry-attr,
in-progress-expiry-attr, data-attr and validation-key-attr.`

// use opens a runner for the key. In a table of Powertools the key becomes its hash. Call closeStore after use.
func (k *keyArguments) use(
	ctx context.Context, a *cli.App, open func(context.Context) (engine.Store, func(), error),
) (runner *once.Runner, closeStore func(), err error) {
	if format, ok := a.Powertools(); ok {
		if err := k.hash(format); err != nil {
			return nil, nil, err
		}
	}
	store, closeStore, err := open(ctx)
	if err != nil {
		return nil, nil, err
	}
	if runner, err = once.New(store, k.Namespace, once.Settings{}); err != nil {
		closeStore()
		return nil, nil, err
	}
	return runner, closeStore, nil
}

// hash makes the hash of a key, if it is none.
func (k *keyArguments) hash(format powertools.Format) error {
	if format.IsKey(k.Key) {
		return nil
	}
	hash, err := format.Key([]byte(k.Key))
	if err != nil {
		return cli.BadUsage(
			fmt.Errorf("KEY %q: %w", k.Key, err),
			fmt.Sprintf("Use the part of the id after the #, or JSON: a text has quotes, as in '%s'.", `"order-1"`),
		)
	}
	k.Key = hash
	return nil
}

// explain reads the record of the key. A nil payload is the payload of the record.
func (k *keyArguments) explain(ctx context.Context, a *cli.App, payload []byte) (once.Explanation, error) {
	runner, closeStore, err := k.use(ctx, a, a.OpenIdempotencyToRead)
	if err != nil {
		return once.Explanation{}, err
	}
	defer closeStore()
	return runner.Explain(ctx, k.Key, payload)
}

// noRecord returns the error about a key without a record.
func (k keyArguments) noRecord() error {
	return cli.WithHint(
		fmt.Errorf("%w: %q in %q", once.ErrNoRecord, k.Key, k.Namespace),
		"Every character of the namespace and of the key counts. A record is deleted some time after it has ceased to count.",
	)
}

type showCommand struct {
	keyArguments
	Result bool `help:"Print the stored result, byte for byte, instead of the record. It may hold personal data."`
}

func (showCommand) Help() string {
	return `Prints the record: its status, the number of its execution, the end of its lease, its expiry, the hash of its
payload, and the type and the size of its result. The exit code is 3 if there is no record.

A result may hold personal data, so it is only printed with --result. Then nothing else is printed. With
--output json it is a member of the result, in base64. The result of a final failure is its text. If the result could
not be stored, --result says why, and the exit code is 3.

Nothing is changed.

` + ofPowertools + `
The number of a record that Powertools has written is its expiry, in seconds.

Examples:
  oncebox idempotency show payments order-1
  oncebox idempotency show payments order-1 --result > receipt.json
  oncebox --store dynamodb: idempotency show payments order-1 --output json
  oncebox --store powertools-python:idempotency idempotency show pay.main.pay '"order-1"'`
}

func (c showCommand) Run(ctx context.Context, a *cli.App) error {
	found, err := c.explain(ctx, a, nil)
	switch {
	case err != nil:
		return err
	case found.Record == nil:
		return c.noRecord()
	case c.Result && found.Record.Status != engine.Completed:
		return fmt.Errorf("%w: its execution has not completed", cli.ErrNoResult)
	case c.Result && found.Record.Result.Kind == engine.Missing:
		return fmt.Errorf("%w: it could not be stored: %s", cli.ErrNoResult, found.Record.Result.Body)
	case c.Result && a.Output == cli.OutputText:
		_, err := a.Stdout.Write(found.Record.Result.Body)
		return err
	}
	shown := toRecordJSON(a, c.keyArguments, found)
	if c.Result {
		shown.Result.Body = &found.Record.Result.Body
	}
	return a.Print(shown, shown.text())
}

// recordJSON is a record, in results.
type recordJSON struct {
	Namespace string        `json:"namespace"`
	Key       string        `json:"key"`
	Status    engine.Status `json:"status"`
	Number    int64         `json:"number"`
	Counts    bool          `json:"counts"`              // completed and in its window, or in progress and in its lease
	LeaseEnd  *time.Time    `json:"lease_end,omitempty"` // absent: the execution gave the key back, or was evicted
	Expiry    time.Time     `json:"expiry"`
	PurgeAt   time.Time     `json:"purge_at"`
	Payload   string        `json:"payload_sha256,omitempty"`
	// Of a table of Powertools.
	Validation string      `json:"payload_validation,omitempty"` // absent: the payload is not compared
	Powertools *bool       `json:"by_powertools,omitempty"`      // whether it has written the record, or completed it
	Result     *resultJSON `json:"result,omitempty"`
}

type resultJSON struct {
	Kind        engine.Kind `json:"kind"`
	ContentType string      `json:"content_type,omitempty"`
	Bytes       int         `json:"bytes"`          // of a missing result: of the reason
	Body        *[]byte     `json:"body,omitempty"` // only with --result
}

func toRecordJSON(a *cli.App, k keyArguments, e once.Explanation) recordJSON {
	r := e.Record
	j := recordJSON{
		Namespace: k.Namespace, Key: k.Key, Status: r.Status, Number: r.Number, Counts: e.Next != once.NextRuns,
		Expiry: r.Expiry, PurgeAt: r.PurgeAt, Payload: r.Payload,
	}
	if _, ok := a.Powertools(); ok {
		theirs := byOthers(r)
		j.Payload, j.Validation, j.Powertools = "", r.Payload, &theirs
	}
	if !gaveBack(r) {
		j.LeaseEnd = &r.LeaseEnd
	}
	if r.Status == engine.Completed {
		j.Result = &resultJSON{Kind: r.Result.Kind, ContentType: r.Result.ContentType, Bytes: len(r.Result.Body)}
	}
	return j
}

// gaveBack reports whether the execution of a record gave the key back, or was evicted.
func gaveBack(r *engine.Record) bool {
	return r.Status == engine.InProgress && r.LeaseEnd.UnixMilli() == 0
}

// byOthers reports whether a program of others has written the record, or completed it.
func byOthers(r *engine.Record) bool {
	return r.Token == "" || r.Status == engine.Completed && r.CompletedBy == ""
}

// counts says whether the record counts.
func (j recordJSON) counts() string {
	switch {
	case j.Counts:
		return "yes"
	case j.LeaseEnd == nil:
		return "no: the execution gave the key back, or was evicted"
	case j.Status == engine.Completed:
		return "no: the window is over"
	}
	return "no: the lease is over"
}

func (j recordJSON) text() string {
	return cli.Table(func(row func(...string)) {
		row("namespace", j.Namespace)
		row("key", j.Key)
		row("status", string(j.Status))
		row("number", fmt.Sprint(j.Number))
		row("counts", j.counts())
		if j.LeaseEnd != nil {
			row("lease end", cli.TimeOr(*j.LeaseEnd, ""))
		}
		row("expiry", cli.TimeOr(j.Expiry, ""))
		row("deleted", "from "+cli.TimeOr(j.PurgeAt, ""))
		switch {
		case j.Powertools == nil:
			row("payload", "SHA-256 "+j.Payload)
		case j.Validation == "":
			row("payload", "is not compared")
		default:
			row("payload", "validation "+j.Validation)
		}
		if j.Powertools != nil && *j.Powertools {
			row("by", "Powertools")
		}
		if j.Result != nil {
			row("result", j.Result.text())
		}
	})
}

func (j resultJSON) text() string {
	text := string(j.Kind)
	if j.Kind == engine.Missing { // Bytes is the size of the reason
		return text + "; --result says why"
	}
	if j.ContentType != "" {
		text += ", " + j.ContentType
	}
	return text + ", " + cli.Quantity(int64(j.Bytes), "byte")
}
