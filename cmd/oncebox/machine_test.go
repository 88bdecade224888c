package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	machine     = "../../examples/machine/"
	machineHost = "claims.example"
	machineHome = "/var/lib/oncebox"
)

// TestMachine checks that the servers of examples/machine answer behind a proxy that passes on its host, and a proxy's
// question about their health, which has their address.
func TestMachine(t *testing.T) {
	for name, command := range map[string][]string{"the unit": unitCommand(t), "the compose file": composeCommand(t)} {
		t.Run(name, func(t *testing.T) {
			s, token := newMachine(t)
			base, _ := s.serveWithExample(s.flagsOf(command)...)
			for _, c := range []struct {
				method, path, host string
				status             int
				says               string
			}{
				{http.MethodGet, "/healthz", "oncebox:8080", http.StatusOK, `{"status":"ok"}`},
				{http.MethodPost, "/campaigns/spring/claims", "other.example", http.StatusMisdirectedRequest, "other-host"},
				{http.MethodPost, "/campaigns/spring/claims", machineHost, http.StatusCreated, `"item":"CODE-1"`},
			} {
				request, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				request.Host = c.host
				request.Header.Set("X-Request-Id", "of-the-proxy")
				request.Header.Set("Authorization", "Bearer "+token)
				if got := s.do(request); got.status != c.status || !strings.Contains(got.body, c.says) ||
					got.header.Get("X-Request-Id") != "of-the-proxy" {
					t.Errorf("%s %s for %s: got %+v", c.method, c.path, c.host, got)
				}
			}
		})
	}
}

// newMachine makes the store of the machine, with a campaign, and the token of ann's link.
func newMachine(t *testing.T) (s *shell, token string) {
	t.Helper()
	s = newShell(t)
	s.env = []string{"ONCEBOX_STORE=sqlite:" + filepath.Join(s.dir, "oncebox.db")}
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "CODE-1\n"))
	s.run(exitDone, "links", "keygen", "link.key")
	s.file("customers.csv", "claimant\nann\n")
	var link linkJSON
	if err := json.Unmarshal([]byte(s.links(exitDone, "--output", "json", "spring", "customers.csv").stdout), &link); err != nil {
		t.Fatal(err)
	}
	_, token, _ = strings.Cut(link.Link, "#t=")
	return s, token
}

// flagsOf returns the flags of a command `oncebox local --addr ADDR FLAGS`, with the key of this machine.
func (s *shell) flagsOf(command []string) []string {
	s.Helper()
	if len(command) < 4 || command[0] != "local" || command[1] != "--addr" {
		s.Fatalf("the command is %v", command)
	}
	return strings.Fields(strings.ReplaceAll(strings.Join(command[3:], " "), "/etc/oncebox", s.dir))
}

var unitLine = regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/oncebox (.*)$`)

func unitCommand(t *testing.T) []string {
	t.Helper()
	line := unitLine.FindStringSubmatch(machineFile(t, "oncebox.service"))
	if line == nil {
		t.Fatal("the unit has no command")
	}
	return strings.Fields(line[1])
}

func composeCommand(t *testing.T) []string {
	t.Helper()
	var compose struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Ports       []string
			Volumes     []string
			Tmpfs       []string
			ReadOnly    bool     `yaml:"read_only"`
			CapDrop     []string `yaml:"cap_drop"`
			SecurityOpt []string `yaml:"security_opt"`
			Restart     string
		}
		Volumes map[string]any
	}
	decoder := yaml.NewDecoder(strings.NewReader(machineFile(t, "compose.yaml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&compose); err != nil {
		t.Fatal(err)
	}
	if upstream := compose.Services["proxy"].Environment["ONCEBOX_UPSTREAM"]; upstream != "oncebox:8080" ||
		!strings.Contains(machineFile(t, "Caddyfile"), machineHost+" {\n\treverse_proxy {$ONCEBOX_UPSTREAM:127.0.0.1:8080}") {
		t.Errorf("the proxy asks %q", upstream)
	}
	return compose.Services["oncebox"].Command
}

func machineFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(machine + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMachineCron runs the lines of the cron file: a copy that is a store, old copies deleted, a word when codes run out.
func TestMachineCron(t *testing.T) {
	s, _ := newMachine(t)
	s.run(exitDone, "claim", "spring", "ann")
	old := filepath.Join(s.dir, "backups", "old.db")
	read := old + ".lock" // a command has read the old copy
	lastMonth := time.Now().AddDate(0, -1, 0)
	for _, err := range []error{
		os.Mkdir(filepath.Join(s.dir, "backups"), 0o700), os.WriteFile(old, nil, 0o600), os.Chtimes(old, lastMonth, lastMonth),
		os.WriteFile(read, nil, 0o600), os.Chtimes(read, lastMonth, lastMonth),
		os.Symlink(os.Args[0], filepath.Join(s.dir, "oncebox")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var printed []string
	for _, line := range strings.Split(machineFile(t, "oncebox.cron"), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 7 || strings.HasPrefix(line, "#") {
			continue
		}
		if fields[0] == "*" || strings.HasPrefix(fields[0], "*/") {
			t.Errorf("%q: cron would mail several times an hour while its reason lasts", line)
		}
		text := strings.ReplaceAll(strings.ReplaceAll(strings.Join(fields[6:], " "), `\%`, "%"), machineHome, s.dir)
		job := exec.CommandContext(t.Context(), "sh", "-c", text)
		job.Dir, job.Env = s.dir, append(s.environ(), asOncebox+"="+runsCommand, "PATH="+s.dir+":/usr/bin:/bin")
		out, _ := job.CombinedOutput() // the exit code of the last line is 4; cron ignores it
		printed = append(printed, string(out))
	}
	if len(printed) != 3 || printed[0]+printed[1] != "" || !strings.Contains(printed[2], "spring has 0 free items, below 100") {
		t.Fatalf("the lines print %q", printed)
	}
	copies, err := filepath.Glob(filepath.Join(s.dir, "backups", "*"))
	if err != nil || len(copies) != 1 || copies[0] == old {
		t.Fatalf("backups has %v, %v", copies, err)
	}
	s.run(exitDone, "--store", "sqlite:"+copies[0], "status", "spring").saying(t, "claimed  1")
}

// TestMachineUnit checks that systemd knows every setting of the unit. systemd comes with the machine: nothing else that
// runs here needs it, so a machine of CI may be without it.
func TestMachineUnit(t *testing.T) {
	systemd, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skipf("systemd is a part of the machine, which `make tools` cannot install: %v", err)
	}
	s := newShell(t)
	unit := s.file("oncebox.service", strings.Replace(machineFile(t, "oncebox.service"), "/usr/local/bin/oncebox", os.Args[0], 1))
	verify := exec.CommandContext(t.Context(), systemd, "verify", unit)
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
