package infra

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/sink/firehosesink"
)

// otherDestination reports whether the destination is not a stream.
func (p RecordDedupeProps) otherDestination() bool {
	return p.DestinationFirehose != "" || p.DestinationQueue != nil || p.DestinationBucket != nil || p.DestinationTable != nil
}

// checkDestination refuses several destinations, and a destination that the function cannot reach. The function finds
// streams and tables by their names, and its client for queues uses one region.
func (p RecordDedupeProps) checkDestination(wrong *problems, account, region *string) {
	var given []string
	check := func(prop string, arn, itsAccount, itsRegion *string) {
		given = append(given, wrong.of(prop))
		if differ(itsRegion, region) || differ(itsAccount, account) {
			wrong.add("%s is %s, in another account or region than the stack; the function would not find it",
				wrong.of(prop), *arn)
		}
	}
	if d := p.Destination; d != nil {
		check("Destination", d.StreamArn(), d.Env().Account, d.Env().Region)
	}
	if name := p.DestinationFirehose; name != "" {
		given = append(given, wrong.of("DestinationFirehose"))
		if _, err := firehosesink.New(nil, token.ReplaceAllString(name, "stand-in-$1")); err != nil {
			wrong.add("%s: %w", wrong.of("DestinationFirehose"), err)
		}
	}
	if d := p.DestinationQueue; d != nil {
		check("DestinationQueue", d.QueueArn(), d.Env().Account, d.Env().Region)
	}
	if p.DestinationBucket != nil { // the name of a bucket is enough everywhere
		given = append(given, wrong.of("DestinationBucket"))
	}
	if t := p.DestinationTable; t != nil {
		check("DestinationTable", t.TableArn(), t.Env().Account, t.Env().Region)
	}
	if len(given) > 1 {
		wrong.add("%s are set; choose one destination", strings.Join(given, " and "))
	}
}

// sinkToCheck returns the variable ONCEBOX_SINK before the destination is made. It has stand-ins for values that only
// the deployment knows.
func (p RecordDedupeProps) sinkToCheck() string {
	switch {
	case p.DestinationFirehose != "":
		return "firehose:unique"
	case p.DestinationQueue != nil:
		url := "https://sqs.us-east-1.amazonaws.com/123456789012/queue"
		if *p.DestinationQueue.Fifo() {
			url += ".fifo"
		}
		return "sqs:" + url
	case p.DestinationBucket != nil:
		return p.objectPlace()
	case p.DestinationTable != nil:
		return "dynamodb:" + *p.DestinationTable.TableName()
	case p.Destination != nil:
		return "kinesis:" + *p.Destination.StreamName()
	}
	return "kinesis:destination"
}

// sink returns the value of the variable ONCEBOX_SINK.
func (r *RecordDedupe) sink(p RecordDedupeProps) string {
	switch {
	case r.DestinationFirehose != "":
		return "firehose:" + r.DestinationFirehose
	case r.DestinationQueue != nil:
		return "sqs:" + *r.DestinationQueue.QueueUrl()
	case r.DestinationBucket != nil:
		return p.objectPlace()
	case r.DestinationTable != nil:
		return "dynamodb:" + *r.DestinationTable.TableName()
	}
	return "kinesis:" + *r.Destination.StreamName()
}

// writeDestination returns the permissions that the sink needs.
func (r *RecordDedupe) writeDestination(p RecordDedupeProps) []grant {
	switch {
	case r.DestinationFirehose != "":
		arn := awscdk.Stack_Of(r.Construct).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("firehose"), Resource: jsii.String("deliverystream"), ResourceName: &r.DestinationFirehose,
		})
		return []grant{{[]string{"firehose:PutRecordBatch"}, *arn, nil}}
	case r.DestinationQueue != nil:
		return sendMessages(r.DestinationQueue)
	case r.DestinationBucket != nil:
		return writeObjects(r.DestinationBucket, p.objectPrefix())
	case r.DestinationTable != nil:
		return putItems(r.DestinationTable)
	}
	return writeStream(r.Destination)
}
