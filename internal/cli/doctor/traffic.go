package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

// A series is a metric in CloudWatch, of one resource, or without a dimension.
type series struct{ namespace, name, dimension, resource string }

// metric returns a metric that Lambda has of the function.
func (f Function) metric(name string) series {
	return series{"AWS/Lambda", name, "FunctionName", f.Name}
}

// values returns the values of a metric in the last time, by the hour at most.
func (c Account) values(ctx context.Context, s series, last time.Duration) ([]types.Datapoint, error) {
	now := time.Now()
	var dimensions []types.Dimension
	if s.dimension != "" {
		dimensions = []types.Dimension{{Name: &s.dimension, Value: &s.resource}}
	}
	out, err := c.CloudWatch.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: &s.namespace, MetricName: &s.name, Dimensions: dimensions,
		StartTime: aws.Time(now.Add(-last)), EndTime: &now, Period: aws.Int32(int32(min(last, time.Hour) / time.Second)),
		Statistics: []types.Statistic{types.StatisticSum, types.StatisticSampleCount, types.StatisticMaximum},
	})
	if err != nil {
		return nil, err
	}
	return out.Datapoints, nil
}

// checkAge compares the age of the oldest record that waits in a source with the retention of the source. The
// metric counts in unit.
func (c Account) checkAge(
	ctx context.Context, a Area, source string, s series, unit, retention time.Duration, runbook string,
) {
	const recent = 15 * time.Minute
	name := "oldest record of " + source
	points, err := c.values(ctx, s, recent)
	if err != nil {
		a.NotRead(name, c.Explain(err))
		return
	}
	if len(points) == 0 {
		a.Info(name, "CloudWatch has no age of the last 15 minutes: nothing waits, or nothing reads")
		return
	}
	var age time.Duration
	for _, p := range points {
		age = max(age, time.Duration(aws.ToFloat64(p.Maximum)*float64(unit)))
	}
	detail := fmt.Sprintf("was %s old in the last 15 minutes, and the source deletes it after %s",
		age.Round(time.Second), inHours(retention))
	if age > retention/2 {
		a.Fail(name, detail, runbook)
		return
	}
	a.OK(name, detail)
}

// traffic is what a function has processed: the sum of done, less the sum of failed if it has a name.
type traffic struct {
	word         string
	done, failed series
}

// checkInvocations is checkTraffic for a source that invokes the function without a queue.
func (c Account) checkInvocations(ctx context.Context, f Function) {
	c.checkTraffic(ctx, f, "the function", traffic{"invocations that succeeded", f.metric("Invocations"), f.metric("Errors")})
}

// checkTraffic looks for records that were processed lately. It replaces the scratch records for sources into which doctor
// puts none. The function's own metrics tell most exactly: an invocation that gives all of its records back is no error,
// and others may receive from a queue, which may be in another account. Without them, other counts.
func (c Account) checkTraffic(ctx context.Context, f Function, source string, other traffic) {
	const lately = 24 * time.Hour
	a, counts := c.Report.Area("records"), other
	if namespace := f.records().Metrics; namespace != "" {
		of := func(name string) series { return series{namespace: namespace, name: name} }
		source, counts = "the function", traffic{"records that were processed", of("RecordsIn"), of("RecordsFailed")}
	}
	n, err := c.sum(ctx, counts.done, lately)
	if err == nil && counts.failed.name != "" {
		var m float64
		m, err = c.sum(ctx, counts.failed, lately)
		n -= m
	}
	switch {
	case err != nil:
		a.NotRead(f.Name, c.Explain(err))
	case n <= 0:
		a.NotPlayed(f.Name, "doctor puts scratch records into Kinesis streams only, and "+source+" had no "+counts.word+
			" in the last 24 hours; send a record of yours and run doctor again some minutes later")
	default:
		a.OK(f.Name, fmt.Sprintf("%s: %.0f %s in the last 24 hours; doctor puts scratch records into Kinesis streams only",
			source, n, counts.word))
	}
}

func (c Account) sum(ctx context.Context, s series, last time.Duration) (sum float64, err error) {
	points, err := c.values(ctx, s, last)
	for _, p := range points {
		sum += aws.ToFloat64(p.Sum)
	}
	return sum, err
}
