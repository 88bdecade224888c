package infra

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// uniqueInARegion is the reason why a table may have no replicas. docs/adr/0049-two-regions.md says more.
const uniqueInARegion = "has replicas in other regions. A condition of a write is tested in one region, so two regions " +
	"could hand out one item, deliver one record or run one function twice. Choose a table without replicas, and one " +
	"region for each campaign, stream or namespace"

// hasReplicas reports whether a table of this app is in several regions. For imported tables this is unknown.
func hasReplicas(table awsdynamodb.ITableV2) bool {
	made, ok := table.Node().DefaultChild().(awsdynamodb.CfnGlobalTable)
	if !ok {
		return false
	}
	replicas, _ := awscdk.Stack_Of(table).Resolve(made.Replicas()).([]any)
	return len(replicas) > 1
}

// refuseReplicas refuses a table that has replicas at this point.
func refuseReplicas(wrong *problems, prop string, table awsdynamodb.ITableV2) {
	if table != nil && hasReplicas(table) {
		wrong.add("%s %s", wrong.of(prop), uniqueInARegion)
	}
}

// oneRegion refuses the tables of a construct that got replicas after it was made.
type oneRegion struct{ tables []awsdynamodb.ITableV2 }

func keepOneRegion(scope constructs.Construct, tables ...awsdynamodb.ITableV2) {
	scope.Node().AddValidation(&oneRegion{tables})
}

// Validate returns the problems. The CDK calls it before it makes the template.
func (v *oneRegion) Validate() *[]*string {
	wrong := []*string{}
	for _, table := range v.tables {
		if hasReplicas(table) {
			wrong = append(wrong, jsii.String(fmt.Sprintf("the table %s %s", *table.Node().Path(), uniqueInARegion)))
		}
	}
	return &wrong
}
