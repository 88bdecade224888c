package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/itembankfault"
	"github.com/oncebox/oncebox/internal/memstore"
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
		s.run(exitUsage, "lookup", "seats").saying(s.T, "--item")
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
		if fromNDJSON := exported(s.T, formatNDJSON, []byte(ndjson)); len(fromCSV) != 2 || !reflect.DeepEqual(fromCSV, fromNDJSON) {
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

// TestExportGoesOn stops an export at each call of the store in turn. A page may be written and not yet counted then.
// The same command continues, and each claim is in the file once.
func TestExportGoesOn(t *testing.T) {
	t.Parallel()
	const claims = 2500 // three pages of the store
	for _, format := range []string{formatCSV, formatNDJSON} {
		w := newFixture(t, memstore.NewItems(), itembank.Settings{})
		codes := make([]string, claims)
		for i := range codes {
			codes[i] = fmt.Sprint("code-", i)
		}
		if _, err := w.bank.Load(t.Context(), w.name, itembank.Items(codes...), nil); err != nil {
			t.Fatal(err)
		}
		for i := range claims {
			if _, err := w.bank.Claim(t.Context(), w.name, fmt.Sprint("claimant-", i)); err != nil {
				t.Fatal(err)
			}
		}
		elsewhere := itembank.NewOperator(memstore.NewItems()) // as in another region
		if _, _, err := elsewhere.CreateCampaign(t.Context(), w.name, itembank.Settings{}); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		export := claimsExport{Campaign: w.name, Format: format, Out: out}
		cut := errors.New("cut")
		for pages := 1; ; pages++ {
			lists := 0
			w.store.Before = func(method string) error {
				if method == "ListClaims" {
					if lists++; lists == 2 {
						return cut
					}
				}
				return nil
			}
			err := export.export(t.Context(), w.app(), w.bank)
			w.store.Before = nil
			if err == nil {
				if pages != 3 {
					t.Errorf("%s: want 3 runs, got %d", format, pages)
				}
				break
			}
			if !errors.Is(err, cut) {
				t.Fatal(err)
			}
			if exit := cli.ExitCode(t.Context(), err); exit != exitFailed {
				t.Errorf("want exit %d, got %d", exitFailed, exit)
			}
			torn, err := os.OpenFile(partOf(out), os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = torn.WriteString("a page that nobody coun")
			}
			if err = errors.Join(err, torn.Close()); err != nil {
				t.Fatal(err)
			}
			other := export
			if other.Format = formatCSV; format == formatCSV {
				other.Format = formatNDJSON
			}
			var usage *cli.UsageError
			if err := other.export(t.Context(), w.app(), w.bank); !errors.As(err, &usage) || !strings.Contains(err.Error(), "another export") {
				t.Errorf("another format: got %v", err)
			}
			if err := export.export(t.Context(), w.app(), elsewhere); !errors.As(err, &usage) || !strings.Contains(err.Error(), "another export") {
				t.Errorf("another campaign of that name: got %v", err)
			}
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, c := range exported(t, format, text) {
			seen[c.Claimant] = true
		}
		if got := exported(t, format, text); len(got) != claims || len(seen) != claims {
			t.Errorf("%s: want %d claims, got %d of %d claimants", format, claims, len(got), len(seen))
		}
	}
}

// TestExportKeepsOtherFiles starts two exports into one file at the same time: one is refused. A file that does not
// belong to an export is not changed.
func TestExportKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	w := newFixture(t, memstore.NewItems(), itembank.Settings{})
	out := filepath.Join(t.TempDir(), "out")
	export := claimsExport{Campaign: w.name, Format: formatNDJSON, Out: out}
	refused := func(want string) {
		t.Helper()
		var usage *cli.UsageError
		if err := export.export(t.Context(), w.app(), w.bank); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	const mine = "a file of somebody else"
	for _, path := range []string{partOf(out), out + ".lock"} {
		if err := os.WriteFile(path, []byte(mine), 0o600); err != nil {
			t.Fatal(err)
		}
		refused("needs " + path + " for itself")
		text, err := os.ReadFile(path)
		if err = errors.Join(err, os.Remove(path)); err != nil || string(text) != mine {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
	}
	lists := 0
	w.store.Before = func(method string) error {
		if method != "ListClaims" {
			return nil
		}
		if lists++; lists == 1 {
			refused("another process is writing to it")
			return errors.New("cut")
		}
		return nil
	}
	if err := export.export(t.Context(), w.app(), w.bank); err == nil || err.Error() != "cut" {
		t.Errorf("got %v", err)
	}
	if err := export.export(t.Context(), w.app(), w.bank); err != nil { // continues although there is no claim yet
		t.Error(err)
	}
	if left, _ := filepath.Glob(out + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func exported(t *testing.T, format string, text []byte) (claims []claimJSON) {
	t.Helper()
	if format == formatCSV {
		return claimsOfCSV(t, string(text))
	}
	for lines := json.NewDecoder(bytes.NewReader(text)); ; {
		var c claimJSON
		switch err := lines.Decode(&c); {
		case errors.Is(err, io.EOF):
			return claims
		case err != nil:
			t.Fatal(err)
		}
		claims = append(claims, c)
	}
}

func TestCampaignSet(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "spring", "--opens", "2031-03-01")
		s.run(exitDone, "campaign", "set", "spring", "--closes", "2031-04-01", "--page-size", "50").saying(s.T,
			"opens       2031-03-01T00:00:00Z\n", "closes      2031-04-01T00:00:00Z\n", "page size   50\n", "within 5s")
		s.run(exitUsage, "campaign", "set", "spring", "--opens", "2031-05-01").saying(s.T, "--closes: must be later than opens", "Nothing was changed")
		s.run(exitUsage, "campaign", "set", "spring", "--page-size", "0").saying(s.T, "--page-size: must be 1 to 1000")
		s.run(exitUsage, "campaign", "set", "spring", "--opens", "tomorrow").saying(s.T, "or now")
		s.run(exitUsage, "campaign", "set", "spring").saying(s.T, "nothing to change")
		for _, fixed := range fixedSettings {
			s.run(exitUsage, "campaign", "set", "spring", fixed.flag+"=1").saying(s.T, fixed.flag+" is fixed", fixed.why, "oncebox campaign delete spring")
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

// TestCampaignChangedMeanwhile: an operator whose command another operator has overtaken hears what to do. Other errors
// stay as they are.
func TestCampaignChangedMeanwhile(t *testing.T) {
	err := changedHint("spring", itembank.ErrChanged)
	_, hint := cli.DescribeError(err, exitNo)
	if !errors.Is(err, itembank.ErrChanged) || !strings.Contains(hint, "oncebox campaign show spring") {
		t.Errorf("got %v", err)
	}
	if _, hint := cli.DescribeError(changedHint("spring", itembank.ErrLoaded), exitNo); hint != "" {
		t.Error("another error has the hint")
	}
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

// TestWatchLines: a line has the rate of the lines before, and when the campaign is sold out.
func TestWatchLines(t *testing.T) {
	t.Parallel()
	w := newFixture(t, memstore.NewItems(), itembank.Settings{})
	codes := make([]string, 100)
	for i := range codes {
		codes[i] = fmt.Sprint("code-", i)
	}
	if _, err := w.bank.Load(t.Context(), w.name, itembank.Items(codes...), nil); err != nil {
		t.Fatal(err)
	}
	watch := &watcher{bank: w.bank, campaign: w.name}
	now := time.Date(2031, 3, 1, 9, 0, 0, 0, time.UTC)
	line := func(first bool, text string) {
		t.Helper()
		if l, err := watch.line(t.Context(), first, now); err != nil || l.String() != text {
			t.Errorf("want %q, got %q, %v", text, l, err)
		}
	}
	line(true, "09:00:00  open  free 100  claimed 0")
	claim := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := w.bank.Claim(t.Context(), w.name, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	claim(0, 20)
	now = now.Add(10 * time.Second)
	line(false, "09:00:10  open  free 80  claimed 20  claims/s 2.0  sold out at 2031-03-01T09:00:50Z")
	now = now.Add(10 * time.Second)
	line(false, "09:00:20  open  free 80  claimed 20  claims/s 1.0  sold out at 2031-03-01T09:01:40Z")
	claim(20, 100)
	now = now.Add(10 * time.Second)
	line(false, "09:00:30  sold_out  free 0  claimed 100  claims/s 3.3")
	for range rateLines { // so that the claims are no longer in the window
		now = now.Add(10 * time.Second)
		if _, err := watch.line(t.Context(), false, now); err != nil {
			t.Fatal(err)
		}
	}
	line(false, "09:02:10  sold_out  free 0  claimed 100  claims/s 0.0")
}

// TestWatchOfLargeCampaign checks that only the first line counts all rows. The others read samples. Items that an
// estimate misses do not count as claims, and neither do items after their end.
func TestWatchOfLargeCampaign(t *testing.T) {
	t.Parallel()
	codes := make([]string, mostCounted+1)
	for i := range codes {
		codes[i] = fmt.Sprint("code-", i)
	}
	for _, age := range []time.Duration{0, 2 * time.Hour} {
		w := newFixture(t, memstore.NewItems(), itembank.Settings{ItemLife: time.Hour})
		clock := itembankfault.NewClock()
		clock.Advance(-age)
		past := itembank.NewOperator(w.store, itembank.WithClock(clock))
		if _, err := past.Load(t.Context(), w.name, itembank.Items(codes...), nil); err != nil {
			t.Fatal(err)
		}
		watch, now := &watcher{bank: w.bank, campaign: w.name}, time.Now()
		for n := range 3 {
			w.store.Calls()
			l, err := watch.line(t.Context(), n == 0, now.Add(time.Duration(n)*time.Second))
			if err != nil || l.Estimated != (n > 0) || l.Free < mostCounted*9/10 || l.Free+l.Claimed < mostCounted {
				t.Errorf("line %d: got %+v, %v", n, l, err)
			}
			if rate := l.ClaimsPerSecond; (rate != nil) != (n == 2) || rate != nil && *rate > 0 {
				t.Errorf("line %d: want no claims, got %s", n, l)
			}
			if calls := w.store.Calls(); slices.Contains(calls, "Counts") != (n == 0) || len(calls) > 110 {
				t.Errorf("line %d: calls %v", n, calls)
			}
		}
	}
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
