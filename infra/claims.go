package infra

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbackup"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/claimapi"
)

// ClaimAPIProps are the settings of a [ClaimAPI]. Only Auth is required.
type ClaimAPIProps struct {
	// Auth says who may call the API: [AuthIAM], [AuthJWT], [AuthLink] or [AuthOpen].
	Auth Auth

	// JWTIssuer and JWTAudience are required with AuthJWT, and refused without it: the https URL of the issuer of the
	// tokens, and the audiences that are accepted. With JWTScopes a token must have at least one of the scopes, in its
	// claim scope or scp. API Gateway tests the scopes on all routes but the claim page.
	JWTIssuer              string
	JWTAudience, JWTScopes []string

	// Settings are the settings of the function (docs/configuration.md, "Variables of the claim function"). LinkKeys are
	// for AuthLink: every user who may read the stack's template sees them, so they must be public keys. The default of
	// ClaimantFrom is jwt:sub with AuthJWT, link with AuthLink, and body with AuthOpen. With AuthIAM it is body, too,
	// because the caller is usually a back end that names the claimant. Page also makes the routes of the claim page,
	// which every visitor may read; it is refused with AuthIAM, because browsers sign no requests. API Gateway answers
	// for CORSOrigins. Metrics is on by default, and counts free items, too. The construct sets BankTable and DedupeTable,
	// by props of its own, and Caller.
	Settings claimapi.Settings

	// ChallengeSecret has the secret of the provider of Settings.Challenge, as its text. The option secret-arn of
	// Settings.Challenge names a secret that is not of the app; Table.EncryptionKey is also the key of that secret.
	ChallengeSecret awssecretsmanager.ISecret

	// DomainName is a host name of yours for the API, as in claims.example.com. A record of your DNS must point from it to
	// the domain name of API Gateway, which is in [ClaimAPI.Domain]. Certificate is the certificate of the name, in the
	// region of the stack. Without both, the API only has the address that API Gateway chooses.
	DomainName  string
	Certificate awscertificatemanager.ICertificate

	// ExecuteAPIEndpoint is on (the default) or off. Off turns off the address that API Gateway chooses, so that the API
	// has only DomainName. Then callers cannot go around the protections in front of the domain.
	ExecuteAPIEndpoint string

	// BankTable and DedupeTable are existing tables. If one is nil, [NewTable] makes it with the settings of Table.
	BankTable, DedupeTable awsdynamodb.ITableV2
	Table                  TableProps

	// Backup makes copies of both tables in another account.
	Backup BackupProps

	// FormerKeys are the keys that encrypted the tables, or the secret of the challenge, before their key was changed
	// or removed. The functions may still decrypt with them (docs/operations.md, "Change the key").
	FormerKeys []awskms.IKey

	// RateLimit and BurstLimit throttle each route: requests per second, and requests at once. The default of both is
	// 1,000, the most that a new table serves: it has 4,000 write units a second, and a request takes up to 4 of them. A
	// higher RateLimit needs tables with that many warm units. Of APIs with a table in common the limits add up. The list
	// of free items has a fixed limit of 100, because callers who may not claim can ask for it.
	RateLimit, BurstLimit int

	Function FunctionProps
	Alarms   AlarmProps

	// Sweep is on (the default) or off. The sweep is a function that runs on a schedule and closes holds and claims after
	// their end, in all campaigns of the tables. It also counts the free items of open campaigns. Without it, only requests
	// that find an ended claim, and `oncebox sweep`, close ended claims, and free items are not counted.
	Sweep string

	// SweepEvery is the time from one sweep to the next, in whole minutes. The default is 1 minute, the maximum 24 hours.
	SweepEvery time.Duration

	// SweepFunction are the settings of the function that differ from Function.
	SweepFunction SweepFunctionProps

	// NearlyEmpty is the number of free items of an open campaign at which the alarm goes off. Nil is the default,
	// 100; 0 leaves the alarm out. It needs the sweep and its metrics.
	NearlyEmpty *int

	// Disposable deletes the logs with the stack. Table has its own setting.
	Disposable bool

	names naming
}

