package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// CheckAlias reports whether a function is called by an alias. Without an alias, a deployment changes the called
// function in two steps.
func CheckAlias(f Function, report *Report) {
	a, name := report.Area("alias"), f.title()
	switch {
	case f.Alias == "":
		report.Add(Check{
			Area: a.name, Name: name, Status: Info, Detail: "none: doctor invokes version " + f.Version,
			Do: "If the function has an alias, use --function " + f.Name + ":ALIAS.",
		})
	case len(f.Unlike) > 0 && f.Kind == Dedupe:
		a.Fail(name, fmt.Sprintf("%s is version %s, and also version %s, with another %s: a record that both get is delivered "+
			"twice", f.Alias, f.Version, strings.Join(f.Canary, ", "), strings.Join(f.Unlike, ", ")),
			"Stop the deployment in CodeDeploy, with a rollback. Deploy such a change without canary.")
	case len(f.Canary) > 0:
		a.Warn(name, fmt.Sprintf("%s is version %s, and also version %s: each step meets one of them",
			f.Alias, f.Version, strings.Join(f.Canary, ", ")), "Run doctor again when the deployment has ended.")
	default:
		a.OK(name, fmt.Sprintf("%s is version %s", f.Alias, f.Version))
	}
}

// TellOther reports that a function of a stack is not invoked, because it is unclear whether it is a sweep.
func TellOther(f Function, report *Report) {
	report.Add(Check{
		Area: "settings", Name: f.Name, Status: Info,
		Detail: "has the variables of a sweep function, and not its description, \"" + sweephandler.Description +
			" ...\": doctor does not invoke it",
		Do: "If it is the sweep, name all functions with --function.",
	})
}

// title names the function in a report.
func (f Function) title() string { return fmt.Sprintf("%s function %s", f.Kind, f.Name) }

// CheckSettings reads the settings of a function as the function does at its start. It reports whether they are
// valid.
func CheckSettings(f Function, report *Report) bool {
	a, environ := report.Area("settings"), f.Environ()
	var err error
	switch f.Kind {
	case Claim:
		_, _, err = claimapi.ParseSettings(environ)
	case Sweep:
		_, _, err = sweephandler.ParseSettings(environ)
	case Dedupe:
		_, _, err = recordhandler.ParseSettings(environ)
	}
	if err != nil {
		a.Fail(f.title(), strings.ReplaceAll(err.Error(), "\n", "; "),
			"With these a function of this version of oncebox does not start. Deploy the stack again, or use the oncebox "+
				"of the release that is deployed.")
		return false
	}
	a.OK(f.title(), "as the function reads them at its start")
	return true
}

// CheckMapping checks how Lambda gives records to the dedupe function. It returns the event source mappings, for
// [RecordsPlay].
func CheckMapping(
	ctx context.Context, client Lambda, f Function, explain func(error) string, report *Report,
) []types.EventSourceMappingConfiguration {
	a := report.Area("mapping")
	mappings, err := Mappings(ctx, client, f)
	switch {
	case err != nil:
		a.Warn(f.Name, "cannot be read: "+explain(err), "docs/iam.md lists what doctor needs.")
	case len(mappings) == 0:
		a.Fail(f.Name, "no event source mapping invokes "+f.Invoked,
			"Records wait in their stream. Deploy the stack again, or name the function as its mapping does.")
	}
	for _, m := range mappings {
		source, state := aws.ToString(m.EventSourceArn), aws.ToString(m.State)
		result := cmp.Or(aws.ToString(m.LastProcessingResult), "not known yet")
		switch {
		case slices.Contains([]string{"Creating", "Enabling", "Updating"}, state):
			a.Warn(source, "is "+state, "Run doctor again when the deployment has ended.")
		case state != "Enabled":
			a.Fail(source, "is "+state, "docs/operations.md, stream-not-read.")
		case !slices.Contains(m.FunctionResponseTypes, types.FunctionResponseTypeReportBatchItemFailures):
			a.Fail(source, "does not report partial failures: records that failed would be lost",
				"Set FunctionResponseTypes to ReportBatchItemFailures.")
		case onFailure(m) == "":
			a.Fail(source, "has no on-failure destination: batches that Lambda gives up would be lost",
				"Set DestinationConfig to the dead-letter bucket, as the stack does.")
		case aws.ToInt32(m.MaximumRecordAgeInSeconds) == foreverOld && aws.ToInt32(m.MaximumRetryAttempts) == foreverOld:
			a.Fail(source, "never gives a batch up: records that fail are deleted with the stream's retention, and are lost",
				"Set MaximumRecordAgeInSeconds below the stream's retention.")
		case strings.Contains(source, "/consumer/") && f.Env["ONCEBOX_SOURCE_AGGREGATION"] != "off":
			a.Fail(source, "has enhanced fan-out: Lambda opens KPL aggregates itself, and drops records of them",
				"Give the mapping the stream, or set records.source-aggregation to off if no producer makes aggregates.")
		case strings.HasPrefix(result, "PROBLEM"):
			a.Fail(source, "the last result is "+result, "Compare the policy of the function's role with docs/iam.md.")
		default:
			a.OK(source, "enabled; the last result is "+result)
		}
	}
	return mappings
}

// foreverOld is Lambda's value for no limit (API reference, "CreateEventSourceMapping").
const foreverOld = -1

// onFailure returns the ARN of the destination of batches that Lambda gives up. A mapping of a queue needs none: the
// queue has its own dead-letter queue.
func onFailure(m types.EventSourceMappingConfiguration) string {
	source := aws.ToString(m.EventSourceArn)
	if strings.Contains(source, ":sqs:") {
		return source
	}
	if m.DestinationConfig == nil || m.DestinationConfig.OnFailure == nil {
		return ""
	}
	return aws.ToString(m.DestinationConfig.OnFailure.Destination)
}
