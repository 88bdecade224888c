package infra

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// RecordDedupeProps are the settings of a [RecordDedupe]. Only IDPath is required.
type RecordDedupeProps struct {
	// Rules are what makes two records the same, and what becomes of them.
	Rules RecordRules

	// Source is the stream to read. If it is nil, an on-demand stream is made.
	Source awskinesis.IStream

	// SourceRetention is how long Source keeps its records, 24 h to 365 days. A
	// stream that is made here gets it, by default 7 days, and one that is made in the
	// same app tells. One that exists already does not: look it up, since with a
	// wrong one records may be lost, or delivered twice.
	SourceRetention time.Duration

	// Destination is the stream that gets each record once. If it is nil, an
	// on-demand stream is made, which keeps records as long as the source.
	Destination awskinesis.IStream

	// DedupeTable is the table of entries and checkpoints. If it is nil, one is made
	// as [NewTable] does, by the settings of Table.
	DedupeTable awsdynamodb.ITableV2
	Table       TableProps

	// DeadLetterBucket keeps poison records below poison/SCOPE/, and batches that Lambda
	// gives up below aws/lambda/. If it is nil, an encrypted, private and versioned one is
	// made, which deletes nothing.
	DeadLetterBucket awss3.IBucket

	// NotifyQueue gets a message for each poison record kept. It is a standard queue. If
	// it is nil, one is made.
	NotifyQueue awssqs.IQueue

	// EncryptionKey encrypts the streams, the bucket and the queue that are made here,
	// instead of keys of AWS's. Table has a key of its own.
	EncryptionKey awskms.IKey

	Mapping  MappingProps
	Function FunctionProps
	Alarms   AlarmProps

	// Disposable lets the streams, the bucket and the logs that are made here go with
	// the stack. Table has a setting of its own. That is for tests: what the bucket
	// keeps is nowhere else.
	Disposable bool
}

// RecordRules are the variables of the dedupe function that users set. Empty ones
// leave the function's defaults.
type RecordRules struct {
	IDPath          string        // ONCEBOX_ID_PATH, required
	FingerprintPath string        // ONCEBOX_FINGERPRINT_PATH
	Volatile        []string      // ONCEBOX_VOLATILE
	ContextsPath    string        // ONCEBOX_CONTEXTS_PATH
	IDs             string        // ONCEBOX_IDS
	Scope           string        // ONCEBOX_SCOPE
	Window          time.Duration // ONCEBOX_WINDOW
	Horizon         time.Duration // ONCEBOX_HORIZON; at least SourceRetention
	PassNatural     bool          // ONCEBOX_NATURAL is off
	PassSynthetic   bool          // ONCEBOX_SYNTHETIC is off
	Concurrency     int           // ONCEBOX_CONCURRENCY
}

// RecordDedupe is the dedup of a stream: table, streams, failure store, function,
// event source mapping and alarms. Its parts are there for what the props leave out.
type RecordDedupe struct {
	Construct           constructs.Construct // the scope of what is made
	DedupeTable         awsdynamodb.ITableV2
	Source, Destination awskinesis.IStream
	DeadLetterBucket    awss3.IBucket
	NotifyQueue         awssqs.IQueue
	Function            awslambda.Function
	Mapping             awslambda.CfnEventSourceMapping
}

var dedupeFunction = functionKind{
	code: "dist/dedupe", memoryMiB: 1024, timeout: time.Minute,
	mostTimeout: 15 * time.Minute, // Lambda Developer Guide, "Lambda quotas"
}

// Limits of a stream's retention (Kinesis Developer Guide, "Change the data
// retention period"), and the retention of streams that are made here.
const (
	leastRetention   = 24 * time.Hour
	mostRetention    = 365 * 24 * time.Hour
	defaultRetention = 7 * 24 * time.Hour
)

