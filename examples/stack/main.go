// Command stack is an example of stacks of your own. A ticketing team hands out seats by the claim API, and passes on
// each of its orders once. Another stack hands out vouchers and keeps the history of their claims.
//
//	make zip
//	cdk synth --app 'go run ./examples/stack' tickets vouchers
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	if err := errors.Join(addTickets(app), addVouchers(app)); err != nil {
		return err
	}
	app.Synth(nil)
	return nil
}

// orders is an existing stream of another team. retention is how long it keeps records, which the ARN does not show.
const (
	orders    = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
	retention = 72 * time.Hour
)

func addTickets(app awscdk.App) error {
	stack := awscdk.NewStack(app, jsii.String("tickets"), &awscdk.StackProps{
		// A table with a key of your own needs a stack with a region.
		Env: &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-west-1")},
	})
	key := awskms.NewKey(stack, jsii.String("Key"), &awskms.KeyProps{EnableKeyRotation: jsii.Bool(true)})
	alarms := awssns.NewTopic(stack, jsii.String("Alarms"), nil)
	alarms.AddSubscription(awssnssubscriptions.NewEmailSubscription(jsii.String("on-call@tickets.example"), nil))

	// Both jobs share the dedupe table, in which their keys differ. When a sale opens, all customers come in the same
	// second. 5,000 requests of customers and 1,000 of the payment service take up to 24,000 write units a second. The
	// other 2,000 are for orders.
	tables := infra.TableProps{EncryptionKey: key, WarmReadUnits: 18_000, WarmWriteUnits: 26_000}
	dedupe, err := infra.NewTable(stack, "Seen", tables)
	if err != nil {
		return err
	}

	// The customers call the API with the token of their login. The token names the customer, so no customer can
	// claim a seat in the name of another. A customer may not confirm a hold, for example without paying.
	seats, err := infra.NewClaimAPI(stack, "Seats", infra.ClaimAPIProps{
		Auth:        infra.AuthJWT,
		JWTIssuer:   "https://login.tickets.example",
		JWTAudience: []string{"shop"},
		Settings:    claimapi.Settings{ClaimantFrom: "jwt:customer_id"},
		DedupeTable: dedupe,
		Table:       tables, // for the bank of seats
		RateLimit:   5_000,
		BurstLimit:  5_000,
		Alarms:      infra.AlarmProps{Topic: alarms},
	})
	if err != nil {
		return err
	}

	// The payment service calls its own API, by IAM, and confirms the paid holds. One sweep is enough for both.
	payments, err := infra.NewClaimAPI(stack, "Payments", infra.ClaimAPIProps{
		Auth:        infra.AuthIAM,
		BankTable:   seats.BankTable,
		DedupeTable: dedupe,
		Sweep:       "off",
		Alarms:      infra.AlarmProps{Topic: alarms},
	})
	if err != nil {
		return err
	}

	// Without an answer, the shop sends an order again. The second copy has a new sent_at, but it is the same order.
	unique, err := infra.NewRecordDedupe(stack, "Orders", infra.RecordDedupeProps{
		Settings: recordhandler.Settings{
			IDPath:   "order.id",
			Volatile: []string{"sent_at"},
			Window:   retention,
		},
		Source:          infra.FromStream(awskinesis.Stream_FromStreamArn(stack, jsii.String("Source"), jsii.String(orders))),
		SourceRetention: retention,
		DedupeTable:     dedupe,
		EncryptionKey:   key,
		Alarms:          infra.AlarmProps{Topic: alarms},
	})
	if err != nil {
		return err
	}

	awscdk.NewCfnOutput(stack, jsii.String("SeatsURL"), &awscdk.CfnOutputProps{Value: &seats.URL})
	awscdk.NewCfnOutput(stack, jsii.String("PaymentsURL"), &awscdk.CfnOutputProps{Value: &payments.URL})
	awscdk.NewCfnOutput(stack, jsii.String("UniqueOrders"), &awscdk.CfnOutputProps{Value: unique.Destination.StreamName()})
	return nil
}
