package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// CheckMapping checks how Lambda gives records to the dedupe function. It returns the event source mappings, for
// [RecordsPlay], and the load of the function: the batches that Lambda gives to it at once.
func (c Account) CheckMapping(ctx context.Context, f Function) (all []types.EventSourceMappingConfiguration, load Load) {
	a := c.Report.Area("mapping")
	all, err := Mappings(ctx, c.Lambda, f)
	switch {
	case err != nil:
		a.NotRead(f.Name, c.Explain(err))
	case len(all) == 0:
		c.checkSubscriptions(ctx, a, f)
	}
	load = Load{Function: f, Why: "batches of all shards"}
	known := len(all) > 0
	for _, m := range all {
		a.checkMapping(m, f)
		if isQueue(aws.ToString(m.EventSourceArn)) {
			c.checkQueue(ctx, a, m, f)
		}
		retention, shards := c.readSource(ctx, a, m, f)
		if retention > 0 {
			a.checkRetention(m, f, retention)
			c.checkAge(ctx, a, aws.ToString(m.EventSourceArn), f.metric("IteratorAge"), time.Millisecond, retention,
				"docs/operations.md, iterator-age.")
		}
		known = known && shards > 0
		load.AtOnce += max(1, shards) * max(1, aws.ToInt32(m.ParallelizationFactor))
	}
	if !known {
		load.AtOnce = max(1, load.AtOnce)
		load.Why = "at least: doctor does not know how many batches a source gives at once"
	}
	return all, load
}

func (a Area) checkMapping(m types.EventSourceMappingConfiguration, f Function) {
	source, state := aws.ToString(m.EventSourceArn), aws.ToString(m.State)
	result := cmp.Or(aws.ToString(m.LastProcessingResult), "not known yet")
	switch {
	case slices.Contains([]string{"Creating", "Enabling", "Updating"}, state):
		a.Warn(source, "is "+state, "Run doctor again when the deployment has ended.")
	case state != "Enabled":
		a.Fail(source, "is "+state, "docs/operations.md, stream-not-read.")
	case !slices.Contains(m.FunctionResponseTypes, types.FunctionResponseTypeReportBatchItemFailures):
		a.Fail(source, "does not report partial failures: records that failed would be lost",
			"Set FunctionResponseTypes to ReportBatchItemFailures.")
	case onFailure(m) == "":
		a.Fail(source, "has no on-failure destination: batches that Lambda gives up would be lost", setDestination)
	case !isQueue(source) && !strings.Contains(onFailure(m), ":s3:::"):
		a.Fail(source, "has the on-failure destination "+onFailure(m)+", which gets no records: those of batches that Lambda "+
			"gives up would be lost when the stream deletes them", setDestination)
	case !isQueue(source) && recordAge(m) == 0:
		a.Fail(source, "has no limit of the record age: Lambda tries throttled batches until the stream deletes their records, "+
			"which are lost", setRecordAge)
	case strings.Contains(source, "/consumer/") && f.Env["ONCEBOX_SOURCE_AGGREGATION"] != "off":
		a.Fail(source, "has enhanced fan-out: Lambda opens KPL aggregates itself, and drops records of them",
			"Give the mapping the stream, or set records.source-aggregation to off if no producer makes aggregates.")
	case strings.HasPrefix(result, "PROBLEM"):
		a.Fail(source, "the last result is "+result, "Compare the policy of the function's role with docs/iam.md.")
	case m.FilterCriteriaError != nil || m.FilterCriteria != nil && len(m.FilterCriteria.Filters) > 0:
		a.Warn(source, "has a filter: Lambda drops records that do not match it, and stores them nowhere",
			"Unless the filter is meant, remove it: docs/operations.md, \"What Lambda itself drops\".")
	default:
		a.OK(source, "enabled; the last result is "+result)
	}
}

// setDestination is the advice for a mapping whose failed batches are lost. Of all destinations only a bucket gets the
// records (Lambda Developer Guide, "Retain discarded batch records for a Kinesis Data Streams event source").
const setDestination = "Set DestinationConfig to the dead-letter bucket, as the stack does."

const setRecordAge = "Set MaximumRecordAgeInSeconds (records.record-age) below the retention; the stack sets 80 % of it."

// recordAge returns the age at which Lambda gives a record up, or 0 if it never does so because of the age. For Lambda,
// -1 is no limit, and the default (API reference, "CreateEventSourceMapping").
func recordAge(m types.EventSourceMappingConfiguration) time.Duration {
	return max(0, time.Duration(aws.ToInt32(m.MaximumRecordAgeInSeconds))*time.Second)
}

