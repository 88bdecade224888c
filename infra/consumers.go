package infra

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// consumerMetadata marks a RecordDedupe in the construct tree with the table, scope and source of its entries.
const consumerMetadata = "oncebox:consumer"

func consumerOf(table awsdynamodb.ITableV2, scope string, source Source) string {
	return fmt.Sprintf("table %s, scope %s", *table.TableArn(), scopeOf(scope, source)) + sourceOf(source)
}

func sourceOf(source Source) string { return ", source " + source.kind.arn() }

// refuseSecondConsumer refuses a second construct with the same entries. Each of the two would treat the records of
// the other as its own retries, and both would deliver every record. At run time the second function fails every
// batch.
//
// A queue gives each message to one of its functions. So they need the same entries, or none would know the copies that
// the other got.
func refuseSecondConsumer(scope constructs.Construct, p RecordDedupeProps) error {
	_, isQueue := p.Source.kind.(queueSource)
	if p.Source.kind.place() == nil || p.Source.kind.traits().shared && !isQueue {
		return nil // without a place, the construct makes its own source
	}
	consumer := ""
	if p.DedupeTable != nil {
		consumer = consumerOf(p.DedupeTable, p.Settings.Scope, p.Source)
	}
	for _, c := range *scope.Node().Root().Node().FindAll(constructs.ConstructOrder_PREORDER) {
		for _, m := range *c.Node().Metadata() {
			if *m.Type != consumerMetadata {
				continue
			}
			switch same := m.Data == consumer; {
			case same && !isQueue:
				return fmt.Errorf("%s reads the same Source with the same DedupeTable and Scope, so both would deliver every "+
					"record; give one of them another Scope", *c.Node().Path())
			case !same && isQueue && strings.HasSuffix(m.Data.(string), sourceOf(p.Source)):
				return fmt.Errorf("%s reads the same queue with another DedupeTable or Scope, and each message goes to one of both, "+
					"so that copies would be delivered; give both the same DedupeTable and Scope", *c.Node().Path())
			}
		}
	}
	return nil
}

func markConsumer(r *RecordDedupe, scope string) {
	r.Construct.Node().AddMetadata(jsii.String(consumerMetadata), consumerOf(r.DedupeTable, scope, r.Source), nil)
}
