package infra

import (
	"fmt"

	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// consumerMetadata marks a RecordDedupe in the construct tree with the names that
// its entries and checkpoints have.
const consumerMetadata = "oncebox:consumer"

// consumerOf names a table, scope and stream that exist outside of the construct.
// It is "" where one of them is made inside: then there is no second consumer.
func consumerOf(p RecordDedupeProps) string {
	if p.DedupeTable == nil || p.Source == nil {
		return ""
	}
	scope := p.Rules.Scope
	if scope == "" {
		scope = *p.Source.StreamName()
	}
	return fmt.Sprintf("table %s, scope %s, stream %s", *p.DedupeTable.TableArn(), scope, *p.Source.StreamArn())
}

// refuseSecondConsumer refuses a second construct over the same entries. To each
// of the two the other's records are its own retries, so both would deliver
// everything, and neither could keep a checkpoint.
func refuseSecondConsumer(scope constructs.Construct, p RecordDedupeProps) error {
	consumer := consumerOf(p)
	if consumer == "" {
		return nil
	}
	for _, c := range *scope.Node().Root().Node().FindAll(constructs.ConstructOrder_PREORDER) {
		for _, m := range *c.Node().Metadata() {
			if *m.Type == consumerMetadata && m.Data == consumer {
				return fmt.Errorf("%s reads the same Source with the same DedupeTable and Scope, and both would deliver every "+
					"record: give one of them a Scope of its own", *c.Node().Path())
			}
		}
	}
	return nil
}

func noteConsumer(r *RecordDedupe, p RecordDedupeProps) {
	if consumer := consumerOf(p); consumer != "" {
		r.Construct.Node().AddMetadata(jsii.String(consumerMetadata), consumer, nil)
	}
}
