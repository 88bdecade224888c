package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The functions and variables of this file are the wanted facts. They are written by hand and not taken from a
// template, so that they also find faults of the template.

func merged(all ...facts) facts {
	merged := facts{}
	for _, f := range all {
		maps.Copy(merged, f)
	}
	return merged
}

func tableFacts(name string, protected bool, warm string) facts {
	return facts{
		name + " key":                    "pk S HASH, sk S RANGE",
		name + " billing":                "PAY_PER_REQUEST",
		name + " deletion protection":    fmt.Sprint(protected),
		name + " warm throughput":        warm,
		name + " TTL":                    "ENABLED purge_at",
		name + " point-in-time recovery": "ENABLED",
	}
}

// indexFacts are about the index of claims that end.
func indexFacts(warm string) facts {
	return facts{
		"DedupeTable index due":                 "due S HASH, ends_at N RANGE, KEYS_ONLY",
		"DedupeTable index due warm throughput": warm,
	}
}

// noWarmth is the throughput of a new on-demand table.
const noWarmth = "12000 reads, 4000 writes"

func streamFacts(name string) facts {
	return facts{
		name + " mode":       "ON_DEMAND",
		name + " retention":  "168 h",
		name + " encryption": "KMS alias/aws/kinesis",
	}
}

// onlyTLS denies every request without TLS.
const onlyTLS = `[{"Action":"%s:*","Condition":{"Bool":{"aws:SecureTransport":"false"}},"Effect":"Deny",` +
	`"Principal":{"AWS":"*"},"Resource":%s}]`

var deadLetterFacts = facts{
	"DeadLetterBucket encryption": "AES256",
	"DeadLetterBucket versioning": "Enabled",
	"DeadLetterBucket blocks": "public ACLs true, ignores them true, public policies true, " +
		"restricts to the account true",
	"DeadLetterBucket policy": fmt.Sprintf(onlyTLS, "s3",
		`["arn:aws:s3:::DeadLetterBucket","arn:aws:s3:::DeadLetterBucket/*"]`),

	"NotifyQueueUrl retention":         "1209600 s",
	"NotifyQueueUrl encryption by SQS": "true",
	"NotifyQueueUrl policy":            fmt.Sprintf(onlyTLS, "sqs", `"arn:aws:sqs:us-east-1:123456789012:NotifyQueueUrl"`),
}

// mappingFacts: 483,840 s are 80 % of the source's 168 h.
var mappingFacts = facts{
	"mapping is":              "Enabled",
	"mapping from":            "arn:aws:kinesis:us-east-1:123456789012:stream/SourceStream",
	"mapping to":              "arn:aws:lambda:us-east-1:123456789012:function:dedupe-function:live",
	"mapping gives up to":     "arn:aws:s3:::DeadLetterBucket",
	"mapping starts at":       "TRIM_HORIZON",
	"mapping batch":           "1000 records, 0 s",
	"mapping parallelization": "1",
	"mapping reports":         "[ReportBatchItemFailures]",
	"mapping bisects":         "true",
	"mapping retries":         "10000",
	"mapping record age":      "483840 s",
	"mapping counts":          "[EventCount]",
}

func functionFacts(name, architecture, size, code string, logDays int) facts {
	return facts{
		name + " runs":           "[" + architecture + "] on provided.al2023 with bootstrap",
		name + " has":            size,
		name + " code":           code,
		name + " logs to":        name + "-logs",
		name + "-logs retention": fmt.Sprintf("%d days", logDays),
	}
}

func claimEnvironment(claimantFrom string) facts {
	environment := facts{
		"claim-function ONCEBOX_BANK_TABLE":    "BankTable",
		"claim-function ONCEBOX_DEDUPE_TABLE":  "DedupeTable",
		"claim-function ONCEBOX_CLAIMANT_FROM": claimantFrom,
		"claim-function ONCEBOX_METRICS":       "on",
	}
	if claimantFrom == "body" {
		environment["claim-function ONCEBOX_CALLER"] = "iam"
	}
	return environment
}

var sweepFacts = facts{
	"sweep-function ONCEBOX_BANK_TABLE":   "BankTable",
	"sweep-function ONCEBOX_DEDUPE_TABLE": "DedupeTable",
	"sweep-function ONCEBOX_METRICS":      "on",
	"sweep-function queued":               "60 s, 0 retries",
	"schedule":                            "ENABLED rate(1 minute)",
	"schedule runs":                       "[arn:aws:lambda:us-east-1:123456789012:function:sweep-function:live], allowed",
}

var dedupeEnvironment = facts{
	"dedupe-function ONCEBOX_DEDUPE_TABLE": "DedupeTable",
	"dedupe-function ONCEBOX_ID_PATH":      "event.id",
	"dedupe-function ONCEBOX_SINK":         "kinesis:DestinationStream",
	"dedupe-function ONCEBOX_DEAD_LETTERS": "s3://DeadLetterBucket/poison/SourceStream?notify=https://sqs.us-east-1.amazonaws.com/123456789012/NotifyQueueUrl",
	"dedupe-function ONCEBOX_HORIZON":      "336h0m0s",
	"dedupe-function ONCEBOX_METRICS":      "on",
}

