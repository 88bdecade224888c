// Command clients is the floor for the start of the dedupe function: an empty handler that links the clients of its
// defaults, and one request of each.
package main

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func main() { lambda.Start(handle) }

// handle makes requests only for an event that no test sends.
func handle(ctx context.Context, event json.RawMessage) (any, error) {
	if string(event) != `"requests"` {
		return nil, nil
	}
	_, err := dynamodb.NewFromConfig(aws.Config{}).PutItem(ctx, nil)
	if err == nil {
		_, err = kinesis.NewFromConfig(aws.Config{}).PutRecords(ctx, nil)
	}
	if err == nil {
		_, err = s3.NewFromConfig(aws.Config{}).PutObject(ctx, nil)
	}
	if err == nil {
		_, err = sqs.NewFromConfig(aws.Config{}).SendMessage(ctx, nil)
	}
	return nil, err
}
