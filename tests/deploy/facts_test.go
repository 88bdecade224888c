package deploy

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	cloudwatchtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

const (
	region  = "us-east-1"
	account = "123456789012" // the emulator's
)

// facts hold the services' reports about the resources of a stack, for example "BankTable TTL": "ENABLED purge_at".
// They contain no names that the deployment chose. Such a name is replaced by the stack's output, or by a word for
// its user.
type facts map[string]string

// differences lists the names of the facts in which two readings differ.
func (f facts) differences(other facts) (names []string) {
	for name := range f {
		if value, ok := other[name]; !ok || value != f[name] {
			names = append(names, name)
		}
	}
	for name := range other {
		if _, ok := f[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// gone is the only fact of a resource that does not exist.
const gone = "gone"

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
	zips      string // the bucket with the code of the functions
	outputs   map[string]string
	resources map[string][]string // type to physical ids
	names     map[string]string   // physical id to the name in facts
}

func describe(t *testing.T, stack string) *deployed {
	t.Helper()
	d := &deployed{newClients(t), cdkAssets, map[string]string{}, map[string][]string{}, map[string]string{}}
	stacks, err := d.cloudformation.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &stack})
	must(t, err)
	for _, o := range stacks.Stacks[0].Outputs {
		d.outputs[*o.OutputKey] = *o.OutputValue
		name := *o.OutputValue
		if strings.HasPrefix(name, "https://") { // the URL of a queue
			name = path.Base(name)
		}
		d.names[name] = *o.OutputKey
	}
	input := &cloudformation.DescribeStackResourcesInput{StackName: &stack}
	resources, err := d.cloudformation.DescribeStackResources(t.Context(), input)
	must(t, err)
	for _, r := range resources.StackResources {
		d.resources[*r.ResourceType] = append(d.resources[*r.ResourceType], *r.PhysicalResourceId)
	}
	return d
}

// readers read the resources of a type, in this order: a resource that gives others their names comes first. A type
// without a function is read with the resource that it belongs to.
var readers = []struct {
	kind string
	read func(r *reading, id string)
}{
	{"AWS::DynamoDB::GlobalTable", (*reading).table},
	{"AWS::Kinesis::Stream", (*reading).stream},
	{"AWS::S3::Bucket", (*reading).bucket},
	{"AWS::S3::BucketPolicy", nil},
	{"AWS::SQS::Queue", (*reading).queue},
	{"AWS::SQS::QueuePolicy", nil},
	{"AWS::Lambda::Function", (*reading).function},
	{"AWS::Lambda::Version", nil},
	{"AWS::Lambda::Alias", nil},
	{"AWS::Lambda::EventInvokeConfig", nil},
	{"AWS::Events::Rule", (*reading).rule},
	{"AWS::Lambda::EventSourceMapping", (*reading).mapping},
	{"AWS::ApiGatewayV2::Api", (*reading).api},
	{"AWS::ApiGatewayV2::Authorizer", nil},
	{"AWS::ApiGatewayV2::Integration", nil},
	{"AWS::ApiGatewayV2::Route", nil},
	{"AWS::ApiGatewayV2::Stage", nil},
	{"AWS::Lambda::Permission", nil},
	{"AWS::Logs::LogGroup", (*reading).logGroup},
	{"AWS::Logs::MetricFilter", (*reading).logFilter},
	{"AWS::Logs::SubscriptionFilter", (*reading).subscription},
	{"AWS::CloudWatch::Alarm", (*reading).alarm},
	{"AWS::CloudWatch::Dashboard", (*reading).dashboard},
	// Policies are the same in the template and in the account. tests/stack reads them in the template.
	{"AWS::IAM::Role", nil},
	{"AWS::IAM::Policy", nil},
}

// reading is one reading of a stack.
type reading struct {
	*deployed
	t     *testing.T
	facts facts
}

func (d *deployed) read(t *testing.T) facts {
	t.Helper()
	r := &reading{d, t, facts{}}
	unread := maps.Clone(d.resources)
	for _, reader := range readers {
		delete(unread, reader.kind)
		if reader.read == nil {
			continue
		}
		for _, id := range d.resources[reader.kind] {
			reader.read(r, id)
		}
	}
	for kind := range unread {
		r.facts[kind] = "has no reader here"
	}
	return r.facts
}

