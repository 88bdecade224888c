// Package dedupefunction is the main of the Lambda functions that deduplicate records. It connects settings, clients and
// handler.
package dedupefunction

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// Main runs the function with the clients that it links.
func Main(clients recordhandler.Clients) {
	if err := run(context.Background(), clients); err != nil {
		requestid.Log(nil).Error("the dedupe function cannot start", "error", err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, clients recordhandler.Clients) error {
	s, o, err := recordhandler.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	o.Clients = clients
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
