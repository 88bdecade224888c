package docs

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The limits of what a reader of the project has to know. A change that takes some of it away lowers the limit. A change
// that needs more raises it, and its commit says why.
const (
	maxContextValues = 4
	maxSettings      = 78  // of the settings file
	maxVariables     = 31  // of the functions
	maxFlags         = 183 // a flag that several commands have with the same meaning counts once
	maxWords         = 198 // of all of these: a word that is a variable, a key and a flag counts once
	maxRequirements  = 44  // of the main go.mod, without the indirect ones
)

// TestLimits counts the settings that docs/configuration.md lists, which are all, and the direct requirements.
func TestLimits(t *testing.T) {
	t.Parallel()
	var (
		contextValue = regexp.MustCompile(`oncebox:[a-z0-9-]+`)
		setting      = regexp.MustCompile("`[a-z0-9-]+`")
		variable     = regexp.MustCompile(`ONCEBOX_[A-Z0-9_]+`)
		flag         = regexp.MustCompile("^`--.+")
	)
	type limited struct {
		of    string
		max   int
		found []string
	}
	settings := []limited{
		{"context values", maxContextValues, settingsOf(t, contextValue, "Context values")},
		{"settings of a file", maxSettings, slices.Concat(settingsOf(t, setting, "Settings of the stack"),
			settingsOf(t, setting, "Settings of claims"), settingsOf(t, setting, "Settings of records"))},
		{"variables", maxVariables, settingsOf(t, variable,
			"Variables of the claim function", "Variables of the sweep function", "Variables of the dedupe function")},
		{"flags", maxFlags, settingsOf(t, flag, "Command line")},
	}
	words := map[string]bool{}
	for _, kind := range settings {
		for _, setting := range kind.found {
			words[wordOf(setting)] = true
		}
	}
	for _, limit := range append(settings,
		limited{"words", maxWords, slices.Collect(maps.Keys(words))},
		limited{"direct requirements", maxRequirements, requirements(t)},
	) {
		t.Logf("%s: %d of at most %d", limit.of, len(limit.found), limit.max)
		if len(limit.found) == 0 {
			t.Errorf("%s: the test finds none", limit.of)
		}
		if len(limit.found) > limit.max {
			t.Errorf("%s: there are %d, and at most %d are allowed", limit.of, len(limit.found), limit.max)
		}
	}
}

var behindWord = regexp.MustCompile(`[^a-z0-9-].*$`)

// wordOf returns the word of a setting: x-y for --x-y=VALUE, ONCEBOX_X_Y and oncebox:x-y.
func wordOf(setting string) string {
	setting = strings.Trim(setting, "`")
	if name, ok := strings.CutPrefix(setting, "ONCEBOX_"); ok {
		setting = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	}
	return behindWord.ReplaceAllString(strings.TrimPrefix(strings.TrimPrefix(setting, "--"), "oncebox:"), "")
}

// settingsOf returns the settings in the tables of sections, each once. A row of a flag is a setting; other rows have the
// names of settings in their first cells.
func settingsOf(t *testing.T, setting *regexp.Regexp, sections ...string) (all []string) {
	t.Helper()
	for _, section := range sections {
		for _, rows := range readDocument(t, "docs/configuration.md").tables(t, section) {
			for _, row := range rows {
				text := row[0]
				if strings.HasPrefix(text, "`--") {
					text = strings.Join(row, " | ")
				}
				all = append(all, setting.FindAllString(text, -1)...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func requirements(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	list.Dir = root
	out, err := list.Output()
	must(t, err)
	return strings.Fields(string(out))
}
