package awsconfig

import (
	"fmt"
	"log/slog"

	"github.com/aws/smithy-go/logging"
)

// loggerOf returns the logger of a client. It replaces the SDK's default logger, which writes to standard error at
// every level of the program. It keeps a logger that the caller's loader has set.
func loggerOf(loaded logging.Logger) logging.Logger {
	switch loaded.(type) {
	case nil, *logging.StandardLogger:
		return logging.LoggerFunc(logWithSlog)
	}
	return loaded
}

// logWithSlog passes a log line of the SDK to slog.Default(). The level is always debug, even for the SDK's warnings:
// the SDK has handled their cause, or it also returns an error. For example, DynamoDB Local causes a warning for each
// failed condition, because its error responses have no checksum.
func logWithSlog(c logging.Classification, format string, values ...any) {
	slog.Debug("AWS SDK", "classification", string(c), "text", fmt.Sprintf(format, values...))
}
