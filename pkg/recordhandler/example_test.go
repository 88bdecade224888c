package recordhandler_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// The handler in a Lambda function of your own, with settings in its variables.
func Example() {
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	options, err := recordhandler.ParseOptions(os.Environ())
	if err != nil {
		log.Fatal(err)
	}
	store, err := recordhandler.NewStore(ctx, awsclient.FromEnvironment, client, "oncebox-dedupe", options)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := recordhandler.Open(ctx, awsclient.FromEnvironment, store, options, slog.Default())
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

// The handler on a developer's machine: the ledger is in memory, the sink a file, and dead letters go to a folder.
func ExampleHandler_Deliver() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "oncebox")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	out := filepath.Join(dir, "out.ndjson")
	options, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:" + out, "ONCEBOX_DEAD_LETTERS=dir:" + filepath.Join(dir, "dead"),
	})
	if err != nil {
		log.Fatal(err)
	}
	ledger, err := sqlitestore.OpenMemory(ctx)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := recordhandler.Open(ctx, awsclient.FromEnvironment, ledger, options, slog.New(slog.DiscardHandler))
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close() //nolint:errcheck // every record is on the disk

	event, err := os.ReadFile("../../events/dedupe/poison-among-good.json") // four records
	if err != nil {
		log.Fatal(err)
	}
	result, err := handler.Deliver(ctx, event)
	if err != nil {
		log.Fatal(err)
	}
	records, err := os.ReadFile(out)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d new, %d duplicate, %d dead letter\n", result.Tally.New, result.Tally.Natural, result.Tally.DeadLettered)
	fmt.Print(string(records))
	// Output:
	// 2 new, 1 duplicate, 1 dead letter
	// {"id":"among-1","page":"/home"}
	// {"id":"among-3","page":"/home"}
}
