package stack

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// An invariant holds for every template, in every context. A golden shows the template of one context. An invariant
// also prevents an -update that would write a fault into a golden.
type invariant struct {
	name   string
	check  func(tpl template, context map[string]any) (wrong []string)
	faults []fault
}

// A fault is planted into each resource of a type of one golden. The check of its invariant must find it.
type fault struct {
	what   string
	golden string // "default" if empty
	kind   string
	path   string
	value  any // nil removes the value at the path
}

var invariants = []invariant{
	{"data stays", dataStays, []fault{
		{"a table goes with the stack", "", tableType, "DeletionPolicy", "Delete"},
		{"a stream goes when it is replaced", "", streamType, "UpdateReplacePolicy", "Snapshot"},
		{"a bucket's default", "", bucketType, "DeletionPolicy", nil},
		{"a bucket stays without its policy", "", bucketPolicy, "DeletionPolicy", "Delete"},
		{"a log goes with the stack", "", logGroupType, "DeletionPolicy", "Delete"},
		{"a version goes with the next one", "", versionType, "DeletionPolicy", "Delete"},
		{"a stream stays after a first deployment that failed", "", streamType, "DeletionPolicy", "Retain"},
		{"a bucket stays after a first deployment that failed", "", bucketType, "DeletionPolicy", "Retain"},
		{"a log stays after a first deployment that failed", "", logGroupType, "DeletionPolicy", "Retain"},
		{"a table that cannot be deleted", "", tableType, "DeletionPolicy", "RetainExceptOnCreate"},
		{"a table without protection", "", tableType, replica + ".DeletionProtectionEnabled", false},
		{"a table without recovery", "", tableType, replica + ".PointInTimeRecoverySpecification", nil},
		{"backups go with the stack", "customer-key", vaultType, "DeletionPolicy", "Delete"},
		{"dead letters expire", "", bucketType, "Properties.LifecycleConfiguration", object("Rules", []any{})},
		{
			"letters that are not done expire", "every-setting",
			bucketType, "Properties.LifecycleConfiguration.Rules.0.TagFilters", nil,
		},
	}},
	{"backups are kept, and copied to another account", backedUp, []fault{
		{"no lock", "customer-key", vaultType, "Properties.LockConfiguration", nil},
		{"deleted before the lock permits", "customer-key", planType, planRule + ".Lifecycle.DeleteAfterDays", 89.0},
		{"no copy", "customer-key", planType, planRule + ".CopyActions", nil},
		{"a copy that is deleted earlier", "customer-key", planType, planRule + ".CopyActions.0.Lifecycle.DeleteAfterDays", 7.0},
		{"in another vault", "customer-key", planType, planRule + ".TargetBackupVault", "other"},
		{"one table of two", "customer-key", selectionType, "Properties.BackupSelection.Resources", []any{"one"}},
		{"a vault with a key of AWS", "customer-key", vaultType, "Properties.EncryptionKeyArn", nil},
	}},
	{"data is encrypted and private", dataIsPrivate, []fault{
		{"a stream without a key", "", streamType, "Properties.StreamEncryption", nil},
		{"a bucket without a key", "", bucketType, "Properties.BucketEncryption", nil},
		{"a queue without a key", "", queueType, "Properties.SqsManagedSseEnabled", false},
		{"a bucket for everybody", "", bucketType, "Properties.PublicAccessBlockConfiguration.IgnorePublicAcls", false},
		{"a table with a key of DynamoDB", "customer-key", tableType, "Properties.SSESpecification", nil},
		{"a replica with another key", "customer-key", tableType, replica + ".SSESpecification.KMSMasterKeyId", "other"},
		{"a stream with a key of AWS", "customer-key", streamType, "Properties.StreamEncryption.KeyId", "alias/aws/kinesis"},
		{"a bucket with another key", "customer-key", bucketType, bucketKey + ".KMSMasterKeyID", "other"},
		{"a queue with another key", "customer-key", queueType, "Properties.KmsMasterKeyId", "other"},
	}},
	{"no wildcard in a policy", each(policyType, noWildcard), []fault{
		{"all actions", "", policyType, "Properties.PolicyDocument.Statement.0.Action", "dynamodb:*"},
		{"all resources", "", policyType, "Properties.PolicyDocument.Statement.0.Resource", "*"},
		{"all actions but some", "", policyType, "Properties.PolicyDocument.Statement.0.Action", nil},
		{"network interfaces for the function", "valkey", policyType, "Properties.PolicyDocument.Statement.15.Condition", nil},
	}},
	{"functions start", each(functionType, starts), []fault{
		{"a variable that the function does not know", "", functionType, variables + ".ONCEBOX_NO_SUCH", "1"},
		{"no dedupe table", "", functionType, variables + ".ONCEBOX_DEDUPE_TABLE", nil},
		{"a variable that is not of oncebox", "", functionType, variables + ".AWS_REGION", "us-east-1"},
		{"less memory than that for entries", "log", functionType, "Properties.MemorySize", 3008.0},
	}},
	{"routes are authorized", each(routeType, authorized), []fault{
		{"open", "", routeType, "Properties.AuthorizationType", "NONE"},
		{"links that the function does not verify", "link", functionType, variables + ".ONCEBOX_LINK_KEYS", nil},
		{"a token that nothing verifies", "jwt", routeType, "Properties.AuthorizerId", nil},
	}},
	{"the function wants the caller that the routes want", each(functionType, wantsCallers), []fault{
		{"any caller behind IAM", "claims", functionType, variables + ".ONCEBOX_CALLER", "any"},
		{"IAM behind open routes", "every-setting", functionType, variables + ".ONCEBOX_CALLER", "iam"},
	}},
	{"the list of free items has a low limit", each(stageType, limitsItems), []fault{
		{"no limit", "claims", stageType, "Properties.RouteSettings", nil},
		{"a limit before the route", "claims", stageType, "DependsOn", nil},
	}},
	{"the access log has no personal data", each(stageType, accessLog), []fault{
		{"a claimant", "", stageType, "Properties.AccessLogSettings.Format", `{"path":"$context.path"}`},
		{"a token", "", stageType, "Properties.AccessLogSettings.Format", `{"sub":"$context.authorizer.claims.sub"}`},
	}},
	{"the mapping loses no record", each(mappingType, losesNothing), []fault{
		{"passes over what is in the stream", "", mappingType, "Properties.StartingPosition", "LATEST"},
		{"a filter", "", mappingType, "Properties.FilterCriteria", object("Filters", []any{})},
		{"off", "", mappingType, "Properties.Enabled", false},
		{"no partial failures", "", mappingType, "Properties.FunctionResponseTypes", []any{}},
		{"no bisect", "", mappingType, "Properties.BisectBatchOnFunctionError", nil},
		{"gives up after Kinesis has deleted", "", mappingType, "Properties.MaximumRecordAgeInSeconds", 604800.0},
		{"never gives up", "", mappingType, "Properties.MaximumRecordAgeInSeconds", -1.0},
		{"gives up to nowhere", "", mappingType, "Properties.DestinationConfig", nil},
		{"gives up to another bucket", "", mappingType, "Properties.DestinationConfig.OnFailure.Destination", "other"},
		{"no counts for the alarms", "", mappingType, "Properties.MetricsConfig", nil},
		{"no partial failures of a queue", "from-queue", mappingType, "Properties.FunctionResponseTypes", nil},
		{"a filter of a queue", "from-queue", mappingType, "Properties.FilterCriteria", object("Filters", []any{})},
		{"a queue that loses what fails", "from-queue", queueType, "Properties.RedrivePolicy", nil},
		{"messages that come while they are processed", "from-queue", functionType, "Properties.Timeout", 61.0},
	}},
	{"claims that end are in an index", dueIndex, []fault{
		{"no index", "", tableType, "Properties.GlobalSecondaryIndexes", nil},
		{"more than the keys", "", tableType, index + ".Projection.ProjectionType", "ALL"},
		{"another key", "", tableType, index + ".KeySchema.0.AttributeName", "sk"},
		{"slower than its table", "every-setting", tableType, index + ".WarmThroughput", nil},
	}},
	{"ended claims are closed", each(ruleType, sweeps), []fault{
		{"off", "", ruleType, "Properties.State", "DISABLED"},
		{"no schedule", "", ruleType, "Properties.ScheduleExpression", nil},
		{"no function", "", ruleType, "Properties.Targets", nil},
		{"another function", "", ruleType, "Properties.Targets.0.Arn", object("Fn::GetAtt", []any{"Other", "Arn"})},
	}},
	{"functions are called by their alias", callsAlias, []fault{
		{"an API calls $LATEST", "", integration, "Properties.IntegrationUri", object("Fn::GetAtt", []any{"ClaimsFunction99A26075", "Arn"})},
		{"a mapping calls $LATEST", "", mappingType, "Properties.FunctionName", object("Ref", "RecordsFunction821ACDDD")},
		{"the alias of another function", "", aliasType, "Properties.FunctionName", object("Ref", "Other")},
		{"an alias of $LATEST", "", aliasType, "Properties.FunctionVersion", "$LATEST"},
		{"settings of $LATEST", "", invokeType, "Properties.Qualifier", "$LATEST"},
		{"a permission for $LATEST", "", permissionType, "Properties.FunctionName", object("Fn::GetAtt", []any{"ClaimsFunction99A26075", "Arn"})},
	}},
	{"an API calls what it may call", each(integration, permittedFirst), []fault{
		{"too early", "", integration, "DependsOn", nil},
		{"before a route of it is allowed", "", integration, "DependsOn", []any{"ClaimsLive9E03B851"}},
	}},
	{"a log group sends all log events", each(subscriptionType, sendsAllEvents), []fault{
		{"some log events", "from-logs", subscriptionType, "Properties.FilterPattern", "ERROR"},
		{"before it may call", "from-logs", subscriptionType, "DependsOn", nil},
		{"any log group of any account", "from-logs", permissionType, "Properties.SourceAccount", nil},
		{"another log group", "from-logs", permissionType, "Properties.SourceArn", "other"},
		{"loses what fails", "from-logs", invokeType, "Properties.DestinationConfig", nil},
		{"fewer attempts", "from-logs", invokeType, "Properties.MaximumRetryAttempts", 0.0},
	}},
	{"aggregates are opened by the function", each(mappingType, opensAggregates), []fault{
		{"enhanced fan-out", "", mappingType, "Properties.EventSourceArn", theirStream + "/consumer/fast:1"},
	}},
	{"the log tells what the alarms read", each(filterType, readsTheLog), []fault{
		{"another member", "", filterType, transformation + ".MetricValue", "$.horizon"},
		{"another pattern", "", filterType, "Properties.FilterPattern", "past_horizon"},
		{"another log", "", filterType, "Properties.LogGroupName", object("Ref", "ClaimsFunctionLogs6D297AAD")},
		{"no status in the access log", "claims", filterType, "Properties.FilterPattern", `{ $.statuses = "429" }`},
		{"answers of the function", "claims", filterType, "Properties.FilterPattern", `{ $.status = "429" }`},
		{"another name than that of the alarm", "", filterType, transformation + ".MetricName", "Other"},
		{"an alarm of something else", "log", filterType, transformation + ".MetricName", "Other"},
		{"no batch that fails", "log", filterType, "Properties.FilterPattern", "{ $.error = \"*full*\" }"},
	}},
}

