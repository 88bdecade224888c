package stack

import (
	"debug/elf"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscognito"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testengine"
)

// TestNothingIsMadeOfWhatExists: no table, stream, bucket or queue, and no change to
// them, such as a policy of a bucket's.
func TestNothingIsMadeOfWhatExists(t *testing.T) {
	for name, context := range map[string]map[string]any{
		"without a key": everythingExists,
		"with a key":    with(everythingExists, "key-arn", theirKey),
	} {
		tpl := synth(t, context)
		for _, kind := range []string{tableType, streamType, bucketType, bucketPolicy, queueType, queuePolicy, "AWS::KMS::Key"} {
			for id := range tpl.resources(kind) {
				t.Errorf("%s: %s, a %s, is made all the same", name, id, kind)
			}
		}
		for id, mapping := range tpl.resources(mappingType) {
			if at(mapping, "Properties.EventSourceArn") != theirStream {
				t.Errorf("%s: %s reads %v", name, id, at(mapping, "Properties.EventSourceArn"))
			}
			if got := rendered(at(mapping, "Properties.DestinationConfig.OnFailure.Destination")); !strings.HasSuffix(got, ":s3:::their-failures") {
				t.Errorf("%s: %s keeps what it gives up in %s", name, id, got)
			}
		}
		outputs := map[string]string{}
		for name := range tpl["Outputs"].(map[string]any) {
			outputs[name] = rendered(at(tpl, "Outputs."+name+".Value"))
		}
		delete(outputs, "ApiUrl")
		if want := map[string]string{
			"BankTable": "their-bank", "DedupeTable": "their-dedupe", "SourceStream": "theirs", "DestinationStream": "others",
			"DeadLetterBucket": "their-failures", "NotifyQueueUrl": "https://sqs.eu-west-1.${AWS::URLSuffix}/123456789012/theirs",
		}; !maps.Equal(outputs, want) {
			t.Errorf("%s: the outputs are %v, want %v", name, outputs, want)
		}
	}
}

// TestEachResourceHasItsKey: resources with five keys, each of which the role may
// use for its own service alone.
func TestEachResourceHasItsKey(t *testing.T) {
	arn := func(name string) *string {
		return jsii.String("arn:aws:kms:eu-west-1:123456789012:key/" + name)
	}
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		key := func(name string) awskms.IKey { return awskms.Key_FromKeyArn(stack, jsii.String(name), arn(name)) }
		table := func(name string) awsdynamodb.ITableV2 {
			return awsdynamodb.TableV2_FromTableAttributes(stack, jsii.String(name+"Table"),
				&awsdynamodb.TableAttributesV2{TableName: jsii.String(name), EncryptionKey: key(name)})
		}
		stream := func(name string) awskinesis.IStream {
			return awskinesis.Stream_FromStreamAttributes(stack, jsii.String(name+"Stream"), &awskinesis.StreamAttributes{
				StreamArn: jsii.String("arn:aws:kinesis:eu-west-1:123456789012:stream/" + name), EncryptionKey: key(name),
			})
		}
		function := infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)}
		dedupe := table("dedupe")
		_, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{
			Auth: infra.AuthIAM(), Function: function, BankTable: table("bank"), DedupeTable: dedupe,
		})
		must(t, err)
		_, err = infra.NewRecordDedupe(stack, "Records", infra.RecordDedupeProps{
			Rules: infra.RecordRules{IDPath: "id"}, Function: function, DedupeTable: dedupe,
			Source: stream("source"), SourceRetention: 24 * time.Hour, Destination: stream("destination"),
			DeadLetterBucket: awss3.Bucket_FromBucketAttributes(stack, jsii.String("Bucket"),
				&awss3.BucketAttributes{BucketName: jsii.String("their-failures"), EncryptionKey: key("bucket")}),
			NotifyQueue: awssqs.Queue_FromQueueAttributes(stack, jsii.String("Queue"),
				&awssqs.QueueAttributes{QueueArn: jsii.String(theirQueue), KeyArn: key("queue").KeyArn()}),
		})
		must(t, err)
	})
	var got []string
	for id, policy := range tpl.resources(policyType) {
		for _, s := range listAt(policy, statements) {
			key, ours := strings.CutPrefix(rendered(at(s, "Resource")), *arn(""))
			if !ours {
				continue
			}
			via, ok := at(s, "Condition.StringLike").(map[string]any)["kms:ViaService"].(string)
			if !ok {
				t.Errorf("%s: the key %s is for every service", id, key)
			}
			got = append(got, id[:len("Claims")]+" "+key+" "+via)
		}
	}
	slices.Sort(got)
	if want := []string{
		"Claims bank dynamodb.*.amazonaws.com",
		"Claims dedupe dynamodb.*.amazonaws.com",
		"Record bucket s3.*.amazonaws.com",
		"Record dedupe dynamodb.*.amazonaws.com",
		"Record destination kinesis.*.amazonaws.com",
		"Record queue sqs.*.amazonaws.com",
		"Record source kinesis.*.amazonaws.com",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestRulesInTheirStack: the rules hold wherever the constructs are. Many things
// that the CDK makes change with the feature flags of the app's cdk.json, of which
// `cdk init` sets all.
func TestRulesInTheirStack(t *testing.T) {
	function := infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)}
	claims := func(stack awscdk.Stack, table infra.TableProps, dedupe awsdynamodb.ITableV2) {
		_, err := infra.NewClaimAPI(stack, "Coupons", infra.ClaimAPIProps{
			Auth: infra.AuthIAM(), Function: function, Table: table, DedupeTable: dedupe,
		})
		must(t, err)
	}
	records := func(stack awscdk.Stack, table infra.TableProps, key awskms.IKey, dedupe awsdynamodb.ITableV2) {
		_, err := infra.NewRecordDedupe(stack, "Orders", infra.RecordDedupeProps{
			Rules: infra.RecordRules{IDPath: "id"}, Function: function, Table: table, EncryptionKey: key, DedupeTable: dedupe,
		})
		must(t, err)
	}
	both := func(key awskms.IKey) func(awscdk.Stack) {
		return func(stack awscdk.Stack) {
			table := infra.TableProps{EncryptionKey: key}
			dedupe, err := infra.NewTable(stack, "Entries", table)
			must(t, err)
			claims(stack, table, dedupe)
			records(stack, table, key, dedupe)
		}
	}
	t.Run("both", func(t *testing.T) {
		report(t, broken(synthTheirs(t, nil, both(nil)), bothJobs))
	})
	t.Run("with a key", func(t *testing.T) {
		want := bothJobs
		want.key = theirKey
		report(t, broken(synthTheirs(t, nil, func(stack awscdk.Stack) {
			both(awskms.Key_FromKeyArn(stack, jsii.String("Key"), jsii.String(theirKey)))(stack)
		}), want))
	})
	t.Run("with all feature flags", func(t *testing.T) {
		report(t, broken(synthTheirs(t, featureFlags(t), both(nil)), bothJobs))
	})
	t.Run("claims alone", func(t *testing.T) {
		want := bothJobs
		want.records = false
		report(t, broken(synthTheirs(t, nil, func(stack awscdk.Stack) { claims(stack, infra.TableProps{}, nil) }), want))
	})
	t.Run("records alone", func(t *testing.T) {
		want := bothJobs
		want.claims = false
		report(t, broken(synthTheirs(t, nil, func(stack awscdk.Stack) { records(stack, infra.TableProps{}, nil, nil) }), want))
	})
}

