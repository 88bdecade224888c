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
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	client, err := awsclient.NewDynamoDB(context.Background(), awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := newHandler(itembank.New(dynamostore.New(client, os.Getenv("BANK_TABLE"), os.Getenv("CLAIM_TABLE"))))
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

// newHandler serves a bank. The claimant is the subject of the token that the API's JWT authorizer has verified. So a
// caller cannot claim in the name of another customer.
func newHandler(bank *itembank.Bank) (*claimapi.Handler, error) {
	from, err := claimapi.ParseClaimantFrom("jwt:sub")
	if err != nil {
		return nil, err
	}
	return claimapi.New(bank, from, slog.Default()), nil
}
