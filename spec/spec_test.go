// Package spec checks the models of protocols. README.md says how to read them.
package spec

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

const model = "idempotency.pml"

// TestProtocol checks that the protocol has no violation, in every order of the steps.
func TestProtocol(t *testing.T) {
	for name, sizes := range map[string][]string{
		"same-payload":   {"-DCALLS=2"},
		"other-payload":  {"-DCALLS=1", "-DOTHER=1"},
		"until-deadline": {"-DCALLS=1", "-DUNTIL_DEADLINE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			violated := check(t, sizes...)
			if violated != "" {
				t.Errorf("the protocol violates %s", violated)
			}
		})
	}
}

// variants has the guarantee that the protocol violates without a rule. The first assertion that the search finds
// violated names it.
var variants = []struct{ rule, violates, sizes string }{
	{"BEGINS_WHILE_A_PUT_IS_ON_ITS_WAY", "I4", ""},
	{"BEGINS_WITH_LITTLE_LEASE", "I2", ""},
	{"COMPLETED_BY_IGNORED", "I4", ""},
	{"COMPLETION_OF_AN_ABSENT_ROW", "I2", ""},
	{"COMPLETION_WITHOUT_STATUS", "I3", ""},
	{"COMPLETION_WITHOUT_TOKEN", "I2", ""},
	{"DEAD_EXECUTION_BLOCKS_OTHER_PAYLOADS", "I6", "-DOTHER=1"},
	{"HEARTBEAT_COUNTS_UNCONFIRMED", "I2", ""},
	{"HEARTBEAT_WITHOUT_EXPIRY", "I2", "-DCALLS=1"},
	{"HEARTBEAT_WITHOUT_STATUS", "I3", ""},
	{"HEARTBEAT_WITHOUT_TOKEN", "I8", "-DCALLS=1"},
	{"HEARTBEAT_WITH_AN_EARLIER_END", "I2", ""},
	{"LEASE_IGNORED", "I2", ""},
	{"NEW_TOKEN_ON_A_RETRY", "I4", ""},
	{"NUMBER_MAY_FALL", "I2", ""},
	{"NUMBER_OF_THE_REFUSED_TRY", "I4", ""},
	{"NUMBER_WITHOUT_THE_TIME", "I2", ""},
	{"OWN_RESULT_WHEN_SUPERSEDED", "I1", ""},
	{"PAYLOAD_NOT_COMPARED", "I6", "-DOTHER=1"},
	{"PURGE_WITHOUT_GRACE", "I2", ""},
	{"RELEASE_FORGETS_THE_NUMBER", "I2", ""},
	{"RELEASE_KEEPS_THE_TOKEN", "I8", ""},
	{"RELEASE_WHILE_RUNNING", "I2", ""},
	{"RELEASE_WHILE_UNKNOWN", "I2", ""},
	{"RELEASE_WITHOUT_TOKEN", "I2", ""},
	{"RESULT_OF_ANOTHER_PAYLOAD_WHEN_SUPERSEDED", "I6", "-DOTHER=1"},
	{"TAKEOVER_WITHOUT_LEASE_END_AND_EXPIRY", "I2", ""},
	{"TAKEOVER_WITHOUT_NUMBER", "I2", "-DUNTIL_DEADLINE"},
	{"TAKEOVER_WITHOUT_STATUS", "I3", ""},
	{"TAKEOVER_WITHOUT_TOKEN_AND_NUMBER", "I2", ""},
}

// TestVariants checks that the model needs each rule: without it, the search finds a violation.
func TestVariants(t *testing.T) {
	for _, variant := range variants {
		t.Run(variant.rule, func(t *testing.T) {
			t.Parallel()
			violated := check(t, append(strings.Fields(variant.sizes), "-D"+variant.rule)...)
			if violated != variant.violates {
				t.Errorf("the search finds %q violated, want %s", violated, variant.violates)
			}
		})
	}
}

// TestVariantsAreComplete checks that TestVariants has each rule that the model can leave out.
func TestVariantsAreComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]bool{"UNTIL_DEADLINE": true} // a size
	for _, variant := range variants {
		checked[variant.rule] = true
		if !bytes.Contains(text, []byte(variant.rule)) {
			t.Errorf("%s has no variant %s", model, variant.rule)
		}
	}
	for _, rule := range regexp.MustCompile(`(?:#ifn?def |defined\()([A-Z_]{7,})`).FindAllSubmatch(text, -1) {
		if !checked[string(rule[1])] {
			t.Errorf("no test checks the variant %s", rule[1])
		}
	}
}

var (
	violation = regexp.MustCompile(`assertion violated \(*(I\d)`)
	result    = regexp.MustCompile(`errors: (\d+)`)
	states    = regexp.MustCompile(`(\d\S*) states, stored`)
)

// check searches all states, and returns the guarantee that the first violated assertion names. A search that does not
// end, or leaves states out, fails the test.
func check(t *testing.T, options ...string) (violated string) {
	t.Helper()
	spin, gcc := testengine.Tool(t, "spin"), testengine.Command(t, "gcc")
	file, err := filepath.Abs(model)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	run := func(name string, arguments ...string) string {
		command := exec.CommandContext(t.Context(), name, arguments...)
		command.Dir = folder
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, arguments, err, output)
		}
		return string(output)
	}
	run(spin, append(options, "-a", file)...)
	run(gcc, "-O1", "-DSAFETY", "-DNOBOUNDCHECK", "-w", "-o", "pan", "pan.c")
	output := run("./pan", "-E", "-m10000", "-w24")
	errors := result.FindStringSubmatch(output)
	found := violation.FindStringSubmatch(output)
	switch {
	case errors == nil, strings.Contains(output, "too small"), strings.Contains(output, "out of memory"):
		t.Fatalf("the search is not complete:\n%s", output)
	case errors[1] != "0" && found == nil:
		t.Fatalf("the search ends with an error that no guarantee names:\n%s", output)
	case errors[1] == "0" && strings.Contains(output, "Search not completed"):
		t.Fatalf("the search is not complete:\n%s", output)
	}
	if number := states.FindStringSubmatch(output); number != nil {
		t.Logf("%s: %s states", strings.Join(options, " "), number[1])
	}
	if found == nil {
		return ""
	}
	return found[1]
}
