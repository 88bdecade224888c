package infra

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// RecordDedupeProps are the settings of a [RecordDedupe]. Only Settings.IDPath is required, and only with the
// Settings.Format json.
type RecordDedupeProps struct {
	// Settings are the settings of the function (docs/configuration.md, "Variables of the dedupe function"). Sink and
	// Ledger are addresses of resources that are not of the app. Metrics is on by default. The construct sets DedupeTable
	// and DeadLetters, by props of its own. Horizon must be at least SourceRetention. With the log ledger, ExpectedRate is
	// required, and the function and its mapping have other defaults.
	Settings recordhandler.Settings

	// Source is what the function reads. The zero value is an on-demand Kinesis stream that the construct makes.
	Source Source

	// SourceRetention is how long Source keeps its records. A Kinesis stream that the construct makes gets this
	// retention, 24 hours to 365 days; the default is 7 days. For an existing stream look it up, and for an existing
	// queue add the retention of its dead-letter queue: with a wrong value, records may be lost or delivered twice. Leave
	// it out for a source of the same app, because the construct reads it from there.
	SourceRetention time.Duration

	// Sink gets each record once, if it is a resource of the app. Another resource is named by Settings.Sink. Without
	// both, the construct makes an on-demand stream, which keeps records as long as a Kinesis stream that is the source,
	// and for 7 days with another source.
	Sink Sink

	// DedupeTable is the table of entries and acks. If it is nil, [NewTable] makes it with the settings of Table.
	DedupeTable awsdynamodb.ITableV2
	Table       TableProps

	// DeadLetterBucket stores the poison records in poison/SCOPE/, and the batches of streams that Lambda gives up in
	// aws/lambda/. If it is nil, the construct makes a bucket that is encrypted, private and versioned, and that
	// deletes nothing but what DoneLetterExpiry says.
	DeadLetterBucket awss3.IBucket

	// DoneLetterExpiry is how long after it was stored a dead letter expires that `oncebox redrive` has delivered: whole
	// days, at least 1. A letter that is not done never expires. 0: no letter expires. It is for the bucket that the
	// construct makes.
	DoneLetterExpiry time.Duration

	// NotifyQueue gets a message for each stored poison record. It must be a standard queue. If it is nil, the
	// construct makes one.
	NotifyQueue awssqs.IQueue

	// EncryptionKey encrypts the streams, the bucket and the queue that the construct makes, instead of keys of AWS. It is
	// also the key of what the addresses in Settings name. Table has its own key.
	EncryptionKey awskms.IKey

	// FormerKeys are the keys that encrypted Source, the tables, a bucket of Sink or LedgerSecret before their key
	// was changed or removed. The function may still decrypt with them: a record stays encrypted with the key that
	// its stream had when the record came (docs/operations.md, "Change the key").
	FormerKeys []awskms.IKey

	// LedgerSecret has the password of a Valkey ledger: the password alone, or a JSON object with username and
	// password. The option secret-arn of Settings.Ledger names a secret that is not of the app.
	LedgerSecret awssecretsmanager.ISecret

	// ExpectedRate is the largest number of records a second that you expect, of all shards together. It is for the
	// log ledger. The construct refuses settings that cannot handle it: a window whose entries do not fit into
	// memory, and too few lanes. It does not limit the rate.
	ExpectedRate int

	Mapping  MappingProps
	Function FunctionProps
	Alarms   AlarmProps

	// Disposable deletes the streams, the bucket and the logs that the construct makes with the stack. It is for
	// tests, because the bucket holds the only copy of its records. Table has its own setting.
	Disposable bool

	names naming
}

// RecordDedupe is the dedup of a source: table, streams, bucket, queue, function, event source mapping and alarms. It
// has one source and one destination. For settings that the props do not have, change its parts.
type RecordDedupe struct {
	Construct        constructs.Construct // the scope of the parts that the construct makes
	DedupeTable      awsdynamodb.ITableV2
	Source           Source
	Destination      awskinesis.IStream // nil if the sink is no stream
	DeadLetterBucket awss3.IBucket
	NotifyQueue      awssqs.IQueue
	Function         awslambda.Function
	Alias            awslambda.Alias                 // the alias of the function; the mapping calls it
	Mapping          awslambda.CfnEventSourceMapping // nil if the source is a log group

	// Alarms holds the alarms by their sections in docs/operations.md, as in "iterator-age". Constructs that share a
	// table share its alarm.
	Alarms map[string]awscloudwatch.Alarm

	metrics bool // the function writes metrics
}

var dedupeFunction = functionKind{
	code: "dist/dedupe", memoryMiB: 1024, timeout: time.Minute,
	longestTimeout: 15 * time.Minute, // Lambda Developer Guide, "Lambda quotas"
}

