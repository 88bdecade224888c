package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces"
	"github.com/aws/jsii-runtime-go"
)

// logSource is a log group whose events CloudWatch Logs sends to the function directly.
type logSource struct {
	group  awslogs.ILogGroup
	filter awslogs.CfnSubscriptionFilter
}

// CloudWatch Logs invokes the function asynchronously. These are Lambda's longest age and most retries of such an event
// (Lambda API Reference, "PutFunctionEventInvokeConfig").
const (
	longestEventAge  = 6 * time.Hour
	mostEventRetries = 2
)

// Lambda stores a message that it gives up in the bucket, as it does batches.
func (*logSource) traits() sourceTraits { return sourceTraits{shared: true, batches: true} }

func (s *logSource) isMissing() bool { return s.group == nil }

func (s *logSource) place() *interfaces.ResourceEnvironment { return s.group.Env() }

func (s *logSource) arn() string { return *s.group.LogGroupArn() }

func (s *logSource) scope() string { return "logs:" + *s.group.LogGroupName() }

func (*logSource) retention() time.Duration { return 0 }

func (*logSource) mappingDefaults(p RecordDedupeProps) MappingProps { return p.Mapping }

func (s *logSource) check(wrong *problems, p RecordDedupeProps) {
	source := wrong.of("Source")
	p.checkObjects(wrong)
	if p.SourceRetention != 0 {
		wrong.add("%s is set, and CloudWatch Logs sends log events of %s only once; leave it out", wrong.of("SourceRetention"), source)
	}
	if p.Mapping != (MappingProps{}) {
		wrong.add("%s is a log group, which has no event source mapping: leave out %s, %s, %s, %s and %s", source,
			wrong.of("BatchSize"), wrong.of("BatchWindow"), wrong.of("Parallelization"), wrong.of("Retries"), wrong.of("RecordAge"))
	}
	if p.hasLog() {
		wrong.add("%s is %s, which is for large batches, and each message of CloudWatch Logs is a batch; choose keys",
			wrong.of("Ledger"), logLedger)
	}
}

func (s *logSource) resolved(*RecordDedupe, RecordDedupeProps) sourceKind {
	return &logSource{group: s.group} // each construct has a subscription of its own
}

// grants is empty, because CloudWatch Logs needs a permission of the function.
func (*logSource) grants() []grant { return nil }

// connect subscribes the function, and stores messages that Lambda gives up. All log events are sent: the filter pattern
// is empty.
func (s *logSource) connect(r *RecordDedupe, _ RecordDedupeProps) {
	permission := awslambda.NewCfnPermission(r.Construct, jsii.String("SourcePermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: r.Alias.FunctionArn(),
		Principal: jsii.String("logs.amazonaws.com"),
		SourceArn: s.group.LogGroupArn(), SourceAccount: awscdk.Stack_Of(r.Construct).Account(),
	})
	r.Alias.ConfigureAsyncInvoke(&awslambda.EventInvokeConfigOptions{
		MaxEventAge: awscdk.Duration_Hours(jsii.Number(longestEventAge.Hours())), RetryAttempts: jsii.Number(mostEventRetries),
	})
	// The CDK's own destination would give the role more permissions than grants.go lists.
	failures := r.Alias.Node().FindChild(jsii.String("EventInvokeConfig")).Node().DefaultChild().(awslambda.CfnEventInvokeConfig)
	failures.SetDestinationConfig(&awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
		OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: r.DeadLetterBucket.BucketArn()},
	})
	failures.Node().AddDependency(r.Function.Role()) // Lambda refuses a destination that the role may not write to
	s.filter = awslogs.NewCfnSubscriptionFilter(r.Construct, jsii.String("Subscription"), &awslogs.CfnSubscriptionFilterProps{
		LogGroupName: s.group.LogGroupName(), FilterPattern: jsii.String(""), DestinationArn: r.Alias.FunctionArn(),
	})
	s.filter.Node().AddDependency(permission, failures)
}

func (s *logSource) alarms(r *RecordDedupe) []alarm {
	return []alarm{
		{
			"MessagesNotSentAlarm", "log-events-not-sent", "CloudWatch Logs cannot send log events to the function.",
			calculated("FILL(errors, 0) + FILL(throttled, 0)", metrics{
				"errors": s.metric("DeliveryErrors"), "throttled": s.metric("DeliveryThrottling"),
			}, alarmPeriod), 1, twice, atLeast,
		},
		{
			"MessagesGivenUpAlarm", "log-messages-given-up", "Lambda gave up messages of CloudWatch Logs.", r.droppedEvents(), 1,
			atOnce, atLeast,
		},
		r.deliveryFailures(),
	}
}

// metric is a metric of the subscription (CloudWatch Logs User Guide, "Monitoring with CloudWatch metrics").
func (s *logSource) metric(name string) awscloudwatch.Metric {
	return metricOf("AWS/Logs", name, "Sum", map[string]*string{
		"LogGroupName": s.group.LogGroupName(), "DestinationType": jsii.String("Lambda"), "FilterName": s.filter.Ref(),
	})
}

// droppedEvents counts the messages that failed too often or became too old, also those that Lambda stored in the
// bucket.
func (r *RecordDedupe) droppedEvents() awscloudwatch.Metric {
	return metric("AWS/Lambda", "AsyncEventsDropped", "Sum", "FunctionName", r.Function.FunctionName())
}

func (s *logSource) graphs(r *RecordDedupe) []awscloudwatch.IWidget {
	return []awscloudwatch.IWidget{
		graph("Log events that were sent", s.metric("ForwardedLogEvents"), s.metric("DeliveryErrors")),
		graph("Age of messages, ms", metric("AWS/Lambda", "AsyncEventAge", "Maximum", "FunctionName", r.Function.FunctionName())),
	}
}

func (*logSource) givenUp(r *RecordDedupe) []awscloudwatch.IMetric {
	return []awscloudwatch.IMetric{r.droppedEvents()}
}

func (s *logSource) outputs() []output {
	return []output{{"SourceLogGroup", "The log group whose events the function gets", *s.group.LogGroupName()}}
}
