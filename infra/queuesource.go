package infra

import (
	"cmp"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces"
	"github.com/aws/jsii-runtime-go"
)

// queueSource is an SQS queue. The construct makes it if it is nil and not missing.
type queueSource struct {
	queue   awssqs.IQueue
	letters awssqs.IQueue // the dead-letter queue of a queue that the construct makes
	missing bool
	again   time.Duration // the visibility timeout, after which a message that failed comes again
}

// These are numbers of queues that the construct makes.
const (
	// SQS moves a message to the dead-letter queue after so many receives. With the default visibility timeout of six
	// minutes these take ten hours, so that an outage of hours moves nothing. Poison records need no receives: the
	// function stores them in the bucket.
	mostReceives = 100

	// A message that is moved keeps its age, in a standard queue (SQS Developer Guide, "Setting-up dead-letter queue
	// retention"). Together the two are the default horizon.
	queueRetention       = 4 * 24 * time.Hour
	letterQueueRetention = 10 * 24 * time.Hour
)

// These are limits of queues (SQS Developer Guide, "Message quotas"; Lambda Developer Guide, "Creating and configuring an
// Amazon SQS event source mapping").
const (
	shortestQueueRetention   = time.Minute
	longestQueueRetention    = 14 * 24 * time.Hour
	defaultQueueRetention    = 4 * 24 * time.Hour
	defaultVisibilityTimeout = 30 * time.Second
	longestVisibilityTimeout = 12 * time.Hour
	smallQueueBatch          = 10 // the default, the largest of a FIFO queue, and the largest without a window
	visibilityFactor         = 6  // of the timeout of the function
	fewestReceives           = 5  // before SQS moves a message to the dead-letter queue
)

// sourceQueueRetention: a message may stay for the longest retention in the queue and in its dead-letter queue.
var sourceQueueRetention = retentionLimits{
	shortestQueueRetention, 2 * longestQueueRetention, time.Second, "seconds",
	"aws sqs get-queue-attributes --attribute-names All",
}

func (queueSource) traits() sourceTraits { return sourceTraits{service: "sqs", shared: true} }

func (s queueSource) isMissing() bool { return s.missing }

func (s queueSource) place() *interfaces.ResourceEnvironment {
	if s.queue == nil {
		return nil
	}
	return s.queue.Env()
}

func (s queueSource) arn() string { return *s.queue.QueueArn() }

func (s queueSource) scope() string {
	if s.queue == nil {
		return "sqs:source"
	}
	return "sqs:" + *s.queue.QueueName()
}

func (s queueSource) isFIFO() bool { return s.queue != nil && *s.queue.Fifo() }

// retention adds the retention of the dead-letter queue, from which messages may come again.
func (s queueSource) retention() time.Duration {
	if s.queue == nil {
		return queueRetention + letterQueueRetention
	}
	kept := retentionOfQueue(s.queue)
	letters := s.deadLetters()
	if kept == 0 || letters == nil {
		return kept
	}
	if keptThere := retentionOfQueue(letters); keptThere != 0 {
		return kept + keptThere
	}
	return 0
}

// retentionOfQueue returns how long a queue of the app keeps its messages, or 0 for an imported queue.
func retentionOfQueue(queue awssqs.IQueue) time.Duration {
	made, ok := queue.Node().DefaultChild().(awssqs.CfnQueue)
	if !ok {
		return 0
	}
	return cmp.Or(secondsOf(made.MessageRetentionPeriod()), defaultQueueRetention)
}

func secondsOf(n *float64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Second
}

// deadLetters returns the dead-letter queue, or nil if the app does not know it.
func (s queueSource) deadLetters() awssqs.IQueue {
	if s.letters != nil {
		return s.letters
	}
	if made, ok := s.queue.(awssqs.Queue); ok && made.DeadLetterQueue() != nil {
		return made.DeadLetterQueue().Queue
	}
	return nil
}

func (queueSource) mappingDefaults(p RecordDedupeProps) MappingProps {
	p.Mapping.BatchSize = cmp.Or(p.Mapping.BatchSize, smallQueueBatch)
	return p.Mapping
}

// visibility returns the shortest visibility timeout of the queue (Lambda Developer Guide, "Configuring a queue to use
// with Lambda").
func (queueSource) visibility(p RecordDedupeProps) time.Duration {
	return visibilityFactor*p.Function.Timeout + p.Mapping.BatchWindow
}

