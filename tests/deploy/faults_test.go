package deploy

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// A fault is planted into all resources of a type. It must change these facts and no others.
type fault struct {
	kind  string
	plant func(properties map[string]any)
	facts []string
}

func set(name string, value any) func(map[string]any) {
	return func(p map[string]any) { p[name] = value }
}

func without(name string) func(map[string]any) {
	return func(p map[string]any) { delete(p, name) }
}

func inReplica(change func(map[string]any)) func(map[string]any) {
	return func(p map[string]any) { change(p["Replicas"].([]any)[0].(map[string]any)) }
}

func withoutSortKey(p map[string]any) {
	p["KeySchema"] = p["KeySchema"].([]any)[:1]
	p["AttributeDefinitions"] = slices.DeleteFunc(p["AttributeDefinitions"].([]any), func(definition any) bool {
		return definition.(map[string]any)["AttributeName"] == "sk"
	})
}

func withAllAttributesInIndex(p map[string]any) {
	if indexes, ok := p["GlobalSecondaryIndexes"].([]any); ok { // only the dedupe table has it
		indexes[0].(map[string]any)["Projection"] = map[string]any{"ProjectionType": "ALL"}
	}
}

func eachTable(fact string) []string { return []string{"BankTable " + fact, "DedupeTable " + fact} }
func eachStream(fact string) []string {
	return []string{"SourceStream " + fact, "DestinationStream " + fact}
}
func eachFunction(fact string) []string {
	return []string{"claim-function " + fact, "sweep-function " + fact, "dedupe-function " + fact}
}

const (
	alarmType   = "AWS::CloudWatch::Alarm"
	apiType     = "AWS::ApiGatewayV2::Api"
	bucketType  = "AWS::S3::Bucket"
	mappingType = "AWS::Lambda::EventSourceMapping"
	queueType   = "AWS::SQS::Queue"
	routeType   = "AWS::ApiGatewayV2::Route"
	ruleType    = "AWS::Events::Rule"
	streamType  = "AWS::Kinesis::Stream"
	tableType   = "AWS::DynamoDB::GlobalTable"
)

var emptyPolicy = map[string]any{"Version": "2012-10-17", "Statement": []any{}}

