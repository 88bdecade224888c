// Command stack is an example of a stack of your own: a ticketing team hands out
// seats by the claim API, and lets each of its orders through once.
//
//	make zip
//	cdk synth --app 'go run ./examples/stack'
package main

import (
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
	if err := addTickets(app); err != nil {
		return err
	}
	app.Synth(nil)
	return nil
}

// orders is a stream that another team has, and retention how long it keeps records,
// which a stream's ARN does not tell.
const (
	orders    = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"
	retention = 72 * time.Hour
)

func addTickets(app awscdk.App) error {
	stack := awscdk.NewStack(app, jsii.String("tickets"), &awscdk.StackProps{
		// Tables with a key of yours want to know where they will be.
		Env: &awscdk.Environment{Account: jsii.String("123456789012"), Region: jsii.String("eu-west-1")},
	})
	key := awskms.NewKey(stack, jsii.String("Key"), &awskms.KeyProps{EnableKeyRotation: jsii.Bool(true)})
	alarms := awssns.NewTopic(stack, jsii.String("Alarms"), nil)
	alarms.AddSubscription(awssnssubscriptions.NewEmailSubscription(jsii.String("on-call@tickets.example"), nil))

	// Both jobs use one table for what was seen; each has its part of the keys. When
	// a sale opens, everybody comes in the same second: 5,000 seats a second take
	// 10,000 write units of either table, and the rest is for orders.
	tables := infra.TableProps{EncryptionKey: key, WarmReadUnits: 12_000, WarmWriteUnits: 12_000}
	seen, err := infra.NewTable(stack, "Seen", tables)
	if err != nil {
		return err
	}

	// The shop's customers call the API themselves, with the token of their login. Who
	// they are is in a claim of it, so nobody takes a seat in another one's name.
	seats, err := infra.NewClaimAPI(stack, "Seats", infra.ClaimAPIProps{
		Auth:         infra.AuthJWT("https://login.tickets.example", "shop"),
		ClaimantFrom: "jwt:customer_id",
		DedupeTable:  seen,
		Table:        tables, // for the bank of seats
		RateLimit:    5_000,
		BurstLimit:   5_000,
		Alarms:       infra.AlarmProps{Topic: alarms},
	})
	if err != nil {
		return err
	}

	// The shop sends an order again when it hears no answer, with the time of that
	// attempt in it, which makes it no other order.
	unique, err := infra.NewRecordDedupe(stack, "Orders", infra.RecordDedupeProps{
		Rules: infra.RecordRules{
			IDPath:   "order.id",
			Volatile: []string{"sent_at"},
			Window:   retention,
		},
		Source:          awskinesis.Stream_FromStreamArn(stack, jsii.String("Source"), jsii.String(orders)),
		SourceRetention: retention,
		DedupeTable:     seen,
		EncryptionKey:   key,
		Alarms:          infra.AlarmProps{Topic: alarms},
	})
	if err != nil {
		return err
	}

	awscdk.NewCfnOutput(stack, jsii.String("SeatsURL"), &awscdk.CfnOutputProps{Value: &seats.URL})
	awscdk.NewCfnOutput(stack, jsii.String("UniqueOrders"), &awscdk.CfnOutputProps{Value: unique.Destination.StreamName()})
	return nil
}
