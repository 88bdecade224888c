// Package requestid names invocations of Lambda functions in logs.
package requestid

import (
	"context"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// Key is the member of log lines that holds the id.
const Key = "request_id"

// Of returns Lambda's id of the invocation, or "" outside of Lambda.
func Of(ctx context.Context) string {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}
