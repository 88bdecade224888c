package infra

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

// TemplateNames lists the plain templates of a release. A template cannot choose what its function reads by a parameter,
// so each kind of source that exists has a template of its own.
func TemplateNames() []string {
	return []string{"both", "claims", "records", recordsOfQueue, recordsOfStream}
}

const recordsOfQueue, recordsOfStream = "records-of-queue", "records-of-stream"

// partsOfTemplate returns the parts of the settings in the stack of a plain template.
func partsOfTemplate(name string) []string {
	switch name {
	case "both":
		return stageParts
	case recordsOfQueue, recordsOfStream:
		return []string{"records"}
	}
	return []string{name}
}

// templateSettings holds the settings of plain templates, by part. Parameters replace them later. The values also make
// the parts that only some parameters need: the authorizer and the routes of the page.
var templateSettings = map[string]map[string]string{
	"claims": {
		"auth": "jwt", "jwt-issuer": "https://issuer.example", "jwt-audience": "audience", "page": "on",
	},
	"records": {"id-path": "id"},
}

// sourceSettings holds more settings of the templates whose source exists. They do not know how long it keeps records. So
// the record age is 80 % of a day, the shortest retention of a stream, and the retention is the horizon, the longest.
var sourceSettings = map[string]map[string]string{
	recordsOfStream: {"source-retention": "14d", "record-age": "19h12m"},
	recordsOfQueue:  {"source-retention": "14d"},
}

// fileOfTemplate returns the settings of a plain template, which are in no file.
func fileOfTemplate(name string) *stageFile {
	f := &stageFile{settings: map[string]setting{}, with: map[string]bool{}}
	for _, part := range stageParts {
		f.with[part] = slices.Contains(partsOfTemplate(name), part)
		for key, text := range templateSettings[part] {
			if f.with[part] {
				f.settings[pathOf(part, key)] = setting{text: text}
			}
		}
	}
	for key, text := range sourceSettings[name] {
		f.settings[pathOf("records", key)] = setting{text: text}
	}
	return f
}

// NewTemplate makes a plain template of a release, which CloudFormation accepts without the CDK. It has the resources
// of [NewStack], with parameters instead of a settings file. It has no assets: the functions' code is in the zips of
// the release, in a bucket of the user.
//
// The name is one of [TemplateNames]. The release is its number, as in 1.2.3. It becomes a part of the names of the
// zips and of the descriptions of versions, which have at most 256 characters. NewTemplate refuses a release that is
// too long for them. The context of the app has no effect.
func NewTemplate(app awscdk.App, name, release string) (awscdk.Stack, error) {
	if !slices.Contains(TemplateNames(), name) {
		return nil, fmt.Errorf("there is no template %q; choose one of %s", name, strings.Join(TemplateNames(), ", "))
	}
	synthesizer := awscdk.NewBootstraplessSynthesizer(&awscdk.BootstraplessSynthesizerProps{})
	t := &templateStack{
		settingsStack: newSettingsStack(app, newReader(fileOfTemplate(name), &problems{}), synthesizer),
		name:          name, release: release,
		parameters: map[string]awscdk.CfnParameter{}, given: map[string]awscdk.CfnCondition{},
	}
	withClaims, withRecords := t.file.with["claims"], t.file.with["records"]
	t.addParameters(withClaims, withRecords)
	t.function.zips = t.zips()
	t.existingSource = t.sourceOfParameter()
	stack, err := t.fill()
	if err != nil {
		return nil, err
	}
	t.setShared()
	if withClaims {
		err = t.setClaims(t.shown.Claims[0])
	}
	if withRecords && err == nil {
		err = t.setRecords(t.shown.Records[0])
	}
	stack.TemplateOptions().SetDescription(jsii.String(fmt.Sprintf("oncebox %s: %s", release, strings.Join(partsOfTemplate(name), ","))))
	return stack, err
}

// templateStack replaces settings by parameters.
type templateStack struct {
	*settingsStack
	name       string
	release    string
	parameters map[string]awscdk.CfnParameter
	given      map[string]awscdk.CfnCondition // by parameter: the condition that it is set
}

// An intrinsic is a function of CloudFormation in a template.
type intrinsic = map[string]any

func ref(parameter string) intrinsic { return intrinsic{"Ref": parameter} }

// ifGiven returns the value if the parameter is set. It leaves the property out if the parameter has the value
// unset, which means "not set".
func (t *templateStack) ifGiven(parameter, unset string, value any) intrinsic {
	return intrinsic{"Fn::If": []any{*t.isGiven(parameter, unset).LogicalId(), value, ref("AWS::NoValue")}}
}