func (s queueSource) check(wrong *problems, p RecordDedupeProps) {
	sourceQueueRetention.check(wrong, p, s.retention())
	p.checkObjects(wrong)
	largest := maxBatchSize
	if s.isFIFO() {
		largest = smallQueueBatch
	}
	p.Mapping.checkBatches(wrong, largest)
	size, window := wrong.of("BatchSize"), wrong.of("BatchWindow")
	switch m := p.Mapping; {
	case s.isFIFO() && m.BatchWindow != 0:
		wrong.add("%s is %s, and a FIFO queue has no window; leave it out", window, text(m.BatchWindow))
	case !s.isFIFO() && m.BatchSize > smallQueueBatch && m.BatchWindow == 0:
		wrong.add("%s is %d: a batch of more than %d messages needs %s; choose 1s or more", size, m.BatchSize, smallQueueBatch, window)
	}
	if m := p.Mapping; m.Parallelization != 0 || m.Retries != nil || m.RecordAge != 0 {
		wrong.add("%s, %s and %s are for streams; a queue has a visibility timeout and a redrive policy instead; leave them out",
			wrong.of("Parallelization"), wrong.of("Retries"), wrong.of("RecordAge"))
	}
	if (p.hasLog() || p.hasValkey()) && p.Settings.Acks != switchText(false) {
		wrong.add("%s does not store which messages of a queue are done, and would fail every batch; choose keys, or set %s to off",
			wrong.of("Ledger"), wrong.of("Acks"))
	}
	if s.visibility(p) > longestVisibilityTimeout {
		wrong.add("%s is %s: six times of it, the visibility timeout of the queue, is longer than %s",
			wrong.of("Timeout"), text(p.Function.Timeout), text(longestVisibilityTimeout))
	}
	s.checkQueue(wrong, p)
}

// checkQueue refuses a queue of the app that would deliver messages twice at a time, or lose them. The properties of an
// imported queue are not known.
func (s queueSource) checkQueue(wrong *problems, p RecordDedupeProps) {
	if s.queue == nil {
		return
	}
	if p.NotifyQueue != nil && *p.NotifyQueue.QueueArn() == s.arn() {
		wrong.add("%s and %s are the same queue: each message about a dead letter would be the next record, and a dead letter; "+
			"choose another queue", wrong.of("Source"), wrong.of("NotifyQueue"))
	}
	made, ok := s.queue.Node().DefaultChild().(awssqs.CfnQueue)
	if !ok {
		return
	}
	visibility := cmp.Or(secondsOf(made.VisibilityTimeout()), defaultVisibilityTimeout)
	if needed := s.visibility(p); visibility < needed {
		wrong.add("%s has a visibility timeout of %s; with six times the timeout of the function and the batch window it needs "+
			"at least %s", wrong.of("Source"), text(visibility), text(needed))
	}
	if made.RedrivePolicy() == nil {
		wrong.add("%s has no dead-letter queue: SQS would deliver a message that always fails until it deletes it; set its "+
			"DeadLetterQueue", wrong.of("Source"))
	}
	if l2, ok := s.queue.(awssqs.Queue); ok && l2.DeadLetterQueue() != nil && *l2.DeadLetterQueue().MaxReceiveCount < fewestReceives {
		wrong.add("%s moves a message to its dead-letter queue after %.0f receives, and each time that Lambda is throttled is one, "+
			"too: messages that are not at fault would be given up; set MaxReceiveCount to %d or more",
			wrong.of("Source"), *l2.DeadLetterQueue().MaxReceiveCount, fewestReceives)
	}
}

// queueWarning is the CDK's id of the warning.
const queueWarning = "oncebox:sourceQueue"

func (s queueSource) resolved(r *RecordDedupe, p RecordDedupeProps) sourceKind {
	s.again = s.visibility(p)
	if s.queue == nil {
		s.letters = p.newQueue(r, "SourceDeadLetterQueue", &awssqs.QueueProps{RetentionPeriod: days(letterQueueRetention)})
		s.queue = p.newQueue(r, "SourceQueue", &awssqs.QueueProps{
			RetentionPeriod: days(queueRetention), VisibilityTimeout: seconds(s.visibility(p)),
			DeadLetterQueue: &awssqs.DeadLetterQueue{Queue: s.letters, MaxReceiveCount: jsii.Number(mostReceives)},
		})
	} else if s.queue.Node().DefaultChild() == nil {
		awscdk.Annotations_Of(r.Construct).AddWarningV2(jsii.String(queueWarning), jsii.String(
			"The queue of the source was imported, so it is not checked here. It needs a visibility timeout of at least "+
				text(s.visibility(p))+", and a dead-letter queue, on which you set an alarm, with a maxReceiveCount of 5 or more."))
	}
	return s
}

