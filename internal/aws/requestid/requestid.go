// Package requestid names invocations of Lambda functions in logs.
package requestid

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/aws/traceid"
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

// Log makes the log of a function, and makes it the default: JSON on the standard output, from a level; nil is info. Each
// line names the version of the function, by which the alarms of a canary count lines, and the trace of the invocation.
func Log(level slog.Leveler) *slog.Logger {
	log := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: level}))
	slog.SetDefault(traceid.Log(log.With("version", lambdacontext.FunctionVersion)))
	return slog.Default()
}
