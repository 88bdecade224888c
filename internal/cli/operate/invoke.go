package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/recordhandler/full"
)

type invokeCommand struct {
	Claim  invokeClaim  `cmd:"" help:"Send an API Gateway HTTP API event (payload format 2.0) to the claim handler."`
	Dedupe invokeDedupe `cmd:"" help:"Send a Kinesis event to the dedupe handler."`
}

type invokeClaim struct {
	Event string `arg:"" help:"File with the event as JSON; - is stdin. Examples are in events/claim."`
	URL   string `name:"url" help:"POST the event to a running Lambda runtime emulator instead." placeholder:"URL"`
}

func (invokeClaim) Help() string {
	return `Prints the handler's reply as JSON, whatever its status. Without --url the handler runs in this process: its
tables come from --store, its other settings from the variables of the Lambda function. ONCEBOX_CLAIMANT_FROM is
body by default.

Examples:
  oncebox invoke claim events/claim/claim-body.json
  oncebox invoke claim events/claim/claim-body.json --url http://127.0.0.1:9000`
}

func (c invokeClaim) Run(ctx context.Context, a *cli.App) error {
	raw, err := readEvent(ctx, a.Stdin, c.Event)
	if err != nil {
		return err
	}
	if c.URL != "" {
		reply, err := post(ctx, c.URL, raw)
		if err != nil {
			return err
		}
		return printReply(a, reply)
	}
	var event events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(raw, &event); err != nil {
		return cli.BadUsage(fmt.Errorf("%s is not an API Gateway HTTP API event: %w", c.Event, err), "")
	}
	options, err := handlerOptions(a.Environ)
	if err != nil {
		return err
	}
	return withHandler(ctx, a, options, func(_ *itembank.Operator, h *claimapi.Handler) error {
		reply, err := h.Handle(ctx, event)
		if err != nil {
			return err
		}
		return printReply(a, reply)
	})
}

type invokeDedupe struct {
	Event string `arg:"" help:"File with the event as JSON; - is stdin. Examples are in events/dedupe."`
	URL   string `name:"url" help:"POST the event to a running Lambda runtime emulator instead." placeholder:"URL"`
}

func (invokeDedupe) Help() string {
	return `Prints the handler's answer: the sequence number of the first record that failed, or an empty list. Without --url
the handler runs in this process: its ledger comes from --store, its other settings from the variables of the
Lambda function, of which ONCEBOX_ID_PATH, ONCEBOX_SINK and ONCEBOX_DEAD_LETTERS are required. ONCEBOX_LEDGER=log
needs --store dynamodb:.

The exit code is 1 if a record failed. The log says why, and the same event can be sent again. If no record of several
is done, the invocation fails, and there is no answer. The exit code is 2 if the settings or the event are wrong, as
where nearly all records are poison for one reason. The exit code is 4 if all records are done and some of them are
dead letters; with --url only the log of the function reports dead letters.

Example:
  export ONCEBOX_ID_PATH=id ONCEBOX_SINK=ndjson:out.ndjson ONCEBOX_DEAD_LETTERS=dir:failed
  oncebox invoke dedupe events/dedupe/several.json`
}

func (c invokeDedupe) Run(ctx context.Context, a *cli.App) error {
	raw, err := readEvent(ctx, a.Stdin, c.Event)
	if err != nil {
		return err
	}
	if c.URL != "" {
		reply, err := post(ctx, c.URL, raw)
		if err != nil {
			return err
		}
		return printAnswerOfURL(ctx, a, reply)
	}
	options, err := recordhandler.ParseOptions(a.Environ)
	if err != nil {
		return cli.BadUsage(err, "")
	}
	options.Clients = full.Clients
	return a.WithRecords(ctx, options, func(h *recordhandler.Handler) error {
		result, err := h.Deliver(ctx, raw)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err() // interrupted
		case errors.Is(err, recordhandler.ErrNoProgress):
			return cli.WithHint(fmt.Errorf("no record of the event is done: %w", result.Err), sendAgain)
		case err != nil:
			return err
		}
		if err := printAnswer(ctx, a, recordhandler.Answer(result)); err != nil {
			return err
		}
		return cli.DeadLettered(result.Tally.DeadLettered, options.DeadLetterStore)
	})
}

// printAnswerOfURL prints the answer of the function at --url, which by mistake may be another function.
func printAnswerOfURL(ctx context.Context, a *cli.App, reply json.RawMessage) error {
	var answer events.KinesisEventResponse
	err := json.Unmarshal(reply, &answer)
	if err == nil && answer.BatchItemFailures != nil { // the answer of the record handler always has a list
		return printAnswer(ctx, a, answer)
	}
	if err == nil {
		err = errors.New("it has no batchItemFailures")
	}
	return errors.Join(printReply(a, reply), cli.WithHint(
		fmt.Errorf("this is not an answer of the dedupe function: %w", err), "Does --url belong to another function?",
	))
}

// printAnswer prints the answer of the record handler. Failed records are an error, because no program sends them
// again, as Lambda would.
func printAnswer(ctx context.Context, a *cli.App, answer events.KinesisEventResponse) error {
	err := printReply(a, answer)
	switch {
	case err != nil || len(answer.BatchItemFailures) == 0:
		return err
	case ctx.Err() != nil:
		return ctx.Err() // interrupted
	}
	return cli.WithHint(
		fmt.Errorf("the records from sequence number %s on failed", answer.BatchItemFailures[0].ItemIdentifier),
		"The log says why. "+sendAgain,
	)
}

const sendAgain = "It is safe to send the event again."

// readEvent reads a file that must hold JSON.
func readEvent(ctx context.Context, stdin io.Reader, name string) ([]byte, error) {
	raw, err := cli.ReadFile(ctx, stdin, name)
	if err != nil {
		return nil, err
	}
	var syntax *json.SyntaxError
	if err := json.Unmarshal(raw, new(json.RawMessage)); errors.As(err, &syntax) {
		line := 1 + bytes.Count(raw[:syntax.Offset], []byte("\n"))
		return nil, cli.BadUsage(fmt.Errorf("%s is not JSON: line %d: %w", name, line, err), "")
	}
	return raw, nil
}

// invocationPath is the path at which the Lambda runtime interface emulator receives events.
const invocationPath = "/2015-03-31/functions/function/invocations"

// invokeTimeout is Lambda's own limit for one invocation.
const invokeTimeout = 15 * time.Minute

// post sends an event to an emulator and returns the reply. Emulators answer a failed invocation with status 200 and an
// errorMessage in the body.
func post(ctx context.Context, target string, event []byte) (json.RawMessage, error) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, cli.BadUsage(fmt.Errorf("--url %q: must be like http://127.0.0.1:9000", target), "")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = invocationPath
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(event))
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Timeout: invokeTimeout}).Do(request)
	if call, ok := errors.AsType[*url.Error](err); ok && ctx.Err() == nil {
		return nil, fmt.Errorf("--url %s cannot be reached: %s", target, cli.ReasonOf(call))
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // the body was only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var failure struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	switch err := json.Unmarshal(body, &failure); {
	case response.StatusCode != http.StatusOK || err != nil:
		return nil, fmt.Errorf("%s answered %s: %.200s", u, response.Status, body)
	case failure.Message != "":
		return nil, fmt.Errorf("the function failed: %s: %s", failure.Type, failure.Message)
	}
	return body, nil
}

// printReply prints a reply. It is JSON for every --output.
func printReply(a *cli.App, reply any) error {
	encoder := cli.NewEncoder(a.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(reply)
}
