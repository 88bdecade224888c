package stack

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// The types that the stack is made of.
const (
	tableType      = "AWS::DynamoDB::GlobalTable"
	streamType     = "AWS::Kinesis::Stream"
	functionType   = "AWS::Lambda::Function"
	mappingType    = "AWS::Lambda::EventSourceMapping"
	permissionType = "AWS::Lambda::Permission"
	roleType       = "AWS::IAM::Role"
	policyType     = "AWS::IAM::Policy"
	logGroupType   = "AWS::Logs::LogGroup"
	apiType        = "AWS::ApiGatewayV2::Api"
	stageType      = "AWS::ApiGatewayV2::Stage"
	routeType      = "AWS::ApiGatewayV2::Route"
	integrateType  = "AWS::ApiGatewayV2::Integration"
	authorizerType = "AWS::ApiGatewayV2::Authorizer"
	bucketType     = "AWS::S3::Bucket"
	bucketPolicy   = "AWS::S3::BucketPolicy"
	queueType      = "AWS::SQS::Queue"
	queuePolicy    = "AWS::SQS::QueuePolicy"
	alarmType      = "AWS::CloudWatch::Alarm"
)

// expected is what was asked for: the zero value of everything but parts and
// retention is what infra does by default.
type expected struct {
	claims, records bool
	x86             bool
	auth            string        // AWS_IAM by default
	retention       time.Duration // of streams
	recordAge       time.Duration // 80 % of it by default
	parallelization int           // 1 by default
	warm            map[string]any
	key             string // what keys are; "" for AWS's own
	logDays         int    // 30 by default
	rate            int    // 1,000 by default
	disposable      bool
}

// bothJobs is what `cdk synth` makes of a fresh clone.
var bothJobs = expected{claims: true, records: true, retention: 7 * 24 * time.Hour}

// A rule is one requirement of the stack. It tells what breaks it.
type rule struct {
	name  string
	check func(tpl template, want expected) (wrong []string)
}

