// Command claim is the Lambda function of the claim API. It connects settings, client, store, bank and handler.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/aws/awssecret"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).Error("the claim function cannot start", "error", err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, o, err := claimapi.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: o.LogLevel}))
	slog.SetDefault(log.With("version", lambdacontext.FunctionVersion)) // the alarms of a canary read it
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		return err
	}
	bank := itembank.New(dynamostore.New(client, s.BankTable, s.DedupeTable), itembank.WithCampaignCache(o.CampaignCache))
	lambda.Start(claimapi.New(bank, o.ClaimantFrom, slog.Default(), o.HandlerOptions(awssecret.Texts(awsclient.FromEnvironment))...))
	return nil
}
