package dynamo

import "github.com/aws/aws-sdk-go-v2/service/dynamodb"

// Local reports whether the client has its own endpoint, such as a local engine's, instead of AWS's.
func Local(client *dynamodb.Client) bool { return client.Options().BaseEndpoint != nil }
