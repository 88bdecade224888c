package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// programmerTexts lists texts that are meant for programmers. No error may contain one.
var programmerTexts = []string{
	"2006-01-02", "SQLITE_", "operation error", "RequestID", "StatusCode", "https response error", "exceeded maximum number of attempts",
	"itembank:", "dedupe:", "*errors", "context canceled", "stat ", "open ", "%!",
}

// plainly checks that stderr is exactly this text, without texts for programmers.
func (r result) plainly(t *testing.T, want string) {
	t.Helper()
	if r.stderr != want {
		t.Errorf("want\n%s\ngot\n%s", want, r.stderr)
	}
	for _, piece := range programmerTexts {
		if strings.Contains(r.stderr, piece) {
			t.Errorf("%q is for programmers: %s", piece, r.stderr)
		}
	}
}

// failingAWS is a DynamoDB that answers every request with one error.
func failingAWS(t *testing.T, status int, code, message string) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":%q}`, code, message)
	}))
	t.Cleanup(server.Close)
	return localEngine(server.URL)
}

// TestAWSErrors checks the sentence for each error of AWS that a user can act on, and the exit code, which says
// whether repeating helps.
func TestAWSErrors(t *testing.T) {
	s := newShell(t)
	const denied = "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: dynamodb:GetItem on resource: table/oncebox-bank"
	for _, test := range []struct {
		status        int
		code, message string
		exit          int
		says          string
	}{
		{400, "AccessDeniedException", denied, exitUsage, "oncebox: AWS denies DynamoDB GetItem: " + denied + "\nAsk for the permission, or use other credentials (AWS_PROFILE).\n"},
		{400, "UnrecognizedClientException", "The security token included in the request is invalid.", exitUsage, "oncebox: AWS does not accept the credentials (UnrecognizedClientException)\nCheck AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.\n"},
		{400, "ExpiredTokenException", "expired", exitUsage, "oncebox: the AWS credentials have expired\nGet new ones, for example with `aws sso login`.\n"},
		{400, "ValidationException", "Something is wrong", exitFailed, "oncebox: DynamoDB GetItem: ValidationException: Something is wrong\n"},
		{500, "InternalServerError", "Oops", exitFailed, "oncebox: DynamoDB GetItem: InternalServerError: Oops\nTry again: it is safe to repeat the command.\n"},
	} {
		s.env = failingAWS(t, test.status, test.code, test.message)
		s.run(test.exit, "campaign", "show", "spring").plainly(t, test.says)
		s.run(test.exit, "idempotency", "evict", "pay", "k", "--number=1").plainly(t, test.says)
	}
	// The details are for the log.
	s.env = failingAWS(t, 400, "AccessDeniedException", denied)
	s.run(exitUsage, "--log-level", "debug", "campaign", "show", "spring").saying(t, `"msg":"the command failed","error":"dynamodb: `, "operation error DynamoDB: GetItem")

	// So are the lines of the SDK, which warns of replies without a checksum.
	for level, shown := range map[string]bool{"debug": true, "info": false, "warn": false, "error": false} {
		r := s.run(exitUsage, "--log-level", level, "campaign", "show", "spring")
		if got := strings.Contains(r.stderr, "checksum"); got != shown {
			t.Errorf("--log-level %s: lines of the SDK are shown: %t, want %t\n%s", level, got, shown, r.stderr)
		}
		for line := range strings.Lines(r.stderr) {
			if strings.Contains(line, "checksum") && !json.Valid([]byte(line)) {
				t.Errorf("--log-level %s: a line of the SDK is not JSON: %s", level, line)
			}
		}
	}
}

