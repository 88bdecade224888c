package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// A ClaimMetric is a metric that the functions of a [ClaimAPI] write. docs/operations.md says what each means.
type ClaimMetric string

// These are the metrics of a [ClaimAPI]. The sweep function writes FreeItems, the claim function writes all others.
const (
	Claims         ClaimMetric = "Claims"
	Repeats        ClaimMetric = "Repeats"
	SoldOut        ClaimMetric = "SoldOut"
	LostRaces      ClaimMetric = "LostRaces"
	Conflicts      ClaimMetric = "Conflicts"
	ClaimThrottles ClaimMetric = "Throttles"
	ClaimLatency   ClaimMetric = "Latency"
	FreeItems      ClaimMetric = "FreeItems"
)

// Metric returns a metric of the functions, for your own alarms and graphs. By default it is the sum over five
// minutes. It has no values with the setting Metrics off. FreeItems without a dimension covers all campaigns: its
// Minimum is the smallest number of any campaign. Without a sweep Metric returns nil for FreeItems.
func (c *ClaimAPI) Metric(name ClaimMetric, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	function := c.Function
	if name == FreeItems {
		function = c.Sweep
	}
	if function == nil {
		return nil
	}
	return ownMetric(function, string(name), o)
}

// A RecordMetric is a metric that the function of a [RecordDedupe] writes. docs/operations.md says what each means.
type RecordMetric string

// These are the metrics of a [RecordDedupe].
const (
	RecordsIn           RecordMetric = "RecordsIn"
	RecordsNew          RecordMetric = "RecordsNew"
	RecordsFailed       RecordMetric = "RecordsFailed"
	NaturalDuplicates   RecordMetric = "NaturalDuplicates"
	SyntheticDuplicates RecordMetric = "SyntheticDuplicates"
	DeadLetters         RecordMetric = "DeadLetters"
	LedgerTime          RecordMetric = "LedgerTime"
	SinkTime            RecordMetric = "SinkTime"
	OldestRecordAge     RecordMetric = "OldestRecordAge"
)

// Metric returns a metric of the function, for your own alarms and graphs. By default it is the sum over five
// minutes. It has no values with the setting Metrics off.
func (r *RecordDedupe) Metric(name RecordMetric, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return ownMetric(r.Function, string(name), o)
}

// ownMetric returns a metric that a function writes into its log lines.
func ownMetric(function awslambda.Function, name string, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	m := awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: metricsNamespace(function), MetricName: jsii.String(name), Statistic: jsii.String("Sum"),
		Period: seconds(alarmPeriod),
	})
	if o == nil {
		return m
	}
	return m.With(o)
}
