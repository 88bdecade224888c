//go:build unix

package ndjsonsink_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/oncebox/oncebox/pkg/sink/ndjsonsink"
)

// TestFullDisk: the operating system cuts a write short. The limit counts for a whole process, so the test starts
// another process.
func TestFullDisk(t *testing.T) {
	const role = "NDJSONSINK_FULL"
	if path := os.Getenv(role); path != "" {
		limit := syscall.Rlimit{Cur: 10_000, Max: 10_000}
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		s, err := ndjsonsink.Open(path)
		must(t, err)
		line := strings.Repeat("x", 2999)
		n, err := trySend(t.Context(), s, line, line, line, line, line)
		must(t, json.NewEncoder(os.Stderr).Encode(result{n, err.Error()}))
		return
	}
	path := newPath(t)
	binary, err := os.Executable()
	must(t, err)
	cmd := exec.Command(binary, "-test.run=^TestFullDisk$")
	cmd.Env = append(os.Environ(), role+"="+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr.String())
	}
	var got result
	must(t, json.Unmarshal([]byte(stderr.String()), &got))
	if got.Delivered != 3 || !strings.Contains(got.Err, "file too large") {
		t.Errorf("%+v", got)
	}
	line := strings.Repeat("x", 2999) + "\n"
	checkFile(t, path, line+line+line)
}

type result struct {
	Delivered int
	Err       string
}
