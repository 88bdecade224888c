package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// seats makes two campaigns of one scope, where ann holds a seat of the first.
func (s *shell) seats() {
	s.Helper()
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "seats", "--hold", "1h", "--scope", "term")
	s.run(exitDone, "campaign", "create", "places", "--on-end", "return", "--scope", "term")
	s.run(exitDone, "load", "seats", s.file("seats.txt", "A-1\n"))
	s.run(exitDone, "load", "places", s.file("places.txt", "P-1\nP-2\n"))
	s.run(exitDone, "claim", "seats", "ann")
}

func TestClaimShow(t *testing.T) {
	onStores(t, func(s *shell) {
		s.seats()
		s.run(exitDone, "claim", "show", "seats", "ann").saying(s.T, "A-1", "since", "claim id")
		var shown, claimed map[string]any
		s.json(&shown, "claim", "show", "seats", "ann")
		if s.json(&claimed, "claim", "seats", "ann"); shown["claim_id"] != claimed["claim_id"] || shown["item"] != "A-1" {
			s.Errorf("want %v, got %v", claimed, shown)
		}
		s.run(exitNo, "claim", "show", "places", "bob").saying(s.T, "bob holds no item of places")
		s.run(exitNo, "claim", "show", "places", "ann").saying(s.T, "ann holds no item of places, but one of seats", "oncebox claim show seats")
		s.run(exitNo, "claim", "show", "none", "ann").saying(s.T, "no such campaign")
		s.run(exitDone, "status", "places").saying(s.T, "claimed  0")
		s.run(exitDone, "campaign", "create", "show")
		s.run(exitDone, "load", "show", s.file("show.txt", "S-1\n"))
		if r := s.run(exitDone, "claim", "make", "show", "ann"); r.stdout != "S-1\n" {
			s.Errorf("got %q", r.stdout)
		}
	})
}

func TestLookup(t *testing.T) {
	onStores(t, func(s *shell) {
		s.seats()
		s.run(exitDone, "load", "places", s.file("also.txt", "A-1\n"))
		s.run(exitDone, "lookup", "seats", "--item", "A-1").saying(s.T, "A-1 in seats: held by ann since ", ", until ", "(claim ")
		s.run(exitDone, "lookup", "--item", "A-1").saying(s.T, "A-1 in places: free\nA-1 in seats: held by ann")
		var found []itemJSON
		s.json(&found, "lookup", "seats", "--item", "A-1", "--rate", "100000")
		if len(found) != 1 || found[0].Place != itembank.PlaceHeld || found[0].Claim.Claimant != "ann" || found[0].Claim.EndsAt == "" {
			s.Errorf("unexpected %+v", found)
		}
		s.run(exitDone, "confirm", "seats", "ann")
		s.run(exitDone, "withdraw", "places", s.file("gone.txt", "P-2\n"))
		s.run(exitDone, "lookup", "seats", "--item", "A-1").saying(s.T, "A-1 in seats: claimed by ann")
		s.run(exitDone, "lookup", "places", "--item", "P-2").saying(s.T, "P-2 in places: withdrawn")
		for _, args := range [][]string{{"lookup", "seats", "--item", "a-1"}, {"lookup", "--item", "a-1"}, {"audit", "seats", "--item", "a-1"}} {
			s.run(exitNo, args...).saying(s.T, `"a-1" was never loaded`, "Upper and lower case")
		}
		s.run(exitUsage, "lookup", "seats", "--item", "").saying(s.T, "--item")
		for _, test := range []struct { // an item where something else belongs
			exit int
			args []string
			says string
		}{
			{exitUsage, []string{"lookup", "A-1"}, "The item has a flag: `oncebox lookup --item \"A-1\"`."},
			{exitUsage, []string{"lookup", "seats", "A-1"}, "The item has a flag: `oncebox lookup seats --item \"A-1\"`."},
			{exitUsage, []string{"lookup"}, "The item has a flag: `oncebox lookup --item CODE`."},
			{exitUsage, []string{"audit", "seats", "A-1"}, "`oncebox audit seats --claimant \"A-1\"` or `oncebox audit seats --item \"A-1\"`."},
			{exitNo, []string{"audit", "seats", "--claimant", "A-1"}, "If \"A-1\" is an item: `oncebox audit seats --item \"A-1\"`"},
			{exitNo, []string{"claim", "show", "seats", "A-1"}, "If \"A-1\" is an item: `oncebox lookup seats --item \"A-1\"`"},
			{exitNo, []string{"confirm", "seats", "A-1"}, "If \"A-1\" is an item: `oncebox lookup seats --item \"A-1\"`"},
			{exitNo, []string{"confirm", "seats", "ann", "--claim-id", "A-1"}, "`oncebox claim show seats \"ann\"` shows that claim and its id."},
			{exitDone, []string{"release", "seats", "ann", "--claim-id", "A-1"}, "`oncebox claim show seats \"ann\"` shows what"},
			{exitUsage, []string{"replace", "seats", "ann", "--claim-id", strings.Repeat("a", 256)}, "oncebox: --claim-id: must be 1 to 247 bytes"},
		} {
			s.run(test.exit, test.args...).saying(s.T, test.says)
		}
	})
}