// TestInvariants checks every golden.
func TestInvariants(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		for _, wrong := range broken(g.read(t), g.settings) {
			t.Errorf("%s: %s", g.name, wrong)
		}
	}
}

// broken lists the problems in a template.
func broken(tpl template, context map[string]any) (all []string) {
	for _, i := range invariants {
		for _, wrong := range i.check(tpl, context) {
			all = append(all, i.name+": "+wrong)
		}
	}
	return all
}

func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, i := range invariants {
		for _, f := range i.faults {
			g := goldens[slices.IndexFunc(goldens, func(g golden) bool { return g.name == cmp.Or(f.golden, "default") })]
			planted, tpl := 0, g.read(t)
			for id, r := range tpl.resources(f.kind) {
				before := at(r, f.path)
				if !set(r, f.path, f.value) {
					continue
				}
				planted++
				if len(i.check(tpl, g.settings)) == 0 {
					t.Errorf("%s: no check finds %s: %s", i.name, id, f.what)
				}
				set(r, f.path, before)
			}
			if planted == 0 {
				t.Errorf("%s: no resource to plant it in: %s", i.name, f.what)
			}
		}
	}
}

// set puts a value at a path. If the value is nil, it removes the value at the path. It reports whether it changed
// anything. It makes at most the last part of the path.
func set(r resource, path string, value any) bool {
	parent, last := map[string]any(r), path
	if i := strings.LastIndex(path, "."); i >= 0 {
		parent, _ = at(r, path[:i]).(map[string]any)
		last = path[i+1:]
	}
	if parent == nil || reflect.DeepEqual(parent[last], value) {
		return false
	}
	if parent[last] = value; value == nil {
		delete(parent, last)
	}
	return true
}

