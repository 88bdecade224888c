package stack

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A fault breaks a good template. It is planted in every resource of a type, one
// after the other, and each time the rule that is meant for it must see it, and no
// other one.
type fault struct {
	rule   string
	what   string
	kind   string
	path   string
	value  any            // absent takes the path out
	values map[string]any // of the context of the good template
}

type absence struct{}

var absent absence

func object(namesAndValues ...any) map[string]any {
	o := map[string]any{}
	for i := 0; i < len(namesAndValues); i += 2 {
		o[namesAndValues[i].(string)] = namesAndValues[i+1]
	}
	return o
}

func ref(id string) map[string]any   { return object("Ref", id) }
func arnOf(id string) map[string]any { return object("Fn::GetAtt", []any{id, "Arn"}) }

func statement(action, resource any) map[string]any {
	return object("Effect", "Allow", "Action", action, "Resource", resource)
}

const (
	properties = "Properties."
	variables  = "Properties.Environment.Variables."
	statements = "Properties.PolicyDocument.Statement"
	accessLogs = "Properties.AccessLogSettings"
	replica    = "Properties.Replicas.0."
)

var faults = []fault{
	{"parts", "a custom resource", "", "Resources.Custom", object("Type", "Custom::S3AutoDeleteObjects"), nil},
	{"parts", "a table that is gone", tableType, "", absent, nil},
	{"parts", "a topic for a queue", queueType, "Type", "AWS::SNS::Topic", nil},

	{"table keys", "no sort key", tableType, properties + "KeySchema.1", absent, nil},
	{"table keys", "a key that is not among the attributes", tableType, properties + "AttributeDefinitions.1", absent, nil},
	{"table keys", "a key of another name", tableType, properties + "KeySchema.0.AttributeName", "id", nil},
	{"table keys", "a key that is a number", tableType, properties + "AttributeDefinitions.0.AttributeType", "N", nil},
	{"table TTL", "none", tableType, properties + "TimeToLiveSpecification", absent, nil},
	{"table TTL", "off", tableType, properties + "TimeToLiveSpecification.Enabled", false, nil},
	{"table TTL", "on another attribute", tableType, properties + "TimeToLiveSpecification.AttributeName", "ends_at", nil},
	{"table on demand", "provisioned", tableType, properties + "BillingMode", "PROVISIONED", nil},
	{"table on demand", "not said", tableType, properties + "BillingMode", absent, nil},
	{"table recovery", "off", tableType, replica + "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled", false, nil},
	{"table recovery", "not said", tableType, replica + "PointInTimeRecoverySpecification", absent, nil},
	{"table deletion protection", "off", tableType, replica + "DeletionProtectionEnabled", false, nil},
	{"table deletion protection", "not said", tableType, replica + "DeletionProtectionEnabled", absent, nil},
	{"table warm throughput", "nobody asked", tableType, properties + "WarmThroughput", object("ReadUnitsPerSecond", 12000.0), nil},
	{"table encryption", "with a key of nobody's", tableType, properties + "SSESpecification", object("SSEEnabled", true), nil},

	{"kept when removed from the template", "a table goes", tableType, "DeletionPolicy", "Delete", nil},
	{"kept when removed from the template", "a table may go", tableType, "DeletionPolicy", absent, nil},
	{"kept when removed from the template", "a stream goes", streamType, "DeletionPolicy", "Delete", nil},
	{"kept when removed from the template", "the bucket goes", bucketType, "DeletionPolicy", "Delete", nil},
	{"kept when removed from the template", "a log goes", logGroupType, "DeletionPolicy", "Delete", nil},
	{"kept when replaced", "a table goes", tableType, "UpdateReplacePolicy", "Delete", nil},
	{"kept when replaced", "a table may go", tableType, "UpdateReplacePolicy", absent, nil},
	{"kept when replaced", "a stream goes", streamType, "UpdateReplacePolicy", "Snapshot", nil},
	{"kept when replaced", "the bucket goes", bucketType, "UpdateReplacePolicy", "Delete", nil},

	{"stream encryption", "none", streamType, properties + "StreamEncryption", absent, nil},
	{"stream encryption", "with a key of nobody's", streamType, properties + "StreamEncryption.KeyId", "alias/other", nil},
	{"stream retention", "of 23 h", streamType, properties + "RetentionPeriodHours", 23.0, nil},
	{"stream retention", "not said", streamType, properties + "RetentionPeriodHours", absent, nil},
	{"stream on demand", "provisioned", streamType, properties + "StreamModeDetails.StreamMode", "PROVISIONED", nil},

	{"function runtime", "one that is gone", functionType, properties + "Runtime", "go1.x", nil},
	{"function handler", "another", functionType, properties + "Handler", "main", nil},
	{"function architecture", "not what the code is built for", functionType, properties + "Architectures.0", "x86_64", nil},
	{"function architecture", "not said", functionType, properties + "Architectures", absent, nil},
	{"function architecture", "not what the code is built for", functionType, properties + "Architectures.0", "arm64", values("architecture", "x86_64")},
	{"function memory and timeout", "Lambda's least memory", functionType, properties + "MemorySize", 128.0, nil},
	{"function memory and timeout", "Lambda's default timeout", functionType, properties + "Timeout", absent, nil},
	{"function memory and timeout", "longer than the API waits", functionType, properties + "Timeout", 40.0, nil},
	{"function environment", "one that the function does not know", functionType, variables + "ONCEBOX_RETRIES", "3", nil},
	{"function environment", "one that is nobody's", functionType, variables + "AWS_ENDPOINT_URL", "http://localhost:8000", nil},
	{"function environment", "a value that the function refuses", functionType, variables + "ONCEBOX_LOG_LEVEL", "loud", nil},
	{"function environment", "one that is missing", functionType, variables + "ONCEBOX_DEDUPE_TABLE", absent, nil},
	{"function log group", "none", functionType, properties + "LoggingConfig", absent, nil},
	{"function log group", "of somebody's", functionType, properties + "LoggingConfig.LogGroup", "/theirs", nil},
	{"log retention", "for ever", logGroupType, properties + "RetentionInDays", absent, nil},
	{"log retention", "ten years", logGroupType, properties + "RetentionInDays", 3653.0, nil},
	{"function role", "an administrator", roleType, properties + "ManagedPolicyArns", []any{"arn:aws:iam::aws:policy/AdministratorAccess"}, nil},
	{"function role", "a policy inside", roleType, properties + "Policies", []any{object("PolicyName", "more")}, nil},
	{"function role", "for everybody", roleType, properties + "AssumeRolePolicyDocument.Statement.0.Principal", object("AWS", "*"), nil},
	{"function role", "from elsewhere", functionType, properties + "Role", "arn:aws:iam::123456789012:role/theirs", nil},
	{"role before function", "no order", functionType, "DependsOn", absent, nil},
	{"role before mapping", "no order", mappingType, "DependsOn", absent, nil},
	{"role before mapping", "after something else", mappingType, "DependsOn", []any{"RecordsFunctionRole1806E726"}, nil},

	{"least privilege", "everything on everything", policyType, statements + ".0", statement("dynamodb:*", "*"), nil},
	{"least privilege", "everything on a table", policyType, statements + ".0.Action", "dynamodb:*", nil},
	{"least privilege", "some actions on a table", policyType, statements + ".0.Action", []any{"dynamodb:GetItem", "dynamodb:Batch*"}, nil},
	{"least privilege", "one action on everything", policyType, statements + ".0.Resource", "*", nil},
	{"least privilege", "every table", policyType, statements + ".0.Resource", object("Fn::Sub", "arn:aws:dynamodb:${AWS::Region}:${AWS::AccountId}:table/*"), nil},
	{"least privilege", "every table of a name", policyType, statements + ".0.Resource", object("Fn::Join", []any{"", []any{arnOf("DedupeTable"), "*"}}), nil},
	{"least privilege", "all but", policyType, statements + ".0", object("Effect", "Allow", "NotAction", "iam:PassRole", "Resource", arnOf("DedupeTable")), nil},
	{"least privilege", "on all but", policyType, statements + ".0", object("Effect", "Allow", "Action", "s3:PutObject", "NotResource", arnOf("Bucket")), nil},
	{"who invokes", "every API", permissionType, properties + "SourceArn", absent, nil},
	{"who invokes", "another API", permissionType, properties + "SourceArn", "arn:aws:execute-api:us-east-1:123456789012:theirs/*", nil},
	{"who invokes", "everybody", permissionType, properties + "Principal", "*", nil},
	{"who invokes", "and changes", permissionType, properties + "Action", "lambda:*", nil},

	{"payload format", "the old one", integrateType, properties + "PayloadFormatVersion", "1.0", nil},
	{"payload format", "none that there is", integrateType, properties + "PayloadFormatVersion", "3.0", nil},
	{"routes", "any", routeType, properties + "RouteKey", "$default", nil},
	{"routes", "another method", routeType, properties + "RouteKey", "DELETE /campaigns/{campaign}", nil},
	{"route authorization", "none", routeType, properties + "AuthorizationType", "NONE", nil},
	{"route authorization", "not said", routeType, properties + "AuthorizationType", absent, nil},
	{"route authorization", "a type that there is not", routeType, properties + "AuthorizationType", "IAM", nil},
	{"route authorization", "JWT without authorizer", routeType, properties + "AuthorizerId", absent, jwt},
	{"route authorization", "an authorizer that there is not", routeType, properties + "AuthorizerId", ref("Other"), jwt},
	{"route authorization", "open", routeType, properties + "AuthorizationType", "NONE", jwt},
	{"authorizer", "no audience", authorizerType, properties + "JwtConfiguration.Audience", []any{}, jwt},
	{"authorizer", "one more audience", authorizerType, properties + "JwtConfiguration.Audience.2", "*", jwt},
	{"authorizer", "another issuer", authorizerType, properties + "JwtConfiguration.Issuer", "https://other.example", jwt},
	{"authorizer", "of another API", authorizerType, properties + "ApiId", "theirs", jwt},
	{"authorizer", "a token from the URL", authorizerType, properties + "IdentitySource.0", "$request.querystring.token", jwt},
	{"authorizer", "a function's answer", authorizerType, properties + "AuthorizerType", "REQUEST", jwt},
	{"stage", "with its name in the path", stageType, properties + "StageName", "prod", nil},
	{"throttling", "none", stageType, properties + "DefaultRouteSettings", absent, nil},
	{"throttling", "no burst", stageType, properties + "DefaultRouteSettings.ThrottlingBurstLimit", absent, nil},
	{"throttling", "none by route", stageType, properties + "RouteSettings", object("$default", object("ThrottlingRateLimit", 1e6)), nil},
	{"access log", "none", stageType, accessLogs, absent, nil},
	{"access log", "somewhere else", stageType, accessLogs + ".DestinationArn", "arn:aws:logs:us-east-1:123456789012:log-group:theirs", nil},
	{"access log", "of nothing", stageType, accessLogs + ".Format", "{}", nil},
	{"access log", "of addresses", stageType, accessLogs + ".Format", logging("$context.identity.sourceIp"), nil},
	{"access log", "of browsers", stageType, accessLogs + ".Format", logging("$context.identity.userAgent"), nil},
	{"access log", "of callers", stageType, accessLogs + ".Format", logging("$context.identity.caller"), nil},
	{"access log", "of IAM users", stageType, accessLogs + ".Format", logging("$context.identity.userArn"), nil},
	{"access log", "of tokens", stageType, accessLogs + ".Format", logging("$context.authorizer.claims.sub"), nil},
	{"access log", "of claimants", stageType, accessLogs + ".Format", logging("$context.path"), nil},
	{"access log", "of claims", stageType, accessLogs + ".Format", logging("$request.body"), nil},

	{"bucket encryption", "none", bucketType, properties + "BucketEncryption", absent, nil},
	{"bucket private", "not said", bucketType, properties + "PublicAccessBlockConfiguration", absent, nil},
	{"bucket private", "public ACLs", bucketType, properties + "PublicAccessBlockConfiguration.BlockPublicAcls", false, nil},
	{"bucket private", "public policies", bucketType, properties + "PublicAccessBlockConfiguration.BlockPublicPolicy", absent, nil},
	{"bucket private", "ACLs count", bucketType, properties + "PublicAccessBlockConfiguration.IgnorePublicAcls", false, nil},
	{"bucket private", "a public bucket", bucketType, properties + "PublicAccessBlockConfiguration.RestrictPublicBuckets", false, nil},
	{"bucket versions", "none", bucketType, properties + "VersioningConfiguration", absent, nil},
	{"bucket versions", "no more", bucketType, properties + "VersioningConfiguration.Status", "Suspended", nil},
	{"bucket expires nothing", "a month", bucketType, properties + "LifecycleConfiguration", object("Rules", []any{object("ExpirationInDays", 30.0)}), nil},
	{"bucket TLS only", "allowed", bucketPolicy, statements + ".0.Effect", "Allow", nil},
	{"bucket TLS only", "not for objects", bucketPolicy, statements + ".0.Resource.1", absent, nil},
	{"bucket TLS only", "with TLS", bucketPolicy, statements + ".0.Condition.Bool.aws:SecureTransport", "true", nil},
	{"bucket TLS only", "for reading", bucketPolicy, statements + ".0.Action", "s3:GetObject", nil},
	{"bucket TLS only", "for one user", bucketPolicy, statements + ".0.Principal", object("AWS", "123456789012"), nil},
	{"bucket TLS only", "for another bucket", bucketPolicy, properties + "Bucket", "theirs", nil},

	{"queue encryption", "off", queueType, properties + "SqsManagedSseEnabled", false, nil},
	{"queue retention", "four days", queueType, properties + "MessageRetentionPeriod", absent, nil},
	{"queue is no FIFO", "one that the function refuses", queueType, properties + "FifoQueue", true, nil},
	{"queue TLS only", "no statement", queuePolicy, statements + ".0", absent, nil},
	{"queue TLS only", "for another queue", queuePolicy, properties + "Queues.0", "theirs", nil},

	{"mapping start", "none", mappingType, properties + "StartingPosition", absent, nil},
	{"mapping start", "passes over what is there", mappingType, properties + "StartingPosition", "LATEST", nil},
	{"mapping source", "its own output", mappingType, properties + "EventSourceArn", arnOf("RecordsDestination579047A1"), nil},
	{"mapping source", "of nobody's", mappingType, properties + "EventSourceArn", arnOf("Other"), nil},
	{"mapping source", "for nobody", mappingType, properties + "FunctionName", ref("Other"), nil},
	{"mapping passes every record", "a filter drops some", mappingType, properties + "FilterCriteria", object("Filters", []any{}), nil},
	{"mapping is on", "off", mappingType, properties + "Enabled", false, nil},
	{"mapping reports partial failures", "none", mappingType, properties + "FunctionResponseTypes", absent, nil},
	{"mapping reports partial failures", "empty", mappingType, properties + "FunctionResponseTypes", []any{}, nil},
	{"mapping bisects", "off", mappingType, properties + "BisectBatchOnFunctionError", false, nil},
	{"mapping bisects", "not said", mappingType, properties + "BisectBatchOnFunctionError", absent, nil},
	{"mapping retries", "none", mappingType, properties + "MaximumRetryAttempts", 0.0, nil},
	{"mapping retries", "without end", mappingType, properties + "MaximumRetryAttempts", -1.0, nil},
	{"mapping retries", "not said", mappingType, properties + "MaximumRetryAttempts", absent, nil},
	{"mapping record age", "of 30 s", mappingType, properties + "MaximumRecordAgeInSeconds", 30.0, nil},
	{"mapping record age", "without end", mappingType, properties + "MaximumRecordAgeInSeconds", -1.0, nil},
	{"mapping record age", "as long as the retention", mappingType, properties + "MaximumRecordAgeInSeconds", 604800.0, nil},
	{"mapping keeps what it gives up", "nowhere", mappingType, properties + "DestinationConfig", absent, nil},
	{"mapping keeps what it gives up", "positions only", mappingType, properties + "DestinationConfig.OnFailure.Destination", arnOf("RecordsBellQueue33C0C3AE"), nil},
	{"mapping parallelization", "2 with the checkpoint", mappingType, properties + "ParallelizationFactor", 2.0, nil},
	{"checkpoint", "on with parallelization", functionType, variables + "ONCEBOX_CHECKPOINT", "on", values("jobs", "records", "parallelization", "2", "aggregation", "off")},
	{"checkpoint", "off", functionType, variables + "ONCEBOX_CHECKPOINT", "off", values("jobs", "records")},
	{"checkpoint", "not said", functionType, variables + "ONCEBOX_CHECKPOINT", absent, values("jobs", "records")},
	{"mapping batches", "of one", mappingType, properties + "BatchSize", 1.0, nil},
	{"mapping counts events", "none", mappingType, properties + "MetricsConfig", absent, nil},
}

