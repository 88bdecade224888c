package claims

import (
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestSweepOfClaims checks that the counts of a sweep match the item rows.
func TestSweepOfClaims(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		for _, test := range []struct {
			settings itembank.Settings
			output   string
			want     string
		}{
			{lending, "text", "returned 1, expired 0, withdrawn 0\n"},
			{lending, "json", `{"returned":1,"expired":0,"withdrawn":0}` + "\n"},
			{shortly, "text", "returned 0, expired 1, withdrawn 0\n"},
			{bothEnd, "json", `{"returned":0,"expired":1,"withdrawn":0}` + "\n"},
		} {
			w := newFixture(t, store, test.settings)
			w.load()
			claimByAnn(w)
			w.clock.Advance(aLife + 11*time.Second)
			a := w.app()
			a.Output = test.output
			if err := (sweepCommand{Campaign: w.name}).sweep(t.Context(), a, w.bank); err != nil || w.out.String() != test.want {
				t.Errorf("%+v: want %q, got %q, %v", test.settings, test.want, w.out.String(), err)
			}
		}
	})
}

// TestSweepPastInconsistencies checks that claims whose rows contradict each other are named, and that all others are
// swept.
func TestSweepPastInconsistencies(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		w := newFixture(t, store, lending)
		campaign, err := w.bank.Campaign(t.Context(), w.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.bank.Load(t.Context(), w.name, itembank.Items("A-1", "B-1", "B-2"), nil); err != nil {
			t.Fatal(err)
		}
		grant, err := w.bank.Claim(t.Context(), w.name, "ann")
		if err != nil {
			t.Fatal(err)
		}
		claimByBob(w)
		w.claimFor("cid")
		i := planter{fixture: w, campaign: campaign}.free(grant.Claim.Items[0])
		if done, err := store.Repair(t.Context(), engine.RepairRequest{Campaign: w.name, Hash: i.Hash, PutFree: &i, IfClaim: &engine.Claim{ID: grant.Claim.ID, Scope: grant.Claim.Scope, Claimant: grant.Claim.Claimant, Slot: 1}}); err != nil || !done {
			t.Fatalf("planting: %t, %v", done, err)
		}
		w.clock.Advance(aLife + 11*time.Second)
		for _, want := range []string{"returned 2, expired 0, withdrawn 0\n", "returned 0, expired 0, withdrawn 0\n"} {
			err = sweepCommand{Campaign: w.name}.sweep(t.Context(), w.app(), w.bank)
			if cli.ExitCode(t.Context(), err) != cli.ExitLook || !strings.Contains(err.Error(), grant.Claim.ID) || w.out.String() != want {
				t.Errorf("want %q and exit %d, got %q, %v", want, cli.ExitLook, w.out.String(), err)
			}
		}
	})
}
