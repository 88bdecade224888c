package stack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscognito"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticache"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// TestNothingIsMadeOfWhatExists checks that an existing resource is neither made nor changed, for example by a policy
// of a bucket.
func TestNothingIsMadeOfWhatExists(t *testing.T) {
	for name, tpl := range map[string]template{
		"without a key": readGolden(t, "existing"),
		"with a key":    synth(t, values(everythingExists+"; encryption-key="+theirKey)),
	} {
		made := []string{tableType, streamType, bucketType, bucketPolicy, queueType, queuePolicy, "AWS::KMS::Key"}
		for _, kind := range made {
			for id := range tpl.resources(kind) {
				t.Errorf("%s: %s, a %s, is made", name, id, kind)
			}
		}
	}
}

// TestEachResourceHasItsKey checks with keys of each resource that a role may use each one only through its own service.
func TestEachResourceHasItsKey(t *testing.T) {
	const keys = "arn:aws:kms:eu-west-1:123456789012:key/"
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		key := func(name string) awskms.IKey {
			return awskms.Key_FromKeyArn(stack, jsii.String(name), jsii.String(keys+name))
		}
		table := func(name string) awsdynamodb.ITableV2 {
			return awsdynamodb.TableV2_FromTableAttributes(stack, jsii.String(name+"Table"),
				&awsdynamodb.TableAttributesV2{TableName: jsii.String(name), EncryptionKey: key(name)})
		}
		stream := func(name string) awskinesis.IStream {
			return awskinesis.Stream_FromStreamAttributes(stack, jsii.String(name+"Stream"), &awskinesis.StreamAttributes{
				StreamArn: jsii.String("arn:aws:kinesis:eu-west-1:123456789012:stream/" + name), EncryptionKey: key(name),
			})
		}
		dedupe := table("dedupe")
		_, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{
			Auth: infra.AuthIAM, Function: functionProps(t), SweepFunction: sweepProps(t),
			BankTable: table("bank"), DedupeTable: dedupe,
		})
		must(t, err)
		_, err = infra.NewRecordDedupe(stack, "Records", infra.RecordDedupeProps{
			Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t), DedupeTable: dedupe,
			Source: infra.FromStream(stream("source")), SourceRetention: 24 * time.Hour, Sink: infra.ToStream(stream("destination")),
			DeadLetterBucket: awss3.Bucket_FromBucketAttributes(stack, jsii.String("Bucket"),
				&awss3.BucketAttributes{BucketName: jsii.String("their-dead-letters"), EncryptionKey: key("bucket")}),
			NotifyQueue: awssqs.Queue_FromQueueAttributes(stack, jsii.String("Queue"),
				&awssqs.QueueAttributes{QueueArn: jsii.String(theirQueue), KeyArn: key("queue").KeyArn()}),
		})
		must(t, err)
		for id, source := range map[string]infra.Source{
			"Messages": infra.FromQueue(awssqs.Queue_FromQueueAttributes(stack, jsii.String("Work"),
				&awssqs.QueueAttributes{QueueArn: jsii.String(theirQueue + "-work"), KeyArn: key("work").KeyArn()})),
			"Changes": infra.FromTable(awsdynamodb.TableV2_FromTableAttributes(stack, jsii.String("Items"), &awsdynamodb.TableAttributesV2{
				TableName: jsii.String("their-items"), TableStreamArn: jsii.String(theirTable), EncryptionKey: key("items"),
			})),
		} {
			p := infra.RecordDedupeProps{Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t), Source: source}
			if source.Queue() != nil {
				p.SourceRetention = 24 * time.Hour
			}
			_, err = infra.NewRecordDedupe(stack, id, p)
			must(t, err)
		}
	})
	var got []string
	for id, policy := range tpl.resources(policyType) {
		for _, s := range policyStatements(policy) {
			if key, ours := strings.CutPrefix(rendered(s["Resource"]), keys); ours {
				role, _, _ := strings.Cut(id, "Function")
				got = append(got, role+" "+key+" "+rendered(at(s, "Condition.StringLike")))
			}
		}
	}
	slices.Sort(got)
	if want := []string{
		`Changes items {"kms:ViaService":"dynamodb.*.amazonaws.com*"}`,
		`Claims bank {"kms:ViaService":"dynamodb.*.amazonaws.com*"}`,
		`Claims dedupe {"kms:ViaService":"dynamodb.*.amazonaws.com*"}`,
		`ClaimsSweep bank {"kms:ViaService":"dynamodb.*.amazonaws.com*"}`,
		`ClaimsSweep dedupe {"kms:ViaService":"dynamodb.*.amazonaws.com*"}`,
		`Messages work {"kms:ViaService":"sqs.*.amazonaws.com*"}`,
		`Records bucket {"kms:ViaService":"s3.*.amazonaws.com*"}`,
		`Records dedupe {"kms:ViaService":"dynamodb.*.amazonaws.com*"}`,
		`Records destination {"kms:ViaService":"kinesis.*.amazonaws.com*"}`,
		`Records queue {"kms:ViaService":"sqs.*.amazonaws.com*"}`,
		`Records source {"kms:ViaService":"kinesis.*.amazonaws.com*"}`,
	}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestStacksShareATable puts the table into one stack and each construct into another, as where different people deploy
