package infra

import (
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces"
)

// streamSource is a Kinesis stream. The construct makes it if it is nil and not missing.
type streamSource struct {
	stream  awskinesis.IStream
	missing bool
}

// These are the limits of a stream's retention (Kinesis Developer Guide, "Change the data retention period"), and the
// retention of streams that the construct makes.
const (
	shortestRetention = 24 * time.Hour
	longestRetention  = 365 * 24 * time.Hour
	defaultRetention  = 7 * 24 * time.Hour
)

var streamRetention = retentionLimits{
	shortestRetention, longestRetention, time.Hour, "hours", "aws kinesis describe-stream-summary",
}

func (streamSource) traits() sourceTraits {
	return sourceTraits{service: "kinesis", positions: true, batches: true}
}

func (s streamSource) isMissing() bool { return s.missing }

func (s streamSource) place() *interfaces.ResourceEnvironment {
	if s.stream == nil {
		return nil
	}
	return s.stream.Env()
}

func (s streamSource) arn() string { return *s.stream.StreamArn() }

func (s streamSource) scope() string {
	if s.stream == nil {
		return "source"
	}
	return *s.stream.StreamName()
}

func (s streamSource) retention() time.Duration {
	if s.stream == nil {
		return defaultRetention
	}
	stream, ok := s.stream.Node().DefaultChild().(awskinesis.CfnStream)
	if !ok {
		return 0
	}
	if hours := stream.RetentionPeriodHours(); hours != nil {
		return time.Duration(*hours) * time.Hour
	}
	return shortestRetention // the default of Kinesis
}

func (streamSource) mappingDefaults(p RecordDedupeProps) MappingProps {
	if p.hasLog() {
		p.Mapping = p.Mapping.withLogDefaults()
	}
	return p.Mapping.withStreamDefaults(p.SourceRetention)
}

func (s streamSource) check(wrong *problems, p RecordDedupeProps) {
	known := s.retention()
	if s.stream == nil {
		known = 0 // SourceRetention chooses it
	}
	streamRetention.check(wrong, p, known)
	wrong.join(p.Mapping.checkOfStream(p.SourceRetention, p.names))
	if p.Sink.scheme() == "s3" && p.Mapping.Parallelization != 1 {
		wrong.add("%s is %d, and must be 1 with objects in a bucket: an object says which records are done by the first and "+
			"the last one", wrong.of("Parallelization"), p.Mapping.Parallelization)
	}
	if s.stream != nil && strings.Contains(s.arn(), consumerPath) {
		wrong.add("%s is a consumer of a stream; choose the stream: %s", wrong.of("Source"), enhancedFanOut)
	}
}

// consumerPath is in the ARN of a consumer with enhanced fan-out.
const consumerPath = "/consumer/"

func (s streamSource) resolved(r *RecordDedupe, p RecordDedupeProps) sourceKind {
	if s.stream == nil {
		s.stream = p.newStream(r.Construct, "Source", p.SourceRetention)
	}
	return s
}

// grants are for Lambda, which reads the stream with the function's role (Lambda Developer Guide, "Using Lambda to
// process records from Amazon Kinesis Data Streams", execution role permissions).
func (s streamSource) grants() []grant {
	return append(onKey(s.stream.EncryptionKey(), "kinesis", "kms:Decrypt"), grant{[]string{
		"kinesis:DescribeStream", "kinesis:DescribeStreamSummary", "kinesis:GetRecords",
		"kinesis:GetShardIterator", "kinesis:ListShards",
	}, s.arn(), nil})
}

func (s streamSource) connect(r *RecordDedupe, p RecordDedupeProps) {
	r.Mapping = newStreamMapping(r, p.Mapping)
	unaggregated := p.Settings.SourceAggregation == switchText(false)
	r.Mapping.Node().AddValidation(&readsStream{r.Mapping, s.arn(), unaggregated})
}

func (s streamSource) alarms(r *RecordDedupe) []alarm {
	return append(r.streamAlarms(s.records()), throttledStream("SourceThrottledAlarm", s.stream))
}

