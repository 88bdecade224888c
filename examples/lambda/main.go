// Command lambda is a Lambda function of your own that serves the claim API, with tables named by your variables and
// the claimant from a token.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func main() {
	handler, err := newHandler(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

func newHandler(ctx context.Context) (*claimapi.Handler, error) {
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		return nil, err
	}
	bank := itembank.New(dynamostore.New(client, os.Getenv("BANK_TABLE"), os.Getenv("CLAIM_TABLE")))
	from, err := claimapi.ParseClaimantFrom("jwt:sub")
	if err != nil {
		return nil, err
	}
	return claimapi.New(bank, from, slog.New(slog.NewJSONHandler(os.Stdout, nil))), nil
}
