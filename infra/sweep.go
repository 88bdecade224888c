package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// SweepProps are the settings of the sweep: a function that runs on a schedule and closes holds and claims after
// their end, in all campaigns of the tables. It also counts the free items of open campaigns. All settings are
// optional. The function has the LogLevel and Metrics of the claim function, and its
// FunctionProps except for these and ReservedConcurrency.
type SweepProps struct {
	// Off leaves the sweep out. Then only requests that find an ended claim, and `oncebox sweep`, close ended claims.
	// Free items are not counted.
	Off bool

	// NearlyEmpty is the number of free items of an open campaign at which the alarm goes off. Nil is the default,
	// 100; 0 leaves the alarm out. It needs the sweep and its metrics.
	NearlyEmpty *int

	// Every is the time from one sweep to the next, in whole minutes. The default is 1 minute, the maximum 24 hours.
	Every time.Duration

	// Code is the folder of the function's executable, which is named bootstrap. The default is dist/sweep.
	Code string

	// MemoryMiB is the memory of the function. The default is 1,769, which is one core: a sweep that closes 2,000 holds a
	// second needs most of it. A sweep that finds nothing takes a tenth of a second.
	MemoryMiB int

	// Timeout is in whole seconds. A sweep that needs longer stops, and the next sweep continues. The default is 50
	// s, so that sweeps do not overlap; overlapping would be harmless. The maximum is 15 minutes.
	Timeout time.Duration
}

var sweepFunction = functionKind{
	code: "dist/sweep", memoryMiB: 1769, timeout: 50 * time.Second, longestTimeout: 15 * time.Minute,
}

const defaultSweepEvery, longestSweepEvery = time.Minute, 24 * time.Hour

const defaultNearlyEmpty = 100

// sweepFunctionProps returns the props of the sweep function, with their defaults.
func (p ClaimAPIProps) sweepFunctionProps() FunctionProps {
	sweep := p.Function
	sweep.Code, sweep.MemoryMiB, sweep.Timeout = p.Sweep.Code, p.Sweep.MemoryMiB, p.Sweep.Timeout
	sweep.Canary = 0 // it runs once a minute, so a tenth of its calls would not be a test
	sweep.ReservedConcurrency = nil
	return sweep.withDefaults(sweepFunction)
}

// sweepNaming returns the names of the sweep function's own props that users of props know.
func sweepNaming(prop string) string { return "Sweep." + prop }

// checkSweep returns all problems with the sweep. The claim function has its other settings, too.
func (p ClaimAPIProps) checkSweep() error {
	wrong := problems{naming: sweepNaming}
	p.checkNearlyEmpty(&wrong)
	if p.Sweep.Off {
		return wrong.err()
	}
	if p.names != nil {
		wrong.naming = p.names.withFunction("sweep")
	}
	p.sweepFunctionProps().checkOwn(&wrong, sweepFunction)
	if e := p.Sweep.Every; e < time.Minute || e > longestSweepEvery || e%time.Minute != 0 {
		wrong.add("%s is %s; choose whole minutes from 1m to %s", p.names.of("Sweep.Every"), text(e), text(longestSweepEvery))
	}
	return wrong.err()
}

// checkNearlyEmpty refuses an alarm whose metric does not exist.
func (p ClaimAPIProps) checkNearlyEmpty(wrong *problems) {
	if p.Sweep.NearlyEmpty == nil || *p.Sweep.NearlyEmpty == 0 {
		return
	}
	name, items := p.names.of("Sweep.NearlyEmpty"), *p.Sweep.NearlyEmpty
	switch {
	case items < 0:
		wrong.add("%s is %d; choose a number of items, or 0 for no alarm", name, items)
	case p.Sweep.Off:
		wrong.add("%s is %d, but %s leaves the sweep out, which counts them; change one of the two", name, items,
			p.names.of("Sweep.Off"))
	case !p.hasMetrics():
		wrong.add("%s is %d, but %s leaves the metrics out, which it needs; change one of the two", name, items,
			p.names.of("Metrics"))
	}
}

// nearlyEmpty returns the number of free items at which the alarm goes off, or 0 without an alarm.
func (p ClaimAPIProps) nearlyEmpty() int {
	switch {
	case !p.hasMetrics():
		return 0
	case p.Sweep.NearlyEmpty == nil:
		return defaultNearlyEmpty
	}
	return *p.Sweep.NearlyEmpty
}

// newSweep makes the function and its schedule.
func (c *ClaimAPI) newSweep(p ClaimAPIProps, alarms alarmSet) {
	scope := constructs.NewConstruct(c.Construct, jsii.String("Sweep"))
	env := environmentOf(sweephandler.Settings{
		BankTable: *c.BankTable.TableName(), DedupeTable: *c.DedupeTable.TableName(),
		Metrics: p.Settings.Metrics, LogLevel: p.Settings.LogLevel,
	}.Environ())
	grants := append(sweepGrants(c.BankTable, c.DedupeTable, p.hasMetrics()), onFormerKeys(p.FormerKeys, "dynamodb")...)
	c.Sweep = newFunction(scope, p.sweepFunctionProps(), env, grants, p.Disposable)
	c.Sweep.Node().DefaultChild().(awslambda.CfnFunction).SetDescription(jsii.String(sweephandler.Description))
	c.SweepAlias = newLive(scope, c.Sweep)
	// Lambda would repeat a sweep that failed, or that found no free container, twice within up to six hours. The
	// schedule repeats it anyway.
	c.SweepAlias.ConfigureAsyncInvoke(&awslambda.EventInvokeConfigOptions{
		MaxEventAge: awscdk.Duration_Minutes(jsii.Number(1)), RetryAttempts: jsii.Number(0),
	})
	awsevents.NewRule(scope, jsii.String("Schedule"), &awsevents.RuleProps{
		Description: jsii.String("oncebox: closes the holds and claims whose time is over"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(p.Sweep.Every.Minutes()))),
		Targets:     &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(c.SweepAlias, nil)},
	})
	c.newSweepAlarms(alarms, scope, p)
}
