package infra

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// MappingProps are the settings of an event source mapping, which takes records
// from the stream to the function. All are optional. What is not here is fixed:
// it starts at the oldest record, reports partial failures, bisects, and keeps what
// it gives up in the failure bucket.
type MappingProps struct {
	// BatchSize is the most records of a batch, 1 to 10,000; by default 1,000. Lambda
	// ends a batch at 6 MB too.
	BatchSize int

	// BatchWindow is how long Lambda gathers a batch, in whole seconds up to 5
	// minutes. The default is none, the lowest latency; with a window there are fewer
	// and larger batches, which cost less.
	BatchWindow time.Duration

	// Parallelization is how many batches of a shard are processed at a time, 1 to 10;
	// by default 1. More turns the checkpoint off, since a redelivery could skip what
	// another batch has not done yet, and needs NoAggregation. To change it on a
	// stack that is in use takes two deployments (docs/operations.md): one for this and
	// one for the checkpoint, which has to be off in between.
	Parallelization int

	// NoCheckpoint turns the checkpoint off where Parallelization is 1.
	NoCheckpoint bool

	// NoAggregation says that no producer sends KPL aggregates, or only such whose records
	// all have the aggregate's own partition key. This mapping has no enhanced fan-out, and
	// so Lambda sees an aggregate as one record: "If the events inside the aggregated event
	// have different partition keys, Lambda cannot guarantee in-order processing of the
	// events by partition key" (Lambda Developer Guide, "Using Lambda to process records from
	// Amazon Kinesis Data Streams"; its edition of 2022 said that several batches do not work
	// with aggregates at all). Only that order is at stake: no record is lost or passed on
	// twice for it. The KPL itself puts records of many keys into an aggregate and names
	// all aggregates "a" (awslabs/amazon-kinesis-producer, issues 130 and 439), so that more
	// batches would not even be faster.
	NoAggregation bool

	// Retries is how often a failed batch is sent again before it goes to the failure
	// bucket, up to 10,000, the default; nil is the default, and -1 has no limit but
	// RecordAge. Fewer make a record that kills the function block its shard for less
	// long, and an outage fill the failure bucket sooner.
	Retries *int

	// RecordAge is the age at which a record that fails goes to the failure bucket,
	// in whole seconds from a minute to 7 days. The default is 80 % of the source's
	// retention: late enough that no outage of minutes or hours gives anything up,
	// and well before Kinesis deletes it.
	RecordAge time.Duration
}

// Limits and defaults of event source mappings (Lambda API Reference,
// "CreateEventSourceMapping").
const (
	defaultBatchSize = 1000
	mostBatchSize    = 10000
	mostBatchWindow  = 5 * time.Minute
	mostParallel     = 10
	mostRetries      = 10000
	leastRecordAge   = time.Minute
	mostRecordAge    = 7 * 24 * time.Hour
)

// withDefaults fills in what is left out.
func (p MappingProps) withDefaults(retention time.Duration) MappingProps {
	if p.BatchSize == 0 {
		p.BatchSize = defaultBatchSize
	}
	if p.Parallelization == 0 {
		p.Parallelization = 1
	}
	if p.Retries == nil {
		p.Retries = new(mostRetries)
	}
	if p.RecordAge == 0 {
		p.RecordAge = min(retention*4/5, mostRecordAge).Truncate(time.Second)
	}
	return p
}

// checkpoint tells whether the function keeps a checkpoint. It is right only where
// one invocation of a shard runs at a time by design.
func (p MappingProps) checkpoint() bool { return p.Parallelization == 1 && !p.NoCheckpoint }

// check says all that is wrong. The props have their defaults.
func (p MappingProps) check(retention time.Duration) error {
	var wrong []error
	refuse := func(format string, a ...any) { wrong = append(wrong, fmt.Errorf(format, a...)) }
	if p.BatchSize < 1 || p.BatchSize > mostBatchSize {
		refuse("the BatchSize is %d, want 1 to %d", p.BatchSize, mostBatchSize)
	}
	if p.BatchWindow < 0 || p.BatchWindow > mostBatchWindow || p.BatchWindow%time.Second != 0 {
		refuse("the BatchWindow is %v, want whole seconds up to %v", p.BatchWindow, mostBatchWindow)
	}
	if p.Parallelization < 1 || p.Parallelization > mostParallel {
		refuse("the Parallelization is %d, want 1 to %d", p.Parallelization, mostParallel)
	}
	if p.Parallelization > 1 && !p.NoAggregation {
		refuse("a Parallelization of %d needs NoAggregation: of records in KPL aggregates Lambda does not keep the order by partition key", p.Parallelization)
	}
	if *p.Retries < -1 || *p.Retries > mostRetries {
		refuse("the Retries are %d, want -1 to %d", *p.Retries, mostRetries)
	}
	switch {
	case retention == 0: // which is refused elsewhere
	case p.RecordAge < leastRecordAge || p.RecordAge > mostRecordAge || p.RecordAge%time.Second != 0:
		refuse("the RecordAge is %v, want whole seconds from %v to %v", p.RecordAge, leastRecordAge, mostRecordAge)
	case p.RecordAge >= retention:
		refuse("a RecordAge of %v is not shorter than the source's retention %v: "+
			"Kinesis would delete a failing record before Lambda gives it up to the failure bucket", p.RecordAge, retention)
	}
	return errors.Join(wrong...)
}

// newMapping makes the mapping. It uses the resource itself, and not
// awslambdaeventsources, which would add to the role what grants.go does not list.
func newMapping(r *RecordDedupe, p MappingProps) awslambda.CfnEventSourceMapping {
	mapping := awslambda.NewCfnEventSourceMapping(r.Construct, jsii.String("Mapping"), &awslambda.CfnEventSourceMappingProps{
		FunctionName:                   r.Function.FunctionName(),
		EventSourceArn:                 r.Source.StreamArn(),
		StartingPosition:               jsii.String("TRIM_HORIZON"),
		BatchSize:                      jsii.Number(p.BatchSize),
		MaximumBatchingWindowInSeconds: jsii.Number(p.BatchWindow.Seconds()),
		ParallelizationFactor:          jsii.Number(p.Parallelization),
		FunctionResponseTypes:          jsii.Strings("ReportBatchItemFailures"),
		BisectBatchOnFunctionError:     jsii.Bool(true),
		MaximumRetryAttempts:           jsii.Number(*p.Retries),
		MaximumRecordAgeInSeconds:      jsii.Number(p.RecordAge.Seconds()),
		DestinationConfig: &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: r.DeadLetterBucket.BucketArn()},
		},
		// For the alarms: what is given up, and what is lost.
		MetricsConfig: &awslambda.CfnEventSourceMapping_MetricsConfigProperty{Metrics: jsii.Strings("EventCount")},
	})
	// Lambda refuses a mapping whose role may not read the stream yet.
	mapping.Node().AddDependency(r.Function.Role())
	return mapping
}

func hours(d time.Duration) awscdk.Duration { return awscdk.Duration_Hours(jsii.Number(d.Hours())) }
