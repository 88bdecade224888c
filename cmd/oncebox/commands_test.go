package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestLifeOfACampaign runs the commands of a campaign on both engines.
func TestLifeOfACampaign(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { lifeOfACampaign(newShell(t)) })
	t.Run("dynamodb", func(t *testing.T) {
		s, _, _ := onTables(t)
		lifeOfACampaign(s)
	})
}

func localEngine(endpoint string) []string {
	return []string{
		"ONCEBOX_STORE=dynamodb:", "AWS_ENDPOINT_URL_DYNAMODB=" + endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
	}
}

func lifeOfACampaign(s *shell) {
	s.run(exitDone, "init")
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring", "--scope", "year", "--closes", "2099-01-01T00:00:00Z")
	s.run(exitDone, "campaign", "create", "spring", "--scope", "year", "--closes", "2099-01-01T00:00:00Z").saying(s.T, "exists already")
	s.run(exitUsage, "campaign", "create", "spring", "--scope", "other").saying(s.T, "other settings")
	s.run(exitDone, "campaign", "create", "summer", "--scope", "year", "--opens", "2098-01-01T00:00:00Z")

	codes := s.file("codes.txt", "A-1\nA-2\r\n\nA-3\nA-1\n")
	var report itembank.LoadReport
	s.json(&report, "load", "spring", codes)
	if want := (itembank.Tally{Rows: 4, Added: 3, Repeated: 1}); report.Tally != want {
		s.Errorf("want %+v, got %+v", want, report.Tally)
	}
	s.run(exitDone, "load", "spring", codes).saying(s.T, "added 0, known 4, repeated 0 of 4 lines")

	item := strings.TrimSpace(s.run(exitDone, "claim", "spring", "ann").stdout)
	var claim struct {
		Item, Claimant, Campaign string
		Replayed                 bool
		ClaimID                  string `json:"claim_id"`
	}
	s.json(&claim, "claim", "spring", "ann")
	if claim.Item != item || !claim.Replayed || claim.ClaimID == "" || claim.Claimant != "ann" || claim.Campaign != "spring" {
		s.Errorf("want item %s again, got %+v", item, claim)
	}
	s.run(exitNo, "claim", "summer", "bob").saying(s.T, "not open")
	s.run(exitDone, "campaign", "open", "summer")
	s.run(exitNo, "claim", "summer", "bob").saying(s.T, "summer: the campaign is empty: no items were loaded", "oncebox load summer FILE")
	s.run(exitDone, "status", "summer").saying(s.T, "state    empty")
	s.run(exitNo, "claim", "summer", "ann").saying(s.T, "claimed elsewhere", `"spring"`)
	s.run(exitDone, "claim", "spring", "bob")
	s.run(exitDone, "campaign", "close", "spring")
	s.run(exitNo, "claim", "spring", "cid").saying(s.T, "closed")
	if again := strings.TrimSpace(s.run(exitDone, "claim", "spring", "ann").stdout); again != item {
		s.Errorf("want %s after the close, got %s", item, again)
	}

	var counts itembank.Counts
	s.json(&counts, "status", "spring")
	if want := (itembank.Counts{Loaded: 3, Free: 1, Claimed: 2}); counts != want {
		s.Errorf("want %+v, got %+v", want, counts)
	}
	s.run(exitDone, "status", "spring", "--below", "1").saying(s.T, "loaded   3", "free     1", "claimed  2", "ended    0")
	s.run(exitLook, "status", "spring", "--below", "2").saying(s.T, "free     1", "spring has 1 free item, below 2")
	s.run(exitDone, "campaign", "show", "spring").saying(s.T, "closed", "scope       year", "2099-01-01T00:00:00Z")
	var list []campaignJSON
	s.json(&list, "campaign", "list")
	if len(list) != 2 || list[0].Name != "spring" || list[0].State != itembank.Closed || list[1].State != itembank.Empty {
		s.Errorf("unexpected list %+v", list)
	}
	var shown campaignJSON
	s.json(&shown, "campaign", "show", "summer")
	if shown.State != itembank.Empty || shown.Scope != "year" {
		s.Errorf("unexpected campaign %+v", shown)
	}
}

func TestLoadInputs(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	table := s.file("codes.csv", "\xef\xbb\xbfid,code\n1,A-1\n2,A-2\n")
	s.run(exitDone, "load", "spring", table, "--column", "code").saying(t, "added 2")
	s.want(exitDone, s.runWith("1,A-1\n2,A-2\n", "load", "spring", "-", "--column", "1")).saying(t, "added 2")
	s.want(exitDone, s.runWith("A-2\nA-3\n", "load", "spring", "-")).saying(t, "added 1, known 1")
	s.want(exitDone, s.runWith("x,B-1\n", "load", "spring", "-", "--column", "2")).saying(t, "added 1")
}

