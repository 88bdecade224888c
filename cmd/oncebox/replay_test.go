package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// replay runs the command on lines, and returns its output.
func (w *fixture) replay(c replayCommand, output string, code int, lines ...string) string {
	w.Helper()
	a := w.app()
	a.Output = output
	c.Campaign, c.File = w.name, "claims.ndjson"
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(strings.Join(lines, "\n"))), nil }
	err := c.replayFile(w.Context(), a, w.bank, claimsOf(open))
	if got := exitCode(w.Context(), err); got != code {
		w.Fatalf("want exit %d, got %d: %v", code, got, err)
	}
	if err != nil && code == exitUsage {
		return err.Error()
	}
	return w.out.String()
}

// TestReplay: a claim that the store has lost comes back exactly as its claimant saw it, also after a repair.
func TestReplay(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		for _, repaired := range []bool{false, true} {
			w := newFixture(t, store, itembank.Settings{})
			inconsistencies["missing"](w.plants())
			if err := w.bank.CloseCampaign(t.Context(), w.name); err != nil {
				t.Fatal(err)
			}
			if repaired {
				w.reconcile(reconcileCommand{Campaign: w.name, Repair: true}, exitDone)
			}
			anns := fmt.Sprintf(`{"campaign":%q,"claimant":"ann","claim_id":"id-of-ann","item":%q,`+
				`"claimed_at":"2026-03-01T09:00:00.123Z","replayed":false}`, w.name, theItem)
			bobs := fmt.Sprintf(`{"claimant":"bob","item":%q}`, theItem)
			planters := `{"claimant":"planter","item":"nobody's"}`
			others := `{"campaign":"another","claimant":"cid","item":"C-1"}`
			lines := []string{anns, "", bobs, planters, others, `{"claimant":"dan","item":"nobody's"}`}

			would := w.replay(replayCommand{DryRun: true}, outputText, exitLook, lines...)
			did := w.replay(replayCommand{}, outputText, exitLook, lines...)
			if want := "would have " + strings.Replace(did, " of 5 lines", " of 5 lines; nothing was changed", 1); would != want {
				t.Errorf("the dry run said\n%s, the replay did\n%s", would, did)
			}
			for _, want := range []string{
				"replayed 1, already 0, of other campaigns 1, refused 3 of 5 lines\n",
				"\n3     bob       item-held      claim id-of-ann of ann\n", "\n4     planter   holds-another  claim ", "\n6     dan       not-loaded     -\n",
			} {
				if !strings.Contains(did, want) {
					t.Errorf("want %q, got\n%s", want, did)
				}
			}
			if strings.Contains(did, theItem) {
				t.Errorf("it prints an item:\n%s", did)
			}
			at := time.Date(2026, 3, 1, 9, 0, 0, 123e6, time.UTC)
			held, err := w.bank.HeldClaim(t.Context(), w.name, "ann")
			if err != nil || held.ID != "id-of-ann" || held.Items[0] != theItem || !held.ClaimedAt.Equal(at) || !held.EndsAt.IsZero() {
				t.Errorf("unexpected claim %+v, %v", held, err)
			}
			var report itembank.ReplayReport
			if err := json.Unmarshal([]byte(w.replay(replayCommand{}, outputJSON, exitDone, anns)), &report); err != nil || report.Already != 1 || len(report.Lines) != 1 {
				t.Errorf("unexpected report %+v, %v", report, err)
			}
			w.reconcile(reconcileCommand{Campaign: w.name}, exitDone)
		}
	})
}

