package stack

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// TestGrantInvoke checks the calls that a back end may make, and that no other kind of API has such a grant.
func TestGrantInvoke(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		role := awsiam.NewRole(stack, jsii.String("BackEnd"), &awsiam.RoleProps{
			AssumedBy: awsiam.NewServicePrincipal(jsii.String("ecs-tasks.amazonaws.com"), nil),
		})
		for id, auth := range map[string]infra.Auth{"Claims": infra.AuthIAM, "Open": infra.AuthOpen} {
			claims, err := infra.NewClaimAPI(stack, id, infra.ClaimAPIProps{
				Auth: auth, Function: functionProps(t), SweepFunction: sweepProps(t),
			})
			must(t, err)
			_, err = claims.GrantInvoke(role)
			if refused := strings.Contains(fmt.Sprint(err), "GrantInvoke needs Auth=iam; an API with Auth=open"); refused != (id == "Open") {
				t.Errorf("%s: got %v", id, err)
			}
		}
	})
	for id, policy := range tpl.resources(policyType) {
		if !strings.HasPrefix(id, "BackEnd") {
			continue
		}
		var got []string
		for _, s := range policyStatements(policy) {
			got = append(got, rendered(s["Action"])+" "+rendered(s["Resource"]))
		}
		want := "execute-api:Invoke arn:${AWS::Partition}:execute-api:eu-west-1:123456789012:${ClaimsAPI5BA16AE3}/$default/*"
		if !slices.Equal(got, []string{want}) {
			t.Errorf("got %q\nwant %q", got, want)
		}
		return
	}
	t.Error("the back end may call nothing")
}

// TestLogsHaveAKey checks that CloudWatch Logs may use a key of the app, and that an imported key is warned about.
func TestLogsHaveAKey(t *testing.T) {
	for what, key := range map[string]func(awscdk.Stack) awskms.IKey{
		"made": func(stack awscdk.Stack) awskms.IKey { return awskms.NewKey(stack, jsii.String("Key"), nil) },
		"imported": func(stack awscdk.Stack) awskms.IKey {
			return awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String(theirKey))
		},
	} {
		var stack awscdk.Stack
		tpl := synthTheirs(t, nil, func(s awscdk.Stack) {
			stack = s
			function := functionProps(t)
			function.LogKey = key(s)
			_, err := infra.NewClaimAPI(s, "Claims", infra.ClaimAPIProps{Auth: infra.AuthIAM, Function: function, SweepFunction: sweepProps(t)})
			must(t, err)
		})
		for id, group := range tpl.resources(logGroupType) {
			if at(group, "Properties.KmsKeyId") == nil {
				t.Errorf("%s: %s has no key", what, id)
			}
		}
		if got := len(tpl.resources(logGroupType)); got != 3 {
			t.Errorf("%s: %d log groups", what, got)
		}
		allowed := 0
		for _, key := range tpl.resources("AWS::KMS::Key") {
			for _, s := range list(at(key, "Properties.KeyPolicy.Statement")) {
				if rendered(at(s, "Principal.Service")) == "logs.eu-west-1.${AWS::URLSuffix}" &&
					rendered(at(s, "Condition.ArnLike")) == `{"kms:EncryptionContext:aws:logs:arn":`+
						`{"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":logs:eu-west-1:123456789012:*"]]}}` {
					allowed++
				}
			}
		}
		warned := warnings(stack, "key of the logs was imported")
		if (what == "made") != (allowed > 0) || (what == "imported") != (warned > 0) {
			t.Errorf("%s: %d statements and %d warnings", what, allowed, warned)
		}
	}
}

// warnings returns how many warnings of a stack have a text.
func warnings(stack awscdk.Stack, text string) (n int) {
	for _, c := range *stack.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		for _, m := range *c.Node().Metadata() {
			if *m.Type == "aws:cdk:warning" && strings.Contains(fmt.Sprint(m.Data), text) {
				n++
			}
		}
	}
	return n
}