// logging is an access log of what is harmless, and one variable.
func logging(variable string) string {
	return fmt.Sprintf(`{"requestId":"$context.requestId","status":"$context.status","more":"%s"}`, variable)
}

// TestPlantedFaults: a check that cannot fail is none.
func TestPlantedFaults(t *testing.T) {
	touched, planted := map[string]bool{}, 0
	for _, f := range faults {
		touched[f.rule] = true
		want := wanted(f.values)
		if found := broken(synth(t, f.values), want); len(found) > 0 {
			t.Fatalf("%v: the good template is broken: %v", f.values, found)
		}
		for _, id := range f.places(synth(t, f.values)) {
			planted++
			t.Run(fmt.Sprintf("%s: %s: %s", f.rule, f.what, id), func(t *testing.T) {
				tpl := synth(t, f.values)
				f.plant(tpl, id)
				found := slices.Sorted(maps.Keys(broken(tpl, want)))
				if !slices.Equal(found, []string{f.rule}) {
					t.Errorf("seen by %q, want by %q", found, f.rule)
				}
			})
		}
	}
	t.Logf("%d faults, planted %d times", len(faults), planted)
	for _, r := range rules {
		if !touched[r.name] {
			t.Errorf("no fault is planted for the rule %q: does it check anything?", r.name)
		}
	}
}