// TestItemsListEnded: the items of a file that nobody can get any more, each once, and with a remark about unknown ones.
func TestItemsListEnded(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--choice")
		s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\nA-3\nA-4\n"))
		s.run(exitDone, "claim", "spring", "ann", "--item", "A-3")
		s.run(exitDone, "release", "spring", "ann", "--yes")
		s.run(exitDone, "claim", "spring", "bob", "--item", "A-1")
		s.run(exitDone, "withdraw", "spring", s.file("gone.txt", "A-2\n"))
		file := s.file("some.csv", "n;code\n1;A-3\n2;A-1\n3;A-2\n4;A-3\n5;A-4\n6;B-1\n")
		r := s.run(exitDone, "items", "list", "spring", "--items", file, "--column", "code", "--rate", "100000")
		if r.stdout != "A-3\tburned\nA-2\twithdrawn\n" || r.stderr != "never loaded into spring: 1 line of "+file+"\n" {
			s.Errorf("got %q, %q", r.stdout, r.stderr)
		}
		if r := s.run(exitDone, "--output", "json", "items", "list", "spring", "--items", "gone.txt"); r.stdout != `{"item":"A-2","state":"withdrawn"}`+"\n" {
			s.Errorf("got %q", r.stdout)
		}
		file = s.file("free.txt", "A-4\n")
		if r := s.run(exitDone, "items", "list", "spring", "--items", file); r.stdout != "" || r.stderr != "no item of "+file+" has ended in spring\n" {
			s.Errorf("got %q, %q", r.stdout, r.stderr)
		}
		s.run(exitNo, "items", "list", "none", "--items", "gone.txt").saying(s.T, "no such campaign")
		for _, wrong := range [][]string{{}, {"--free", "--items", "gone.txt"}, {"--free", "--column", "1"}} {
			s.run(exitUsage, append([]string{"items", "list", "spring"}, wrong...)...).saying(s.T, "--items")
		}
	})
}

func TestAudit(t *testing.T) {
	onStores(t, func(s *shell) {
		s.seats()
		s.run(exitDone, "release", "seats", "ann", "--yes")
		s.run(exitDone, "claim", "seats", "bob")
		s.run(exitDone, "audit", "seats", "--item", "A-1").saying(s.T,
			"held by bob", "row 1 of load", "came back  once", "the rows cannot tell:", "holders before the item came back (once)", "see also:")
		s.run(exitDone, "audit", "seats", "--claimant", "bob").saying(s.T, "bob holds an item of seats", "A-1", "Earlier claims of this claimant")
		s.run(exitDone, "audit", "places", "--claimant", "bob").saying(s.T, "bob holds an item of seats")
		var audit auditJSON
		s.json(&audit, "audit", "seats", "--item", "A-1")
		if len(audit.Claims) != 1 || audit.Claims[0].Claimant != "bob" || audit.Items[0].Returns != 1 || len(audit.NotKnown) != 2 || len(audit.SeeAlso) == 0 {
			s.Errorf("unexpected %+v", audit)
		}
		onSQLite, inDynamoDB := strings.Contains(audit.SeeAlso[0], "`oncebox backup`"), strings.Contains(audit.SeeAlso[0], "tables")
		if onSQLite == inDynamoDB || onSQLite != (s.env == nil) {
			s.Errorf("unexpected %q", audit.SeeAlso[0])
		}
		if s.jsonWith(exitNo, &audit, "audit", "seats", "--claimant", "ann"); len(audit.Claims)+len(audit.Items) > 0 {
			s.Errorf("unexpected %+v", audit)
		}
		s.run(exitDone, "withdraw", "places", s.file("gone.txt", "P-2\n"))
		s.run(exitDone, "audit", "places", "--item", "P-2").saying(s.T, "withdrawn", "When the item ended as withdrawn")
		s.run(exitUsage, "audit", "seats").saying(s.T, "--claimant", "--item")
		s.run(exitUsage, "audit", "seats", "--claimant", "a", "--item", "b").saying(s.T, "--claimant", "--item")
	})
}