// TestBadInput checks that the message names the problem and its place, that the exit code is right, and that the
// store does not change.
func TestBadInput(t *testing.T) {
	s := newShell(t)
	s.env = []string{"AWS_REGION=us-east-1"}
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("good.txt", "A-1\nA-2\n"))
	long := strings.Repeat("x", engine.MaxItem+1)
	s.file("text.db", "this is no database")
	s.file("event.json", "{\n  \"version\": \n}")
	unreadable := s.file("unreadable.txt", "A-1\n")
	if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"no command", nil, exitUsage, []string{"--help"}},
		{"unknown command", []string{"clam"}, exitUsage, []string{"clam", "--help"}},
		{"unknown flag", []string{"claim", "spring", "ann", "--frce"}, exitUsage, []string{"--frce"}},
		{"missing claimant", []string{"claim", "spring"}, exitUsage, []string{"claimant"}},
		{"store of no kind", []string{"--store", "postgres:x", "status", "spring"}, exitUsage, []string{"sqlite:PATH", "dynamodb:"}},
		{"store without a path", []string{"--store", "sqlite:", "status", "spring"}, exitUsage, []string{"sqlite:PATH"}},
		{"store not made", []string{"--store", "sqlite:none.db", "status", "spring"}, exitUsage, []string{"--store sqlite:none.db: there is no such file", "`oncebox --store sqlite:none.db init` makes the store"}},
		{"store without its kind", []string{"--store", "codes.db", "status", "spring"}, exitUsage, []string{`--store "codes.db": must be sqlite:PATH or dynamodb:`, "Did you mean sqlite:codes.db?"}},
		{"store without its colon", []string{"--store", "dynamodb", "status", "spring"}, exitUsage, []string{"Did you mean dynamodb:?"}},
		{"store is no database", []string{"--store", "sqlite:text.db", "status", "spring"}, exitUsage, []string{"text.db"}},
		{"output of no kind", []string{"--output", "xml", "version"}, exitUsage, []string{"--output", "text", "json"}},
		{"level of no kind", []string{"--log-level", "INFO", "version"}, exitUsage, []string{"--log-level", "info"}},
		{"tables in an account", []string{"--store", "dynamodb:", "init"}, exitUsage, []string{"--yes"}},
		{"campaign name", []string{"campaign", "create", "Spring!"}, exitUsage, []string{`campaign "Spring!": must be 1 to 63 characters`}},
		{"scope name", []string{"campaign", "create", "x", "--scope", "a b"}, exitUsage, []string{`--scope "a b": must be 1 to 63 characters`}},
		{"shards", []string{"campaign", "create", "x", "--shards", "1000"}, exitUsage, []string{"--shards 1000: must be 1 to 256"}},
		{"page size", []string{"campaign", "create", "x", "--page-size", "-1"}, exitUsage, []string{"--page-size"}},
		{"time", []string{"campaign", "create", "x", "--opens", "tomorrow"}, exitUsage, []string{`--opens: "tomorrow" is not a time; use 2027-03-01 (midnight UTC), 2027-03-01T09:00:00Z`}},
		{"closes before it opens", []string{"campaign", "create", "x", "--opens", "2027-01-02T00:00:00Z", "--closes", "2027-01-01T00:00:00Z"}, exitUsage, []string{"--closes: must be later"}},
		{"unknown campaign", []string{"claim", "autumn", "ann"}, exitNo, []string{"no such campaign"}},
		{"unknown campaign to load", []string{"load", "autumn", "good.txt"}, exitNo, []string{"no such campaign"}},
		{"unknown campaign to close", []string{"campaign", "close", "autumn"}, exitNo, []string{"no such campaign"}},
		{"unknown campaign to show", []string{"campaign", "show", "autumn"}, exitNo, []string{"no such campaign"}},
		{"unknown campaign to count", []string{"status", "autumn"}, exitNo, []string{"no such campaign"}},
		{"a limit of nothing", []string{"status", "spring", "--below", "0"}, exitUsage, []string{"--below 0: must be at least 1"}},
		{"a limit while watching", []string{"status", "spring", "--below", "1", "--watch"}, exitUsage, []string{"--below cannot be used with --watch"}},
		{"empty claimant", []string{"claim", "spring", ""}, exitUsage, []string{"claimant: is empty"}},
		{"long claimant", []string{"claim", "spring", long}, exitUsage, []string{"claimant: has 513 bytes"}},
		{"control character", []string{"claim", "spring", "a\tb"}, exitUsage, []string{"control character (U+0009) at byte 2"}},
		{"file missing", []string{"load", "spring", "none.txt"}, exitUsage, []string{"none.txt"}},
		{"folder for a file", []string{"load", "spring", "."}, exitUsage, []string{"directory"}},
		{"empty file", []string{"load", "spring", s.file("empty.txt", "")}, exitUsage, []string{"empty.txt", "holds no items"}},
		{"only empty lines", []string{"load", "spring", s.file("blank.txt", "\n\r\n")}, exitUsage, []string{"holds no items"}},
		{"over-long item", []string{"load", "spring", s.file("long.txt", "B-1\n"+long+"\n")}, exitUsage, []string{"long.txt: 1 line cannot be loaded", "line 2 has 513 bytes", "Nothing was changed."}},
		{"control character in an item", []string{"load", "spring", s.file("tab.txt", "B-1\nB\t2\n")}, exitUsage, []string{"tab.txt", "line 2 has a control character (U+0009) at byte 2\nNothing was changed.\n"}},
		{"invalid UTF-8", []string{"load", "spring", s.file("latin.txt", "B-1\nB-2\ncaf\xe9\n")}, exitUsage, []string{"line 3", "UTF-8"}},
		{"no such column", []string{"load", "spring", s.file("c.csv", "id,code\n1,B-1\n"), "--column", "coupon"}, exitUsage, []string{`c.csv: --column coupon: there is no such column; the first row has "id", "code"`}},
		{"short row", []string{"load", "spring", s.file("d.csv", "id,code\n1,B-1\n2\n"), "--column", "code"}, exitUsage, []string{"line 3", "column"}},
		{"empty column", []string{"load", "spring", "c.csv", "--column", ""}, exitUsage, []string{"--column is empty"}},
		{"no shards", []string{"campaign", "create", "x", "--shards", "0"}, exitUsage, []string{"--shards"}},
		{"no page", []string{"campaign", "create", "x", "--page-size", "0"}, exitUsage, []string{"--page-size"}},
		{"life of no kind", []string{"campaign", "create", "x", "--item-life", "a week"}, exitUsage, []string{`--item-life: "a week" is not a duration; use for example 500ms, 30s, 15m, 24h or 7d`}},
		{"a negative life", []string{"campaign", "create", "x", "--claim-life=-1h"}, exitUsage, []string{"--claim-life: must be"}},
		{"a very short life", []string{"campaign", "create", "x", "--item-life", "1ms"}, exitUsage, []string{"--item-life: must be", "1s"}},
		{"end of no kind", []string{"campaign", "create", "x", "--on-end", "keep"}, exitUsage, []string{"--on-end", "burn", "return"}},
		{"other lives", []string{"campaign", "create", "spring", "--claim-life", "1h", "--closes", "2031-01-01"}, exitUsage, []string{
			"oncebox: campaign: \"spring\" exists with other settings: --closes is never, not 2031-01-01T00:00:00Z; --claim-life is forever, not 1h; nothing was changed\n" +
				"`oncebox campaign set spring` changes --opens, --closes and --page-size. The other settings are fixed: choose another name. " +
				"If nothing was loaded yet: `oncebox campaign delete spring`, and create it again.\n",
		}},
		{"fewer than no claims", []string{"campaign", "create", "x", "--per-claimant", "-1"}, exitUsage, []string{"oncebox: --per-claimant has no value: -1 begins like a flag\nIf it is the value, write --per-claimant=-1.\n"}},
		{"no claims", []string{"campaign", "create", "x", "--per-claimant", "0"}, exitUsage, []string{"oncebox: --per-claimant 0: must be at least 1\n"}},
		{"no items in a claim", []string{"campaign", "create", "x", "--max-items", "0"}, exitUsage, []string{"oncebox: --max-items 0: must be at least 1\n"}},
		{"a dry run of a bad line", []string{"load", "spring", "tab.txt", "--dry-run"}, exitUsage, []string{"tab.txt", "line 2", "Nothing was changed."}},
		{"a dry run for an unknown campaign", []string{"load", "autumn", "good.txt", "--dry-run"}, exitNo, []string{"no such campaign"}},
		{"release with nobody to ask", []string{"release", "spring", "ann"}, exitUsage, []string{"--claim-id", "--yes"}},
		{"release of an empty id", []string{"release", "spring", "ann", "--claim-id", ""}, exitUsage, []string{"--claim-id is empty"}},
		{"release of no claim", []string{"release", "spring", "ann", "--yes"}, exitNo, []string{"no such claim", "ann", "spring"}},
		{"release in an unknown campaign", []string{"release", "autumn", "ann", "--yes"}, exitNo, []string{"no such campaign"}},
		{"release by id in an unknown campaign", []string{"release", "autumn", "ann", "--claim-id", "x"}, exitNo, []string{"no such campaign"}},
		{"release for an empty claimant", []string{"release", "spring", "", "--claim-id", "x"}, exitUsage, []string{"claimant: is empty"}},
		{"withdraw nothing", []string{"withdraw", "spring"}, exitUsage, []string{"file", "--all"}},
		{"withdraw all without a yes", []string{"withdraw", "spring", "--all"}, exitUsage, []string{"--yes"}},
		{"withdraw a file and all", []string{"withdraw", "spring", "good.txt", "--all", "--yes"}, exitUsage, []string{"not both"}},
		{"withdraw a column and all", []string{"withdraw", "spring", "--all", "--yes", "--column", "1"}, exitUsage, []string{"not both"}},
		{"withdraw a bad line", []string{"withdraw", "spring", s.file("one-bad.txt", "A-1\nB\t2\n")}, exitUsage, []string{"one-bad.txt", "line 2", "Nothing was changed."}},
		{"withdraw no such column", []string{"withdraw", "spring", "c.csv", "--column", "coupon"}, exitUsage, []string{"c.csv", "--column coupon"}},
		{"withdraw an empty column", []string{"withdraw", "spring", "c.csv", "--column", ""}, exitUsage, []string{"--column is empty"}},
		{"withdraw a missing file", []string{"withdraw", "spring", "none.txt"}, exitUsage, []string{"none.txt"}},
		{"withdraw from an unknown campaign", []string{"withdraw", "autumn", "good.txt"}, exitNo, []string{"no such campaign"}},
		{"withdraw all of an unknown campaign", []string{"withdraw", "autumn", "--all", "--yes"}, exitNo, []string{"no such campaign"}},
		{"sweep an unknown campaign", []string{"sweep", "autumn"}, exitNo, []string{"no such campaign"}},
		{"reconcile an unknown campaign", []string{"reconcile", "autumn"}, exitNo, []string{"no such campaign"}},
		{"repair an unknown campaign", []string{"reconcile", "autumn", "--repair"}, exitNo, []string{"no such campaign"}},
		{"repair an open campaign", []string{"reconcile", "spring", "--repair"}, exitUsage, []string{"spring is open", "oncebox campaign close spring"}},
		{"items without repair", []string{"reconcile", "spring", "--items", "good.txt"}, exitUsage, []string{"--repair"}},
		{"a column without items", []string{"reconcile", "spring", "--repair", "--column", "1"}, exitUsage, []string{"--items"}},
		{"repair with a missing file", []string{"reconcile", "spring", "--repair", "--items", "none.txt"}, exitUsage, []string{"none.txt"}},
		{"seen items without items", []string{"reconcile", "spring", "--repair", "--return-seen-items"}, exitUsage, []string{"--return-seen-items needs --items"}},
		{"replay into an unknown campaign", []string{"replay", "autumn", s.file("claims.ndjson", `{"claimant":"ann","item":"A-1"}`+"\n")}, exitNo, []string{"no such campaign"}},
		{"replay into an open campaign", []string{"replay", "spring", "claims.ndjson", "--dry-run"}, exitUsage, []string{"spring is open", "oncebox campaign close spring"}},
		{"replay a missing file", []string{"replay", "spring", "none.ndjson"}, exitUsage, []string{"none.ndjson"}},
		{"a time before times", []string{"campaign", "create", "x", "--opens", "1970-01-01T00:00:00Z"}, exitUsage, []string{"--opens: must be later than 1970"}},
		{"event of another kind", []string{"invoke", "claim", s.file("f.json", "{}")}, exitUsage, []string{"payload format 2.0"}},
		{"port of no kind", []string{"local", "--addr", "127.0.0.1:99999"}, exitUsage, []string{"0 to 65535"}},
		{"event missing", []string{"invoke", "claim", "none.json"}, exitUsage, []string{"none.json"}},
		{"event is not JSON", []string{"invoke", "claim", "event.json"}, exitUsage, []string{"event.json", "line 3"}},
		{"emulator URL", []string{"invoke", "claim", s.file("e.json", "{}"), "--url", "localhost"}, exitUsage, []string{"--url"}},
		{"address of no form", []string{"local", "--addr", "8080"}, exitUsage, []string{"HOST:PORT"}},
		{"all addresses", []string{"local", "--addr", ":0"}, exitUsage, []string{"--allow-remote"}},
		{"a remote address", []string{"local", "--addr", "0.0.0.0:0"}, exitUsage, []string{"--allow-remote"}},
	} {
		s.run(test.code, test.args...).saying(t, test.says...)
	}
	if os.Geteuid() != 0 { // root reads everything
		s.run(exitUsage, "load", "spring", unreadable).saying(t, "unreadable.txt", "permission")
	}
	s.run(exitDone, "status", "spring").saying(t, "loaded   2", "free     2", "claimed  0")
	s.run(exitDone, "campaign", "list").saying(t, "spring")
}

