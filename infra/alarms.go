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

	"github.com/oncebox/oncebox/internal/settings"
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

// check returns everything that is wrong with props that have their defaults.
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

// An alarm goes off when its metric reaches a threshold in some of the latest periods. Missing data is always good: the
// metrics count failures, or things that wait, and an idle stack has none.
type alarm struct {
	id        string // of the construct
	section   string // of the runbook
	means     string // begins the description
	metric    awscloudwatch.IMetric
	threshold float64
	when      datapoints
	below     bool // the alarm goes off at the threshold and below
}

// datapoints says how many of the latest periods must reach the threshold.
type datapoints struct{ breaching, of int }

// The datapoints of alarms. What repeats itself and is retried may pass: it has to last. What needs a person anyway is
// told at once.
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
	made  map[string]awscloudwatch.Alarm // by section
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
	s.tell(made)
	return made
}

// topicMetadata marks an alarm with the topics that get its messages.
const topicMetadata = "oncebox:topic"

// tell lets the topic get the messages of an alarm. It changes nothing if the topic gets them already.
func (s alarmSet) tell(made awscloudwatch.Alarm) {
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

// calculated is an expression of metrics over a period.
func calculated(expression string, of metrics, period time.Duration) awscloudwatch.IMetric {
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: &expression, UsingMetrics: &of, Period: seconds(period),
	})
}

// fewest is the number of requests or invocations below which a share would say little: one failure among three is not
// a third of the traffic. Fewer count as so many.
const fewest = 100

// percent is the share of a part in a whole, which is an expression of the metrics.
func percent(part, whole string, of metrics) awscloudwatch.IMetric {
	const share = "100 * FILL(%[1]s, 0) / IF(%[2]s > %[3]d, %[2]s, %[3]d)"
	return calculated(fmt.Sprintf(share, part, whole, fewest), of, alarmPeriod)
}

// Thresholds in percent. One failure reaches failing among up to 100 requests, so that the alarm also sees an API with
// little traffic; it goes off if that happens in two of three periods.
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
			// Invocations leaves out what was throttled (Lambda Developer Guide, "Types of metrics for Lambda functions").
			"FunctionThrottlesAlarm", job + "-function-throttles", fmt.Sprintf("Lambda throttles the %s function.", job),
			percent("throttles", "(FILL(invocations, 0) + FILL(throttles, 0))",
				metrics{"throttles": count("Throttles"), "invocations": count("Invocations")}),
			failing, twice, false,
		},
	)
}

// throttledRequests is the number of throttled requests to a table in a period at which its alarm goes off. On-demand
// tables throttle a few while they grow, and the functions try them again.
const throttledRequests = 100

// addTable adds the alarm of a table to the stack. Several constructs that use the table share the alarm. It counts hot
// key ranges and everything else that DynamoDB throttles (DynamoDB Developer Guide, "CloudWatch throttling metrics").
func (s alarmSet) addTable(name string, table awsdynamodb.ITableV2) {
	stack, id := awscdk.Stack_Of(s.scope), "ThrottledKeysAlarm-"+*table.Node().Addr()
	made, ok := stack.Node().TryFindChild(jsii.String(id)).(awscloudwatch.Alarm)
	if ok {
		s.tell(made)
	} else {
		made = s.in(stack).newAlarm(alarm{
			id, "throttled-keys", "DynamoDB throttles the table.", throttles(table), throttledRequests, twice, false,
		})
	}
	s.made[name] = made
}

// throttles counts the requests to a table that DynamoDB throttled. One to a hot key range counts twice.
func throttles(table awsdynamodb.ITableV2) awscloudwatch.IMetric {
	count := func(name string) awscloudwatch.IMetric {
		return metric("AWS/DynamoDB", name, "Sum", "TableName", table.TableName())
	}
	return calculated("FILL(reads, 0) + FILL(writes, 0) + FILL(readKeys, 0) + FILL(writeKeys, 0)", metrics{
		"reads": count("ReadThrottleEvents"), "readKeys": count("ReadKeyRangeThroughputThrottleEvents"),
		"writes": count("WriteThrottleEvents"), "writeKeys": count("WriteKeyRangeThroughputThrottleEvents"),
	}, alarmPeriod)
}

// filtered makes a metric of the lines of a log that have a pattern. Its namespace is that of the function's metrics.
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

// metricsNamespace holds the metrics of a function: those that it writes into its log lines, and those that filters make
// of other members of the lines.
func metricsNamespace(function awslambda.Function) *string {
	return jsii.String(settings.MetricsNamespace + *function.FunctionName())
}

// over is a statistic over an alarm's period.
func over(statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: jsii.String(statistic), Period: seconds(alarmPeriod)}
}