// TestObjectsAreNeverReplaced checks that the policy of a bucket of the app has the statement of docs/sinks.md, and that
// the statement is about objects of data and nothing else. An imported bucket is warned about.
func TestObjectsAreNeverReplaced(t *testing.T) {
	const text = "bucket of the sink was imported"
	for what, bucket := range map[string]func(awscdk.Stack) awss3.IBucket{
		"made": func(stack awscdk.Stack) awss3.IBucket { return awss3.NewBucket(stack, jsii.String("Lake"), nil) },
		"imported": func(stack awscdk.Stack) awss3.IBucket {
			return awss3.Bucket_FromBucketName(stack, jsii.String("Lake"), jsii.String("their-lake"))
		},
	} {
		var stack awscdk.Stack
		tpl := synthTheirs(t, nil, func(s awscdk.Stack) {
			stack = s
			_, err := infra.NewRecordDedupe(s, "Records", infra.RecordDedupeProps{
				Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t),
				Sink: infra.ToBucket(bucket(s), "events/"),
			})
			must(t, err)
		})
		var found []any
		for _, p := range tpl.resources(bucketPolicy) {
			for _, s := range list(at(p, "Properties.PolicyDocument.Statement")) {
				if textAt(s, "Action") == "s3:PutObject" {
					found = append(found, s)
				}
			}
		}
		if n := warnings(stack, text); what == "imported" && (n != 1 || len(found) > 0) {
			t.Errorf("%s: %d warnings, and the statements %v", what, n, found)
		} else if what == "made" && (n > 0 || len(found) != 1) {
			t.Errorf("%s: %d warnings, and the statements %v", what, n, found)
		} else if what == "made" {
			checkReplaced(t, found[0].(map[string]any))
		}
	}
}

// checkReplaced compares a statement with docs/sinks.md, and its resource with the keys of objects.
func checkReplaced(t *testing.T, statement map[string]any) {
	t.Helper()
	_, text, _ := strings.Cut(readText(t, "/docs/sinks.md"), "### The policy of the bucket")
	_, text, _ = strings.Cut(text, "```json\n")
	text, _, _ = strings.Cut(text, "```")
	var documented map[string]any
	must(t, json.Unmarshal([]byte(text), &documented))
	_, resource, _ := strings.Cut(rendered(statement["Resource"]), "/")
	if want := "arn:aws:s3:::BUCKET/PREFIX/" + strings.TrimPrefix(resource, "events/"); documented["Resource"] != want {
		t.Errorf("docs/sinks.md has the resource %s, want %s", documented["Resource"], want)
	}
	for _, s := range []map[string]any{documented, statement} {
		delete(s, "Resource")
		delete(s, "Sid")
	}
	if !reflect.DeepEqual(documented, statement) {
		t.Errorf("docs/sinks.md has %v, and the template %v", documented, statement)
	}
	covered := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(resource), `\*`, ".*") + "$")
	const stream = "events/scope=a.b/stream=123456789012.eu-west-1.or.ders/"
	for key, want := range map[string]bool{
		stream + "shard=shardId-000000000000/056-495903382714-00000000.ndjson.gz": true,
		stream + "shard=shardId-000000000000/056-495903382714-00000000.txt":       true,
		stream + "shard=shardId-000000000000/letter-056-4959.ndjson.zst":          true,
		stream + "shard=shardId-000000000000/_head":                               false,
		stream + "_layout":                         false,
		"other/scope=a/stream=b/shard=c/056-1.txt": false,
		"events/theirs.csv":                        false,
	} {
		if covered.MatchString(key) != want {
			t.Errorf("the statement covers %s: %t", key, !want)
		}
	}
}