// each returns a check of a condition for every resource of a type.
func each(
	kind string, check func(tpl template, r resource, context map[string]any) (wrong string),
) func(template, map[string]any) []string {
	return func(tpl template, context map[string]any) (wrong []string) {
		for id, r := range tpl.resources(kind) {
			if w := check(tpl, r, context); w != "" {
				wrong = append(wrong, id+" "+w)
			}
		}
		return wrong
	}
}

// want is a value that every resource of a type has.
type want struct {
	kind, path string
	value      any
}

// notAsWanted lists the resources with other values.
func notAsWanted(tpl template, all []want) (wrong []string) {
	for _, w := range all {
		for id, r := range tpl.resources(w.kind) {
			if got := at(r, w.path); !reflect.DeepEqual(got, w.value) {
				wrong = append(wrong, fmt.Sprintf("%s has %v as %s, want %v", id, got, w.path, w.value))
			}
		}
	}
	return wrong
}

// dataStays checks that all resources whose content cannot be made again stay, and that the policy of a bucket stays
// with it.
func dataStays(tpl template, context map[string]any) []string {
	disposable := context["disposable"] == "on"
	onTables, onOthers, onReplace := "Retain", "RetainExceptOnCreate", "Retain"
	if disposable {
		onTables, onOthers, onReplace = "Delete", "Delete", "Delete"
	}
	var expiry any
	if context["done-letter-expiry"] != nil {
		expiry = object("Rules", []any{
			map[string]any{
				"Id": "done-letters", "Status": "Enabled", "ExpirationInDays": 90.0,
				"NoncurrentVersionExpiration": object("NoncurrentDays", 1.0),
				"TagFilters":                  []any{map[string]any{"Key": deadletter.DoneTag, "Value": deadletter.DoneValue}},
			},
			map[string]any{"Id": "delete-markers", "Status": "Enabled", "ExpiredObjectDeleteMarker": true},
		})
	}
	wanted := []want{
		{bucketType, "Properties.LifecycleConfiguration", expiry},
		{tableType, replica + ".DeletionProtectionEnabled", !disposable},
		{tableType, replica + ".PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled", true},
		{tableType, "Properties.Replicas.1", nil}, // the lines above look at the first one only
	}
	// A first deployment that fails must leave no resource that costs money. A table without rows costs nothing, and
	// its deletion would fail because of its deletion protection.
	wanted = append(wanted, want{tableType, "DeletionPolicy", onTables}, want{tableType, "UpdateReplacePolicy", onReplace})
	for _, kind := range []string{streamType, bucketType, bucketPolicy, logGroupType, versionType, vaultType} {
		wanted = append(wanted, want{kind, "DeletionPolicy", onOthers}, want{kind, "UpdateReplacePolicy", onReplace})
	}
	return notAsWanted(tpl, wanted)
}

const planRule = "Properties.BackupPlan.BackupPlanRule.0"

// backedUp checks the backups of a stack that has them.
func backedUp(tpl template, _ map[string]any) (wrong []string) {
	for id, vault := range tpl.resources(vaultType) {
		days := at(vault, "Properties.LockConfiguration.MinRetentionDays")
		wanted := []want{
			{planType, planRule + ".TargetBackupVault", object("Fn::GetAtt", []any{id, "BackupVaultName"})},
			{planType, planRule + ".Lifecycle.DeleteAfterDays", days},
			{planType, planRule + ".CopyActions.0.DestinationBackupVaultArn", theirVault},
			{planType, planRule + ".CopyActions.0.Lifecycle.DeleteAfterDays", days},
			{vaultType, "Properties.EncryptionKeyArn", customerKey(tpl)},
		}
		if days == nil {
			wrong = append(wrong, id+" has no lock")
		}
		wrong = append(wrong, notAsWanted(tpl, wanted)...)
		for _, selection := range tpl.resources(selectionType) {
			tables := list(at(selection, "Properties.BackupSelection.Resources"))
			if len(tables) != len(tpl.resources(tableType)) {
				wrong = append(wrong, fmt.Sprintf("the plan has the tables %v", tables))
			}
		}
	}
	return wrong
}

