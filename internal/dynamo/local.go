package dynamo

import "github.com/aws/aws-sdk-go-v2/service/dynamodb"

// Local reports whether the client has an endpoint of its own, such as that of a local engine, instead of AWS's.
func Local(client *dynamodb.Client) bool { return client.Options().BaseEndpoint != nil }
