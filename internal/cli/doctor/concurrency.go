package doctor

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// capacity is the area of the checks of limits.
const capacity = "capacity"

// Load is what a function has to do at the same time.
type Load struct {
	Function Function
	AtOnce   int32  // executions at once
	Why      string // how AtOnce was calculated
	Sale     bool   // an expected sale needs them: without them it fails
}

// LoadOf returns the load of a function at a rate of requests a second, which take so long on average. Lambda runs at
// most 10 requests a second for each unit of concurrency, so a shorter duration counts as 0.1 s (Lambda Developer Guide,
// "Understanding Lambda function scaling", concurrency and requests per second).
func LoadOf(f Function, rate float64, duration time.Duration, sale bool) Load {
	note := ""
	if sale && duration == 0 {
		note = ", which was not measured"
	}
	duration = max(duration, time.Second/10)
	return Load{
		f, int32(math.Ceil(min(rate*duration.Seconds(), math.MaxInt32))),
		fmt.Sprintf("%.0f requests a second of %s%s", rate, duration.Round(time.Millisecond), note), sale,
	}
}

// mostStarts is how many executions of a function Lambda starts in 10 seconds (Lambda Developer Guide, "Lambda scaling
// behavior").
const mostStarts = 1000

// CheckConcurrency checks that the functions can run as often at once as their loads need.
func (c Account) CheckConcurrency(ctx context.Context, loads []Load) {
	a := c.Report.Area(capacity)
	shared := Load{}
	var whys []string
	for _, l := range loads {
		name := "concurrency of the " + l.Function.title()
		if l.Sale && l.AtOnce > mostStarts {
			a.Warn("start of the "+l.Function.title(), fmt.Sprintf("it may need %d at once (%s), and Lambda starts %d of a function in "+
				"10 seconds: it would refuse the rest in the first seconds of the sale", l.AtOnce, l.Why, mostStarts),
				"Let customers in slowly, or give the alias provisioned concurrency for the time of the sale.")
		}
		out, err := c.Lambda.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &l.Function.Name})
		if err != nil {
			a.NotRead(name, c.Explain(err))
			continue
		}
		why := fmt.Sprintf("the %s function may need %d (%s)", l.Function.Kind, l.AtOnce, l.Why)
		if out.ReservedConcurrentExecutions == nil {
			shared.AtOnce, shared.Sale, whys = shared.AtOnce+l.AtOnce, shared.Sale || l.Sale, append(whys, why)
			continue
		}
		reserved := *out.ReservedConcurrentExecutions
		if reserved == 0 {
			a.Fail(name, "0, reserved: an operator has stopped the function", "If it may run again: aws lambda "+
				"delete-function-concurrency --function-name "+l.Function.Name+", or put-function-concurrency with the number of "+
				"claims.reserved-concurrency or records.reserved-concurrency, if you have set one.")
			continue
		}
		a.tellConcurrency(name, fmt.Sprintf("%d, reserved", reserved), reserved, l, why,
			"Raise claims.reserved-concurrency or records.reserved-concurrency, or leave it out.")
	}
	if len(whys) == 0 {
		return
	}
	const name = "concurrency of the account"
	out, err := c.Lambda.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err == nil && (out.AccountLimit == nil || out.AccountLimit.UnreservedConcurrentExecutions == nil) {
		err = errNotExpected
	}
	if err != nil {
		a.NotRead(name, c.Explain(err))
		return
	}
	unreserved := aws.ToInt32(out.AccountLimit.UnreservedConcurrentExecutions)
	a.tellConcurrency(name, fmt.Sprintf("%d of %d are not reserved, for all functions of the region", unreserved,
		out.AccountLimit.ConcurrentExecutions), unreserved, shared, strings.Join(whys, ", "),
		"Ask for a higher quota \"Concurrent executions\" of Lambda, or lower claims.rate-limit.")
}

// tellConcurrency compares a concurrency with the one that a load needs.
func (a Area) tellConcurrency(name, has string, number int32, l Load, why, do string) {
	switch detail := has + "; " + why; {
	case number >= l.AtOnce:
		a.OK(name, detail)
	case l.Sale:
		a.Fail(name, detail+": Lambda would refuse the rest", do)
	default:
		a.Warn(name, detail+": Lambda would refuse the rest", do)
	}
}

// measured is the time over which the duration of requests is measured. CloudWatch keeps hourly values much longer.
const measured = 14 * 24 * time.Hour

// MeanDuration returns the mean duration of a function's invocations in the last two weeks, as CloudWatch has it. It
// returns 0 without invocations. If CloudWatch cannot be read, it reports that and returns 0.
func (c Account) MeanDuration(ctx context.Context, f Function) (mean time.Duration) {
	points, err := c.values(ctx, f.metric("Duration"), measured)
	if err != nil {
		c.Report.Area(capacity).NotRead("duration of the "+f.title(), c.Explain(err))
		return 0
	}
	var sum, count float64
	for _, d := range points {
		sum, count = sum+aws.ToFloat64(d.Sum), count+aws.ToFloat64(d.SampleCount)
	}
	if count == 0 {
		return 0
	}
	return time.Duration(sum / count * float64(time.Millisecond))
}
