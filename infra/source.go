package infra

import (
	"os"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces"
	"github.com/aws/jsii-runtime-go"
)

// A Source is what a [RecordDedupe] reads. The zero value is an on-demand Kinesis stream that the construct makes.
type Source struct{ kind sourceKind }

// FromStream is a Kinesis stream. It may be in another account, if its resource policy allows the function's role to
// read it (docs/deploy.md, "A source in another account").
func FromStream(stream awskinesis.IStream) Source { return Source{streamSource{stream, stream == nil}} }

// FromQueue is a queue. Its visibility timeout must be at least six times the timeout of the function, plus
// Mapping.BatchWindow, and it needs a dead-letter queue, with a MaxReceiveCount of 5 at least. The construct checks both
// for a queue of the app.
func FromQueue(queue awssqs.IQueue) Source {
	return Source{queueSource{queue: queue, missing: queue == nil}}
}

// FromNewQueue is a standard queue that the construct makes, with a dead-letter queue.
func FromNewQueue() Source { return Source{queueSource{}} }

// FromTable is the DynamoDB stream of a table. It keeps changes for 24 hours.
func FromTable(table awsdynamodb.ITable) Source { return Source{tableSource{table}} }

// FromLogGroup is a log group in the stack's account. CloudWatch Logs sends its log events to the function, three times
// at most. The log group must not get the log of the function.
func FromLogGroup(group awslogs.ILogGroup) Source { return Source{&logSource{group: group}} }

// Stream returns the Kinesis stream, or nil for another source.
func (s Source) Stream() awskinesis.IStream {
	stream, _ := s.kind.(streamSource)
	return stream.stream
}

// Queue returns the queue, or nil for another source.
func (s Source) Queue() awssqs.IQueue {
	queue, _ := s.kind.(queueSource)
	return queue.queue
}

// isStream reports whether the source is a Kinesis stream, made or not.
func (s Source) isStream() bool {
	_, ok := s.kind.(streamSource)
	return ok
}

func (s Source) orNewStream() Source {
	if s.kind == nil {
		s.kind = streamSource{}
	}
	return s
}

// A sourceKind is what differs between the kinds of sources.
type sourceKind interface {
	traits() sourceTraits
	// place is where the source is. It is nil if the construct makes the source, or if the resource is missing.
	place() *interfaces.ResourceEnvironment
	isMissing() bool
	// arn is what Lambda reads.
	arn() string
	// scope is the default scope of the ids, as in the function.
	scope() string
	// retention is how long the source keeps a record, or 0 if the app does not know it.
	retention() time.Duration
	// mappingDefaults returns the props of the mapping with their defaults.
	mappingDefaults(p RecordDedupeProps) MappingProps
	// check refuses props that do not fit the source. They have their defaults.
	check(wrong *problems, p RecordDedupeProps)
	// resolved returns the source with its resource, which it makes if there is none.
	resolved(r *RecordDedupe, p RecordDedupeProps) sourceKind
	grants() []grant
	// connect lets Lambda call the function.
	connect(r *RecordDedupe, p RecordDedupeProps)
	alarms(r *RecordDedupe) []alarm
	graphs(r *RecordDedupe) []awscloudwatch.IWidget
	// givenUp are metrics of what Lambda gave up.
	givenUp(r *RecordDedupe) []awscloudwatch.IMetric
	outputs() []output
}

// sourceTraits are facts about a kind of source.
type sourceTraits struct {
	// service decrypts the records with the function's role.
	service string
	// shared says that any number of functions may read the source.
	shared bool
	// positions says that records have positions, which acks name.
	positions bool
	// batches says that Lambda stores what it gives up in the bucket of dead letters.
	batches bool
}

// An output is an output of the stack of [NewStack].
type output struct{ name, description, value string }

// crossAccountWarning is the CDK's id of the warning.
const crossAccountWarning = "oncebox:sourcePolicy"

// checkPlace refuses a source that Lambda cannot read. Lambda reads sources of its own region.
func (s Source) checkPlace(wrong *problems, stack awscdk.Stack) {
	place := s.kind.place()
	if place == nil || *awscdk.Token_IsUnresolved(stack.Region()) {
		return
	}
	if differ(place.Region, stack.Region()) {
		wrong.add("%s is in %s and the stack in %s; Lambda reads only sources of its own region",
			wrong.of("Source"), *place.Region, *stack.Region())
	}
	if _, logs := s.kind.(*logSource); logs && differ(place.Account, stack.Account()) {
		wrong.add("%s is in another account, and CloudWatch Logs calls only functions of its own; let its subscription write to "+
			"a Kinesis stream, and choose that", wrong.of("Source"))
	}
}

// warnOfAccount says that the owner of a source in another account must allow the function to read it. A stack without
// an account of its own is deployed to the account of the CDK's caller.
func (s Source) warnOfAccount(r *RecordDedupe) {
	account := awscdk.Stack_Of(r.Construct).Account()
	if caller := os.Getenv("CDK_DEFAULT_ACCOUNT"); *awscdk.Token_IsUnresolved(account) && caller != "" {
		account = &caller
	}
	if place := s.kind.place(); place != nil && differ(place.Account, account) {
		awscdk.Annotations_Of(r.Construct).AddWarningV2(jsii.String(crossAccountWarning), jsii.String(
			"The source is in the account "+*place.Account+". Its resource policy must allow the role of the function to "+
				"read it, else the deployment fails. docs/deploy.md has the statement."))
	}
}

// retentionLimits are the limits of SourceRetention, and the command that shows it.
type retentionLimits struct {
	shortest, longest, unit time.Duration
	units, command          string
}

// check refuses a horizon that is shorter than the time for which the source keeps a record. known is that time, or 0
// if the app does not know it, or may choose it.
func (l retentionLimits) check(wrong *problems, p RecordDedupeProps, known time.Duration) {
	retention := wrong.of("SourceRetention")
	switch {
	case p.SourceRetention == 0:
		wrong.add("%s needs %s: an existing source does not tell how long it keeps its records; `%s` shows it",
			wrong.of("Source"), retention, l.command)
	case known != 0 && known != p.SourceRetention:
		wrong.add("%s is %s, but %s keeps its records for %s", retention, text(p.SourceRetention), wrong.of("Source"), text(known))
	case p.SourceRetention < l.shortest || p.SourceRetention > l.longest || p.SourceRetention%l.unit != 0:
		wrong.add("%s is %s; choose whole %s from %s to %s",
			retention, text(p.SourceRetention), l.units, text(l.shortest), text(l.longest))
	case p.Settings.Horizon < p.SourceRetention:
		wrong.add("%s is %s, shorter than %s, which is %s: a record that is processed late could find its entry deleted, "+
			"and would be delivered twice", wrong.of("Horizon"), text(p.Settings.Horizon), retention, text(p.SourceRetention))
	}
}

// checkObjects refuses a bucket as the sink of records without positions.
func (p RecordDedupeProps) checkObjects(wrong *problems) {
	if p.Sink.scheme() == "s3" {
		wrong.add("%s is a bucket, which takes the records of Kinesis streams only: an object says by positions in a stream "+
			"which records are done; choose another sink, or let a stream stand before the function", wrong.of("Sink"))
	}
}