// add adds a fact of a resource.
func (r *reading) add(id, what, format string, args ...any) {
	name := strings.TrimSpace(r.named(id) + " " + what)
	if old, ok := r.facts[name]; ok {
		r.t.Errorf("there are two of %s: %s", name, old)
	}
	r.facts[name] = r.named(fmt.Sprintf(format, args...))
}

// exists reports whether the resource exists, from the error of the first request. If it does not, it adds that fact.
func (r *reading) exists(id string, err error) bool {
	r.t.Helper()
	if !missing(err) {
		must(r.t, err)
		return true
	}
	r.add(id, "", gone)
	return false
}

func missing(err error) bool {
	var answer smithy.APIError
	return errors.As(err, &answer) && notFound.MatchString(answer.ErrorCode())
}

var notFound = regexp.MustCompile("NotFound|NoSuch|NonExistent|DoesNotExist")

// named replaces the names that the deployment chose.
func (r *reading) named(text string) string {
	var pairs []string
	for id, name := range r.names {
		pairs = append(pairs, id, name)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func (r *reading) table(id string) {
	got, err := r.dynamodb.DescribeTable(r.t.Context(), &dynamodb.DescribeTableInput{TableName: &id})
	if !r.exists(id, err) {
		return
	}
	r.add(id, "key", "%s", keyText(got.Table, got.Table.KeySchema))
	for _, i := range got.Table.GlobalSecondaryIndexes {
		name := "index " + *i.IndexName
		r.add(id, name, "%s, %s", keyText(got.Table, i.KeySchema), i.Projection.ProjectionType)
		if w := i.WarmThroughput; w != nil {
			r.add(id, name+" warm throughput", "%d reads, %d writes", *w.ReadUnitsPerSecond, *w.WriteUnitsPerSecond)
		}
	}
	r.add(id, "billing", "%s", got.Table.BillingModeSummary.BillingMode)
	r.add(id, "deletion protection", "%t", *got.Table.DeletionProtectionEnabled)
	warm := got.Table.WarmThroughput
	r.add(id, "warm throughput", "%d reads, %d writes", *warm.ReadUnitsPerSecond, *warm.WriteUnitsPerSecond)
	ttl, err := r.dynamodb.DescribeTimeToLive(r.t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &id})
	must(r.t, err)
	status := ttl.TimeToLiveDescription
	r.add(id, "TTL", "%s %s", status.TimeToLiveStatus, aws.ToString(status.AttributeName))
	input := &dynamodb.DescribeContinuousBackupsInput{TableName: &id}
	backups, err := r.dynamodb.DescribeContinuousBackups(r.t.Context(), input)
	must(r.t, err)
	r.add(id, "point-in-time recovery", "%s",
		backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus)
}

func keyText(table *dynamodbtypes.TableDescription, schema []dynamodbtypes.KeySchemaElement) string {
	var key []string
	for _, k := range schema {
		for _, a := range table.AttributeDefinitions {
			if *a.AttributeName == *k.AttributeName {
				key = append(key, fmt.Sprint(*k.AttributeName, " ", a.AttributeType, " ", k.KeyType))
			}
		}
	}
	return strings.Join(key, ", ")
}

func (r *reading) stream(id string) {
	got, err := r.kinesis.DescribeStreamSummary(r.t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &id})
	if !r.exists(id, err) {
		return
	}
	s := got.StreamDescriptionSummary
	r.add(id, "mode", "%s", s.StreamModeDetails.StreamMode)
	r.add(id, "retention", "%d h", *s.RetentionPeriodHours)
	r.add(id, "encryption", "%s %s", s.EncryptionType, aws.ToString(s.KeyId))
}

