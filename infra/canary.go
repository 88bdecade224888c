package infra

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscodedeploy"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces/interfacesawscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/recordhandler"
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

// canaryAlias is the name of the alias of a dedupe function with a canary.
const canaryAlias = "canary"

// newCanaryAlias makes the alias of a dedupe function with a canary. CodeDeploy moves the weights of an alias that
// CloudFormation updates, and of no alias that it makes. The logical id of this alias has the hash of what a record is, and
// its name does not. So a deployment that changes what a record is would make another alias with the name of the one that
// exists, and Lambda refuses that: the deployment fails, and the version that runs keeps all calls (aws-cdk issue 27884).
// A stack that had no canary before gets this alias as a new one, and its mapping moves to it at once.
func newCanaryAlias(r *RecordDedupe, s recordhandler.Settings) awslambda.Alias {
	return awslambda.NewAlias(r.Construct, jsii.String("Identity"+r.identityHash(s)), &awslambda.AliasProps{
		AliasName: jsii.String(canaryAlias), Version: r.Function.CurrentVersion(),
	})
}

// identityHash returns a hash of the settings that decide what a record is. What only the deployment knows counts by its
// place in the template.
func (r *RecordDedupe) identityHash(s recordhandler.Settings) string {
	s.DedupeTable, s.Scope = *r.DedupeTable.TableName(), scopeOf(s.Scope, r.Source)
	identity := map[string]any{}
	for name, value := range recordhandler.Identity(environmentOf(s.Environ())) {
		identity[name] = awscdk.Stack_Of(r.Construct).Resolve(value)
	}
	text, _ := json.Marshal(identity) // texts and intrinsic functions cannot fail
	return fmt.Sprintf("%X", sha256.Sum256(text))[:12]
}

// A canary makes the alarms of the new version of a function. At a tenth of the calls, a version that fails nine of a
// hundred adds less than one of a hundred to the failures of all versions.
type canary struct {
	alarmSet
	function awslambda.Function
	alias    awslambda.Alias
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
	for _, a := range watch(canary{s.in(scope), function, alias}) {
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
		"FunctionName": c.function.FunctionName(), "Resource": jsii.String(*c.function.FunctionName() + ":" + *c.alias.AliasName()),
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
