package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// SweepProps are the settings of the sweep: a function that runs on a schedule and closes the holds and claims whose
// time is over, in all campaigns of the tables. All are optional. The function has the architecture, log level, log
// retention and endpoint of the claim function.
type SweepProps struct {
	// Off leaves the sweep out. Then the claims whose time is over are closed by the requests that meet them, and by
	// `oncebox sweep`.
	Off bool

	// Every is the time from one sweep to the next, in whole minutes. The default is 1 minute, the maximum 24 hours.
	Every time.Duration

	// Code is the folder of the function's executable, which is named bootstrap. The default is dist/sweep.
	Code string

	// MemoryMiB is the memory of the function. The default is 256.
	MemoryMiB int

	// Timeout is in whole seconds. A sweep that needs longer stops, and the next one goes on. The default is 50 s: then
	// sweeps do not overlap, which would be harmless. The maximum is 15 minutes.
	Timeout time.Duration
}

var sweepFunction = functionKind{
	code: "dist/sweep", memoryMiB: 256, timeout: 50 * time.Second, longestTimeout: 15 * time.Minute,
}

const defaultSweepEvery, longestSweepEvery = time.Minute, 24 * time.Hour

// sweepFunctionProps returns the props of the sweep function, with their defaults.
func (p ClaimAPIProps) sweepFunctionProps() FunctionProps {
	sweep := p.Function
	sweep.Code, sweep.MemoryMiB, sweep.Timeout = p.Sweep.Code, p.Sweep.MemoryMiB, p.Sweep.Timeout
	return sweep.withDefaults(sweepFunction)
}

// sweepNaming holds what users of props call those of the sweep.
var sweepNaming = naming{"Code": "Sweep.Code", "MemoryMiB": "Sweep.MemoryMiB", "Timeout": "Sweep.Timeout"}

// checkSweep returns everything that is wrong with the sweep. The claim function has its other settings, too.
func (p ClaimAPIProps) checkSweep() error {
	if p.Sweep.Off {
		return nil
	}
	wrong := problems{naming: sweepNaming}
	if p.names != nil {
		wrong.naming = p.names.withCode("sweep-code")
	}
	p.sweepFunctionProps().checkOwn(&wrong, sweepFunction)
	if e := p.Sweep.Every; e < time.Minute || e > longestSweepEvery || e%time.Minute != 0 {
		wrong.add("%s is %s; choose whole minutes from 1m to %s", p.names.of("Sweep.Every"), text(e), text(longestSweepEvery))
	}
	return wrong.err()
}

// newSweep makes the function and its schedule.
func (c *ClaimAPI) newSweep(p ClaimAPIProps) {
	scope := constructs.NewConstruct(c.Construct, jsii.String("Sweep"))
	env := environment{
		"ONCEBOX_BANK_TABLE":   *c.BankTable.TableName(),
		"ONCEBOX_DEDUPE_TABLE": *c.DedupeTable.TableName(),
		"ONCEBOX_LOG_LEVEL":    p.Function.LogLevel,
	}
	c.Sweep = newFunction(scope, p.sweepFunctionProps(), env, sweepGrants(c.BankTable, c.DedupeTable), p.Disposable)
	// Lambda would run a sweep that failed, or that found no free container, twice more and for up to six hours. The
	// schedule does that anyway.
	c.Sweep.ConfigureAsyncInvoke(&awslambda.EventInvokeConfigOptions{
		MaxEventAge: awscdk.Duration_Minutes(jsii.Number(1)), RetryAttempts: jsii.Number(0),
	})
	awsevents.NewRule(scope, jsii.String("Schedule"), &awsevents.RuleProps{
		Description: jsii.String("oncebox: closes the holds and claims whose time is over"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(p.Sweep.Every.Minutes()))),
		Targets:     &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(c.Sweep, nil)},
	})
	functionAlarms(scope, p.Alarms, c.Sweep, "sweep")
}