// NewRecordDedupe makes the dedup of a stream. The error lists everything in the
// props that is wrong.
func NewRecordDedupe(scope constructs.Construct, id string, p RecordDedupeProps) (*RecordDedupe, error) {
	p = p.withDefaults()
	err := p.check(scope)
	if err == nil {
		err = refuseSecondConsumer(scope, p)
	}
	if err != nil {
		return nil, fmt.Errorf("record dedup %s: %w", id, err)
	}
	r := &RecordDedupe{
		Construct:   constructs.NewConstruct(scope, jsii.String(id)),
		DedupeTable: p.DedupeTable, Source: p.Source, Destination: p.Destination,
		DeadLetterBucket: p.DeadLetterBucket, NotifyQueue: p.NotifyQueue,
	}
	if r.DedupeTable == nil {
		r.DedupeTable = newTable(r.Construct, "DedupeTable", p.Table)
	}
	if r.Source == nil {
		r.Source = p.newStream(r.Construct, "Source")
	}
	noteConsumer(r, p.Rules.Scope)
	if r.Destination == nil {
		r.Destination = p.newStream(r.Construct, "Destination")
	}
	if r.DeadLetterBucket == nil {
		r.DeadLetterBucket = newDeadLetterBucket(r.Construct, p.EncryptionKey, p.Disposable)
	}
	if r.NotifyQueue == nil {
		r.NotifyQueue = newNotifyQueue(r.Construct, p.EncryptionKey)
	}
	env := p.environment(names{
		table: *r.DedupeTable.TableName(), scope: scopeOf(p.Rules.Scope, r.Source), destination: *r.Destination.StreamName(),
		bucket: *r.DeadLetterBucket.BucketName(), queueURL: *r.NotifyQueue.QueueUrl(),
	})
	// A new id of this construct is a new name of the function, and a function of
	// another name may not go on from the checkpoints (docs/operations.md).
	r.Function = newFunction(r.Construct, p.Function, env, r.grants(p), p.Disposable)
	r.Mapping = newMapping(r, p.Mapping)
	r.newAlarms(p.Alarms)
	return r, nil
}

func (p RecordDedupeProps) withDefaults() RecordDedupeProps {
	p.Function = p.Function.withDefaults(dedupeFunction)
	if p.SourceRetention == 0 {
		p.SourceRetention = retentionOf(p.Source)
	}
	if p.Rules.Horizon == 0 {
		p.Rules.Horizon = kinesishandler.DefaultHorizon
	}
	p.Mapping = p.Mapping.withDefaults(p.SourceRetention)
	return p
}

// check says all that is wrong. The props have their defaults.
func (p RecordDedupeProps) check(scope constructs.Construct) error {
	wrong := []error{p.Table.check(scope), p.Function.check(dedupeFunction), p.checkRetention(), p.Mapping.check(p.SourceRetention)}
	if p.Source != nil && p.Destination != nil && *p.Source.StreamArn() == *p.Destination.StreamArn() {
		wrong = append(wrong, errors.New("the Source is the Destination: every record would come again, for ever"))
	}
	if err := p.checkPlaces(scope); err != nil {
		wrong = append(wrong, err)
	}
	if p.NotifyQueue != nil && *p.NotifyQueue.Fifo() {
		wrong = append(wrong, errors.New("the NotifyQueue is a FIFO queue, want a standard one"))
	}
	stream := "destination"
	if p.Destination != nil {
		stream = *p.Destination.StreamName()
	}
	env := p.environment(names{nameOf(p.DedupeTable, "dedupe"), scopeOf(p.Rules.Scope, p.Source), stream, "bucket", "https://sqs.us-east-1.amazonaws.com/123456789012/notifier"})
	env["AWS_LAMBDA_FUNCTION_NAME"] = "dedupe"
	_, err := kinesishandler.ParseSettings(env.known())
	return errors.Join(append(wrong, err, env.check())...)
}

// checkPlaces refuses streams that the function cannot reach. It names the
// Destination, so that has to be in the stack's account and region; Lambda reads a
// Source of its own region.
func (p RecordDedupeProps) checkPlaces(scope constructs.Construct) error {
	stack := awscdk.Stack_Of(scope)
	account, region := stack.Account(), stack.Region()
	if p.Source != nil && *awscdk.Token_IsUnresolved(region) {
		region = p.Source.Env().Region
	}
	if s := p.Source; s != nil && differ(s.Env().Region, region) {
		return fmt.Errorf("the Source is in %s and the stack in %s: Lambda reads streams of its own region", *s.Env().Region, *region)
	}
	if d := p.Destination; d != nil && (differ(d.Env().Region, region) || differ(d.Env().Account, account)) {
		return fmt.Errorf("the Destination is in another account or region than the stack, where the function would not find it: %s", *d.StreamArn())
	}
	return nil
}

// differ reports that two values are known and not the same.
func differ(a, b *string) bool {
	return !*awscdk.Token_IsUnresolved(a) && !*awscdk.Token_IsUnresolved(b) && *a != *b
}

