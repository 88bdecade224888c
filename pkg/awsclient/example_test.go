package awsclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/oncebox/oncebox/pkg/awsclient"
)

// A client of a local engine, with settings of the program's own. In a Lambda function the loader is FromEnvironment.
func ExampleNewDynamoDB() {
	local := func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "eu-west-1", BaseEndpoint: aws.String("http://localhost:8000"),
			Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
		}, nil
	}
	client, err := awsclient.NewDynamoDB(context.Background(), local)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Options().Region, *client.Options().BaseEndpoint)

	_, err = awsclient.NewDynamoDB(context.Background(), func(context.Context) (aws.Config, error) {
		return aws.Config{}, nil // no region
	})
	fmt.Println("without a region:", errors.Is(err, awsclient.ErrSettings))
	// Output:
	// eu-west-1 http://localhost:8000
	// without a region: true
}
