package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
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
}

// invocationTimeout is longer than the time-outs of the stack's functions: 10 seconds for a claim, 50 for a sweep.
const invocationTimeout = 2 * time.Minute

// deployment holds the parts that the doctor uses.
type deployment struct {
	*cli.App
	config    aws.Config
	lambda    *lambda.Client
	dynamo    *dynamodb.Client
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
	d.functions = slices.DeleteFunc(d.functions, func(f doctor.Function) bool {
		doctor.CheckAlias(f, report)
		return !doctor.CheckSettings(f, report) // and it would not start
	})
	if err := d.checkTables(ctx); err != nil {
		return err
	}
	if err := d.playClaims(ctx, key, c.Clean); err != nil {
		return err
	}
	if err := d.playRecords(ctx, c); err != nil {
		return err
	}
	report.Area("limits").Info("not tried", "API Gateway and its authorizer, traces, network interfaces, and keys one "+
		"by one; docs/iam.md, \"Try the permissions\", lists the rows that no step proves")
	return nil
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
	found, others, err := doctor.FindInStack(ctx, cloudformation.NewFromConfig(d.config), d.lambda, c.Stack)
	if err != nil {
		return c.noStack(err, d.config.Region)
	}
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

// playRecords checks how Lambda gives records to the dedupe functions. If the user asked for it, it runs
// doctor.PlayRecords for each of them.
func (d *deployment) playRecords(ctx context.Context, c doctorCommand) error {
	functions := d.of(doctor.Dedupe)
	mappings, readers := make([][]types.EventSourceMappingConfiguration, len(functions)), map[string][]string{}
	for i, f := range functions {
		mappings[i] = doctor.CheckMapping(ctx, d.lambda, f, d.explainFor(ctx, f), d.report)
		for _, m := range mappings[i] {
			source := aws.ToString(m.EventSourceArn)
			readers[source] = append(readers[source], f.Name)
		}
	}
	for i, f := range functions {
		if !c.Records {
			d.report.Add(doctor.Check{
				Area: "records", Name: f.Name, Status: doctor.NotPlayed,
				Detail: "--records puts scratch records into the source stream",
			})
			continue
		}
		play := doctor.RecordsPlay{
			Lambda: d.lambda, Function: f, Mappings: mappings[i],
			Acks:    ledgerdynamo.New(d.dynamo, f.Env["ONCEBOX_DEDUPE_TABLE"]),
			Kinesis: kinesis.NewFromConfig(d.config), SQS: sqs.NewFromConfig(d.config),
			Wait: c.Wait, Explain: d.explainFor(ctx, f),
			S3: s3.NewFromConfig(d.config, func(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil }),
		}
		for _, m := range mappings[i] {
			others := slices.Clone(readers[aws.ToString(m.EventSourceArn)])
			play.Others = slices.DeleteFunc(others, func(name string) bool { return name == f.Name })
		}
		if err := doctor.PlayRecords(ctx, play, d.report); err != nil {
			return err
		}
	}
	return ctx.Err()
}