func TestEngineDown(t *testing.T) {
	s := newShell(t)
	s.env = localEngine("http://127.0.0.1:1")
	for _, args := range [][]string{
		{"init"}, {"claim", "spring", "ann"}, {"status", "spring"}, {"campaign", "create", "spring"},
		{"load", "spring", s.file("codes.txt", "A-1\n")}, {"demo"},
		{"load", "spring", "codes.txt", "--dry-run"}, {"release", "spring", "ann", "--yes"}, {"sweep", "spring"},
		{"withdraw", "spring", "codes.txt"}, {"withdraw", "spring", "--all", "--yes"}, {"reconcile", "spring"},
	} {
		r := s.run(exitFailed, args...)
		if want := "oncebox: DynamoDB at http://127.0.0.1:1 cannot be reached: connection refused\nTry again: it is safe to repeat the command.\n"; r.stderr != want {
			t.Errorf("%q: want %s, got %s", args, want, r.stderr)
		}
	}
}

func TestNoRegion(t *testing.T) {
	s := newShell(t)
	s.env = []string{"ONCEBOX_STORE=dynamodb:", "AWS_CONFIG_FILE=none", "AWS_EC2_METADATA_DISABLED=true"}
	s.run(exitUsage, "claim", "spring", "ann").saying(t, "AWS_REGION")
}

