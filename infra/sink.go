package infra

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/shared/address"
)

// A Sink is a resource of the app that is the destination of a [RecordDedupe]. The zero value is an on-demand stream that
// the construct makes. The options are the ones of an address
// (docs/configuration.md, "Addresses of sinks"), each as in "compression=zstd", without escapes.
type Sink struct {
	address string // with the options; of a resource of the app, only the scheme and the options
	stream  awskinesis.IStream
	queue   awssqs.IQueue
	bucket  awss3.IBucket
	table   awsdynamodb.ITableV2
	place   string // the name of a Firehose stream, or the prefix of objects
	missing bool   // the resource is nil
}

// ToNewStream is the zero Sink with options.
func ToNewStream(options ...string) Sink { return Sink{address: withOptions("kinesis", options)} }

// ToStream is a stream in the stack's account and region.
func ToStream(stream awskinesis.IStream, options ...string) Sink {
	return Sink{address: withOptions("kinesis", options), stream: stream, missing: stream == nil}
}

// ToFirehose is the Firehose stream with a name in the stack's account and region. Its source is Direct PUT.
func ToFirehose(name string, options ...string) Sink {
	return Sink{address: withOptions("firehose", options), place: name}
}

// ToQueue is a queue. In a FIFO queue the message group is the partition key.
func ToQueue(queue awssqs.IQueue, options ...string) Sink {
	return Sink{address: withOptions("sqs", options), queue: queue, missing: queue == nil}
}

// ToBucket is a bucket with objects below a prefix (docs/sinks.md). Mapping.BatchWindow and Mapping.BatchSize set
// the age and the size of objects. The policy of the bucket gets a statement that protects these objects; the policy of
// an imported bucket must have it.
func ToBucket(bucket awss3.IBucket, prefix string, options ...string) Sink {
	return Sink{address: withOptions("s3", options), bucket: bucket, place: prefix, missing: bucket == nil}
}

// ToTable is a table in the stack's account and region. Each record is an item, written in one transaction with its
// entry. The option key is required.
func ToTable(table awsdynamodb.ITableV2, options ...string) Sink {
	return Sink{address: withOptions("dynamodb", options), table: table, missing: table == nil}
}

func withOptions(scheme string, options []string) string {
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		scheme = address.With(scheme, name, value)
	}
	return scheme
}

func (s Sink) scheme() string { return cmp.Or(address.Scheme(s.address), "kinesis") }

// named returns the name in the address. "": the resource is of the app.
func (s Sink) named() string { return address.Parse(s.address).Name }

// isNew reports whether the construct makes the stream.
func (s Sink) isNew() bool {
	return s.scheme() == "kinesis" && s.stream == nil && s.named() == "" && !s.missing
}

// text returns the value of ONCEBOX_SINK. A stream that is not made yet has a stand-in for its name.
func (s Sink) text() string {
	if s.named() != "" {
		return s.address
	}
	place := ""
	switch {
	case s.isNew():
		place = "destination"
	case s.stream != nil:
		place = *s.stream.StreamName()
	case s.queue != nil:
		place = *s.queue.QueueUrl()
	case s.bucket != nil:
		place = "//" + *s.bucket.BucketName() + "/" + strings.Trim(s.place, "/")
	case s.table != nil:
		place = *s.table.TableName()
	default:
		place = s.place
	}
	return s.at(place)
}

// at returns the address with the name of its resource.
func (s Sink) at(place string) string {
	_, options, has := strings.Cut(s.address, "?")
	if has {
		options = "?" + options
	}
	return s.scheme() + ":" + place + options
}

// textToCheck returns the value of ONCEBOX_SINK for the function's parser, which does not know the URL of a queue of the
// app before the deployment.
func (s Sink) textToCheck() string {
	if s.queue == nil {
		return s.text()
	}
	url := "https://sqs.us-east-1.amazonaws.com/123456789012/queue"
	if *s.queue.Fifo() {
		url += ".fifo"
	}
	return s.at(url)
}

// queueURL matches the URL of a queue whose region, account and name can be read. Permissions name them.
var queueURL = regexp.MustCompile(`^https://sqs\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/([0-9]{12})/([a-zA-Z0-9_-]+(?:\.fifo)?)$`)

