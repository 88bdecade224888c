package idempotency

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	once "github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

type explainCommand struct {
	keyArguments
	PayloadFile string `help:"Explain for a call with the payload in this file; - is stdin." placeholder:"FILE"`
}

func (explainCommand) Help() string {
	return `Says in sentences what the next call of the key gets, and why. The exit code is 3 if there is no record.

With --payload-file it compares the hash of a payload with the hash in the record. Every byte counts, also a newline at
the end. The payload of idempotency.Do is the JSON of its input, as json.Marshal writes it.

` + ofPowertools + `
The sentences are about calls in Go. The payload is the JSON that their expression for payload validation selects.

All times are times of the store. A call that waits for the end of a lease or a window waits up to two seconds longer.

Nothing is changed. With --output json, next_call is:
  runs           it runs the function
  replays        it gets what the completed record has
  waits          it waits for the execution that holds the key, or gets ErrInProgress
  other-payload  it gets ErrOtherPayload

Examples:
  oncebox idempotency explain payments order-1
  oncebox idempotency explain payments order-1 --payload-file order.json
  oncebox --store powertools-typescript:idempotency idempotency explain pay '"order-1"'`
}

func (c explainCommand) Run(ctx context.Context, a *cli.App) error {
	var payload []byte
	if c.PayloadFile != "" {
		var err error
		if payload, err = cli.ReadFile(ctx, a.Stdin, c.PayloadFile); err != nil {
			return err
		}
		payload = append([]byte{}, payload...) // not nil, also if it is empty
	}
	found, err := c.explain(ctx, a, payload)
	if err != nil {
		return err
	}
	if r := found.Record; r != nil && r.Payload == "" && c.PayloadFile != "" {
		return cli.BadUsage(
			fmt.Errorf("--payload-file %s: the record has no hash of a payload to compare", c.PayloadFile),
			"Leave the flag out: Powertools compares payloads only with an expression for payload validation.",
		)
	}
	explained := explainedJSON{NextCall: found.Next, Sentences: c.sentences(found)}
	if found.Record != nil {
		record := toRecordJSON(a, c.keyArguments, found)
		explained.Record = &record
	}
	err = a.Print(explained, strings.Join(explained.Sentences, "\n"))
	if found.Record == nil {
		err = errors.Join(err, c.noRecord())
	}
	return err
}

// explainedJSON is the result of explain.
type explainedJSON struct {
	NextCall  once.NextCall `json:"next_call"`
	Sentences []string      `json:"sentences"`
	Record    *recordJSON   `json:"record"` // null: there is none
}

// sentences says what the next call gets, and why.
func (c explainCommand) sentences(e once.Explanation) []string {
	switch {
	case e.Record == nil:
		return []string{"There is no record. The next call runs the function."}
	case e.Next == once.NextRuns:
		return []string{whyFree(e.Record), "The next call runs the function, as an execution with a larger number. It may have any payload."}
	}
	state, call, end := whyHeld(e.Record)
	until := " until " + end.Format(time.RFC3339) + "."
	switch {
	case e.Next == once.NextRefused:
		return []string{state, fmt.Sprintf("The payload in %s is not the payload of the record. ", c.PayloadFile) +
			"A call with it is refused (ErrOtherPayload)" + until}
	case e.Record.Payload == "":
		return []string{state, call, "The payload is not compared: the record has no hash of one."}
	case c.PayloadFile != "":
		return []string{state, fmt.Sprintf("The payload in %s is the payload of the record. ", c.PayloadFile) + call}
	}
	return []string{state, call, "A call with another payload is refused (ErrOtherPayload)" + until}
}

// whyFree says why a record does not count.
func whyFree(r *engine.Record) string {
	switch {
	case r.Status == engine.Completed:
		return fmt.Sprintf("%s has completed, and its window has been over since %s.", name(r), r.Expiry.Format(time.RFC3339))
	case gaveBack(r):
		return fmt.Sprintf("The key is free: execution %d failed and gave it back, or was evicted.", r.Number)
	}
	return fmt.Sprintf("The key has been free since %s. %s held it until then, and has neither completed nor given "+
		"it back.\nIts process has crashed, was frozen, or cannot reach the store. The function may have run, with its effects.",
		r.LeaseEnd.Format(time.RFC3339), name(r))
}

// name names the execution of a record, at the begin of a sentence.
func name(r *engine.Record) string {
	if byOthers(r) {
		return "A function with Powertools"
	}
	return fmt.Sprintf("Execution %d", r.Number)
}

// whyHeld says why a record counts, what a call with its payload gets, and until when it counts.
func whyHeld(r *engine.Record) (state, call string, until time.Time) {
	if r.Status == engine.InProgress {
		end := r.LeaseEnd.Format(time.RFC3339)
		holds := fmt.Sprintf("%s holds the key until %s.", name(r), end)
		if !byOthers(r) {
			holds += " Its heartbeats may prolong that."
		}
		return holds,
			"The next call waits for its result. If the Runner does not wait, it gets ErrInProgress.\n" +
				"If the process has crashed, a call after that time runs the function.", r.LeaseEnd
	}
	end := r.Expiry.Format(time.RFC3339)
	switch r.Result.Kind {
	case engine.Failure:
		return fmt.Sprintf("The function has failed in execution %d, and the failure is final.", r.Number),
			"The next call gets the same error, until " + end + ".", r.Expiry
	case engine.Missing:
		return fmt.Sprintf("Execution %d has completed, but its result could not be stored.", r.Number),
			"The next call gets ErrResultNotStored, until " + end + ". The function does not run.", r.Expiry
	}
	result := resultJSON{r.Result.Kind, r.Result.ContentType, len(r.Result.Body), nil}
	return name(r) + " has completed.",
		fmt.Sprintf("The next call gets its result (%s), until %s. The function does not run.", result.text(), end), r.Expiry
}