// rules are all that must hold whatever the context. Alarms and the exact policies
// have tests of their own, alarms_test.go and iam_test.go.
var rules = []rule{
	{"parts", parts},

	{"table keys", each(tableType, tableKeys)},
	{"table TTL", is(tableType, "Properties.TimeToLiveSpecification", map[string]any{"AttributeName": "purge_at", "Enabled": true})},
	{"table on demand", is(tableType, "Properties.BillingMode", "PAY_PER_REQUEST")},
	{"table recovery", is(tableType, "Properties.Replicas.*.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled", true)},
	{"table deletion protection", are(tableType, "Properties.Replicas.*.DeletionProtectionEnabled", func(w expected) any { return !w.disposable })},
	{"table warm throughput", are(tableType, "Properties.WarmThroughput", func(w expected) any {
		if w.warm == nil {
			return nil
		}
		return w.warm
	})},
	{"table encryption", tableEncryption},

	{"kept when removed from the template", kept("DeletionPolicy")},
	{"kept when replaced", kept("UpdateReplacePolicy")},

	{"stream encryption", are(streamType, "Properties.StreamEncryption", func(w expected) any {
		key := "alias/aws/kinesis"
		if w.key != "" {
			key = w.key
		}
		return map[string]any{"EncryptionType": "KMS", "KeyId": key}
	})},
	{"stream retention", are(streamType, "Properties.RetentionPeriodHours", func(w expected) any { return w.retention.Hours() })},
	{"stream on demand", is(streamType, "Properties.StreamModeDetails.StreamMode", "ON_DEMAND")},

	{"function runtime", is(functionType, "Properties.Runtime", "provided.al2023")},
	{"function handler", is(functionType, "Properties.Handler", "bootstrap")},
	{"function architecture", are(functionType, "Properties.Architectures", func(w expected) any {
		if w.x86 {
			return []any{"x86_64"}
		}
		return []any{"arm64"}
	})},
	{"function memory and timeout", functionLimits},
	{"function environment", each(functionType, environment)},
	{"function log group", each(functionType, functionLogs)},
	{"log retention", are(logGroupType, "Properties.RetentionInDays", func(w expected) any { return float64(or(w.logDays, 30)) })},
	{"function role", functionRoles},
	{"role before function", each(functionType, afterItsPolicy("Properties.Role.Fn::GetAtt.0"))},
	{"role before mapping", mappingAfterPolicy},
	{"least privilege", each(policyType, leastPrivilege)},
	{"who invokes", each(permissionType, onlyTheAPI)},

	{"payload format", is(integrateType, "Properties.PayloadFormatVersion", "2.0")},
	{"routes", routes},
	{"route authorization", authorization},
	{"authorizer", each(authorizerType, authorizer)},
	{"stage", is(stageType, "Properties.StageName", "$default")},
	{"throttling", throttling},
	{"access log", each(stageType, accessLog)},

	{"bucket encryption", are(bucketType, "Properties.BucketEncryption.ServerSideEncryptionConfiguration", func(w expected) any {
		if w.key != "" {
			return []any{map[string]any{
				"BucketKeyEnabled":              true,
				"ServerSideEncryptionByDefault": map[string]any{"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": w.key},
			}}
		}
		return []any{map[string]any{"ServerSideEncryptionByDefault": map[string]any{"SSEAlgorithm": "AES256"}}}
	})},
	{"bucket private", is(bucketType, "Properties.PublicAccessBlockConfiguration", map[string]any{
		"BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true,
	})},
	{"bucket versions", is(bucketType, "Properties.VersioningConfiguration.Status", "Enabled")},
	{"bucket expires nothing", is(bucketType, "Properties.LifecycleConfiguration", nil)},
	{"bucket TLS only", tlsOnly(bucketType, bucketPolicy, "Properties.Bucket.Ref", "s3:*", "", "/*")},

	{"queue encryption", queueEncryption},
	{"queue retention", is(queueType, "Properties.MessageRetentionPeriod", (14 * 24 * time.Hour).Seconds())},
	{"queue is no FIFO", is(queueType, "Properties.FifoQueue", nil)},
	{"queue TLS only", tlsOnly(queueType, queuePolicy, "Properties.Queues.0.Ref", "sqs:*", "")},

	{"mapping start", is(mappingType, "Properties.StartingPosition", "TRIM_HORIZON")},
	{"mapping source", mappingSource},
	{"mapping passes every record", is(mappingType, "Properties.FilterCriteria", nil)},
	{"mapping is on", is(mappingType, "Properties.Enabled", nil)},
	{"mapping reports partial failures", is(mappingType, "Properties.FunctionResponseTypes", []any{"ReportBatchItemFailures"})},
	{"mapping bisects", is(mappingType, "Properties.BisectBatchOnFunctionError", true)},
	{"mapping retries", is(mappingType, "Properties.MaximumRetryAttempts", 10000.0)},
	{"mapping record age", are(mappingType, "Properties.MaximumRecordAgeInSeconds", func(w expected) any {
		if w.recordAge == 0 {
			return min(w.retention*4/5, 7*24*time.Hour).Seconds()
		}
		return w.recordAge.Seconds()
	})},
	{"mapping keeps what it gives up", mappingFailures},
	{"mapping parallelization", are(mappingType, "Properties.ParallelizationFactor", func(w expected) any { return float64(or(w.parallelization, 1)) })},
	{"checkpoint", checkpoint},
	{"mapping batches", is(mappingType, "Properties.BatchSize", 1000.0)},
	{"mapping counts events", is(mappingType, "Properties.MetricsConfig.Metrics", []any{"EventCount"})},
}

// broken runs all rules and tells what is wrong, by rule.
func broken(tpl template, want expected) map[string][]string {
	found := map[string][]string{}
	for _, r := range rules {
		if wrong := r.check(tpl, want); len(wrong) > 0 {
			found[r.name] = wrong
		}
	}
	return found
}

