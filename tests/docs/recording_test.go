package docs

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// TestRecordingIsOfToday checks that docs/picture/demo.cast shows the output of `oncebox demo`. `make recording`
// makes it again.
func TestRecordingIsOfToday(t *testing.T) {
	t.Parallel()
	program, err := program()
	must(t, err)
	printed, err := exec.CommandContext(t.Context(), program, "demo").Output()
	must(t, err)
	var shown strings.Builder
	for line := range strings.Lines(read(t, "docs/picture/demo.cast")) {
		var event []any
		if json.Unmarshal([]byte(line), &event) == nil {
			shown.WriteString(event[2].(string))
		}
	}
	// The recording wraps lines, so ends of lines are not compared.
	withoutEnds := strings.NewReplacer("\r", "", "\n", "")
	want := "$ oncebox demo" + withoutEnds.Replace(string(printed))
	if got := withoutEnds.Replace(shown.String()); got != want {
		t.Errorf("the recording shows\n%s\nand the demo prints\n%s", got, want)
	}
}