// TestReplayFromStore: the store is an older copy of another one. Since the copy ann's code was burned, bob and cid
// claimed, dan was forgotten, and operators loaded and withdrew.
func TestReplayFromStore(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\n"))
	s.run(exitDone, "claim", "spring", "ann")
	s.run(exitDone, "claim", "spring", "dan")
	s.file("new.db", s.read("oncebox.db"))
	release := func(claimant string) {
		var claim struct {
			ClaimID string `json:"claim_id"`
		}
		s.json(&claim, "claim", "spring", claimant)
		s.run(exitDone, "release", "spring", claimant, "--claim-id", claim.ClaimID)
	}
	release("ann")
	s.run(exitDone, "forget", "spring", "dan", "--yes")
	s.run(exitDone, "load", "spring", s.file("more.txt", "B-1\n"))
	bobs := s.run(exitDone, "claim", "spring", "bob").stdout
	s.run(exitDone, "load", "spring", s.file("last.txt", "C-1\nC-2\n"))
	s.run(exitDone, "withdraw", "spring", s.file("withdrawn.txt", "C-1\n"), "--yes")
	s.run(exitDone, "campaign", "set", "spring", "--page-size", "7")

	fresh := []string{"--store", "sqlite:new.db"}
	in := func(code int, args ...string) result { return s.run(code, append(slices.Clone(fresh), args...)...) }
	in(exitDone, "campaign", "close", "spring", "--restored")
	in(exitUsage, "replay", "spring", "--from", "sqlite:oncebox.db").saying(t, "--from sqlite:oncebox.db: spring is open there",
		"`oncebox --store sqlite:oncebox.db campaign close spring --moved` closes it.")
	s.run(exitDone, "campaign", "close", "spring")
	in(exitLook, "replay", "spring", "--from", "sqlite:oncebox.db", "--dry-run").saying(t, "the mark restored stays: close all campaigns")
	s.run(exitDone, "campaign", "close", "spring", "--moved")
	in(exitDone, "replay", "spring", "--from", "sqlite:oncebox.db", "--dry-run").saying(t,
		"would have replayed 1, already 0, of other campaigns 0, refused 0 of 1 line; nothing was changed\n",
		"closed 2 claims that the other store no longer has, ended 0 items\n",
		"operators: 1 withdrawal of items in the other store only, 0 taken over\n",
		"operators: 2 loads of items in the other store only, 1 taken over\n",
		"operators: other settings in the other store, not taken over: page-size\n",
		"the mark restored would be cleared\n")
	in(exitDone, "replay", "spring", "--from", "sqlite:oncebox.db", "--dry-run", "--take", "loads,withdrawals").saying(t,
		"operators: 2 loads of items in the other store only, 2 taken over\n", "1 withdrawal of items in the other store only, 1 taken over")
	if bobs == "" {
		t.Error("bob got no item")
	}
	in(exitUsage, "replay", "spring", "--from", "sqlite:new.db").saying(t, "spring is marked as restored there", "and not the copy")
	s.run(exitUsage, "replay", "spring", "--from", "sqlite:new.db").saying(t, "spring is not marked as restored", "campaign close spring --restored")
	for says, args := range map[string][]string{
		"name a file of claims, or a store with --from":                    {"replay", "spring"},
		"name a file of claims, or a store":                                {"replay", "spring", "x", "--from", "sqlite:oncebox.db"},
		"--take is for --from":                                             {"replay", "spring", "x", "--take", "loads"},
		`--from "other.db": must be sqlite:PATH or dynamodb:BANK,DEDUPE`:   {"replay", "spring", "--from", "other.db"},
		`--from "dynamodb:": must name both tables`:                        {"replay", "spring", "--from", "dynamodb:"},
		"Use --from dynamodb:BANK,DEDUPE, with the table of items and the": {"replay", "spring", "--from", "dynamodb:old-dedupe"},
		"--from sqlite:none.db: there is no such file":                     {"replay", "spring", "--from", "sqlite:none.db"},
	} {
		in(exitUsage, args...).saying(t, says)
	}
}

// TestReplayFromTables uses the two old tables, and two new ones that lack a claim.
func TestReplayFromTables(t *testing.T) {
	s := newShell(t)
	tables := rand.Text()
	s.env = localEngine(testengine.Dynoxide(t))
	in := func(store, what string, args ...string) result {
		return s.run(exitDone, append([]string{"--bank-table", store + "-bank-" + tables, "--dedupe-table", store + "-dedupe-" + tables, what}, args...)...)
	}
	for _, store := range []string{"old", "new"} {
		in(store, "init")
		in(store, "campaign", "create", "spring")
		in(store, "load", "spring", s.file("codes.txt", "A-1\n"))
	}
	in("old", "claim", "spring", "ann")
	in("old", "campaign", "close", "spring", "--moved")
	in("new", "campaign", "close", "spring", "--restored")
	from := func(store string) string {
		return fmt.Sprintf("dynamodb:%s-bank-%s,%s-dedupe-%s", store, tables, store, tables)
	}
	in("new", "replay", "spring", "--dry-run", "--from", from("old")).saying(t, "would have replayed 1, already 0,")
}