// TestTablesMissing: the error names the table that is missing.
func TestTablesMissing(t *testing.T) {
	s := newShell(t)
	bank, claims := "bank-"+rand.Text(), "dedupe-"+rand.Text()
	engine := localEngine(testengine.Dynoxide(t))
	s.env = append(slices.Clone(engine), "ONCEBOX_BANK_TABLE="+bank, "ONCEBOX_DEDUPE_TABLE="+claims)
	s.run(exitDone, "init")
	const check = "\nCheck --bank-table, --dedupe-table and AWS_REGION, or make the tables: oncebox --store dynamodb: init.\n"
	for _, test := range []struct{ bank, claims, says string }{
		{"no-such-bank", claims, "the DynamoDB table no-such-bank does not exist at http://127.0.0.1:"},
		{"no-such-bank", "no-such-table", "the DynamoDB tables no-such-bank and no-such-table do not exist at http://127.0.0.1:"},
	} {
		s.env = append(slices.Clone(engine), "ONCEBOX_BANK_TABLE="+test.bank, "ONCEBOX_DEDUPE_TABLE="+test.claims)
		s.run(exitUsage, "claim", "spring", "ann").saying(t, "oncebox: "+test.says, check)
	}
	s.file("in", orders)
	s.env = append(slices.Clone(engine), "ONCEBOX_DEDUPE_TABLE=no-such-table", "ONCEBOX_BANK_TABLE="+bank)
	s.run(exitUsage, "dedupe", "in", "--id-path", "id").saying(t, "the DynamoDB table no-such-table does not exist", check)
}