const (
	replica   = "Properties.Replicas.0"
	variables = "Properties.Environment.Variables"
	bucketKey = "Properties.BucketEncryption.ServerSideEncryptionConfiguration.0.ServerSideEncryptionByDefault"
)

// dataIsPrivate checks that all data is encrypted with the customer's key, which one of the policies names, or with
// keys of AWS. If the template names no key for a table, DynamoDB uses its own.
func dataIsPrivate(tpl template, _ map[string]any) []string {
	wanted := []want{{bucketType, "Properties.PublicAccessBlockConfiguration", object(
		"BlockPublicAcls", true, "BlockPublicPolicy", true, "IgnorePublicAcls", true, "RestrictPublicBuckets", true,
	)}}
	if key := customerKey(tpl); key != nil {
		wanted = append(wanted,
			want{tableType, "Properties.SSESpecification", object("SSEEnabled", true, "SSEType", "KMS")},
			want{tableType, replica + ".SSESpecification.KMSMasterKeyId", key},
			want{streamType, "Properties.StreamEncryption", object("EncryptionType", "KMS", "KeyId", key)},
			want{bucketType, bucketKey, object("SSEAlgorithm", "aws:kms", "KMSMasterKeyID", key)},
			want{queueType, "Properties.KmsMasterKeyId", key})
	} else {
		wanted = append(wanted,
			want{tableType, "Properties.SSESpecification", nil},
			want{streamType, "Properties.StreamEncryption", object("EncryptionType", "KMS", "KeyId", "alias/aws/kinesis")},
			want{bucketType, bucketKey, object("SSEAlgorithm", "AES256")},
			want{queueType, "Properties.SqsManagedSseEnabled", true})
	}
	return notAsWanted(tpl, wanted)
}

// customerKey returns the key that the functions may use, or nil.
func customerKey(tpl template) any {
	for _, policy := range tpl.resources(policyType) {
		for _, s := range policyStatements(policy) {
			if strings.HasPrefix(rendered(list(s["Action"])[0]), "kms:") && s["Resource"] != oldKey {
				return s["Resource"]
			}
		}
	}
	return nil
}

// These may have a * in their actions or resources: two families of two actions each, in AWS's own words (DynamoDB
// Developer Guide, "How DynamoDB uses AWS KMS"), the objects that the function and Lambda write, whose names they
// choose, and the streams of a table, which are listed.
var (
	starredActions = []string{"kms:GenerateDataKey*", "kms:ReEncrypt*"}
	starredObjects = regexp.MustCompile(`^[^*]*(/poison/[^*]+|/aws/lambda|:their-lake/(events|records)|:their-exports/oncebox-Claims|` +
		`Table[0-9A-F]+\.Arn}/export|:table/their-items/stream|\$\{Archive\w+\.Arn}/claims)/\*$|^arn:[^*]*:recovery-point:\*$`)
)

func noWildcard(_ template, policy resource, _ map[string]any) string {
	for _, s := range policyStatements(policy) {
		if s["Action"] == nil || s["Resource"] == nil {
			return "allows everything but something"
		}
		for _, action := range list(s["Action"]) {
			if text := rendered(action); strings.Contains(text, "*") && !slices.Contains(starredActions, text) {
				return "allows " + text
			}
		}
		for _, arn := range list(s["Resource"]) {
			if text := rendered(arn); strings.Contains(text, "*") && !starredObjects.MatchString(text) && !forInterfaces(s) && !forTraces(s) {
				return "is for " + text
			}
		}
	}
	return ""
}

// forInterfaces reports whether a statement is for the network interfaces of a function in a VPC, which Lambda makes.
// The function itself may not use that statement.
func forInterfaces(statement map[string]any) bool {
	return rendered(statement["Condition"]) == `{"Null":{"lambda:SourceFunctionArn":"true"}}` &&
		!slices.ContainsFunc(list(statement["Action"]), func(action any) bool { return !strings.HasPrefix(rendered(action), "ec2:") })
}

// forTraces reports whether a statement only sends traces to X-Ray, whose actions have no resources.
func forTraces(statement map[string]any) bool {
	return rendered(statement["Action"]) == `["xray:PutTelemetryRecords","xray:PutTraceSegments"]`
}

// starts checks that the function's own parser takes the variables.
func starts(_ template, function resource, context map[string]any) string {
	environ := []string{
		"AWS_LAMBDA_FUNCTION_NAME=function", fmt.Sprintf("AWS_LAMBDA_FUNCTION_MEMORY_SIZE=%v", at(function, "Properties.MemorySize")),
	}
	all, _ := at(function, variables).(map[string]any)
	for name, value := range all {
		if name == "AWS_ENDPOINT_URL" && value == context["endpoint-url"] {
			continue
		}
		if !strings.HasPrefix(name, "ONCEBOX_") {
			return "has a variable " + name
		}
		environ = append(environ, name+"="+deployedText(name, value))
	}
	if err := parseSettings(function, environ); err != nil {
		return "would not start: " + err.Error()
	}
	return ""
}

var reference = regexp.MustCompile(`\$\{\w+\}`)

