package infra

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// consumerMetadata marks a RecordDedupe in the construct tree with the table, scope and source of its entries.
const consumerMetadata = "oncebox:consumer"

func consumerOf(table awsdynamodb.ITableV2, scope string, source Source) string {
	return fmt.Sprintf("table %s, scope %s, source %s", *table.TableArn(), scopeOf(scope, source), source.kind.arn())
}

// refuseSecondConsumer refuses a second construct with the same entries. Each of the two would treat the records of
// the other as its own retries, and both would deliver every record. At run time the second function fails every
// batch.
func refuseSecondConsumer(scope constructs.Construct, p RecordDedupeProps) error {
	if p.DedupeTable == nil || p.Source.kind.place() == nil || p.Source.kind.traits().shared {
		return nil // without a place, the construct makes its own source
	}
	consumer := consumerOf(p.DedupeTable, p.Settings.Scope, p.Source)
	for _, c := range *scope.Node().Root().Node().FindAll(constructs.ConstructOrder_PREORDER) {
		for _, m := range *c.Node().Metadata() {
			if *m.Type == consumerMetadata && m.Data == consumer {
				return fmt.Errorf("%s reads the same Source with the same DedupeTable and Scope, so both would deliver every "+
					"record; give one of them another Scope", *c.Node().Path())
			}
		}
	}
	return nil
}

func markConsumer(r *RecordDedupe, scope string) {
	r.Construct.Node().AddMetadata(jsii.String(consumerMetadata), consumerOf(r.DedupeTable, scope, r.Source), nil)
}
