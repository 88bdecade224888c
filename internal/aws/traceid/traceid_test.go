package traceid_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/aws/traceid"
)

const id = "1-5759e988-bd862e3fe1be46a994272793"

func invocation(t *testing.T, header string) context.Context {
	return context.WithValue(t.Context(), "x-amzn-trace-id", header) //nolint:staticcheck // the runtime's own key
}

func TestOf(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"Root=" + id: id,
		"Root=" + id + ";Parent=53995c3f42cd8ad8;Sampled=1":                            id,
		"Self=1-67891234-12456789abcdef012345678;Root=" + id + ";Lineage=1:a87bd80c:0": id,
		"Sampled=0; Root=" + id: id,
		"":                      "",
		"Sampled=0":             "",
		"Parent=" + id:          "",
		"Root=secret":           "",
		"Root=2" + id[1:]:       "",
		"Root=" + id + "0":      "",
		"Root=1-5759e98-bbd862e3fe1be46a994272793": "",
		"Root=" + strings.ToUpper(id):              "",
	} {
		if got := traceid.Of(invocation(t, header)); got != want {
			t.Errorf("%q: want %q, got %q", header, want, got)
		}
	}
	if got := traceid.Of(t.Context()); got != "" {
		t.Errorf("outside of Lambda it is %q", got)
	}
}

// TestLog: each line has the trace, whatever members and groups its log has. A line without the context of its invocation
// has the trace of the process.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := traceid.Log(slog.New(slog.NewJSONHandler(&out, nil)).With("version", "12"))
	log.InfoContext(t.Context(), "outside")
	if strings.Contains(out.String(), traceid.Key) {
		t.Errorf("outside of Lambda the line is %s", &out)
	}
	out.Reset()
	log.InfoContext(invocation(t, "Root="+id), "request")
	log.With("member", 1).WithGroup("group").InfoContext(invocation(t, "Root="+id), "request")
	t.Setenv("_X_AMZN_TRACE_ID", "Root="+id)
	log.Warn("no notification was sent")
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, `"version":"12"`) || strings.Count(line, `"trace_id":"`+id+`"`) != 1 {
			t.Errorf("the line is %s", line)
		}
	}
	if got := strings.Count(out.String(), "\n"); got != 3 {
		t.Errorf("there are %d lines", got)
	}
}