// them. Only the name of the table goes from one stack to the others.
func TestStacksShareATable(t *testing.T) {
	app := newApp(t, nil)
	data := awscdk.NewStack(app, jsii.String("data"), nil)
	dedupe, err := infra.NewTable(data, "Entries", infra.TableProps{})
	must(t, err)
	claims := awscdk.NewStack(app, jsii.String("claims"), nil)
	_, err = infra.NewClaimAPI(claims, "Claims", infra.ClaimAPIProps{
		Auth: infra.AuthIAM, Function: functionProps(t), SweepFunction: sweepProps(t), DedupeTable: dedupe,
	})
	must(t, err)
	records := awscdk.NewStack(app, jsii.String("records"), nil)
	_, err = infra.NewRecordDedupe(records, "Records", infra.RecordDedupeProps{
		Settings: recordhandler.Settings{IDPath: "id"}, Function: functionProps(t), DedupeTable: dedupe,
	})
	must(t, err)

	made := templateOf(t, app, data)
	if got := len(made.resources(tableType)); got != 1 || len(made["Resources"].(map[string]any)) != 1 {
		t.Errorf("the stack of the table has %d tables among %v", got, made["Resources"])
	}
	for stack, tables := range map[awscdk.Stack]int{claims: 1, records: 0} {
		tpl := templateOf(t, app, stack)
		if got := len(tpl.resources(tableType)); got != tables {
			t.Errorf("%s has %d tables, want %d", *stack.StackName(), got, tables)
		}
		for _, f := range tpl.resources(functionType) {
			name := textAt(f, "Properties.Environment.Variables.ONCEBOX_DEDUPE_TABLE.Fn::ImportValue")
			if !strings.HasPrefix(name, "data:ExportsOutputRefEntries") {
				t.Errorf("%s uses the table %v", *stack.StackName(), name)
			}
		}
		var dependsOn []string
		for _, d := range *stack.Dependencies() {
			dependsOn = append(dependsOn, *d.StackName())
		}
		if !slices.Equal(dependsOn, []string{"data"}) {
			t.Errorf("%s depends on %v", *stack.StackName(), dependsOn)
		}
	}
}

// TestSourcesOfOthers reads a stream of another account, and writes to a stream of its name, which is no loop. It reads a
// queue that exists. The synthesis says what the owners of both have to do.
func TestSourcesOfOthers(t *testing.T) {
	var stack awscdk.Stack
	synthTheirs(t, nil, func(made awscdk.Stack) {
		stack = made
		elsewhere := jsii.String(strings.Replace(theirStream, "123456789012", "210987654321", 1))
		for id, p := range map[string]infra.RecordDedupeProps{
			"Records": {
				Settings: recordhandler.Settings{IDPath: "id", Sink: "kinesis:theirs"}, SourceRetention: 24 * time.Hour,
				Source: infra.FromStream(awskinesis.Stream_FromStreamArn(stack, jsii.String("Source"), elsewhere)),
			},
			"Messages": {
				Settings: recordhandler.Settings{IDPath: "id"}, SourceRetention: 14 * 24 * time.Hour,
				Source: infra.FromQueue(awssqs.Queue_FromQueueArn(stack, jsii.String("Queue"), jsii.String(theirQueue))),
			},
		} {
			p.Function = functionProps(t)
			_, err := infra.NewRecordDedupe(stack, id, p)
			must(t, err)
		}
	})
	for _, text := range []string{
		"The source is in the account 210987654321. Its resource policy must allow",
		"It needs a visibility timeout of at least 6m, and a dead-letter queue",
	} {
		if got := warnings(stack, text); got != 1 {
			t.Errorf("%d warnings have %q", got, text)
		}
	}
}

