package docs

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// TestVariables checks that docs/configuration.md lists all variables of each function with their defaults. A
// variable that is set to its default changes nothing, and a required variable cannot be left out.
func TestVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		section   string
		variables []string
		parse     func(environ []string) (settings any, err error)
		required  []string
	}{
		{
			"Variables of the claim function", claimapi.Variables(),
			func(environ []string) (any, error) { return claimapi.ParseSettings(environ) },
			[]string{"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=claims", "ONCEBOX_CLAIMANT_FROM=iam"},
		},
		{
			"Variables of the sweep function", sweephandler.Variables(),
			func(environ []string) (any, error) { return sweephandler.ParseSettings(environ) },
			[]string{"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=claims"},
		},
		{
			"Variables of the dedupe function", kinesishandler.Variables(),
			func(environ []string) (any, error) { return kinesishandler.ParseSettings(environ) },
			[]string{
				"ONCEBOX_DEDUPE_TABLE=entries", "ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:dead",
			},
		},
	} {
		t.Run(c.section, func(t *testing.T) {
			t.Parallel()
			usual, err := c.parse(c.required)
			must(t, err)
			var listed, required []string
			for _, row := range readDocument(t, "docs/configuration.md").tables(t, c.section)[0] {
				variable, value := strings.Trim(row[0], "`"), row[1]
				listed = append(listed, variable)
				switch {
				case value == "required":
					required = append(required, variable)
				case strings.HasPrefix(value, "`"):
					set, err := c.parse(append(slices.Clone(c.required), variable+"="+strings.Trim(value, "`")))
					if err != nil || !reflect.DeepEqual(set, usual) {
						t.Errorf("%s is not the default of %s: %v", value, variable, err)
					}
				}
			}
			if slices.Sort(listed); !slices.Equal(listed, slices.Sorted(slices.Values(c.variables))) {
				t.Errorf("the page lists %v\nwant %v", listed, c.variables)
			}
			for i, setting := range c.required {
				variable, _, _ := strings.Cut(setting, "=")
				_, err := c.parse(slices.Delete(slices.Clone(c.required), i, i+1))
				if err == nil || !slices.Contains(required, variable) {
					t.Errorf("%s is required: the page says %v, the function %v", variable, slices.Contains(required, variable), err)
				}
			}
			if len(required) != len(c.required) {
				t.Errorf("the page says that %v are required", required)
			}
		})
	}
}