// records is the number of records that producers put into the stream.
func (s streamSource) records() awscloudwatch.Metric {
	return metric("AWS/Kinesis", "IncomingRecords", "Sum", "StreamName", s.stream.StreamName())
}

func (s streamSource) graphs(r *RecordDedupe) []awscloudwatch.IWidget {
	return []awscloudwatch.IWidget{
		graph("Records in the stream", s.records(), r.mappingMetric("PolledEventCount", "Sum")),
		graph("Age of records, ms", r.iteratorAge()),
	}
}

func (streamSource) givenUp(r *RecordDedupe) []awscloudwatch.IMetric { return r.givenUpBatches() }

func (s streamSource) outputs() []output {
	return []output{{"SourceStream", "The stream that the function reads", *s.stream.StreamName()}}
}

// streamAlarms are the alarms of a source that Lambda reads in order. records counts what producers put into it.
func (r *RecordDedupe) streamAlarms(records awscloudwatch.Metric) []alarm {
	return []alarm{
		{
			"IteratorAgeAlarm", "iterator-age", "Records wait in the stream.", r.iteratorAge(),
			float64(oldestRecord.Milliseconds()), twice, atLeast,
		},
		{"StreamNotReadAlarm", "stream-not-read", "Lambda does not read the stream.", r.unread(records), 1, atOnce, atLeast},
		{
			"BatchesGivenUpAlarm", "batches-given-up", "Lambda gave up batches and stored them in the dead-letter bucket.",
			r.mappingMetric("OnFailureDestinationDeliveredEventCount", "Sum"), 1, atOnce, atLeast,
		},
		r.deliveryFailures(),
		{
			"RecordsLostAlarm", "records-lost", "Lambda gave up records and did not store them.",
			r.mappingMetric("DroppedEventCount", "Sum"), 1, atOnce, atLeast,
		},
	}
}

func (r *RecordDedupe) deliveryFailures() alarm {
	return alarm{
		"DeliveryFailuresAlarm", "destination-delivery-failures", "Lambda cannot write to the dead-letter bucket.",
		metric("AWS/Lambda", "DestinationDeliveryFailures", "Sum", "FunctionName", r.Function.FunctionName()), 1, atOnce, atLeast,
	}
}

func (r *RecordDedupe) iteratorAge() awscloudwatch.Metric {
	return metric("AWS/Lambda", "IteratorAge", "Maximum", "FunctionName", r.Function.FunctionName())
}

func (r *RecordDedupe) mappingMetric(name, statistic string) awscloudwatch.Metric {
	return metric("AWS/Lambda", name, statistic, "EventSourceMappingUUID", r.Mapping.Ref())
}

func (r *RecordDedupe) givenUpBatches() []awscloudwatch.IMetric {
	return []awscloudwatch.IMetric{
		r.mappingMetric("OnFailureDestinationDeliveredEventCount", "Sum"), r.mappingMetric("DroppedEventCount", "Sum"),
	}
}

// unread is 1 if the stream got records and Lambda did not poll it once. IteratorAge has no value while the function
// does not run. A mapping counts every poll, even a poll without records. Without new records the value is 0, because
// a new stack has no polls before its mapping has begun.
func (r *RecordDedupe) unread(records awscloudwatch.Metric) awscloudwatch.IMetric {
	period := &awscloudwatch.MetricOptions{Period: seconds(unreadPeriod)}
	return calculated("IF(FILL(records, 0) > 0 && FILL(polls, 0) == 0, 1, 0)", metrics{
		"records": records.With(period), "polls": r.mappingMetric("PolledEventCount", "SampleCount").With(period),
	}, unreadPeriod)
}

// throttledStream is the alarm of a stream. It counts the reads and the records of writes that Kinesis throttled.
func throttledStream(id string, stream awskinesis.IStream) alarm {
	return alarm{
		id, "throttled-stream", "Kinesis throttles the stream.", calculated("FILL(reads, 0) + FILL(writes, 0)", metrics{
			"reads": throttledReads(stream), "writes": throttledWrites(stream),
		}, alarmPeriod), throttledRequests, twice, atLeast,
	}
}