// TestPartsForOthers checks the parts that a construct offers to the rest of a stack: each alarm of the template by
// its section, and metrics.
func TestPartsForOthers(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		claims, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{
			Auth: infra.AuthIAM, Function: functionProps(t), Sweep: "off",
		})
		must(t, err)
		records, err := infra.NewRecordDedupe(stack, "Records", infra.RecordDedupeProps{
			Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t),
		})
		must(t, err)
		for _, section := range []string{"claim-server-errors", "throttled-keys", "throttled-keys-bank"} {
			if claims.Alarms[section] == nil {
				t.Errorf("claims have no alarm %s", section)
			}
		}
		if len(claims.Alarms) != 9 || len(records.Alarms) != 12 {
			t.Errorf("there are %d and %d alarms", len(claims.Alarms), len(records.Alarms))
		}
		if claims.Metric(infra.FreeItems, nil) != nil {
			t.Error("no function counts free items")
		}
		rate := records.Metric(infra.RecordsIn, nil)
		rate.CreateAlarm(stack, jsii.String("Quiet"), &awscloudwatch.CreateAlarmOptions{
			Threshold: jsii.Number(1), EvaluationPeriods: jsii.Number(1),
			ComparisonOperator: awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD,
		})
	})
	quiet := tpl.resources(alarmType)["Quiet"]
	for id, a := range tpl.resources(alarmType) {
		if strings.HasPrefix(id, "Quiet") {
			quiet = a
		}
	}
	namespace := rendered(at(quiet, "Properties.Namespace"))
	if textAt(quiet, "Properties.MetricName") != "RecordsIn" || !strings.HasPrefix(namespace, "oncebox/${RecordsFunction") {
		t.Errorf("the alarm of theirs looks at %s of %s", textAt(quiet, "Properties.MetricName"), namespace)
	}
}

// TestAllFunctionsJoinTheVPC checks that the settings of the claim function hold for the sweep, except its reservation.
func TestAllFunctionsJoinTheVPC(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		function := functionProps(t)
		function.Subnets = []awsec2.ISubnet{awsec2.Subnet_FromSubnetId(stack, jsii.String("Subnet"), jsii.String("subnet-0a1b2c3d"))}
		function.SecurityGroups = []awsec2.ISecurityGroup{
			awsec2.SecurityGroup_FromSecurityGroupId(stack, jsii.String("Group"), jsii.String("sg-0a1b2c3d"), nil),
		}
		function.ReservedConcurrency = new(7)
		_, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{Auth: infra.AuthIAM, Function: function, SweepFunction: sweepProps(t)})
		must(t, err)
	})
	var got []string
	for _, f := range tpl.resources(functionType) {
		got = append(got, fmt.Sprint(nameOf(f), " ", rendered(at(f, "Properties.VpcConfig")), " ",
			at(f, "Properties.ReservedConcurrentExecutions")))
	}
	slices.Sort(got)
	const vpc = `{"SecurityGroupIds":["sg-0a1b2c3d"],"SubnetIds":["subnet-0a1b2c3d"]}`
	if want := []string{"claim " + vpc + " 7", "sweep " + vpc + " <nil>"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestDomain checks that the domain points to the stage, and that the output names the target for DNS.
func TestDomain(t *testing.T) {
	t.Parallel()
	tpl := readGolden(t, "jwt")
	for _, mapping := range tpl.resources("AWS::ApiGatewayV2::ApiMapping") {
		if at(mapping, "Properties.Stage") != "$default" || at(mapping, "Properties.ApiMappingKey") != nil {
			t.Errorf("the mapping is %v", mapping)
		}
	}
	for path, want := range map[string]string{
		"Outputs.ApiUrl.Value": "https://claims.example.com",
		"Resources.ClaimsAPI5BA16AE3.Properties.DisableExecuteApiEndpoint": "true",
	} {
		if got := rendered(at(tpl, path)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if target := rendered(at(tpl, "Outputs.DomainTarget.Value")); !strings.HasSuffix(target, ".RegionalDomainName}") {
		t.Errorf("DNS leads to %s", target)
	}
	for id, route := range tpl.resources(routeType) {
		if got := rendered(at(route, "Properties.AuthorizationScopes")); got != `["claims/own","claims/all"]` {
			t.Errorf("%s has the scopes %s", id, got)
		}
	}
}