// deployedText returns the value of a variable with stand-ins for the names that only the deployment knows.
func deployedText(name string, value any) string {
	text := strings.ReplaceAll(rendered(value), "${AWS::URLSuffix}", "amazonaws.com")
	if name == "ONCEBOX_DEAD_LETTERS" {
		text = strings.ReplaceAll(text, "?notify=${", "?notify=https://sqs.eu-west-1.amazonaws.com/123456789012/${")
	}
	return reference.ReplaceAllStringFunc(text, func(id string) string {
		return "its-" + strings.ToLower(strings.Trim(id, "${}"))
	})
}

func parseSettings(function resource, environ []string) (err error) {
	switch nameOf(function) {
	case "claim":
		_, _, err = claimapi.ParseSettings(environ)
	case "sweep":
		_, _, err = sweephandler.ParseSettings(environ)
	default:
		_, _, err = recordhandler.ParseSettings(environ)
	}
	return err
}

// nameOf names a function by a variable that only this function has.
func nameOf(function resource) string {
	switch {
	case at(function, variables+".ONCEBOX_CLAIMANT_FROM") != nil:
		return "claim"
	case at(function, variables+".ONCEBOX_SINK") != nil:
		return "dedupe"
	}
	return "sweep"
}

const index = "Properties.GlobalSecondaryIndexes.0"

// dueIndex checks every table that is not the bank's.
func dueIndex(tpl template, _ map[string]any) (wrong []string) {
	tables := tpl.resources(tableType)
	for _, function := range tpl.resources(functionType) {
		delete(tables, strings.Trim(textOf(function, "ONCEBOX_BANK_TABLE"), "${}"))
	}
	for id, table := range tables {
		wanted := object("IndexName", "due", "Projection", object("ProjectionType", "KEYS_ONLY"), "KeySchema", []any{
			object("AttributeName", "due", "KeyType", "HASH"), object("AttributeName", "ends_at", "KeyType", "RANGE"),
		})
		if warm := at(table, "Properties.WarmThroughput"); warm != nil {
			wanted["WarmThroughput"] = warm
		}
		if got := at(table, index); !reflect.DeepEqual(got, any(wanted)) {
			wrong = append(wrong, fmt.Sprintf("%s has the index %v, want %v", id, got, wanted))
		}
	}
	return wrong
}

// sweeps checks that a rule runs a function that closes claims.
func sweeps(tpl template, rule resource, _ map[string]any) string {
	target := rendered(at(rule, "Properties.Targets.0.Arn"))
	function := tpl.behind(at(rule, "Properties.Targets.0.Arn"))
	switch {
	case at(rule, "Properties.State") != "ENABLED" || textAt(rule, "Properties.ScheduleExpression") == "":
		return "does not run"
	case startsExports(tpl, rule):
	case function == nil || nameOf(function) != "sweep":
		return "runs " + target
	}
	return ""
}

// startsExports reports whether a rule starts a state machine.
func startsExports(tpl template, rule resource) bool {
	return tpl.resources(machineType)[textAt(rule, "Properties.Targets.0.Arn.Ref")] != nil
}

func authorized(tpl template, route resource, context map[string]any) string {
	kind := at(route, "Properties.AuthorizationType")
	switch {
	case kind == "AWS_IAM" || kind == "NONE" && context["auth"] == "open":
		return ""
	case kind == "NONE" && context["auth"] == "link" && verifiesLinks(tpl):
		return ""
	case kind == "NONE" && context["page"] == "on" && strings.HasPrefix(textAt(route, "Properties.RouteKey"), "GET /c/{campaign}"):
		return "" // the page is for everybody
	case kind == "JWT":
		authorizer := tpl.resources(authorizerType)[textAt(route, "Properties.AuthorizerId.Ref")]
		if authorizer != nil && reflect.DeepEqual(at(authorizer, "Properties.ApiId"), at(route, "Properties.ApiId")) {
			return ""
		}
	}
	return fmt.Sprintf("is open to %v", kind)
}

// wantsCallers checks that a function whose callers name the claimant takes the callers that the routes let through.
func wantsCallers(_ template, function resource, context map[string]any) string {
	var want any
	if at(function, variables+".ONCEBOX_CLAIMANT_FROM") == "body" {
		want = "iam"
		if context["auth"] == "open" {
			want = "any"
		}
	}
	if got := at(function, variables+".ONCEBOX_CALLER"); got != want {
		return fmt.Sprintf("takes the callers %v, want %v", got, want)
	}
	return ""
}

// limitsItems checks the limit of the one route, and that the route exists before it.
func limitsItems(tpl template, stage resource, _ map[string]any) string {
	const key = "GET /campaigns/{campaign}/items"
	settings, _ := at(stage, "Properties.RouteSettings").(map[string]any)
	if want := object("ThrottlingRateLimit", 100.0, "ThrottlingBurstLimit", 100.0); !reflect.DeepEqual(settings[key], any(want)) {
		return fmt.Sprintf("limits the items to %v", settings[key])
	}
	ofStage := func(route resource) bool {
		return at(route, "Properties.RouteKey") == key &&
			reflect.DeepEqual(at(route, "Properties.ApiId"), at(stage, "Properties.ApiId"))
	}
	for id, route := range tpl.resources(routeType) {
		if ofStage(route) && !slices.Contains(list(stage["DependsOn"]), any(id)) {
			return "does not wait for the route " + id
		}
	}
	return ""
}

// verifiesLinks reports whether the function accepts claimants only from personal links.
func verifiesLinks(tpl template) bool {
	for _, function := range tpl.resources(functionType) {
		if at(function, variables+".ONCEBOX_CLAIMANT_FROM") == "link" && at(function, variables+".ONCEBOX_LINK_KEYS") != nil {
			return true
		}
	}
	return false
}