// ClaimAPI is the claim API: tables, functions, HTTP API and alarms. For settings that the props do not have, change
// its parts.
type ClaimAPI struct {
	Construct              constructs.Construct // the scope of the parts that the construct makes
	BankTable, DedupeTable awsdynamodb.ITableV2
	Function               awslambda.Function
	Alias                  awslambda.Alias    // the alias of the function; the API calls it
	Sweep                  awslambda.Function // nil if the sweep is off
	SweepAlias             awslambda.Alias    // the alias of the sweep; the schedule calls it
	API                    awsapigatewayv2.HttpApi
	URL                    string                     // without a slash at the end; a CDK token until the API is deployed
	Domain                 awsapigatewayv2.DomainName // nil without a domain
	BackupVault            awsbackup.BackupVault      // the locked vault in the account of the stack; nil without backups
	BackupPlan             awsbackup.BackupPlan       // nil without backups; other tables can be added to it

	// Alarms holds the alarms by their sections in docs/operations.md, as in "claim-server-errors". The alarm of the
	// bank table is "throttled-keys-bank". Constructs that share a table share its alarm.
	Alarms map[string]awscloudwatch.Alarm

	auth       Auth
	metrics    bool // the functions write metrics
	accessLogs awslogs.LogGroup
}

var claimFunction = functionKind{
	code: "dist/claim", memoryMiB: 512, timeout: 10 * time.Second,
	// This is one second less than an HTTP API waits (API Gateway Developer Guide, "Quotas for configuring and
	// running an HTTP API").
	longestTimeout: 29 * time.Second,
}

// itemsRate and itemsRoute are the limit of the list of free items, in requests a second and at once, and its route.
// A cache in front of the API asks once a second for each page.
const (
	itemsRate  = 100
	itemsRoute = "/campaigns/{campaign}/items"
)

// defaultClaimRate is the default of [ClaimAPIProps].RateLimit and BurstLimit, which explain it.
const defaultClaimRate = 1000

// claimRoutes are the routes of the claim API. All have the same authorizer. API Gateway itself answers 404 to every
// other request, so that the request costs no invocation.
//
// The claimant is a greedy parameter, because API Gateway decodes the path: an encoded slash in a claimant arrives as a
// slash. A greedy parameter can only be the last part of a path. So the parameter of POST includes the /confirmation,
// /prolongation or /replacement after the claimant, and the function looks for it. /openapi.json has the authorizer, too,
// so that callers who may not call the API cause no invocation.
var claimRoutes = []struct {
	method awsapigatewayv2.HttpMethod
	path   string
}{
	{awsapigatewayv2.HttpMethod_POST, "/campaigns/{campaign}/claims"},
	{awsapigatewayv2.HttpMethod_GET, "/campaigns/{campaign}/claims/{claimant+}"},
	{awsapigatewayv2.HttpMethod_POST, "/campaigns/{campaign}/claims/{claimant+}"},
	{awsapigatewayv2.HttpMethod_DELETE, "/campaigns/{campaign}/claims/{claimant+}"},
	{awsapigatewayv2.HttpMethod_GET, itemsRoute},
	{awsapigatewayv2.HttpMethod_GET, "/campaigns/{campaign}"},
	{awsapigatewayv2.HttpMethod_GET, "/openapi.json"},
}

// pageRoutes are the routes of the claim page. They never have an authorizer, and serve only the page.
var pageRoutes = []string{"/c/{campaign}", "/c/{campaign}/{file}"}

// NewClaimAPI makes a claim API. Its error lists all problems in the props; then it makes nothing.
func NewClaimAPI(scope constructs.Construct, id string, p ClaimAPIProps) (*ClaimAPI, error) {
	p = p.withDefaults()
	if err := p.check(scope); err != nil {
		return nil, fmt.Errorf("claim API %s: %w", id, err)
	}
	return newClaimAPI(scope, id, p), nil
}