// TestQuietOnDynamoDBLocal checks that the log has none of the SDK's lines about DynamoDB Local's replies.
func TestQuietOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	tables := rand.Text()
	s.env = append(localEngine(testengine.DynamoDBLocal(t)), "ONCEBOX_BANK_TABLE=bank-"+tables, "ONCEBOX_DEDUPE_TABLE=dedupe-"+tables)
	s.file("codes.txt", "A-1\n")
	s.file("in", `{"id":"1"}`+"\n")
	for _, args := range [][]string{
		{"init"}, {"init"}, {"campaign", "create", "spring"}, {"campaign", "create", "spring"}, {"load", "spring", "codes.txt"},
		{"load", "spring", "codes.txt"}, {"claim", "spring", "ann"}, {"claim", "spring", "ann"}, {"status", "spring"},
		{"reconcile", "spring"}, {"--quiet", "dedupe", "in", "--id-path", "id"}, {"--quiet", "dedupe", "in", "--id-path", "id"},
	} {
		if r := s.run(exitDone, args...); r.stderr != "" {
			t.Errorf("%q: %s", args, r.stderr)
		}
	}
}

// TestNoCredentials checks that the error says what to set, before any request.
func TestNoCredentials(t *testing.T) {
	s := newShell(t)
	none := []string{
		"ONCEBOX_STORE=dynamodb:", "AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=" + s.dir + "/none", "AWS_SHARED_CREDENTIALS_FILE=" + s.dir + "/none",
	}
	s.env = none
	s.run(exitUsage, "campaign", "list").plainly(t, "oncebox: there are no AWS credentials, or they cannot be read\n"+
		"Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or log in, for example with `aws sso login`.\n")
	s.file("in", orders)
	s.run(exitUsage, "dedupe", "in", "--id-path", "id").saying(t, "there are no AWS credentials")
	s.run(exitUsage, "init", "--yes").saying(t, "there are no AWS credentials")
	s.env = append(none, "AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:1")
	s.run(exitUsage, "campaign", "list").plainly(t, "oncebox: there are no AWS credentials, or they cannot be read\n"+
		"A local engine takes any: AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local.\n")
	s.env = append(none, "AWS_PROFILE=nobody")
	s.run(exitUsage, "campaign", "list").plainly(t, "oncebox: AWS_PROFILE: there is no profile \"nobody\"\n`aws configure list-profiles` lists them.\n")
	s.env = []string{"ONCEBOX_STORE=dynamodb:", "AWS_CONFIG_FILE=" + s.dir + "/none", "AWS_EC2_METADATA_DISABLED=true"}
	s.run(exitUsage, "campaign", "list").saying(t, "AWS_REGION")
}

