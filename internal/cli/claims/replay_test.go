package claims

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
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
	if got := cli.ExitCode(w.Context(), err); got != code {
		w.Fatalf("want exit %d, got %d: %v", code, got, err)
	}
	if err != nil && code == cli.ExitUsage {
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
				w.reconcile(reconcileCommand{Campaign: w.name, Repair: true}, cli.ExitDone)
			}
			anns := fmt.Sprintf(`{"campaign":%q,"claimant":"ann","claim_id":"id-of-ann","item":%q,`+
				`"claimed_at":"2026-03-01T09:00:00.123Z","replayed":false}`, w.name, theItem)
			bobs := fmt.Sprintf(`{"claimant":"bob","item":%q}`, theItem)
			planters := `{"claimant":"planter","item":"nobody's"}`
			others := `{"campaign":"another","claimant":"cid","item":"C-1"}`
			lines := []string{anns, "", bobs, planters, others, `{"claimant":"dan","item":"nobody's"}`}

			would := w.replay(replayCommand{DryRun: true}, cli.OutputText, cli.ExitLook, lines...)
			did := w.replay(replayCommand{}, cli.OutputText, cli.ExitLook, lines...)
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
			if err := json.Unmarshal([]byte(w.replay(replayCommand{}, cli.OutputJSON, cli.ExitDone, anns)), &report); err != nil || report.Already != 1 || len(report.Lines) != 1 {
				t.Errorf("unexpected report %+v, %v", report, err)
			}
			w.reconcile(reconcileCommand{Campaign: w.name}, cli.ExitDone)
		}
	})
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
			if got := w.replay(replayCommand{}, cli.OutputText, cli.ExitUsage, good, bad); !strings.HasPrefix(got, "claims.ndjson: "+says) {
				t.Errorf("want %q, got %q", says, got)
			}
		}
		if got := w.state(); got != "free" {
			t.Errorf("the item is %s", got)
		}
	})
}