// newClaimAPI makes a claim API from checked props.
func newClaimAPI(scope constructs.Construct, id string, p ClaimAPIProps) *ClaimAPI {
	c := &ClaimAPI{
		Construct: constructs.NewConstruct(scope, jsii.String(id)),
		BankTable: p.BankTable, DedupeTable: p.DedupeTable, auth: p.Auth, metrics: p.hasMetrics(),
	}
	if c.BankTable == nil {
		c.BankTable = newTable(c.Construct, "BankTable", p.Table, nil)
	}
	if c.DedupeTable == nil {
		c.DedupeTable = newDedupeTable(c.Construct, "DedupeTable", p.Table)
	}
	markRate(c.BankTable, p.RateLimit)
	markRate(c.DedupeTable, p.RateLimit)
	p.ChallengeSecret = p.challenge().secret(c.Construct, "ChallengeSecret", p.Table.EncryptionKey)
	env := p.environment(*c.BankTable.TableName(), *c.DedupeTable.TableName(), secretARN(p.ChallengeSecret))
	grants := slices.Concat(claimGrants(c.BankTable, c.DedupeTable), readSecret(p.ChallengeSecret), p.formerKeyGrants())
	c.Function = newFunction(c.Construct, p.Function, env, grants, p.Disposable)
	c.Alias = newLive(c.Construct, c.Function)
	c.newAPI(p)
	alarms := newAlarmSet(c.Construct, p.Alarms)
	c.newAlarms(alarms, p)
	newCanary(alarms, p.Function, c.Function, c.Alias, canaryOfClaims)
	if p.hasSweep() {
		c.newSweep(p, alarms)
	}
	c.newBackup(p, alarms)
	c.Alarms = alarms.made
	keepOneRegion(c.Construct, c.BankTable, c.DedupeTable)
	return c
}

func (p ClaimAPIProps) withDefaults() ClaimAPIProps {
	p.Function = p.Function.withDefaults(claimFunction)
	p.Alarms, p.Backup = p.Alarms.withDefaults(), p.Backup.withDefaults()
	p.Settings.ClaimantFrom = cmp.Or(p.Settings.ClaimantFrom, auths[p.Auth], "body")
	p.Settings.Metrics = cmp.Or(p.Settings.Metrics, switchText(true))
	p.Sweep, p.SweepEvery = cmp.Or(p.Sweep, switchText(true)), cmp.Or(p.SweepEvery, defaultSweepEvery)
	p.ExecuteAPIEndpoint = cmp.Or(p.ExecuteAPIEndpoint, switchText(true))
	if p.RateLimit == 0 {
		p.RateLimit = defaultClaimRate
	}
	if p.BurstLimit == 0 {
		p.BurstLimit = defaultClaimRate
	}
	return p
}

// check returns all problems in props that have their defaults.
func (p ClaimAPIProps) check(scope constructs.Construct) error {
	wrong := problems{naming: p.names}
	p.checkAuth(&wrong)
	wrong.join(p.Table.check(scope, p.names), p.Function.check(claimFunction, p.names), p.checkSweep())
	wrong.join(p.checkPage(), p.Alarms.check(p.names), p.Backup.check(scope, p.names))
	p.checkDomain(&wrong)
	wrong.checkOwn("BankTable", p.Settings.BankTable, "BankTable")
	wrong.checkOwn("DedupeTable", p.Settings.DedupeTable, "DedupeTable")
	wrong.checkOwn("Caller", p.Settings.Caller, "Auth, so that routes and function agree")
	refuseReplicas(&wrong, "BankTable", p.BankTable)
	refuseReplicas(&wrong, "DedupeTable", p.DedupeTable)
	p.checkRate(&wrong)
	p.Function.checkCanary(&wrong, p.Settings.LogLevel)
	p.challenge().check(&wrong)
	wrong.checkSwitch("ExecuteAPIEndpoint", p.ExecuteAPIEndpoint)
	wrong.checkSwitch("Sweep", p.Sweep)
	env := p.environment(nameOf(p.BankTable, "bank"), nameOf(p.DedupeTable, "dedupe"), secretToCheck(p.ChallengeSecret))
	_, _, err := claimapi.ParseSettings(env.known())
	wrong.join(p.names.functionError(p.Settings, settings.CheckLists(p.Settings)), p.names.functionError(p.Settings, err), env.check())
	return wrong.err()
}