// featureFlags are those that `cdk init` writes to a new cdk.json.
func featureFlags(t *testing.T) map[string]any {
	t.Helper()
	cli := filepath.Join(filepath.Dir(testengine.Tool(t, "cdk")), "../cdk/node_modules/aws-cdk")
	encoded, err := os.ReadFile(filepath.Join(cli, "lib/init-templates/.recommended-feature-flags.json"))
	must(t, err)
	var flags map[string]any
	must(t, json.Unmarshal(encoded, &flags))
	return flags
}

// TestStacksShareATable: the tables in one stack, each construct in another, as
// where each is deployed by other people. The names of the tables are all that goes
// from one to the other.
func TestStacksShareATable(t *testing.T) {
	app := newApp(t, nil)
	function := infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)}
	data := awscdk.NewStack(app, jsii.String("data"), nil)
	dedupe, err := infra.NewTable(data, "Entries", infra.TableProps{})
	must(t, err)
	claims := awscdk.NewStack(app, jsii.String("claims"), nil)
	_, err = infra.NewClaimAPI(claims, "Claims", infra.ClaimAPIProps{Auth: infra.AuthIAM(), Function: function, DedupeTable: dedupe})
	must(t, err)
	records := awscdk.NewStack(app, jsii.String("records"), nil)
	_, err = infra.NewRecordDedupe(records, "Records", infra.RecordDedupeProps{
		Rules: infra.RecordRules{IDPath: "id"}, Function: function, DedupeTable: dedupe,
	})
	must(t, err)

	made := decode(t, templateOf(t, app, data))
	if got := len(made.resources(tableType)); got != 1 || len(made["Resources"].(map[string]any)) != 1 {
		t.Errorf("the stack of the table has %d tables among %v", got, made["Resources"])
	}
	for stack, tables := range map[awscdk.Stack]int{claims: 1, records: 0} {
		tpl := decode(t, templateOf(t, app, stack))
		if got := len(tpl.resources(tableType)); got != tables {
			t.Errorf("%s has %d tables, want %d", *stack.StackName(), got, tables)
		}
		for _, f := range tpl.resources(functionType) {
			name := at(f, variables+"ONCEBOX_DEDUPE_TABLE.Fn::ImportValue")
			if !strings.HasPrefix(name.(string), "data:ExportsOutputRefEntries") {
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

// TestIssuerMayBeMadeInTheStack: what only the deployment knows of a user pool is
// taken as it is.
func TestIssuerMayBeMadeInTheStack(t *testing.T) {
	tpl := synthTheirs(t, nil, func(stack awscdk.Stack) {
		pool := awscognito.NewUserPool(stack, jsii.String("Pool"), nil)
		client := pool.AddClient(jsii.String("Web"), nil)
		_, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{
			Auth:     infra.AuthJWT(*pool.UserPoolProviderUrl(), *client.UserPoolClientId()),
			Function: infra.FunctionProps{Code: standIn(t, elf.EM_AARCH64)},
		})
		must(t, err)
	})
	for id, a := range tpl.resources(authorizerType) {
		issuer := rendered(at(a, properties+"JwtConfiguration.Issuer"))
		if audience := rendered(at(a, properties+"JwtConfiguration.Audience.0")); !strings.Contains(issuer, "${Pool") || !strings.HasPrefix(audience, "${PoolWeb") {
			t.Errorf("%s trusts %s for %s", id, issuer, audience)
		}
	}
	if len(tpl.resources(authorizerType)) != 1 {
		t.Errorf("there are %d authorizers", len(tpl.resources(authorizerType)))
	}
}