func (t *templateStack) isGiven(parameter, unset string) awscdk.CfnCondition {
	if t.given[parameter] == nil {
		same := awscdk.Fn_ConditionEquals(t.parameters[parameter].ValueAsString(), unset)
		t.given[parameter] = awscdk.NewCfnCondition(t.stack, jsii.String("Has"+parameter),
			&awscdk.CfnConditionProps{Expression: awscdk.Fn_ConditionNot(same)})
	}
	return t.given[parameter]
}

// equals returns the condition that a parameter has a value.
func (t *templateStack) equals(name, parameter, value string) awscdk.CfnCondition {
	return awscdk.NewCfnCondition(t.stack, &name, &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionEquals(t.parameters[parameter].ValueAsString(), value),
	})
}

// zips returns the code of functions: the zips of the release.
func (t *templateStack) zips() func(function string) awslambda.Code {
	bucket := awss3.Bucket_FromBucketName(t.stack, jsii.String("Code"), t.parameters["CodeBucket"].ValueAsString())
	zip := awscdk.Fn_ConditionIf(t.equals("IsX86", "Architecture", "x86_64").LogicalId(), "amd64", "arm64").ToString()
	return func(function string) awslambda.Code {
		name := fmt.Sprintf("${CodePrefix}oncebox-%s_%s_lambda_${Zip}.zip", function, t.release)
		return awslambda.Code_FromBucketV2(bucket, awscdk.Fn_Sub(&name, &map[string]*string{"Zip": zip}), nil)
	}
}

// sourceOfParameter returns the source that the parameter names.
func (t *templateStack) sourceOfParameter() Source {
	switch id := jsii.String("ExistingSource"); t.name {
	case recordsOfQueue:
		return FromQueue(awssqs.Queue_FromQueueArn(t.stack, id, t.parameters["Source"].ValueAsString()))
	case recordsOfStream:
		return FromStream(awskinesis.Stream_FromStreamArn(t.stack, id, t.parameters["Source"].ValueAsString()))
	}
	return Source{}
}

// setShared sets the properties that both jobs have.
func (t *templateStack) setShared() {
	topic := t.ifGiven("AlarmTopic", "", []any{ref("AlarmTopic")})
	for _, c := range *t.stack.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		switch c := c.(type) {
		case awscloudwatch.CfnAlarm:
			c.AddPropertyOverride(jsii.String("AlarmActions"), topic)
			c.AddPropertyOverride(jsii.String("OKActions"), topic)
			awscdk.Validations_Of(c).Acknowledge(&awscdk.Acknowledgment{
				Id: jsii.String("CloudFormation-Validate::F3033"), Reason: jsii.String("without a topic the list is left out"),
			})
		case awslogs.CfnLogGroup:
			c.AddPropertyOverride(jsii.String("RetentionInDays"), ref("LogRetentionDays"))
		case awslambda.CfnFunction:
			c.AddPropertyOverride(jsii.String("Architectures"), []any{ref("Architecture")})
			c.AddPropertyOverride(jsii.String("LoggingConfig.SystemLogLevel"), ref("SystemLogLevel"))
			setVariable(c, "LOG_LEVEL", ref("LogLevel"))
		}
	}
}

func setVariable(function awslambda.CfnFunction, name string, value any) {
	function.AddPropertyOverride(jsii.String("Environment.Variables.ONCEBOX_"+name), value)
}

// longestDescription is Lambda's limit for the description of a function or version (API Reference,
// "PublishVersion").
const longestDescription = 256

// functionParameters are the parameters that change all functions.
var functionParameters = []string{"CodePrefix", "Architecture", "LogLevel", "SystemLogLevel"}

