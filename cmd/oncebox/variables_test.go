package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/oncebox/oncebox/internal/cli"
)

// newTestProgram is the program, whose command line tests look at in process.
func newTestProgram(t *testing.T) *cli.Program {
	t.Helper()
	c := &grammar{}
	p, err := cli.New(cli.Process{}, c, &c.Globals)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// commands are all commands that can be run, by their paths without the name of the program.
func commands(p *cli.Program) map[string]*kong.Node {
	all := map[string]*kong.Node{}
	for _, leaf := range p.Model.Leaves(false) {
		all[strings.TrimPrefix(leaf.FullPath(), "oncebox ")] = leaf
	}
	return all
}

// TestWhichFlagsAreVariables checks that exactly the global flags have variables: the store, the output and the log.
func TestWhichFlagsAreVariables(t *testing.T) {
	t.Parallel()
	p := newTestProgram(t)
	want := []string{
		"ONCEBOX_BANK_TABLE", "ONCEBOX_DEDUPE_TABLE", "ONCEBOX_LOG_LEVEL", "ONCEBOX_OUTPUT", "ONCEBOX_QUIET", "ONCEBOX_STORE",
	}
	var got []string
	for _, flag := range p.Model.Flags {
		if name := p.Variable(flag); name != "" {
			got = append(got, name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("want the variables\n%q, got\n%q", want, got)
	}
	for path, command := range commands(p) {
		for _, flag := range command.Flags {
			if p.Variable(flag) != "" || len(flag.Tag.Envs) > 0 {
				t.Errorf("%s --%s is a variable", path, flag.Name)
			}
		}
	}
}

func TestVariables(t *testing.T) {
	s := newShell(t)
	s.env = []string{"ONCEBOX_STORE=sqlite:named.db", "ONCEBOX_OUTPUT=json", "ONCEBOX_BANK_TABLE=", "ONCEBOX_LOG_LEVEL="} // an empty variable is not set
	s.run(exitDone, "init")
	var c campaignJSON
	if err := json.Unmarshal([]byte(s.run(exitDone, "campaign", "create", "spring").stdout), &c); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir + "/named.db"); err != nil {
		t.Error(err)
	}
	s.run(exitDone, "--output", "text", "campaign", "create", "spring").saying(t, "exists already") // a flag replaces a variable

	s.file("in", orders)
	s.env = []string{"ONCEBOX_STORE=sqlite:named.db", "ONCEBOX_QUIET=true"}
	s.run(exitLook, "dedupe", "in", "--id-path", "id", "--out", "out", "--dead-letters", "dead").
		saying(t, "1 record could not be processed; see the dead letters in dead")
	if s.read("out") != uniqueOrders {
		t.Errorf("unexpected output %s", s.read("out"))
	}
}

// TestSettingsOfTheFunction checks that `oncebox dedupe` does not take the settings of the function from the environment,
// and does not pass over them in silence.
func TestSettingsOfTheFunction(t *testing.T) {
	s := newShell(t)
	s.file("in", orders)
	for setting, flag := range map[string]string{
		"ONCEBOX_VOLATILE=sent_at": "--volatile", "ONCEBOX_ID_PATH=order.id": "--id-path", "ONCEBOX_NATURAL=off": "--natural",
		"ONCEBOX_FORMAT=snowplow": "--format", "ONCEBOX_DEAD_LETTERS=bad.ndjson": "--dead-letters", "ONCEBOX_WINDOW=48h": "--window", "ONCEBOX_IDS=derived": "--ids",
		"ONCEBOX_SINK=ndjson:unique": "--sink",
	} {
		s.env = []string{setting}
		name, _, _ := strings.Cut(setting, "=")
		s.run(exitUsage, "dedupe", "in", "--ledger", inMemory).saying(t, name+" is set, and "+flag+" is not taken from the environment")
	}
	s.env = []string{"ONCEBOX_VOLATILE=sent_at"}
	s.run(exitUsage, "ledger", "import", "in", "--id-path", "id", "--ledger", "x.db").saying(t, "ONCEBOX_VOLATILE is set, and --volatile")
	s.env = []string{"ONCEBOX_ID_PATH=order.id", "ONCEBOX_DEAD_LETTERS=s3://bad", "ONCEBOX_LEDGER=log", "ONCEBOX_SINK=kinesis:x"}
	s.run(exitLook, "dedupe", "in", "--id-path", "id", "--ledger", inMemory).saying(t, "1 record could not be processed")
}

// TestDestructiveFlagsAreNoVariables checks that flags that destroy data, and settings that cannot be changed, do not
// come from the environment. A command that has such a flag refuses its variable.
func TestDestructiveFlagsAreNoVariables(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring", "--on-end", "return")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\n"))
	s.run(exitDone, "claim", "spring", "ann")
	table := s.file("codes.csv", "id,code\n1,B-1\n")
	for _, test := range []struct {
		variable string
		args     []string
		flag     string
	}{
		{"ONCEBOX_YES=true", []string{"withdraw", "spring", "--all"}, "--yes"},
		{"ONCEBOX_ALL=true", []string{"withdraw", "spring", "--yes"}, "--all"},
		{"ONCEBOX_YES=true", []string{"release", "spring", "ann"}, "--yes"},
		{"ONCEBOX_YES=true", []string{"--store", "dynamodb:", "init"}, "--yes"},
		{"ONCEBOX_REPAIR=true", []string{"reconcile", "spring"}, "--repair"},
		{"ONCEBOX_RETURN_SEEN_ITEMS=true", []string{"reconcile", "spring", "--repair"}, "--return-seen-items"},
		{"ONCEBOX_COLUMN=code", []string{"load", "spring", table}, "--column"},
		{"ONCEBOX_COLUMN=code", []string{"withdraw", "spring", table}, "--column"},
		{"ONCEBOX_SHARDS=4", []string{"campaign", "create", "summer"}, "--shards"},
		{"ONCEBOX_PAGE_SIZE=7", []string{"campaign", "create", "summer"}, "--page-size"},
		{"ONCEBOX_ITEM_LIFE=1h", []string{"campaign", "create", "summer"}, "--item-life"},
		{"ONCEBOX_CLAIM_LIFE=1h", []string{"campaign", "create", "summer"}, "--claim-life"},
		{"ONCEBOX_ON_END=return", []string{"campaign", "create", "summer"}, "--on-end"},
		{"ONCEBOX_ALLOW_REMOTE=true", []string{"local", "--addr", "0.0.0.0:0"}, "--allow-remote"},
	} {
		s.env = []string{test.variable}
		name, _, _ := strings.Cut(test.variable, "=")
		s.run(exitUsage, test.args...).saying(t, fmt.Sprintf("%s is set, and %s is not taken from the environment", name, test.flag))
	}
	s.env = []string{"ONCEBOX_YES=true", "ONCEBOX_ALL=true", "ONCEBOX_CLAIM_LIFE=1h"} // other commands ignore it
	s.run(exitDone, "status", "spring").saying(t, "loaded   2", "free     1", "claimed  1", "ended    0")
	s.run(exitDone, "campaign", "list")

	// A variable of the Lambda functions may be in the environment. It decides nothing here.
	s.env = []string{"ONCEBOX_SCOPE=orders", "ONCEBOX_SINK=kinesis:x", "ONCEBOX_HORIZON=400h", "ONCEBOX_CLAIMANT_FROM=body"}
	s.run(exitDone, "campaign", "create", "summer")
	s.run(exitDone, "campaign", "show", "summer").saying(t, "scope       summer\n")
}

