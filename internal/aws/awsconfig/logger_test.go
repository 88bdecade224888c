package awsconfig_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// loader loads settings for an endpoint, with a logger as the SDK's own loader sets it.
func loader(endpoint string, logger logging.Logger) awsclient.Loader {
	return func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "eu-west-1", BaseEndpoint: &endpoint, Logger: logger,
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	}
}

// loggers returns the logger of each client of the module.
func loggers(t *testing.T, load awsclient.Loader) map[string]logging.Logger {
	t.Helper()
	dynamo, err := awsclient.NewDynamoDB(t.Context(), load)
	must(t, err)
	kinesis, err := kinesissink.NewClient(t.Context(), load)
	must(t, err)
	s3, err := deadletter.NewS3Client(t.Context(), load)
	must(t, err)
	sqs, err := deadletter.NewSQSClient(t.Context(), load)
	must(t, err)
	return map[string]logging.Logger{
		"DynamoDB": dynamo.Options().Logger, "Kinesis": kinesis.Options().Logger, "S3": s3.Options().Logger,
		"SQS": sqs.Options().Logger,
	}
}

// logTo makes a buffer the program's log, and returns the buffer.
func logTo(t *testing.T, level slog.Level) *bytes.Buffer {
	t.Helper()
	before, log := slog.Default(), &bytes.Buffer{}
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})))
	return log
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSDKLogsAtTheProgramsLevel(t *testing.T) {
	sdk := &bytes.Buffer{} // replaces os.Stderr, the SDK's own default
	for name, logger := range loggers(t, loader("http://127.0.0.1:1", logging.NewStandardLogger(sdk))) {
		for _, classification := range []logging.Classification{logging.Warn, logging.Debug} {
			log := logTo(t, slog.LevelInfo)
			logger.Logf(classification, "%d bytes are left", 7)
			if log.Len() > 0 || sdk.Len() > 0 {
				t.Errorf("%s %s is logged at level info: %s%s", name, classification, log, sdk)
			}
			log = logTo(t, slog.LevelDebug)
			logger.Logf(classification, "%d bytes are left", 7)
			want := `level=DEBUG msg="AWS SDK" classification=` + string(classification) + ` text="7 bytes are left"`
			if !strings.Contains(log.String(), want) || sdk.Len() > 0 {
				t.Errorf("%s %s: want %s, got %s%s", name, classification, want, log, sdk)
			}
		}
	}
}

func TestALoggerOfTheLoaderStays(t *testing.T) {
	log := logTo(t, slog.LevelDebug)
	lines := 0
	own := logging.LoggerFunc(func(logging.Classification, string, ...any) { lines++ })
	clients := loggers(t, loader("http://127.0.0.1:1", own))
	for _, logger := range clients {
		logger.Logf(logging.Warn, "text")
	}
	if lines != len(clients) || log.Len() > 0 {
		t.Errorf("%d lines, and in the program's log: %s", lines, log)
	}
}

// TestErrorsWithoutChecksumAreSilent uses an error response without a checksum, as DynamoDB Local sends it. The SDK
// warns of it, and the program's log must stay empty.
func TestErrorsWithoutChecksumAreSilent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}`)
	}))
	t.Cleanup(server.Close)
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelDebug: "checksum"} {
		log := logTo(t, level)
		client, err := awsclient.NewDynamoDB(t.Context(), loader(server.URL, nil))
		must(t, err)
		if _, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{}); err == nil {
			t.Error("no error")
		}
		if text := log.String(); want == "" && text != "" || !strings.Contains(text, want) {
			t.Errorf("level %v: the log is %q", level, text)
		}
	}
}
