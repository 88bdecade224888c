// Command dedupe is the Lambda function that deduplicates records. It connects settings, clients and handler.
package main

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).Error("the dedupe function cannot start", "error", err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, o, err := recordhandler.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: o.LogLevel}))
	slog.SetDefault(log.With("version", lambdacontext.FunctionVersion)) // the alarms of a canary read it
	debug.SetMemoryLimit(o.MemoryLimit)
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		return err
	}
	h, err := recordhandler.OpenFunction(ctx, awsclient.FromEnvironment, client, s.DedupeTable, o, slog.Default())
	if err == nil {
		lambda.Start(h)
	}
	return err
}