// check refuses a destination that the function cannot reach, or for which the construct could make no permission. The
// function finds streams and tables by their names, and its client for queues uses one region.
func (s Sink) check(wrong *problems, account, region *string, source Source) {
	name := wrong.of("Sink")
	elsewhere := func(itsAccount, itsRegion *string) {
		if differ(itsRegion, region) || differ(itsAccount, account) {
			wrong.add("%s is in another account or region than the stack; the function would not find it", name)
		}
	}
	if strings.ContainsAny(s.place, "?*") || s.scheme() == "s3" && strings.Contains(s.named(), "*") {
		wrong.add("%s: the prefix of objects and the name of a Firehose stream have neither ? nor *", name)
	}
	switch place := s.named(); {
	case s.missing:
		wrong.add("%s has a resource that is nil; pass the resource, or leave the sink out for a new stream", name)
	case s.stream != nil:
		elsewhere(s.stream.Env().Account, s.stream.Env().Region)
	case s.queue != nil:
		elsewhere(s.queue.Env().Account, s.queue.Env().Region)
	case s.table != nil:
		elsewhere(s.table.Env().Account, s.table.Env().Region)
	case s.scheme() == "s3" && s.bucket == nil && bucketDots.MatchString(bucketOf(place)):
		wrong.add("%s: the name of a bucket has dots only between letters or digits", name)
	case s.scheme() == "ndjson":
		wrong.add("%s is a file, which does not last on Lambda; choose kinesis:, firehose:, sqs:, s3: or dynamodb:", name)
	case s.scheme() == "sqs":
		queue := queueURL.FindStringSubmatch(place)
		if queue == nil && strings.HasPrefix(strings.ToLower(place), "http") {
			wrong.add("%s: write the queue as sqs:https://sqs.REGION.amazonaws.com/ACCOUNT/NAME", name)
		} else if queue != nil {
			elsewhere(&queue[2], &queue[1])
		}
	}
	// The sink is in the stack's account and region, where the source may not be.
	place := source.kind.place()
	if place != nil && !s.isNew() && s.isScope(source.kind.scope()) && !differ(place.Account, account) && !differ(place.Region, region) {
		wrong.add("%s and %s are the same; every record would come back for ever", wrong.of("Source"), name)
	}
}

// isScope reports whether the default scope of a source is the one of a source that is the sink.
func (s Sink) isScope(scope string) bool {
	switch {
	case s.scheme() == "kinesis":
		return s.text() == s.at(scope)
	case s.queue != nil:
		return scope == "sqs:"+*s.queue.QueueName()
	case s.table != nil:
		return scope == "dynamodb:"+*s.table.TableName()
	}
	named := s.named() // an existing queue or table
	return scope == s.scheme()+":"+named[strings.LastIndex(named, "/")+1:]
}

func bucketOf(place string) string {
	bucket, _, _ := strings.Cut(strings.TrimPrefix(place, "//"), "/")
	return bucket
}

// resolved returns the Sink with its resource, imported or made. newStream makes a stream.
func (s Sink) resolved(scope constructs.Construct, p RecordDedupeProps) Sink {
	if s.isNew() {
		retention := defaultRetention
		if p.Source.isStream() {
			retention = p.SourceRetention
		}
		s.stream = p.newStream(scope, "Destination", retention)
		return s
	}
	if s.named() == "" { // of the app
		return s
	}
	id, stack, place := jsii.String("Sink"), awscdk.Stack_Of(scope), s.named()
	switch s.scheme() {
	case "kinesis":
		s.stream = awskinesis.Stream_FromStreamAttributes(scope, id, &awskinesis.StreamAttributes{
			StreamArn: arnOf(stack, "kinesis", "stream", place), EncryptionKey: p.EncryptionKey,
		})
	case "firehose":
		s.place = place
	case "sqs":
		s.queue = importedQueue(scope, place, p)
	case "s3":
		bucket := bucketOf(place)
		s.bucket = awss3.Bucket_FromBucketAttributes(scope, id, &awss3.BucketAttributes{
			BucketName: &bucket, EncryptionKey: p.EncryptionKey,
		})
		s.place = strings.TrimPrefix(strings.TrimPrefix(place, "//"), bucket)
	case "dynamodb":
		s.table = awsdynamodb.TableV2_FromTableAttributes(scope, id, &awsdynamodb.TableAttributesV2{
			TableName: &place, EncryptionKey: p.EncryptionKey,
		})
	}
	return s
}