func isQueue(source string) bool { return strings.Contains(source, ":sqs:") }

// onFailure returns the ARN of the destination of batches that Lambda gives up. A mapping of a queue needs none: the
// queue has its own dead-letter queue.
func onFailure(m types.EventSourceMappingConfiguration) string {
	source := aws.ToString(m.EventSourceArn)
	if isQueue(source) {
		return source
	}
	if m.DestinationConfig == nil || m.DestinationConfig.OnFailure == nil {
		return ""
	}
	return aws.ToString(m.DestinationConfig.OnFailure.Destination)
}

// tableRetention is the retention of the stream of a table (DynamoDB Developer Guide, "Change data capture for DynamoDB
// Streams").
const tableRetention = 24 * time.Hour

// readSource returns the retention and the shards of the stream that a mapping reads. They are 0 for queues, and if
// they cannot be read. The stream of a table does not tell its shards here.
func (c Account) readSource(
	ctx context.Context, a Area, m types.EventSourceMappingConfiguration, f Function,
) (retention time.Duration, shards int32) {
	source, _, _ := strings.Cut(aws.ToString(m.EventSourceArn), "/consumer/")
	switch {
	case strings.Contains(source, ":dynamodb:"):
		c.checkTableStream(ctx, a, source, f)
		return tableRetention, 0
	case !strings.Contains(source, ":kinesis:"):
		return 0, 0
	}
	out, err := c.Kinesis.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamARN: &source})
	if err != nil {
		a.NotRead("retention of "+source, c.Explain(err))
		return 0, 0
	}
	summary := out.StreamDescriptionSummary
	return time.Duration(aws.ToInt32(summary.RetentionPeriodHours)) * time.Hour, aws.ToInt32(summary.OpenShardCount)
}

// checkTableStream checks that a table still writes the stream that a mapping reads. A stream that was turned off and on
// again is another one.
func (c Account) checkTableStream(ctx context.Context, a Area, source string, f Function) {
	table, _, _ := strings.Cut(source, "/stream/")
	name := "stream of " + table[strings.LastIndexByte(table, '/')+1:]
	out, err := c.Tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		a.NotRead(name, c.Explain(err))
		return
	}
	stream := out.Table.StreamSpecification
	const do = "Turn the stream on, and deploy the stack again with its new ARN."
	switch latest := aws.ToString(out.Table.LatestStreamArn); {
	case stream == nil || !aws.ToBool(stream.StreamEnabled):
		a.Fail(name, "is off: the function gets no more changes", do)
	case latest != source:
		a.Fail(name, "is "+latest+" now, and the mapping reads "+source+": the function gets no more changes", do)
	default:
		a.OK(name, "on, with "+string(stream.StreamViewType))
	}
	c.checkInvocations(ctx, f)
}

// HasStream reports whether one of the mappings reads a Kinesis stream, into which PlayRecords can put records.
func HasStream(mappings []types.EventSourceMappingConfiguration) bool {
	return slices.ContainsFunc(mappings, func(m types.EventSourceMappingConfiguration) bool {
		return strings.Contains(aws.ToString(m.EventSourceArn), ":kinesis:")
	})
}

// checkRetention compares the retention of a stream with the age at which Lambda gives records up, and with the horizon
// of the function. Lambda must give a record up before the stream deletes it. The ledger must keep an entry for as long as
// the stream can deliver its record again.
func (a Area) checkRetention(m types.EventSourceMappingConfiguration, f Function, retention time.Duration) {
	name, age := "retention of "+aws.ToString(m.EventSourceArn), recordAge(m)
	good := age > 0 // else checkMapping reports it
	if age >= retention {
		a.Fail(name, fmt.Sprintf("is %s, and the record age of the mapping is %s: the stream deletes a failing record before "+
			"Lambda stores it in the dead-letter bucket, and it is lost", inHours(retention), inHours(age)), setRecordAge)
		good = false
	}
	if horizon := f.records().Retention.Horizon; horizon < retention {
		a.Fail(name, fmt.Sprintf("is %s, and the horizon of the function is %s: a record that is read later than that is delivered "+
			"again, since its entry may be gone", inHours(retention), inHours(horizon)),
			"Set records.horizon to the retention at least: docs/operations.md, records-past-horizon.")
		good = false
	}
	if good {
		a.OK(name, fmt.Sprintf("%s: above the record age of the mapping, and at most the horizon", inHours(retention)))
	}
}

// inHours writes a duration as its whole hours, if it has no others, and as Go writes it otherwise.
func inHours(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}