// harmless are the variables of access logs without personal data (API Gateway Developer Guide, "Customize HTTP API
// access logs"). A route key is a pattern; the path itself names the claimant.
var harmless = []string{
	"$context.requestId", "$context.requestTime", "$context.routeKey", "$context.status",
	"$context.responseLength", "$context.responseLatency",
	"$context.integration.status", "$context.integration.latency", "$context.integrationErrorMessage",
	"$context.error.message", "$context.authorizer.error", // texts of API Gateway and of its authorizers
}

var logVariable = regexp.MustCompile(`\$[a-zA-Z.]+`)

func accessLog(_ template, stage resource, _ map[string]any) string {
	for _, variable := range logVariable.FindAllString(textAt(stage, "Properties.AccessLogSettings.Format"), -1) {
		if !slices.Contains(harmless, variable) {
			return "logs " + variable
		}
	}
	return ""
}

// losesNothing checks that every record of the stream reaches the function. Otherwise it must reach the bucket of
// dead letters before Kinesis deletes it.
func losesNothing(tpl template, mapping resource, _ map[string]any) string {
	p := mapping.properties()
	if queue := tpl.resources(queueType)[textAt(p, "EventSourceArn.Fn::GetAtt.0")]; queue != nil {
		return losesNoMessage(tpl, mapping, queue)
	}
	for name, value := range map[string]any{
		"StartingPosition": "TRIM_HORIZON", "FilterCriteria": nil, "Enabled": nil, "BisectBatchOnFunctionError": true,
		"FunctionResponseTypes": []any{"ReportBatchItemFailures"}, "MetricsConfig": object("Metrics", []any{"EventCount"}),
	} {
		if !reflect.DeepEqual(p[name], value) {
			return fmt.Sprintf("has %v as %s, want %v", p[name], name, value)
		}
	}
	age := number(p["MaximumRecordAgeInSeconds"])
	source := tpl.resources(streamType)[textAt(p, "EventSourceArn.Fn::GetAtt.0")] // nil if it exists already
	if kept := number(at(source, "Properties.RetentionPeriodHours")) * 3600; age < 60 || source != nil && age >= kept {
		return fmt.Sprintf("gives records up after %v s, and the stream keeps them for %v s", age, kept)
	}
	letters := textOf(tpl.function(mapping), "ONCEBOX_DEAD_LETTERS")
	destination := rendered(at(p, "DestinationConfig.OnFailure.Destination"))
	_, bucket, _ := strings.Cut(destination, ":s3:::") // the name of an existing bucket
	if id, made := strings.CutSuffix(destination, ".Arn}"); made {
		bucket = id + "}"
	}
	if bucket == "" || !strings.HasPrefix(letters, "s3://"+bucket+"/") {
		return fmt.Sprintf("gives records up to %s, and dead letters go to %s", destination, letters)
	}
	return ""
}

// losesNoMessage checks that every message reaches the function, once at a time, or the dead-letter queue.
func losesNoMessage(tpl template, mapping, queue resource) string {
	p := mapping.properties()
	for name, value := range map[string]any{
		"FilterCriteria": nil, "Enabled": nil, "FunctionResponseTypes": []any{"ReportBatchItemFailures"},
		"MetricsConfig": object("Metrics", []any{"EventCount"}),
	} {
		if !reflect.DeepEqual(p[name], value) {
			return fmt.Sprintf("has %v as %s, want %v", p[name], name, value)
		}
	}
	visible, timeout := number(at(queue, "Properties.VisibilityTimeout")), number(at(tpl.function(mapping), "Properties.Timeout"))
	if window := number(p["MaximumBatchingWindowInSeconds"]); visible < 6*timeout+window {
		return fmt.Sprintf("reads a queue with a visibility timeout of %v s; the function takes %v s", visible, timeout)
	}
	letters := tpl.resources(queueType)[textAt(queue, "Properties.RedrivePolicy.deadLetterTargetArn.Fn::GetAtt.0")]
	if number(at(letters, "Properties.MessageRetentionPeriod")) <= number(at(queue, "Properties.MessageRetentionPeriod")) {
		return "reads a queue whose dead-letter queue is missing, or forgets messages as early as the queue"
	}
	return ""
}

// sendsAllEvents checks that a log group calls a function with everything, only after it may, and that Lambda stores the
// messages that fail.
func sendsAllEvents(tpl template, subscription resource, _ map[string]any) string {
	if pattern := textAt(subscription, "Properties.FilterPattern"); pattern != "" {
		return "sends only " + pattern
	}
	function, group := tpl.behind(at(subscription, "Properties.DestinationArn")), rendered(at(subscription, "Properties.LogGroupName"))
	waits := list(subscription["DependsOn"])
	var permitted, stored bool
	for id, p := range tpl.resources(permissionType) {
		permitted = permitted || slices.Contains(waits, any(id)) && at(p, "Properties.Principal") == "logs.amazonaws.com" &&
			strings.HasSuffix(rendered(at(p, "Properties.SourceArn")), ":log-group:"+group+":*") &&
			at(p, "Properties.SourceAccount") != nil
	}
	_, letters, _ := strings.Cut(textOf(function, "ONCEBOX_DEAD_LETTERS"), "s3://${")
	bucket, _, _ := strings.Cut(letters, "}")
	for id, c := range tpl.resources(invokeType) {
		stored = stored || slices.Contains(waits, any(id)) && number(at(c, "Properties.MaximumRetryAttempts")) == 2 &&
			rendered(at(c, "Properties.DestinationConfig.OnFailure.Destination")) == "${"+bucket+".Arn}"
	}
	if !permitted || !stored {
		return fmt.Sprintf("may call the function: %t; messages that fail are stored: %t", permitted, stored)
	}
	return ""
}

