package stack

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// inNoTemplate are the settings that a template does not show. TestStack and TestTerminationProtection test their effect.
var inNoTemplate = []string{"stack", "termination-protection"}

// TestGoldensSetEverySetting checks that each key of the settings file is set in a golden, which so shows its effect.
func TestGoldensSetEverySetting(t *testing.T) {
	set := slices.Clone(inNoTemplate)
	for _, g := range goldens {
		for name := range g.settings {
			if !slices.Contains([]string{"claims", "records"}, name) {
				set = append(set, pathOf(t, name))
			}
		}
	}
	slices.Sort(set)
	if set, want := slices.Compact(set), slices.Sorted(slices.Values(settingPaths(t))); !slices.Equal(set, want) {
		t.Errorf("the goldens set %v\nwant %v", set, want)
	}
}

// TestEverySettingHasAnEffect removes each value from a golden. Then the template must change, or infra must
// refuse the rest because another value needs this one. The invariants must hold for the rest.
func TestEverySettingHasAnEffect(t *testing.T) {
	testengine.CheckOnly(t)
	seen := map[string]bool{}
	for _, g := range goldens {
		for name := range g.settings {
			if seen[name] || slices.Contains(inNoTemplate, name) {
				continue
			}
			seen[name] = true
			t.Run(g.name+"/"+name, func(t *testing.T) {
				rest := maps.Clone(g.settings)
				delete(rest, name)
				tpl, err := trySynth(t, rest)
				if err != nil {
					return
				}
				if len(differences("", g.read(t), normalized(t, tpl))) == 0 {
					t.Errorf("%v changes nothing", g.settings[name])
				}
				for _, wrong := range broken(tpl, rest) {
					t.Error(wrong)
				}
			})
		}
	}
}

// TestStack checks what is not in the template.
func TestStack(t *testing.T) {
	stack, err := infra.NewStack(newApp(t, contextOf(t, values("stack=another; claims=none"))))
	must(t, err)
	if got := *stack.StackName(); got != "another" {
		t.Errorf("the stack is called %s", got)
	}
	if tags := *stack.Tags().TagValues(); len(tags) != 1 || *tags["oncebox:settings"] != "prod.yaml" {
		t.Errorf("its tags are %v", tags)
	}
}

// TestTerminationProtection checks that a line that is lost does not turn the protection off.
func TestTerminationProtection(t *testing.T) {
	for settings, want := range map[string]bool{
		"": true, "termination-protection=on": true, "termination-protection=true": true, "termination-protection=false": false, "termination-protection=off": false, "disposable=off": true,
		"disposable=on": false, "disposable=on; termination-protection=off": false,
	} {
		stack, err := infra.NewStack(newApp(t, contextOf(t, values("records=none; "+settings))))
		must(t, err)
		if got := stack.TerminationProtection(); *got != want {
			t.Errorf("%q: got %v", settings, *got)
		}
	}
}

// notSettings are the variables that no key of the settings file sets by its name.
var notSettings = map[string]string{
	"ONCEBOX_DEAD_LETTERS": "dead-letter-bucket and notify-queue, or the bucket and the queue that are made",
	"ONCEBOX_CALLER":       "auth, so that routes and function agree",
}

// TestEveryVariableCanBeSet checks that the key x-y sets ONCEBOX_X_Y, except for the variables above.
func TestEveryVariableCanBeSet(t *testing.T) {
	t.Parallel()
	exceptions := maps.Clone(notSettings)
	for _, function := range readGolden(t, "default").resources(functionType) {
		for _, variable := range variablesThatItReads(t, function) {
			if _, ok := notSettings[variable]; ok {
				delete(exceptions, variable)
				continue
			}
			name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "ONCEBOX_")), "_", "-")
			if !slices.Contains(settingPaths(t), pathOf(t, name)) {
				t.Errorf("%s cannot be set: there is no key %s", variable, name)
			}
		}
	}
	for variable := range exceptions {
		t.Errorf("no function reads %s", variable)
	}
}

// variablesThatItReads returns the variables that a function's parser lists when it refuses a name that is close to
// none of them.
func variablesThatItReads(t *testing.T, function resource) []string {
	t.Helper()
	err := parseSettings(function, []string{"ONCEBOX_QQQQQQQQQQQQ=1"})
	if err == nil {
		t.Fatal("an unknown variable is not refused")
	}
	_, known, _ := strings.Cut(err.Error(), "ONCEBOX_QQQQQQQQQQQQ")
	known, _, _ = strings.Cut(known, ")")
	all := regexp.MustCompile(`ONCEBOX_[A-Z_]+`).FindAllString(known, -1)
	if len(all) < 3 {
		t.Fatalf("%q names no variables", err)
	}
	return all
}

// TestDocumentedSettings checks that the tables of the settings file have every key. Those with a default in a table are
// set to it, all at once. That changes only the variables of functions, which have the same defaults.
func TestDocumentedSettings(t *testing.T) {
	listed, defaults := documentedSettings(t)
	if known := slices.Sorted(slices.Values(settingPaths(t))); !slices.Equal(listed, known) {
		t.Errorf("the tables have %v\nwant %v", listed, known)
	}
	if len(defaults) < 10 {
		t.Errorf("the tables have only the defaults %v", defaults)
	}
	documented, without := normalized(t, synth(t, defaults)), readGolden(t, "default")
	for path := range defaults {
		key := path[strings.Index(path, ".")+1:]
		variable := variables + ".ONCEBOX_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
		for _, tpl := range []template{documented, without} {
			for _, function := range tpl.resources(functionType) {
				set(function, variable, nil)
			}
		}
	}
	for _, difference := range differences("", without, documented) {
		t.Errorf("a default in a table changes the template:\n%s", difference)
	}
}

var settingName = regexp.MustCompile("`([a-z0-9-]+)`")

// documentedSettings reads the tables under "The settings file": the paths of the keys, sorted, and the defaults that the
// tables show as code.
func documentedSettings(t *testing.T) (listed []string, defaults map[string]any) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/configuration.md")
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## The settings file\n")
	section, _, _ = strings.Cut(section, "\n## ")
	defaults = map[string]any{}
	part := ""
	for line := range strings.Lines(section) {
		if title, ok := strings.CutPrefix(line, "### Settings of "); ok {
			part = map[string]string{"claims": "claims.", "records": "records."}[strings.TrimSpace(title)]
		}
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		names := settingName.FindAllStringSubmatch(cells[1], -1)
		values := strings.Split(strings.TrimSpace(cells[2]), ", ")
		for i, name := range names {
			listed = append(listed, part+name[1])
			if len(values) != 1 && len(values) != len(names) {
				continue // words
			}
			value := values[min(i, len(values)-1)] // one for all names, or one each
			if text := strings.Trim(value, "`"); value == "`"+text+"`" {
				defaults[part+name[1]] = text
			}
		}
	}
	slices.Sort(listed)
	return listed, defaults
}
