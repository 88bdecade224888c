package records

import (
	"io"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/history"
)

// TestReportOfOldRows: an import whose rows are all too old is not a success.
func TestReportOfOldRows(t *testing.T) {
	t.Parallel()
	a := &cli.App{Process: cli.Process{Stdout: io.Discard, Stderr: io.Discard}}
	if err := reportImport(a, history.Report{Read: 2, TooOld: 2}); cli.ExitCode(t.Context(), err) != cli.ExitLook {
		t.Errorf("all rows are too old: %v", err)
	}
	if err := reportImport(a, history.Report{Read: 3, TooOld: 2, Entered: 1}); err != nil {
		t.Errorf("some rows are too old: %v", err)
	}
}
