package infra

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/functions/dedupe/dedupeapi"
)

// RecordDedupeProps are the settings of a [RecordDedupe]. Only IDPath is required.
type RecordDedupeProps struct {
	// Rules are what makes two records the same, and what becomes of them.
	Rules RecordRules

	// Source is the stream to read. If it is nil, an on-demand stream is made.
	Source awskinesis.IStream

	// SourceRetention is how long Source keeps its records, 24 h to 365 days. A
	// Source of yours does not tell, so it is required with one; a stream that is
	// made here gets it, by default 7 days.
	SourceRetention time.Duration

	// Destination is the stream that gets each record once. If it is nil, an
	// on-demand stream is made, which keeps records as long as the source.
	Destination awskinesis.IStream

	// DedupeTable is the table of entries and checkpoints. If it is nil, one is made
	// as [NewTable] does, by the settings of Table.
	DedupeTable awsdynamodb.ITableV2
	Table       TableProps

	// FailureBucket keeps poison records below poison/, and batches that Lambda gives
	// up below aws/lambda/. If it is nil, an encrypted, private and versioned one is
	// made, which deletes nothing.
	FailureBucket awss3.IBucket

	// BellQueue gets a message for each poison record kept. It is a standard queue. If
	// it is nil, one is made.
	BellQueue awssqs.IQueue

	// EncryptionKey encrypts the streams, the bucket and the queue that are made here,
	// instead of keys of AWS's. Table has a key of its own.
	EncryptionKey awskms.IKey

	Mapping  MappingProps
	Function FunctionProps
	Alarms   AlarmProps
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
	FailureBucket       awss3.IBucket
	BellQueue           awssqs.IQueue
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
		FailureBucket: p.FailureBucket, BellQueue: p.BellQueue,
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
	if r.FailureBucket == nil {
		r.FailureBucket = newFailureBucket(r.Construct, p.EncryptionKey, p.Table.Disposable)
	}
	if r.BellQueue == nil {
		r.BellQueue = newBellQueue(r.Construct, p.EncryptionKey)
	}
	env := p.environment(names{
		table: *r.DedupeTable.TableName(), destination: *r.Destination.StreamName(),
		bucket: *r.FailureBucket.BucketName(), queueURL: *r.BellQueue.QueueUrl(),
	})
	// A new id of this construct is a new name of the function, and a function of
	// another name may not go on from the checkpoints (docs/operations.md).
	r.Function = newFunction(r.Construct, p.Function, env, r.grants(p.Mapping.checkpoint()), p.Table.Disposable)
	r.Mapping = newMapping(r, p.Mapping)
	r.newAlarms(p.Alarms)
	return r, nil
}

func (p RecordDedupeProps) withDefaults() RecordDedupeProps {
	p.Function = p.Function.withDefaults(dedupeFunction)
	if p.SourceRetention == 0 && p.Source == nil {
		p.SourceRetention = defaultRetention
	}
	if p.Rules.Horizon == 0 {
		p.Rules.Horizon = dedupeapi.DefaultHorizon
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
	if p.BellQueue != nil && *p.BellQueue.Fifo() {
		wrong = append(wrong, errors.New("the BellQueue is a FIFO queue, want a standard one"))
	}
	stream := "destination"
	if p.Destination != nil {
		stream = *p.Destination.StreamName()
	}
	env := p.environment(names{nameOf(p.DedupeTable, "dedupe"), stream, "bucket", "https://sqs.us-east-1.amazonaws.com/123456789012/bell"})
	env["AWS_LAMBDA_FUNCTION_NAME"] = "dedupe"
	_, err := dedupeapi.ParseSettings(env.known())
	return errors.Join(append(wrong, err)...)
}

func (p RecordDedupeProps) checkRetention() error {
	switch {
	case p.SourceRetention == 0:
		return errors.New("the SourceRetention is missing: a Source of yours does not tell how long it keeps its records")
	case p.SourceRetention < leastRetention || p.SourceRetention > mostRetention || p.SourceRetention%time.Hour != 0:
		return fmt.Errorf("the SourceRetention is %v, want whole hours from %v to %v", p.SourceRetention, leastRetention, mostRetention)
	case p.Rules.Horizon < p.SourceRetention:
		return fmt.Errorf("a Horizon of %v is shorter than the source's retention %v: a record that is processed late could meet "+
			"an entry that is gone already, and be delivered twice", p.Rules.Horizon, p.SourceRetention)
	}
	return nil
}

// names are what the environment says of resources.
type names struct{ table, destination, bucket, queueURL string }

func (p RecordDedupeProps) environment(n names) environment {
	return environment{
		"ONCEBOX_DEDUPE_TABLE":      n.table,
		"ONCEBOX_ID_PATH":           p.Rules.IDPath,
		"ONCEBOX_SINK":              "kinesis:" + n.destination,
		"ONCEBOX_FAILURE_STORE":     "s3://" + n.bucket + "/" + poisonPrefix,
		"ONCEBOX_FAILURE_QUEUE_URL": n.queueURL,
		"ONCEBOX_SCOPE":             p.Rules.Scope,
		"ONCEBOX_WINDOW":            durationText(p.Rules.Window),
		"ONCEBOX_HORIZON":           durationText(p.Rules.Horizon),
		"ONCEBOX_FINGERPRINT_PATH":  p.Rules.FingerprintPath,
		"ONCEBOX_VOLATILE":          strings.Join(p.Rules.Volatile, ","),
		"ONCEBOX_CONTEXTS_PATH":     p.Rules.ContextsPath,
		"ONCEBOX_IDS":               p.Rules.IDs,
		"ONCEBOX_NATURAL":           switchText(!p.Rules.PassNatural),
		"ONCEBOX_SYNTHETIC":         switchText(!p.Rules.PassSynthetic),
		"ONCEBOX_CHECKPOINT":        switchText(p.Mapping.checkpoint()),
		"ONCEBOX_CONCURRENCY":       numberText(p.Rules.Concurrency),
		"ONCEBOX_LOG_LEVEL":         p.Function.LogLevel,
	}
}

// newStream makes an on-demand stream, encrypted, that stays when the stack goes.
func (p RecordDedupeProps) newStream(scope constructs.Construct, id string) awskinesis.Stream {
	props := &awskinesis.StreamProps{
		StreamMode:      awskinesis.StreamMode_ON_DEMAND,
		RetentionPeriod: hours(p.SourceRetention),
		Encryption:      awskinesis.StreamEncryption_MANAGED,
		RemovalPolicy:   removalPolicy(p.Table.Disposable),
	}
	if p.EncryptionKey != nil {
		props.Encryption, props.EncryptionKey = awskinesis.StreamEncryption_KMS, p.EncryptionKey
	}
	return awskinesis.NewStream(scope, jsii.String(id), props)
}

func (r *RecordDedupe) grants(checkpoint bool) (all []grant) {
	for _, grants := range [][]grant{
		dedupeGrants(r.DedupeTable, checkpoint), readStream(r.Source), writeStream(r.Destination),
		keepRecords(r.FailureBucket), ringBell(r.BellQueue),
	} {
		all = append(all, grants...)
	}
	return all
}
