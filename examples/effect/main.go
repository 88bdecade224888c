// Command effect is a Lambda function that calls an API once for each record of a Kinesis stream: copies that producers
// send again are dropped, and records that cannot be read or that the API refuses are stored in the dead-letter bucket.
//
// It reads DEDUPE_TABLE, DEAD_LETTERS (s3://BUCKET/PREFIX) and API_URL. The event source mapping needs
// ReportBatchItemFailures.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	letters, lettersErr := deadletter.Open(ctx, awsclient.FromEnvironment, os.Getenv("DEAD_LETTERS"), nil)
	if err := errors.Join(err, lettersErr); err != nil {
		log.Fatal(err)
	}
	api := api{os.Getenv("API_URL"), &http.Client{Timeout: 5 * time.Second}}
	handler, err := newHandler(dynamostore.New(client, os.Getenv("DEDUPE_TABLE")), letters, api.call)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

// newHandler makes the function from its parts. The tests use other parts.
func newHandler(
	ledger recordhandler.Store, letters dedupe.DeadLetterStore, effect dedupe.SinkFunc,
) (*recordhandler.Handler, error) {
	reader, err := format.NewJSON(format.Options{IDPath: "id", Volatile: []string{"sent_at"}})
	if err != nil {
		return nil, err
	}
	return recordhandler.New(dedupe.Parts{
		Ledger: ledger, Acks: ledger, Consumers: ledger, Format: reader, Sink: effect.AtOnce(atOnce), DeadLetters: letters,
	}, recordhandler.Options{}, slog.Default())
}

type api struct {
	url    string
	client *http.Client
}

// atOnce keeps the calls of a chunk of 500 records below the function's time-out.
const atOnce = 16

// call calls the API for one record. A record that comes again has the same ID, even after a crash between the call and
// its reply. So the API can recognise a repeated call by its Idempotency-Key. A *dedupe.PoisonError makes the record a
// dead letter. After another error the record comes again, until the event source mapping gives it up.
func (a api) call(ctx context.Context, o dedupe.Output) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(o.Data))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", o.ID)
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil { // so that the connection is used again
		return err
	}
	return errorOf(response.StatusCode)
}

// errorOf says what an answer of the API means for the record. The API will never take a record that it answers with one
// of the four codes below. It may take all others later: 401, 403 and 404 mean that a setting is wrong, 409 that the
// first call with the key still runs, 408, 429 and 5xx that the API is busy or down.
func errorOf(status int) error {
	answer := fmt.Sprintf("the API answered %d %s", status, http.StatusText(status))
	switch {
	case status/100 == 2:
		return nil
	case slices.Contains([]int{
		http.StatusBadRequest, http.StatusPaymentRequired, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
	}, status):
		return &dedupe.PoisonError{Reason: answer}
	}
	return errors.New(answer)
}
