package dynamostore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// A Bank over two tables, as in a Lambda function.
func Example() {
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	bank := itembank.NewOperator(dynamostore.New(client, "oncebox-bank", "oncebox-dedupe"))
	grant, err := bank.Claim(ctx, "spring", "ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(grant.Claim.Items[0])
}