// TestRules: the rules hold for what context values make.
func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		values map[string]any
		want   func(*expected)
	}{
		"as committed": {nil, func(*expected) {}},
		"no jobs said": {values("jobs", ""), func(*expected) {}},
		"x86_64":       {values("architecture", "x86_64"), func(w *expected) { w.x86 = true }},
		"claims":       {values("jobs", "claims"), func(w *expected) { w.records = false }},
		"records":      {values("jobs", "records"), func(w *expected) { w.claims = false }},
		"JWT":          {jwt, func(w *expected) { w.auth = "JWT" }},
		"open":         {values("auth", "open"), func(w *expected) { w.auth = "NONE" }},
		"disposable":   {values("disposable", "on"), func(w *expected) { w.disposable = true }},
		"rates":        {values("rate-limit", "50", "burst-limit", "50"), func(w *expected) { w.rate = 50 }},
		"log retention": {
			values("log-retention-days", "7"), func(w *expected) { w.logDays = 7 },
		},
		"warm tables": {
			values("warm-read-units", "13000", "warm-write-units", "5000"),
			func(w *expected) {
				w.warm = map[string]any{"ReadUnitsPerSecond": 13000.0, "WriteUnitsPerSecond": 5000.0}
			},
		},
		"a stream's least retention": {
			values("source-retention", "24h"), func(w *expected) { w.retention = 24 * time.Hour },
		},
		"a stream's longest retention": {
			values("source-retention", "8760h", "horizon", "8760h"), func(w *expected) { w.retention = 365 * 24 * time.Hour },
		},
		"record age": {
			values("record-age", "3h"), func(w *expected) { w.recordAge = 3 * time.Hour },
		},
		"parallel": {
			values("parallelization", "10", "aggregation", "off"), func(w *expected) { w.parallelization = 10 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := bothJobs
			tc.want(&want)
			report(t, broken(synth(t, tc.values), want))
		})
	}
}

func report(t *testing.T, found map[string][]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %s", name, strings.Join(found[name], "; "))
	}
}

// values are context values by their names without "oncebox:".
func values(namesAndValues ...string) map[string]any {
	all := map[string]any{}
	for i := 0; i < len(namesAndValues); i += 2 {
		all[namesAndValues[i]] = namesAndValues[i+1]
	}
	return all
}

var jwt = values("auth", "jwt", "jwt-issuer", "https://issuer.example/pool", "jwt-audience", "web,mobile")

// at follows a path of member names and indexes with dots between. It is nil where
// there is nothing.
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
			if i, err := strconv.Atoi(part); err == nil && i < len(v) {
				value = v[i]
			} else {
				return nil
			}
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

func listAt(value any, path string) []any {
	list, _ := at(value, path).([]any)
	return list
}

// each makes a rule of what must hold for every resource of a type.
func each(kind string, check func(tpl template, r resource, want expected) (wrong string)) func(template, expected) []string {
	return func(tpl template, want expected) (wrong []string) {
		all := tpl.resources(kind)
		for _, id := range slices.Sorted(maps.Keys(all)) {
			if w := check(tpl, all[id], want); w != "" {
				wrong = append(wrong, id+" "+w)
			}
		}
		return wrong
	}
}

// are makes a rule of one value that every resource of a type has. A * in the path
// stands for every element of a list, which is not empty.
func are(kind, path string, wanted func(expected) any) func(template, expected) []string {
	return each(kind, func(_ template, r resource, want expected) string {
		before, after, starred := strings.Cut(path, ".*.")
		got := []any{at(r, path)}
		if starred {
			got = nil
			for _, element := range listAt(r, before) {
				got = append(got, at(element, after))
			}
			if len(got) == 0 {
				return fmt.Sprintf("has no %s", before)
			}
		}
		for _, g := range got {
			if w := wanted(want); !reflect.DeepEqual(g, w) {
				return fmt.Sprintf("has %v as %s, want %v", g, path, w)
			}
		}
		return ""
	})
}

