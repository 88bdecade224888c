package doctor_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/oncebox/oncebox/internal/cli/doctor"
	"github.com/oncebox/oncebox/internal/testkit/lambdatest"
)

const (
	claimRoute = "GET /campaigns/{campaign}/claims/{claimant+}"
	pageRoute  = "GET /c/{campaign}"
	domain     = "claims.example.com"
)

// shop returns the functions of a stack with both jobs, and nothing wrong.
func shop() map[string]*lambdatest.Function {
	return map[string]*lambdatest.Function{
		"claims": {
			Env: map[string]string{
				"ONCEBOX_CLAIMANT_FROM": "body", "ONCEBOX_CALLER": "iam", "ONCEBOX_BANK_TABLE": "bank", "ONCEBOX_DEDUPE_TABLE": "dedupe",
			},
			Alias: "live", Parts: lambdatest.Parts{
				Alarm: "OK", Domain: domain,
				Routes: map[string]string{claimRoute: "AWS_IAM", "POST /campaigns/{campaign}/claims": "AWS_IAM", pageRoute: "NONE"},
			},
		},
		"sweep": {
			Env: map[string]string{"ONCEBOX_BANK_TABLE": "bank"}, Alias: "live", Description: "oncebox sweep",
			Parts: lambdatest.Parts{Alarm: "OK", Rule: "ENABLED"},
		},
		"records": {
			Env: map[string]string{
				"ONCEBOX_SINK": "kinesis:out", "ONCEBOX_ID_PATH": "id", "ONCEBOX_DEAD_LETTERS": "s3://letters", "ONCEBOX_DEDUPE_TABLE": "dedupe",
			},
			Alias: "live", Stream: stream, Parts: lambdatest.Parts{Alarm: "OK"},
		},
	}
}

// gateway sends the requests to the domain to the address of the API. It is the HTTP transport of all clients, and
// refuses the requests of an action.
type gateway struct {
	endpoint, denied string
	down             bool   // the domain has no DNS record
	table            string // the description of every table
}

