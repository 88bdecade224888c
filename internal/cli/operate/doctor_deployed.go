package operate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/cli/doctor"
	"github.com/oncebox/oncebox/internal/cli/links"
	"github.com/oncebox/oncebox/pkg/claimlink"
	ledgerdynamo "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

type deployedFlags struct {
	Stack    string        `help:"The CloudFormation stack. Default: ${default}." default:"oncebox" placeholder:"NAME"`
	Function []string      `help:"A function: NAME, NAME:ALIAS or an ARN. Repeatable." sep:"none" placeholder:"NAME"`
	Records  bool          `help:"Also put six records into the source stream, which all its consumers get."`
	Wait     time.Duration `help:"With --records: how long to wait. Default: ${default}." default:"3m" placeholder:"D"`
	LinkKey  string        `help:"The private key of links, where claimants come from personal links." placeholder:"FILE"`
	Clean    bool          `help:"Delete the scratch campaigns of all other runs, even of running ones."`
	// ExpectedRate is 0 without a sale.
	ExpectedRate int `help:"Also check the limits of the account for this many claims a second." placeholder:"N"`
}

// invocationTimeout is longer than the time-outs of the stack's functions: 10 seconds for a claim, 50 for a sweep.
const invocationTimeout = 2 * time.Minute

// deployment holds the parts that the doctor uses.
type deployment struct {
	*cli.App
	config    aws.Config
	lambda    *lambda.Client
	dynamo    *dynamodb.Client
	stack     *doctor.Stack // nil: the user has named the functions
	functions []doctor.Function
	report    *doctor.Report
}

func (c doctorCommand) checkDeployed(ctx context.Context, a *cli.App, report *doctor.Report) error {
	var key *claimlink.PrivateKey
	if c.LinkKey != "" {
		var err error
		if key, err = links.ReadPrivateKey(c.LinkKey); err != nil {
			return err
		}
	}
	d, err := c.find(ctx, a, report)
	if err != nil {
		return err
	}
	if c.Records && len(d.of(doctor.Dedupe)) == 0 {
		return cli.BadUsage(errors.New("--records: there is no dedupe function"), "Leave out --records, or name the function.")
	}
	if c.ExpectedRate > 0 && len(d.of(doctor.Claim)) == 0 {
		return cli.BadUsage(errors.New("--expected-rate: there is no claim function"), "Leave out --expected-rate, or name the function.")
	}
	d.functions = slices.DeleteFunc(d.functions, func(f doctor.Function) bool {
		doctor.CheckAlias(f, report)
		return !doctor.CheckSettings(f, report) // and it would not start
	})
	if err := d.checkTables(ctx); err != nil {
		return err
	}
	mappings := d.checkAccount(ctx, c.ExpectedRate)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := d.playClaims(ctx, key, c.Clean); err != nil {
		return err
	}
	if err := d.playRecords(ctx, c, mappings); err != nil {
		return err
	}
	report.Area("limits").Info("not tried", "a request with credentials through API Gateway, traces, network interfaces, and "+
		"keys one by one; docs/iam.md, \"Try the permissions\", lists the rows that no step proves")
	return nil
}

