// Command claim is the Lambda function of the claim API: it wires settings,
// client, store, bank and handler, and nothing else.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/awsconfig"
	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func main() {
	if err := run(context.Background()); err != nil {
		slog.Error("the claim function cannot start", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, err := claimapi.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	client, err := dynamo.NewClient(ctx, awsconfig.FromEnvironment)
	if err != nil {
		return err
	}
	bank := itembank.New(dynamostore.New(client, s.BankTable, s.DedupeTable), itembank.WithCampaignCache(s.CampaignCache))
	log := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: s.LogLevel}))
	lambda.Start(claimapi.New(bank, s.ClaimantFrom, log).Handle)
	return nil
}