func (r *reading) bucket(id string) {
	encryption, err := r.s3.GetBucketEncryption(r.t.Context(), &s3.GetBucketEncryptionInput{Bucket: &id})
	if !r.exists(id, err) {
		return
	}
	for _, rule := range encryption.ServerSideEncryptionConfiguration.Rules {
		r.add(id, "encryption", "%s", rule.ApplyServerSideEncryptionByDefault.SSEAlgorithm)
	}
	versioning, err := r.s3.GetBucketVersioning(r.t.Context(), &s3.GetBucketVersioningInput{Bucket: &id})
	must(r.t, err)
	r.add(id, "versioning", "%s", versioning.Status)
	block, err := r.s3.GetPublicAccessBlock(r.t.Context(), &s3.GetPublicAccessBlockInput{Bucket: &id})
	if !missing(err) {
		must(r.t, err)
		b := block.PublicAccessBlockConfiguration
		r.add(id, "blocks", "public ACLs %t, ignores them %t, public policies %t, restricts to the account %t",
			*b.BlockPublicAcls, *b.IgnorePublicAcls, *b.BlockPublicPolicy, *b.RestrictPublicBuckets)
	}
	policy, err := r.s3.GetBucketPolicy(r.t.Context(), &s3.GetBucketPolicyInput{Bucket: &id})
	if !missing(err) {
		must(r.t, err)
		r.add(id, "policy", "%s", r.policy(*policy.Policy))
	}
	_, err = r.s3.GetBucketLifecycleConfiguration(r.t.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: &id})
	if !missing(err) {
		must(r.t, err)
		r.add(id, "lifecycle", "deletes objects")
	}
}

// policy returns the statements of a policy on one line, with their members sorted.
func (r *reading) policy(document string) string {
	r.t.Helper()
	var policy struct{ Statement []map[string]any }
	must(r.t, json.Unmarshal([]byte(document), &policy))
	text, err := json.Marshal(policy.Statement)
	must(r.t, err)
	return string(text)
}

func (r *reading) queue(id string) {
	got, err := r.sqs.GetQueueAttributes(r.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &id, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	id = path.Base(id)
	if !r.exists(id, err) {
		return
	}
	r.add(id, "retention", "%s s", got.Attributes["MessageRetentionPeriod"])
	r.add(id, "encryption by SQS", "%s", got.Attributes["SqsManagedSseEnabled"])
	if visibility := got.Attributes["VisibilityTimeout"]; visibility != "30" { // the default
		r.add(id, "visibility", "%s s", visibility)
	}
	if redrive := got.Attributes["RedrivePolicy"]; redrive != "" {
		var policy struct {
			To    string          `json:"deadLetterTargetArn"`
			After json.RawMessage `json:"maxReceiveCount"`
		}
		must(r.t, json.Unmarshal([]byte(redrive), &policy))
		r.add(id, "gives up", "after %s receives to %s", policy.After, policy.To)
	}
	if policy := got.Attributes["Policy"]; policy != "" {
		r.add(id, "policy", "%s", r.policy(policy))
	}
}

// function reads what callers of the alias get.
func (r *reading) function(id string) {
	got, err := r.lambda.GetFunctionConfiguration(r.t.Context(), &lambda.GetFunctionConfigurationInput{
		FunctionName: &id, Qualifier: aws.String("live"),
	})
	if !r.exists(id, err) {
		return
	}
	r.names[id] = "sweep-function"
	for variable, name := range map[string]string{
		"ONCEBOX_CLAIMANT_FROM": "claim-function", "ONCEBOX_SINK": "dedupe-function",
	} {
		if _, ok := got.Environment.Variables[variable]; ok {
			r.names[id] = name
		}
	}
	r.names[*got.LoggingConfig.LogGroup] = r.names[id] + "-logs"
	r.add(id, "runs", "%s on %s with %s", got.Architectures, got.Runtime, *got.Handler)
	r.add(id, "has", "%d MiB, %d s", *got.MemorySize, *got.Timeout)
	r.add(id, "logs to", "%s", *got.LoggingConfig.LogGroup)
	r.add(id, "code", "%s", r.code(*got.CodeSha256))
	for name, value := range got.Environment.Variables {
		r.add(id, name, "%s", value)
	}
	queued, err := r.lambda.GetFunctionEventInvokeConfig(r.t.Context(), &lambda.GetFunctionEventInvokeConfigInput{
		FunctionName: &id,
	})
	if !missing(err) {
		must(r.t, err)
		r.add(id, "queued", "%d s, %d retries", *queued.MaximumEventAgeInSeconds, *queued.MaximumRetryAttempts)
		if d := queued.DestinationConfig; d != nil && d.OnFailure != nil {
			r.add(id, "failed", "go to %s", aws.ToString(d.OnFailure.Destination))
		}
	}
}

func (r *reading) rule(id string) {
	r.names[id] = "schedule"
	got, err := r.eventbridge.DescribeRule(r.t.Context(), &eventbridge.DescribeRuleInput{Name: &id})
	if !r.exists(id, err) {
		return
	}
	r.add(id, "", "%s %s", got.State, *got.ScheduleExpression)
	targets, err := r.eventbridge.ListTargetsByRule(r.t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: &id})
	must(r.t, err)
	var arns []string
	allowed := "not allowed"
	for _, target := range targets.Targets {
		arns = append(arns, *target.Arn)
		policy, err := r.lambda.GetPolicy(r.t.Context(), &lambda.GetPolicyInput{FunctionName: target.Arn})
		if !missing(err) {
			must(r.t, err)
			if strings.Contains(*policy.Policy, *got.Arn) {
				allowed = "allowed"
			}
		}
	}
	r.add(id, "runs", "%s, %s", arns, allowed)
}