// checkAccount checks the parts around the functions, and the limits of the account: those for a sale of rate claims a
// second, unless rate is 0. It returns the event source mappings of each dedupe function, by its ARN.
func (d *deployment) checkAccount(ctx context.Context, rate int) map[string][]types.EventSourceMappingConfiguration {
	account := doctor.Account{
		Lambda: d.lambda, Gateway: apigatewayv2.NewFromConfig(d.config), Limits: apigateway.NewFromConfig(d.config),
		Events: eventbridge.NewFromConfig(d.config), CloudWatch: cloudwatch.NewFromConfig(d.config),
		Kinesis: kinesis.NewFromConfig(d.config), Queues: sqs.NewFromConfig(d.config), Logs: cloudwatchlogs.NewFromConfig(d.config),
		Tables: d.dynamo, HTTP: http.DefaultTransport,
		Stack: d.stack, Explain: explainer(ctx, d.App), Report: d.report,
	}
	var loads []doctor.Load
	for _, f := range d.of(doctor.Claim) {
		throttle, known := account.CheckAPI(ctx, f)
		switch {
		case rate > 0:
			loads = append(loads, doctor.LoadOf(f, float64(rate), account.MeanDuration(ctx, f), true))
			account.CheckThrottles(ctx, f, throttle, known, rate)
			if !dynamo.Local(d.dynamo) { // a local engine has no limits
				account.CheckCapacity(ctx, f, rate)
			}
		case throttle.Rate > 0:
			loads = append(loads, doctor.LoadOf(f, throttle.Rate, 0, false))
		default:
			loads = append(loads, doctor.Load{Function: f, AtOnce: 1, Why: "its rate has no limit that doctor knows"})
		}
	}
	for _, f := range d.of(doctor.Sweep) {
		account.CheckSchedule(ctx, f)
		loads = append(loads, doctor.Load{Function: f, AtOnce: 1, Why: "one sweep"})
	}
	mappings := map[string][]types.EventSourceMappingConfiguration{}
	for _, f := range d.of(doctor.Dedupe) {
		var load doctor.Load
		mappings[f.Invoked], load = account.CheckMapping(ctx, f)
		account.CheckStatements(ctx, f)
		loads = append(loads, load)
	}
	account.CheckConcurrency(ctx, loads)
	account.CheckAlarms(ctx)
	return mappings
}

// find finds the functions.
func (c doctorCommand) find(ctx context.Context, a *cli.App, report *doctor.Report) (*deployment, error) {
	cfg, err := awsconfig.Load(ctx, sdkconfig.Load, invocationTimeout, nil)
	if err != nil {
		return nil, err
	}
	d := &deployment{App: a, config: cfg, lambda: lambda.NewFromConfig(cfg), report: report}
	if err := cli.CheckCredentials(ctx, cfg.Credentials, d.lambda.Options().BaseEndpoint != nil); err != nil {
		return nil, err
	}
	if d.dynamo, err = cli.NewDynamoClient(ctx); err != nil {
		return nil, err
	}
	where := "--function"
	if len(c.Function) > 0 {
		d.functions, err = doctor.Find(ctx, d.lambda, c.Function)
	} else {
		where = "the stack " + c.Stack
		err = c.findInStack(ctx, d)
	}
	if hidden, ok := errors.AsType[*doctor.VariablesError](err); ok {
		return nil, cli.WithHint(hidden, "With a key of yours for the variables you need kms:Decrypt on it. "+
			"If the function is not of oncebox, name those that are with --function.")
	}
	if err != nil {
		return nil, err
	}
	if len(d.functions) == 0 {
		return nil, cli.BadUsage(
			fmt.Errorf("%s has no function of oncebox", where), "Use another --stack, or name the functions with --function.",
		)
	}
	return d, nil
}

// findInStack finds the functions of the stack.
func (c doctorCommand) findInStack(ctx context.Context, d *deployment) error {
	stack, err := doctor.InStack(ctx, cloudformation.NewFromConfig(d.config), c.Stack)
	if err != nil {
		return c.noStack(err, d.config.Region)
	}
	found, others, err := stack.Find(ctx, d.lambda)
	if err != nil {
		return err
	}
	d.stack = stack
	for _, f := range others {
		doctor.TellOther(f, d.report)
	}
	d.functions = found
	return nil
}

// noStack returns the error for a stack that does not exist. CloudFormation calls that a validation error.
func (c doctorCommand) noStack(err error, region string) error {
	if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != "ValidationError" {
		return err
	}
	text := fmt.Sprintf("--stack %s: there is no such stack in the region %s", c.Stack, region)
	return cli.BadUsage(
		cli.Plain(text, nil, err),
		"`aws cloudformation list-stacks` lists them. --function names functions without a stack.",
	)
}

// of returns the functions of a kind.
func (d *deployment) of(kind doctor.Kind) (all []doctor.Function) {
	return slices.DeleteFunc(slices.Clone(d.functions), func(f doctor.Function) bool { return f.Kind != kind })
}

