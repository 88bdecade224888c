package infra

import (
	"fmt"
	"net/url"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

// AlarmProps are the settings of alarms. All are optional.
type AlarmProps struct {
	// Topic gets a message when an alarm goes off and another when it is over. Without a topic, alarms only show in
	// CloudWatch.
	Topic awssns.ITopic

	// RunbookURL is the https address of the page that the description of each alarm links to, with the alarm's section
	// behind a #. The default is docs/operations.md of this project. Another page needs the same sections.
	RunbookURL string
}

// defaultRunbook has a section for each alarm.
const defaultRunbook = "https://github.com/oncebox/oncebox/blob/main/docs/operations.md"

func (p AlarmProps) withDefaults() AlarmProps {
	if p.RunbookURL == "" {
		p.RunbookURL = defaultRunbook
	}
	return p
}

// check returns all problems in props that have their defaults.
func (p AlarmProps) check(names naming) error {
	wrong := problems{naming: names}
	u, err := url.Parse(p.RunbookURL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.Fragment != "" || len(p.RunbookURL) > longestRunbook {
		wrong.add("%s is %q; write the https address of a page, without a # and with at most %d characters",
			wrong.of("RunbookURL"), p.RunbookURL, longestRunbook)
	}
	return wrong.err()
}

// longestRunbook leaves room for the rest of a description, which has at most 1,024 characters (CloudWatch API
// Reference, "PutMetricAlarm").
const longestRunbook = 512

// An alarm goes off when its metric reaches a threshold in some of the latest periods.
type alarm struct {
	id        string // the id of the construct
	section   string // the section of the runbook
	means     string // the beginning of the description
	metric    awscloudwatch.IMetric
	threshold float64
	when      datapoints
	reached   reached
}

// reached says which values reach the threshold of an alarm, and what missing data means.
type reached int

const (
	// atLeast is for metrics that count failures or waiting work. An idle stack has neither, so missing data is good.
	atLeast reached = iota
	// atMost is for metrics of what is left. Missing data says nothing about it, and changes no state.
	atMost
	// atMostOrMissing is for work that must happen in any case. Missing data means that it does not happen.
	atMostOrMissing
)

// datapoints says how many of the latest periods must reach the threshold.
type datapoints struct{ breaching, of int }

// These are the datapoints of alarms. A failure that is retried must last before the alarm goes off. A failure that
// needs a person in any case sets the alarm off at once.
var (
	atOnce  = datapoints{1, 1}
	twice   = datapoints{2, 3}
	lasting = datapoints{3, 3}
)

const alarmPeriod = 5 * time.Minute

// An alarmSet makes the alarms of a construct.
type alarmSet struct {
	AlarmProps
	scope constructs.Construct
	made  map[string]awscloudwatch.Alarm // the alarms, by section
}

func newAlarmSet(scope constructs.Construct, p AlarmProps) alarmSet {
	return alarmSet{p, scope, map[string]awscloudwatch.Alarm{}}
}

// in returns the same set for alarms in another scope.
func (s alarmSet) in(scope constructs.Construct) alarmSet {
	s.scope = scope
	return s
}

func (s alarmSet) add(all ...alarm) {
	for _, a := range all {
		s.made[a.section] = s.newAlarm(a)
	}
}

func (s alarmSet) newAlarm(a alarm) awscloudwatch.Alarm {
	props := &awscloudwatch.AlarmProps{
		AlarmDescription:   jsii.String(a.means + " " + s.RunbookURL + "#" + a.section),
		Metric:             a.metric,
		Threshold:          jsii.Number(a.threshold),
		ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
		EvaluationPeriods:  jsii.Number(a.when.of),
		DatapointsToAlarm:  jsii.Number(a.when.breaching),
		TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
	}
	if a.reached != atLeast {
		props.ComparisonOperator = awscloudwatch.ComparisonOperator_LESS_THAN_OR_EQUAL_TO_THRESHOLD
		props.TreatMissingData = awscloudwatch.TreatMissingData_IGNORE
	}
	if a.reached == atMostOrMissing {
		props.TreatMissingData = awscloudwatch.TreatMissingData_BREACHING
	}
	made := awscloudwatch.NewAlarm(s.scope, jsii.String(a.id), props)
	if a.reached == atMostOrMissing {
		warmUp(made, a)
	}
	s.notify(made)
	return made
}

// longestWarmUp is CloudWatch's limit (CloudFormation, "AWS::CloudWatch::Alarm WarmUpConfiguration").
const longestWarmUp = 48 * time.Hour

// warmUp lets a new alarm wait for its first data as long as it looks back, so that a new stack does not set it off.
// The alarm ends the wait when it has data for all of its periods.
func warmUp(made awscloudwatch.Alarm, a alarm) {
	looksBack := time.Duration(*a.metric.ToMetricConfig().MetricStat.Period.ToSeconds(nil)*float64(a.when.of)) * time.Second
	made.Node().DefaultChild().(awscloudwatch.CfnAlarm).SetWarmUpConfiguration(
		&awscloudwatch.CfnAlarm_WarmUpConfigurationProperty{
			WarmUpPeriodDurationInMinutes: jsii.Number(min(looksBack, longestWarmUp).Minutes()),
		})
}

// topicMetadata marks an alarm with the topics that get its messages.
const topicMetadata = "oncebox:topic"

// notify sends the messages of an alarm to the topic. It changes nothing if the topic already gets them.
func (s alarmSet) notify(made awscloudwatch.Alarm) {
	if s.Topic == nil {
		return
	}
	arn := *s.Topic.TopicArn()
	for _, m := range *made.Node().Metadata() {
		if *m.Type == topicMetadata && m.Data == arn {
			return
		}
	}
	made.Node().AddMetadata(jsii.String(topicMetadata), arn, nil)
	action := awscloudwatchactions.NewSnsAction(s.Topic)
	made.AddAlarmAction(action)
	made.AddOkAction(action)
}

// metric is a metric of AWS over an alarm's period, by namespace, name, statistic and one dimension.
func metric(namespace, name, statistic, dimension string, value *string) awscloudwatch.Metric {
	return metricOf(namespace, name, statistic, map[string]*string{dimension: value})
}

func metricOf(namespace, name, statistic string, dimensions map[string]*string) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(namespace), MetricName: jsii.String(name), Statistic: jsii.String(statistic),
		Period: seconds(alarmPeriod), DimensionsMap: &dimensions,
	})
}

