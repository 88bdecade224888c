package idempotency

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	once "github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// keyArguments name a key.
type keyArguments struct {
	Namespace string `arg:"" help:"The namespace of the key: the second argument of idempotency.New."`
	Key       string `arg:"" help:"The key of the call."`
}

// use opens a runner for the key. Call closeStore after use.
func (k keyArguments) use(
	ctx context.Context, open func(context.Context) (engine.Store, func(), error),
) (runner *once.Runner, closeStore func(), err error) {
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

// explain reads the record of the key. A nil payload is the payload of the record.
func (k keyArguments) explain(ctx context.Context, a *cli.App, payload []byte) (once.Explanation, error) {
	runner, closeStore, err := k.use(ctx, a.OpenIdempotencyToRead)
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

Examples:
  oncebox idempotency show payments order-1
  oncebox idempotency show payments order-1 --result > receipt.json
  oncebox --store dynamodb: idempotency show payments order-1 --output json`
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
	shown := toRecordJSON(c.keyArguments, found)
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
	Payload   string        `json:"payload_sha256"`
	Result    *resultJSON   `json:"result,omitempty"`
}

type resultJSON struct {
	Kind        engine.Kind `json:"kind"`
	ContentType string      `json:"content_type,omitempty"`
	Bytes       int         `json:"bytes"`          // of a missing result: of the reason
	Body        *[]byte     `json:"body,omitempty"` // only with --result
}

func toRecordJSON(k keyArguments, e once.Explanation) recordJSON {
	r := e.Record
	j := recordJSON{
		Namespace: k.Namespace, Key: k.Key, Status: r.Status, Number: r.Number, Counts: e.Next != once.NextRuns,
		Expiry: r.Expiry, PurgeAt: r.PurgeAt, Payload: r.Payload,
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
		row("payload", "SHA-256 "+j.Payload)
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
