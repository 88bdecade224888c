package stack

import (
	"bytes"
	"debug/elf"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testkit/emftest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
)

// TestPaymentStack: the function of examples/payment may use the rows of its namespace and put charges, and nothing else
// of the tables. The table of its keys keeps its rows safe and deletes old ones.
func TestPaymentStack(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	folder, out := t.TempDir(), t.TempDir()
	must(t, os.CopyFS(filepath.Join(folder, "dist/payment"), os.DirFS(standIn(t, elf.EM_AARCH64))))
	command(t, folder, []string{"CDK_OUTDIR=" + out}, build(t, "./examples/payment/stack"))
	tpl := readTemplate(t, filepath.Join(out, "payments.template.json"))

	var allowed []string
	for _, policy := range tpl.resources(policyType) {
		for _, s := range policyStatements(policy) {
			allowed = append(allowed, inRows(s))
		}
	}
	slices.Sort(allowed)
	want := []string{
		`[dynamodb:GetItem dynamodb:PutItem dynamodb:UpdateItem] ${Once15654B9D.Arn} leading keys ` + "`once#payments#*`",
		`[dynamodb:PutItem] ${Charges260CEA4B.Arn} `,
	}
	if !slices.Equal(allowed, want) {
		t.Errorf("the function may do %q\nwant %q", allowed, want)
	}
	tables, routes := tpl.resources(tableType), tpl.resources("AWS::ApiGatewayV2::Route")
	if len(tables) != 2 || len(routes) != 1 {
		t.Errorf("there are %d tables and %d routes, want 2 and 1", len(tables), len(routes))
	}
	for id, table := range tables {
		if strings.HasPrefix(id, "Charges") {
			continue
		}
		for path, want := range map[string]string{
			"Properties.TimeToLiveSpecification":          `{"AttributeName":"purge_at","Enabled":true}`,
			replica + ".PointInTimeRecoverySpecification": `{"PointInTimeRecoveryEnabled":true}`,
			replica + ".DeletionProtectionEnabled":        "true",
			"DeletionPolicy":                              "Retain",
		} {
			if got := rendered(at(table, path)); got != want {
				t.Errorf("%s: %s is %s, want %s", id, path, got, want)
			}
		}
	}
	for id, route := range routes {
		if kind := rendered(route.properties()["AuthorizationType"]); kind != "JWT" {
			t.Errorf("%s: the authorization is %s", id, kind)
		}
	}
}

// inRows returns a statement in words.
func inRows(s map[string]any) string {
	return fmt.Sprint(list(s["Action"]), " ", rendered(s["Resource"]), " ", conditionInWords(s["Condition"], nil))
}

// TestGrantNamespace: the permissions on a table with a key, and what is refused.
func TestGrantNamespace(t *testing.T) {
	var says []string
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		table := awsdynamodb.TableV2_FromTableAttributes(stack, jsii.String("Seen"), &awsdynamodb.TableAttributesV2{
			TableName: jsii.String("seen"), EncryptionKey: awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String(theirKey)),
		})
		role := awsiam.NewRole(stack, jsii.String("Role"), &awsiam.RoleProps{
			AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		})
		must(t, infra.GrantNamespace(table, "payments", role))
		for _, err := range []error{
			infra.GrantNamespace(table, "", role), infra.GrantNamespace(table, "a#b", role),
			infra.GrantNamespace(table, "pay*", role), infra.GrantNamespace(table, "pay?", role),
			infra.GrantNamespace(table, "${aws:username}", role), infra.GrantNamespace(globalTable(stack), "payments", role),
			infra.GrantNamespace(table, "payments", awsiam.NewAccountRootPrincipal()),
		} {
			says = append(says, fmt.Sprint(err))
		}
	})
	for i, want := range []string{
		`namespace: it has 0 bytes`, `"a#b"`, `"pay*"`, `"pay?"`, `"${aws:username}"`,
		"the table of the namespace has replicas in other regions", "the principal has no policy",
	} {
		if !strings.Contains(says[i], want) {
			t.Errorf("got %s, want %s", says[i], want)
		}
	}
	var rows int
	for _, policy := range tpl.resources(policyType) {
		for _, s := range policyStatements(policy) {
			row := inRows(s)
			if strings.HasPrefix(row, "[dynamodb:") {
				rows++
			}
			if !strings.Contains(row, "once#payments#*") && !strings.Contains(row, "through `dynamodb.*.amazonaws.com*`") {
				t.Errorf("the role may do %s", row)
			}
		}
	}
	if rows != 1 {
		t.Errorf("the role has %d statements about rows, want 1", rows)
	}
}

// withHandlerAlarms makes the alarms of functions that run once for a key.
func withHandlerAlarms(t *testing.T) template {
	t.Helper()
	return synthTheirs(t, nil, func(stack awscdk.Stack) {
		function := awslambda.Function_FromFunctionName(stack, jsii.String("Function"), jsii.String("prod-payment"))
		_, err := infra.NewHandlerAlarms(stack, "Alarms", "payments", function, infra.AlarmProps{
			Topic: awssns.Topic_FromTopicArn(stack, jsii.String("Topic"), jsii.String(theirTopic)),
		})
		must(t, err)
	})
}

// TestHandlerAlarms: the alarms read the metrics that idempotency.LogTo writes for their function into its namespace, and
// tell the topic.
func TestHandlerAlarms(t *testing.T) {
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "prod-payment")
	var line bytes.Buffer
	idempotency.LogTo(slog.New(slog.NewJSONHandler(&line, nil)), "payments")(t.Context(),
		idempotency.Report{Superseded: true, NotStored: true})
	var written, read []string
	for _, point := range emftest.Points(t, line.Bytes()) {
		written = append(written, fmt.Sprint(point.Namespace, " ", point.Name, " ", point.Dimensions))
	}
	for _, a := range withHandlerAlarms(t).resources(alarmType) {
		p := a.properties()
		_, function, _ := strings.Cut(rendered(at(p, "Dimensions.0.Value")), ":function:") // the last part of an ARN
		function, _, _ = strings.Cut(function, `"`)
		read = append(read, fmt.Sprintf("%s %s %s=%s", p["Namespace"], p["MetricName"], at(p, "Dimensions.0.Name"), function))
		if rendered(p["AlarmActions"]) != `["`+theirTopic+`"]` {
			t.Errorf("the alarm is %v", p)
		}
	}
	slices.Sort(written)
	slices.Sort(read)
	if len(read) != 2 || !slices.Equal(read, written) {
		t.Errorf("the alarms read %q, and the line has %q", read, written)
	}
	of := synthTheirs(t, nil, func(stack awscdk.Stack) {
		version := awslambda.Version_FromVersionArn(stack, jsii.String("Version"),
			jsii.String("arn:aws:lambda:eu-west-1:123456789012:function:prod-payment:7"))
		_, err := infra.NewHandlerAlarms(stack, "OfAVersion", "payments", version, infra.AlarmProps{})
		must(t, err)
		_, err = infra.NewHandlerAlarms(stack, "Alarms", "", nil, infra.AlarmProps{RunbookURL: "wiki"})
		for _, want := range []string{"the namespace of the metrics is empty", "the function is nil", `RunbookURL is "wiki"`} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
	for _, a := range of.resources(alarmType) {
		if got := at(a.properties(), "Dimensions.0.Value"); got != "prod-payment" {
			t.Errorf("the alarm of a version reads the metrics of %v", got)
		}
	}
}