// cdkAssets is the bucket to which the CDK uploads zips.
const cdkAssets = "cdk-hnb659fds-assets-" + account + "-" + region

// code finds the zip of a function among the objects that were uploaded, and describes its content.
func (r *reading) code(wanted string) string {
	r.t.Helper()
	assets := &r.zips
	objects, err := r.s3.ListObjectsV2(r.t.Context(), &s3.ListObjectsV2Input{Bucket: assets})
	must(r.t, err)
	for _, o := range objects.Contents {
		object, err := r.s3.GetObject(r.t.Context(), &s3.GetObjectInput{Bucket: assets, Key: o.Key})
		must(r.t, err)
		content, err := io.ReadAll(object.Body)
		must(r.t, err)
		if digest(content) == wanted {
			return unzip(r.t, content)
		}
	}
	return "nothing that was uploaded"
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

func (r *reading) mapping(id string) {
	got, err := r.lambda.GetEventSourceMapping(r.t.Context(), &lambda.GetEventSourceMappingInput{UUID: &id})
	r.names[id] = "mapping"
	if !r.exists(id, err) {
		return
	}
	r.add(id, "from", "%s", *got.EventSourceArn)
	r.add(id, "to", "%s", *got.FunctionArn)
	r.add(id, "is", "%s", *got.State)
	r.add(id, "starts at", "%s", got.StartingPosition)
	r.add(id, "batch", "%d records, %d s", *got.BatchSize, aws.ToInt32(got.MaximumBatchingWindowInSeconds))
	r.add(id, "parallelization", "%d", aws.ToInt32(got.ParallelizationFactor))
	r.add(id, "reports", "%s", got.FunctionResponseTypes)
	r.add(id, "bisects", "%t", aws.ToBool(got.BisectBatchOnFunctionError))
	r.add(id, "retries", "%d", aws.ToInt32(got.MaximumRetryAttempts))
	r.add(id, "record age", "%d s", aws.ToInt32(got.MaximumRecordAgeInSeconds))
	if d := got.DestinationConfig; d != nil && d.OnFailure != nil {
		r.add(id, "gives up to", "%s", *d.OnFailure.Destination)
	}
	if got.MetricsConfig != nil {
		r.add(id, "counts", "%s", got.MetricsConfig.Metrics)
	}
}

func (r *reading) api(id string) {
	r.names[id] = "Api"
	got, err := r.gateway.GetApi(r.t.Context(), &apigatewayv2.GetApiInput{ApiId: &id})
	if !r.exists(id, err) {
		return
	}
	r.add(id, "protocol", "%s", got.ProtocolType)
	routes, err := r.gateway.GetRoutes(r.t.Context(), &apigatewayv2.GetRoutesInput{ApiId: &id})
	must(r.t, err)
	for _, route := range routes.Items {
		authorizer := r.authorizer(id, aws.ToString(route.AuthorizerId))
		r.add(id, *route.RouteKey+" asks for", "%s%s", route.AuthorizationType, authorizer)
		r.add(id, *route.RouteKey+" leads to", "%s", r.target(id, *route.RouteKey, *route.Target))
	}
	stages, err := r.gateway.GetStages(r.t.Context(), &apigatewayv2.GetStagesInput{ApiId: &id})
	must(r.t, err)
	for _, s := range stages.Items {
		name := "stage " + *s.StageName
		r.add(id, name, "deployed by itself %t", aws.ToBool(s.AutoDeploy))
		if d := s.DefaultRouteSettings; d != nil {
			rate, burst := aws.ToFloat64(d.ThrottlingRateLimit), aws.ToInt32(d.ThrottlingBurstLimit)
			r.add(id, name+" limits", "%v/s, %d at once", rate, burst)
		}
		for key, limit := range s.RouteSettings {
			rate, burst := aws.ToFloat64(limit.ThrottlingRateLimit), aws.ToInt32(limit.ThrottlingBurstLimit)
			r.add(id, key+" limits", "%v/s, %d at once", rate, burst)
		}
		if s.AccessLogSettings != nil {
			_, group, _ := strings.Cut(*s.AccessLogSettings.DestinationArn, ":log-group:")
			group, _, _ = strings.Cut(group, ":")
			r.names[group] = "access-logs"
			r.add(id, name+" logs to", "%s", group)
		}
	}
}

func (r *reading) authorizer(api, id string) string {
	r.t.Helper()
	if id == "" {
		return ""
	}
	got, err := r.gateway.GetAuthorizer(r.t.Context(), &apigatewayv2.GetAuthorizerInput{ApiId: &api, AuthorizerId: &id})
	must(r.t, err)
	jwt := got.JwtConfiguration
	return fmt.Sprintf(" of %s for %s in %s", *jwt.Issuer, jwt.Audience, got.IdentitySource)
}

// target describes the integration of a route, and whether the API may call its function.
func (r *reading) target(api, routeKey, target string) string {
	r.t.Helper()
	got, err := r.gateway.GetIntegration(r.t.Context(), &apigatewayv2.GetIntegrationInput{
		ApiId: &api, IntegrationId: aws.String(strings.TrimPrefix(target, "integrations/")),
	})
	must(r.t, err)
	allowed := "not allowed"
	if r.mayCall(r.t, api, routeKey, *got.IntegrationUri) {
		allowed = "allowed"
	}
	return fmt.Sprintf("%s by %s %s, %s", *got.IntegrationUri, got.IntegrationType, *got.PayloadFormatVersion, allowed)
}

func (r *reading) logGroup(id string) {
	got, err := r.logs.DescribeLogGroups(r.t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &id})
	must(r.t, err)
	if len(got.LogGroups) == 0 {
		r.add(id, "", gone)
		return
	}
	r.add(id, "retention", "%d days", aws.ToInt32(got.LogGroups[0].RetentionInDays))
}