func (g gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Host == domain && g.down:
		return nil, errors.New("no such host")
	case r.URL.Host == domain:
		at, err := http.NewRequestWithContext(r.Context(), r.Method, g.endpoint+"/at/claims"+r.URL.Path, http.NoBody)
		if err != nil {
			return nil, err
		}
		return http.DefaultTransport.RoundTrip(at)
	case strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".DescribeTable"):
		return &http.Response{
			StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"Table": {` + g.table + `}}`)), Request: r,
		}, nil
	case g.denied != "" && strings.Contains(r.URL.Path+r.Header.Get("X-Amz-Target"), g.denied):
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"X-Amzn-Errortype": {"AccessDeniedException"}},
			Body: http.NoBody, Request: r,
		}, nil
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Do implements aws.HTTPClient.
func (g gateway) Do(r *http.Request) (*http.Response, error) { return g.RoundTrip(r) }

// deploy serves functions as a stack, and returns the functions by their names.
func deploy(
	t *testing.T, functions map[string]*lambdatest.Function, g gateway,
) (account doctor.Account, found map[string]doctor.Function) {
	t.Helper()
	g.endpoint = lambdatest.Serve(t, "shop", functions)
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: &g.endpoint, HTTPClient: g, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	stack, err := doctor.InStack(t.Context(), cloudformation.NewFromConfig(cfg), "shop")
	if err != nil {
		t.Fatal(err)
	}
	client := lambda.NewFromConfig(cfg)
	all, _, err := stack.Find(t.Context(), client)
	if err != nil || len(all) != len(functions) {
		t.Fatalf("found %v, %v", all, err)
	}
	found = map[string]doctor.Function{}
	for _, f := range all {
		found[f.Name] = f
	}
	return doctor.Account{
		Lambda: client, Gateway: apigatewayv2.NewFromConfig(cfg), Limits: apigateway.NewFromConfig(cfg),
		Events: eventbridge.NewFromConfig(cfg), CloudWatch: cloudwatch.NewFromConfig(cfg),
		Kinesis: kinesis.NewFromConfig(cfg), Queues: sqs.NewFromConfig(cfg), Logs: cloudwatchlogs.NewFromConfig(cfg),
		Tables: dynamodb.NewFromConfig(cfg), HTTP: g,
		Stack: stack, Explain: error.Error, Report: doctor.NewReport(nil),
	}, found
}

// checkAll makes all checks that need no sale.
func checkAll(t *testing.T, account doctor.Account, found map[string]doctor.Function) []doctor.Check {
	t.Helper()
	var loads []doctor.Load
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch f := found[name]; f.Kind {
		case doctor.Claim:
			throttle, _ := account.CheckAPI(t.Context(), f)
			loads = append(loads, doctor.LoadOf(f, throttle.Rate, 0, false))
		case doctor.Sweep:
			account.CheckSchedule(t.Context(), f)
			loads = append(loads, doctor.Load{Function: f, AtOnce: 1, Why: "one sweep"})
		case doctor.Dedupe:
			_, load := account.CheckMapping(t.Context(), f)
			loads = append(loads, load)
			account.CheckStatements(t.Context(), f)
		}
	}
	account.CheckConcurrency(t.Context(), loads)
	account.CheckAlarms(t.Context())
	return account.Report.Checks
}

// parts are the functions of a case, to be changed.
type parts struct {
	gateway
	claims, sweep, records *lambdatest.Function
}

// setClaims gives the claim function other settings and routes without an authorizer, and the status of its answers.
func (p *parts) setClaims(status int, settings ...string) {
	p.claims.Env = map[string]string{}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		p.claims.Env[name] = value
	}
	for key := range p.claims.Routes {
		p.claims.Routes[key] = "NONE"
	}
	p.claims.Invoke = func([]byte) (reply, log []byte) {
		return fmt.Appendf(nil, `{"statusCode": %d, "headers": {"content-type": "application/problem+json"}}`, status), nil
	}
}

const (
	table = "arn:aws:dynamodb:us-east-1:123456789012:table/t"
	queue = "arn:aws:sqs:us-east-1:123456789012:orders"
)

// setTable gives the records function the stream 1 of a table. latest is the one that the table writes.
func (p *parts) setTable(recordAge int, latest string, on bool) {
	p.records.Stream, p.records.RecordAge = table+"/stream/1", recordAge
	p.table = fmt.Sprintf(`"LatestStreamArn": %q, "StreamSpecification": {"StreamEnabled": %t}`, table+latest, on)
}

// setQueue gives the records function a queue, with an attribute of its own.
func (p *parts) setQueue(attribute string) {
	p.records.Stream = queue
	if name, value, set := strings.Cut(attribute, "="); set {
		p.records.Queue = map[string]string{name: value}
	}
}

// setLogs lets CloudWatch Logs invoke the records function for log groups.
func (p *parts) setLogs(groups string) { p.records.Stream, p.records.Logs = "", groups }

// TestPartsAroundTheFunctions: doctor finds what is wrong around the functions, says so, and nothing else.
func TestPartsAroundTheFunctions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*parts)
		status doctor.Status // of the only check that is neither OK nor Info
		area   string
		text   string
	}{
		"nothing": {func(*parts) {}, "", "", ""},

		"an open route": {
			func(p *parts) { p.claims.Routes["POST /campaigns/{campaign}/claims"] = "NONE" }, doctor.Failure, "api",
			"POST /campaigns/{campaign}/claims has the authorizer NONE and needs AWS_IAM, since ONCEBOX_CLAIMANT_FROM is body and " +
				"ONCEBOX_CALLER is iam",
		},
		"a page behind an authorizer": {
			func(p *parts) { p.claims.Routes[pageRoute] = "AWS_IAM" }, doctor.Failure, "api", "has the authorizer AWS_IAM and needs NONE",
		},
		"tokens without their authorizer": {
			func(p *parts) { p.claims.Env = map[string]string{"ONCEBOX_CLAIMANT_FROM": "jwt:sub"} }, doctor.Failure, "api",
			"has the authorizer AWS_IAM and needs JWT",
		},
		"links, which the function verifies": {
			func(p *parts) { p.setClaims(http.StatusUnauthorized, "ONCEBOX_CLAIMANT_FROM=link") }, "", "", "",
		},
		"links that nobody verifies": {
			func(p *parts) { p.setClaims(http.StatusNotFound, "ONCEBOX_CLAIMANT_FROM=link") }, doctor.Failure, "api",
			"must answer 401 or 403",
		},
		"an API that is open by choice": {
			func(p *parts) { p.setClaims(http.StatusNotFound, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=any") }, "", "", "",
		},
		"an open API that refuses": {
			func(p *parts) { p.setClaims(http.StatusForbidden, "ONCEBOX_CLAIMANT_FROM=body", "ONCEBOX_CALLER=any") }, doctor.Failure,
			"api", "though everybody may claim",
		},
		"no permission for the API": {func(p *parts) { p.claims.Refused = true }, doctor.Failure, "api", "it answers 500"},
		"an API of the function itself": {
			func(p *parts) { p.claims.Calls = prefix + "claims" }, doctor.Failure, "api",
			"invokes " + prefix + "claims and not " + prefix + "claims:live",
		},
		"no route for claims": {
			func(p *parts) { delete(p.claims.Routes, "POST /campaigns/{campaign}/claims") }, doctor.Failure, "api",
			"none of them is POST /campaigns/{campaign}/claims: nobody can claim",
		},
		"an address that fails": {
			func(p *parts) { p.claims.Status = 503 }, doctor.Failure, "api", "answers 503 to a request without credentials: the API or its function fails",
		},
		"an address that is open": {
			func(p *parts) { p.claims.Status = 200 }, doctor.Failure, "api", "answers 200 to a request without credentials, and must",
		},
		"an address of something else": {func(p *parts) { p.claims.Status = 404 }, doctor.Failure, "api", "leads somewhere else"},
		"an address that redirects":    {func(p *parts) { p.claims.Status = 301 }, doctor.Failure, "api", "leads somewhere else"},
		"an address at its limit":      {func(p *parts) { p.claims.Status = 429 }, doctor.NotPlayed, "api", "at its rate limit"},
		"a domain without DNS": {
			func(p *parts) { p.down = true }, doctor.Failure, "api", "cannot be reached: no such host",
		},
		"a domain of another API": {func(p *parts) { p.claims.Lost = true }, doctor.Failure, "api", "has no mapping to the API"},
		"a domain without its certificate": {
			func(p *parts) { p.claims.Broken = "PENDING_CERTIFICATE_REIMPORT" }, doctor.Failure, "api",
			"is PENDING_CERTIFICATE_REIMPORT",
		},
		"a domain that changes":   {func(p *parts) { p.claims.Broken = "UPDATING" }, doctor.Warning, "api", "is UPDATING"},
		"no endpoint":             {func(p *parts) { p.claims.Closed = true }, "", "", ""},
		"no address":              {func(p *parts) { p.claims.Closed, p.claims.Domain = true, "" }, doctor.NotPlayed, "api", "its endpoint is off"},
		"no API":                  {func(p *parts) { p.claims.Routes, p.claims.Domain = nil, "" }, doctor.NotPlayed, "api", "no HTTP API"},
		"an API that is not read": {func(p *parts) { p.denied = "/v2/apis/api-claims/routes" }, doctor.NotPlayed, "api", "AccessDenied"},

		"a disabled rule": {func(p *parts) { p.sweep.Rule = "DISABLED" }, doctor.Failure, "schedule", "is disabled"},
		"no rule":         {func(p *parts) { p.sweep.Rule = "" }, doctor.Failure, "schedule", "no rule of EventBridge invokes"},
		"a rule of the function itself": {
			func(p *parts) { p.sweep.Calls = prefix + "sweep" }, doctor.Failure, "schedule", "invokes the function itself and not",
		},
		"no permission for the rule": {
			func(p *parts) { p.sweep.Refused = true }, doctor.Failure, "schedule", "may not invoke " + prefix + "sweep:live",
		},
		"a schedule that is not read": {
			func(p *parts) { p.denied = "ListRuleNamesByTarget" }, doctor.NotPlayed, "schedule", "AccessDenied",
		},

		"a filter": {
			func(p *parts) { p.records.Filter = `{"data": {"paid": [true]}}` }, doctor.Warning, "mapping", "Lambda drops records that do not match",
		},
		"no end of the retries": {
			func(p *parts) { p.records.RecordAge = -1 }, doctor.Failure, "mapping", "has no limit of the record age",
		},
		"a record age of the retention": {
			func(p *parts) { p.records.Retention, p.records.RecordAge = 24, 86400 }, doctor.Failure, "mapping",
			"is 24h, and the record age of the mapping is 24h: the stream deletes a failing record before",
		},
		"a record age just below it": {func(p *parts) { p.records.Retention, p.records.RecordAge = 24, 86399 }, "", "", ""},
		"a retention above the horizon": {
			func(p *parts) { p.records.Retention = 337 }, doctor.Failure, "mapping",
			"is 337h, and the horizon of the function is 336h",
		},
		"a retention of the horizon": {func(p *parts) { p.records.Retention = 336 }, "", "", ""},
		"records that wait for long": {
			func(p *parts) {
				p.records.Retention, p.records.RecordAge = 24, 43200
				p.records.Metrics = map[string]float64{"IteratorAge": 12*3600*1000 + 1000}
			}, doctor.Failure, "mapping", "was 12h0m1s old in the last 15 minutes, and the source deletes it after 24h",
		},
		"records that wait for less": {
			func(p *parts) {
				p.records.Retention, p.records.RecordAge = 24, 43200
				p.records.Metrics = map[string]float64{"IteratorAge": 12 * 3600 * 1000}
			}, "", "", "",
		},

		"a table's stream": {func(p *parts) { p.setTable(86399, "/stream/1", true) }, "", "", ""},
		"a record age of its retention": {
			func(p *parts) { p.setTable(86400, "/stream/1", true) }, doctor.Failure, "mapping", "is 24h, and the record age",
		},
		"a table's stream that is off": {
			func(p *parts) { p.setTable(86399, "/stream/1", false) }, doctor.Failure, "mapping", "is off: the function gets no more changes",
		},
		"a table's former stream": {
			func(p *parts) { p.setTable(86399, "/stream/2", true) }, doctor.Failure, "mapping", "is " + table + "/stream/2 now, and",
		},
		"a table without changes": {
			func(p *parts) {
				p.setTable(86399, "/stream/1", true)
				p.records.Metrics = map[string]float64{"Invocations": -1}
			}, doctor.NotPlayed, "records", "had no invocations that succeeded",
		},
		"a function that always fails": {
			func(p *parts) {
				p.setTable(86399, "/stream/1", true)
				p.records.Metrics = map[string]float64{"Invocations": 8, "Errors": 8}
			}, doctor.NotPlayed, "records", "had no invocations that succeeded",
		},
		"a function that gives all records back": {
			func(p *parts) {
				p.setTable(86399, "/stream/1", true)
				p.records.Env["ONCEBOX_METRICS"] = "on"
				p.records.Metrics = map[string]float64{"RecordsFailed": 8}
			}, doctor.NotPlayed, "records", "had no records that were processed",
		},
		"a retention that is not read": {
			func(p *parts) { p.denied = "DescribeStreamSummary" }, doctor.NotPlayed, "mapping", "AccessDenied",
		},
		"no destination": {func(p *parts) { p.records.GivenUp = "none" }, doctor.Failure, "mapping", "has no on-failure destination"},
		"a destination that gets no records": {
			func(p *parts) { p.records.GivenUp = "arn:aws:sqs:us-east-1:123456789012:letters" }, doctor.Failure, "mapping",
			"which gets no records",
		},
		"enhanced fan-out": {
			func(p *parts) { p.records.Stream = stream + "/consumer/fast:1" }, doctor.Failure, "mapping", "has enhanced fan-out",
		},
		"a mapping that changes": {func(p *parts) { p.records.State = "Updating" }, doctor.Warning, "mapping", "is Updating"},
		"a policy that is not read": {
			func(p *parts) { p.records.Stream, p.denied = "", "functions/records/policy" }, doctor.NotPlayed, "mapping", "AccessDenied",
		},
		"no mapping":                {func(p *parts) { p.records.Stream = "" }, doctor.Failure, "mapping", "no event source mapping invokes"},
		"a queue":                   {func(p *parts) { p.setQueue("") }, "", "", ""},
		"a queue that is not found": {func(p *parts) { p.setQueue(""); p.records.Queue = map[string]string{} }, doctor.NotPlayed, "mapping", "QueueDoesNotExist"},
		"a queue that is not read":  {func(p *parts) { p.setQueue(""); p.denied = "GetQueueAttributes" }, doctor.NotPlayed, "mapping", "AccessDenied"},
		"a visibility timeout that is short": {
			func(p *parts) { p.setQueue("VisibilityTimeout=359") }, doctor.Warning, "mapping", "is 5m59s; six times the timeout of the " +
				"function and the batching window are 6m0s",
		},
		"a batching window that is not in it": {
			func(p *parts) { p.setQueue(""); p.records.Window = 1 }, doctor.Warning, "mapping", "are 6m1s",
		},
		"a visibility timeout of the function's": {func(p *parts) { p.setQueue("VisibilityTimeout=60") }, doctor.Warning, "mapping", "is 1m0s"},
		"a visibility timeout below it": {
			func(p *parts) { p.setQueue("VisibilityTimeout=59") }, doctor.Failure, "mapping", "comes again while the function still has it",
		},
		"no dead-letter queue": {func(p *parts) { p.setQueue("RedrivePolicy=") }, doctor.Failure, "mapping", "there is none"},
		"four receives": {
			func(p *parts) {
				p.setQueue(`RedrivePolicy={"deadLetterTargetArn":"` + queue + `-letters","maxReceiveCount":"4"}`)
			},
			doctor.Warning, "mapping", "gets a message after 4 receives",
		},
		"five receives": {
			func(p *parts) {
				p.setQueue(`RedrivePolicy={"deadLetterTargetArn":"` + queue + `-letters","maxReceiveCount":5}`)
			}, "", "", "",
		},
		"a dead-letter queue that was deleted": {
			func(p *parts) { p.setQueue(""); p.records.Letters = map[string]string{} }, doctor.Failure, "mapping", "orders-letters does not exist",
		},
		"a dead-letter queue of another account": {
			func(p *parts) {
				p.setQueue(`RedrivePolicy={"deadLetterTargetArn":"arn:aws:sqs:us-east-1:210987654321:orders-letters","maxReceiveCount":5}`)
				p.records.Letters = map[string]string{}
			}, doctor.NotPlayed, "mapping", "QueueDoesNotExist",
		},
		"a dead-letter queue with messages": {
			func(p *parts) {
				p.setQueue("")
				p.records.Letters = map[string]string{"ApproximateNumberOfMessages": "1"}
			},
			doctor.Warning, "mapping", "has messages that were not processed, about 1",
		},
		"a dead-letter queue that forgets": {
			func(p *parts) {
				p.setQueue("")
				p.records.Letters = map[string]string{"MessageRetentionPeriod": "345600"}
			},
			doctor.Warning, "mapping", "keeps messages for 96h, and the queue for 96h",
		},
		"a FIFO queue with a dead-letter queue of its retention": {
			func(p *parts) {
				p.setQueue("")
				p.records.Stream = queue + ".fifo"
				p.records.Letters = map[string]string{"MessageRetentionPeriod": "345600"}
			}, "", "", "",
		},
		"messages that others delete": {
			func(p *parts) {
				p.setQueue("")
				p.records.Env["ONCEBOX_METRICS"] = "on"
				p.records.Metrics = map[string]float64{"RecordsIn": -1, "RecordsFailed": -1}
			}, doctor.NotPlayed, "records", "the function had no records that were processed",
		},
		"messages in a queue whose metrics are elsewhere": {
			func(p *parts) {
				p.setQueue("")
				p.records.Env["ONCEBOX_METRICS"] = "on"
				p.records.Metrics = map[string]float64{"ApproximateAgeOfOldestMessage": -1, "NumberOfMessagesDeleted": -1}
			}, "", "", "",
		},
		"retentions above the horizon": {
			func(p *parts) { p.setQueue("MessageRetentionPeriod=345601") }, doctor.Failure, "mapping",
			"is 336h0m1s with that of its dead-letter queue, and the horizon",
		},
		"messages that wait for long": {
			func(p *parts) {
				p.setQueue("")
				p.records.Metrics = map[string]float64{"ApproximateAgeOfOldestMessage": 48*3600 + 1}
			}, doctor.Failure, "mapping", "was 48h0m1s old",
		},
		"a queue without messages": {
			func(p *parts) {
				p.setQueue("")
				p.records.Metrics = map[string]float64{"ApproximateAgeOfOldestMessage": -1, "NumberOfMessagesDeleted": -1}
			}, doctor.NotPlayed, "records", "orders had no messages that were processed",
		},
		"metrics that are not read": {
			func(p *parts) { p.denied = "GetMetricStatistics" }, doctor.NotPlayed, "mapping", "403",
		},

		"a subscription of logs": {func(p *parts) { p.setLogs("audit") }, "", "", ""},
		"a subscription with a pattern": {
			func(p *parts) { p.setLogs("audit"); p.records.Pattern = "ERROR" }, "", "", "",
		},
		"no subscription": {
			func(p *parts) { p.setLogs("audit"); p.records.Unsubscribed = true }, doctor.Failure, "mapping",
			"no subscription filter sends log events to " + prefix + "records:live",
		},
		"a subscription of the function itself": {
			func(p *parts) { p.setLogs("audit"); p.records.Calls = prefix + "records" }, doctor.Failure, "mapping",
			"invokes the function itself and not",
		},
		"a log group that was deleted": {func(p *parts) { p.setLogs(lambdatest.NoLogGroup) }, doctor.Failure, "mapping", "the log group does not exist"},
		"any log group":                {func(p *parts) { p.setLogs("*") }, doctor.NotPlayed, "mapping", "names no single log group"},
		"subscriptions that are not read": {
			func(p *parts) { p.setLogs("audit"); p.denied = "DescribeSubscriptionFilters" }, doctor.NotPlayed, "mapping", "AccessDenied",
		},
		"the log of the function": {
			func(p *parts) { p.setLogs("/aws/lambda/records") }, doctor.Failure, "mapping", "is the log of the function itself",
		},
		"a log group without events": {
			func(p *parts) { p.setLogs("audit"); p.records.Metrics = map[string]float64{"Invocations": -1} }, doctor.NotPlayed, "records",
			"had no invocations that succeeded",
		},
		"messages that are lost": {
			func(p *parts) { p.setLogs("audit"); p.records.Async = map[string]any{} }, doctor.Failure, "mapping",
			"have no on-failure destination, and are lost",
		},
		"messages of a function with a dead-letter queue": {
			func(p *parts) {
				p.setLogs("audit")
				p.records.Async, p.records.DeadLetters = map[string]any{}, queue
			}, doctor.Warning, "mapping", "go to " + queue,
		},
		"messages that go elsewhere": {
			func(p *parts) {
				p.setLogs("audit")
				p.records.Async = map[string]any{"DestinationConfig": map[string]any{"OnFailure": map[string]string{"Destination": queue}}}
			}, doctor.Warning, "mapping", "go to " + queue,
		},
		"messages with one retry": {
			func(p *parts) {
				p.setLogs("audit")
				p.records.Async = map[string]any{"MaximumRetryAttempts": 1}
			},
			doctor.Warning, "mapping", "after 1 retries or 6h",
		},
		"messages that Lambda keeps for an hour": {
			func(p *parts) {
				p.setLogs("audit")
				p.records.Async = map[string]any{"MaximumEventAgeInSeconds": 3600}
			},
			doctor.Warning, "mapping", "after 2 retries or 1h",
		},
		"async settings that are not read": {
			func(p *parts) { p.setLogs("audit"); p.denied = "event-invoke-config" }, doctor.NotPlayed, "mapping", "AccessDenied",
		},

		"entries one by one": {
			func(p *parts) { p.records.Said = "a line" }, doctor.Warning, "ledger", "entries are put one by one, because a policy lacks",
		},
		"a log that is not read": {func(p *parts) { p.denied = "FilterLogEvents" }, doctor.NotPlayed, "ledger", "AccessDenied"},
		"a log that is too long": {func(p *parts) { p.records.Long = true }, "", "", ""},
		"a log without warnings": {
			func(p *parts) { p.records.Env["ONCEBOX_LOG_LEVEL"], p.denied = "error", "FilterLogEvents" }, "", "", "",
		},
		"a ledger without statements": {
			func(p *parts) { p.records.Env["ONCEBOX_LEDGER"], p.denied = "log?lanes=2", "FilterLogEvents" }, "", "", "",
		},
		"entries in transactions": {
			func(p *parts) { p.records.Env["ONCEBOX_SINK"], p.denied = "dynamodb:items?key=id", "FilterLogEvents" }, "", "", "",
		},
		"a mapping that is off": {func(p *parts) { p.records.State = "Disabled" }, doctor.Failure, "mapping", "is Disabled"},

		"an alarm": {
			func(p *parts) { p.claims.Alarm = "ALARM" }, doctor.Warning, "alarms", "is in ALARM since 20",
		},
		"an alarm without data": {
			func(p *parts) { p.claims.Alarm, p.claims.Age = "INSUFFICIENT_DATA", 2*time.Hour }, doctor.Warning, "alarms",
			"has had no data since 20",
		},
		"a new alarm": {func(p *parts) { p.claims.Alarm = "INSUFFICIENT_DATA" }, "", "", ""},
		"an alarm without an action": {
			func(p *parts) { p.claims.Silent = true }, doctor.Warning, "alarms", "no action that is on, and tell nobody: alarm-claims",
		},
		"no action": {
			func(p *parts) { p.claims.Silent, p.sweep.Silent, p.records.Silent = true, true, true }, doctor.Warning, "alarms",
			"none of the 3 alarms has an action",
		},
		"a deleted alarm": {func(p *parts) { p.sweep.Deleted = true }, doctor.Failure, "alarms", "were deleted: alarm-sweep"},
		"no alarm": {
			func(p *parts) { p.claims.Alarm, p.sweep.Alarm, p.records.Alarm = "", "", "" }, doctor.Warning, "alarms", "the stack has none",
		},
		"alarms that are not read": {func(p *parts) { p.denied = "DescribeAlarms" }, doctor.NotPlayed, "alarms", "403"},

		"a stopped function": {
			func(p *parts) { p.sweep.Reserved = new(0) }, doctor.Failure, "capacity", "0, reserved: an operator",
		},
		"a small reservation": {
			func(p *parts) { p.claims.Reserved = new(99) }, doctor.Warning, "capacity",
			"99, reserved; the claim function may need 100 (1000 requests a second of 100ms)",
		},
		"a reservation that is enough": {func(p *parts) { p.claims.Reserved = new(100) }, "", "", ""},
		"a reservation that is not read": {
			func(p *parts) { p.denied = "/functions/claims/concurrency" }, doctor.NotPlayed, "capacity", "AccessDenied",
		},
		"an account that is not read": {
			func(p *parts) { p.denied = "/account-settings" }, doctor.NotPlayed, "capacity", "AccessDenied",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			functions := shop()
			p := parts{claims: functions["claims"], sweep: functions["sweep"], records: functions["records"]}
			c.change(&p)
			account, found := deploy(t, functions, p.gateway)
			var told []doctor.Check
			for _, check := range checkAll(t, account, found) {
				if check.Status != doctor.OK && check.Status != doctor.Info {
					told = append(told, check)
				}
			}
			if c.status == "" && len(told) == 0 {
				return
			}
			right := func(check doctor.Check) bool {
				return check.Status == c.status && check.Area == c.area && strings.Contains(check.Detail, c.text)
			}
			if !slices.ContainsFunc(told, right) || slices.ContainsFunc(told, func(check doctor.Check) bool {
				return check.Area != c.area || check.Status != c.status
			}) {
				t.Errorf("got %s", list(told))
			}
			for _, check := range told {
				if check.Do == "" && check.Status != doctor.NotPlayed {
					t.Errorf("nothing to do: %+v", check)
				}
			}
		})
	}
}

// TestLoadOfAnUnknownStream: doctor does not say that it knows the batches of a stream that it cannot read.
func TestLoadOfAnUnknownStream(t *testing.T) {
	t.Parallel()
	for denied, want := range map[string]doctor.Load{
		"":                      {AtOnce: lambdatest.Shards, Why: "batches of all shards"},
		"DescribeStreamSummary": {AtOnce: 1, Why: "at least: doctor does not know how many batches a source gives at once"},
	} {
		account, found := deploy(t, map[string]*lambdatest.Function{"records": shop()["records"]}, gateway{denied: denied})
		if _, load := account.CheckMapping(t.Context(), found["records"]); load.AtOnce != want.AtOnce || load.Why != want.Why {
			t.Errorf("want %+v, got %+v", want, load)
		}
	}
	if why := doctor.LoadOf(doctor.Function{}, 50, 0, true).Why; !strings.Contains(why, "not measured") {
		t.Errorf("a duration that nobody has measured: %q", why)
	}
}

func list(checks []doctor.Check) (text string) {
	for _, c := range checks {
		text += fmt.Sprintf("\n%s %s %s: %s", c.Status, c.Area, c.Name, c.Detail)
	}
	return text
}

// TestExpectedSale compares the limits of an account with sales, at and just above each limit.
func TestExpectedSale(t *testing.T) {
	t.Parallel()
	const onDemand = `"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}`
	for name, c := range map[string]struct {
		rate  int
		table string                   // the description of both tables
		names map[string]doctor.Status // of what is not OK, by a part of the name
		burst int                      // of the route of claims; 0: the limit of the stage
	}{
		"a small one":                         {1000, onDemand, nil, 0},
		"more at once than the route's limit": {1000, onDemand, map[string]doctor.Status{"rate limit of the claim": doctor.Warning}, 999},
		"more than the API's limit, and at once than the account's": {1001, onDemand, map[string]doctor.Status{
			"rate limit of the claim": doctor.Failure, "rate limit of all": doctor.Warning,
		}, 0},
		"more than the concurrency": {1601, onDemand, map[string]doctor.Status{
			"rate limit of the claim": doctor.Failure, "rate limit of all": doctor.Warning,
			"concurrency of the account": doctor.Failure, // 0.25 s each, and 400 at once
		}, 0},
		"more than the account's limit": {lambdatest.Rate + 1, onDemand, map[string]doctor.Status{
			"rate limit of the claim": doctor.Failure, "rate limit of all": doctor.Failure, "concurrency of the account": doctor.Failure,
		}, 0},
		"more than half of the quota of a table": {lambdatest.WriteQuota/4 + 1, onDemand, map[string]doctor.Status{
			"rate limit of the claim": doctor.Failure, "rate limit of all": doctor.Failure, "concurrency of the account": doctor.Failure,
			"start of the claim": doctor.Warning, "write quota": doctor.Warning,
		}, 0},
		"more than the quota of a table": {lambdatest.WriteQuota/2 + 1, onDemand, map[string]doctor.Status{
			"rate limit of the claim": doctor.Failure, "rate limit of all": doctor.Failure, "concurrency of the account": doctor.Failure,
			"start of the claim": doctor.Warning, "write quota": doctor.Failure,
		}, 0},
		"more than the provisioned capacity": {
			1000, `"ProvisionedThroughput": {"WriteCapacityUnits": 1999}`, map[string]doctor.Status{"provisioned": doctor.Failure}, 0,
		},
		"a maximum of the table": {
			1000, onDemand + `, "OnDemandThroughput": {"MaxWriteRequestUnits": 1999}`,
			map[string]doctor.Status{"maximum of write": doctor.Failure}, 0,
		},
		"no maximum of the table": {1000, onDemand + `, "OnDemandThroughput": {"MaxWriteRequestUnits": -1}`, nil, 0},
		"cold tables": {
			1000, onDemand + `, "WarmThroughput": {"WriteUnitsPerSecond": 1999}`, map[string]doctor.Status{"warm": doctor.Failure}, 0,
		},
		"warm tables": {
			1000, onDemand + `, "WarmThroughput": {"WriteUnitsPerSecond": 3999}`, map[string]doctor.Status{"warm": doctor.Warning}, 0,
		},
		"tables with room": {1000, onDemand + `, "WarmThroughput": {"WriteUnitsPerSecond": 4000}`, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			functions := map[string]*lambdatest.Function{"claims": shop()["claims"]}
			functions["claims"].Burst = c.burst
			account, found := deploy(t, functions, gateway{table: c.table})
			f := found["claims"]
			throttle, known := account.CheckAPI(t.Context(), f)
			account.CheckThrottles(t.Context(), f, throttle, known, c.rate)
			account.CheckCapacity(t.Context(), f, c.rate)
			account.CheckConcurrency(t.Context(), []doctor.Load{
				doctor.LoadOf(f, float64(c.rate), account.MeanDuration(t.Context(), f), true),
			})
			seen := map[string]bool{}
			for _, check := range account.Report.Checks {
				want := doctor.OK
				for part, status := range c.names {
					if strings.Contains(check.Name, part) {
						want, seen[part] = status, true
					}
				}
				if check.Status != want && check.Status != doctor.Info {
					t.Errorf("want %s, got %+v", want, check)
				}
			}
			if len(seen) != len(c.names) {
				t.Errorf("want %v, got %s", c.names, list(account.Report.Checks))
			}
		})
	}
}