// TestSupportOfSeveral: support finds every claim of a claimant, in any spelling, and every item of a claim. An export
// can be replayed.
func TestSupportOfSeveral(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "hall", "--claimant-as", "email", "--per-claimant", "2", "--choice",
			"--max-items", "2", "--hold", "1h")
		s.run(exitDone, "load", "hall", s.file("seats.txt", "1A\n1B\n1C \"x\"\n1D\n"))
		s.run(exitDone, "claim", "hall", "Ann@x.org", "--item", "1B", "--item", `1C "x"`)
		s.run(exitDone, "claim", "hall", "ann@x.org", "--slot", "2", "--item", "1D")
		s.run(exitDone, "claim", "show", "hall", "ANN@x.org").saying(s.T, "1B\n", `1C "x"`+"\n")
		s.run(exitDone, "claim", "show", "hall", "ANN@x.org", "--slot", "2").saying(s.T, "1D\n", "slot      2\n")
		s.run(exitNo, "claim", "show", "hall", "bob@x.org", "--slot", "2").saying(s.T, "bob@x.org holds no item of hall in slot 2")
		s.run(exitDone, "lookup", "hall", "--item", `1C "x"`).saying(s.T, "held by ann@x.org since", ", of 2 items)")
		s.run(exitDone, "lookup", "hall", "--item", "1D").saying(s.T, "held by ann@x.org in slot 2 since")
		s.run(exitDone, "audit", "hall", "--item", `1C "x"`).saying(s.T, "held by ann@x.org", "row 3 of load")
		s.run(exitDone, "audit", "hall", "--claimant", " ann@X.org").saying(s.T,
			"ann@x.org holds 2 items of hall", "row 2 of load", "row 3 of load", "ann@x.org holds an item of hall", "row 4 of load")
		var audit auditJSON
		if s.json(&audit, "audit", "hall", "--claimant", "ann@x.org"); len(audit.Claims) != 2 || len(audit.Items) != 3 || len(audit.Claims[0].Items) != 2 {
			s.Errorf("unexpected %+v", audit)
		}
		s.run(exitDone, "claims", "list", "hall").saying(s.T, `1B | 1C "x"`, "SLOT")
		ndjson := s.run(exitDone, "claims", "export", "hall", "--format", "ndjson").stdout
		fromCSV := claimsOfCSV(s.T, s.run(exitDone, "claims", "export", "hall").stdout)
		if fromNDJSON := claimsOfNDJSON(s.T, ndjson); len(fromCSV) != 2 || !reflect.DeepEqual(fromCSV, fromNDJSON) {
			s.Errorf("CSV has %+v and NDJSON %+v", fromCSV, fromNDJSON)
		}
		s.run(exitDone, "forget", "hall", "ANN@x.org", "--no-block", "--yes").saying(s.T, "released 2 claims")
		s.run(exitDone, "campaign", "close", "hall")
		s.file("claims.ndjson", ndjson)
		s.run(exitDone, "replay", "hall", "claims.ndjson", "--dry-run").saying(s.T, "would have replayed 2")
	})
}

// oddClaimants are claimants whose texts need care in CSV.
var oddClaimants = []string{"ann", `bob, "the 1st"`, "=1+1", "ünïcode €"}

