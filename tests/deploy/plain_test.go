package deploy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

// A plain stack is deployed without the CDK, from a plain template of tests/stack and zips in a bucket.
type plain struct {
	clients
	stack, template string
	parameters      map[string]string
}

// plainRelease is the release of the plain templates in tests/stack.
const plainRelease = "1.2.3"

// newPlain makes the bucket of a stack.
func newPlain(t *testing.T, name string) *plain {
	t.Helper()
	template := string(golden(t, "plain-"+name))
	p := &plain{newClients(t), stackName("plain"), template, map[string]string{"CodePrefix": "oncebox/"}}
	p.parameters["CodeBucket"] = p.stack + "-code"
	_, err := p.s3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(p.parameters["CodeBucket"])})
	must(t, err)
	return p
}

// upload puts a zip into the bucket, as the release names it.
func (p *plain) upload(t *testing.T, function, processor, release string, zip []byte) {
	t.Helper()
	key := fmt.Sprintf("%soncebox-%s_%s_lambda_%s.zip", p.parameters["CodePrefix"], function, release, processor)
	_, err := p.s3.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: aws.String(p.parameters["CodeBucket"]), Key: &key, Body: bytes.NewReader(zip),
	})
	must(t, err)
}

func (p *plain) given() (all []cloudformationtypes.Parameter) {
	for _, name := range slices.Sorted(maps.Keys(p.parameters)) {
		all = append(all, cloudformationtypes.Parameter{ParameterKey: &name, ParameterValue: aws.String(p.parameters[name])})
	}
	return all
}

func (p *plain) create(t *testing.T) *deployed {
	t.Helper()
	_, err := p.cloudformation.CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: &p.stack, TemplateBody: &p.template, Parameters: p.given(), Capabilities: mayMakeRoles,
	})
	must(t, err)
	return describe(t, p.stack)
}

func (p *plain) update(t *testing.T, d *deployed) upgrade {
	t.Helper()
	return d.watch(t, &cloudformation.UpdateStackInput{
		StackName: &p.stack, TemplateBody: &p.template, Parameters: p.given(), Capabilities: mayMakeRoles,
	})
}

// host uploads the function as it is built for this machine, and chooses its architecture.
func (p *plain) host(t *testing.T, function string) (folder string) {
	t.Helper()
	folder = built(t, builder(function, runtime.GOARCH))
	p.parameters["Architecture"] = lambdaArchitectures[runtime.GOARCH]
	content, err := os.ReadFile(filepath.Join(folder, "bootstrap"))
	must(t, err)
	p.upload(t, function, runtime.GOARCH, plainRelease, zipped(t, content))
	return folder
}

var lambdaArchitectures = map[string]string{"amd64": "x86_64", "arm64": "arm64"}

// invoke runs a deployed function in the Lambda emulator, with the code and the variables that callers of its alias
// get.
func (d *deployed) invoke(t *testing.T, folder, variable, event string) string {
	t.Helper()
	for _, function := range d.resources["AWS::Lambda::Function"] {
		got, err := d.lambda.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{
			FunctionName: &function, Qualifier: aws.String("live"),
		})
		must(t, err)
		if got.Environment.Variables[variable] == "" {
			continue
		}
		return start(t, folder, function, got.Environment.Variables).invoke(t, event)
	}
	t.Fatalf("no function has %s", variable)
	return ""
}

// running is the URL of a function that runs in the Lambda emulator.
type running string

// start starts a deployed function, with its variables.
func start(t *testing.T, folder, function string, variables map[string]string) running {
	t.Helper()
	env := []string{
		"AWS_ENDPOINT_URL=" + testengine.CloudFormation(t), "AWS_REGION=" + region, "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test", "AWS_LAMBDA_FUNCTION_NAME=" + function,
	}
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	return running(testengine.Lambda(t, filepath.Join(folder, "bootstrap"), env...))
}

func (r running) invoke(t *testing.T, event string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, string(r), strings.NewReader(event))
	must(t, err)
	reply, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = reply.Body.Close() }()
	body, err := io.ReadAll(reply.Body)
	must(t, err)
	return string(body)
}