// NewRecordDedupe makes the dedup of a source. Its error lists all problems in the props; then it makes nothing.
func NewRecordDedupe(scope constructs.Construct, id string, p RecordDedupeProps) (*RecordDedupe, error) {
	p = p.withDefaults()
	if err := p.check(scope); err != nil {
		return nil, fmt.Errorf("record dedup %s: %w", id, err)
	}
	return newRecordDedupe(scope, id, p), nil
}

// newRecordDedupe makes the dedup of a source from checked props.
func newRecordDedupe(scope constructs.Construct, id string, p RecordDedupeProps) *RecordDedupe {
	r := &RecordDedupe{
		Construct:        constructs.NewConstruct(scope, jsii.String(id)),
		DedupeTable:      p.DedupeTable,
		DeadLetterBucket: p.DeadLetterBucket, NotifyQueue: p.NotifyQueue, metrics: p.hasMetrics(),
	}
	p.LedgerSecret = p.ledgerAddress().secret(r.Construct, "LedgerSecret", p.EncryptionKey)
	if r.DedupeTable == nil {
		r.DedupeTable = newDedupeTable(r.Construct, "DedupeTable", p.Table)
	}
	r.Source = Source{p.Source.kind.resolved(r, p)}
	r.Source.warnOfAccount(r)
	markConsumer(r, p.Settings.Scope)
	p.Sink = p.Sink.resolved(r.Construct, p)
	p.Sink.requireFreeNames(r.Construct)
	r.Destination = p.Sink.stream
	if r.DeadLetterBucket == nil {
		r.DeadLetterBucket = newDeadLetterBucket(r.Construct, p.EncryptionKey, p.DoneLetterExpiry, p.Disposable)
	}
	if r.NotifyQueue == nil {
		r.NotifyQueue = newNotifyQueue(r.Construct, p.EncryptionKey)
	}
	env := p.environment(resourceNames{
		table: *r.DedupeTable.TableName(), scope: scopeOf(p.Settings.Scope, r.Source), sink: p.Sink.text(),
		bucket: *r.DeadLetterBucket.BucketName(), queueURL: *r.NotifyQueue.QueueUrl(),
		ledger: p.ledgerAddress().with(secretARN(p.LedgerSecret)),
	})
	// If the id of this construct changes, the name of the function changes, and a function with another name may not
	// read the stream in this scope (docs/operations.md).
	r.Function = newFunction(r.Construct, p.Function, env, r.grants(p), p.Disposable)
	if p.Function.hasCanary() {
		r.Alias = newCanaryAlias(r, p.Settings)
	} else {
		r.Alias = newLive(r.Construct, r.Function)
	}
	r.Source.kind.connect(r, p)
	alarms := newAlarmSet(r.Construct, p.Alarms)
	r.newAlarms(alarms, p)
	newCanary(alarms, p.Function, r.Function, r.Alias, canaryOfRecords)
	r.Alarms = alarms.made
	keepOneRegion(r.Construct, r.DedupeTable)
	return r
}

func (p RecordDedupeProps) withDefaults() RecordDedupeProps {
	if p.Sink == (Sink{}) {
		p.Sink, p.Settings.Sink = Sink{address: p.Settings.Sink}, ""
	}
	p.Function = p.Function.withDefaults(p.functionKind())
	p.Alarms = p.Alarms.withDefaults()
	p.Source = p.Source.orNewStream()
	p.SourceRetention = cmp.Or(p.SourceRetention, p.Source.kind.retention())
	if p.Settings.Horizon == 0 {
		p.Settings.Horizon = recordhandler.DefaultHorizon
	}
	p.Settings.Metrics = cmp.Or(p.Settings.Metrics, switchText(true))
	p.Mapping = p.Source.kind.mappingDefaults(p)
	return p
}