func (r *reading) logFilter(id string) {
	got, err := r.logs.DescribeMetricFilters(r.t.Context(), &cloudwatchlogs.DescribeMetricFiltersInput{FilterNamePrefix: &id})
	must(r.t, err)
	if len(got.MetricFilters) == 0 {
		r.add(id, "", gone)
		return
	}
	f := got.MetricFilters[0]
	r.names[id] = *f.MetricTransformations[0].MetricName + "-filter"
	r.add(id, "reads", "%s in %s", *f.FilterPattern, *f.LogGroupName)
	for _, m := range f.MetricTransformations {
		r.add(id, "makes", "%s as %s %s", *m.MetricValue, *m.MetricNamespace, *m.MetricName)
	}
}

// subscription reads a subscription filter, and whether its log group may call the function.
func (r *reading) subscription(id string) {
	r.names[id] = "subscription"
	group := r.outputs["SourceLogGroup"]
	got, err := r.logs.DescribeSubscriptionFilters(r.t.Context(), &cloudwatchlogs.DescribeSubscriptionFiltersInput{
		LogGroupName: &group, FilterNamePrefix: &id,
	})
	must(r.t, err)
	if len(got.SubscriptionFilters) == 0 {
		r.add(id, "", gone)
		return
	}
	f := got.SubscriptionFilters[0]
	pattern := cmp.Or(aws.ToString(f.FilterPattern), "all log events")
	r.add(id, "from", "%s, %s", group, pattern)
	allowed := "not allowed"
	policy, err := r.lambda.GetPolicy(r.t.Context(), &lambda.GetPolicyInput{FunctionName: f.DestinationArn})
	if !missing(err) {
		must(r.t, err)
		if strings.Contains(*policy.Policy, ":log-group:"+group+":*") && strings.Contains(*policy.Policy, "logs.amazonaws.com") &&
			strings.Contains(*policy.Policy, "SourceAccount") {
			allowed = "allowed"
		}
	}
	r.add(id, "to", "%s, %s", *f.DestinationArn, allowed)
}

