package infra

import (
	"fmt"
	"net/url"
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

// An alarm goes off when its metric reaches a threshold in some of the latest periods. Missing data always counts as
// good: the metrics count failures or waiting work, and an idle stack has neither.
type alarm struct {
	id        string // the id of the construct
	section   string // the section of the runbook
	means     string // the beginning of the description
	metric    awscloudwatch.IMetric
	threshold float64
	when      datapoints
	below     bool // the alarm goes off at the threshold and below
}

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
	if a.below {
		props.ComparisonOperator = awscloudwatch.ComparisonOperator_LESS_THAN_OR_EQUAL_TO_THRESHOLD
	}
	made := awscloudwatch.NewAlarm(s.scope, jsii.String(a.id), props)
	s.notify(made)
	return made
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
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String(namespace), MetricName: jsii.String(name), Statistic: jsii.String(statistic),
		Period: seconds(alarmPeriod), DimensionsMap: &map[string]*string{dimension: value},
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
	const share = "100 * FILL(%[1]s, 0) / IF(%[2]s > %[3]d, %[2]s, %[3]d)"
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
			percent("errors", "FILL(invocations, 0)", metrics{"errors": count("Errors"), "invocations": count("Invocations")}),
			failing, errors, false,
		},
		alarm{
			// Invocations does not include throttled calls (Lambda Developer Guide, "Types of metrics for Lambda
			// functions").
			"FunctionThrottlesAlarm", job + "-function-throttles", fmt.Sprintf("Lambda throttles the %s function.", job),
			percent("throttles", "(FILL(invocations, 0) + FILL(throttles, 0))",
				metrics{"throttles": count("Throttles"), "invocations": count("Invocations")}),
			failing, twice, false,
		},
	)
}

// throttledRequests is the number of throttled requests to a table in a period at which its alarm goes off. On-demand
// tables throttle a few requests while they grow, and the functions retry these.
const throttledRequests = 100

// addTable adds the alarm of a table to the stack. Several constructs that use the table share the alarm. It counts
// all requests that DynamoDB throttles, including those to hot key ranges (DynamoDB Developer Guide, "CloudWatch
// throttling metrics").
func (s alarmSet) addTable(name string, table awsdynamodb.ITableV2) {
	stack, id := awscdk.Stack_Of(s.scope), "ThrottledKeysAlarm-"+*table.Node().Addr()
	made, ok := stack.Node().TryFindChild(jsii.String(id)).(awscloudwatch.Alarm)
	if ok {
		s.notify(made)
	} else {
		made = s.in(stack).newAlarm(alarm{
			id, "throttled-keys", "DynamoDB throttles the table.", throttles(table), throttledRequests, twice, false,
		})
	}
	s.made[name] = made
}

// throttles counts the requests to a table that DynamoDB throttled. A request to a hot key range counts twice.
func throttles(table awsdynamodb.ITableV2) awscloudwatch.IMetric {
	count := func(name string) awscloudwatch.IMetric {
		return metric("AWS/DynamoDB", name, "Sum", "TableName", table.TableName())
	}
	return calculated("FILL(reads, 0) + FILL(writes, 0) + FILL(readKeys, 0) + FILL(writeKeys, 0)", metrics{
		"reads": count("ReadThrottleEvents"), "readKeys": count("ReadKeyRangeThroughputThrottleEvents"),
		"writes": count("WriteThrottleEvents"), "writeKeys": count("WriteKeyRangeThroughputThrottleEvents"),
	}, alarmPeriod)
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
