package deploy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/oncebox/oncebox/internal/cli/doctor"
)

// doctorFinds checks which functions `oncebox doctor --deployed` would invoke in a stack: the alias of each function
// if the stack has aliases, or else the functions themselves.
func doctorFinds(t *testing.T, c clients, stack, alias string) (found []doctor.Function) {
	t.Helper()
	resources, err := doctor.InStack(t.Context(), c.cloudformation, stack)
	must(t, err)
	found, err = doctor.Find(t.Context(), c.lambda, resources.Functions)
	must(t, err)
	if len(found) != 3 {
		t.Errorf("want three functions, got %+v", found)
	}
	for _, f := range found {
		if f.Alias != alias || (f.Version == "$LATEST") != (alias == "") || f.Env["ONCEBOX_DEDUPE_TABLE"] == "" {
			t.Errorf("want the alias %q of %s, got %+v", alias, f.Name, f)
		}
		if !strings.HasSuffix(f.Invoked, strings.TrimSuffix(f.Name+":"+alias, ":")) {
			t.Errorf("%s: doctor invokes %s", f.Name, f.Invoked)
		}
		if f.Kind != doctor.Dedupe {
			continue
		}
		mappings, err := doctor.Mappings(t.Context(), c.lambda, f)
		must(t, err)
		if len(mappings) != 1 {
			t.Errorf("%s has %d mappings, want one", f.Invoked, len(mappings))
		}
	}
	return found
}

// doctorWarnsOfACanary makes the alias of a function point to two versions, as CodeDeploy does.
func doctorWarnsOfACanary(t *testing.T, c clients, f doctor.Function) {
	t.Helper()
	_, err := c.lambda.UpdateAlias(t.Context(), &lambda.UpdateAliasInput{
		FunctionName: &f.Name, Name: &f.Alias, FunctionVersion: &f.Version,
		RoutingConfig: &lambdatypes.AliasRoutingConfiguration{AdditionalVersionWeights: map[string]float64{"1": 0.1}},
	})
	must(t, err)
	found, err := doctor.Find(t.Context(), c.lambda, []string{f.Invoked})
	must(t, err)
	if len(found) != 1 || len(found[0].Canary) != 1 || found[0].Canary[0] != "1 (10 % of the calls)" {
		t.Errorf("want a canary, got %+v", found)
	}
}

// refusing is the network in front of the API, which the emulator does not have. API Gateway refuses requests without a
// signature with 403.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	answer.Code = http.StatusForbidden
	return answer.Result(), nil
}

// account is what doctor looks with.
func (c clients) account() doctor.Account {
	return doctor.Account{
		Lambda: c.lambda, Gateway: c.gateway, Events: c.eventbridge, CloudWatch: c.cloudwatch, Kinesis: c.kinesis,
		Queues: c.sqs, Logs: c.logs, Tables: c.dynamodb, HTTP: refusing{}, Explain: error.Error, Report: doctor.NewReport(nil),
	}
}

// doctorLooksAtTheSource checks that doctor finds nothing wrong at a source as the stack makes it, and makes so many
// checks. The emulator has no metrics, so nothing is known about its traffic.
func doctorLooksAtTheSource(t *testing.T, d *deployed, want int) {
	t.Helper()
	found, err := doctor.Find(t.Context(), d.lambda, d.resources["AWS::Lambda::Alias"])
	must(t, err)
	account, checks := d.account(), 0
	for _, f := range found {
		account.CheckMapping(t.Context(), f)
	}
	for _, c := range account.Report.Checks {
		switch c.Status {
		case doctor.OK:
			checks++
		case doctor.Info:
		default:
			if c.Area != "records" {
				t.Errorf("doctor: %s %s: %s", c.Status, c.Name, c.Detail)
			}
		}
	}
	if checks != want {
		t.Errorf("doctor makes %d checks, want %d: %+v", checks, want, account.Report.Checks)
	}
}

// doctorLooksAround checks that doctor finds nothing wrong around the functions of a stack, and then that the rule of
// its sweep is disabled.
func doctorLooksAround(t *testing.T, d *deployed, stack string) {
	t.Helper()
	look := func() (told string) {
		resources, err := doctor.InStack(t.Context(), d.cloudformation, stack)
		must(t, err)
		account := d.account()
		account.Stack = resources
		var loads []doctor.Load
		for _, f := range doctorFinds(t, d.clients, stack, "live") {
			load := doctor.Load{Function: f, AtOnce: 1}
			switch f.Kind {
			case doctor.Claim:
				if limits, known := account.CheckAPI(t.Context(), f); !known || limits != (doctor.Throttle{Rate: 1000, Burst: 1000}) {
					t.Errorf("the API has the limits %+v", limits)
				}
			case doctor.Sweep:
				account.CheckSchedule(t.Context(), f)
			case doctor.Dedupe:
				_, load = account.CheckMapping(t.Context(), f)
				account.CheckStatements(t.Context(), f)
			}
			loads = append(loads, load)
		}
		account.CheckConcurrency(t.Context(), loads)
		account.CheckAlarms(t.Context())
		areas := map[string]bool{}
		for _, c := range account.Report.Checks {
			areas[c.Area] = true
			switch {
			case c.Status == doctor.Info: // the emulator evaluates no alarm, and has no metrics and logs of functions
			case c.Name == "concurrency of the account": // the emulator does not know it
			case c.Status != doctor.OK:
				told += fmt.Sprintf("%s %s %s: %s\n", c.Status, c.Area, c.Name, c.Detail)
			}
		}
		if len(areas) != 6 {
			t.Errorf("doctor looked at %v", areas)
		}
		return told
	}
	if told := look(); told != "" {
		t.Errorf("doctor finds:\n%s", told)
	}
	rule := d.resources[ruleType][0]
	_, err := d.eventbridge.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: &rule})
	must(t, err)
	if told := look(); !strings.HasPrefix(told, "failure schedule rule "+rule+": is disabled") || strings.Count(told, "\n") != 1 {
		t.Errorf("with a disabled rule doctor finds:\n%s", told)
	}
	_, err = d.eventbridge.EnableRule(t.Context(), &eventbridge.EnableRuleInput{Name: &rule})
	must(t, err)
}
