package infra

import (
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// AlarmProps are the settings of alarms.
type AlarmProps struct {
	// Topic gets a message when an alarm goes off and when it is over. Without one
	// the alarms only show in CloudWatch.
	Topic awssns.ITopic
}

// runbook is where each alarm has a section, named as the alarm.
const runbook = "https://github.com/oncebox/oncebox/blob/main/docs/operations.md#"

// alarm says when somebody has to look: at the first period of five minutes in which
// the metric reaches the threshold. No data is good news, since almost all of these
// count what goes wrong, or what waits.
type alarm struct {
	id        string // of the construct
	section   string // of the runbook
	means     string
	metric    awscloudwatch.IMetric
	threshold float64
	// silence is how many periods without data set the alarm off; 0: no number.
	silence int
}

const alarmPeriod = 5 * time.Minute

func (a alarm) add(scope constructs.Construct, p AlarmProps) {
	props := &awscloudwatch.AlarmProps{
		AlarmDescription:   jsii.String(a.means + " " + runbook + a.section),
		Metric:             a.metric,
		Threshold:          jsii.Number(a.threshold),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
		EvaluationPeriods:  jsii.Number(1),
		TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
	}
	if a.silence > 0 {
		props.ComparisonOperator = awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD
		props.EvaluationPeriods = jsii.Number(a.silence)
		props.TreatMissingData = awscloudwatch.TreatMissingData_BREACHING
	}
	made := awscloudwatch.NewAlarm(scope, jsii.String(a.id), props)
	tell(made, p)
}

// topicMetadata marks an alarm with the topics that it tells.
const topicMetadata = "oncebox:topic"

// tell lets an alarm tell a topic, once.
func tell(made awscloudwatch.Alarm, p AlarmProps) {
	if p.Topic == nil {
		return
	}
	arn := *p.Topic.TopicArn()
	for _, m := range *made.Node().Metadata() {
		if *m.Type == topicMetadata && m.Data == arn {
			return
		}
	}
	made.Node().AddMetadata(jsii.String(topicMetadata), arn, nil)
	action := awscloudwatchactions.NewSnsAction(p.Topic)
	made.AddAlarmAction(action)
	made.AddOkAction(action)
}

// metric is a metric of AWS's, by its namespace, name and one dimension.
func metric(namespace, name, statistic, dimension string, value *string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(namespace), MetricName: jsii.String(name), Statistic: jsii.String(statistic),
		Period: seconds(alarmPeriod), DimensionsMap: &map[string]*string{dimension: value},
	})
}

func (c *ClaimAPI) newAlarms(p AlarmProps) {
	alarm{
		"ServerErrorsAlarm", "claim-server-errors", "The claim API answers with 5xx.",
		metric("AWS/ApiGateway", "5xx", "Sum", "ApiId", c.API.ApiId()), 1, 0,
	}.add(c.Construct, p)
	functionAlarms(c.Construct, p, c.Function, "claim")
	throttledKeys(c.Construct, p, c.BankTable)
	throttledKeys(c.Construct, p, c.DedupeTable)
}

// oldestRecord is when a stream that is not read fast enough is worth a look.
// Records are given up at 80 % of the retention, which is a day or more.
const oldestRecord = 10 * time.Minute

func (r *RecordDedupe) newAlarms(p AlarmProps) {
	function, mapping := r.Function.FunctionName(), r.Mapping.Ref()
	for _, a := range []alarm{
		{
			"IteratorAgeAlarm", "iterator-age", "Records wait in the stream.",
			metric("AWS/Lambda", "IteratorAge", "Maximum", "FunctionName", function), float64(oldestRecord.Milliseconds()), 0,
		},
		{
			// IteratorAge has no value while the function is not run. A mapping that polls
			// counts its polls, also the empty ones.
			"StreamNotReadAlarm", "stream-not-read", "Lambda does not read the stream.",
			metric("AWS/Lambda", "PolledEventCount", "SampleCount", "EventSourceMappingUUID", mapping), 1, 3,
		},
		{
			"DeadLettersAlarm", "records-kept", "Records that cannot be processed are kept in the failure bucket.",
			metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "QueueName", r.NotifyQueue.QueueName()), 1, 0,
		},
		{
			"BatchesGivenUpAlarm", "batches-given-up", "Lambda gave batches up and kept them in the failure bucket.",
			metric("AWS/Lambda", "OnFailureDestinationDeliveredEventCount", "Sum", "EventSourceMappingUUID", mapping), 1, 0,
		},
		{
			"DeliveryFailuresAlarm", "destination-delivery-failures", "Lambda cannot write to the failure bucket.",
			metric("AWS/Lambda", "DestinationDeliveryFailures", "Sum", "FunctionName", function), 1, 0,
		},
		{
			"RecordsLostAlarm", "records-lost", "Lambda gave records up and did not keep them.",
			metric("AWS/Lambda", "DroppedEventCount", "Sum", "EventSourceMappingUUID", mapping), 1, 0,
		},
	} {
		a.add(r.Construct, p)
	}
	functionAlarms(r.Construct, p, r.Function, "dedupe")
	throttledKeys(r.Construct, p, r.DedupeTable)
}

func functionAlarms(scope constructs.Construct, p AlarmProps, function awslambda.Function, job string) {
	name := function.FunctionName()
	alarm{
		"FunctionErrorsAlarm", job + "-function-errors", fmt.Sprintf("The %s function fails.", job),
		metric("AWS/Lambda", "Errors", "Sum", "FunctionName", name), 1, 0,
	}.add(scope, p)
	alarm{
		"FunctionThrottlesAlarm", job + "-function-throttles", fmt.Sprintf("The %s function is not run for want of concurrency.", job),
		metric("AWS/Lambda", "Throttles", "Sum", "FunctionName", name), 1, 0,
	}.add(scope, p)
}

// throttledKeys adds the alarm of a table to the stack, once, however many
// constructs use the table. It counts hot key ranges, and whatever else DynamoDB
// throttles (DynamoDB Developer Guide, "CloudWatch throttling metrics").
func throttledKeys(scope constructs.Construct, p AlarmProps, table awsdynamodb.ITableV2) {
	stack, id := awscdk.Stack_Of(scope), "ThrottledKeysAlarm-"+*table.Node().Addr()
	if made, ok := stack.Node().TryFindChild(jsii.String(id)).(awscloudwatch.Alarm); ok {
		tell(made, p)
		return
	}
	count := func(name string) awscloudwatch.IMetric {
		return metric("AWS/DynamoDB", name, "Sum", "TableName", table.TableName())
	}
	alarm{
		id, "throttled-keys", "DynamoDB throttles the table.",
		awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
			Expression: jsii.String("FILL(reads, 0) + FILL(writes, 0) + FILL(readKeys, 0) + FILL(writeKeys, 0)"),
			UsingMetrics: &map[string]awscloudwatch.IMetric{
				"reads": count("ReadThrottleEvents"), "readKeys": count("ReadKeyRangeThroughputThrottleEvents"),
				"writes": count("WriteThrottleEvents"), "writeKeys": count("WriteKeyRangeThroughputThrottleEvents"),
			},
			Period: seconds(alarmPeriod),
		}), 1, 0,
	}.add(stack, p)
}