// TestMarksOfARestore checks what the marks refuse, what shows them, and how a person clears them.
func TestMarksOfARestore(t *testing.T) {
	for _, test := range []struct{ mark, hint string }{
		{"moved", "Use the new store. If no other store has the campaign: `oncebox campaign close hall --newer-claims-are-lost`."},
		{"restored", "`oncebox replay hall --from ...` replays the old store, and clears the mark."},
	} {
		t.Run(test.mark, func(t *testing.T) { marksOfARestore(t, test.mark, test.hint) })
	}
}

func marksOfARestore(t *testing.T, mark, hint string) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "hall", "--hold", "15m")
	s.run(exitDone, "load", "hall", s.file("codes.txt", "A-1\nA-2\n"))
	s.run(exitDone, "claim", "hall", "ann")
	s.run(exitDone, "campaign", "close", "hall", "--"+mark)
	says := "the campaign is marked as " + mark
	for _, args := range [][]string{
		{"claim", "hall", "ann"}, {"withdraw", "hall", "--all", "--yes"}, {"sweep", "hall"}, {"forget", "hall", "ann", "--yes"},
		{"claim", "block", "hall", "bob"}, {"campaign", "set", "hall", "--by-times"},
	} {
		s.run(exitNo, args...).saying(t, says)
	}
	s.run(exitNo, "campaign", "open", "hall").saying(t, says, hint)
	s.run(exitDone, "campaign", "show", "hall").saying(t, "mark        "+mark)
	s.run(exitDone, "status", "hall").saying(t, "mark     "+mark)
	s.run(exitDone, "campaign", "close", "hall")
	s.run(exitNo, "campaign", "open", "hall").saying(t, says)
	s.run(exitDone, "campaign", "open", "hall", "--newer-claims-are-lost").saying(t, "given up: ", "The newest claim in this store was made at ")
	s.run(exitDone, "claim", "hall", "ann")
	s.run(exitUsage, "campaign", "close", "hall", "--moved", "--restored").saying(t, "can't be used together")
}

// TestOpenUntilReconciled checks that a campaign that was closed for a replay is not opened while it is inconsistent.
func TestOpenUntilReconciled(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\n"))
	s.run(exitDone, "campaign", "close", "spring", "--until-reconciled")
	s.run(exitDone, "campaign", "show", "spring").saying(t, "mode        closed-until-reconciled")
	damaged := s.read("oncebox.db")
	s.sql("DELETE FROM bank WHERE item = 'A-2'")
	s.run(exitNo, "campaign", "open", "spring").saying(t, "spring: the campaign stays closed until reconcile finds no inconsistency: it found 1",
		"`oncebox reconcile spring` shows them.")
	s.run(exitNo, "claim", "spring", "ann")
	s.file("oncebox.db", damaged)
	s.run(exitDone, "campaign", "open", "spring")
	s.run(exitDone, "claim", "spring", "ann")
}

// TestReplayBadLines checks that one bad line is enough to change nothing.
func TestReplayBadLines(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		w := newFixture(t, store, itembank.Settings{})
		w.load()
		if err := w.bank.CloseCampaign(t.Context(), w.name); err != nil {
			t.Fatal(err)
		}
		good := fmt.Sprintf(`{"claimant":"ann","item":%q}`, theItem)
		for bad, says := range map[string]string{
			`ann,A-1`:            `line 2: claim: is not a JSON object such as {"claimant":"ann","item":"A-1"}`,
			`{"claimant":"bob"`:  "line 2: claim: is not a JSON object",
			`{"claimant":7}`:     "line 2: claim: is not a JSON object",
			`{"item":"B"}`:       "line 2: claimant: is empty",
			`{"claimant":"bob"}`: "line 2: item: is empty",
			`{"claimant":"bob","item":"B","claimed_at":"tomorrow"}`: `line 2: claimed_at: "tomorrow" is not a time; use 2027-03-01T09:00:00Z`,
			`{"claimant":"bob","item":"B","ends_at":"never"}`:       `line 2: ends_at: "never" is not a time`,
			strings.Repeat(" ", maxClaimLine) + good:                "line 2: claim: is longer than 262144 bytes",
		} {
			if got := w.replay(replayCommand{}, outputText, exitUsage, good, bad); !strings.HasPrefix(got, "claims.ndjson: "+says) {
				t.Errorf("want %q, got %q", says, got)
			}
		}
		if got := w.state(); got != "free" {
			t.Errorf("the item is %s", got)
		}
	})
}
