package awsconfig

import (
	"fmt"
	"log/slog"

	"github.com/aws/smithy-go/logging"
)

// loggerOf returns the logger of a client. The SDK's default logger writes to standard error, whatever the level of the
// program is, so it is replaced. A logger that the caller's loader has set stays.
func loggerOf(loaded logging.Logger) logging.Logger {
	switch loaded.(type) {
	case nil, *logging.StandardLogger:
		return logging.LoggerFunc(logWithSlog)
	}
	return loaded
}

// logWithSlog passes a log line of the SDK to slog.Default(). The level is always debug, also for what the SDK calls a
// warning: the SDK has handled it, or returns an error as well. DynamoDB Local, for example, causes a warning for each
// failed condition, since its error responses have no checksum.
func logWithSlog(c logging.Classification, format string, values ...any) {
	slog.Debug("AWS SDK", "classification", string(c), "text", fmt.Sprintf(format, values...))
}
