package deploy

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// A sourceCase is a golden of tests/stack whose source is no Kinesis stream.
type sourceCase struct {
	// prepare makes the source that the golden names, and returns the ARN that the emulator gives it.
	prepare func(t *testing.T, c clients) (arnOfGolden, arn string)
	// event returns an event with a record for each payload. source is the ARN in it.
	event func(t *testing.T, source string, payloads ...string) string
	good  int // the checks of doctor
}

const payload = `{"id":"1","eventID":"1"}`

var sourceCases = map[string]sourceCase{
	"from-queue": {event: messages, good: 4},
	"from-table": {prepare: changingTable, event: changes, good: 3},
	"from-logs":  {prepare: logGroup, event: logMessage, good: 2},
}

// TestSources deploys each source, and sends a record and its copy through its function. The emulator delivers no events
// to functions, so the test invokes the function with them.
func TestSources(t *testing.T) {
	testengine.CheckOnly(t)
	folder := built(t, builder("dedupe", runtime.GOARCH))
	t.Parallel()
	for name, s := range sourceCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, source := deploySource(t, name, s, folder)
			doctorLooksAtTheSource(t, d, s.good)
			reply := d.invoke(t, folder, "ONCEBOX_SINK", s.event(t, source, payload, payload))
			if !strings.Contains(reply, `"batchItemFailures":[]`) {
				t.Errorf("the batch gets %s", reply)
			}
			if delivered := d.delivered(t); len(delivered) != 1 {
				t.Errorf("the destination has %d records: %v", len(delivered), delivered)
			}
		})
	}
}

// deploySource deploys a golden with the function in a folder, and returns the ARN of its source.
func deploySource(t *testing.T, name string, s sourceCase, folder string) (d *deployed, source string) {
	t.Helper()
	c, stack := newClients(t), stackName(name)
	text := string(golden(t, name))
	if s.prepare != nil {
		arnOfGolden, made := s.prepare(t, c)
		text, source = strings.ReplaceAll(text, arnOfGolden, made), made
	}
	executable, err := os.ReadFile(filepath.Join(folder, "bootstrap"))
	must(t, err)
	bucket, key := stack+"-code", "dedupe.zip"
	_, err = c.s3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	must(t, err)
	_, err = c.s3.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &bucket, Key: &key, Body: bytes.NewReader(zipped(t, executable)),
	})
	must(t, err)
	_, err = c.cloudformation.CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: &stack, TemplateBody: withCode(t, text, bucket, key, nil), Capabilities: mayMakeRoles,
	})
	must(t, err)
	d = describe(t, stack)
	if source == "" {
		source = "arn:aws:sqs:" + region + ":" + account + ":" + path.Base(d.outputs["SourceQueueUrl"])
	}
	return d, source
}

// changingTable makes the table of the golden, with a stream.
func changingTable(t *testing.T, c clients) (arnOfGolden, arn string) {
	t.Helper()
	made, err := c.dynamodb.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("their-items"), BillingMode: dynamodbtypes.BillingModePayPerRequest,
		AttributeDefinitions: []dynamodbtypes.AttributeDefinition{
			{AttributeName: aws.String("id"), AttributeType: dynamodbtypes.ScalarAttributeTypeS},
		},
		KeySchema: []dynamodbtypes.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: dynamodbtypes.KeyTypeHash}},
		StreamSpecification: &dynamodbtypes.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: dynamodbtypes.StreamViewTypeNewAndOldImages,
		},
	})
	must(t, err)
	const table = "arn:aws:dynamodb:eu-west-1:123456789012:table/their-items/stream/2027-03-01T09:00:00.291"
	return table, *made.TableDescription.LatestStreamArn
}

func logGroup(t *testing.T, c clients) (arnOfGolden, arn string) {
	t.Helper()
	_, err := c.logs.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: aws.String("/their/service")})
	must(t, err)
	const group = ":123456789012:log-group:/their/service"
	return "arn:aws:logs:eu-west-1" + group, "arn:aws:logs:" + region + group
}

func messages(_ *testing.T, source string, payloads ...string) string {
	var records []string
	for i, p := range payloads {
		records = append(records, fmt.Sprintf(`{"messageId": "m%d", "body": %q, "attributes": {"SentTimestamp": "%d"},
			"eventSource": "aws:sqs", "eventSourceARN": %q}`, i, p, time.Now().UnixMilli(), source))
	}
	return `{"Records": [` + strings.Join(records, ",") + `]}`
}

// changes returns a single change: copies of it have its event id, and so are the same record.
func changes(_ *testing.T, source string, _ ...string) string {
	return fmt.Sprintf(`{"Records": [{"eventID": "1", "eventName": "INSERT", "eventSource": "aws:dynamodb", "eventSourceARN": %q,
		"dynamodb": {"SequenceNumber": "7", "ApproximateCreationDateTime": %d, "Keys": {"id": {"S": "1"}}}}]}`,
		source, time.Now().Unix())
}

func logMessage(t *testing.T, _ string, payloads ...string) string {
	t.Helper()
	var logEvents []string
	for _, p := range payloads {
		logEvents = append(logEvents, fmt.Sprintf(`{"id": "1", "timestamp": %d, "message": %q}`, 1000*time.Now().Unix(), p))
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := fmt.Fprintf(w, `{"messageType": "DATA_MESSAGE", "owner": %q, "logGroup": "/their/service", "logStream": "s",
		"subscriptionFilters": ["f"], "logEvents": [%s]}`, account, strings.Join(logEvents, ","))
	must(t, errors.Join(err, w.Close()))
	return fmt.Sprintf(`{"awslogs": {"data": %q}}`, base64.StdEncoding.EncodeToString(zipped.Bytes()))
}
