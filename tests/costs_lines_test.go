package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/aws/traceid"
	ledgercost "github.com/oncebox/oncebox/internal/records/cost"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/internal/testkit/goldenfile"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// These are the values in log lines in AWS, with names as long as the stack's.
const (
	invocationID = "4b142fc3-17b8-4cdb-a46b-a8dbe7918715"
	traceHeader  = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
	functionName = "oncebox-ClaimsFunction99A26075-x1Y2z3A4b5C6"
)

// platformLines are Lambda's own lines of an invocation (Lambda Developer Guide, "Working with Lambda function logs"
// and "Lambda Telemetry API Event schema reference").
var platformLines = map[string]string{
	"Lambda, format text: `START`": "START RequestId: " + invocationID + " Version: 12\n",
	"Lambda, format text: `END`":   "END RequestId: " + invocationID + "\n",
	"Lambda, format text: `REPORT`": "REPORT RequestId: " + invocationID +
		"\tDuration: 11.64 ms\tBilled Duration: 12 ms\tMemory Size: 512 MB\tMax Memory Used: 67 MB\t\n",
	"Lambda, format JSON, INFO: `platform.start`": `{"time":"2027-03-01T09:00:00.008Z","type":"platform.start",` +
		`"record":{"requestId":"` + invocationID + `","version":"12"}}`,
	"Lambda, format JSON, INFO: `platform.report`": `{"time":"2027-03-01T09:00:00.022Z","type":"platform.report",` +
		`"record":{"requestId":"` + invocationID + `","metrics":{"durationMs":11.642,"billedDurationMs":12,"memorySizeMB":512,` +
		`"maxMemoryUsedMB":67},"status":"success"}}`,
}

// accessLogValues are the values that API Gateway writes for the variables of the access log.
var accessLogValues = map[string]string{
	"$context.requestId": "KZ5mOh2uIAMEVrg=", "$context.requestTime": "01/Mar/2027:09:00:00 +0000",
	"$context.routeKey": "POST /campaigns/{campaign}/claims", "$context.status": "201",
	"$context.responseLength": "118", "$context.responseLatency": "24",
	"$context.integration.status": "201", "$context.integration.latency": "22",
	"$context.integrationErrorMessage": "-", "$context.error.message": "-", "$context.authorizer.error": "-",
}

// TestLogBytes measures the lines of the logs. Numbers in them have more or fewer digits, so 3 % are allowed.
func TestLogBytes(t *testing.T) {
	t.Parallel()
	lines := map[string]string{}
	for name, line := range platformLines {
		lines[name] = line
	}
	claim := claimLine(t)
	lines["the claim function: a request, with its metrics"] = claim
	lines["of the line of a claim: its metrics"] = claim[strings.Index(claim, `,"Claims"`):strings.Index(claim, `,"trace_id"`)]
	lines["the dedupe function: a batch, with its metrics"] = batchLine(t)
	lines["the API: a request in its access log"] = accessLine(t)
	equal(t, "kinds of lines", len(lines), len(ledgercost.LogLines))
	for _, l := range ledgercost.LogLines {
		got := len(lines[l.Name])
		t.Logf("%s: %d bytes: %s", l.Name, got, lines[l.Name])
		if math.Abs(float64(got-l.Bytes)) > 0.03*float64(l.Bytes) {
			t.Errorf("%s: internal/records/cost has %d bytes, want %d", l.Name, l.Bytes, got)
		}
	}
}

// logTo makes a log as requestid.Log does.
func logTo(out io.Writer) *slog.Logger {
	return traceid.Log(slog.New(slog.NewJSONHandler(out, nil)).With("version", "12"))
}

// invoked returns the context of an invocation, as the Lambda runtime makes it.
func invoked(t *testing.T) context.Context {
	ctx := context.WithValue(t.Context(), "x-amzn-trace-id", traceHeader) //nolint:staticcheck // the runtime's own key
	return lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: invocationID})
}

// claimLine is the line of a new claim.
func claimLine(t *testing.T) string {
	bank := itembank.NewOperator(memstore.NewItems())
	_, _, err := bank.CreateCampaign(t.Context(), "spring", itembank.Settings{})
	must(t, err)
	_, err = bank.Load(t.Context(), "spring", itembank.Items("SAVE-1", "SAVE-2"), nil)
	must(t, err)
	from, err := claimapi.ParseClaimantFrom("body")
	must(t, err)
	var log bytes.Buffer
	h := claimapi.New(bank.Bank, from, logTo(&log),
		claimapi.WithMetrics(settings.MetricsNamespace+functionName))
	var request events.APIGatewayV2HTTPRequest
	must(t, json.Unmarshal(readEvent(t, "claim-body"), &request))
	request.RawPath = "/campaigns/spring/claims"
	request.Body = `{"claimant":"customer@example.com"}`
	response, err := h.Handle(invoked(t), request)
	must(t, err)
	equal(t, "status", response.StatusCode, http.StatusCreated)
	return log.String()
}

// batchLine is the line of a full batch of new records.
func batchLine(t *testing.T) string {
	options, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=s3://failures",
		"AWS_LAMBDA_FUNCTION_NAME=" + functionName,
	})
	must(t, err)
	options.Metrics = settings.MetricsNamespace + functionName
	var log bytes.Buffer
	store, sent := memstore.NewRecords(), &counter{}
	h, err := recordhandler.New(dedupe.Parts{
		Ledger: store, Acks: store, Consumers: store, Sink: dedupe.SinkFunc(sent.send), DeadLetters: noDeadLetters{},
	}, options, logTo(&log))
	must(t, err)
	event := kinesisEvent(0, payloads(0, counted, "click"))
	raw, err := json.Marshal(event)
	must(t, err)
	_, err = h.Handle(invoked(t), raw)
	must(t, err)
	equal(t, "records sent", sent.records, counted)
	return log.String()
}

// accessLine returns a line of the access log, in the format of the stack's template.
func accessLine(t *testing.T) string {
	template, err := goldenfile.Read("stack/testdata/goldens", "default")
	must(t, err)
	for _, r := range template["Resources"].(map[string]any) {
		if r := r.(map[string]any); r["Type"] == "AWS::ApiGatewayV2::Stage" {
			log := r["Properties"].(map[string]any)["AccessLogSettings"].(map[string]any)
			return regexp.MustCompile(`\$[a-zA-Z.]+`).ReplaceAllStringFunc(log["Format"].(string),
				func(variable string) string {
					value, ok := accessLogValues[variable]
					if !ok {
						t.Errorf("no value is known for %s", variable)
					}
					return value
				}) + "\n"
		}
	}
	t.Fatal("the stack has no access log")
	return ""
}