func TestClaimsListAndExport(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--claim-life", "24h")
		s.run(exitDone, "load", "spring", s.file("codes.txt", lines(len(oddClaimants)+1)))
		s.run(exitDone, "claims", "list", "spring").saying(s.T, "CLAIMANT")
		for _, claimant := range oddClaimants {
			s.run(exitDone, "claim", "spring", claimant)
		}
		var list claimListJSON
		if s.json(&list, "claims", "list", "spring"); len(list.Claims) != len(oddClaimants) || list.More {
			s.Errorf("unexpected %+v", list)
		}
		s.run(exitDone, "claims", "list", "spring", "--limit", "2").saying(s.T, "there are more")
		if s.json(&list, "claims", "list", "spring", "--limit", "2"); len(list.Claims) != 2 || !list.More {
			s.Errorf("unexpected %+v", list)
		}
		s.run(exitUsage, "claims", "list", "spring", "--limit", "0").saying(s.T, "--limit 0")
		s.run(exitDone, "claims", "export", "spring", "--out", "out.csv", "--rate", "100000").saying(s.T, "exported 4 claims")
		written, err := os.ReadFile(filepath.Join(s.dir, "out.csv"))
		if err != nil {
			s.Fatal(err)
		}
		s.sameClaims(claimsOfCSV(s.T, string(written)), oddClaimants)
		if stdout := s.run(exitDone, "claims", "export", "spring").stdout; stdout != string(written) {
			s.Errorf("stdout has\n%s\nand the file\n%s", stdout, written)
		}
		s.run(exitUsage, "claims", "export", "spring", "--out", "out.csv").saying(s.T, "--out out.csv: the file exists")
		if left, _ := filepath.Glob(filepath.Join(s.dir, "out.csv.*")); len(left) > 0 {
			s.Errorf("left behind: %v", left)
		}
		s.file("claims.ndjson", s.run(exitDone, "--output", "json", "claims", "export", "spring").stdout)
		s.run(exitDone, "campaign", "close", "spring")
		s.run(exitDone, "replay", "spring", "claims.ndjson", "--dry-run").saying(s.T, "already 4")
		s.run(exitNo, "claims", "export", "none", "--out", "x").saying(s.T, "no such campaign")
	})
}

func claimsOfCSV(t *testing.T, text string) (claims []claimJSON) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 || strings.Join(rows[0], ",") != "campaign,claimant,slot,claim_id,item,columns,items,claimed_at,ends_at" {
		t.Fatalf("unexpected CSV %q, %v", rows, err)
	}
	for _, r := range rows[1:] {
		c := claimJSON{Campaign: r[0], Claimant: r[1], ClaimID: r[3], ClaimedAt: r[7], EndsAt: r[8]}
		c.Item = r[4]
		if c.Slot, err = strconv.Atoi(r[2]); err == nil && r[5] != "" {
			err = json.Unmarshal([]byte(r[5]), &c.Columns)
		}
		if err == nil && r[6] != "" {
			err = json.Unmarshal([]byte(r[6]), &c.Items)
		}
		if err != nil {
			t.Errorf("%q: %v", r, err)
		}
		claims = append(claims, c)
	}
	return claims
}

func (s *shell) sameClaims(claims []claimJSON, claimants []string) {
	s.Helper()
	var got []string
	for _, c := range claims {
		got = append(got, c.Claimant)
		if c.Campaign != "spring" || c.ClaimID == "" || c.Item == "" || c.ClaimedAt == "" || c.EndsAt == "" {
			s.Errorf("unexpected %+v", c)
		}
	}
	want := slices.Sorted(slices.Values(claimants))
	if slices.Sort(got); !slices.Equal(got, want) {
		s.Errorf("want %q, got %q", want, got)
	}
}

func claimsOfNDJSON(t *testing.T, text string) (claims []claimJSON) {
	t.Helper()
	for lines := json.NewDecoder(strings.NewReader(text)); lines.More(); {
		var c claimJSON
		if err := lines.Decode(&c); err != nil {
			t.Fatal(err)
		}
		claims = append(claims, c)
	}
	return claims
}

// fixedSetting is a flag in the help of campaign set that cannot be changed, and why.
var fixedSetting = regexp.MustCompile(`(?m)^ {4}(--[a-z-]+) {2,}(.+)$`)

