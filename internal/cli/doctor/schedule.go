package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
)

// CheckSchedule checks that a rule of EventBridge invokes the sweep function, and may do so. Without sweeps, items of
// ended claims return only when a request finds the bank empty.
func (c Account) CheckSchedule(ctx context.Context, sweep Function) {
	a, name := c.Report.Area("schedule"), sweep.title()
	const runbook = "docs/operations.md, sweep-not-running."
	rules, err := c.rulesOf(ctx, sweep.Invoked)
	if err != nil {
		a.NotRead(name, c.Explain(err))
		return
	}
	if len(rules) == 0 {
		c.tellNoRule(ctx, a, sweep)
		return
	}
	for _, rule := range rules {
		out, err := c.Events.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: &rule})
		if err != nil {
			a.NotRead("rule "+rule, c.Explain(err))
			continue
		}
		allowed, err := c.mayInvoke(ctx, sweep, "events.amazonaws.com", aws.ToString(out.Arn))
		switch {
		case out.State == types.RuleStateDisabled:
			a.Fail("rule "+rule, "is disabled: no sweep runs, and items of ended claims return only when the bank is empty",
				"Unless somebody stopped the sweep on purpose: aws events enable-rule --name "+rule)
		case err != nil:
			a.NotRead("permission of the rule "+rule, c.Explain(err))
		case !allowed:
			a.Fail("rule "+rule, "may not invoke "+sweep.Invoked+": no sweep runs, and items of ended claims return only when "+
				"the bank is empty", "Deploy the stack again, or add the permission: "+runbook)
		case aws.ToString(out.ScheduleExpression) == "":
			a.Warn("rule "+rule, "invokes the sweep for events, and has no schedule", runbook)
		default:
			a.OK("rule "+rule, fmt.Sprintf("invokes the sweep, %s", *out.ScheduleExpression))
		}
	}
}

// tellNoRule reports that no rule invokes the sweep as its callers should.
func (c Account) tellNoRule(ctx context.Context, a Area, sweep Function) {
	const runbook = "docs/operations.md, sweep-not-running."
	if alias := ":" + qualifierOf(sweep.Invoked); alias != ":" {
		rules, err := c.rulesOf(ctx, strings.TrimSuffix(sweep.Invoked, alias))
		if err == nil && len(rules) > 0 {
			a.Fail("rule "+rules[0], "invokes the function itself and not "+sweep.Invoked+
				": while a deployment changes the function, sweeps fail", "Change the target of the rule to the alias: "+runbook)
			return
		}
	}
	if c.Stack == nil { // the function may be of a program of the user, with a schedule of its own
		a.NotPlayed(sweep.title(), "no rule of EventBridge invokes "+sweep.Invoked+"; doctor knows no other schedules")
		return
	}
	a.Fail(sweep.title(), "no rule of EventBridge invokes "+sweep.Invoked+
		": items of ended claims return only when the bank is empty", "Deploy the stack again, or put the target back: "+runbook)
}

// rulesOf returns the names of the rules with a target.
func (c Account) rulesOf(ctx context.Context, target string) (names []string, err error) {
	in := &eventbridge.ListRuleNamesByTargetInput{TargetArn: &target}
	for {
		out, err := c.Events.ListRuleNamesByTarget(ctx, in)
		if err != nil {
			return nil, err
		}
		names = append(names, out.RuleNames...)
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return names, nil
		}
	}
}