// TestLedgerOfTheFunction checks that ONCEBOX_LEDGER is a setting of the function, and not the file of a ledger. A
// value that the function would refuse is refused.
func TestLedgerOfTheFunction(t *testing.T) {
	s := newShell(t)
	s.file("in", `{"id":1}`)
	for _, value := range []string{"keys", "log", "valkeys://cache:6379", ""} {
		s.env = []string{"ONCEBOX_LEDGER=" + value}
		s.run(exitDone, "dedupe", "in", "--id-path", "id", "--ledger", inMemory).saying(t, "new 1 ")
		if files, err := os.ReadDir(s.dir); err != nil || len(files) != 1 {
			t.Errorf("with %q there are %v, %v", value, files, err)
		}
	}
	for _, value := range []string{"seen.db", inMemory, "redis://cache:6379"} {
		s.env = []string{"ONCEBOX_LEDGER=" + value}
		for _, args := range [][]string{{"dedupe", "in", "--id-path", "id"}, {"ledger", "runs"}, {"campaign", "list"}} {
			s.run(exitUsage, args...).saying(t, "ONCEBOX_LEDGER selects the ledger of the dedupe function. It must be keys, log or valkey://HOST:PORT", "Give the file of a ledger as --ledger FILE")
		}
	}
	s.env = []string{"ONCEBOX_LEDGER=log", "ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:out", "ONCEBOX_DEAD_LETTERS=dir:."}
	s.run(exitUsage, "redrive", "run").saying(t, "the log ledger is in DynamoDB, and --store is sqlite:oncebox.db", "Use --store dynamodb:")
}

