package infra

import (
	"errors"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"

	"github.com/oncebox/oncebox/pkg/idempotency"
)

// GrantNamespace allows a function of yours to run functions once for the keys of a namespace (package idempotency): to
// read, put and update the rows of the namespace in a table, and no other rows. Make the table with [NewTable]. It can
// be the dedupe table of claims and records.
//
// A table of the app with replicas in other regions is refused. docs/handlers.md#in-two-regions says how to use one.
// A namespace that idempotency.New refuses is refused here, too.
func GrantNamespace(table awsdynamodb.ITableV2, namespace string, function awsiam.IGrantable) error {
	wrong := problems{}
	if err := idempotency.CheckNamespace(namespace); err != nil {
		wrong.add("%w", err)
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

// NewHandlerAlarms makes the alarms of a function that runs once for a key. metrics is the CloudWatch namespace that its
// log lines have: the second argument of idempotency.LogTo. Of an alias or a version, they are the alarms of its function:
// log lines name the function only. It returns the alarms by their sections of docs/operations.md.
func NewHandlerAlarms(
	scope constructs.Construct, id, metrics string, function awslambda.IFunction, p AlarmProps,
) (map[string]awscloudwatch.Alarm, error) {
	p = p.withDefaults()
	wrong := problems{}
	if metrics == "" {
		wrong.add("the namespace of the metrics is empty; write the second argument of idempotency.LogTo")
	}
	if function == nil {
		wrong.add("the function is nil; the alarms read the metrics of one function")
	}
	wrong.join(p.check(nil))
	if err := wrong.err(); err != nil {
		return nil, err
	}
	if qualified, ok := function.(interface{ Lambda() awslambda.IFunction }); ok {
		function = qualified.Lambda()
	}
	count := func(name string) awscloudwatch.IMetric {
		return metric(metrics, name, "Sum", "FunctionName", function.FunctionName())
	}
	alarms := newAlarmSet(constructs.NewConstruct(scope, &id), p)
	alarms.add(
		alarm{
			"SupersededAlarm", "handler-superseded", "An execution lost its key to another one while it ran.",
			count("Superseded"), 1, atOnce, atLeast,
		},
		alarm{
			"NotStoredAlarm", "handler-not-stored", "A result could not be stored, and its repeats are refused.",
			count("NotStored"), 1, atOnce, atLeast,
		},
	)
	return alarms.made, nil
}