// setVersion lets CloudFormation publish a version of a function if one of the parameters or the release changes, and
// only then. The CDK renames a version when code or configuration changes, but it does not know the values of
// parameters (aws-cdk, issue 11433). So the description of the version holds the release and the values: another
// description replaces the version.
//
// They are also the description of the function. Without that, a release with the same code would change nothing in
// the function. Lambda does not publish a second version of the same function, and CloudFormation would report that
// as an error (serverless, issue 8251).
//
// A description that the constructs have set comes first.
func (t *templateStack) setVersion(function awslambda.Function, parameters ...string) error {
	resource := function.Node().DefaultChild().(awslambda.CfnFunction)
	parts, longest := []any{t.release}, len(t.release)
	if text := resource.Description(); text != nil {
		parts, longest = append([]any{*text}, parts...), longest+len(*text)+len(" ")
	}
	for _, name := range slices.Concat(functionParameters, parameters) {
		parts, longest = append(parts, ref(name)), longest+len(" ")+parameterOf(name).longest()
	}
	if longest > longestDescription {
		return fmt.Errorf("the release %s has a name that is too long: with it, the description of a function could have %d "+
			"characters, and Lambda takes %d", t.release, longest, longestDescription)
	}
	description := intrinsic{"Fn::Join": []any{" ", parts}}
	version := function.CurrentVersion().Node().DefaultChild().(awslambda.CfnVersion)
	version.OverrideLogicalId(jsii.String(*t.stack.GetLogicalId(resource) + "Version"))
	version.AddPropertyOverride(jsii.String("Description"), description)
	resource.AddPropertyOverride(jsii.String("Description"), description)
	return nil
}

// authOfParameter holds, for each value of the parameter Auth, the type of the routes' authorization and the default
// source of the claimant.
var authOfParameter = map[string]*map[string]any{
	"iam":  {"Type": "AWS_IAM", "ClaimantFrom": auths[AuthIAM]},
	"jwt":  {"Type": "JWT", "ClaimantFrom": auths[AuthJWT]},
	"link": {"Type": "NONE", "ClaimantFrom": auths[AuthLink]},
}

func (t *templateStack) setClaims(c *ClaimAPI) error {
	function := c.Function.Node().DefaultChild().(awslambda.CfnFunction)
	awscdk.NewCfnMapping(t.stack, jsii.String("Auths"), &awscdk.CfnMappingProps{Mapping: &authOfParameter})
	byAuth := func(what string) intrinsic { return intrinsic{"Fn::FindInMap": []any{"Auths", ref("Auth"), what}} }
	setVariable(function, "CLAIMANT_FROM", intrinsic{"Fn::If": []any{
		*t.isGiven("ClaimantFrom", "").LogicalId(), ref("ClaimantFrom"), byAuth("ClaimantFrom"),
	}})
	setVariable(function, "CALLER", intrinsic{"Fn::If": []any{
		*t.backEnds().LogicalId(), ClaimAPIProps{Settings: claimapi.Settings{ClaimantFrom: "body"}}.caller(), ref("AWS::NoValue"),
	}})
	setVariable(function, "LINK_KEYS", t.ifGiven("LinkKeys", "", ref("LinkKeys")))
	setVariable(function, "PAGE", t.ifGiven("Page", "off", switchText(true)))
	setVariable(function, "CLAIMANTS_CONFIRM", t.ifGiven("ClaimantsConfirm", "off", switchText(true)))
	t.setAPI(c, byAuth("Type"))
	nearlyEmpty := c.Alarms["bank-nearly-empty"].Node().DefaultChild().(awscloudwatch.CfnAlarm)
	nearlyEmpty.AddPropertyOverride(jsii.String("Threshold"), ref("NearlyEmpty"))
	t.addClaimRules()
	if err := t.setVersion(c.Sweep); err != nil {
		return err
	}
	return t.setVersion(c.Function, "Auth", "ClaimantFrom", "ClaimantsConfirm", "Page", "LinkKeys")
}

// backEnds returns the condition that callers name the claimant. The rules of the template allow that with Auth=iam only.
func (t *templateStack) backEnds() awscdk.CfnCondition {
	is := func(parameter, value string) awscdk.ICfnConditionExpression {
		return awscdk.Fn_ConditionEquals(t.parameters[parameter].ValueAsString(), value)
	}
	byDefault := awscdk.Fn_ConditionAnd(is("Auth", "iam"), is("ClaimantFrom", ""))
	return awscdk.NewCfnCondition(t.stack, jsii.String("HasBackEnds"), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionOr(is("ClaimantFrom", "body"), byDefault),
	})
}