// check returns all problems in props that have their defaults.
func (p RecordDedupeProps) check(scope constructs.Construct) error {
	wrong := problems{naming: p.names}
	wrong.join(p.Table.check(scope, p.names), p.Function.check(p.functionKind(), p.names), p.Alarms.check(p.names))
	refuseReplicas(&wrong, "DedupeTable", p.DedupeTable)
	if p.Table.KinesisStream != nil {
		wrong.add("Table.KinesisStream is set, and each entry of a record would be a change; leave it out: it is for a table of claims")
	}
	wrong.checkOwn("DedupeTable", p.Settings.DedupeTable, "DedupeTable")
	wrong.checkOwn("DeadLetters", p.Settings.DeadLetters, "DeadLetterBucket and NotifyQueue: the construct chooses the prefix")
	if p.Settings.Sink != "" {
		wrong.add("Sink and Settings.Sink are both set; choose one")
	}
	p.checkClients(&wrong)
	p.Function.checkCanary(&wrong, p.Settings.LogLevel)
	p.checkDoneExpiry(&wrong)
	if p.Source.kind.isMissing() {
		wrong.add("%s has a resource that is nil; pass the resource, or leave the source out for a new stream", wrong.of("Source"))
		return wrong.err()
	}
	p.Source.kind.check(&wrong, p)
	p.checkPlaces(&wrong, scope)
	if p.NotifyQueue != nil && *p.NotifyQueue.Fifo() {
		wrong.add("%s is a FIFO queue; choose a standard queue", wrong.of("NotifyQueue"))
	}
	letters := "bucket"
	if p.DeadLetterBucket != nil {
		letters = *p.DeadLetterBucket.BucketName()
	}
	env := p.environment(resourceNames{
		table: nameOf(p.DedupeTable, "dedupe"), scope: scopeOf(p.Settings.Scope, p.Source), sink: p.Sink.textToCheck(),
		bucket: letters, queueURL: "https://sqs.us-east-1.amazonaws.com/123456789012/queue",
		ledger: p.ledgerAddress().with(secretToCheck(p.LedgerSecret)),
	})
	wrong.join(env.check())
	env["AWS_LAMBDA_FUNCTION_NAME"], env["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = "dedupe", strconv.Itoa(p.Function.Memory)
	_, options, err := recordhandler.ParseSettings(env.known())
	wrong.join(p.names.functionError(p.Settings, settings.CheckLists(p.Settings)), p.names.functionError(p.Settings, err))
	p.ledgerAddress().check(&wrong)
	if err == nil {
		p.checkServers(&wrong, options)
	}
	if p.checkRate(&wrong) && err == nil {
		p.checkSizes(&wrong, options)
	}
	if wrong.err() == nil {
		wrong.join(refuseSecondConsumer(scope, p))
	}
	return wrong.err()
}

// checkPlaces refuses a source and a sink that Lambda and the function cannot reach, or that are the same.
func (p RecordDedupeProps) checkPlaces(wrong *problems, scope constructs.Construct) {
	before := len(wrong.all)
	stack := awscdk.Stack_Of(scope)
	p.Source.checkPlace(wrong, stack)
	if len(wrong.all) > before {
		return
	}
	region := stack.Region()
	if place := p.Source.kind.place(); place != nil && *awscdk.Token_IsUnresolved(region) {
		region = place.Region
	}
	p.Sink.check(wrong, stack.Account(), region, p.Source)
}

// differ reports whether both values are known and differ.
func differ(a, b *string) bool {
	return !*awscdk.Token_IsUnresolved(a) && !*awscdk.Token_IsUnresolved(b) && *a != *b
}

// scopeOf returns the scope of the records' ids. The default is the one of the function.
func scopeOf(scope string, source Source) string { return cmp.Or(scope, source.kind.scope()) }

// resourceNames are the names of resources in the environment.
type resourceNames struct{ table, scope, sink, bucket, queueURL, ledger string }

func (p RecordDedupeProps) environment(n resourceNames) environment {
	s := p.Settings
	s.DedupeTable, s.Sink, s.Ledger = n.table, n.sink, n.ledger
	s.DeadLetters = address.With("s3://"+n.bucket+"/"+poisonPrefix(n.scope), "notify", n.queueURL)
	return environmentOf(s.Environ())
}

func (p RecordDedupeProps) hasMetrics() bool { return p.Settings.Metrics == switchText(true) }

// newStream makes an encrypted on-demand stream.
func (p RecordDedupeProps) newStream(scope constructs.Construct, id string, retention time.Duration) awskinesis.Stream {
	props := &awskinesis.StreamProps{
		StreamMode:      awskinesis.StreamMode_ON_DEMAND,
		RetentionPeriod: hours(retention),
		Encryption:      awskinesis.StreamEncryption_MANAGED,
		RemovalPolicy:   keepUnlessRolledBack(p.Disposable),
	}
	if p.EncryptionKey != nil {
		props.Encryption, props.EncryptionKey = awskinesis.StreamEncryption_KMS, p.EncryptionKey
	}
	return awskinesis.NewStream(scope, jsii.String(id), props)
}

func (r *RecordDedupe) grants(p RecordDedupeProps) (all []grant) {
	scope, traits := scopeOf(p.Settings.Scope, r.Source), r.Source.kind.traits()
	// Objects themselves say which records are done.
	acks := p.Settings.Acks != switchText(false) && p.Sink.bucket == nil && traits.positions
	for _, grants := range [][]grant{
		p.entryGrants(r.DedupeTable, scope), dedupeGrants(r.DedupeTable, scope, !traits.shared, acks), r.Source.kind.grants(),
		p.Sink.grants(awscdk.Stack_Of(r.Construct)), storeDeadLetters(r.DeadLetterBucket, scope, traits.batches),
		sendMessages(r.NotifyQueue), readSecret(p.LedgerSecret), p.formerKeyGrants(),
	} {
		all = append(all, grants...)
	}
	return all
}