var sequenceNumber = regexp.MustCompile(`"sequenceNumber": "([0-9]+)"`)

func TestInvokeDedupe(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	event, err := os.ReadFile("../../events/dedupe/several.json")
	if err != nil {
		t.Fatal(err)
	}
	s.want(exitUsage, s.runWith(string(event), "invoke", "dedupe", "-")).saying(t, "ONCEBOX_ID_PATH", "ONCEBOX_SINK", "ONCEBOX_DEAD_LETTERS")
	s.env = []string{"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:out.ndjson", "ONCEBOX_DEAD_LETTERS=dir:."}
	var sizes []int
	for _, acks := range []string{"on", "on", "off"} {
		s.env = append(s.env, "ONCEBOX_ACKS="+acks)
		s.want(exitDone, s.runWith(string(event), "invoke", "dedupe", "-")).saying(t, `"batchItemFailures": []`)
		out, err := os.ReadFile(s.dir + "/out.ndjson")
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(out))
	}
	if sizes[0] == 0 || sizes[1] != sizes[0] || sizes[2] != 2*sizes[0] { // without acks: retries, sent again
		t.Errorf("unexpected sizes of the output: %v", sizes)
	}
	s.want(exitUsage, s.runWith("{}", "invoke", "dedupe", "-")).saying(t, "not one of an event source mapping")

	right := slices.Clip(s.env)
	s.env = append(right, "ONCEBOX_ID_PATH=nothing", "ONCEBOX_POISON_LIMIT=100% of 3")
	s.want(exitUsage, s.runWith(string(event), "invoke", "dedupe", "-")).saying(t, "oncebox: nearly all records are poison for one reason", "3 of the first 3: the id is missing")
	s.env = right
	fanOut := bytes.ReplaceAll(event, []byte("stream/clicks"), []byte("stream/clicks/consumer/c:1"))
	s.want(exitUsage, s.runWith(string(fanOut), "invoke", "dedupe", "-")).saying(t, "enhanced fan-out")
	numbers := sequenceNumber.FindAllSubmatch(event, 2)
	shared := bytes.ReplaceAll(event, numbers[0][1], numbers[1][1])
	s.want(exitUsage, s.runWith(string(shared), "invoke", "dedupe", "-")).saying(t, "oncebox: two records of the batch share a sequence number")

	poison, err := os.ReadFile("../../events/dedupe/poison-among-good.json")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, an earlier invocation has stored it
		s.want(exitLook, s.runWith(string(poison), "invoke", "dedupe", "-")).saying(t, `"batchItemFailures": []`, "1 record could not be processed; see the dead letters in dir:.")
	}

	// Failed records are an error: after a success a user may delete the event.
	const failed = `{"batchItemFailures":[{"itemIdentifier":"49590338271490256608559692538361571095921575989138588904"}]}`
	says := []string{`"itemIdentifier": "49590338271490256608559692538361571095921575989138588904"`, "on failed", "send the event again"}
	emulator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(failed)) }))
	defer emulator.Close()
	s.want(exitFailed, s.runWith(string(event), "invoke", "dedupe", "-", "--url", emulator.URL)).saying(t, says...)
	for _, other := range []string{`{"statusCode":200}`, `null`, `{"batchItemFailures":null}`} { // of another function
		wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(other)) }))
		defer wrong.Close()
		s.want(exitFailed, s.runWith(string(event), "invoke", "dedupe", "-", "--url", wrong.URL)).saying(t, "not an answer of the dedupe function")
	}
}

