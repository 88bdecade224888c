package deploy

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/oncebox/oncebox/internal/cli/doctor"
)

// doctorFinds checks which functions `oncebox doctor --deployed` would invoke in a stack: the alias of each function
// if the stack has aliases, or else the functions themselves.
func doctorFinds(t *testing.T, c clients, stack, alias string) (found []doctor.Function) {
	t.Helper()
	names, err := doctor.InStack(t.Context(), c.cloudformation, stack)
	must(t, err)
	found, err = doctor.Find(t.Context(), c.lambda, names)
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