func arnOf(stack awscdk.Stack, service, kind, name string) *string {
	return stack.FormatArn(&awscdk.ArnComponents{Service: &service, Resource: &kind, ResourceName: &name})
}

func importedQueue(scope constructs.Construct, url string, p RecordDedupeProps) awssqs.IQueue {
	parts := queueURL.FindStringSubmatch(url)
	arn := "arn:" + *awscdk.Aws_PARTITION() + ":sqs:" + parts[1] + ":" + parts[2] + ":" + parts[3]
	attributes := &awssqs.QueueAttributes{QueueArn: &arn}
	if p.EncryptionKey != nil {
		attributes.KeyArn = p.EncryptionKey.KeyArn()
	}
	return awssqs.Queue_FromQueueAttributes(scope, jsii.String("Sink"), attributes)
}

// grants are the permissions to write to the resource of a resolved Sink.
func (s Sink) grants(stack awscdk.Stack) []grant {
	switch {
	case s.queue != nil:
		return sendMessages(s.queue)
	case s.bucket != nil:
		return writeObjects(s.bucket, strings.Trim(s.place, "/"))
	case s.table != nil:
		return putItems(s.table)
	case s.stream != nil:
		return writeStream(s.stream)
	}
	return []grant{{[]string{"firehose:PutRecordBatch"}, *arnOf(stack, "firehose", "deliverystream", s.place), nil}}
}

// bucketPolicyWarning is the CDK's id of the warning. Users acknowledge the warning with it.
const bucketPolicyWarning = "oncebox:bucketPolicy"

// requireFreeNames lets nobody replace an object of data: the policy of the bucket denies a put without If-None-Match
// below the prefix (S3 User Guide, "Enforce conditional writes on Amazon S3 buckets"). The parts of a multipart upload
// have no such header, and are no object yet. Names of data have a dot for their extension; `_head` and `_layout` have
// none, and the function replaces `_head`. The policy of an imported bucket is not changed here: the synthesis warns.
func (s Sink) requireFreeNames(scope constructs.Construct) {
	if s.bucket == nil {
		return
	}
	data := strings.TrimPrefix(strings.Trim(s.place, "/")+"/scope=*/stream=*/shard=*/*.*", "/")
	statement := awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Effect:     awsiam.Effect_DENY,
		Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions:    jsii.Strings("s3:PutObject"),
		Resources:  &[]*string{s.bucket.ArnForObjects(&data)},
		Conditions: &map[string]any{
			"Null": map[string]any{"s3:if-none-match": "true"},
			"Bool": map[string]any{"s3:ObjectCreationOperation": "true"},
		},
	})
	if *s.bucket.AddToResourcePolicy(statement).StatementAdded {
		return
	}
	awscdk.Annotations_Of(scope).AddWarningV2(jsii.String(bucketPolicyWarning), jsii.String(
		"The bucket of the sink was imported, so its policy is not changed here. It must deny puts without If-None-Match "+
			"below the prefix, else other programs can replace objects. docs/sinks.md has the statement."))
}

// writeObjects allows the calls of the object sink. Without s3:ListBucket, S3 answers 403 if an object does not
// exist, and the function could not distinguish that from a missing permission (S3 API reference, "HeadObject"). A
// condition on the prefix would have the same effect, because such a request has no prefix.
func writeObjects(bucket awss3.IBucket, prefix string) []grant {
	read := putObjects(bucket, prefix)
	read.actions = []string{"s3:GetObject", "s3:PutObject"}
	return append(onKey(bucket.EncryptionKey(), "s3", "kms:Decrypt", "kms:GenerateDataKey"),
		read, grant{[]string{"s3:ListBucket"}, *bucket.BucketArn(), nil})
}