func (p RecordDedupeProps) checkRetention() error {
	known := retentionOf(p.Source)
	switch {
	case p.SourceRetention == 0:
		return errors.New("the SourceRetention is missing: a Source that exists already does not tell how long it keeps its records; " +
			"`aws kinesis describe-stream-summary` does")
	case p.Source != nil && known != 0 && known != p.SourceRetention:
		return fmt.Errorf("the SourceRetention is %v, and the Source keeps its records for %v", p.SourceRetention, known)
	case p.SourceRetention < leastRetention || p.SourceRetention > mostRetention || p.SourceRetention%time.Hour != 0:
		return fmt.Errorf("the SourceRetention is %v, want whole hours from %v to %v", p.SourceRetention, leastRetention, mostRetention)
	case p.Rules.Horizon < p.SourceRetention:
		return fmt.Errorf("a Horizon of %v is shorter than the source's retention %v: a record that is processed late could meet "+
			"an entry that is gone already, and be delivered twice", p.Rules.Horizon, p.SourceRetention)
	}
	return nil
}

// scopeOf is the name space of the records' ids: by default the stream's name, which
// is what the function takes.
func scopeOf(scope string, source awskinesis.IStream) string {
	switch {
	case scope != "":
		return scope
	case source == nil:
		return "source"
	}
	return *source.StreamName()
}

// retentionOf is how long a stream keeps its records, as far as the app knows; 0 if
// it does not. Without a stream, one is made.
func retentionOf(source awskinesis.IStream) time.Duration {
	if source == nil {
		return defaultRetention
	}
	stream, ok := source.Node().DefaultChild().(awskinesis.CfnStream)
	if !ok {
		return 0
	}
	if hours := stream.RetentionPeriodHours(); hours != nil {
		return time.Duration(*hours) * time.Hour
	}
	return leastRetention // Kinesis's default
}

// names are what the environment says of resources.
type names struct{ table, scope, destination, bucket, queueURL string }

func (p RecordDedupeProps) environment(n names) environment {
	return environment{
		"ONCEBOX_DEDUPE_TABLE":     n.table,
		"ONCEBOX_ID_PATH":          p.Rules.IDPath,
		"ONCEBOX_SINK":             "kinesis:" + n.destination,
		"ONCEBOX_DEAD_LETTERS":     "s3://" + n.bucket + "/" + poisonPrefix(n.scope),
		"ONCEBOX_NOTIFY_QUEUE_URL": n.queueURL,
		"ONCEBOX_SCOPE":            p.Rules.Scope,
		"ONCEBOX_WINDOW":           durationText(p.Rules.Window),
		"ONCEBOX_HORIZON":          durationText(p.Rules.Horizon),
		"ONCEBOX_FINGERPRINT_PATH": p.Rules.FingerprintPath,
		"ONCEBOX_VOLATILE":         strings.Join(p.Rules.Volatile, ","),
		"ONCEBOX_CONTEXTS_PATH":    p.Rules.ContextsPath,
		"ONCEBOX_IDS":              p.Rules.IDs,
		"ONCEBOX_NATURAL":          switchText(!p.Rules.PassNatural),
		"ONCEBOX_SYNTHETIC":        switchText(!p.Rules.PassSynthetic),
		"ONCEBOX_CHECKPOINT":       switchText(p.Mapping.checkpoint()),
		"ONCEBOX_CONCURRENCY":      numberText(p.Rules.Concurrency),
		"ONCEBOX_LOG_LEVEL":        p.Function.LogLevel,
	}
}

// newStream makes an on-demand stream, encrypted, that stays when the stack goes.
func (p RecordDedupeProps) newStream(scope constructs.Construct, id string) awskinesis.Stream {
	props := &awskinesis.StreamProps{
		StreamMode:      awskinesis.StreamMode_ON_DEMAND,
		RetentionPeriod: hours(p.SourceRetention),
		Encryption:      awskinesis.StreamEncryption_MANAGED,
		RemovalPolicy:   removalPolicy(p.Disposable),
	}
	if p.EncryptionKey != nil {
		props.Encryption, props.EncryptionKey = awskinesis.StreamEncryption_KMS, p.EncryptionKey
	}
	return awskinesis.NewStream(scope, jsii.String(id), props)
}

func (r *RecordDedupe) grants(p RecordDedupeProps) (all []grant) {
	scope := scopeOf(p.Rules.Scope, r.Source)
	for _, grants := range [][]grant{
		dedupeGrants(r.DedupeTable, scope, p.Mapping.checkpoint()), readStream(r.Source), writeStream(r.Destination),
		keepRecords(r.DeadLetterBucket, scope), ringBell(r.NotifyQueue),
	} {
		all = append(all, grants...)
	}
	return all
}
