package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// MappingProps are the settings of an event source mapping, with which Lambda reads the source. All are optional.
// Other settings are fixed: the mapping reports partial failures. Of a stream it starts at the oldest record, bisects
// failed batches, and stores the batches that it gives up in the dead-letter bucket.
type MappingProps struct {
	// BatchSize is the largest number of records in a batch, 1 to 10,000, and 1 to 10 for a FIFO queue. The default is
	// 1,000, 10,000 with the log ledger, and 10 for a queue. A batch also ends at 6 MB.
	BatchSize int

	// BatchWindow is how long Lambda collects a batch, in whole seconds up to 5 minutes. The default is 0, which has
	// the lowest latency. A window makes fewer and larger batches, which cost less. With the log ledger the default
	// is 5 s, and the shortest 1 s. A standard queue needs 1 s or more for batches of more than 10 messages. A FIFO queue
	// has no window.
	BatchWindow time.Duration

	// Parallelization, Retries and RecordAge are for streams only.

	// Parallelization is how many batches of a shard are processed at the same time, 1 to 10. The default is 1. It may
	// be changed at any time. With a higher value records keep their order by partition key, and not by shard.
	//
	// The order by key also needs that all records of a KPL aggregate have the partition key of the aggregate. "If
	// the events inside the aggregated event have different partition keys, Lambda cannot guarantee in-order
	// processing of the events by partition key" (Lambda Developer Guide, "Using Lambda to process records from
	// Amazon Kinesis Data Streams"). The KPL puts records of many keys into an aggregate and gives every aggregate
	// the key "a" (awslabs/amazon-kinesis-producer, issues 130 and 439), so more batches would not even be faster. No
	// record is lost or delivered twice in any case.
	Parallelization int

	// Retries is how often Lambda sends a failed batch again before it stores it in the dead-letter bucket, 0 to
	// 10,000. Nil is the default, 10,000. -1 has no limit other than RecordAge. With fewer retries, a record that
	// crashes the function blocks its shard for a shorter time, and an outage fills the bucket sooner.
	Retries *int

	// RecordAge is the age at which Lambda stores a failing record in the dead-letter bucket, in whole seconds from 1
	// minute to 7 days. The default is 80 % of the source's retention: no outage of minutes or hours reaches it, and
	// Kinesis deletes the record well after it.
	RecordAge time.Duration
}

// These are limits and defaults of event source mappings (Lambda API Reference, "CreateEventSourceMapping").
const (
	defaultBatchSize   = 1000
	maxBatchSize       = 10000
	longestBatchWindow = 5 * time.Minute
	maxParallelization = 10
	maxRetries         = 10000
	shortestRecordAge  = time.Minute
	longestRecordAge   = 7 * 24 * time.Hour
)

func (p MappingProps) withStreamDefaults(retention time.Duration) MappingProps {
	if p.BatchSize == 0 {
		p.BatchSize = defaultBatchSize
	}
	if p.Parallelization == 0 {
		p.Parallelization = 1
	}
	if p.Retries == nil {
		p.Retries = new(maxRetries)
	}
	if p.RecordAge == 0 {
		p.RecordAge = min(retention*4/5, longestRecordAge).Truncate(time.Second)
	}
	return p
}

// checkBatches refuses batches that Lambda does not make.
func (p MappingProps) checkBatches(wrong *problems, largest int) {
	if p.BatchSize < 1 || p.BatchSize > largest {
		wrong.add("%s is %d; choose 1 to %d", wrong.of("BatchSize"), p.BatchSize, largest)
	}
	if p.BatchWindow < 0 || p.BatchWindow > longestBatchWindow || p.BatchWindow%time.Second != 0 {
		wrong.add("%s is %s; choose whole seconds up to %s",
			wrong.of("BatchWindow"), text(p.BatchWindow), text(longestBatchWindow))
	}
}