func apiFacts(authorization string, logDays int) facts {
	f := facts{
		"Api protocol":                               "HTTP",
		"Api stage $default":                         "deployed by itself true",
		"Api stage $default limits":                  "1000/s, 1000 at once",
		"Api stage $default logs to":                 "access-logs",
		"Api GET /campaigns/{campaign}/items limits": "100/s, 100 at once",
		"access-logs retention":                      fmt.Sprintf("%d days", logDays),
	}
	for _, route := range []string{
		"POST /campaigns/{campaign}/claims", "GET /campaigns/{campaign}/claims/{claimant+}", "GET /campaigns/{campaign}",
		"POST /campaigns/{campaign}/claims/{claimant+}", "DELETE /campaigns/{campaign}/claims/{claimant+}",
		"GET /campaigns/{campaign}/items", "GET /openapi.json",
	} {
		f["Api "+route+" asks for"] = authorization
		f["Api "+route+" leads to"] = "arn:aws:lambda:us-east-1:123456789012:function:claim-function:live by AWS_PROXY 2.0, " +
			"allowed"
	}
	return f
}

func alarmFact(metric, topic string) string {
	return fmt.Sprintf("watches %s, tells [%s], when over [%s]", metric, topic, topic)
}

func throttledKeys(table, topic string) string { return throttles("TableName="+table, topic) }

// throttledIndex is the fact of the index of claims that end.
func throttledIndex(topic string) facts {
	return facts{"alarm throttled-index DedupeTable": throttles("GlobalSecondaryIndexName=due TableName=DedupeTable", topic)}
}

func throttles(dimensions, topic string) string {
	metrics := "FILL(reads, 0) + FILL(writes, 0) + FILL(readKeys, 0) + FILL(writeKeys, 0)"
	for _, m := range [][2]string{
		{"readKeys", "ReadKeyRangeThroughputThrottleEvents"}, {"reads", "ReadThrottleEvents"},
		{"writeKeys", "WriteKeyRangeThroughputThrottleEvents"}, {"writes", "WriteThrottleEvents"},
	} {
		metrics += fmt.Sprintf("; %s is Sum of AWS/DynamoDB %s %s", m[0], m[1], dimensions)
	}
	return alarmFact(metrics, topic)
}

// shareOfRequests returns the expression of an alarm about a share of the requests to the API.
func shareOfRequests(part string) string {
	return "100 * FILL(part, 0) / IF(FILL(requests, 0) > 100, FILL(requests, 0), 100)" +
		"; part is Sum of " + part + "; requests is Sum of AWS/ApiGateway Count ApiId=Api"
}

func functionAlarms(job, topic string) facts {
	function := job + "-function"
	invocations := "; invocations is Sum of AWS/Lambda Invocations FunctionName=" + function
	return facts{
		"alarm " + function + "-errors": alarmFact(
			"100 * FILL(errors, 0) / IF(FILL(invocations, 0) > 100, FILL(invocations, 0), 100)"+
				"; errors is Sum of AWS/Lambda Errors FunctionName="+function+invocations, topic),
		"alarm " + function + "-throttles": alarmFact("100 * FILL(throttles, 0) / "+
			"IF((FILL(invocations, 0) + FILL(throttles, 0)) > 100, (FILL(invocations, 0) + FILL(throttles, 0)), 100)"+
			invocations+"; throttles is Sum of AWS/Lambda Throttles FunctionName="+function, topic),
	}
}

func claimAlarms(topic string) facts {
	return merged(functionAlarms("claim", topic), throttledIndex(topic), facts{
		"alarm claim-server-errors":        alarmFact(shareOfRequests("AWS/ApiGateway 5xx ApiId=Api"), topic),
		"alarm claim-client-errors":        alarmFact(shareOfRequests("oncebox/claim-function ClientErrors"), topic),
		"alarm claim-rate-limit":           alarmFact(shareOfRequests("oncebox/claim-function RateLimited"), topic),
		"alarm claim-latency":              alarmFact("p99 of AWS/ApiGateway Latency ApiId=Api", topic),
		"alarm throttled-keys BankTable":   throttledKeys("BankTable", topic),
		"alarm throttled-keys DedupeTable": throttledKeys("DedupeTable", topic),
	})
}

// accessLogFilters count answers of the API.
var accessLogFilters = facts{
	"ClientErrors-filter reads": `{ ($.status = "4*") && ($.status != "404") && ($.status != "409") && ` +
		`($.status != "429") } in access-logs`,
	"ClientErrors-filter makes": "1 as oncebox/claim-function ClientErrors",
	"RateLimited-filter reads":  `{ ($.status = "429") && ($.integrationStatus != "429") } in access-logs`,
	"RateLimited-filter makes":  "1 as oncebox/claim-function RateLimited",
}