// TestPlainClaims deploys the plain template of claims, and claims an item.
func TestPlainClaims(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	p := newPlain(t, "claims")
	claim := p.host(t, "claim")
	p.host(t, "sweep")
	p.parameters["AlarmTopic"], p.parameters["LogRetentionDays"] = topic, "7"
	d := p.create(t)
	bank := itembank.NewOperator(dynamostore.New(d.dynamodb, d.outputs["BankTable"], d.outputs["DedupeTable"]))
	_, _, err := bank.CreateCampaign(t.Context(), "spring", itembank.Settings{})
	must(t, err)
	_, err = bank.Load(t.Context(), "spring", itembank.Items("SPRING-1"), nil)
	must(t, err)
	event, err := os.ReadFile(root + "/events/claim/claim-body.json")
	must(t, err)
	if reply := d.invoke(t, claim, "ONCEBOX_CLAIMANT_FROM", string(event)); !strings.Contains(reply, `"statusCode":201`) ||
		!strings.Contains(reply, "SPRING-1") {
		t.Errorf("the claim gets %s", reply)
	}
}

// TestPlainRecords deploys the plain template of records, and sends a record and its copy through the function.
func TestPlainRecords(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	p := newPlain(t, "records")
	dedupe := p.host(t, "dedupe")
	p.parameters["IdPath"] = "event.id"
	d := p.create(t)
	const payload = `{"event":{"id":"1"}}`
	source := fmt.Sprintf("arn:aws:kinesis:%s:%s:stream/%s", region, account, d.outputs["SourceStream"])
	d.deliversOnce(t, dedupe, payload, streamRecords(t, source, payload, payload))
}

// streamRecords returns the event of a Kinesis stream with a record for each payload.
func streamRecords(_ *testing.T, source string, payloads ...string) string {
	const record = `{"kinesis": {"kinesisSchemaVersion": "1.0", "partitionKey": "a", "sequenceNumber": "%d",
		"data": "%s", "approximateArrivalTimestamp": 1795176000},
		"eventSource": "aws:kinesis", "eventID": "shardId-000000000000:%[1]d", "eventName": "aws:kinesis:record",
		"awsRegion": "%[3]s", "eventSourceARN": "%[4]s"}`
	var records []string
	for i, p := range payloads {
		records = append(records, fmt.Sprintf(record, i+1, base64.StdEncoding.EncodeToString([]byte(p)), region, source))
	}
	return `{"Records": [` + strings.Join(records, ",") + `]}`
}

// deliversOnce invokes the dedupe function in a folder with an event that has a record several times.
func (d *deployed) deliversOnce(t *testing.T, folder, payload, event string) {
	t.Helper()
	if reply := d.invoke(t, folder, "ONCEBOX_SINK", event); !strings.Contains(reply, `"batchItemFailures":[]`) {
		t.Errorf("the batch gets %s", reply)
	}
	if got := d.delivered(t); len(got) != 1 || string(got[0].Data) != payload {
		t.Errorf("the destination has %d records: %v", len(got), got)
	}
}

// TestPlainSources deploys the plain templates whose source exists, and sends a record and its copy through the function.
func TestPlainSources(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	for kind, s := range map[string]struct {
		make  func(t *testing.T, c clients) (arn string)
		event func(t *testing.T, source string, payloads ...string) string
	}{"stream": {theirStream, streamRecords}, "queue": {theirQueue, messages}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlain(t, "records-of-"+kind)
			dedupe := p.host(t, "dedupe")
			source := s.make(t, p.clients)
			p.parameters["Source"] = source
			d := p.create(t)
			d.deliversOnce(t, dedupe, payload, s.event(t, source, payload, payload))
		})
	}
}

func theirStream(t *testing.T, c clients) (arn string) {
	t.Helper()
	const name = "their-orders"
	_, err := c.kinesis.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: aws.String(name), ShardCount: aws.Int32(1)})
	must(t, err)
	return fmt.Sprintf("arn:aws:kinesis:%s:%s:stream/%s", region, account, name)
}

func theirQueue(t *testing.T, c clients) (arn string) {
	t.Helper()
	const name = "their-orders"
	_, err := c.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{
		QueueName: aws.String(name), Attributes: map[string]string{"VisibilityTimeout": "360"},
	})
	must(t, err)
	return fmt.Sprintf("arn:aws:sqs:%s:%s:%s", region, account, name)
}

// delivered returns the records of the destination stream.
func (d *deployed) delivered(t *testing.T) (all []kinesistypes.Record) {
	t.Helper()
	stream := aws.String(d.outputs["DestinationStream"])
	shards, err := d.kinesis.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: stream})
	must(t, err)
	for _, shard := range shards.Shards {
		iterator, err := d.kinesis.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: stream, ShardId: shard.ShardId, ShardIteratorType: kinesistypes.ShardIteratorTypeTrimHorizon,
		})
		must(t, err)
		got, err := d.kinesis.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: iterator.ShardIterator})
		must(t, err)
		all = append(all, got.Records...)
	}
	return all
}

