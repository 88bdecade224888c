package infra

import (
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// newAlarms makes the alarms of the API, its function and its tables.
func (c *ClaimAPI) newAlarms(s alarmSet, p ClaimAPIProps) {
	s.add(
		alarm{
			"ServerErrorsAlarm", "claim-server-errors", "The claim API answers with 5xx.",
			c.shareOfRequests(c.apiMetric("5xx", "Sum")), failing, twice, atLeast,
		},
		alarm{
			"ClientErrorsAlarm", "claim-client-errors", "The claim API refuses half of the requests as wrong or not allowed.",
			c.shareOfRequests(c.answers("ClientErrors", wrongRequests)), rejected, lasting, atLeast,
		},
		alarm{
			"RateLimitAlarm", "claim-rate-limit", "API Gateway refuses requests because of the rate limit.",
			c.shareOfRequests(c.answers("RateLimited", rateLimited)), limited, lasting, atLeast,
		},
		alarm{
			"LatencyAlarm", "claim-latency", "One of a hundred requests takes half of the time that the function has, or longer.",
			c.apiMetric("Latency", "p99"), float64((p.Function.Timeout / 2).Milliseconds()), lasting, atLeast,
		},
	)
	s.addFunction(c.Function, "claim", twice)
	s.addTable("throttled-keys-bank", c.BankTable)
	s.addTable("throttled-keys", c.DedupeTable)
	s.addDueIndex(c.DedupeTable)
}

// rateLimited finds requests that API Gateway refused. It leaves out the answers 429 of the function, which belong to a
// list of free items: with more of them, a higher limit would not help.
const rateLimited = `{ ($.status = "429") && ($.integrationStatus != "429") }`

// wrongRequests finds requests whose callers send something wrong, or have no permission. It leaves out 404 and 409,
// which are normal answers during a sale: not found, and sold out. Programs that look for weaknesses get a 404 from
// API Gateway. 429 has its own alarm.
const wrongRequests = `{ ($.status = "4*") && ($.status != "404") && ($.status != "409") && ($.status != "429") }`

// answers counts lines of the access log. API Gateway's own metric 4xx would go off with every campaign that is sold
// out.
func (c *ClaimAPI) answers(name, pattern string) awscloudwatch.IMetric {
	return filtered(c.Construct, name, name, c.accessLogs, awslogs.FilterPattern_Literal(&pattern), "1", c.Function)
}

// shareOfRequests returns a number of requests as a percentage of all requests.
func (c *ClaimAPI) shareOfRequests(part awscloudwatch.IMetric) awscloudwatch.IMetric {
	return percent("FILL(part, 0)", "FILL(requests, 0)", metrics{"part": part, "requests": c.apiMetric("Count", "Sum")})
}

func (c *ClaimAPI) apiMetric(name, statistic string) awscloudwatch.Metric {
	return metric("AWS/ApiGateway", name, statistic, "ApiId", c.API.ApiId())
}

// newSweepAlarms makes the alarms of the sweep.
func (c *ClaimAPI) newSweepAlarms(s alarmSet, scope constructs.Construct, p ClaimAPIProps) {
	errors := twice
	if p.SweepEvery > alarmPeriod {
		errors = atOnce
	}
	s.in(scope).addFunction(c.Sweep, "sweep", errors)
	s.in(scope).add(alarm{
		"NotRunningAlarm", "sweep-not-running", "No sweep has begun for three intervals.",
		c.sweeps("Invocations", max(alarmPeriod, p.SweepEvery)), 0, lasting, atMostOrMissing,
	})
	if items := p.nearlyEmpty(); items > 0 {
		s.in(scope).add(alarm{
			"NearlyEmptyAlarm", "bank-nearly-empty", "An open campaign has few free items left, or none.",
			c.leastFree(countPeriod(p.SweepEvery)), float64(items), atOnce, atMost,
		})
	}
}

// sweeps returns a metric of the sweep function over a period.
func (c *ClaimAPI) sweeps(name string, period time.Duration) awscloudwatch.IMetric {
	return metric("AWS/Lambda", name, "Sum", "FunctionName", c.Sweep.FunctionName()).
		With(&awscloudwatch.MetricOptions{Period: seconds(period)})
}

// plenty is more free items than any threshold.
const plenty = 1_000_000_000_000

// leastFree is the least number of free items of any campaign. If sweeps ran, none failed and none counted anything, no
// campaign needs items: then the value is plenty. If sweeps failed or did not run, a missing count has no value.
func (c *ClaimAPI) leastFree(period time.Duration) awscloudwatch.IMetric {
	const least = "IF(FILL(sweeps, 0) > 0 && FILL(failed, 0) == 0, FILL(free, %d), free)"
	return calculated(fmt.Sprintf(least, plenty), metrics{
		"free": c.Metric(FreeItems, &awscloudwatch.MetricOptions{
			Statistic: jsii.String("Minimum"), Period: seconds(period),
		}),
		"sweeps": c.sweeps("Invocations", period), "failed": c.sweeps("Errors", period),
	}, period)
}

// countPeriod returns a period in which free items are counted at least once. The sweep counts them every five
// minutes, or at each run if it runs less often. The period is long enough for a late sweep.
func countPeriod(every time.Duration) time.Duration {
	return min(max(3*sweephandler.CountEvery, 2*every), longestAlarmPeriod)
}

// longestAlarmPeriod is CloudWatch's limit of an alarm (API Reference, "PutMetricAlarm").
const longestAlarmPeriod = 24 * time.Hour
