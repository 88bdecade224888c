//go:build unix

package page

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// TestLanding checks that the command of examples/landing prints links, and serves the page and the codes for them.
func TestLanding(t *testing.T) {
	testengine.CheckOnly(t)
	address := testengine.Address(t)
	stdout := startExample(t, "landing", address)
	var token string
	for lines := bufio.NewScanner(stdout); lines.Scan() && !strings.HasPrefix(lines.Text(), "Open one"); {
		if link, found := strings.CutPrefix(lines.Text(), "Ann,customer-17,"); found {
			_, token, _ = strings.Cut(link, "http://"+address+"/c/spring#t=")
		}
	}
	if token == "" {
		t.Fatal("no link of customer-17 was printed")
	}
	base := "http://" + address
	eventually(t, base+"/c/spring")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/campaigns/spring/claims", nil)
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	must(t, response.Body.Close())
	if response.StatusCode != http.StatusCreated {
		t.Errorf("the claim was answered %s", response.Status)
	}
}

// startExample starts the command of an example. At the end of the test it ends the command as Ctrl-C does.
func startExample(t *testing.T, name string, args ...string) (stdout io.Reader) {
	t.Helper()
	example := exec.CommandContext(context.WithoutCancel(t.Context()), "../../examples/"+name+"/run", args...)
	example.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C goes to the group
	example.Stderr = os.Stderr
	read, write, err := os.Pipe() // Wait does not close it
	must(t, err)
	example.Stdout = write
	must(t, example.Start())
	must(t, write.Close())
	t.Cleanup(func() {
		_ = syscall.Kill(-example.Process.Pid, syscall.SIGINT)
		_ = example.Wait() // the shell ends with the signal
		_ = read.Close()
	})
	return read
}

// eventually waits until a server answers 200.
func eventually(t *testing.T, address string) {
	t.Helper()
	get := exec.CommandContext(t.Context(), "curl", "-sf", "-o", "/dev/null", "--retry", "300", "--retry-connrefused", "--retry-delay", "1", address)
	if out, err := get.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", address, err, out)
	}
}
