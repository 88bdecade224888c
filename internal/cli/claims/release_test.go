package claims

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestReleaseOfEndedItem: an item whose life has ended expires, whatever --on-end says.
func TestReleaseOfEndedItem(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
			for output, want := range map[string]string{"text": "released; the item has expired", "json": `"outcome":"expired"`} {
				w := newFixture(t, store, itembank.Settings{ItemLife: aLife, OnEnd: onEnd})
				w.load()
				claimByAnn(w)
				w.clock.Advance(aLife)
				a := w.app()
				a.Output = output
				err := releaseCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", slotFlag: slotFlag{1}}, Yes: true}.release(t.Context(), a, w.bank)
				if err != nil || !strings.Contains(w.out.String(), want) || w.state() != string(engine.Expired) {
					t.Errorf("%s: want %q, got %q, %v; the item is %s", onEnd, want, w.out.String(), err, w.state())
				}
			}
		}
	})
}

// TestReleaseSettlesHeldAndEnded: after the release there is no inconsistency.
func TestReleaseSettlesHeldAndEnded(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, store engine.Store) {
		w := newFixture(t, store, itembank.Settings{})
		inconsistencies["held-and-ended"](w.plants())
		w.reconcile(reconcileCommand{Campaign: w.name}, cli.ExitLook)
		w.out.Reset()
		err := releaseCommand{oneClaim: oneClaim{Campaign: w.name, Claimant: "ann", slotFlag: slotFlag{1}}, Yes: true}.release(t.Context(), w.app(), w.bank)
		if want := "released; the item was withdrawn before, no claimant gets it again\n"; err != nil || w.out.String() != want {
			t.Errorf("want %q, got %q, %v", want, w.out.String(), err)
		}
		if r := w.reconcile(reconcileCommand{Campaign: w.name}, cli.ExitDone); len(r.Inconsistencies) != 0 {
			t.Errorf("after the release: %+v", r.Inconsistencies)
		}
	})
}

// TestReleasedTexts: a release says what became of an item that had ended in any way.
func TestReleasedTexts(t *testing.T) {
	t.Parallel()
	for _, state := range []engine.ItemState{engine.Burned, engine.Expired, engine.Withdrawn, engine.Lost, engine.Replaced} {
		text := releaseJSON{Outcome: string(state)}.text()
		if !strings.Contains(text, string(state)) || !strings.HasSuffix(text, "no claimant gets it again") {
			t.Errorf("%s: got %q", state, text)
		}
	}
}
