package infra

import (
	"errors"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
)

// GrantNamespace allows a function of yours to run functions once for the keys of a namespace (package idempotency): to
// read, put and update the rows of the namespace in a table, and no other rows. Make the table with [NewTable]. It can
// be the dedupe table of claims and records.
//
// A table with replicas in other regions is refused: GrantNamespace does not see whether they are strongly consistent.
// The namespace must not have the characters # * ? and $: the policy would allow rows of other namespaces.
func GrantNamespace(table awsdynamodb.ITableV2, namespace string, function awsiam.IGrantable) error {
	wrong := problems{}
	if namespace == "" || strings.ContainsAny(namespace, "#*?$") {
		wrong.add("the namespace is %q; choose a name without the characters # * ? and $, as in payments", namespace)
	}
	refuseReplicas(&wrong, "the table of the namespace", table)
	if err := wrong.err(); err != nil {
		return err
	}
	table.Node().AddValidation(&oneRegion{[]awsdynamodb.ITableV2{table}})
	for _, g := range namespaceGrants(table, namespace) {
		if added := function.GrantPrincipal().AddToPrincipalPolicy(g.statement()); !*added.StatementAdded {
			return errors.New("the principal has no policy to which the permissions can be added; name a function or a role")
		}
	}
	return nil
}