// TestDamagedStore uses a file that begins as a store and continues with other data.
func TestDamagedStore(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	path := filepath.Join(s.dir, "oncebox.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(content[4096:], bytes.Repeat([]byte("x"), len(content)-4096))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(exitUsage, "campaign", "list").plainly(t, "oncebox: "+path+": open: the file is damaged; restore a backup\n")
}

// jsonError reads the only line of stderr.
func (r result) jsonError(t *testing.T) errorJSON {
	t.Helper()
	var e struct {
		Error *errorJSON `json:"error"`
	}
	if err := json.Unmarshal([]byte(r.stderr), &e); err != nil || e.Error == nil || r.stdout != "" {
		t.Fatalf("want one JSON error and nothing on stdout, got %v\n%s%s", err, r.stdout, r.stderr)
	}
	return *e.Error
}

// TestJSONErrors: with --output json every error is one JSON object on stderr.
func TestJSONErrors(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
	s.run(exitDone, "claim", "spring", "ann")
	s.run(exitDone, "campaign", "create", "later", "--opens", "2099-01-01")
	s.run(exitDone, "campaign", "create", "over")
	s.run(exitDone, "campaign", "set", "over", "--closes", "2020-01-01")
	s.run(exitDone, "campaign", "create", "shared", "--scope", "spring")
	s.file("bad.txt", "B-1\n B-2\n")
	for _, test := range []struct {
		args []string
		want errorJSON
	}{
		{[]string{"claim", "spring", "bob"}, errorJSON{"sold-out", "spring: sold out", "", exitNo}},
		{[]string{"claim", "later", "bob"}, errorJSON{"not-open", "later: the campaign is not open yet", "`oncebox campaign show later` shows its times.", exitNo}},
		{[]string{"claim", "over", "bob"}, errorJSON{"closed", "over: the campaign is closed", "`oncebox campaign show over` shows its times.", exitNo}},
		{[]string{"claim", "shared", "ann"}, errorJSON{"claimed-elsewhere", `claimed elsewhere: the claimant holds an item of campaign "spring", which shares the scope`, "", exitNo}},
		{[]string{"claim", "sprnig", "bob"}, errorJSON{"no-such-campaign", `no such campaign: "sprnig"`, "Did you mean spring? The store has: later, over, shared, spring.", exitNo}},
		{[]string{"release", "spring", "bob", "--yes"}, errorJSON{"no-claim", "no such claim: bob holds no item of spring",
			"If \"bob\" is an item: `oncebox lookup spring --item \"bob\"` says who holds it.", exitNo}},
		{[]string{"claim", "spring", ""}, errorJSON{"invalid-input", "claimant: is empty", "", exitUsage}},
		{[]string{"withdraw", "spring", "--all"}, errorJSON{"usage", "--all takes every free item out of the bank for good", "Say --all --yes to do that.", exitUsage}},
		{[]string{"load", "spring", "none.txt"}, errorJSON{"no-file", "none.txt: no such file or directory", "", exitUsage}},
		{[]string{"load", "spring", "bad.txt"}, errorJSON{"invalid-input", "bad.txt: 1 line cannot be loaded:\n  line 2 begins with a space (U+0020)",
			"Nothing was changed. --trim removes white space and invisible characters, --raw takes items as they are.", exitUsage}},
		{[]string{"clam"}, errorJSON{"usage", `unexpected argument clam, did you mean one of "claim", "claims"?`, "`oncebox --help` lists the commands, `oncebox help COMMAND` explains one.", exitUsage}},
		{[]string{"claim", "spring", "ann", "--frce"}, errorJSON{"usage", "unknown flag --frce", "`oncebox --help` lists the commands, `oncebox help COMMAND` explains one.", exitUsage}},
		{[]string{"--store", "sqlite:none.db", "campaign", "list"}, errorJSON{"no-store", "--store sqlite:none.db: there is no such file", "`oncebox --store sqlite:none.db init` makes the store.", exitUsage}},
	} {
		for _, json := range [][]string{{"--output", "json"}, {"--output=json"}} {
			r := s.run(test.want.Exit, append(json, test.args...)...)
			if got := r.jsonError(t); got != test.want {
				t.Errorf("%q: want %+v, got %+v", test.args, test.want, got)
			}
		}
		s.env = []string{"ONCEBOX_OUTPUT=json"}
		if got := s.run(test.want.Exit, test.args...).jsonError(t); got != test.want {
			t.Errorf("%q by variable: want %+v, got %+v", test.args, test.want, got)
		}
		s.env = nil
	}
	// Remarks are JSON too.
	s.file("in", orders)
	r := s.run(exitLook, "--output", "json", "dedupe", "in", "--id-path", "id", "--ledger", "new.db")
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if len(lines) != 3 || lines[0] != `{"remark":"made the ledger new.db"}` || !strings.Contains(lines[2], `"code":"dead-letters"`) {
		t.Errorf("unexpected %q", lines)
	}
}

// TestDidYouMean checks that a misspelt campaign, command, flag or value gets a suggestion, or the list of possible
// names.
func TestDidYouMean(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitNo, "status", "spring").plainly(t, "oncebox: no such campaign: \"spring\"\nThe store has no campaigns. `oncebox campaign create spring` makes this one.\n")
	for _, name := range []string{"autumn-sale", "spring"} {
		s.run(exitDone, "campaign", "create", name)
	}
	s.file("codes.txt", "A-1\n")
	for _, command := range [][]string{
		{"campaign", "show", "sprin"}, {"campaign", "open", "sprin"}, {"campaign", "close", "sprin"}, {"status", "sprin"}, {"claim", "sprin", "ann"},
		{"load", "sprin", "codes.txt"}, {"load", "sprin", "codes.txt", "--dry-run"}, {"release", "sprin", "ann", "--yes"}, {"withdraw", "sprin", "codes.txt"},
		{"withdraw", "sprin", "--all", "--yes"}, {"sweep", "sprin"}, {"reconcile", "sprin"}, {"reconcile", "sprin", "--repair"},
		{"replay", "sprin", "codes.txt"},
	} {
		s.run(exitNo, command...).plainly(t, "oncebox: no such campaign: \"sprin\"\nDid you mean spring? The store has: autumn-sale, spring.\n")
	}
	s.run(exitNo, "status", "winter").plainly(t, "oncebox: no such campaign: \"winter\"\nThe store has: autumn-sale, spring.\n")
	for i := range 11 {
		s.run(exitDone, "campaign", "create", fmt.Sprintf("test-%02d", i))
	}
	s.run(exitNo, "status", "winter").saying(t, "test-07, and 3 more.")
	for says, args := range map[string][]string{
		`unexpected argument laod, did you mean "load"?`:                          {"laod"},
		`unknown flag --dryrun, did you mean "--dry-run"?`:                        {"load", "spring", "codes.txt", "--dryrun"},
		`--on-end must be one of "burn","return" but got "burnt"`:                 {"campaign", "create", "x", "--on-end", "burnt"},
		"no command was given":                                                    nil,
		`--format must be one of "csv","ndjson" but got "xml"`:                    {"claims", "export", "x", "--format", "xml"},
		"--format is empty; it must be one of csv, ndjson\n":                      {"claims", "export", "x", "--format", ""},
		`--on-end must be one of "burn","return" but got ""`:                      {"campaign", "create", "x", "--on-end="},
		`--rate: "0" is not a number of rows a second; use a whole number from 1`: {"sweep", "x", "--rate", "0"},
		`--shards: "many" is not a whole number`:                                  {"campaign", "create", "x", "--shards", "many"},
		"--column and --lines can't be used together":                             {"load", "spring", "codes.txt", "--column", "1", "--lines"},
		"--trim and --raw can't be used together":                                 {"load", "spring", "codes.txt", "--trim", "--raw"},
		`--closes: "1.3.2027" is not a time; use 2027-03-01 (midnight UTC)`:       {"campaign", "create", "x", "--closes", "1.3.2027"},
	} {
		s.run(exitUsage, args...).saying(t, "oncebox: "+says)
	}
}