// setAPI makes the authorizer, the routes of the page and the headers of CORS depend on parameters.
func (t *templateStack) setAPI(c *ClaimAPI, authorization any) {
	isJWT := t.equals("IsJwt", "Auth", "jwt")
	var integration awsapigatewayv2.CfnIntegration
	var pages []awsapigatewayv2.CfnRoute
	name := *awscdk.Aws_STACK_NAME() + strings.TrimPrefix(apiName(c.Construct), unnamedStack)
	c.accessLogs.Node().DefaultChild().(awslogs.CfnLogGroup).SetLogGroupName(accessLogGroupName(t.stack, name))
	for _, part := range *c.Construct.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		switch part := part.(type) {
		case awsapigatewayv2.CfnIntegration:
			integration = part
		case awsapigatewayv2.CfnApi:
			part.SetName(&name)
			part.AddPropertyOverride(jsii.String("CorsConfiguration"), t.ifGiven("CorsOrigins", "", corsOfParameter()))
		case awsapigatewayv2.CfnStage:
			part.AddPropertyOverride(jsii.String("DefaultRouteSettings.ThrottlingRateLimit"), ref("RateLimit"))
			part.AddPropertyOverride(jsii.String("DefaultRouteSettings.ThrottlingBurstLimit"), ref("BurstLimit"))
		case awsapigatewayv2.CfnAuthorizer:
			part.CfnOptions().SetCondition(isJWT)
			part.AddPropertyOverride(jsii.String("JwtConfiguration.Issuer"), ref("JwtIssuer"))
			part.AddPropertyOverride(jsii.String("JwtConfiguration.Audience"), split("JwtAudience"))
		case awsapigatewayv2.CfnRoute:
			if _, path, _ := strings.Cut(*part.RouteKey(), " "); slices.Contains(pageRoutes, path) {
				pages = append(pages, part)
				continue
			}
			part.AddPropertyOverride(jsii.String("AuthorizationType"), authorization)
			part.AddPropertyOverride(jsii.String("AuthorizerId"), intrinsic{"Fn::If": []any{
				*isJWT.LogicalId(), t.stack.Resolve(part.AuthorizerId()), ref("AWS::NoValue"),
			}})
		}
	}
	for _, route := range pages {
		t.onlyWithPage(route, integration)
	}
}

// onlyWithPage leaves a route and its permission out without the page. So the route waits for the permission, and not
// the integration, which always exists.
func (t *templateStack) onlyWithPage(route awsapigatewayv2.CfnRoute, integration awsapigatewayv2.CfnIntegration) {
	route.CfnOptions().SetCondition(t.isGiven("Page", "off"))
	for _, part := range *route.Node().Scope().Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if permission, ok := part.(awslambda.CfnPermission); ok {
			permission.CfnOptions().SetCondition(t.isGiven("Page", "off"))
			integration.RemoveResourceDependency(permission)
			route.AddResourceDependency(permission, nil)
		}
	}
}

func split(parameter string) intrinsic { return intrinsic{"Fn::Split": []any{",", ref(parameter)}} }

// corsOfParameter returns the CORS settings of [ClaimAPIProps] for the origins of the parameter.
func corsOfParameter() intrinsic {
	cors := ClaimAPIProps{Settings: claimapi.Settings{CORSOrigins: []string{""}}}.cors()
	return intrinsic{
		"AllowOrigins": split("CorsOrigins"), "AllowMethods": *cors.AllowMethods, "MaxAge": claimapi.CORSMaxAge.Seconds(),
		"AllowHeaders": claimapi.CORSRequestHeaders(), "ExposeHeaders": claimapi.CORSResponseHeaders(),
	}
}

// ruleParameters are the parameters that are variables of the dedupe function. Empty parameters are left out.
var ruleParameters = []struct{ variable, name string }{
	{"ID_PATH", "IdPath"}, {"IDS", "Ids"}, {"WINDOW", "Window"}, {"NATURAL", "Natural"}, {"SYNTHETIC", "Synthetic"},
	{"FINGERPRINT_PATH", "FingerprintPath"}, {"VOLATILE", "Volatile"},
}

// mappingParameters are the parameters that are properties of the event source mapping.
var mappingParameters = []struct{ property, name string }{
	{"BatchSize", "BatchSize"}, {"MaximumBatchingWindowInSeconds", "BatchWindowSeconds"},
	{"ParallelizationFactor", "Parallelization"}, {"MaximumRetryAttempts", "Retries"},
}

func (t *templateStack) setRecords(r *RecordDedupe) error {
	function := r.Function.Node().DefaultChild().(awslambda.CfnFunction)
	changes := []string{"DedupeMemory"}
	function.AddPropertyOverride(jsii.String("MemorySize"), ref("DedupeMemory"))
	for _, p := range ruleParameters {
		value := ref(p.name)
		if parameterOf(p.name).fallback == "" {
			value = t.ifGiven(p.name, "", value)
		}
		setVariable(function, p.variable, value)
		changes = append(changes, p.name)
	}
	for _, p := range mappingParameters {
		if t.parameters[p.name] == nil {
			continue // a queue has none
		}
		r.Mapping.AddPropertyOverride(&p.property, ref(p.name))
	}
	t.addRecordRules()
	return t.setVersion(r.Function, changes...)
}
