package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The types of the resources that the stack is made of.
const (
	tableType        = "AWS::DynamoDB::GlobalTable"
	streamType       = "AWS::Kinesis::Stream"
	functionType     = "AWS::Lambda::Function"
	mappingType      = "AWS::Lambda::EventSourceMapping"
	aliasType        = "AWS::Lambda::Alias"
	versionType      = "AWS::Lambda::Version"
	permissionType   = "AWS::Lambda::Permission"
	invokeType       = "AWS::Lambda::EventInvokeConfig"
	subscriptionType = "AWS::Logs::SubscriptionFilter"
	roleType         = "AWS::IAM::Role"
	policyType       = "AWS::IAM::Policy"
	logGroupType     = "AWS::Logs::LogGroup"
	apiType          = "AWS::ApiGatewayV2::Api"
	stageType        = "AWS::ApiGatewayV2::Stage"
	routeType        = "AWS::ApiGatewayV2::Route"
	integration      = "AWS::ApiGatewayV2::Integration"
	authorizerType   = "AWS::ApiGatewayV2::Authorizer"
	bucketType       = "AWS::S3::Bucket"
	bucketPolicy     = "AWS::S3::BucketPolicy"
	queueType        = "AWS::SQS::Queue"
	queuePolicy      = "AWS::SQS::QueuePolicy"
	alarmType        = "AWS::CloudWatch::Alarm"
	filterType       = "AWS::Logs::MetricFilter"
	ruleType         = "AWS::Events::Rule"
	vaultType        = "AWS::Backup::BackupVault"
	planType         = "AWS::Backup::BackupPlan"
	selectionType    = "AWS::Backup::BackupSelection"
	machineType      = "AWS::StepFunctions::StateMachine"
)

// A template is a CloudFormation template as encoding/json decodes it.
type template map[string]any

func readTemplate(t *testing.T, file string) template {
	t.Helper()
	encoded, err := os.ReadFile(file)
	must(t, err)
	var decoded template
	must(t, json.Unmarshal(encoded, &decoded))
	return decoded
}

// A resource is one of a template's.
type resource map[string]any

// resources returns the resources of a type by logical id.
func (tpl template) resources(kind string) map[string]resource {
	found := map[string]resource{}
	all, _ := tpl["Resources"].(map[string]any)
	for id, r := range all {
		if r, ok := r.(map[string]any); ok && r["Type"] == kind {
			found[id] = r
		}
	}
	return found
}

func (r resource) properties() map[string]any {
	properties, _ := r["Properties"].(map[string]any)
	return properties
}

// at returns the value at a path of member names and indexes, separated by dots. It returns nil if there is no value.
func at(value any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case resource:
			value = v[part]
		case template:
			value = v[part]
		case map[string]any:
			value = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

func textAt(value any, path string) string {
	text, _ := at(value, path).(string)
	return text
}

func number(value any) float64 {
	n, _ := value.(float64)
	return n
}

// list returns a list of CloudFormation's or IAM's, which may be written as a single value.
func list(value any) []any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		return slices.Clone(v)
	}
	return []any{value}
}

// rendered writes a value of a template as a text: references as in Fn::Sub, and everything else as JSON.
func rendered(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case map[string]any:
		if ref, ok := v["Ref"].(string); ok {
			return "${" + ref + "}"
		}
		if path, ok := v["Fn::GetAtt"].([]any); ok {
			return fmt.Sprintf("${%s.%s}", path...)
		}
		if join, ok := v["Fn::Join"].([]any); ok {
			var parts []string
			for _, part := range list(join[1]) {
				parts = append(parts, rendered(part))
			}
			return strings.Join(parts, join[0].(string))
		}
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was decoded
	}
	return string(encoded)
}

// attribute is how the ARN of a resource is rendered.
func attribute(id string) string { return "${" + id + ".Arn}" }

func object(namesAndValues ...any) map[string]any {
	o := map[string]any{}
	for i := 0; i < len(namesAndValues); i += 2 {
		o[namesAndValues[i].(string)] = namesAndValues[i+1]
	}
	return o
}