// TestInvokeDedupeWithoutEngine checks that an invocation that cannot reach its ledger fails when its time is over, after
// half a minute, and has no answer.
func TestInvokeDedupeWithoutEngine(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	event, err := os.ReadFile("../../events/dedupe/several.json")
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(localEngine("http://127.0.0.1:1"), "ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:out.ndjson", "ONCEBOX_DEAD_LETTERS=dir:.")
	down := s.want(exitFailed, s.runWith(string(event), "invoke", "dedupe", "-"))
	down.saying(t, "DynamoDB at http://127.0.0.1:1 cannot be reached", "send the event again")
	if down.stdout != "" {
		t.Errorf("a failed invocation has no answer, got %s", down.stdout)
	}
}

func TestInvokeClaim(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
	event, err := os.ReadFile("../../events/claim/claim-body.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{201, 200} {
		var reply struct {
			StatusCode int
			Body       string
		}
		r := s.want(exitDone, s.runWith(string(event), "invoke", "claim", "-"))
		if err := json.Unmarshal([]byte(r.stdout), &reply); err != nil {
			t.Fatal(err)
		}
		if reply.StatusCode != status || !strings.Contains(reply.Body, `"A-1"`) {
			t.Errorf("want status %d with the item, got %+v", status, reply)
		}
	}
	s.env = []string{"ONCEBOX_CLAIMANT_FROM=passport"}
	s.want(exitUsage, s.runWith(string(event), "invoke", "claim", "-")).saying(t, "ONCEBOX_CLAIMANT_FROM")
}

// lines is a file of n codes.
func lines(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "CODE-%06d\n", i)
	}
	return text.String()
}