// TestTimesAreShown: a command that sets times prints them as it understood them. A new campaign does not end in the past.
func TestTimesAreShown(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	create := []string{"campaign", "create", "spring", "--opens", "2031-03-01 09:00 Europe/Berlin", "--closes", "2031-04-01 09:00+00:30"}
	const opens, closes = "2031-03-01T08:00:00Z (2031-03-01T09:00:00+01:00 in Europe/Berlin)\n", "2031-04-01T08:30:00Z (2031-04-01T09:00:00+00:30)\n"
	for _, says := range []string{"created spring (scheduled)", "exists already, with the same settings: spring (scheduled)"} {
		if r := s.run(exitDone, create...); r.stdout != says+"\nopens "+opens+"closes "+closes {
			t.Errorf("got %s", r.stdout)
		}
	}
	s.run(exitDone, "campaign", "set", "spring", "--closes", "2031-04-01 18:00 Europe/Berlin").saying(t,
		"opens       2031-03-01T08:00:00Z\n", "closes      2031-04-01T16:00:00Z (2031-04-01T18:00:00+02:00 in Europe/Berlin)\n")
	var c campaignJSON
	s.json(&c, "campaign", "set", "spring", "--closes", "2031-04-01 18:00 Europe/Berlin")
	if got, _ := c.ClosesAt.MarshalText(); string(got) != "2031-04-01T16:00:00Z" {
		t.Errorf("got %+v", c)
	}
	past := []string{"campaign", "create", "old", "--closes", "2020-01-01 09:00 Europe/Berlin"}
	s.run(exitUsage, past...).plainly(t, "oncebox: --closes 2020-01-01T08:00:00Z (2020-01-01T09:00:00+01:00 in Europe/Berlin) is in the past: "+
		"nobody could claim\nNo campaign was created.\n")
	s.run(exitNo, "campaign", "show", "old")
	s.run(exitDone, "campaign", "create", "old")
	s.run(exitDone, "campaign", "set", "old", "--closes", "2020-01-01T08:00:00Z").saying(t, "state       closed\n")
	s.run(exitDone, past...).saying(t, "exists already, with the same settings: old (closed)")
}

