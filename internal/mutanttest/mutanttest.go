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

// timeout limits the time of one case.
const timeout = 2 * time.Minute

// MustBeCaught runs one case of this test binary's TestConformance in its own process. The suite reads the mutant's
// name from a variable. MustBeCaught fails the test if the case passes. A panic does not count: the case itself must
// report the fault.
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
