package main

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func TestHolds(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "seats", "--hold", "15m")
		s.run(exitDone, "campaign", "create", "seats", "--hold", "15m").saying(s.T, "exists already")
		s.run(exitDone, "campaign", "show", "seats").saying(s.T, "claim life  forever\n", "hold        15m\n", "on end      return\n")
		s.run(exitDone, "load", "seats", s.file("seats.txt", "A-1\n"))
		var shown campaignJSON
		if s.json(&shown, "campaign", "show", "seats"); shown.Hold != "15m" || shown.OnEnd != itembank.Return {
			s.Errorf("unexpected %+v", shown)
		}

		var claim, confirmed claimapi.ClaimBody
		s.json(&claim, "claim", "seats", "ann")
		s.run(exitNo, "confirm", "seats", "ann", "--claim-id", "another").saying(s.T,
			"claim another of ann in seats: the claim has ended: the claimant holds another claim")
		s.run(exitNo, "confirm", "seats", "bob").saying(s.T, "no such claim: bob holds no item of seats")
		s.run(exitNo, "confirm", "seats", "bob", "--claim-id", claim.ClaimID).saying(s.T, "bob holds no item of seats")
		for _, args := range [][]string{{"--claim-id", claim.ClaimID}, nil} {
			s.json(&confirmed, append([]string{"confirm", "seats", "ann"}, args...)...)
			want := claim
			want.EndsAt, want.Replayed = "", true
			if claim.EndsAt == "" || !reflect.DeepEqual(confirmed, want) {
				s.Errorf("claimed %+v, confirmed %+v", claim, confirmed)
			}
		}
		s.run(exitDone, "confirm", "seats", "ann").saying(s.T, "A-1\n")
		s.run(exitDone, "release", "seats", "ann", "--yes").saying(s.T, "the item is in the bank again")
	})
}

func TestProlong(t *testing.T) {
	onStores(t, func(s *shell) {
		s.run(exitDone, "init")
		s.run(exitDone, "campaign", "create", "seats", "--hold", "30s", "--max-hold", "1h")
		s.run(exitDone, "campaign", "show", "seats").saying(s.T, "hold        30s\n", "max hold    1h\n")
		var shown campaignJSON
		if s.json(&shown, "campaign", "show", "seats"); shown.MaxHold != "1h" {
			s.Errorf("unexpected %+v", shown)
		}
		s.run(exitDone, "load", "seats", s.file("seats.txt", "A-1\n"))
		s.run(exitNo, "prolong", "seats", "ann").saying(s.T, "no such claim: ann holds no item of seats")
		var claim, longer claimapi.ClaimBody
		s.json(&claim, "claim", "seats", "ann")
		s.run(exitNo, "prolong", "seats", "ann", "--claim-id", "another").saying(s.T, "claim another of ann in seats: the claim has ended")
		for longer.EndsAt <= claim.EndsAt { // until the clock has moved on
			s.json(&longer, "prolong", "seats", "ann", "--claim-id", claim.ClaimID)
		}
		want := claim
		if want.EndsAt, want.Replayed = longer.EndsAt, true; !reflect.DeepEqual(longer, want) {
			s.Errorf("claimed %+v, prolonged %+v", claim, longer)
		}
		s.run(exitDone, "prolong", "seats", "ann").saying(s.T, "ends 20")
		s.run(exitDone, "confirm", "seats", "ann")
		s.run(exitDone, "prolong", "seats", "ann").saying(s.T, "ends never: the claim is confirmed\n")
	})
}

func TestHoldsAreChecked(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	create := func(says string, flags ...string) {
		s.run(exitUsage, append([]string{"campaign", "create", "seats"}, flags...)...).saying(t, says)
	}
	create("--on-end: must be return with --hold", "--hold", "15m", "--on-end", "burn")
	create("--claim-life: cannot be used with --hold:", "--hold", "15m", "--claim-life", "1h")
	create("--hold: must be from 30s", "--hold", "29s")
	create("--max-hold: must be longer than --hold (1h0m0s), or 0 for none; is 15m0s", "--hold", "1h", "--max-hold", "15m")
	create("--max-hold: needs --hold:", "--max-hold", "15m")
	s.env = append(s.env, "ONCEBOX_HOLD=15m")
	create("--hold is not taken from the environment")
	s.env = nil
	s.run(exitDone, "campaign", "create", "codes")
	s.run(exitUsage, "confirm", "codes", "ann").saying(t, "has no holds", "created with --hold")
	s.run(exitUsage, "confirm", "codes", "ann", "--claim-id", "").saying(t, "--claim-id is empty")
	s.run(exitDone, "campaign", "create", "short", "--hold", "15m")
	s.run(exitUsage, "campaign", "set", "short", "--max-hold", "1h").saying(t, "--max-hold", "claimants were told")
	s.run(exitUsage, "prolong", "short", "ann").saying(t, "no holds that can be prolonged", "created with --hold and --max-hold")
	s.run(exitUsage, "prolong", "short", "ann", "--claim-id", "").saying(t, "--claim-id is empty")
	s.run(exitNo, "confirm", "seats", "ann").saying(t, "no such campaign")
}

// TestLocalSweeps checks that an item returns from an ended hold without a request.
func TestLocalSweeps(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	s.run(exitDone, "init")
	store, err := sqlitestore.Open(t.Context(), filepath.Join(s.dir, "oncebox.db"))
	if err != nil {
		t.Fatal(err)
	}
	past := itembank.NewOperator(store, itembank.WithClock(anHourAgo{}))
	_, _, err = past.CreateCampaign(t.Context(), "seats", itembank.Settings{Hold: time.Minute, Shards: 1})
	_, errLoad := past.Load(t.Context(), "seats", itembank.Items("A-1"), nil)
	_, errClaim := past.Claim(t.Context(), "seats", "ann")
	if err := errors.Join(err, errLoad, errClaim, store.Close()); err != nil {
		t.Fatal(err)
	}
	anns := s.serve() + "/campaigns/seats/claims/ann"
	for {
		if got := s.send(http.MethodGet, anns, ""); got.status == http.StatusNotFound {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the hold is not swept")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

type anHourAgo struct{}

func (anHourAgo) Now() time.Time { return time.Now().Add(-time.Hour) }

func (anHourAgo) Sleep(context.Context, time.Duration) error { return nil }
