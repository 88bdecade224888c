// Command dedupe is the Lambda function that deduplicates Kinesis records. It connects settings, clients and handler.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).Error("the dedupe function cannot start", "error", err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := kinesishandler.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: s.LogLevel})))
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		return err
	}
	ledger := dynamostore.New(client, s.DedupeTable, dynamostore.WithConcurrency(s.Concurrency))
	h, err := kinesishandler.Open(ctx, awsclient.FromEnvironment, ledger, s.Options, slog.Default())
	if err == nil {
		lambda.Start(h)
	}
	return err
}