func days(d time.Duration) awscdk.Duration { return awscdk.Duration_Days(jsii.Number(d.Hours() / 24)) }

// newQueue makes an encrypted queue that stays when the stack is deleted: it may hold messages.
func (p RecordDedupeProps) newQueue(r *RecordDedupe, id string, props *awssqs.QueueProps) awssqs.Queue {
	props.Encryption, props.EnforceSSL = awssqs.QueueEncryption_SQS_MANAGED, jsii.Bool(true)
	if p.EncryptionKey != nil {
		props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, p.EncryptionKey
	}
	props.RemovalPolicy = keepUnlessRolledBack(p.Disposable)
	return awssqs.NewQueue(r.Construct, jsii.String(id), props)
}

// grants are for Lambda, which reads the queue with the function's role (AWS managed policy
// AWSLambdaSQSQueueExecutionRole).
func (s queueSource) grants() []grant {
	return append(onKey(s.queue.EncryptionMasterKey(), "sqs", "kms:Decrypt"), grant{[]string{
		"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage",
	}, s.arn(), nil})
}

func (queueSource) connect(r *RecordDedupe, p RecordDedupeProps) {
	r.Mapping = newMapping(r, p.Mapping)
}

func (s queueSource) alarms(r *RecordDedupe) []alarm {
	all := []alarm{
		{"MessageAgeAlarm", "message-age", "Messages wait in the queue.", s.age(), oldestRecord.Seconds(), twice, atLeast},
		{"MessagesFailingAlarm", "messages-failing", "The function fails at messages of the queue.", s.failing(r), 1, twice, atLeast},
	}
	if s.deadLetters() != nil {
		all = append(all, alarm{
			"MessagesGivenUpAlarm", "messages-given-up", "SQS moved messages to the dead-letter queue.",
			s.waitingLetters(), 1, atOnce, atLeast,
		})
	}
	return all
}

// failing counts the messages at which the function failed. The age of a message does not show them: SQS leaves a
// message of a standard queue out of it after three receives (SQS Developer Guide, "Available CloudWatch metrics for
// Amazon SQS"). Lambda counts no error, because the answer names the messages. A period is long enough for a message to
// come again in the next one.
func (s queueSource) failing(r *RecordDedupe) awscloudwatch.IMetric {
	failed := r.Metric(RecordsFailed, nil)
	if !r.metrics {
		failed = r.counted(string(RecordsFailed), string(RecordsFailed), "$.failed")
	}
	period := max(alarmPeriod, (s.again + time.Minute - 1).Truncate(time.Minute))
	return failed.With(&awscloudwatch.MetricOptions{Period: seconds(period)})
}

func (s queueSource) age() awscloudwatch.Metric {
	return metric("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", "QueueName", s.queue.QueueName())
}

func (s queueSource) waitingLetters() awscloudwatch.Metric {
	return metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", "QueueName", s.deadLetters().QueueName())
}

func (s queueSource) graphs(r *RecordDedupe) []awscloudwatch.IWidget {
	return []awscloudwatch.IWidget{
		graph("Messages in the queue", metric("AWS/SQS", "NumberOfMessagesSent", "Sum", "QueueName", s.queue.QueueName()),
			r.mappingMetric("PolledEventCount", "Sum")),
		graph("Age of messages, s", s.age()),
	}
}

func (s queueSource) givenUp(*RecordDedupe) []awscloudwatch.IMetric {
	if s.deadLetters() == nil {
		return nil
	}
	return []awscloudwatch.IMetric{s.waitingLetters()}
}

func (s queueSource) outputs() []output {
	all := []output{{"SourceQueueUrl", "The queue that the function reads", *s.queue.QueueUrl()}}
	if s.letters != nil {
		all = append(all, output{
			"SourceDeadLetterQueueUrl", "Messages that the function could not process", *s.letters.QueueUrl(),
		})
	}
	return all
}