func is(kind, path string, value any) func(template, expected) []string {
	return are(kind, path, func(expected) any { return value })
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// parts counts all resources: none is missing, and none is there that nobody asked
// for, such as the Lambda function of a custom resource.
func parts(tpl template, want expected) (wrong []string) {
	counts := map[string]int{}
	all, _ := tpl["Resources"].(map[string]any)
	for _, r := range all {
		counts[textAt(r, "Type")]++
	}
	wanted := map[string]int{tableType: 1}
	if want.claims {
		for kind, n := range map[string]int{
			tableType: 1, functionType: 1, roleType: 1, policyType: 1, logGroupType: 2,
			apiType: 1, stageType: 1, integrateType: 1, routeType: 3, permissionType: 3,
		} {
			wanted[kind] += n
		}
		if want.auth == "JWT" {
			wanted[authorizerType] = 1
		}
	}
	if want.records {
		for kind, n := range map[string]int{
			streamType: 2, functionType: 1, roleType: 1, policyType: 1, logGroupType: 1,
			mappingType: 1, bucketType: 1, bucketPolicy: 1, queueType: 1, queuePolicy: 1,
		} {
			wanted[kind] += n
		}
	}
	wanted[alarmType] = counts[alarmType] // see alarms_test.go
	if !maps.Equal(counts, wanted) {
		wrong = append(wrong, fmt.Sprintf("the resources are %v, want %v", counts, wanted))
	}
	return wrong
}

func tableKeys(_ template, r resource, _ expected) string {
	got := []any{at(r, "Properties.KeySchema"), at(r, "Properties.AttributeDefinitions")}
	want := []any{
		[]any{
			map[string]any{"AttributeName": "pk", "KeyType": "HASH"},
			map[string]any{"AttributeName": "sk", "KeyType": "RANGE"},
		},
		[]any{
			map[string]any{"AttributeName": "pk", "AttributeType": "S"},
			map[string]any{"AttributeName": "sk", "AttributeType": "S"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("has keys and attributes %v", got)
	}
	return ""
}

// tableEncryption: without a key of the caller's, DynamoDB's own is used, which is
// free; with one, it is named for the table and for every replica.
func tableEncryption(tpl template, want expected) []string {
	if want.key == "" {
		return is(tableType, "Properties.SSESpecification", nil)(tpl, want)
	}
	return append(is(tableType, "Properties.SSESpecification", map[string]any{"SSEEnabled": true, "SSEType": "KMS"})(tpl, want),
		is(tableType, "Properties.Replicas.*.SSESpecification.KMSMasterKeyId", want.key)(tpl, want)...)
}

// kept is about everything that cannot be made again.
func kept(policy string) func(template, expected) []string {
	return func(tpl template, want expected) (wrong []string) {
		value := "Retain"
		if want.disposable {
			value = "Delete"
		}
		for _, kind := range []string{tableType, streamType, bucketType, bucketPolicy, logGroupType} {
			wrong = append(wrong, is(kind, policy, value)(tpl, want)...)
		}
		return wrong
	}
}

// A claim function has the bank table's name, a dedupe function a sink.
func isClaims(function resource) bool {
	return at(function, "Properties.Environment.Variables.ONCEBOX_BANK_TABLE") != nil
}

func functionLimits(tpl template, want expected) []string {
	return each(functionType, func(_ template, r resource, _ expected) string {
		memory, timeout := 1024.0, 60.0
		if isClaims(r) {
			memory, timeout = 512, 10
		}
		if at(r, "Properties.MemorySize") != memory || at(r, "Properties.Timeout") != timeout {
			return fmt.Sprintf("has %v MiB and %v s, want %v and %v", at(r, "Properties.MemorySize"), at(r, "Properties.Timeout"), memory, timeout)
		}
		return ""
	})(tpl, want)
}

// environment: every variable is one that the function reads, with a value that it
// takes, and none is missing that it needs.
func environment(_ template, r resource, _ expected) string {
	environ := []string{"AWS_LAMBDA_FUNCTION_NAME=function"}
	for name, value := range variablesOf(r) {
		if !strings.HasPrefix(name, "ONCEBOX_") {
			return "has a variable " + name
		}
		environ = append(environ, name+"="+value)
	}
	if err := parseSettings(r, environ); err != nil {
		return "would not start: " + err.Error()
	}
	return ""
}

func parseSettings(function resource, environ []string) (err error) {
	if isClaims(function) {
		_, err = claimapi.ParseSettings(environ)
	} else {
		_, err = kinesishandler.ParseSettings(environ)
	}
	return err
}

// variablesOf are a function's variables, with stand-ins for what only the
// deployment knows.
func variablesOf(function resource) map[string]string {
	texts := map[string]string{}
	all, _ := at(function, "Properties.Environment.Variables").(map[string]any)
	for name, value := range all {
		text := rendered(value)
		if name == "ONCEBOX_NOTIFY_QUEUE_URL" && strings.HasPrefix(text, "${") {
			text = "https://sqs.eu-west-1.amazonaws.com/123456789012/" + text
		}
		text = strings.ReplaceAll(text, "${AWS::URLSuffix}", "amazonaws.com")
		texts[name] = reference.ReplaceAllStringFunc(text, func(id string) string { return "its-" + strings.ToLower(strings.Trim(id, "${}")) })
	}
	return texts
}

var reference = regexp.MustCompile(`\$\{\w+\}`)

// functionLogs: without a log group of its own a function gets one at its first
// line, which nobody sees and which keeps everything for ever.
func functionLogs(tpl template, r resource, _ expected) string {
	if tpl.resources(logGroupType)[textAt(r, "Properties.LoggingConfig.LogGroup.Ref")] == nil {
		return "does not log to a group of this template"
	}
	return ""
}

// functionRoles: the roles are made here, only Lambda takes them, and they have no
// policy but those of this template.
func functionRoles(tpl template, want expected) (wrong []string) {
	wrong = each(functionType, func(tpl template, r resource, _ expected) string {
		if tpl.resources(roleType)[textAt(r, "Properties.Role.Fn::GetAtt.0")] == nil {
			return "has a role from elsewhere"
		}
		return ""
	})(tpl, want)
	trust := []any{map[string]any{
		"Action": "sts:AssumeRole", "Effect": "Allow", "Principal": map[string]any{"Service": "lambda.amazonaws.com"},
	}}
	for _, check := range []func(template, expected) []string{
		is(roleType, "Properties.AssumeRolePolicyDocument.Statement", trust),
		is(roleType, "Properties.ManagedPolicyArns", nil),
		is(roleType, "Properties.Policies", nil), // least privilege looks at policies that are resources
	} {
		wrong = append(wrong, check(tpl, want)...)
	}
	return wrong
}

// afterItsPolicy: a role without its policy may do nothing.
func afterItsPolicy(rolePath string) func(template, resource, expected) string {
	return func(tpl template, r resource, _ expected) string {
		role := textAt(r, rolePath)
		if role == "" {
			return "" // it is from elsewhere
		}
		for id, policy := range tpl.resources(policyType) {
			if textAt(policy, "Properties.Roles.0.Ref") == role && slices.Contains(list(r["DependsOn"]), any(id)) {
				return ""
			}
		}
		return "does not wait for the policy of its role"
	}
}

func mappingAfterPolicy(tpl template, want expected) []string {
	return each(mappingType, func(tpl template, r resource, want expected) string {
		function := tpl.resources(functionType)[textAt(r, "Properties.FunctionName.Ref")]
		return afterItsPolicy("Role")(tpl, resource{
			"Role": textAt(function, "Properties.Role.Fn::GetAtt.0"), "DependsOn": r["DependsOn"],
		}, want)
	})(tpl, want)
}

// What may have a * in what is allowed: two families of two actions each, in AWS's
// own words (DynamoDB Developer Guide, "How DynamoDB uses AWS KMS"), and where Lambda
// and the function keep objects, whose names are theirs.
var (
	starredActions = []string{"kms:GenerateDataKey*", "kms:ReEncrypt*"}
	starredObjects = regexp.MustCompile(`^[^*]*(/poison/[^/*]+|/aws/lambda)/\*$`)
)

func leastPrivilege(_ template, policy resource, _ expected) string {
	for _, s := range listAt(policy, "Properties.PolicyDocument.Statement") {
		if at(s, "Effect") == "Deny" {
			continue
		}
		if at(s, "Action") == nil || at(s, "Resource") == nil {
			return "allows everything but something"
		}
		starred := func(text string) bool { return strings.Contains(text, "*") }
		for _, action := range list(at(s, "Action")) {
			if text := rendered(action); starred(text) && !slices.Contains(starredActions, text) {
				return fmt.Sprintf("allows %v on %v", at(s, "Action"), at(s, "Resource"))
			}
		}
		for _, object := range list(at(s, "Resource")) {
			if text := rendered(object); starred(text) && !starredObjects.MatchString(text) {
				return fmt.Sprintf("allows %v on %v", at(s, "Action"), at(s, "Resource"))
			}
		}
	}
	return ""
}

func onlyTheAPI(tpl template, r resource, _ expected) string {
	if at(r, "Properties.Principal") != "apigateway.amazonaws.com" || at(r, "Properties.Action") != "lambda:InvokeFunction" {
		return fmt.Sprintf("lets %v do %v", at(r, "Properties.Principal"), at(r, "Properties.Action"))
	}
	for _, part := range listAt(r, "Properties.SourceArn.Fn::Join.1") {
		if tpl.resources(apiType)[textAt(part, "Ref")] != nil {
			return ""
		}
	}
	return "lets every API invoke the function"
}

// routes: what is not here, API Gateway answers itself.
func routes(tpl template, want expected) []string {
	got, wanted := []string{}, []string{}
	for _, r := range tpl.resources(routeType) {
		got = append(got, textAt(r, "Properties.RouteKey"))
	}
	if want.claims {
		wanted = []string{
			"GET /campaigns/{campaign}",
			"GET /campaigns/{campaign}/claims/{claimant+}",
			"POST /campaigns/{campaign}/claims",
		}
	}
	if slices.Sort(got); !slices.Equal(got, wanted) {
		return []string{fmt.Sprintf("there are %v, want %v", got, wanted)}
	}
	return nil
}

func authorization(tpl template, want expected) []string {
	wanted := want.auth
	if wanted == "" {
		wanted = "AWS_IAM"
	}
	return each(routeType, func(tpl template, r resource, _ expected) string {
		if got := at(r, "Properties.AuthorizationType"); got != wanted {
			return fmt.Sprintf("is open to %v, want %s", got, wanted)
		}
		if wanted == "JWT" && tpl.resources(authorizerType)[textAt(r, "Properties.AuthorizerId.Ref")] == nil {
			return "has no authorizer of this template"
		}
		return ""
	})(tpl, want)
}

func authorizer(tpl template, r resource, _ expected) string {
	switch {
	case at(r, "Properties.AuthorizerType") != "JWT":
		return "is none for tokens"
	case at(r, "Properties.JwtConfiguration.Issuer") != jwt["jwt-issuer"]:
		return "trusts another issuer"
	case !reflect.DeepEqual(listAt(r, "Properties.JwtConfiguration.Audience"), []any{"web", "mobile"}):
		return "takes tokens for other audiences"
	case !reflect.DeepEqual(listAt(r, "Properties.IdentitySource"), []any{"$request.header.Authorization"}):
		return "looks for tokens elsewhere"
	case tpl.resources(apiType)[textAt(r, "Properties.ApiId.Ref")] == nil:
		return "belongs to another API"
	}
	return ""
}

func throttling(tpl template, want expected) []string {
	rate := float64(or(want.rate, 1000))
	return append(
		is(stageType, "Properties.DefaultRouteSettings", map[string]any{"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": rate})(tpl, want),
		is(stageType, "Properties.RouteSettings", nil)(tpl, want)...) // which would overrule it
}

// harmless are the variables of access logs that say nothing about a person (API
// Gateway Developer Guide, "Customize HTTP API access logs"). A route key is a
// pattern, the path itself has the claimant in it.
var harmless = []string{
	"$context.requestId", "$context.requestTime", "$context.routeKey", "$context.status",
	"$context.responseLength", "$context.responseLatency",
	"$context.integration.status", "$context.integration.latency", "$context.integrationErrorMessage",
}

var logVariable = regexp.MustCompile(`\$[a-zA-Z.]+`)

func accessLog(tpl template, r resource, _ expected) string {
	if tpl.resources(logGroupType)[textAt(r, "Properties.AccessLogSettings.DestinationArn.Fn::GetAtt.0")] == nil {
		return "has no access log in this template"
	}
	written := logVariable.FindAllString(textAt(r, "Properties.AccessLogSettings.Format"), -1)
	for _, variable := range written {
		if !slices.Contains(harmless, variable) {
			return "logs " + variable
		}
	}
	for _, variable := range []string{"$context.requestId", "$context.status"} {
		if !slices.Contains(written, variable) {
			return "does not log " + variable
		}
	}
	return ""
}

// tlsOnly: a policy of the resource denies all that comes without TLS, for the
// resource itself and for what is in it.
func tlsOnly(kind, policyKind, of, actions string, suffixes ...string) func(template, expected) []string {
	return func(tpl template, want expected) []string {
		return each(kind, func(tpl template, r resource, _ expected) string {
			for _, policy := range tpl.resources(policyKind) {
				id := textAt(policy, of)
				if !reflect.DeepEqual(tpl.resources(kind)[id], r) {
					continue
				}
				resources := []any{}
				for _, suffix := range suffixes {
					arn := any(map[string]any{"Fn::GetAtt": []any{id, "Arn"}})
					if suffix != "" {
						arn = map[string]any{"Fn::Join": []any{"", []any{arn, suffix}}}
					}
					resources = append(resources, arn)
				}
				for _, s := range listAt(policy, "Properties.PolicyDocument.Statement") {
					if at(s, "Effect") == "Deny" && at(s, "Action") == actions && at(s, "Principal.AWS") == "*" &&
						reflect.DeepEqual(list(at(s, "Resource")), resources) &&
						reflect.DeepEqual(at(s, "Condition"), map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}}) {
						return ""
					}
				}
			}
			return "takes requests without TLS"
		})(tpl, want)
	}
}

func queueEncryption(tpl template, want expected) []string {
	if want.key != "" {
		return is(queueType, "Properties.KmsMasterKeyId", want.key)(tpl, want)
	}
	return is(queueType, "Properties.SqsManagedSseEnabled", true)(tpl, want)
}

// mappingSource: the mapping reads a stream of the template for the dedupe function,
// and not the one that the function writes to.
func mappingSource(tpl template, want expected) []string {
	return each(mappingType, func(tpl template, r resource, _ expected) string {
		source := textAt(r, "Properties.EventSourceArn.Fn::GetAtt.0")
		function := tpl.resources(functionType)[textAt(r, "Properties.FunctionName.Ref")]
		sink := textAt(function, "Properties.Environment.Variables.ONCEBOX_SINK.Fn::Join.1.1.Ref")
		streams := tpl.resources(streamType)
		switch {
		case function == nil || isClaims(function):
			return "feeds another function"
		case streams[source] == nil || streams[sink] == nil:
			return "has streams from elsewhere"
		case source == sink:
			return "reads what the function writes"
		}
		return ""
	})(tpl, want)
}

func mappingFailures(tpl template, want expected) []string {
	return each(mappingType, func(tpl template, r resource, _ expected) string {
		destination := at(r, "Properties.DestinationConfig.OnFailure.Destination")
		if tpl.resources(bucketType)[textAt(destination, "Fn::GetAtt.0")] == nil {
			return fmt.Sprintf("sends what it gives up to %v", destination)
		}
		return ""
	})(tpl, want)
}

// checkpoint: skipping what is done is right only where one batch of a shard is
// processed at a time.
func checkpoint(tpl template, want expected) []string {
	return each(functionType, func(_ template, r resource, want expected) string {
		if isClaims(r) {
			return ""
		}
		wanted := "on"
		if want.parallelization > 1 {
			wanted = "off"
		}
		if got := at(r, "Properties.Environment.Variables.ONCEBOX_CHECKPOINT"); got != wanted {
			return fmt.Sprintf("has the checkpoint %v, want %s", got, wanted)
		}
		return ""
	})(tpl, want)
}
