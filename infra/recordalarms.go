package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// oldestRecord is the age of unread records at which the iterator-age alarm goes off. Lambda gives records up much
// later: at 80 % of the retention, which is at least a day.
const oldestRecord = 10 * time.Minute

// unreadPeriod is how long a stream must get records without being read before the alarm about that goes off.
const unreadPeriod = 15 * time.Minute

// newAlarms makes the alarms of the source, the function and its table. If records may be lost, or a person must
// decide, one datapoint is enough.
func (r *RecordDedupe) newAlarms(s alarmSet, p RecordDedupeProps) {
	s.add(r.Source.kind.alarms(r)...)
	s.add(
		alarm{
			"DeadLettersAlarm", "dead-letters", "The function stored records in the dead-letter bucket.",
			r.deadLetters(p), 1, atOnce, atLeast,
		},
		alarm{
			// No metric of AWS shows this, because the retention of a source can be raised after the deployment.
			"PastHorizonAlarm", "records-past-horizon",
			"Records were older than the horizon, which must be at least the stream's retention.",
			r.counted("PastHorizon", "RecordsPastHorizon", "$.past_horizon"), 1, atOnce, atLeast,
		},
	)
	if p.hasLog() {
		s.add(r.logAlarms()...)
	}
	if r.Destination != nil {
		s.made["throttled-stream-destination"] = s.newAlarm(throttledStream("DestinationThrottledAlarm", r.Destination))
	}
	s.addFunction(r.Function, "dedupe", twice)
	s.addTable("throttled-keys", r.DedupeTable)
}

// deadLetters is the number of records that the function stored, plus the number of waiting notifications. The
// function's own count includes records whose notification SQS refused. The notifications keep the alarm on until an
// operator has looked. The metrics of the bucket are not usable: NumberOfObjects is daily and counts old versions.
// PutRequests counts requests that stored nothing, and costs several metrics for each filter.
func (r *RecordDedupe) deadLetters(p RecordDedupeProps) awscloudwatch.IMetric {
	var stored awscloudwatch.IMetric = r.Metric(DeadLetters, over("Sum"))
	if !p.hasMetrics() {
		stored = r.counted("DeadLetters", string(DeadLetters), "$.dead_lettered")
	}
	return calculated("FILL(stored, 0) + FILL(waiting, 0)", metrics{
		"stored": stored,
		"waiting": metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "QueueName",
			r.NotifyQueue.QueueName()),
	}, alarmPeriod)
}

// counted returns a metric of a member of the function's log lines, for lines in which it is above 0.
func (r *RecordDedupe) counted(id, name, member string) awscloudwatch.Metric {
	pattern := awslogs.FilterPattern_NumberValue(jsii.String(member), jsii.String(">"), jsii.Number(0))
	return r.filter(id, name, pattern, member)
}

// filter returns a metric of the function's log lines that match a pattern.
func (r *RecordDedupe) filter(id, name string, pattern awslogs.IFilterPattern, value string) awscloudwatch.Metric {
	return filtered(r.Construct, id, name, r.Function.LogGroup(), pattern, value, r.Function)
}
