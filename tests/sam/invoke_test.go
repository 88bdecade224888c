//go:build unix

package sam

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

const eventFolder = "../../events"

// TestInvoke gives events to the built functions in the runtime emulator. The claim events use each of the campaigns of
// scripts/event-campaigns. The events run one after the other, because the scripts choose free ports without reserving
// them.
func TestInvoke(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	needTools(t, "dynoxide", "aws-lambda-rie")
	for event, want := range map[string]struct {
		claimantFrom, holds string
		status              int
	}{
		"claim-me-empty-body":     {"jwt:sub", `"item":"SPRING-`, 201},
		"get-claim-decoded-path":  {"", `"claimant":"team/ann 50%41"`, 200},
		"claim-again-when-closed": {"", `"item":"SUMMER-`, 200},
		"sold-out":                {"", "#sold-out", 409},
		"not-open":                {"", "#not-open", 409},
		"closed":                  {"", "#closed", 409},
		"claim-hold":              {"", `"ends_at":"`, 201},
		"claimed-elsewhere":       {"", `"campaign":"morning"`, 409},
	} {
		t.Run(event, func(t *testing.T) {
			got := invoke(t, "claim/"+event, "CLAIMANT_FROM="+want.claimantFrom)
			var reply events.APIGatewayV2HTTPResponse
			if err := json.Unmarshal([]byte(got.stdout), &reply); err != nil || got.status != 0 {
				t.Fatalf("%v: %+v", err, got)
			}
			if reply.StatusCode != want.status || !strings.Contains(reply.Body, want.holds) {
				t.Errorf("want %d and %s, got %d %s", want.status, want.holds, reply.StatusCode, reply.Body)
			}
			if !strings.Contains(got.stderr, `"msg":"request"`) {
				t.Errorf("the log of the function is missing: %s", got.stderr)
			}
		})
	}
	t.Run("records", func(t *testing.T) {
		got := invoke(t, "dedupe/poison-among-good")
		for _, part := range []string{
			`"batchItemFailures": []`, "delivered: 2\n" + `{"id":"among-1"`, "dead letters: 1\n", `"reason":"not valid JSON"`,
		} {
			if !strings.Contains(got.stdout, part) {
				t.Errorf("want %s in %s", part, got.stdout)
			}
		}
		if got.status != 0 {
			t.Errorf("status %d: %s", got.status, got.stderr)
		}
	})
	t.Run("a failed invocation", func(t *testing.T) {
		got := invoke(t, "dedupe/http")
		failed := strings.Contains(got.stderr, "the function failed")
		if got.status != 1 || !failed || !strings.Contains(got.stdout, "delivered: 0") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("FUNCTION instead of the folder", func(t *testing.T) {
		got := invoke(t, "dedupe/single", "FUNCTION=claim")
		if got.status != 1 || !strings.Contains(got.stderr, "payload format 2.0") {
			t.Errorf("%+v", got)
		}
	})
}

func TestBadUsageOfInvoke(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(elsewhere, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		event, function, says string
	}{
		"no event":         {"", "", "EVENT is missing"},
		"no such file":     {"events/claim/nothing.json", "", "is not a readable file"},
		"a folder":         {eventFolder + "/claim", "", "is not a readable file"},
		"no function":      {elsewhere, "", "Add FUNCTION=claim or FUNCTION=dedupe"},
		"unknown function": {elsewhere, "redrive", "use claim or dedupe"},
	} {
		for _, script := range [][]string{{"invoke"}, {"sam", "invoke"}} {
			t.Run(strings.Join(script, " ")+" with "+name, func(t *testing.T) {
				t.Parallel()
				got := run(t, "../../scripts/"+script[0], append(script[1:], c.event), "FUNCTION="+c.function)
				if got.status != 2 || !strings.Contains(got.stderr, c.says) || got.stdout != "" {
					t.Errorf("want status 2 and %q, got %+v", c.says, got)
				}
			})
		}
	}
}

// TestInvokeWithoutTools runs a copy of the scripts in a folder without .tools.
func TestInvokeWithoutTools(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "scripts")
	// Another process copies the scripts: a process that this one starts meanwhile would keep a script open that it writes,
	// and nobody can execute that.
	if out, err := exec.CommandContext(t.Context(), "cp", "-R", "../../scripts", dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	got := run(t, filepath.Join(dir, "invoke"), []string{eventFolder + "/claim/claim-body.json"})
	if got.status != 1 || !strings.Contains(got.stderr, "dynoxide is not installed: run `make tools`") {
		t.Errorf("%+v", got)
	}
}

func invoke(t *testing.T, event string, env ...string) result {
	t.Helper()
	return run(t, "../../scripts/invoke", []string{eventFolder + "/" + event + ".json"}, env...)
}

type result struct {
	status         int
	stdout, stderr string
}

// run runs a script to its end, and checks that it leaves no process and no file behind.
func run(t *testing.T, script string, args []string, env ...string) result {
	t.Helper()
	temporary := t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), script, args...)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+temporary), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("%s left processes behind (%v)", script, err)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("%s left files behind: %v %v", script, left, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// needTools skips the test if a tool is not installed. Like testengine, it fails instead under ONCEBOX_REQUIRE=all.
func needTools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Stat("../../.tools/bin/" + name); err == nil {
			continue
		}
		if os.Getenv("ONCEBOX_REQUIRE") == "all" {
			t.Fatalf("%s is not installed: run `make tools`", name)
		}
		t.Skipf("%s is not installed: run `make tools`", name)
	}
}