// alarm reads the resources that an alarm watches and the topics that get its messages. Its limits are the same in
// the template, where tests/stack reads them.
func (r *reading) alarm(id string) {
	got, err := r.cloudwatch.DescribeAlarms(r.t.Context(), &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{id}})
	must(r.t, err)
	if len(got.MetricAlarms) == 0 {
		r.add(id, "", gone)
		return
	}
	a := got.MetricAlarms[0]
	_, section, _ := strings.Cut(*a.AlarmDescription, "#")
	watched := fmt.Sprintf("%s of %s", cmp.Or(string(a.Statistic), aws.ToString(a.ExtendedStatistic)),
		metricText(a.Namespace, a.MetricName, a.Dimensions))
	if len(a.Metrics) > 0 {
		watched = queriesText(a.Metrics)
	}
	r.names[id] = "alarm " + section
	if strings.HasPrefix(section, "throttled-") { // each table, index and stream has one
		dimensions := a.Metrics[len(a.Metrics)-1].MetricStat.Metric.Dimensions
		r.names[id] += " " + r.named(*dimensions[len(dimensions)-1].Value)
	}
	r.add(id, "", "watches %s, tells %s, when over %s", watched, a.AlarmActions, a.OKActions)
}

// dashboard reads which alarms a dashboard shows, and that it has graphs. tests/stack reads these in the template.
func (r *reading) dashboard(id string) {
	got, err := r.cloudwatch.GetDashboard(r.t.Context(), &cloudwatch.GetDashboardInput{DashboardName: &id})
	r.names[id] = "dashboard"
	if !r.exists(id, err) {
		return
	}
	var body struct {
		Widgets []struct {
			Type       string
			Properties struct{ Alarms []string }
		}
	}
	must(r.t, json.Unmarshal([]byte(*got.DashboardBody), &body))
	widgets, alarms := map[string]int{}, 0
	for _, w := range body.Widgets {
		widgets[w.Type]++
		alarms += len(w.Properties.Alarms)
	}
	r.add(id, "", "%d alarms, %d graphs", alarms, widgets["metric"])
}

func metricText(namespace, name *string, dimensions []cloudwatchtypes.Dimension) string {
	text := aws.ToString(namespace) + " " + aws.ToString(name)
	for _, d := range dimensions {
		text += fmt.Sprintf(" %s=%s", *d.Name, *d.Value)
	}
	return text
}

func queriesText(queries []cloudwatchtypes.MetricDataQuery) string {
	var texts []string
	for _, q := range queries {
		if q.MetricStat == nil {
			texts = append(texts, *q.Expression)
			continue
		}
		m := q.MetricStat
		texts = append(texts, fmt.Sprintf("%s is %s of %s", *q.Id, *m.Stat,
			metricText(m.Metric.Namespace, m.Metric.MetricName, m.Metric.Dimensions)))
	}
	return strings.Join(texts, "; ")
}