// wanted is what context values ask for, as far as faults need.
func wanted(values map[string]any) expected {
	want := bothJobs
	want.x86 = values["architecture"] == "x86_64"
	if values["auth"] == "jwt" {
		want.auth = "JWT"
	}
	want.claims = values["jobs"] != "records"
	if values["parallelization"] == "2" {
		want.parallelization = 2
	}
	return want
}

// places are the resources to plant a fault in; "" is the template itself.
func (f fault) places(tpl template) []string {
	if f.kind == "" {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(tpl.resources(f.kind)))
}

func (f fault) plant(tpl template, id string) {
	path := f.path
	if id != "" {
		path = strings.TrimSuffix("Resources."+id+"."+f.path, ".")
	}
	set(map[string]any(tpl), path, f.value)
}

// set puts a value at a path, or takes it out of there. It makes what is missing on
// the way.
func set(container any, path string, value any) any {
	part, rest, more := strings.Cut(path, ".")
	switch c := container.(type) {
	case []any:
		i, err := strconv.Atoi(part)
		switch {
		case err != nil || i > len(c):
			panic(fmt.Sprintf("there is no %s in a list of %d", path, len(c)))
		case more:
			c[i] = set(c[i], rest, value)
		case value == absent:
			return slices.Delete(c, i, i+1)
		case i == len(c):
			return append(c, value)
		default:
			c[i] = value
		}
		return c
	case map[string]any:
		switch _, there := c[part]; {
		case more:
			c[part] = set(c[part], rest, value)
		case value == absent && !there:
			panic("there is no " + path + " to take out")
		case value == absent:
			delete(c, part)
		default:
			c[part] = value
		}
		return c
	}
	panic(fmt.Sprintf("there is nothing at %s but %v", path, container))
}
