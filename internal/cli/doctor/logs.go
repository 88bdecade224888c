package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// checkSubscriptions checks a function without a mapping: CloudWatch Logs may invoke it for a log group.
func (c Account) checkSubscriptions(ctx context.Context, a Area, f Function) {
	permissions, err := c.permissions(ctx, f, "logs.amazonaws.com")
	switch {
	case err != nil:
		a.NotRead(f.Name, c.Explain(err))
		return
	case len(permissions) == 0:
		a.Fail(f.Name, "no event source mapping invokes "+f.Invoked+", and CloudWatch Logs may not",
			"Records wait in their source. Deploy the stack again, or name the function as its mapping does.")
		return
	}
	for _, p := range permissions {
		groups := logGroups(p)
		if len(groups) == 0 {
			a.NotPlayed(f.Name, "CloudWatch Logs may invoke "+f.Invoked+", and the policy of the function names no single log group "+
				"(aws:SourceArn): look at the subscription of your log group with `aws logs describe-subscription-filters "+
				"--log-group-name LOG-GROUP`")
		}
		for _, group := range groups {
			c.checkSubscription(ctx, a, group, f)
		}
	}
	c.checkAsync(ctx, a, f)
	c.checkInvocations(ctx, f)
}

// logGroups returns the names of the log groups of a permission, if it names them without a pattern.
func logGroups(p permission) (names []string) {
	for _, value := range p {
		for _, pattern := range patternsOf(value) {
			of, isLogs := arn.Of("logs", strings.TrimSuffix(pattern, ":*"))
			name, isGroup := strings.CutPrefix(of.Resource, "log-group:")
			if !isLogs || !isGroup || strings.ContainsAny(name, "*?") {
				return nil
			}
			names = append(names, name)
		}
	}
	return names
}

// checkSubscription checks that a log group sends its log events to what is invoked.
func (c Account) checkSubscription(ctx context.Context, a Area, group string, f Function) {
	name := "subscription of " + group
	var filters []types.SubscriptionFilter
	in := &cloudwatchlogs.DescribeSubscriptionFiltersInput{LogGroupName: &group}
	for pages := cloudwatchlogs.NewDescribeSubscriptionFiltersPaginator(c.Logs, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
			a.Fail(name, "the log group does not exist", "Deploy the stack again with a log group that exists.")
			return
		}
		if err != nil {
			a.NotRead(name, c.Explain(err))
			return
		}
		filters = append(filters, page.SubscriptionFilters...)
	}
	const deploy = "Deploy the stack again, or put the subscription back: docs/operations.md, log-events-not-sent."
	to := func(arn string) int {
		return slices.IndexFunc(filters, func(s types.SubscriptionFilter) bool { return aws.ToString(s.DestinationArn) == arn })
	}
	function := strings.TrimSuffix(f.Invoked, ":"+qualifierOf(f.Invoked))
	switch at := to(f.Invoked); {
	case at < 0 && to(function) >= 0:
		a.Fail(name, "invokes the function itself and not "+f.Invoked+": while a deployment changes the function, messages fail", deploy)
	case at < 0:
		a.Fail(name, "no subscription filter sends log events to "+f.Invoked, deploy)
	case group == f.Log:
		a.Fail(name, "is the log of the function itself: each invocation causes the next one", "Choose another log group.")
	case aws.ToString(filters[at].FilterPattern) != "":
		a.OK(name, "sends the log events that match "+aws.ToString(filters[at].FilterPattern)+" to "+f.Invoked)
	default:
		a.OK(name, "sends all log events to "+f.Invoked)
	}
}

// The most that Lambda does for an asynchronous event, and its default (API reference, "PutFunctionEventInvokeConfig").
const (
	mostRetries = 2
	longestAge  = 6 * time.Hour
)