var faults = []fault{
	{tableType, withoutSortKey, eachTable("key")},
	{tableType, without("TimeToLiveSpecification"), eachTable("TTL")},
	{tableType, inReplica(without("PointInTimeRecoverySpecification")), eachTable("point-in-time recovery")},
	{tableType, inReplica(set("DeletionProtectionEnabled", false)), eachTable("deletion protection")},
	{
		tableType, set("WarmThroughput", map[string]any{"ReadUnitsPerSecond": 13000, "WriteUnitsPerSecond": 5000}),
		eachTable("warm throughput"),
	},
	{tableType, withAllAttributesInIndex, []string{"DedupeTable index due"}},
	{ruleType, set("State", "DISABLED"), []string{"schedule"}},
	{ruleType, set("Targets", []any{}), []string{"schedule runs"}},
	{"AWS::Lambda::EventInvokeConfig", set("MaximumRetryAttempts", 2), []string{"sweep-function queued"}},
	{streamType, set("RetentionPeriodHours", 48), eachStream("retention")},
	{streamType, without("StreamEncryption"), eachStream("encryption")},
	{streamType, set("StreamModeDetails", map[string]any{"StreamMode": "PROVISIONED"}), eachStream("mode")},
	{streamType, set("ShardCount", 1), nil}, // a provisioned stream needs it
	{mappingType, set("Enabled", false), []string{"mapping is"}},
	{mappingType, set("StartingPosition", "LATEST"), []string{"mapping starts at"}},
	{mappingType, set("BatchSize", 10), []string{"mapping batch"}},
	{mappingType, set("ParallelizationFactor", 2), []string{"mapping parallelization"}},
	{mappingType, without("FunctionResponseTypes"), []string{"mapping reports"}},
	{mappingType, without("BisectBatchOnFunctionError"), []string{"mapping bisects"}},
	{mappingType, without("MaximumRetryAttempts"), []string{"mapping retries"}},
	{mappingType, without("MaximumRecordAgeInSeconds"), []string{"mapping record age"}},
	{mappingType, without("DestinationConfig"), []string{"mapping gives up to"}},
	{mappingType, without("MetricsConfig"), []string{"mapping counts"}},
	{"AWS::Lambda::Function", without("Architectures"), eachFunction("runs")},
	{"AWS::Lambda::Function", without("Timeout"), eachFunction("has")},
	{routeType, without("AuthorizationType"), routes("asks for")},
	{"AWS::ApiGatewayV2::Integration", set("PayloadFormatVersion", "1.0"), routes("leads to")},
	{"AWS::ApiGatewayV2::Stage", without("DefaultRouteSettings"), []string{"Api stage $default limits"}},
	{"AWS::ApiGatewayV2::Stage", without("AutoDeploy"), []string{"Api stage $default"}},
	{bucketType, without("VersioningConfiguration"), []string{"DeadLetterBucket versioning"}},
	{bucketType, without("PublicAccessBlockConfiguration"), []string{"DeadLetterBucket blocks"}},
	{bucketType, set("LifecycleConfiguration", map[string]any{"Rules": []any{map[string]any{
		"Id": "forget", "Status": "Enabled", "NoncurrentVersionExpiration": map[string]any{"NoncurrentDays": 1},
	}}}), []string{"DeadLetterBucket lifecycle"}},
	{"AWS::S3::BucketPolicy", set("PolicyDocument", emptyPolicy), []string{"DeadLetterBucket policy"}},
	{queueType, set("SqsManagedSseEnabled", false), []string{"NotifyQueueUrl encryption by SQS"}},
	{queueType, without("MessageRetentionPeriod"), []string{"NotifyQueueUrl retention"}},
	{"AWS::SQS::QueuePolicy", set("PolicyDocument", emptyPolicy), []string{"NotifyQueueUrl policy"}},
	{"AWS::Logs::LogGroup", without("RetentionInDays"), []string{
		"access-logs retention", "claim-function-logs retention", "sweep-function-logs retention",
		"dedupe-function-logs retention",
	}},
	{"AWS::Logs::MetricFilter", set("FilterPattern", "past_horizon"), []string{
		"RecordsPastHorizon-filter reads", "ClientErrors-filter reads", "RateLimited-filter reads",
	}},
	{"AWS::CloudWatch::Dashboard", set("DashboardBody", `{"widgets":[]}`), []string{"dashboard"}},
	{alarmType, without("AlarmActions"), slices.Collect(maps.Keys(merged(claimAlarms(""), sweepAlarms(""), recordAlarms(""))))},
}

func routes(fact string) (names []string) {
	for name := range apiFacts("", 0) {
		if strings.HasSuffix(name, " "+fact) {
			names = append(names, name)
		}
	}
	return names
}

// readFaults deploys the stack with all faults at once and compares the facts that changed.
func readFaults(t *testing.T, app assembly, want facts) {
	expected := []string{"AWS::SNS::Topic", "Api $default asks for", "Api $default leads to"}
	altered := app.alter(t, func(resources map[string]resource) {
		for _, fault := range faults {
			found := of(resources, fault.kind)
			if len(found) == 0 {
				t.Errorf("there is no %s", fault.kind)
			}
			for _, r := range found {
				fault.plant(r.Properties)
			}
			expected = append(expected, fault.facts...)
		}
		// Two resources that the stack should not have.
		resources["Other"] = resource{Type: "AWS::SNS::Topic", Properties: map[string]any{}}
		open := maps.Clone(of(resources, routeType)[0].Properties)
		open["RouteKey"] = "$default"
		resources["Open"] = resource{Type: routeType, Properties: open}
	})
	template, err := os.ReadFile(altered.templatePath())
	must(t, err)
	stack := stackName("faults")
	_, err = newClients(t).cloudformation.CreateStack(t.Context(), &cloudformation.CreateStackInput{
		StackName: &stack, TemplateBody: aws.String(string(template)),
		Capabilities: []cloudformationtypes.Capability{cloudformationtypes.CapabilityCapabilityIam},
	})
	must(t, err)
	changed := describe(t, stack).read(t).differences(want)
	slices.Sort(expected)
	for _, name := range expected {
		if !slices.Contains(changed, name) {
			t.Errorf("the fault of this fact is not read: %s", name)
		}
	}
	for _, name := range changed {
		if !slices.Contains(expected, name) {
			t.Errorf("no fault changes it: %s", name)
		}
	}
}