type metrics = map[string]awscloudwatch.IMetric

// calculated returns an expression of metrics over a period.
func calculated(expression string, of metrics, period time.Duration) awscloudwatch.IMetric {
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: &expression, UsingMetrics: &of, Period: seconds(period),
	})
}

// fewest is the smallest number of requests or invocations for which a share says much: one failure among three
// requests is not a third of the traffic. A smaller number counts as this number.
const fewest = 100

// percent returns part as a percentage of whole. Both are expressions of the metrics.
func percent(part, whole string, of metrics) awscloudwatch.IMetric {
	const share = "100 * %[1]s / IF(%[2]s > %[3]d, %[2]s, %[3]d)"
	return calculated(fmt.Sprintf(share, part, whole, fewest), of, alarmPeriod)
}

// These are thresholds in percent. One failure among up to 100 requests reaches failing. So the alarm also works for
// an API with little traffic: it goes off if that happens in two of three periods.
const (
	failing  = 1
	limited  = 5
	rejected = 50
)

// addFunction adds the alarms of a function.
func (s alarmSet) addFunction(function awslambda.Function, job string, errors datapoints) {
	count := func(name string) awscloudwatch.IMetric {
		return metric("AWS/Lambda", name, "Sum", "FunctionName", function.FunctionName())
	}
	s.add(
		alarm{
			"FunctionErrorsAlarm", job + "-function-errors", fmt.Sprintf("The %s function fails.", job),
			percent("FILL(errors, 0)", "FILL(invocations, 0)", metrics{"errors": count("Errors"), "invocations": count("Invocations")}),
			failing, errors, atLeast,
		},
		alarm{
			// Invocations does not include throttled calls (Lambda Developer Guide, "Types of metrics for Lambda
			// functions").
			"FunctionThrottlesAlarm", job + "-function-throttles", fmt.Sprintf("Lambda throttles the %s function.", job),
			percent("FILL(throttles, 0)", "(FILL(invocations, 0) + FILL(throttles, 0))",
				metrics{"throttles": count("Throttles"), "invocations": count("Invocations")}),
			failing, twice, atLeast,
		},
	)
}