// checkOfStream returns all problems in props that have their defaults.
func (p MappingProps) checkOfStream(retention time.Duration, names naming) error {
	wrong := problems{naming: names}
	p.checkBatches(&wrong, maxBatchSize)
	if p.Parallelization < 1 || p.Parallelization > maxParallelization {
		wrong.add("%s is %d; choose 1 to %d", wrong.of("Parallelization"), p.Parallelization, maxParallelization)
	}
	if *p.Retries < -1 || *p.Retries > maxRetries {
		wrong.add("%s is %d; choose -1 to %d", wrong.of("Retries"), *p.Retries, maxRetries)
	}
	switch age := wrong.of("RecordAge"); {
	case retention == 0: // another check refuses it
	case p.RecordAge < shortestRecordAge || p.RecordAge > longestRecordAge || p.RecordAge%time.Second != 0:
		wrong.add("%s is %s; choose whole seconds from %s to %s",
			age, text(p.RecordAge), text(shortestRecordAge), text(longestRecordAge))
	case p.RecordAge >= retention:
		wrong.add("%s is %s, not shorter than %s, which is %s: the stream would delete a failing record before Lambda "+
			"stores it in the dead-letter bucket", age, text(p.RecordAge), wrong.of("SourceRetention"), text(retention))
	}
	return wrong.err()
}

// newMapping makes the mapping of any source. It uses the CloudFormation resource, because awslambdaeventsources would
// give the role more permissions than grants.go lists.
func newMapping(r *RecordDedupe, p MappingProps) awslambda.CfnEventSourceMapping {
	mapping := awslambda.NewCfnEventSourceMapping(r.Construct, jsii.String("Mapping"), &awslambda.CfnEventSourceMappingProps{
		FunctionName:                   r.Alias.FunctionArn(),
		EventSourceArn:                 jsii.String(r.Source.kind.arn()),
		BatchSize:                      jsii.Number(p.BatchSize),
		MaximumBatchingWindowInSeconds: jsii.Number(p.BatchWindow.Seconds()),
		FunctionResponseTypes:          jsii.Strings("ReportBatchItemFailures"),
		// The alarms on given-up and lost records need these metrics.
		MetricsConfig: &awslambda.CfnEventSourceMapping_MetricsConfigProperty{Metrics: jsii.Strings("EventCount")},
	})
	// Lambda refuses a mapping if its role may not read the source.
	mapping.Node().AddDependency(r.Function.Role())
	return mapping
}

// newStreamMapping makes the mapping of a source that Lambda reads in order.
func newStreamMapping(r *RecordDedupe, p MappingProps) awslambda.CfnEventSourceMapping {
	mapping := newMapping(r, p)
	mapping.SetStartingPosition(jsii.String("TRIM_HORIZON"))
	mapping.SetParallelizationFactor(jsii.Number(p.Parallelization))
	mapping.SetBisectBatchOnFunctionError(jsii.Bool(true))
	mapping.SetMaximumRetryAttempts(jsii.Number(*p.Retries))
	mapping.SetMaximumRecordAgeInSeconds(jsii.Number(p.RecordAge.Seconds()))
	mapping.SetDestinationConfig(&awslambda.CfnEventSourceMapping_DestinationConfigProperty{
		OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: r.DeadLetterBucket.BucketArn()},
	})
	return mapping
}

// readsStream refuses a mapping that a user has changed to read a consumer of the stream.
type readsStream struct {
	mapping      awslambda.CfnEventSourceMapping
	stream       string // the ARN of the stream
	unaggregated bool
}

// enhancedFanOut is the reason why a consumer is refused.
const enhancedFanOut = "with enhanced fan-out Lambda opens KPL aggregates itself: their records cannot be told apart, and " +
	"it drops those whose key is not of the shard"

// Validate returns the problems. The CDK calls it before it makes the template.
func (v *readsStream) Validate() *[]*string {
	if v.unaggregated || *v.mapping.EventSourceArn() == v.stream {
		return jsii.Strings()
	}
	return jsii.Strings("EventSourceArn is not the stream of Source; " + enhancedFanOut + "; choose SourceAggregation off if " +
		"no producer makes aggregates")
}

func hours(d time.Duration) awscdk.Duration { return awscdk.Duration_Hours(jsii.Number(d.Hours())) }
