package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/interfaces"
)

// tableSource is the DynamoDB stream of a table.
type tableSource struct{ table awsdynamodb.ITable }

// tableStreamRetention is fixed (DynamoDB Developer Guide, "Change data capture for DynamoDB Streams").
const tableStreamRetention = 24 * time.Hour

var sourceTableRetention = retentionLimits{tableStreamRetention, tableStreamRetention, time.Hour, "hours", ""}

func (tableSource) traits() sourceTraits { return sourceTraits{service: "dynamodb", batches: true} }

func (s tableSource) isMissing() bool { return s.table == nil }

func (s tableSource) place() *interfaces.ResourceEnvironment { return s.table.Env() }

func (s tableSource) arn() string { return *s.table.TableStreamArn() }

func (s tableSource) scope() string { return "dynamodb:" + *s.table.TableName() }

func (tableSource) retention() time.Duration { return tableStreamRetention }

func (tableSource) mappingDefaults(p RecordDedupeProps) MappingProps {
	return streamSource{}.mappingDefaults(p)
}

func (s tableSource) check(wrong *problems, p RecordDedupeProps) {
	sourceTableRetention.check(wrong, p, tableStreamRetention)
	p.checkObjects(wrong)
	wrong.join(p.Mapping.checkOfStream(p.SourceRetention, p.names))
	if s.table.TableStreamArn() == nil {
		wrong.add("%s is a table without a stream, or an imported table without the ARN of its stream; turn the stream on, and "+
			"import the table with TableStreamArn", wrong.of("Source"))
	}
	if p.DedupeTable != nil && *p.DedupeTable.TableName() == *s.table.TableName() {
		wrong.add("%s and %s are the same table: each entry is a change, and the function would run for ever; choose another "+
			"dedupe table", wrong.of("Source"), wrong.of("DedupeTable"))
	}
}

func (s tableSource) resolved(*RecordDedupe, RecordDedupeProps) sourceKind { return s }

// grants are for Lambda, which reads the stream with the function's role (DynamoDB Developer Guide, "IAM policy to allow
// an AWS Lambda function to access DynamoDB stream records"). A list of streams has no stream of its own.
func (s tableSource) grants() []grant {
	return append(onKey(s.table.EncryptionKey(), "dynamodb", "kms:Decrypt", "kms:DescribeKey"), grant{[]string{
		"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator",
	}, s.arn(), nil}, grant{[]string{"dynamodb:ListStreams"}, *s.table.TableArn() + "/stream/*", nil})
}

func (tableSource) connect(r *RecordDedupe, p RecordDedupeProps) {
	r.Mapping = newStreamMapping(r, p.Mapping)
}

func (s tableSource) alarms(r *RecordDedupe) []alarm { return r.streamAlarms(s.writes()) }

// writes is above 0 if the table changed. A stream of a table has no metric of what comes into it.
func (s tableSource) writes() awscloudwatch.Metric {
	return metric("AWS/DynamoDB", "ConsumedWriteCapacityUnits", "Sum", "TableName", s.table.TableName())
}

func (s tableSource) graphs(r *RecordDedupe) []awscloudwatch.IWidget {
	return []awscloudwatch.IWidget{
		graph("Changes of the table", s.writes(), r.mappingMetric("PolledEventCount", "Sum")),
		graph("Age of records, ms", r.iteratorAge()),
	}
}

func (tableSource) givenUp(r *RecordDedupe) []awscloudwatch.IMetric { return r.givenUpBatches() }

func (s tableSource) outputs() []output {
	return []output{{"SourceTable", "The table whose changes the function reads", *s.table.TableName()}}
}