// TestServersMayBeMadeInTheStack takes VPC, password and address of a Valkey ledger from the stack: only the deployment
// knows their names.
func TestServersMayBeMadeInTheStack(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		vpc := awsec2.NewVpc(stack, jsii.String("Vpc"), nil)
		cache := awselasticache.NewCfnServerlessCache(stack, jsii.String("Cache"), &awselasticache.CfnServerlessCacheProps{
			Engine: jsii.String("valkey"), ServerlessCacheName: jsii.String("theirs"),
		})
		function := functionProps(t)
		function.Subnets = *vpc.PrivateSubnets()
		function.SecurityGroups = []awsec2.ISecurityGroup{
			awsec2.NewSecurityGroup(stack, jsii.String("Group"), &awsec2.SecurityGroupProps{Vpc: vpc}),
		}
		_, err := infra.NewRecordDedupe(stack, "Records", infra.RecordDedupeProps{
			Settings: recordhandler.Settings{IDPath: "id", Ledger: "valkeys://" + *cache.AttrEndpointAddress() + ":6379"},
			Function: function, LedgerSecret: awssecretsmanager.NewSecret(stack, jsii.String("Password"), nil),
		})
		must(t, err)
	})
	var got []string
	for _, function := range tpl.resources(functionType) {
		got = append(got, rendered(at(function, variables+".ONCEBOX_LEDGER")),
			rendered(at(function, "Properties.VpcConfig.SubnetIds.0")), rendered(at(function, "Properties.VpcConfig.SecurityGroupIds.0")))
	}
	for _, policy := range tpl.resources(policyType) {
		for _, s := range policyStatements(policy) {
			if rendered(s["Action"]) == "secretsmanager:GetSecretValue" {
				got = append(got, rendered(s["Resource"]))
			}
		}
	}
	if want := []string{
		"valkeys://${Cache.Endpoint.Address}:6379?secret-arn=${Password67973E0B}", "${VpcPrivateSubnet1Subnet536B997A}",
		"${GroupC77FDACD.GroupId}", "${Password67973E0B}",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestIssuerMayBeMadeInTheStack takes issuer and audience from a user pool, whose names only the deployment knows.
func TestIssuerMayBeMadeInTheStack(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		pool := awscognito.NewUserPool(stack, jsii.String("Pool"), nil)
		client := pool.AddClient(jsii.String("Web"), nil)
		_, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{
			Auth: infra.AuthJWT, JWTIssuer: *pool.UserPoolProviderUrl(), JWTAudience: []string{*client.UserPoolClientId()},
			Function: functionProps(t), SweepFunction: sweepProps(t),
		})
		must(t, err)
	})
	for id, a := range tpl.resources(authorizerType) {
		issuer := rendered(at(a, "Properties.JwtConfiguration.Issuer"))
		audience := rendered(at(a, "Properties.JwtConfiguration.Audience.0"))
		if !strings.Contains(issuer, "${Pool") || !strings.HasPrefix(audience, "${PoolWeb") {
			t.Errorf("%s trusts %s for %s", id, issuer, audience)
		}
	}
	if len(tpl.resources(authorizerType)) != 1 {
		t.Errorf("there are %d authorizers", len(tpl.resources(authorizerType)))
	}
}

// TestObjectsWithoutAPrefix: a bucket sink without a prefix may write all keys of the bucket.
func TestObjectsWithoutAPrefix(t *testing.T) {
	tpl := synth(t, values("claims=none; sink=s3://their-lake"))
	var got []string
	for _, policy := range tpl.resources(policyType) {
		for _, s := range policyStatements(policy) {
			if resource := rendered(s["Resource"]); strings.Contains(resource, "their-lake/") {
				got = append(got, resource)
			}
		}
	}
	if want := []string{"arn:${AWS::Partition}:s3:::their-lake/*"}; !slices.Equal(got, want) {
		t.Errorf("the function may write %q, want %q", got, want)
	}
}
