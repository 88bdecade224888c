// Package traceid names traces of X-Ray in the log lines of Lambda functions.
package traceid

import (
	"context"
	"log/slog"
	"os"
	"strings"
)

// Key is the member of log lines that holds the id.
const Key = "trace_id"

// contextKey and variable are where the Lambda runtime for Go puts the header of the trace (aws-lambda-go, package
// lambda, "invoke_loop.go").
const contextKey, variable = "x-amzn-trace-id", "_X_AMZN_TRACE_ID"

// Of returns the id of the trace to which the invocation belongs, or "" outside of Lambda. A context that is not of an
// invocation belongs to the invocation that runs in the process.
func Of(ctx context.Context) string {
	header, ok := ctx.Value(contextKey).(string)
	if !ok {
		header = os.Getenv(variable)
	}
	for part := range strings.SplitSeq(header, ";") {
		if id, isRoot := strings.CutPrefix(strings.TrimSpace(part), "Root="); isRoot && isID(id) {
			return id
		}
	}
	return ""
}

// isID tests the form of an id, because a caller may send any text: a version, 8 hexadecimal digits for the time, and 24
// more (X-Ray Developer Guide, "Tracing header").
func isID(text string) bool {
	const digits = "0123456789abcdef"
	version, rest, _ := strings.Cut(text, "-")
	second, random, _ := strings.Cut(rest, "-")
	return version == "1" && len(second) == 8 && len(random) == 24 && strings.Trim(second+random, digits) == ""
}

// Log returns a log that adds the id to each line.
func Log(log *slog.Logger) *slog.Logger { return slog.New(handler{log.Handler()}) }

type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, line slog.Record) error {
	if id := Of(ctx); id != "" {
		line.AddAttrs(slog.String(Key, id))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
