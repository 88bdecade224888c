package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/oncebox/oncebox/internal/claims/scratch"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// RecordsPlay holds the parts that [PlayRecords] uses, with the operator's credentials.
type RecordsPlay struct {
	Lambda   Lambda
	Function Function                                // the dedupe function
	Mappings []types.EventSourceMappingConfiguration // the mappings of the function, as CheckMapping has read them
	Others   []string                                // other dedupe functions that read the same stream
	Acks     dedupe.Acks
	Kinesis  *kinesis.Client
	S3       *s3.Client
	SQS      *sqs.Client
	Wait     time.Duration      // how long a record may take to the destination, after a batching window
	Explain  func(error) string // puts an error of the SDK into plain words
}

// recordsRun is one run of PlayRecords.
type recordsRun struct {
	RecordsPlay
	*script
	options recordhandler.Options
	stream  dedupe.Stream // the source
	arn     string
	scope   string
	letters deadletter.Setting // where the function stores dead letters
	suffix  string

	maxWait time.Duration // Wait plus the time for which Lambda may gather a batch
	begun   time.Time     // when the first records were put, by Kinesis's clock

	put    []dedupe.Position // the positions of all records
	poison dedupe.Position   // the position of the poison record, if it was put and the reply named it
	lost   bool              // the put of the poison record had no reply: the record may be in the stream
	looked bool              // the run has looked for the message about the poison record
	tail   map[string]string // the places from which to read on, by shard of the destination
	seen   map[int][]string  // the ids under which each record was delivered
	packed bool              // some records were delivered in a KPL aggregate
}

func (r *recordsRun) id(n int) string { return fmt.Sprintf("%s%s-%d", scratch.Prefix, r.suffix, n) }

// These are the names of steps that other steps need.
const (
	stepPut  = "scratch records"
	stepDone = "records, from the source to their end"
	stepDead = "dead letter"
)