func sweepAlarms(topic string) facts {
	return merged(functionAlarms("sweep", topic), facts{
		"alarm sweep-not-running": alarmFact("Sum of AWS/Lambda Invocations FunctionName=sweep-function", topic),
		"alarm bank-nearly-empty": alarmFact(
			"IF(FILL(sweeps, 0) > 0 && FILL(failed, 0) == 0, FILL(free, 1000000000000), free)"+
				"; failed is Sum of AWS/Lambda Errors FunctionName=sweep-function"+
				"; free is Minimum of oncebox/sweep-function FreeItems"+
				"; sweeps is Sum of AWS/Lambda Invocations FunctionName=sweep-function", topic),
	})
}

func filterFacts(metric, pattern, value string) facts {
	return facts{
		metric + "-filter reads": pattern + " in dedupe-function-logs",
		metric + "-filter makes": value + " as oncebox/dedupe-function " + metric,
	}
}

var horizonFilter = filterFacts("RecordsPastHorizon", "{ $.past_horizon > 0 }", "$.past_horizon")

// logFacts are the facts that the log ledger adds to the stack.
func logFacts(topic string) facts {
	sum := func(id, metric string) string { return "; " + id + " is Sum of oncebox/dedupe-function " + metric }
	return merged(
		facts{
			"dedupe-function ONCEBOX_LEDGER": "log",
			"dedupe-function ONCEBOX_WINDOW": "1h0m0s",
			"mapping batch":                  "10000 records, 5 s",

			"alarm ledger-memory": alarmFact("Maximum of oncebox/dedupe-function LedgerMemoryShare", topic),
			"alarm ledger-full":   alarmFact("Sum of oncebox/dedupe-function LedgerRefusals", topic),
			"alarm ledger-conflicts": alarmFact("IF(FILL(appends, 0) >= 900, FILL(conflicts, 0) / FILL(appends, 1), 0)"+
				sum("appends", "LedgerAppends")+sum("conflicts", "LedgerConflicts"), topic),
			"alarm lane-heat": alarmFact("units / PERIOD(units)"+sum("units", "LaneUnits"), topic),
		},
		filterFacts("LedgerMemoryShare", "{ $.ledger_memory_share > 0 }", "$.ledger_memory_share"),
		filterFacts("LedgerRefusals", `{ $.error = "*more do not fit*" }`, "1"),
		filterFacts("LedgerAppends", "{ $.ledger_appends > 0 }", "$.ledger_appends"),
		filterFacts("LedgerConflicts", "{ $.ledger_conflicts > 0 }", "$.ledger_conflicts"),
		filterFacts("LaneUnits", "{ $.ledger_lane_units > 0 }", "$.ledger_lane_units"),
	)
}

func recordAlarms(topic string) facts {
	f := functionAlarms("dedupe", topic)
	for section, metric := range map[string]string{
		"iterator-age": "Maximum of AWS/Lambda IteratorAge FunctionName=dedupe-function",
		"stream-not-read": "IF(FILL(records, 0) > 0 && FILL(polls, 0) == 0, 1, 0)" +
			"; polls is SampleCount of AWS/Lambda PolledEventCount EventSourceMappingUUID=mapping" +
			"; records is Sum of AWS/Kinesis IncomingRecords StreamName=SourceStream",
		"dead-letters": "FILL(stored, 0) + FILL(waiting, 0); stored is Sum of oncebox/dedupe-function DeadLetters" +
			"; waiting is Maximum of AWS/SQS ApproximateNumberOfMessagesVisible QueueName=NotifyQueueUrl",
		"batches-given-up": "Sum of AWS/Lambda OnFailureDestinationDeliveredEventCount " +
			"EventSourceMappingUUID=mapping",
		"records-lost":                  "Sum of AWS/Lambda DroppedEventCount EventSourceMappingUUID=mapping",
		"destination-delivery-failures": "Sum of AWS/Lambda DestinationDeliveryFailures FunctionName=dedupe-function",
		"records-past-horizon":          "Sum of oncebox/dedupe-function RecordsPastHorizon",

		"throttled-stream SourceStream":      throttledStream("SourceStream"),
		"throttled-stream DestinationStream": throttledStream("DestinationStream"),
	} {
		f["alarm "+section] = alarmFact(metric, topic)
	}
	return f
}

func throttledStream(name string) string {
	return "FILL(reads, 0) + FILL(writes, 0)" +
		"; reads is Sum of AWS/Kinesis ReadProvisionedThroughputExceeded StreamName=" + name +
		"; writes is Sum of AWS/Kinesis WriteProvisionedThroughputExceeded StreamName=" + name
}

// afterDestroy returns the facts of a destroyed stack: the resources that stay have the same facts as before, all
// others are gone. The first word of a fact's name is the resource.
func (f facts) afterDestroy(staying ...string) facts {
	left := facts{}
	for name, value := range f {
		resource, _, _ := strings.Cut(name, " ")
		switch {
		case strings.HasPrefix(name, "alarm "):
			left[name] = gone
		case slices.Contains(staying, resource):
			left[name] = value
		default:
			left[resource] = gone
		}
	}
	return left
}
