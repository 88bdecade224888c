package deploy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

const (
	region  = "us-east-1"
	account = "123456789012" // the emulator's
)

// facts are texts by their names.
type facts map[string]string

type clients struct {
	cloudformation *cloudformation.Client
	cloudwatch     *cloudwatch.Client
	logs           *cloudwatchlogs.Client
	dynamodb       *dynamodb.Client
	eventbridge    *eventbridge.Client
	gateway        *apigatewayv2.Client
	kinesis        *kinesis.Client
	lambda         *lambda.Client
	s3             *s3.Client
	sqs            *sqs.Client
	states         *sfn.Client
}

func newClients(t *testing.T) clients {
	t.Helper()
	cfg := aws.Config{
		Region: region, BaseEndpoint: aws.String(testengine.CloudFormation(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	return clients{
		cloudformation: cloudformation.NewFromConfig(cfg),
		cloudwatch: cloudwatch.NewFromConfig(cfg, func(o *cloudwatch.Options) {
			o.Protocol = awsjson.New10(schemas.GraniteServiceVersion20100801) // the emulator has no CBOR
		}),
		logs:        cloudwatchlogs.NewFromConfig(cfg),
		dynamodb:    dynamodb.NewFromConfig(cfg),
		eventbridge: eventbridge.NewFromConfig(cfg),
		gateway:     apigatewayv2.NewFromConfig(cfg),
		kinesis:     kinesis.NewFromConfig(cfg),
		lambda:      lambda.NewFromConfig(cfg),
		s3:          s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true }),
		sqs:         sqs.NewFromConfig(cfg),
		states:      sfn.NewFromConfig(cfg),
	}
}

// deployed is a stack that was deployed. Its resources can still be read after it was destroyed.
type deployed struct {
	clients
	outputs   map[string]string
	resources map[string][]string // type to physical ids
}

// These are types of resources.
const (
	apiType      = "AWS::ApiGatewayV2::Api"
	bucketType   = "AWS::S3::Bucket"
	functionType = "AWS::Lambda::Function"
	mappingType  = "AWS::Lambda::EventSourceMapping"
	queueType    = "AWS::SQS::Queue"
	ruleType     = "AWS::Events::Rule"
	streamType   = "AWS::Kinesis::Stream"
	tableType    = "AWS::DynamoDB::GlobalTable"
)

func describe(t *testing.T, stack string) *deployed {
	t.Helper()
	d := &deployed{newClients(t), map[string]string{}, map[string][]string{}}
	stacks, err := d.cloudformation.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &stack})
	must(t, err)
	for _, o := range stacks.Stacks[0].Outputs {
		d.outputs[*o.OutputKey] = *o.OutputValue
	}
	input := &cloudformation.DescribeStackResourcesInput{StackName: &stack}
	resources, err := d.cloudformation.DescribeStackResources(t.Context(), input)
	must(t, err)
	for _, r := range resources.StackResources {
		d.resources[*r.ResourceType] = append(d.resources[*r.ResourceType], *r.PhysicalResourceId)
	}
	return d
}

// left returns the names of the tables, streams, buckets, log groups and functions of a stack that exist.
func (c clients) left(t *testing.T, stack string) (names []string) {
	t.Helper()
	// All stacks of the tests share an account. The emulator lists ten streams at a time, and has no token for the rest.
	streams, err := c.kinesis.ListStreams(t.Context(), &kinesis.ListStreamsInput{Limit: aws.Int32(10_000)})
	must(t, err)
	buckets, err := c.s3.ListBuckets(t.Context(), &s3.ListBucketsInput{})
	must(t, err)
	functions, err := c.lambda.ListFunctions(t.Context(), &lambda.ListFunctionsInput{})
	must(t, err)
	names = streams.StreamNames
	tables := dynamodb.NewListTablesPaginator(c.dynamodb, &dynamodb.ListTablesInput{})
	for tables.HasMorePages() {
		page, err := tables.NextPage(t.Context())
		must(t, err)
		names = append(names, page.TableNames...)
	}
	for _, b := range buckets.Buckets {
		names = append(names, *b.Name)
	}
	groups := cloudwatchlogs.NewDescribeLogGroupsPaginator(c.logs, &cloudwatchlogs.DescribeLogGroupsInput{})
	for groups.HasMorePages() {
		page, err := groups.NextPage(t.Context())
		must(t, err)
		for _, g := range page.LogGroups {
			names = append(names, *g.LogGroupName)
		}
	}
	for _, f := range functions.Functions {
		names = append(names, *f.FunctionName)
	}
	code := stack + "-code" // of the test
	names = slices.DeleteFunc(names, func(name string) bool {
		return !strings.Contains(name, stack+"-") || name == code || strings.HasPrefix(name, "/aws/lambda/") // of the emulator
	})
	slices.Sort(names)
	return names
}

// missing reports whether an error says that a resource does not exist.
func missing(err error) bool {
	var answer smithy.APIError
	return errors.As(err, &answer) && notFound.MatchString(answer.ErrorCode())
}

var notFound = regexp.MustCompile("NotFound|NoSuch|NonExistent|DoesNotExist")

// cdkAssets is the bucket to which the CDK uploads zips.
const cdkAssets = "cdk-hnb659fds-assets-" + account + "-" + region

// checkCode checks that each function of the stack has the zip of its folder, in which the executable may be executed.
// claim, sweep and dedupe are the folders of these functions.
func (d *deployed) checkCode(t *testing.T, claim, sweep, dedupe string) {
	t.Helper()
	objects, err := d.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(cdkAssets)})
	must(t, err)
	uploaded := map[string]string{}
	for _, o := range objects.Contents {
		object, err := d.s3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(cdkAssets), Key: o.Key})
		must(t, err)
		content, err := io.ReadAll(object.Body)
		must(t, err)
		if path.Ext(*o.Key) == ".zip" {
			uploaded[digest(content)] = unzip(t, content)
		}
	}
	if n := len(d.resources[functionType]); n != 3 {
		t.Errorf("the stack has %d functions, want 3", n)
	}
	for _, id := range d.resources[functionType] {
		got, err := d.lambda.GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{
			FunctionName: &id, Qualifier: aws.String("live"),
		})
		must(t, err)
		folder, variables := sweep, got.Environment.Variables
		if variables["ONCEBOX_SINK"] != "" {
			folder = dedupe
		} else if variables["ONCEBOX_CLAIMANT_FROM"] != "" {
			folder = claim
		}
		if has, want := uploaded[*got.CodeSha256], codeFact(t, folder); has != want {
			t.Errorf("%s has the code %q, want %q", id, has, want)
		}
	}
}

// digest is how Lambda names the content of a zip.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func unzip(t *testing.T, content []byte) string {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	must(t, err)
	var files []string
	for _, f := range archive.File {
		reader, err := f.Open()
		must(t, err)
		content, err := io.ReadAll(reader)
		must(t, err)
		files = append(files, fileFact(f.Name, f.Mode(), content))
	}
	return strings.Join(files, ", ")
}
