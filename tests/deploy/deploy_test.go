package deploy

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

var stacks atomic.Int64

// stackName returns a name that no other test has. The runs of -count share the emulator, too.
func stackName(prefix string) string { return prefix + "-" + strconv.FormatInt(stacks.Add(1), 10) }

const topic = "arn:aws:sns:us-east-1:123456789012:alarms"

// TestBothJobs deploys both jobs with all defaults, and a dashboard.
func TestBothJobs(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	claim, sweep, dedupe := built(t, claimARM), built(t, sweepARM), built(t, dedupeARM)
	// The emulator has no termination protection.
	const settings = "termination-protection: off\nalarm-topic: " + topic + "\ndashboard: on\nclaims: {auth: iam}\nrecords: {id-path: event.id}\n"
	code := map[string]string{"claim": claim, "sweep": sweep, "dedupe": dedupe}
	app := synth(t, stackName("both"), settings, code)
	app.deploy(t)
	d := describe(t, app.stack)
	d.checkCode(t, claim, sweep, dedupe)

	t.Run("another synth changes nothing", func(t *testing.T) {
		again := synth(t, app.stack, settings, code)
		if err := again.diff(t); err != nil {
			t.Errorf("there are differences: %v", err)
		}
		before := d.events(t, app.stack)
		if out := again.deploy(t); !strings.Contains(out, "(no changes)") {
			t.Errorf("the second deployment: %s", out)
		}
		if after := d.events(t, app.stack); after != before {
			t.Errorf("the stack had %d events and now %d", before, after)
		}
	})
	t.Run("diff finds a difference", func(t *testing.T) {
		altered := app.alter(t, func(resources map[string]resource) {
			for _, r := range of(resources, "AWS::Lambda::EventSourceMapping") {
				r.Properties["BisectBatchOnFunctionError"] = false
			}
		})
		if err := altered.diff(t); err == nil || !strings.Contains(err.Error(), "BisectBatchOnFunctionError") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("doctor looks around the functions", func(t *testing.T) { doctorLooksAround(t, d, app.stack) })
	t.Run("destroy keeps the data", func(t *testing.T) {
		saved := d.save(t)
		app.destroy(t)
		var stay []string
		for _, kind := range []string{tableType, streamType, bucketType, "AWS::Logs::LogGroup"} {
			stay = append(stay, d.resources[kind]...)
		}
		slices.Sort(stay)
		if left := d.left(t, app.stack); len(stay) != 9 || !slices.Equal(left, stay) {
			t.Errorf("these are left: %v\nwant %v", left, stay)
		}
		d.checkSaved(t, saved)
	})
}

// TestForATest deploys both jobs with other settings. The stack is disposable, and nothing of it stays.
func TestForATest(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	claim, sweep, dedupe := built(t, builder("claim", "amd64")), built(t, builder("sweep", "amd64")), built(t, builder("dedupe", "amd64"))
	app := synth(t, stackName("test"), `
architecture: x86_64
disposable: on
log-retention-days: 7
warm-read-units: 20000
warm-write-units: 10000
claims:
  auth: jwt
  jwt-issuer: https://login.example.com
  jwt-audience: [shop]
records:
  id-path: event.id
  ledger: log
  expected-rate: 10000
  window: 1h
`, map[string]string{"claim": claim, "sweep": sweep, "dedupe": dedupe})
	app.deploy(t)
	describe(t, app.stack).checkCode(t, claim, sweep, dedupe)
	app.destroy(t)
	if left := newClients(t).left(t, app.stack); len(left) > 0 {
		t.Errorf("these are left: %v", left)
	}
}

// events counts the events of a stack.
func (d *deployed) events(t *testing.T, stack string) int {
	t.Helper()
	input := &cloudformation.DescribeStackEventsInput{StackName: &stack}
	got, err := d.cloudformation.DescribeStackEvents(t.Context(), input)
	must(t, err)
	return len(got.StackEvents)
}

// saved is the position of a record in the source stream.
type saved struct{ shard, sequence *string }

// save puts data into the resources that stay when the stack is deleted.
func (d *deployed) save(t *testing.T) saved {
	t.Helper()
	for _, table := range []string{"BankTable", "DedupeTable"} {
		_, err := d.dynamodb.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(d.outputs[table]), Item: row})
		must(t, err)
	}
	_, err := d.s3.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(d.outputs["DeadLetterBucket"]), Key: aws.String(savedText), Body: strings.NewReader(savedText),
	})
	must(t, err)
	put, err := d.kinesis.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: aws.String(d.outputs["SourceStream"]), PartitionKey: aws.String(savedText), Data: []byte(savedText),
	})
	must(t, err)
	return saved{put.ShardId, put.SequenceNumber}
}

const savedText = "saved"