// TestPlainUpgrades updates a stack of both jobs. A parameter or a release that changes a function must publish a
// version, and move the function's alias to it. No other change may do so. Meanwhile callers get the old version and
// then the new one, never a mixture. The functions do not run, so their code is only a mark.
func TestPlainUpgrades(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	testengine.Tool(t, "moto-cloudformation")
	p := newPlain(t, "both")
	all := []string{"claim", "dedupe", "sweep"}
	upload := func(release, code string) {
		for _, function := range all {
			for processor := range lambdaArchitectures {
				p.upload(t, function, processor, release, zipped(t, []byte(code)))
			}
		}
	}
	upload(plainRelease, "1")
	d := p.create(t)
	want := map[string]int{"claim": 1, "dedupe": 1, "sweep": 1}
	for _, step := range []struct {
		what    string
		do      func()
		changes []string
	}{
		{"nothing", func() {}, nil},
		{"a setting of all functions", func() { p.parameters["LogLevel"] = "debug" }, all},
		{"the same again", func() {}, nil},
		{"a setting of one", func() { p.parameters["Window"] = "7d" }, []string{"dedupe"}},
		{"back to the setting before", func() { p.parameters["Window"] = "48h" }, []string{"dedupe"}},
		{"its memory", func() { p.parameters["DedupeMemory"] = "2048" }, []string{"dedupe"}},
		{"a setting of another", func() { p.parameters["ClaimantsConfirm"] = "on" }, []string{"claim"}},
		{"a setting that is a log setting of the function", func() { p.parameters["SystemLogLevel"] = "WARN" }, all},
		{"other code with another setting", func() {
			p.parameters["CodePrefix"], p.parameters["LogLevel"] = "other/", "warn"
			upload(plainRelease, "2")
		}, all},
		{"another architecture", func() { p.parameters["Architecture"] = "x86_64" }, all},
		{"the next release, with the same code", func() {
			upload("1.2.4", "2")
			p.template = strings.ReplaceAll(p.template, plainRelease, "1.2.4")
		}, all},
		{"back to a setting from before", func() { p.parameters["LogLevel"] = "info" }, all},
	} {
		step.do()
		u := p.update(t, d)
		if mixed := u.mixed(); len(mixed) > 0 {
			t.Errorf("%s:\n%s", step.what, strings.Join(mixed, "\n"))
		}
		if len(u.between) == 0 && len(step.changes) > 0 {
			t.Errorf("%s: the update was not watched", step.what)
		}
		for _, function := range step.changes {
			want[function]++
		}
		if got := d.live(t); !maps.Equal(got, want) {
			t.Errorf("%s: the aliases lead to versions %v, want %v", step.what, got, want)
		}
	}
}

// live returns the version that the alias of each function points to. It is the latest version, and has all
// properties of the function.
func (d *deployed) live(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, function := range d.resources["AWS::Lambda::Function"] {
		ofFunction := &lambda.ListVersionsByFunctionInput{FunctionName: &function}
		versions, err := d.lambda.ListVersionsByFunction(t.Context(), ofFunction)
		must(t, err)
		name := "sweep"
		if strings.Contains(function, "-RecordsFunction") {
			name = "dedupe"
		} else if strings.Contains(function, "-ClaimsFunction") {
			name = "claim"
		}
		all[name] = len(versions.Versions) - 1 // one is $LATEST
		input := &lambda.GetFunctionConfigurationInput{FunctionName: &function}
		latest, err := d.lambda.GetFunctionConfiguration(t.Context(), input)
		must(t, err)
		input.Qualifier = aws.String("live")
		live, err := d.lambda.GetFunctionConfiguration(t.Context(), input)
		must(t, err)
		if got := facet(t, live); got != facet(t, latest) || *live.Version != fmt.Sprint(all[name]) {
			t.Errorf("the alias of %s leads to version %s, %s\nthe function is version %d, %s", name, *live.Version, got, all[name],
				facet(t, latest))
		}
	}
	return all
}

// facet returns the properties of a function that the parameters of a plain template change.
func facet(t *testing.T, c *lambda.GetFunctionConfigurationOutput) string {
	t.Helper()
	encoded, err := json.Marshal([]any{c.CodeSha256, c.Environment, c.MemorySize, c.Architectures, c.LoggingConfig})
	must(t, err)
	return string(encoded)
}
