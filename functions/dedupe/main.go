// Command dedupe is the Lambda function of records: wiring, and nothing else.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/awsconfig"
	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.Error("the dedupe function cannot start", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := kinesishandler.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	client, err := dynamo.NewClient(ctx, awsconfig.FromEnvironment)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: s.LogLevel}))
	h, err := kinesishandler.Open(ctx, awsconfig.FromEnvironment, dynamostore.New(client, s.DedupeTable, dynamostore.WithConcurrency(s.Concurrency)), s.Options, log)
	if err == nil {
		lambda.Start(h)
	}
	return err
}
