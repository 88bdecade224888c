package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
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
	err := c.replay(w.Context(), a, w.bank, claimsOf(open))
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
			if err != nil || held.ID != "id-of-ann" || held.Item != theItem || !held.ClaimedAt.Equal(at) || !held.EndsAt.IsZero() {
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

// TestReplayFromStore checks that claims which an older copy of a store lacks are read from the newer one.
func TestReplayFromStore(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\nA-2\nA-3\n"))
	s.run(exitDone, "claim", "spring", "ann")
	s.run(exitDone, "backup", "old.db")
	time.Sleep(2 * time.Millisecond) // times are in milliseconds
	since := time.Now().UTC().Format(time.RFC3339Nano)
	s.run(exitDone, "claim", "spring", "bob")
	old := []string{"--store", "sqlite:old.db"}
	s.run(exitDone, append(old, "campaign", "close", "spring", "--until-reconciled")...)
	would := func(n, already int, more ...string) {
		t.Helper()
		args := append(append(old, "replay", "spring", "--from", "sqlite:oncebox.db", "--dry-run"), more...)
		s.run(exitDone, args...).saying(t, fmt.Sprintf("would have replayed %d, already %d, of other campaigns 0, refused 0 of", n, already))
	}
	would(1, 1)
	would(1, 0, "--since", since)
	for says, args := range map[string][]string{
		"name a file of claims, or a store with --from":             {"replay", "spring"},
		"name a file of claims, or a store":                         {"replay", "spring", "x", "--from", "sqlite:oncebox.db"},
		"--since is for --from":                                     {"replay", "spring", "x", "--since", since},
		`--from "other.db": must be sqlite:PATH or dynamodb:TABLE`:  {"replay", "spring", "--from", "other.db"},
		`--from "dynamodb:": must be sqlite:PATH or dynamodb:TABLE`: {"replay", "spring", "--from", "dynamodb:"},
		"--from sqlite:none.db: there is no such file":              {"replay", "spring", "--from", "sqlite:none.db"},
	} {
		s.run(exitUsage, append(old, args...)...).saying(t, says)
	}
}

// TestReplayFromTable uses a new dedupe table that lacks a claim, and the old table that has it.
func TestReplayFromTable(t *testing.T) {
	s := newShell(t)
	tables := rand.Text()
	s.env = append(localEngine(testengine.Dynoxide(t)), "ONCEBOX_BANK_TABLE=bank-"+tables)
	before, after := []string{"--dedupe-table", "old-" + tables}, []string{"--dedupe-table", "new-" + tables}
	s.run(exitDone, append(before, "init")...)
	s.run(exitDone, append(before, "campaign", "create", "spring")...)
	s.run(exitDone, append(before, "load", "spring", s.file("codes.txt", "A-1\n"))...)
	s.run(exitDone, append(before, "claim", "spring", "ann")...)
	s.run(exitDone, append(before, "campaign", "close", "spring")...)
	s.run(exitDone, append(after, "init")...)
	replay := append(after, "replay", "spring", "--dry-run", "--from")
	s.run(exitDone, append(replay, "dynamodb:old-"+tables)...).saying(t, "would have replayed 1, already 0,")
	s.run(exitDone, append(replay, "dynamodb:new-"+tables)...).saying(t, "would have replayed 0, already 0,")
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