func (p ClaimAPIProps) environment(bank, dedupe, secretARN string) environment {
	s := p.Settings
	s.BankTable, s.DedupeTable = bank, dedupe
	s.Caller, s.LinkKeys, s.Challenge = p.caller(), strings.TrimSpace(s.LinkKeys), p.challenge().with(secretARN)
	s.CORSOrigins = nil // API Gateway has them
	return environmentOf(s.Environ())
}

func (p ClaimAPIProps) hasPage() bool    { return p.Settings.Page == switchText(true) }
func (p ClaimAPIProps) hasMetrics() bool { return p.Settings.Metrics == switchText(true) }
func (p ClaimAPIProps) hasSweep() bool   { return p.Sweep == switchText(true) }

// challenge returns the address of the challenge, and its secret.
func (p ClaimAPIProps) challenge() secretAddress {
	return secretAddress{"Challenge", p.Settings.Challenge, "ChallengeSecret", p.ChallengeSecret, p.Settings.Challenge != ""}
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
		CorsPreflight:      p.cors(),

		DisableExecuteApiEndpoint: onlyTrue(p.ExecuteAPIEndpoint == switchText(false)),
	})
	integration := awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Integration"), c.Alias,
		&awsapigatewayv2integrations.HttpLambdaIntegrationProps{
			PayloadFormatVersion: awsapigatewayv2.PayloadFormatVersion_VERSION_2_0(),
		})
	authorizer := p.authorizer()
	for _, route := range claimRoutes {
		c.API.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
			Path: jsii.String(route.path), Methods: &[]awsapigatewayv2.HttpMethod{route.method},
			Integration: integration, Authorizer: authorizer, AuthorizationScopes: p.routeScopes(),
		})
	}
	if p.hasPage() {
		for _, path := range pageRoutes {
			c.API.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
				Path: jsii.String(path), Methods: &[]awsapigatewayv2.HttpMethod{awsapigatewayv2.HttpMethod_GET},
				Integration: integration, Authorizer: awsapigatewayv2.NewHttpNoneAuthorizer(),
			})
		}
	}
	permitFirst(c.API)
	stage := awsapigatewayv2.NewHttpStage(c.Construct, jsii.String("Stage"), &awsapigatewayv2.HttpStageProps{
		HttpApi:    c.API,
		StageName:  jsii.String("$default"),
		AutoDeploy: jsii.Bool(true),
		Throttle: &awsapigatewayv2.ThrottleSettings{
			RateLimit: jsii.Number(p.RateLimit), BurstLimit: jsii.Number(p.BurstLimit),
		},
	})
	limitItems(c.API, stage)
	c.accessLogs = newAccessLogGroup(c.Construct, p.Function, p.Disposable)
	writeAccessLogs(stage, c.accessLogs)
	c.URL = strings.TrimSuffix(*stage.Url(), "/")
	c.newDomain(p, stage)
}

// limitItems limits the route of the free items. API Gateway refuses settings of a route that does not exist, so the
// stage waits for the route ("Unable to find Route by key": terraform-aws-modules/terraform-aws-apigateway-v2 pull
// request 80).
func limitItems(api awsapigatewayv2.HttpApi, stage awsapigatewayv2.HttpStage) {
	limited := stage.Node().DefaultChild().(awsapigatewayv2.CfnStage)
	for _, c := range *api.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		route, ok := c.(awsapigatewayv2.CfnRoute)
		if !ok || !strings.HasSuffix(*route.RouteKey(), " "+itemsRoute) {
			continue
		}
		limited.SetRouteSettings(map[string]any{
			*route.RouteKey(): map[string]any{"ThrottlingRateLimit": itemsRate, "ThrottlingBurstLimit": itemsRate},
		})
		limited.AddResourceDependency(route, nil)
	}
}
