package doctor

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// CheckThrottles checks that API Gateway lets the claims of a sale through: rate requests a second.
func (c Account) CheckThrottles(ctx context.Context, f Function, t Throttle, known bool, rate int) {
	a := c.Report.Area(capacity)
	name := "rate limit of the " + f.title()
	switch {
	case !known:
		a.NotPlayed(name, "doctor has not seen the API of the function")
	case t == Throttle{}:
		a.OK(name, "none of the stage")
	default:
		a.tellThrottle(name, t, rate, fmt.Sprintf("Set claims.rate-limit and claims.burst-limit to %d or more.", rate))
	}
	const all = "rate limit of all APIs of the region"
	out, err := c.Limits.GetAccount(ctx, &apigateway.GetAccountInput{})
	if err == nil && out.ThrottleSettings == nil {
		err = errNotExpected
	}
	switch {
	case err != nil:
		a.NotRead(all, c.Explain(err))
	default:
		a.tellThrottle(all, Throttle{out.ThrottleSettings.RateLimit, out.ThrottleSettings.BurstLimit}, rate, fmt.Sprintf(
			"Ask for a higher quota \"Throttle rate\" of API Gateway, of %d or more. AWS sets the burst by the rate.", rate))
	}
}

// tellThrottle compares limits of API Gateway with the rate of a sale. With a burst below the rate, it refuses requests
// only if more than that many come at the same moment.
func (a Area) tellThrottle(name string, t Throttle, rate int, do string) {
	switch detail := fmt.Sprintf("%g requests a second and %d at once", t.Rate, t.Burst); {
	case t.Rate > 0 && t.Rate < float64(rate):
		a.Fail(name, detail+": API Gateway refuses the rest with 429", do)
	case t.Burst > 0 && int(t.Burst) < rate:
		a.Warn(name, detail+": if more come at the same moment, API Gateway refuses the rest with 429", do)
	default:
		a.OK(name, detail)
	}
}

// These are the write units of a claim in each of the two tables (docs/operations.md, "Before an on-sale"). Twice as
// many leave room for partition keys that DynamoDB puts on one partition by chance.
const (
	unitsOfClaim = 2
	roomyUnits   = 2 * unitsOfClaim
)

// CheckCapacity checks that the tables take the claims of a sale: rate claims a second.
func (c Account) CheckCapacity(ctx context.Context, f Function, rate int) {
	a := c.Report.Area(capacity)
	roomy := rate * roomyUnits
	// One quota is for tables with provisioned capacity and for those on demand (DynamoDB Developer Guide, "Quotas in
	// Amazon DynamoDB").
	const quota = "write quota of a table"
	if out, err := c.Tables.DescribeLimits(ctx, &dynamodb.DescribeLimitsInput{}); err != nil {
		a.NotRead(quota, c.Explain(err))
	} else {
		a.tellUnits(quota, out.TableMaxWriteCapacityUnits, rate, fmt.Sprintf(
			"Ask for a higher quota \"Table-level write throughput limit\" of DynamoDB, of %d or more.", roomy))
	}
	for _, name := range []string{f.Env["ONCEBOX_BANK_TABLE"], f.Env["ONCEBOX_DEDUPE_TABLE"]} {
		out, err := c.Tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
		if err != nil {
			a.NotRead(name, c.Explain(err))
			continue
		}
		table := out.Table
		onDemand := table.BillingModeSummary != nil && table.BillingModeSummary.BillingMode == types.BillingModePayPerRequest
		if p := table.ProvisionedThroughput; p != nil && !onDemand {
			a.tellUnits(name+", provisioned capacity", p.WriteCapacityUnits, rate, fmt.Sprintf("Provision %d write units, or "+
				"`aws dynamodb update-table --billing-mode PAY_PER_REQUEST --table-name %s`.", roomy, name))
		}
		if o := table.OnDemandThroughput; o != nil {
			a.tellUnits(name+", maximum of write request units", o.MaxWriteRequestUnits, rate, "aws dynamodb update-table "+
				"--on-demand-throughput MaxWriteRequestUnits=-1 --table-name "+name)
		}
		if w := table.WarmThroughput; w != nil {
			a.tellUnits(name+", warm throughput", w.WriteUnitsPerSecond, rate,
				fmt.Sprintf("Set warm-write-units to %d: docs/operations.md, \"Before an on-sale\".", roomy))
		}
	}
}

// tellUnits compares write units a second with those that claims take. A number that is not positive is no limit.
func (a Area) tellUnits(name string, units *int64, rate int, do string) {
	has, needed, roomy := aws.ToInt64(units), int64(rate*unitsOfClaim), int64(rate*roomyUnits)
	switch detail := fmt.Sprintf("%d write units a second, and the sale takes %d", has, needed); {
	case has <= 0:
	case has < needed:
		a.Fail(name, detail+": DynamoDB throttles claims", do)
	case has < roomy:
		a.Warn(name, fmt.Sprintf("%s; %d leave room for partition keys that share a partition", detail, roomy), do)
	default:
		a.OK(name, detail)
	}
}
