package sweephandler_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// The sweep in a Lambda function of your own, which a schedule invokes.
func ExampleNew() {
	client, err := awsclient.NewDynamoDB(context.Background(), awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	bank := itembank.NewOperator(dynamostore.New(client, "oncebox-bank", "oncebox-dedupe"))
	lambda.Start(sweephandler.New(bank, slog.Default()).Handle)
}

// The sweep in a program of your own: call it once a minute.
func ExampleHandler_Handle() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sweep")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := sqlitestore.Create(ctx, filepath.Join(dir, "seats.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	bank := itembank.NewOperator(store)
	for name, settings := range map[string]itembank.Settings{
		"concert":  {Hold: 15 * time.Minute}, // its claims end
		"vouchers": {},
	} {
		if _, _, err := bank.CreateCampaign(ctx, name, settings); err != nil {
			log.Fatal(err)
		}
	}
	report, err := sweephandler.New(bank, slog.New(slog.DiscardHandler)).Handle(ctx)
	if err != nil {
		log.Fatal(err) // some campaigns were not swept to their end: the next sweep goes on
	}
	fmt.Printf("swept %d campaign, returned %d items\n", report.Campaigns, report.Returned)
	// Output:
	// swept 1 campaign, returned 0 items
}