func opensAggregates(tpl template, mapping resource, _ map[string]any) string {
	consumer := strings.Contains(rendered(at(mapping, "Properties.EventSourceArn")), "/consumer/")
	if consumer && textOf(tpl.function(mapping), "ONCEBOX_SOURCE_AGGREGATION") != "off" {
		return "reads a consumer: Lambda opens KPL aggregates before the function can"
	}
	return ""
}

const transformation = "Properties.MetricTransformations.0"

// logMembers are the numbers of the log line that alarms are about: TestOneLogLinePerInvocation and TestLogLedger of
// package recordhandler.
var logMembers = []string{
	"$.past_horizon", "$.dead_lettered", "$.ledger_memory_share", "$.ledger_appends", "$.ledger_conflicts", "$.ledger_lane_units",
}

// versionMembers are the members of log lines that alarms of a canary are about. TestLogBytes in tests has such lines.
var versionMembers = []string{"$.status", "$.failed", "$.dead_lettered"}

var memberPattern = regexp.MustCompile(`\$\.[a-z_]+`)

// errorPattern matches a pattern that finds a part of the error in the log line.
var errorPattern = regexp.MustCompile(`^{ \$\.error = "\*([^*]+)\*" }$`)

// readsTheLog checks a filter of the dedupe function's log against the log line, and that an alarm reads its metric.
func readsTheLog(tpl template, filter resource, _ map[string]any) string {
	p := filter.properties()
	pattern, value := textAt(filter, "Properties.FilterPattern"), textAt(filter, transformation+".MetricValue")
	wantedLog := logsOfDedupe(tpl)
	if textAt(filter, transformation+".Dimensions.0.Value") == "$.version" {
		members := memberPattern.FindAllString(pattern, -1)
		if slices.Contains(members, "$.status") {
			wantedLog = logsOf(tpl, "claim")
		}
		if slices.ContainsFunc(members, func(m string) bool { return !slices.Contains(versionMembers, m) }) || value != "1" {
			return fmt.Sprintf("counts lines by %v, each as %s", members, value)
		}
	} else if statusPattern.MatchString(pattern) {
		if wantedLog = logsOfAPI(tpl); value != "1" {
			return "counts requests by " + value
		}
		if strings.Contains(pattern, `$.status = "429"`) && !strings.Contains(pattern, `$.integrationStatus != "429"`) {
			return "counts lists of free items that were not read yet"
		}
	} else if part := errorPattern.FindStringSubmatch(pattern); part != nil {
		if full := (&logledger.MemoryError{}).Error(); !strings.Contains(full, part[1]) || value != "1" {
			return "counts no batch that does not fit into memory: " + part[1]
		}
	} else if pattern != "{ "+value+" > 0 }" || !slices.Contains(logMembers, value) {
		return "counts something else than it looks at, or what is not in the log line: " + value
	}
	if !slices.Contains(wantedLog, rendered(p["LogGroupName"])) {
		return "reads another log than that with such lines"
	}
	name, namespace := textAt(filter, transformation+".MetricName"), rendered(at(filter, transformation+".MetricNamespace"))
	for _, alarm := range tpl.resources(alarmType) {
		metrics := []any{alarm.properties()}
		for _, m := range list(at(alarm, "Properties.Metrics")) {
			metrics = append(metrics, at(m, "MetricStat.Metric"))
		}
		if slices.ContainsFunc(metrics, func(m any) bool {
			return textAt(m, "MetricName") == name && rendered(at(m, "Namespace")) == namespace
		}) {
			return ""
		}
	}
	return "makes a metric that no alarm reads"
}

// statusPattern matches a pattern for the members status and integrationStatus of access logs, which are texts.
var statusPattern = regexp.MustCompile(`^{ (\(?\$\.(status|integrationStatus) !?= "[0-9*]+"\)?( && )?)+ }$`)

// logsOfDedupe returns the logs of the dedupe functions.
func logsOfDedupe(tpl template) []string { return logsOf(tpl, "dedupe") }

func logsOf(tpl template, kind string) (all []string) {
	for _, function := range tpl.resources(functionType) {
		if nameOf(function) == kind {
			all = append(all, rendered(at(function, "Properties.LoggingConfig.LogGroup")))
		}
	}
	return all
}

// logsOfAPI returns access logs whose lines have the status.
func logsOfAPI(tpl template) (all []string) {
	for _, stage := range tpl.resources(stageType) {
		if !strings.Contains(textAt(stage, "Properties.AccessLogSettings.Format"), `"status":"$context.status"`) {
			continue
		}
		group := textAt(stage, "Properties.AccessLogSettings.DestinationArn.Fn::GetAtt.0")
		all = append(all, "${"+group+"}")
	}
	return all
}

// function returns the function of a mapping.
func (tpl template) function(mapping resource) resource {
	return tpl.behind(at(mapping, "Properties.FunctionName"))
}

// behind returns the function that a reference to its alias calls, or nil, because every caller must use the alias.
func (tpl template) behind(reference any) resource {
	alias := tpl.resources(aliasType)[textAt(reference, "Ref")]
	version := tpl.resources(versionType)[textAt(alias, "Properties.FunctionVersion.Fn::GetAtt.0")]
	function := textAt(version, "Properties.FunctionName.Ref")
	name := at(alias, "Properties.Name")
	if name != "live" && name != "canary" || function == "" || function != textAt(alias, "Properties.FunctionName.Ref") {
		return nil
	}
	return tpl.resources(functionType)[function]
}

