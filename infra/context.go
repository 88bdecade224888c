package infra

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
)

// contextPrefix is the beginning of the names of all context values of oncebox.
const contextPrefix = "oncebox:"

// settingsContext is the context value that names the settings file. The stack has a tag of the same name.
const settingsContext = contextPrefix + "settings"

// ContextNames lists the context values that [NewStack] reads: the settings file, and the folders of the functions.
func ContextNames() []string {
	return []string{settingsContext, contextPrefix + "claim-code", contextPrefix + "sweep-code", contextPrefix + "dedupe-code"}
}

// contextValues are the context values of oncebox, by their names.
type contextValues map[string]string

func readContext(app awscdk.App, wrong *problems) contextValues {
	all, _ := app.Node().GetAllContext(nil).(map[string]any)
	values, known := contextValues{}, ContextNames()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, isText := all[name].(string)
		switch {
		case !strings.HasPrefix(name, contextPrefix):
		case !slices.Contains(known, name):
			wrong.add("%s is not a context value (allowed: %s); write settings into the file of %s",
				name, strings.Join(known, ", "), settingsContext)
		case !isText:
			wrong.add("%s is not a text", name)
		default:
			values[name] = text
		}
	}
	return values
}

// codeOf returns the folder of a function, or "" for its default.
func (v contextValues) codeOf(function string) string { return v[contextPrefix+function+"-code"] }

// settingsFile reads the settings file. It has no default, so that no command deploys a stage by mistake.
func (v contextValues) settingsFile(wrong *problems) (*stageFile, error) {
	path := v[settingsContext]
	if path == "" {
		return nil, errors.New(settingsContext + " is not set; add --context " + settingsContext + "=FILE to the command: the " +
			"file has the settings of one stack, as examples/settings/claims.yaml has")
	}
	return readStageFile(path, wrong)
}