// PlayRecords puts six scratch records into the source stream: a record, its copy, another record with the same id,
// two in a KPL aggregate, and a poison record. It reads the results, and deletes the dead letter and its
// notification. The records stay in the streams for the retention of the streams: consumers of the destination get
// them. PlayRecords returns ctx.Err() if ctx ends first: the run was interrupted, and its dead letter, if any, was
// deleted.
func PlayRecords(ctx context.Context, p RecordsPlay, report *Report) error {
	r := &recordsRun{
		RecordsPlay: p, script: &script{report.Area("records"), p.Explain, map[string]bool{}},
		suffix: newSuffix(), seen: map[int][]string{},
	}
	cannot := r.readSettings()
	defer r.cleanUp(ctx)
	for _, s := range r.steps(cannot) {
		if err := r.play(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// readSettings reads the settings of the function and finds the stream that it reads. It returns the reason why the
// run cannot use them, or "".
func (r *recordsRun) readSettings() (cannot string) {
	r.options = r.Function.records()
	r.letters, _ = deadletter.ParseSetting(r.options.DeadLetterStore) // ParseSettings has checked it
	mappings := r.Mappings
	if len(mappings) != 1 {
		return fmt.Sprintf("doctor knows %d event source mappings of the function, and needs one", len(mappings))
	}
	r.arn = aws.ToString(mappings[0].EventSourceArn)
	r.maxWait = r.Wait + time.Duration(aws.ToInt32(mappings[0].MaximumBatchingWindowInSeconds))*time.Second
	var err error
	if r.stream, err = dedupe.ParseStreamARN(r.arn); err != nil {
		return "the source is not a Kinesis stream: " + r.arn
	}
	r.scope = cmp.Or(r.options.Scope, r.stream.Name)
	return r.cannotPlay()
}

// cannotPlay returns the reason why the function cannot be checked with scratch records, or "".
func (r *recordsRun) cannotPlay() string {
	env := r.Function.Env
	switch sink := r.options.Sink; {
	case !slices.Contains([]string{"", "json"}, env["ONCEBOX_FORMAT"]):
		return "doctor makes only JSON records, and ONCEBOX_FORMAT is " + env["ONCEBOX_FORMAT"]
	case !slices.Contains([]string{"", "one"}, env["ONCEBOX_SOURCE_RECORDS"]):
		return "doctor puts one record in a payload, and ONCEBOX_SOURCE_RECORDS is " + env["ONCEBOX_SOURCE_RECORDS"]
	case sink.Table != nil:
		return "a scratch record is no item of the destination table " + sink.Table.Name
	case sink.Objects != nil:
		return "a bucket as the destination has no acks; `oncebox objects verify` reads what the function has written"
	case r.options.NoAcks:
		return "without acks (ONCEBOX_ACKS is off) nothing says what is done"
	case len(r.Others) > 0:
		return "the stream is also the source of " + strings.Join(r.Others, ", ") +
			", which would store dead letters that doctor does not delete"
	case suspects(r.options.PoisonLimit):
		return "a few poison records are a wrong setting with ONCEBOX_POISON_LIMIT " + env["ONCEBOX_POISON_LIMIT"] +
			", and a batch with the one of doctor might fail"
	case r.options.Unaggregated:
		return "the function opens no KPL aggregates (ONCEBOX_SOURCE_AGGREGATION is off), and doctor puts one"
	}
	return ""
}

// suspects reports whether the poison records of a few runs are enough to reach the limit at which the function
// suspects a wrong setting. In that case a new container would fail the batch again and again, and the shard would
// wait.
func suspects(limit dedupe.PoisonLimit) bool {
	const few = 5
	return !limit.Off && limit.Share*float64(limit.Records) < few
}

// destination names a stream as the destination, in the words of docs/iam.md.
const destination = "destination stream"

// onScope returns permissions for actions on the rows of a scope.
func (r *recordsRun) onScope(prefix, rest string, actions ...string) (all []Permission) {
	only := "leading keys `" + prefix + "#SCOPE" + rest + "`"
	if rest == "" {
		only = "leading key `" + prefix + "#SCOPE`"
	}
	for _, action := range actions {
		all = append(all, Permission{string(Dedupe), "dynamodb:" + action, dedupeTable, only})
	}
	return all
}

// proofOfDone returns the permissions that the acks of the records prove. An ack comes after the ledger and the
// destination.
func (r *recordsRun) proofOfDone() []Permission {
	all := slices.Concat(r.onScope("consumer", "", "PutItem"), r.onScope("ack", "#*", "PutItem"), r.proofOfEntries())
	switch sink := r.options.Sink; {
	case sink.Stream != nil:
		all = append(all, Permission{string(Dedupe), "kinesis:PutRecords", destination, ""})
	case sink.Firehose != nil:
		all = append(all, Permission{string(Dedupe), "firehose:PutRecordBatch", "destination Firehose stream", ""})
	case sink.Queue != nil:
		all = append(all, Permission{string(Dedupe), "sqs:SendMessage", "destination queue", ""})
	}
	for _, action := range []string{"GetRecords", "GetShardIterator"} {
		all = append(all, Permission{string(Dedupe) + " (Lambda)", "kinesis:" + action, "source stream", ""})
	}
	return all
}

// proofOfDestination returns the permissions that an aggregate in the destination proves.
func (r *recordsRun) proofOfDestination() []Permission {
	if !r.aggregates() {
		return nil
	}
	return []Permission{{string(Dedupe), "kinesis:ListShards", destination, ""}}
}

// proofOfEntries returns the permissions that the ledger needs. It changes an entry only for a record that gets a new
// id because its own id is taken.
func (r *recordsRun) proofOfEntries() []Permission {
	switch ledger := r.options.Ledger; {
	case ledger.Log:
		return r.onScope("log", "#*", "PutItem", "Query")
	case ledger.Valkey != nil:
		return nil
	case r.options.PassSynthetic, r.options.Derive:
		return r.onScope("record", "#*", "PutItem")
	}
	return r.onScope("record", "#*", "PutItem", "UpdateItem")
}

func (r *recordsRun) steps(cannot string) []step {
	noStream, noLetters, noQueue := "", "", ""
	if r.options.Sink.Stream == nil {
		noStream = "doctor reads back streams only; look for " + scratch.Prefix + r.suffix + " in " + r.options.Sink.String()
	}
	if r.letters.Bucket == "" {
		noLetters = "the dead letters are not in a bucket"
	}
	if r.letters.Notify == "" {
		noQueue = "there is no notifier queue"
	}
	const poison = "objects `poison/SCOPE/*` of the account"
	return []step{
		{name: stepPut, not: cannot, run: r.putAll},
		{name: stepDone, after: []string{stepPut}, proves: r.proofOfDone(), run: r.awaitAcks},
		{
			name: "destination", after: []string{stepPut, stepDone}, not: noStream,
			proves: r.proofOfDestination(), run: r.readBack,
		},
		{
			name: stepDead, after: []string{stepPut}, not: noLetters,
			proves: []Permission{{string(Dedupe), "s3:PutObject", "dead-letter bucket", poison}},
			run:    r.readLetter,
		},
		{
			name: "notification", after: []string{stepPut, stepDead}, not: noQueue,
			proves: []Permission{{string(Dedupe), "sqs:SendMessage", "notifier queue", ""}},
			run:    r.takeNotification,
		},
	}
}
