package infra

import (
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// AlarmProps are the settings of alarms.
type AlarmProps struct {
	// Topic gets a message when an alarm goes off and another when it is over. Without a topic, alarms only show in
	// CloudWatch.
	Topic awssns.ITopic
}

// runbook has a section for each alarm.
const runbook = "https://github.com/oncebox/oncebox/blob/main/docs/operations.md#"

// An alarm goes off in the first period of five minutes in which its metric reaches the threshold. Missing data is
// good: these metrics count failures or things that wait.
type alarm struct {
	id        string // of the construct
	section   string // of the runbook
	means     string // begins the description
	metric    awscloudwatch.IMetric
	threshold float64
	// silentPeriods inverts the alarm if it is above 0: it goes off after so many periods in a row in which the metric
	// is below the threshold or missing.
	silentPeriods int
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
	if a.silentPeriods > 0 {
		props.ComparisonOperator = awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD
		props.EvaluationPeriods = jsii.Number(a.silentPeriods)
		props.TreatMissingData = awscloudwatch.TreatMissingData_BREACHING
	}
	addTopic(awscloudwatch.NewAlarm(scope, jsii.String(a.id), props), p)
}

// topicMetadata marks an alarm with the topics that get its messages.
const topicMetadata = "oncebox:topic"

// addTopic lets a topic get the messages of an alarm. It changes nothing if the topic gets them already.
func addTopic(made awscloudwatch.Alarm, p AlarmProps) {
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

// metric is a metric of AWS over an alarm's period, by namespace, name, statistic and one dimension.
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

// oldestRecord is the age of unread records at which the iterator-age alarm goes off. Lambda gives records up much
// later: at 80 % of the retention, which is at least a day.
const oldestRecord = 10 * time.Minute

func (r *RecordDedupe) newAlarms(p AlarmProps, hasLog bool) {
	function, mapping := r.Function.FunctionName(), r.Mapping.Ref()
	alarms := []alarm{
		{
			"IteratorAgeAlarm", "iterator-age", "Records wait in the stream.",
			metric("AWS/Lambda", "IteratorAge", "Maximum", "FunctionName", function), float64(oldestRecord.Milliseconds()), 0,
		},
		{
			// IteratorAge has no value while the function does not run. A mapping that polls counts every poll, also
			// one without records.
			"StreamNotReadAlarm", "stream-not-read", "Lambda does not read the stream.",
			metric("AWS/Lambda", "PolledEventCount", "SampleCount", "EventSourceMappingUUID", mapping), 1, 3,
		},
		{
			"DeadLettersAlarm", "dead-letters", "The function stored records in the dead-letter bucket.",
			metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "QueueName", r.NotifyQueue.QueueName()), 1, 0,
		},
		{
			"BatchesGivenUpAlarm", "batches-given-up", "Lambda gave up batches and stored them in the dead-letter bucket.",
			metric("AWS/Lambda", "OnFailureDestinationDeliveredEventCount", "Sum", "EventSourceMappingUUID", mapping), 1, 0,
		},
		{
			"DeliveryFailuresAlarm", "destination-delivery-failures", "Lambda cannot write to the dead-letter bucket.",
			metric("AWS/Lambda", "DestinationDeliveryFailures", "Sum", "FunctionName", function), 1, 0,
		},
		{
			"RecordsLostAlarm", "records-lost", "Lambda gave up records and did not store them.",
			metric("AWS/Lambda", "DroppedEventCount", "Sum", "EventSourceMappingUUID", mapping), 1, 0,
		},
		{
			"PastHorizonAlarm", "records-past-horizon",
			"Records were older than the horizon, which must be at least the stream's retention.", r.pastHorizon(), 1, 0,
		},
	}
	if hasLog {
		alarms = append(alarms, r.logAlarms()...)
	}
	for _, a := range alarms {
		a.add(r.Construct, p)
	}
	functionAlarms(r.Construct, p, r.Function, "dedupe")
	throttledKeys(r.Construct, p, r.DedupeTable)
}

// pastHorizon counts the records of the function's log lines that were older than the horizon. No metric of AWS can
// tell: the retention of a stream can be raised after the deployment.
func (r *RecordDedupe) pastHorizon() awscloudwatch.IMetric {
	return r.counted("PastHorizon", "RecordsPastHorizon", "$.past_horizon").Metric(over("Sum"))
}

// counted makes a metric of a member of the function's log lines, where it is above 0.
func (r *RecordDedupe) counted(id, name, member string) awslogs.MetricFilter {
	pattern := awslogs.FilterPattern_NumberValue(jsii.String(member), jsii.String(">"), jsii.Number(0))
	return r.filter(id, name, pattern, member)
}

// filter makes a metric of the function's log lines with a pattern.
func (r *RecordDedupe) filter(id, name string, pattern awslogs.IFilterPattern, value string) awslogs.MetricFilter {
	return awslogs.NewMetricFilter(r.Construct, jsii.String(id), &awslogs.MetricFilterProps{
		LogGroup:        r.Function.LogGroup(),
		FilterPattern:   pattern,
		MetricNamespace: jsii.String("oncebox/" + *r.Function.FunctionName()),
		MetricName:      jsii.String(name),
		MetricValue:     jsii.String(value),
	})
}

// over is a statistic over an alarm's period.
func over(statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: jsii.String(statistic), Period: seconds(alarmPeriod)}
}

func functionAlarms(scope constructs.Construct, p AlarmProps, function awslambda.Function, job string) {
	name := function.FunctionName()
	alarm{
		"FunctionErrorsAlarm", job + "-function-errors", fmt.Sprintf("The %s function fails.", job),
		metric("AWS/Lambda", "Errors", "Sum", "FunctionName", name), 1, 0,
	}.add(scope, p)
	alarm{
		"FunctionThrottlesAlarm", job + "-function-throttles", fmt.Sprintf("Lambda throttles the %s function.", job),
		metric("AWS/Lambda", "Throttles", "Sum", "FunctionName", name), 1, 0,
	}.add(scope, p)
}

// throttledKeys adds the alarm of a table to the stack. Several constructs that use the table share the alarm. It
// counts hot key ranges and everything else that DynamoDB throttles (DynamoDB Developer Guide, "CloudWatch throttling
// metrics").
func throttledKeys(scope constructs.Construct, p AlarmProps, table awsdynamodb.ITableV2) {
	stack, id := awscdk.Stack_Of(scope), "ThrottledKeysAlarm-"+*table.Node().Addr()
	if made, ok := stack.Node().TryFindChild(jsii.String(id)).(awscloudwatch.Alarm); ok {
		addTopic(made, p)
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
