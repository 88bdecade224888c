package recordhandler_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// A whole Lambda function with an effect of your own.
func ExampleNew_lambda() {
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	letters, lettersErr := deadletter.Open(ctx, awsclient.FromEnvironment, "s3://my-bucket/dead", nil)
	clicks, formatErr := format.NewJSON(format.Options{IDPath: "id"})
	ledger := dynamostore.New(client, "oncebox-dedupe")
	handler, handlerErr := recordhandler.New(dedupe.Parts{
		Ledger: ledger, Acks: ledger, Consumers: ledger, Format: clicks, Sink: dedupe.SinkFunc(effect), DeadLetters: letters,
	}, recordhandler.Options{}, slog.Default())
	if err := errors.Join(err, lettersErr, formatErr, handlerErr); err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

// effect gets each record once. After an error, and after a crash, it may get the same record again, with an equal ID. A
// *dedupe.PoisonError makes the record a dead letter.
func effect(_ context.Context, o dedupe.Output) error {
	fmt.Println("effect of", o.ID)
	return nil
}

// The same function on a developer's machine: the ledger is in memory, and dead letters go to a folder. Lambda delivers
// the event twice.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "dead")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	ledger, err := sqlitestore.OpenMemory(ctx)
	letters, lettersErr := deadletter.Open(ctx, awsclient.FromEnvironment, "dir:"+dir, nil)
	clicks, formatErr := format.NewJSON(format.Options{IDPath: "id"})
	handler, handlerErr := recordhandler.New(dedupe.Parts{
		Ledger: ledger, Acks: ledger, Consumers: ledger, Format: clicks, Sink: dedupe.SinkFunc(effect), DeadLetters: letters,
	}, recordhandler.Options{}, slog.New(slog.DiscardHandler))
	if err := errors.Join(err, lettersErr, formatErr, handlerErr); err != nil {
		log.Fatal(err)
	}
	event, err := os.ReadFile("../../events/dedupe/natural-duplicates.json") // four records
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		answer, err := handler.Invoke(ctx, event)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(answer))
	}
	// Output:
	// effect of natural-1
	// effect of natural-2
	// {"batchItemFailures":[]}
	// {"batchItemFailures":[]}
}
