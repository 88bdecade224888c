package requestid_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/aws/requestid"
)

// TestLog: the lines of the log that a function makes have the trace of their invocation, and so have the lines of the
// default log. The Lambda emulator of the other tests passes no trace on.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	stdout, log := os.Stdout, slog.Default()
	defer func() {
		os.Stdout = stdout
		slog.SetDefault(log)
	}()
	os.Stdout = file
	const trace = "1-5759e988-bd862e3fe1be46a994272793"
	ctx := context.WithValue(t.Context(), "x-amzn-trace-id", "Root="+trace) //nolint:staticcheck // the runtime's own key
	requestid.Log(slog.LevelWarn).WarnContext(ctx, "batch")
	slog.InfoContext(ctx, "below the level")
	slog.ErrorContext(ctx, "request")
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(path)
	if err != nil || strings.Count(string(lines), "\n") != 2 || strings.Count(string(lines), `"version":"`) != 2 ||
		strings.Count(string(lines), `"trace_id":"`+trace+`"`) != 2 {
		t.Errorf("the lines are %s, %v", lines, err)
	}
}
