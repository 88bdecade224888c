// Command claim is the Lambda function of the claim API. It connects settings, client, store, bank and handler.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/aws/awssecret"
	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func main() {
	if err := run(context.Background()); err != nil {
		requestid.Log(nil).Error("the claim function cannot start", "error", err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	s, o, err := claimapi.ParseSettings(os.Environ())
	if err != nil {
		return err
	}
	log := requestid.Log(o.LogLevel)
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		return err
	}
	bank := itembank.New(dynamostore.New(client, s.BankTable, s.DedupeTable), itembank.WithCampaignCache(o.CampaignCache))
	lambda.Start(claimapi.New(bank, o.ClaimantFrom, log, o.HandlerOptions(awssecret.Texts(awsclient.FromEnvironment))...))
	return nil
}