var row = map[string]dynamodbtypes.AttributeValue{
	"pk": &dynamodbtypes.AttributeValueMemberS{Value: savedText},
	"sk": &dynamodbtypes.AttributeValueMemberS{Value: savedText},
}

func (d *deployed) checkSaved(t *testing.T, s saved) {
	t.Helper()
	for _, table := range []string{"BankTable", "DedupeTable"} {
		got, err := d.dynamodb.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(d.outputs[table]), Key: row})
		must(t, err)
		if got.Item == nil {
			t.Errorf("%s has lost a row", table)
		}
	}
	_, err := d.s3.HeadObject(t.Context(), &s3.HeadObjectInput{
		Bucket: aws.String(d.outputs["DeadLetterBucket"]), Key: aws.String(savedText),
	})
	if err != nil {
		t.Errorf("the dead-letter bucket has lost an object: %v", err)
	}
	iterator, err := d.kinesis.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: aws.String(d.outputs["SourceStream"]), ShardId: s.shard,
		ShardIteratorType: kinesistypes.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: s.sequence,
	})
	must(t, err)
	records, err := d.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: iterator.ShardIterator})
	must(t, err)
	if len(records.Records) != 1 || string(records.Records[0].Data) != savedText {
		t.Errorf("the source stream has %v", records.Records)
	}
}

// TestUnknownPropertiesFail checks that the emulator ignores no type and no property that it does not know.
func TestUnknownPropertiesFail(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for _, tc := range []struct{ what, kind, properties, says string }{
		{"a type", "AWS::Glue::Database", `{}`, "nor a maker"},
		{"a property", "AWS::Logs::LogGroup", `{"RetentionInDay": 7}`, "does not use RetentionInDay"},
		{
			"a property inside", "AWS::S3::Bucket", `{"VersioningConfiguration": {"State": "Enabled"}}`,
			`Unknown parameter in VersioningConfiguration: "State"`,
		},
		{"a property of the API", "AWS::CloudWatch::Alarm", `{"Treshold": 1}`, `Unknown parameter in input: "Treshold"`},
		{"a value", "AWS::S3::Bucket", `{"AccessControl": "PublicRead"}`, "private buckets only"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			template := `{"Resources": {"It": {"Type": "` + tc.kind + `", "Properties": ` + tc.properties + `}}}`
			_, err := newClients(t).cloudformation.CreateStack(t.Context(), &cloudformation.CreateStackInput{
				StackName: aws.String(stackName("refused")), TemplateBody: &template,
			})
			if err == nil || !strings.Contains(err.Error(), tc.kind+" It: ") || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestUnknownUpdatesFail checks that the emulator fails for an update that it does not support.
func TestUnknownUpdatesFail(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	client, stack := newClients(t).cloudformation, stackName("update")
	template := func(days int) *string {
		return aws.String(`{"Resources": {"It": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": ` +
			strconv.Itoa(days) + `}}}}`)
	}
	_, err := client.CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: &stack, TemplateBody: template(7),
	})
	must(t, err)
	_, err = client.UpdateStack(t.Context(), &cloudformation.UpdateStackInput{
		StackName: &stack, TemplateBody: template(1),
	})
	if err == nil || !strings.Contains(err.Error(), "cannot update") {
		t.Errorf("directly: %v", err)
	}
	changes, err := client.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{
		StackName: &stack, ChangeSetName: aws.String("change"), TemplateBody: template(1),
		ChangeSetType: cloudformationtypes.ChangeSetTypeUpdate,
	})
	must(t, err)
	_, err = client.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{ChangeSetName: changes.Id})
	if err == nil || !strings.Contains(err.Error(), "cannot update") {
		t.Errorf("by a change set: %v", err)
	}
}

// A resource of a template.
type resource struct {
	Type       string
	Properties map[string]any
}

// of returns the resources of a type.
func of(resources map[string]resource, kind string) (all []resource) {
	for _, r := range resources {
		if r.Type == kind {
			all = append(all, r)
		}
	}
	return all
}

// alter returns a copy of the assembly with a changed template.
func (a assembly) alter(t *testing.T, change func(resources map[string]resource)) assembly {
	t.Helper()
	altered := assembly{stack: a.stack, dir: t.TempDir()}
	must(t, os.CopyFS(altered.dir, os.DirFS(a.dir)))
	content, err := os.ReadFile(a.templatePath())
	must(t, err)
	var template map[string]json.RawMessage
	must(t, json.Unmarshal(content, &template))
	var resources map[string]resource
	must(t, json.Unmarshal(template["Resources"], &resources))
	change(resources)
	template["Resources"], err = json.Marshal(resources)
	must(t, err)
	content, err = json.Marshal(template)
	must(t, err)
	must(t, os.WriteFile(altered.templatePath(), content, 0o600))
	return altered
}
