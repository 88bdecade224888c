// Command dedupe is the Lambda function that deduplicates records. It connects settings, clients and handler.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func main() {
	if err := run(context.Background()); err != nil {
		requestid.Log(nil).Error("the dedupe function cannot start", "error", err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, o, err := recordhandler.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	log := requestid.Log(o.LogLevel)
	debug.SetMemoryLimit(o.MemoryLimit)
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		return err
	}
	h, err := recordhandler.OpenFunction(ctx, awsclient.FromEnvironment, client, s.DedupeTable, o, log)
	if err == nil {
		lambda.Start(h)
	}
	return err
}
