package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscodedeploy"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// canaries are CodeDeploy's configurations that first give a new version a tenth of the calls. Five minutes are left
// out, because an alarm needs two bad periods of five minutes.
var canaries = map[time.Duration]func() awscodedeploy.ILambdaDeploymentConfig{
	10 * time.Minute: awscodedeploy.LambdaDeploymentConfig_CANARY_10PERCENT_10MINUTES,
	15 * time.Minute: awscodedeploy.LambdaDeploymentConfig_CANARY_10PERCENT_15MINUTES,
	30 * time.Minute: awscodedeploy.LambdaDeploymentConfig_CANARY_10PERCENT_30MINUTES,
}

// hasCanary reports whether CodeDeploy moves the alias.
func (p FunctionProps) hasCanary() bool { return canaries[p.Canary] != nil }

// checkCanary refuses a canary whose alarms would miss log lines.
func (p FunctionProps) checkCanary(wrong *problems, logLevel string) {
	if p.hasCanary() && logLevel != "" && logLevel != "info" && logLevel != "debug" {
		wrong.add("%s is %s, and %s is %s: the alarms of a canary read lines of the level info; choose info or debug, or leave "+
			"%[1]s out", wrong.of("Canary"), text(p.Canary), wrong.of("LogLevel"), logLevel)
	}
}

// A canary makes the alarms of the new version of a function. At a tenth of the calls, a version that fails nine of a
// hundred adds less than one of a hundred to the failures of all versions.
type canary struct {
	alarmSet
	function awslambda.Function
}

// newCanary lets CodeDeploy move the alias, if the props say so. CodeDeploy moves the alias back if one of the alarms
// that watch makes goes off.
func newCanary(
	s alarmSet, p FunctionProps, function awslambda.Function, alias awslambda.Alias, watch func(canary) []alarm,
) {
	if !p.hasCanary() {
		return
	}
	scope := constructs.NewConstruct(s.scope, jsii.String("CanaryAlarms"))
	var all []interfacesawscloudwatch.IAlarmRef
	for _, a := range watch(canary{s.in(scope), function}) {
		s.in(scope).add(a)
		all = append(all, s.made[a.section])
	}
	group := awscodedeploy.NewLambdaDeploymentGroup(s.scope, jsii.String("Canary"),
		&awscodedeploy.LambdaDeploymentGroupProps{Alias: alias, DeploymentConfig: canaries[p.Canary](), Alarms: &all})
	group.Node().AddDependency(scope) // its filters, too
}

// calls is a metric of Lambda about the calls of the alias that the new version gets (Lambda Developer Guide, "Viewing
// metrics for Lambda functions").
func (c canary) calls(name string) awscloudwatch.IMetric {
	return metricOf("AWS/Lambda", name, "Sum", map[string]*string{
		"FunctionName": c.function.FunctionName(), "Resource": jsii.String(*c.function.FunctionName() + ":" + liveAlias),
		"ExecutedVersion": c.function.CurrentVersion().Version(),
	})
}

// lines is the number of the new version's log lines that match a condition. The dimension of the filter is the member
// of the lines that names the version.
func (c canary) lines(name, condition string) awscloudwatch.IMetric {
	return awslogs.NewMetricFilter(c.scope, jsii.String(name), &awslogs.MetricFilterProps{
		LogGroup: c.function.LogGroup(), FilterPattern: awslogs.FilterPattern_Literal(jsii.String("{ " + condition + " }")),
		MetricNamespace: metricsNamespace(c.function), MetricName: &name, MetricValue: jsii.String("1"),
		Dimensions: &map[string]*string{"Version": jsii.String("$.version")},
	}).Metric(&awscloudwatch.MetricOptions{
		Statistic: jsii.String("Sum"), Period: seconds(alarmPeriod),
		DimensionsMap: &map[string]*string{"Version": c.function.CurrentVersion().Version()},
	})
}

// failures is the share of the new version's calls that failed as a whole, or whose log line matches a condition.
func (c canary) failures(name, condition string) awscloudwatch.IMetric {
	return percent("(FILL(errors, 0) + FILL(lines, 0))", "FILL(invocations, 0)", metrics{
		"errors": c.calls("Errors"), "lines": c.lines(name, condition), "invocations": c.calls("Invocations"),
	})
}

// refused is the threshold in percent of the requests that the new version refuses. Ten refused requests in a period
// reach it, if the version gets up to 100.
const refused = 10

func canaryOfClaims(c canary) []alarm {
	return []alarm{
		{
			"ErrorsAlarm", "claim-canary-errors", "The new version of the claim function fails.",
			c.failures("VersionServerErrors", "$.status >= 500"), failing, twice, atLeast,
		},
		{
			"RefusalsAlarm", "claim-canary-refusals", "The new version of the claim function refuses requests.",
			percent("FILL(lines, 0)", "FILL(invocations, 0)", metrics{
				"lines": c.lines("VersionClientErrors", "($.status >= 400) && ($.status < 500) && ($.status != 404) && "+
					"($.status != 409) && ($.status != 429)"),
				"invocations": c.calls("Invocations"),
			}), refused, twice, atLeast,
		},
	}
}

func canaryOfRecords(c canary) []alarm {
	return []alarm{
		{
			"ErrorsAlarm", "dedupe-canary-errors", "The new version of the dedupe function fails batches, or records of them.",
			c.failures("VersionFailures", "$.failed > 0"), failing, twice, atLeast,
		},
		{
			"DeadLettersAlarm", "dedupe-canary-dead-letters", "The new version of the dedupe function stored dead letters.",
			c.lines("VersionDeadLetters", "$.dead_lettered > 0"), 1, atOnce, atLeast,
		},
	}
}
