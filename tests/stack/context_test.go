package stack

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/internal/testengine"
)

// inNoTemplate are the context values that a normalized template does not show, and the tests of their effect.
var inNoTemplate = []string{
	"stack",                                   // TestStackName
	"claim-code", "sweep-code", "dedupe-code", // TestFunctionsAreChecked
}

// TestGoldensSetEveryContextValue checks that each context value is set in a golden, which so shows its effect.
func TestGoldensSetEveryContextValue(t *testing.T) {
	t.Parallel()
	set := slices.Clone(inNoTemplate)
	for _, g := range goldens {
		set = slices.AppendSeq(set, maps.Keys(g.context))
	}
	slices.Sort(set)
	if set, want := slices.Compact(set), slices.Sorted(slices.Values(infra.ContextNames())); !slices.Equal(set, want) {
		t.Errorf("the goldens set %v\nwant %v", set, want)
	}
}

// TestEveryContextValueHasAnEffect removes each value from a golden. Then the template must change, or infra must
// refuse the rest because another value needs this one. The invariants must hold for the rest.
func TestEveryContextValueHasAnEffect(t *testing.T) {
	testengine.CheckOnly(t)
	seen := map[string]bool{}
	for _, g := range goldens {
		for name := range g.context {
			if seen[name] {
				continue
			}
			seen[name] = true
			t.Run(g.name+"/"+name, func(t *testing.T) {
				context := maps.Clone(g.context)
				delete(context, name)
				tpl, err := trySynth(t, context)
				if err != nil {
					return
				}
				if len(differences("", g.read(t), normalized(t, tpl))) == 0 {
					t.Errorf("%v changes nothing", g.context[name])
				}
				for _, wrong := range broken(tpl, context) {
					t.Error(wrong)
				}
			})
		}
	}
}

func TestStackName(t *testing.T) {
	stack, err := infra.NewStack(newApp(t, withDefaults(t, values("stack=another"))))
	must(t, err)
	if got := *stack.StackName(); got != "another" {
		t.Errorf("the stack is called %s", got)
	}
}

// notSettings are the variables that no context value sets by their name.
var notSettings = map[string]string{
	"ONCEBOX_DEAD_LETTERS": "dead-letter-bucket and notify-queue-arn, or the bucket and the queue that are made",
	"ONCEBOX_CALLER":       "auth, so that routes and function agree",

	"ONCEBOX_CHALLENGE_SECRET_FILE": "challenge-secret-arn: a function on Lambda has only the files of its code",
}

// TestEveryVariableCanBeSet checks that oncebox:x-y sets ONCEBOX_X_Y, except for the variables above.
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
			if !slices.Contains(infra.ContextNames(), name) {
				t.Errorf("%s cannot be set: there is no oncebox:%s", variable, name)
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

// TestDocumentedContextValues checks that the tables of context values have every one of them. Those with a default
// in a table are set to it, all at once. That changes only the variables of functions, which have the same defaults.
func TestDocumentedContextValues(t *testing.T) {
	listed, defaults := documentedContext(t, "/docs/configuration.md", "## Context values")
	if known := slices.Sorted(slices.Values(infra.ContextNames())); !slices.Equal(listed, known) {
		t.Errorf("the tables have %v\nwant %v", listed, known)
	}
	if len(defaults) < 10 {
		t.Errorf("the tables have only the defaults %v", defaults)
	}
	documented, without := normalized(t, synth(t, defaults)), readGolden(t, "default")
	for name := range defaults {
		variable := variables + ".ONCEBOX_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
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

var contextName = regexp.MustCompile("`oncebox:([a-z-]+)`")

// documentedContext reads the tables under a heading: the names of the context values, sorted, and the defaults that
// the tables show as code. It leaves out the folders of the code, which are empty here.
func documentedContext(t *testing.T, file, heading string) (listed []string, defaults map[string]any) {
	t.Helper()
	text, err := os.ReadFile(root + file)
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	defaults = map[string]any{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		names := contextName.FindAllStringSubmatch(cells[1], -1)
		values := strings.Split(strings.TrimSpace(cells[2]), ", ")
		for i, name := range names {
			listed = append(listed, name[1])
			if len(values) != 1 && len(values) != len(names) || strings.HasSuffix(name[1], "-code") {
				continue // words
			}
			value := values[min(i, len(values)-1)] // one for all names, or one each
			if text := strings.Trim(value, "`"); value == "`"+text+"`" {
				defaults[name[1]] = text
			}
		}
	}
	slices.Sort(listed)
	return listed, defaults
}
