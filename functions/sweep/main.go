// Command sweep is the Lambda function that closes holds and claims after their end, and counts free items. It
// connects settings, client, store, bank and handler.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

func main() {
	if err := run(context.Background()); err != nil {
		requestid.Log(nil).Error("the sweep function cannot start", "error", err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, o, err := sweephandler.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	log := requestid.Log(o.LogLevel)
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		return err
	}
	bank := itembank.NewOperator(dynamostore.New(client, s.BankTable, s.DedupeTable))
	lambda.Start(sweephandler.New(bank, log, sweephandler.WithMetrics(o.Metrics)).Handle)
	return nil
}