// checkTables checks the tables of the functions of claims, which share them, and the tables of dedupe functions.
func (d *deployment) checkTables(ctx context.Context) error {
	var checked []doctor.Tables
	var first doctor.Function // whose tables are checked[0]
	for _, f := range slices.Concat(d.of(doctor.Claim), d.of(doctor.Sweep), d.of(doctor.Dedupe)) {
		tables := doctor.Tables{Bank: f.Env["ONCEBOX_BANK_TABLE"], Dedupe: f.Env["ONCEBOX_DEDUPE_TABLE"]}
		known := slices.ContainsFunc(checked, func(t doctor.Tables) bool {
			return t.Dedupe == tables.Dedupe && (t.Bank == tables.Bank || tables.Bank == "")
		})
		if known {
			continue
		}
		switch {
		case len(checked) == 0:
			first = f
		case f.Kind != doctor.Dedupe:
			d.report.Area("settings").Fail(f.Name, fmt.Sprintf("its tables are %s and %s, and those of %s are %s and %s",
				tables.Bank, tables.Dedupe, first.Name, checked[0].Bank, checked[0].Dedupe),
				"Functions of claims share their tables. Check two deployments one after the other, with --function.")
		}
		checked = append(checked, tables)
		tables.Client, tables.Local, tables.Explain = d.dynamo, dynamo.Local(d.dynamo), d.explainFor(ctx, f)
		tables.Check(ctx, d.report)
	}
	return ctx.Err()
}

// explainFor explains errors with the tables of a function, instead of the tables of --bank-table and --dedupe-table.
func (d *deployment) explainFor(ctx context.Context, f doctor.Function) func(error) string {
	named := *d.App
	named.BankTable, named.DedupeTable = f.Env["ONCEBOX_BANK_TABLE"], f.Env["ONCEBOX_DEDUPE_TABLE"]
	return explainer(ctx, &named)
}

// playClaims runs doctor.PlayClaims for each claim function.
func (d *deployment) playClaims(ctx context.Context, key *claimlink.PrivateKey, all bool) error {
	play := doctor.ClaimsPlay{Lambda: d.lambda, LinkKey: key, All: all}
	sweeps := d.of(doctor.Sweep)
	for _, f := range d.of(doctor.Claim) {
		play.Sweep = nil
		if i := slices.IndexFunc(sweeps, f.SharesTables); i >= 0 {
			play.Sweep = &sweeps[i]
		}
		play.Claim, play.Explain = f, d.explainFor(ctx, f)
		play.Store = dynamostore.New(d.dynamo, f.Env["ONCEBOX_BANK_TABLE"], f.Env["ONCEBOX_DEDUPE_TABLE"])
		if err := doctor.PlayClaims(ctx, play, d.report); err != nil {
			return err
		}
	}
	return nil
}

// playRecords runs doctor.PlayRecords for each dedupe function, if the user asked for it.
func (d *deployment) playRecords(
	ctx context.Context, c doctorCommand, mappings map[string][]types.EventSourceMappingConfiguration,
) error {
	functions, readers := d.of(doctor.Dedupe), map[string][]string{}
	for _, f := range functions {
		for _, m := range mappings[f.Invoked] {
			source := aws.ToString(m.EventSourceArn)
			readers[source] = append(readers[source], f.Name)
		}
	}
	for _, f := range functions {
		if !doctor.HasStream(mappings[f.Invoked]) {
			continue // CheckMapping has looked at its traffic, or says what is wrong
		}
		if !c.Records {
			d.report.Area("records").NotPlayed(f.Name, "--records puts scratch records into the source stream")
			continue
		}
		play := doctor.RecordsPlay{
			Lambda: d.lambda, Function: f, Mappings: mappings[f.Invoked],
			Acks:    ledgerdynamo.New(d.dynamo, f.Env["ONCEBOX_DEDUPE_TABLE"]),
			Kinesis: kinesis.NewFromConfig(d.config), SQS: sqs.NewFromConfig(d.config),
			Wait: c.Wait, Explain: d.explainFor(ctx, f),
			S3: s3.NewFromConfig(d.config, func(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil }),
		}
		for _, m := range mappings[f.Invoked] {
			others := slices.Clone(readers[aws.ToString(m.EventSourceArn)])
			play.Others = slices.DeleteFunc(others, func(name string) bool { return name == f.Name })
		}
		if err := doctor.PlayRecords(ctx, play, d.report); err != nil {
			return err
		}
	}
	return ctx.Err()
}
