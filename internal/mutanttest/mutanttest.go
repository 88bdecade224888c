// Package mutanttest shows that a conformance suite fails on a broken engine.
package mutanttest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// timeout bounds one case.
const timeout = 2 * time.Minute

// MustBeCaught runs one case of this test binary's TestConformance in a process
// of its own, with the mutant's name in a variable that the suite reads, and
// fails the test if that case passes. A panic does not count: the case itself
// has to notice.
func MustBeCaught(t *testing.T, variable, mutant, caughtBy string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	run := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestConformance$/^"+strings.ReplaceAll(caughtBy, "/", "$/^")+"$")
	run.Env = append(os.Environ(), variable+"="+mutant)
	output, err := run.CombinedOutput()
	failed := strings.Contains(string(output), "--- FAIL: TestConformance/"+caughtBy)
	if err == nil || !failed || strings.Contains(string(output), "panic:") {
		t.Errorf("mutant %s survived (%v):\n%s", mutant, err, output)
	}
}