// TestDatesAndDays checks that dates and days are accepted for every time and every duration.
func TestDatesAndDays(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring", "--opens", "2027-03-01", "--closes", "2027-03-08T12:00:00+01:00", "--item-life", "30d", "--claim-life", "1d12h")
	var c campaignJSON
	s.json(&c, "campaign", "show", "spring")
	if got := []string{cli.TimeOr(*c.OpensAt, ""), cli.TimeOr(*c.ClosesAt, ""), c.ItemLife, c.ClaimLife}; strings.Join(got, " ") != "2027-03-01T00:00:00Z 2027-03-08T11:00:00Z 30d 36h" {
		t.Errorf("unexpected %q", got)
	}
	s.file("in", `{"id":"A","n":1,"t":86400}`+"\n"+`{"id":"A","n":1,"t":864000}`+"\n"+`{"id":"A","n":1,"t":3000000}`+"\n")
	for window, out := range map[string]string{"7d": "out 3", "20d": "out 2", "900h": "out 1"} {
		s.run(exitDone, "dedupe", "in", "--id-path", "id", "--volatile", "t", "--time-path", "t", "--ledger", inMemory, "--window", window).saying(t, out)
	}
}

// TestInterruptedSays checks that an interrupted command says so, and does not mention contexts.
func TestInterruptedSays(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	for _, output := range []string{cli.OutputText, cli.OutputJSON} {
		stdin, feed := io.Pipe()
		c := s.command(context.Background(), stdin, "--output", output, "load", "spring", "-")
		var stderr bytes.Buffer
		c.Stderr = &stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := feed.Write(bytes.Repeat([]byte("A-1\n"), 64<<10)); err != nil { // more than a pipe holds
			t.Fatal(err)
		}
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = feed.CloseWithError(os.ErrClosed) // this is not the end of the input
		_ = c.Wait()                          // the exit code is checked next
		if code := c.ProcessState.ExitCode(); code != exitInterrupted {
			t.Errorf("want exit %d, got %d", exitInterrupted, code)
		}
		want := "oncebox: interrupted\n"
		if output == cli.OutputJSON {
			want = `{"error":{"code":"interrupted","message":"interrupted","exit":130}}` + "\n"
		}
		if stderr.String() != want {
			t.Errorf("want %s, got %s", want, stderr.String())
		}
	}
}

// TestErrorsOfFiles checks that an error about a file has its name as it was typed.
func TestErrorsOfFiles(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	if err := exec.CommandContext(t.Context(), "mkfifo", s.dir+"/pipe").Run(); err != nil {
		t.Skip("needs mkfifo")
	}
	for says, args := range map[string][]string{
		"none.txt: no such file or directory":                                    {"load", "spring", "none.txt"},
		". is a directory, not a file":                                           {"load", "spring", "."},
		"pipe is not a regular file\nUse - and a pipe: cat pipe | oncebox ... -": {"load", "spring", "pipe"},
		"none: no such file or directory":                                        {"dedupe", "none", "--id-path", "id"},
		"none.json: no such file or directory":                                   {"invoke", "claim", "none.json"},
		"none.ndjson: no such file or directory":                                 {"kpl", "decode", "none.ndjson"},
	} {
		s.run(exitUsage, args...).plainly(t, "oncebox: "+says+"\n")
	}
}
