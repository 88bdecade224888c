package full_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/recordhandler/full"
)

// The handler of a program of your own, with a sink that needs the client of Firehose.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "oncebox")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	options, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=firehose:unique-clicks", "ONCEBOX_DEAD_LETTERS=dir:" + dir,
	})
	if err != nil {
		log.Fatal(err)
	}
	options.Clients = full.Clients
	ledger, err := sqlitestore.OpenMemory(ctx)
	if err != nil {
		log.Fatal(err)
	}
	load := func(context.Context) (aws.Config, error) { return aws.Config{Region: "eu-west-1"}, nil }
	handler, err := recordhandler.Open(ctx, load, ledger, options, slog.New(slog.DiscardHandler))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("delivers to", options.Sink)
	if err := handler.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: delivers to firehose:unique-clicks
}