// TestMisspeltVariables checks that an unknown variable that looks like a setting is refused.
func TestMisspeltVariables(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	for variable, says := range map[string]string{
		"ONCEBOX_STROE=sqlite:x.db":    "ONCEBOX_STROE is not a setting; did you mean ONCEBOX_STORE?",
		"ONCEBOX_BANKTABLE=x":          "ONCEBOX_BANKTABLE is not a setting; did you mean ONCEBOX_BANK_TABLE?",
		"ONCEBOX_CLAIMAINT_FROM=body":  "ONCEBOX_CLAIMAINT_FROM is not a setting; did you mean ONCEBOX_CLAIMANT_FROM?",
		"ONCEBOX_CORS_ORIGIN=http://x": "ONCEBOX_CORS_ORIGIN is not a setting; did you mean ONCEBOX_CORS_ORIGINS?",
	} {
		s.env = []string{variable}
		s.run(exitUsage, "campaign", "list").saying(t, says)
		s.run(exitDone, "help", "campaign")
		s.run(exitDone, "version")
	}
	s.env = []string{"ONCEBOX_REQUIRE=all", "ONCEBOX_DEPLOY_HOOK_OF_OURS=1", "ONCEBOX_STROE=", "ONCEBOX_CORS_ORIGINS=http://x"} // not close to a setting, not set, or a setting
	if r := s.run(exitDone, "campaign", "list"); r.stderr != "" {
		t.Errorf("unexpected %s", r.stderr)
	}
}

// TestWrongVariable checks that an error about a value from the environment names the variable.
func TestWrongVariable(t *testing.T) {
	s := newShell(t)
	s.file("in", orders)
	for variable, says := range map[string]string{
		"ONCEBOX_OUTPUT=xml":   `--output must be one of "text","json" but got "xml" (from the variable ONCEBOX_OUTPUT)`,
		"ONCEBOX_QUIET=silent": `--quiet: bool value must be true, 1, yes, false, 0 or no but got "silent" (from the variable ONCEBOX_QUIET)`,
	} {
		s.env = []string{variable}
		s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--ledger", inMemory).saying(t, "oncebox: "+says+"\n")
	}
	s.env = []string{"ONCEBOX_OUTPUT=json"}
	r := s.run(exitUsage, "campaign", "list", "--output", "soon")
	if strings.Contains(r.stderr, "from the variable") {
		t.Errorf("the variable is not to blame: %s", r.stderr)
	}
}