func TestCampaignSet(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--opens", "2031-03-01")
		s.run(exitDone, "campaign", "set", "spring", "--closes", "2031-04-01", "--page-size", "50").saying(s.T,
			"opens       2031-03-01T00:00:00Z\n", "closes      2031-04-01T00:00:00Z\n", "page size   50\n", "within 5s")
		s.run(exitUsage, "campaign", "set", "spring", "--opens", "2031-05-01").saying(s.T, "--closes: must be later than --opens", "Nothing was changed")
		s.run(exitUsage, "campaign", "set", "spring", "--page-size", "0").saying(s.T, "--page-size: must be 1 to 1000")
		s.run(exitUsage, "campaign", "set", "spring", "--opens", "tomorrow").saying(s.T, "or now")
		s.run(exitUsage, "campaign", "set", "spring").saying(s.T, "nothing to change")
		fixed := fixedSetting.FindAllStringSubmatch(s.run(exitDone, "help", "campaign", "set").stdout, -1)
		if len(fixed) < 12 {
			s.Errorf("the help has %d fixed settings", len(fixed))
		}
		for _, setting := range fixed {
			flag, why := setting[1], setting[2]
			s.run(exitUsage, "campaign", "set", "spring", flag+"=1").saying(s.T, flag+" is fixed", why, "oncebox campaign delete spring")
		}
		var c campaignJSON
		s.json(&c, "campaign", "set", "spring", "--opens", "now", "--closes", "never")
		if c.OpensAt != nil || c.ClosesAt != nil || c.PageSize != 50 || c.State != itembank.Open {
			s.Errorf("unexpected %+v", c)
		}
		s.run(exitDone, "campaign", "close", "spring")
		s.run(exitDone, "campaign", "set", "spring", "--closes", "2031-04-01").saying(s.T, "the times decide nothing now", "--by-times")
		s.run(exitDone, "campaign", "set", "spring", "--by-times").saying(s.T, "mode        by-times\n", "state       open\n")
		s.run(exitNo, "campaign", "set", "sprnig", "--opens", "now").saying(s.T, "Did you mean spring?")
	})
}

func TestCampaignDelete(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "sprnig")
		s.run(exitDone, "campaign", "create", "spring")
		s.run(exitDone, "campaign", "delete", "sprnig").saying(s.T, "sprnig is deleted", "in 40 seconds")
		s.run(exitNo, "campaign", "delete", "sprnig").saying(s.T, "no such campaign", "The store has: spring.")
		s.run(exitNo, "campaign", "create", "sprnig").saying(s.T, "deleted a moment ago", "can be used again in")
		s.run(exitNo, "load", "sprnig", s.file("codes.txt", "A-1\n")).saying(s.T, "no such campaign")
		s.run(exitDone, "load", "spring", "codes.txt")
		s.run(exitNo, "campaign", "delete", "spring").saying(s.T, "was loaded", "nothing was changed", "oncebox campaign close spring", "oncebox withdraw spring --all --yes")
		if list := s.run(exitDone, "campaign", "list").stdout; strings.Contains(list, "sprnig") || !strings.Contains(list, "spring") {
			s.Errorf("unexpected list\n%s", list)
		}
	})
}

// TestWatch: a line each on a pipe, until it is interrupted; then the exit code is 130.
func TestWatch(t *testing.T) {
	for _, output := range []string{cli.OutputText, cli.OutputJSON} {
		t.Run(output, func(t *testing.T) {
			s := newShell(t)
			s.run(exitDone, "init")
			s.run(exitDone, "campaign", "create", "spring")
			s.run(exitDone, "load", "spring", s.file("codes.txt", lines(3)))
			for _, wrong := range [][]string{{"--every", "10ms"}, {"--consistent"}} {
				s.run(exitUsage, append([]string{"status", "spring", "--watch"}, wrong...)...)
			}
			s.run(exitNo, "status", "none", "--watch").saying(t, "no such campaign")
			watch := s.command(context.Background(), nil, "--output", output, "status", "spring", "--watch", "--every", "1s")
			stdout, err := watch.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			if watch.Stderr = &stderr; watch.Start() != nil {
				t.Fatal("not started")
			}
			seen := bytes.Buffer{}
			for buffer := make([]byte, 1024); bytes.Count(seen.Bytes(), []byte("\n")) < 2; {
				n, err := stdout.Read(buffer)
				if seen.Write(buffer[:n]); err != nil {
					t.Fatalf("it ended: %v\n%s", err, stderr.String())
				}
			}
			if err := watch.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = watch.Wait() // the exit code is checked next
			if code := watch.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("want exit %d, got %d: %s", exitInterrupted, code, stderr.String())
			}
			if strings.Contains(seen.String(), "\x1b") {
				t.Errorf("a pipe gets control characters: %q", seen.String())
			}
			for line := range strings.Lines(seen.String()) {
				var l watchLine
				if output == cli.OutputJSON && (json.Unmarshal([]byte(line), &l) != nil || l.Free != 3) || output == cli.OutputText && !strings.Contains(line, "free 3  claimed 0") {
					t.Errorf("unexpected line %q", line)
				}
			}
		})
	}
}
