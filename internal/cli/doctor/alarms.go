package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
)

const (
	// mostAlarms is how many alarms one request may name (CloudWatch API Reference, "DescribeAlarms").
	mostAlarms = 100

	// firstData is how long a new alarm may be without data. Most alarms of the stack look back 15 minutes.
	firstData = time.Hour
)

// CheckAlarms checks that the alarms of the stack exist, tell somebody, have data and are not in ALARM.
func (c Account) CheckAlarms(ctx context.Context) {
	a := c.Report.Area("alarms")
	switch {
	case c.Stack == nil:
		a.NotPlayed("alarms", "doctor finds alarms in a stack, and the functions were named")
		return
	case len(c.Stack.Alarms) == 0:
		a.Warn("alarms", "the stack has none: nobody is told when something fails", "docs/operations.md lists those of oncebox.")
		return
	}
	missing := slices.Clone(c.Stack.Alarms)
	var silent []string
	before := len(c.Report.Checks)
	for names := range slices.Chunk(c.Stack.Alarms, mostAlarms) {
		out, err := c.CloudWatch.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{
			AlarmNames: names, MaxRecords: aws.Int32(mostAlarms),
		})
		if err != nil {
			a.NotRead("alarms", c.Explain(err))
			return
		}
		for _, m := range out.MetricAlarms {
			name := aws.ToString(m.AlarmName)
			missing = slices.DeleteFunc(missing, func(other string) bool { return other == name })
			if !aws.ToBool(m.ActionsEnabled) || len(m.AlarmActions) == 0 {
				silent = append(silent, name)
			}
			a.tellState(m)
		}
	}
	if len(missing) > 0 {
		a.Fail("alarms", "were deleted: "+strings.Join(missing, ", "),
			"Deploy them again: a deployment makes an alarm only if its template changes, so find the change with drift detection.")
	}
	switch all := len(c.Stack.Alarms); {
	case len(silent) == all:
		a.Warn("actions", fmt.Sprintf("none of the %d alarms has an action that is on: they tell nobody", all), setTopic)
	case len(silent) > 0:
		a.Warn("actions", "these alarms have no action that is on, and tell nobody: "+strings.Join(silent, ", "), setTopic)
	case len(c.Report.Checks) == before:
		a.OK("alarms", fmt.Sprintf("%d, each with an action and data, and none in ALARM", all))
	}
}

const setTopic = "Set alarm-topic, and turn actions on with `aws cloudwatch enable-alarm-actions`."

// tellState reports the state of an alarm unless it is OK. The description of an alarm names its runbook.
func (a Area) tellState(m types.MetricAlarm) {
	name, since := aws.ToString(m.AlarmName), aws.ToTime(cmp.Or(m.StateTransitionedTimestamp, m.AlarmConfigurationUpdatedTimestamp))
	switch {
	case m.StateValue == types.StateValueAlarm:
		a.Warn(name, "is in ALARM since "+since.UTC().Format(time.RFC3339), aws.ToString(m.AlarmDescription))
	case m.StateValue == types.StateValueInsufficientData && time.Since(since) < firstData:
		a.Info(name, "is new, and has no data yet")
	case m.StateValue == types.StateValueInsufficientData:
		a.Warn(name, "has had no data since "+since.UTC().Format(time.RFC3339)+", so it cannot go off",
			"Compare its metric and dimensions with those of the stack's template.")
	}
}
