package stack

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/infra"
)

// everySetting has a value for each context value that is a function's variable.
var everySetting = values(
	"claimant-from", "body", "campaign-cache", "0", "log-level", "warn",
	"id-path", "event.id", "fingerprint-path", "event.print", "volatile", "sent_at, trace", "contexts-path", "event.contexts",
	"ids", "first-keeps", "scope", "orders", "window", "72h", "horizon", "400h", "natural", "off", "synthetic", "off", "concurrency", "64",
)

// TestEnvironment: the variables of each function, all of them and to the letter.
func TestEnvironment(t *testing.T) {
	made := map[string]string{
		"ONCEBOX_BANK_TABLE":       "its-claimsbanktable521ef770",
		"ONCEBOX_CLAIMANT_FROM":    "body",
		"ONCEBOX_DEDUPE_TABLE":     "its-dedupetableba3ed9bf",
		"ONCEBOX_SINK":             "kinesis:its-recordsdestination579047a1",
		"ONCEBOX_DEAD_LETTERS":     "s3://its-recordsfailurebucket49b349c2/poison/its-recordssource5459a2ed",
		"ONCEBOX_NOTIFY_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/its-recordsbellqueue33c0c3ae",
		"ONCEBOX_ID_PATH":          "id",
		"ONCEBOX_HORIZON":          "336h0m0s",
		"ONCEBOX_NATURAL":          "on",
		"ONCEBOX_SYNTHETIC":        "on",
		"ONCEBOX_CHECKPOINT":       "on",
	}
	for name, tc := range map[string]struct {
		values map[string]any
		want   map[string]string // over made
	}{
		"as committed": {nil, nil},
		"a token":      {jwt, map[string]string{"ONCEBOX_CLAIMANT_FROM": "jwt:sub"}},
		"another claim": {
			with(jwt, "claimant-from", "jwt:email"), map[string]string{"ONCEBOX_CLAIMANT_FROM": "jwt:email"},
		},
		"everybody":  {values("auth", "open"), nil},
		"the caller": {values("claimant-from", "iam"), map[string]string{"ONCEBOX_CLAIMANT_FROM": "iam"}},
		"parallel": {
			values("parallelization", "2", "aggregation", "off"), map[string]string{"ONCEBOX_CHECKPOINT": "off"},
		},
		"every setting": {everySetting, map[string]string{
			"ONCEBOX_CAMPAIGN_CACHE": "0s", "ONCEBOX_LOG_LEVEL": "warn",
			"ONCEBOX_ID_PATH": "event.id", "ONCEBOX_FINGERPRINT_PATH": "event.print", "ONCEBOX_VOLATILE": "sent_at,trace",
			"ONCEBOX_CONTEXTS_PATH": "event.contexts", "ONCEBOX_IDS": "first-keeps", "ONCEBOX_SCOPE": "orders",
			"ONCEBOX_WINDOW": "72h0m0s", "ONCEBOX_HORIZON": "400h0m0s", "ONCEBOX_NATURAL": "off", "ONCEBOX_SYNTHETIC": "off",
			"ONCEBOX_CONCURRENCY": "64", "ONCEBOX_DEAD_LETTERS": "s3://its-recordsfailurebucket49b349c2/poison/orders",
		}},
		"what exists": {everythingExists, map[string]string{
			"ONCEBOX_BANK_TABLE": "their-bank", "ONCEBOX_DEDUPE_TABLE": "their-dedupe", "ONCEBOX_SINK": "kinesis:others",
			"ONCEBOX_DEAD_LETTERS":     "s3://their-failures/poison/theirs",
			"ONCEBOX_NOTIFY_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/theirs",
		}},
		"lists, numbers and truth values of cdk.json": {
			map[string]any{"volatile": []any{"a", "b"}, "concurrency": 7.0, "scope": true},
			map[string]string{
				"ONCEBOX_VOLATILE": "a,b", "ONCEBOX_CONCURRENCY": "7", "ONCEBOX_SCOPE": "true",
				"ONCEBOX_DEAD_LETTERS": "s3://its-recordsfailurebucket49b349c2/poison/true",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := maps.Clone(made)
			maps.Copy(want, tc.want)
			got := map[string]string{}
			for _, function := range synth(t, tc.values).resources(functionType) {
				maps.Copy(got, variablesOf(function))
				if wrong := environment(nil, function, expected{}); wrong != "" {
					t.Error("a function", wrong)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

// TestEndpointIsForBoth: the only variable that is not ours, and only on request.
func TestEndpointIsForBoth(t *testing.T) {
	for id, function := range synth(t, values("endpoint-url", "http://host:8000")).resources(functionType) {
		if got := variablesOf(function)["AWS_ENDPOINT_URL"]; got != "http://host:8000" {
			t.Errorf("%s has %q", id, got)
		}
	}
}

// notSettings are the variables that no context value sets by their name.
var notSettings = map[string]string{
	"ONCEBOX_FORMAT":           "there is one format now, which is the default",
	"ONCEBOX_SINK":             "destination-stream-arn, or the stream that is made",
	"ONCEBOX_DEAD_LETTERS":     "dead-letter-bucket, or the bucket that is made",
	"ONCEBOX_NOTIFY_QUEUE_URL": "notify-queue-arn, or the queue that is made",
}

// TestEveryVariableCanBeSet: by oncebox:x-y, but for those above.
func TestEveryVariableCanBeSet(t *testing.T) {
	exceptions := maps.Clone(notSettings)
	for _, function := range synth(t, nil).resources(functionType) {
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

// variablesThatItReads are what a function's parser names when it refuses another.
func variablesThatItReads(t *testing.T, function resource) []string {
	t.Helper()
	err := parseSettings(function, []string{"ONCEBOX_NO_SUCH=1"})
	if err == nil {
		t.Fatal("an unknown variable is not refused")
	}
	_, known, _ := strings.Cut(err.Error(), "ONCEBOX_NO_SUCH")
	known, _, _ = strings.Cut(known, ")")
	all := regexp.MustCompile(`ONCEBOX_[A-Z_]+`).FindAllString(known, -1)
	if len(all) < 5 {
		t.Fatalf("%q names no variables", err)
	}
	return all
}

var everythingExists = values(
	"bank-table", "their-bank", "dedupe-table", "their-dedupe",
	"source-stream-arn", theirStream, "source-retention", "168h",
	"destination-stream-arn", "arn:aws:kinesis:eu-west-1:123456789012:stream/others",
	"dead-letter-bucket", "their-failures", "notify-queue-arn", theirQueue,
)

// TestEveryContextValueHasAnEffect on what is made.
func TestEveryContextValueHasAnEffect(t *testing.T) {
	code := t.TempDir()
	header, err := os.ReadFile(filepath.Join(standIn(t, elf.EM_AARCH64), "bootstrap"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(code, "bootstrap"), append(header, "other"...), 0o700))

	effects := map[string]struct {
		value  string
		others map[string]any // that it needs, with or without it
	}{
		"jobs": {value: "claims"}, "architecture": {value: "x86_64"}, "dedupe-table": {value: "theirs"},
		"warm-read-units":  {"12001", values("warm-write-units", "4000", "warm-read-units", "12000")},
		"warm-write-units": {"4001", values("warm-read-units", "12000", "warm-write-units", "4000")},
		"key-arn":          {value: theirKey}, "alarm-topic-arn": {value: theirTopic},
		"log-level": {value: "debug"}, "log-retention-days": {value: "14"}, "disposable": {value: "on"},
		"endpoint-url": {value: "http://localhost:8000"},

		"auth": {value: "open"}, "jwt-issuer": {"https://other.example", jwt}, "jwt-audience": {"others", jwt},
		"claimant-from": {value: "iam"}, "campaign-cache": {value: "1s"}, "bank-table": {value: "theirs"},
		"rate-limit": {value: "1"}, "burst-limit": {value: "1"}, "claim-code": {value: code},

		"id-path": {value: "key"}, "fingerprint-path": {value: "print"}, "volatile": {value: "time"}, "contexts-path": {value: "notes"},
		"ids": {value: "first-keeps"}, "scope": {value: "orders"}, "window": {value: "1h"}, "horizon": {value: "337h"},
		"natural": {value: "off"}, "synthetic": {value: "off"}, "concurrency": {value: "33"},
		"source-stream-arn": {theirStream, values("source-retention", "24h")}, "source-retention": {value: "25h"},
		"destination-stream-arn": {value: theirStream}, "dead-letter-bucket": {value: "theirs"}, "notify-queue-arn": {value: theirQueue},
		"batch-size": {value: "999"}, "batch-window": {value: "1s"}, "parallelization": {"3", values("aggregation", "off")},
		"retries": {value: "0"}, "checkpoint": {value: "off"}, "record-age": {value: "1h"}, "dedupe-code": {value: code},
	}
	// The name is not in the template; and aggregates only forbid something.
	elsewhere := []string{"stack", "aggregation"}
	if got, want := slices.Sorted(maps.Keys(effects)), slices.DeleteFunc(slices.Sorted(slices.Values(infra.ContextNames())), func(name string) bool {
		return slices.Contains(elsewhere, name)
	}); !slices.Equal(got, want) {
		t.Fatalf("this test knows %v\nwant %v", got, want)
	}
	for name, effect := range effects {
		t.Run(name, func(t *testing.T) {
			without, err := trySynth(t, effect.others)
			must(t, err)
			set, err := trySynth(t, with(effect.others, name, effect.value))
			must(t, err)
			if bytes.Equal(without, set) {
				t.Errorf("%s changes nothing", effect.value)
			}
		})
	}
	t.Run("stack", func(t *testing.T) {
		app := newApp(t, withDefaults(t, values("stack", "another")))
		stack, err := infra.NewStack(app)
		must(t, err)
		if got := *stack.StackName(); got != "another" {
			t.Errorf("the stack is called %s", got)
		}
	})
	t.Run("aggregation", func(t *testing.T) {
		synth(t, values("parallelization", "2", "aggregation", "off"))
		refused(t, values("parallelization", "2", "aggregation", "on"))
	})
}

var contextName = regexp.MustCompile("`oncebox:([a-z-]+)`")

// TestReadmeListsContextValues: all of them, and with the defaults that they have.
// Where code is, is not compared: a function has to be there.
func TestReadmeListsContextValues(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\n### Context values\n")
	section, _, _ = strings.Cut(section, "\n#")
	var listed []string
	compared := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		names := contextName.FindAllStringSubmatch(cells[1], -1)
		defaults := strings.Split(strings.TrimSpace(cells[2]), ", ")
		for i, name := range names {
			listed = append(listed, name[1])
			var text string
			switch len(defaults) {
			case 1:
				text = defaults[0]
			case len(names):
				text = defaults[i]
			}
			value, ok := strings.CutPrefix(text, "`")
			if value, more := strings.CutSuffix(value, "`"); ok && more && !strings.HasSuffix(name[1], "-code") {
				isDefault(t, name[1], value)
				compared++
			}
		}
	}
	if slices.Sort(listed); !slices.Equal(listed, slices.Sorted(slices.Values(infra.ContextNames()))) {
		t.Errorf("README.md lists %v\nwant %v", listed, infra.ContextNames())
	}
	if compared < 10 {
		t.Errorf("only %d defaults were compared", compared)
	}
}

// isDefault: to set it changes nothing, but for the variable itself, which a
// function has a default for too.
func isDefault(t *testing.T, name, value string) {
	t.Helper()
	variable := "ONCEBOX_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	var rest []string
	for _, context := range []map[string]any{nil, values(name, value)} {
		tpl := synth(t, context)
		for _, function := range tpl.resources(functionType) {
			if variables, ok := at(function, "Properties.Environment.Variables").(map[string]any); ok {
				delete(variables, variable)
			}
		}
		rest = append(rest, fmt.Sprint(tpl))
	}
	if rest[0] != rest[1] {
		t.Errorf("README.md says that oncebox:%s is %s, which it is not", name, value)
	}
}