// throttledRequests is the number of throttled requests to a table, an index or a stream in a period at which its alarm
// goes off. On-demand tables and streams throttle a few requests while they grow, and these are repeated.
const throttledRequests = 100

// addTable adds the alarm of a table to the stack. It counts all requests that DynamoDB throttles, including those to
// hot key ranges (DynamoDB Developer Guide, "CloudWatch throttling metrics").
func (s alarmSet) addTable(name string, table awsdynamodb.ITableV2) {
	s.addShared(name, table, alarm{
		"ThrottledKeysAlarm", "throttled-keys", "DynamoDB throttles the table.",
		throttles(tableDimensions(table)), throttledRequests, twice, atLeast,
	})
}

// addDueIndex adds the alarm of the index of claims that end. The metrics of a table leave out its indexes (DynamoDB
// Developer Guide, "DynamoDB Metrics and dimensions").
func (s alarmSet) addDueIndex(table awsdynamodb.ITableV2) {
	s.addShared("throttled-index", table, alarm{
		"ThrottledIndexAlarm", "throttled-index", "DynamoDB throttles the index of claims that end.",
		throttles(dueDimensions(table)), throttledRequests, twice, atLeast,
	})
}

// addShared adds an alarm of a table to the stack. Several constructs that use the table share the alarm.
func (s alarmSet) addShared(name string, table awsdynamodb.ITableV2, a alarm) {
	stack := awscdk.Stack_Of(s.scope)
	a.id += "-" + *table.Node().Addr()
	made, ok := stack.Node().TryFindChild(jsii.String(a.id)).(awscloudwatch.Alarm)
	if ok {
		s.notify(made)
	} else {
		made = s.in(stack).newAlarm(a)
	}
	s.made[name] = made
}

func tableDimensions(table awsdynamodb.ITableV2) map[string]*string {
	return map[string]*string{"TableName": table.TableName()}
}

func dueDimensions(table awsdynamodb.ITableV2) map[string]*string {
	return map[string]*string{"TableName": table.TableName(), "GlobalSecondaryIndexName": jsii.String(dueIndex)}
}

// throttles counts the requests to a table or an index that DynamoDB throttled. A request to a hot key range counts
// twice.
func throttles(dimensions map[string]*string) awscloudwatch.IMetric {
	count := func(name string) awscloudwatch.IMetric {
		return metricOf("AWS/DynamoDB", name, "Sum", dimensions)
	}
	return calculated("FILL(reads, 0) + FILL(writes, 0) + FILL(readKeys, 0) + FILL(writeKeys, 0)", metrics{
		"reads": count("ReadThrottleEvents"), "readKeys": count("ReadKeyRangeThroughputThrottleEvents"),
		"writes": count("WriteThrottleEvents"), "writeKeys": count("WriteKeyRangeThroughputThrottleEvents"),
	}, alarmPeriod)
}

func throttledReads(stream awskinesis.IStream) awscloudwatch.IMetric {
	return metric("AWS/Kinesis", "ReadProvisionedThroughputExceeded", "Sum", "StreamName", stream.StreamName())
}

func throttledWrites(stream awskinesis.IStream) awscloudwatch.IMetric {
	return metric("AWS/Kinesis", "WriteProvisionedThroughputExceeded", "Sum", "StreamName", stream.StreamName())
}

// filtered returns a metric of the log lines that match a pattern. Its namespace is the namespace of the function's
// metrics.
func filtered(
	scope constructs.Construct, id, name string, logs awslogs.ILogGroup, pattern awslogs.IFilterPattern, value string,
	function awslambda.Function,
) awscloudwatch.Metric {
	filter := awslogs.NewMetricFilter(scope, jsii.String(id), &awslogs.MetricFilterProps{
		LogGroup: logs, FilterPattern: pattern, MetricValue: jsii.String(value),
		MetricNamespace: metricsNamespace(function), MetricName: jsii.String(name),
	})
	return filter.Metric(over("Sum"))
}

// metricsNamespace returns the namespace of a function's metrics: those that it writes into its log lines, and those
// that filters make from other members of the lines.
func metricsNamespace(function awslambda.Function) *string {
	return jsii.String(settings.MetricsNamespace + *function.FunctionName())
}

// over returns the options for a statistic over an alarm's period.
func over(statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: jsii.String(statistic), Period: seconds(alarmPeriod)}
}
