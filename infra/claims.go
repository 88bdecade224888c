package infra

import (
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

// ClaimAPIProps are the settings of a [ClaimAPI]. Only Auth is required.
type ClaimAPIProps struct {
	// Auth says who may call the API: [AuthIAM], [AuthJWT] or [AuthOpen].
	Auth Auth

	// ClaimantFrom is ONCEBOX_CLAIMANT_FROM: jwt:CLAIM, iam, iam:session, iam:role or body. The default is jwt:sub with
	// AuthJWT. With AuthIAM it is body, because the caller is usually a back end that names the claimant. With AuthOpen
	// it is body, too.
	ClaimantFrom string

	// CampaignCache is ONCEBOX_CAMPAIGN_CACHE. Nil leaves the function's default.
	CampaignCache *time.Duration

	// ClaimantsConfirm lets callers who are the claimant confirm their own holds. That is for holds that nobody pays for.
	// With ClaimantFrom body it changes nothing: the callers are back ends, and may always confirm.
	ClaimantsConfirm bool

	// BankTable and DedupeTable are existing tables. Where one is nil, [NewTable] makes it with the settings of Table.
	BankTable, DedupeTable awsdynamodb.ITableV2
	Table                  TableProps

	// RateLimit and BurstLimit throttle each route: requests per second, and requests at once. The default of both is
	// 1,000. That is half of what new on-demand tables take: they have 4,000 write units a second each, and a claim
	// takes 2 of each table.
	RateLimit, BurstLimit int

	Function FunctionProps
	Sweep    SweepProps
	Alarms   AlarmProps

	// Disposable deletes the logs with the stack. Table has a setting of its own.
	Disposable bool

	names naming
}

// ClaimAPI is the claim API: tables, functions, HTTP API and alarms. Change its parts for what the props do not offer.
type ClaimAPI struct {
	Construct              constructs.Construct // the scope of the parts that are made
	BankTable, DedupeTable awsdynamodb.ITableV2
	Function               awslambda.Function
	Sweep                  awslambda.Function // nil if it is off
	API                    awsapigatewayv2.HttpApi
	URL                    string // of the API, without a slash at the end; a CDK token until the API is deployed
}

var claimFunction = functionKind{
	code: "dist/claim", memoryMiB: 512, timeout: 10 * time.Second,
	// One second less than an HTTP API waits (API Gateway Developer Guide, "Quotas for configuring and running an HTTP
	// API").
	longestTimeout: 29 * time.Second,
}

// defaultClaimRate is explained at [ClaimAPIProps].
const defaultClaimRate = 1000

// claimRoutes are the routes of the claim API. All have the same authorizer. API Gateway itself answers 404 to every
// other request, so that it costs no invocation. The claimant is a greedy parameter because API Gateway decodes the
// path: an encoded slash in a claimant arrives as a slash. A greedy parameter can only be the last part of a path, so
// that of POST takes in the /confirmation behind the claimant, which the function looks for.
var claimRoutes = []struct {
	method awsapigatewayv2.HttpMethod
	path   string
}{
	{awsapigatewayv2.HttpMethod_POST, "/campaigns/{campaign}/claims"},
	{awsapigatewayv2.HttpMethod_GET, "/campaigns/{campaign}/claims/{claimant+}"},
	{awsapigatewayv2.HttpMethod_POST, "/campaigns/{campaign}/claims/{claimant+}"},
	{awsapigatewayv2.HttpMethod_DELETE, "/campaigns/{campaign}/claims/{claimant+}"},
	{awsapigatewayv2.HttpMethod_GET, "/campaigns/{campaign}"},
}

// NewClaimAPI makes a claim API. The error lists everything that is wrong with the props; then nothing is made.
func NewClaimAPI(scope constructs.Construct, id string, p ClaimAPIProps) (*ClaimAPI, error) {
	p = p.withDefaults()
	if err := p.check(scope); err != nil {
		return nil, p.names.failed("claim API", id, err)
	}
	c := &ClaimAPI{
		Construct: constructs.NewConstruct(scope, jsii.String(id)),
		BankTable: p.BankTable, DedupeTable: p.DedupeTable,
	}
	if c.BankTable == nil {
		c.BankTable = newTable(c.Construct, "BankTable", p.Table)
	}
	if c.DedupeTable == nil {
		c.DedupeTable = newDedupeTable(c.Construct, "DedupeTable", p.Table)
	}
	env := p.environment(*c.BankTable.TableName(), *c.DedupeTable.TableName())
	c.Function = newFunction(c.Construct, p.Function, env, claimGrants(c.BankTable, c.DedupeTable), p.Disposable)
	c.newAPI(p)
	c.newAlarms(p.Alarms)
	if !p.Sweep.Off {
		c.newSweep(p)
	}
	return c, nil
}

func (p ClaimAPIProps) withDefaults() ClaimAPIProps {
	p.Function = p.Function.withDefaults(claimFunction)
	if p.ClaimantFrom == "" {
		p.ClaimantFrom = p.Auth.claimantFrom
	}
	if p.Sweep.Every == 0 {
		p.Sweep.Every = defaultSweepEvery
	}
	if p.RateLimit == 0 {
		p.RateLimit = defaultClaimRate
	}
	if p.BurstLimit == 0 {
		p.BurstLimit = defaultClaimRate
	}
	return p
}

// check returns everything that is wrong with props that have their defaults.
func (p ClaimAPIProps) check(scope constructs.Construct) error {
	wrong := problems{naming: p.names}
	wrong.join(p.Auth.check(p.names, p.ClaimantFrom), p.Table.check(scope, p.names))
	wrong.join(p.Function.check(claimFunction, p.names), p.checkSweep())
	if p.RateLimit < 0 || p.BurstLimit < 0 {
		wrong.add("RateLimit is %d and BurstLimit is %d; both must be positive", p.RateLimit, p.BurstLimit)
	}
	env := p.environment(nameOf(p.BankTable, "bank"), nameOf(p.DedupeTable, "dedupe"))
	_, err := claimapi.ParseSettings(env.known())
	wrong.join(p.names.ofFunction(err), env.check())
	return wrong.err()
}

func (p ClaimAPIProps) environment(bank, dedupe string) environment {
	env := environment{
		"ONCEBOX_BANK_TABLE":    bank,
		"ONCEBOX_DEDUPE_TABLE":  dedupe,
		"ONCEBOX_CLAIMANT_FROM": p.ClaimantFrom,
		"ONCEBOX_LOG_LEVEL":     p.Function.LogLevel,
	}
	if p.ClaimantsConfirm {
		env["ONCEBOX_CLAIMANTS_CONFIRM"] = switchText(true)
	}
	if p.CampaignCache != nil {
		env["ONCEBOX_CAMPAIGN_CACHE"] = p.CampaignCache.String()
	}
	return env
}

// longestAPIName is API Gateway's limit (API Reference, "CreateApi").
const longestAPIName = 128

func apiName(scope constructs.Construct) string {
	name := strings.ReplaceAll(*scope.Node().Path(), "/", "-")
	return name[:min(len(name), longestAPIName)]
}

func (c *ClaimAPI) newAPI(p ClaimAPIProps) {
	c.API = awsapigatewayv2.NewHttpApi(c.Construct, jsii.String("API"), &awsapigatewayv2.HttpApiProps{
		ApiName:            jsii.String(apiName(c.Construct)),
		Description:        jsii.String("oncebox: hands out the items of campaigns"),
		CreateDefaultStage: jsii.Bool(false),
	})
	integration := awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Integration"), c.Function,
		&awsapigatewayv2integrations.HttpLambdaIntegrationProps{
			PayloadFormatVersion: awsapigatewayv2.PayloadFormatVersion_VERSION_2_0(),
		})
	authorizer := p.Auth.authorizer()
	for _, route := range claimRoutes {
		c.API.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
			Path: jsii.String(route.path), Methods: &[]awsapigatewayv2.HttpMethod{route.method},
			Integration: integration, Authorizer: authorizer,
		})
	}
	stage := awsapigatewayv2.NewHttpStage(c.Construct, jsii.String("Stage"), &awsapigatewayv2.HttpStageProps{
		HttpApi:    c.API,
		StageName:  jsii.String("$default"),
		AutoDeploy: jsii.Bool(true),
		Throttle: &awsapigatewayv2.ThrottleSettings{
			RateLimit: jsii.Number(p.RateLimit), BurstLimit: jsii.Number(p.BurstLimit),
		},
	})
	writeAccessLogs(stage, newAccessLogGroup(c.Construct, p.Function.LogRetention, p.Disposable))
	c.URL = strings.TrimSuffix(*stage.Url(), "/")
}