// callsAlias checks who calls functions.
func callsAlias(tpl template, _ map[string]any) (wrong []string) {
	for kind, path := range map[string]string{
		integration: "Properties.IntegrationUri", permissionType: "Properties.FunctionName", mappingType: "Properties.FunctionName",
		ruleType: "Properties.Targets.0.Arn", subscriptionType: "Properties.DestinationArn", invokeType: "Properties.Qualifier.Fn::Select.1.Fn::Split.1",
	} {
		for id, r := range tpl.resources(kind) {
			if tpl.behind(at(r, path)) == nil && (kind != ruleType || !startsExports(tpl, r)) {
				wrong = append(wrong, fmt.Sprintf("%s calls %s", id, rendered(at(r, path))))
			}
		}
	}
	return wrong
}

// permittedFirst checks that an API calls an alias only after it has the permission.
func permittedFirst(tpl template, integration resource, _ map[string]any) string {
	for id, permission := range tpl.resources(permissionType) {
		api := rendered(at(permission, "Properties.SourceArn"))
		if strings.Contains(api, rendered(at(integration, "Properties.ApiId"))) && !slices.Contains(list(integration["DependsOn"]), any(id)) {
			return "does not wait for " + id
		}
	}
	return ""
}

// textOf returns a variable of a function.
func textOf(function resource, variable string) string {
	return rendered(at(function, variables+"."+variable))
}

// keepData are the types of the resources whose logical ids are pinned.
var keepData = []string{
	tableType, streamType, bucketType, queueType, apiType, logGroupType, mappingType, functionType, aliasType, "AWS::KMS::Key",
}

// idsOfWhatKeepsData returns the logical ids of a template that are pinned, sorted.
func idsOfWhatKeepsData(tpl template) (ids []string) {
	for _, kind := range keepData {
		ids = slices.AppendSeq(ids, maps.Keys(tpl.resources(kind)))
	}
	slices.Sort(ids)
	return ids
}

// TestNamesOfWhatKeepsData pins logical ids, by which CloudFormation identifies resources. A resource with another id
// would be new and empty: the bank, claims and entries would be missing, although the old tables stay. So no -update
// changes these names; a change needs a migration.
func TestNamesOfWhatKeepsData(t *testing.T) {
	t.Parallel()
	claims := []string{
		"ClaimsAPI5BA16AE3", // it is in the URL that clients know
		"ClaimsAccessLogsDF400F75", "ClaimsBankTable521EF770", "ClaimsFunction99A26075", "ClaimsFunctionLogs6D297AAD",
		"ClaimsLive9E03B851", // another one could not be made while its name is taken
		"DedupeTableBA3ED9BF",
	}
	sweep := []string{"ClaimsSweepFunctionE43E388F", "ClaimsSweepFunctionLogs7E759546", "ClaimsSweepLive450B68FF"}
	records := []string{
		"DedupeTableBA3ED9BF", "RecordsDeadLetterBucket8BDB8835",
		"RecordsFunction821ACDDD",                            // the consumer row names it
		"RecordsFunctionLogs7A7CB784", "RecordsLiveAB660755", // with a canary, "RecordsIdentity" and a hash
		"RecordsMappingC285398D", // another one starts at the oldest record
		"RecordsNotifyQueueDDF8436A", "RecordsSource5459A2ED",
	}
	destination := []string{"RecordsDestination579047A1"}
	all := slices.Concat(claims, sweep, records, destination)
	pinned := map[string][]string{}
	for _, p := range []struct {
		goldens   string
		ids, less []string
	}{
		{"default every-setting plain-both", all, nil},
		{"customer-key", slices.Concat(all, []string{"RecordsIdentity687F7C6935F9BF630F16"}), []string{"RecordsLiveAB660755"}},
		{"claims jwt link plain-claims", slices.Concat(claims, sweep), nil},
		{"challenge", claims, nil},
		{"records derived-ids log valkey plain-records", slices.Concat(records, destination), nil},
		{"snowplow", slices.Concat(records, destination, []string{"RecordsIdentity206C8181AAF17E14E2F2"}), []string{"RecordsLiveAB660755"}},
		{"firehose objects queue table", records, nil},
		{"from-table plain-records-of-stream plain-records-of-queue", slices.Concat(records, destination), []string{"RecordsSource5459A2ED"}},
		{"from-logs", slices.Concat(records, destination), []string{"RecordsSource5459A2ED", "RecordsMappingC285398D"}},
		{"from-queue", slices.Concat(records, destination, []string{"RecordsSourceQueueB5B02C57", "RecordsSourceDeadLetterQueueE056FE11"}), []string{"RecordsSource5459A2ED"}},
		{"former-keys", all, destination},
		{"existing", all, []string{
			"ClaimsBankTable521EF770", "DedupeTableBA3ED9BF", "RecordsDeadLetterBucket8BDB8835", "RecordsDestination579047A1",
			"RecordsNotifyQueueDDF8436A", "RecordsSource5459A2ED",
		}},
	} {
		ids := slices.DeleteFunc(slices.Clone(p.ids), func(id string) bool { return slices.Contains(p.less, id) })
		for name := range strings.FieldsSeq(p.goldens) {
			pinned[name] = slices.Compact(slices.Sorted(slices.Values(ids)))
		}
	}
	for _, g := range slices.Concat(goldens, plainGoldens) {
		if got := idsOfWhatKeepsData(g.read(t)); !slices.Equal(got, pinned[g.name]) {
			t.Errorf("%s: got %v\nwant %v", g.name, got, pinned[g.name])
		}
	}
}