// checkAsync checks what becomes of messages at which the function fails. CloudWatch Logs invokes it asynchronously.
func (c Account) checkAsync(ctx context.Context, a Area, f Function) {
	const name, do = "messages that Lambda gives up", "Set the on-failure destination of asynchronous invocations to the " +
		"dead-letter bucket, as the stack does."
	in := &lambda.GetFunctionEventInvokeConfigInput{FunctionName: &f.Name}
	if qualifier := qualifierOf(f.Invoked); qualifier != "" {
		in.Qualifier = &qualifier
	}
	out, err := c.Lambda.GetFunctionEventInvokeConfig(ctx, in)
	if _, none := errors.AsType[*lambdatypes.ResourceNotFoundException](err); none {
		out, err = &lambda.GetFunctionEventInvokeConfigOutput{}, nil
	}
	if err != nil {
		a.NotRead(name, c.Explain(err))
		return
	}
	to := f.DeadLetters
	if d := out.DestinationConfig; d != nil && d.OnFailure != nil {
		to = aws.ToString(d.OnFailure.Destination)
	}
	retries, age := int32(mostRetries), longestAge
	if out.MaximumRetryAttempts != nil {
		retries = *out.MaximumRetryAttempts
	}
	if out.MaximumEventAgeInSeconds != nil {
		age = time.Duration(*out.MaximumEventAgeInSeconds) * time.Second
	}
	switch {
	case to == "":
		a.Fail(name, "have no on-failure destination, and are lost", do)
	case !strings.Contains(to, ":s3:::"):
		a.Warn(name, "go to "+to+", and `oncebox redrive` reads a bucket", do)
	case retries < mostRetries || age < longestAge:
		a.Warn(name, fmt.Sprintf("go to %s after %d retries or %s: a short outage moves all of them there", to, retries, inHours(age)),
			"Set the retries to 2 and the maximum age to 6 hours, as the stack does.")
	default:
		a.OK(name, fmt.Sprintf("go to %s after %d retries or %s", to, retries, inHours(age)))
	}
}

// mostPages is how many pages of a log doctor reads. A page may be empty although later ones are not.
const mostPages = 20

// CheckStatements looks in the log of a dedupe function for the warning that it puts its entries one by one. No record
// fails because of that, so nothing else tells that its policy lacks a permission.
func (c Account) CheckStatements(ctx context.Context, f Function) {
	options := f.records()
	if options.Ledger != (recordhandler.LedgerSetting{}) || options.Sink.Table != nil {
		return // the ledger sends no statements
	}
	const hours = 24
	a, name := c.Report.Area("ledger"), "statements of "+f.title()
	if options.LogLevel > slog.LevelWarn {
		a.Info(name, "ONCEBOX_LOG_LEVEL is error: the function does not log whether it may send them")
		return
	}
	in := &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: &f.Log, FilterPattern: aws.String(`"` + dynamostore.OneByOne + `"`),
		StartTime: aws.Int64(time.Now().Add(-hours * time.Hour).UnixMilli()),
	}
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(c.Logs, in)
	for range mostPages {
		page, err := pages.NextPage(ctx)
		if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
			a.Info(name, "the function has no log yet")
			return
		}
		if err != nil {
			a.NotRead(name, c.Explain(err))
			return
		}
		if len(page.Events) > 0 {
			at := time.UnixMilli(aws.ToInt64(page.Events[0].Timestamp)).UTC()
			a.Warn(name, "the log says at "+at.Format(time.RFC3339)+": "+dynamostore.OneByOne, "Allow dynamodb:PartiQLInsert and "+
				"dynamodb:BatchGetItem as in docs/iam.md. If the policy has them since, run doctor again tomorrow.")
			return
		}
		if !pages.HasMorePages() {
			a.OK(name, "no container said in the last 24 hours that it may not send them")
			return
		}
	}
	a.Info(name, "the log of the last 24 hours is too long to be read: look for \""+dynamostore.OneByOne+"\" in "+f.Log)
}
