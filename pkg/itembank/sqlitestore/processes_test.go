package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// claimEverything claims for new claimants, without a pause, until the campaign is sold out.
func claimEverything(ctx context.Context, path, name string) (any, error) {
	// A long time-out, because the machine may be busy.
	s, err := Open(ctx, path, WithBusyTimeout(time.Minute))
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	bank := itembank.NewOperator(s)
	claims := map[string]string{} // claimant to item
	sqlitetest.Ready()
	for i := 0; ; i++ {
		claimant := fmt.Sprintf("%s-%d", name, i)
		grant, err := bank.Claim(ctx, "c", claimant)
		if errors.Is(err, itembank.ErrSoldOut) {
			return claims, nil
		}
		if err != nil {
			return nil, err
		}
		claims[claimant] = grant.Claim.Items[0]
	}
}

// contestedItems is large enough that all processes work at the same time.
const contestedItems = 3000

func TestProcessesClaimEachItemOnce(t *testing.T) {
	path := inTemp(t)
	s, c := newStore(t, path, contestedItems)
	var all []*sqlitetest.Process
	for i := range 4 {
		all = append(all, sqlitetest.Start(t, "claim everything", path, fmt.Sprintf("process %d", i)))
	}
	began := time.Now()
	for _, p := range all {
		p.Proceed(t)
	}
	holder := map[string]string{}
	for _, p := range all {
		var claims map[string]string
		p.Result(t, &claims)
		for claimant, item := range claims {
			if other, twice := holder[item]; twice {
				t.Errorf("%s was given to %q and to %q", item, other, claimant)
			}
			holder[item] = claimant
			checkHeld(t, s, claimant, item)
		}
	}
	t.Logf("%.0f claims/s", float64(len(holder))/time.Since(began).Seconds())
	if len(holder) != contestedItems {
		t.Errorf("%d of %d items were given", len(holder), contestedItems)
	}
	want := engine.Counts{Loaded: contestedItems, Claimed: contestedItems}
	if n, err := s.Counts(t.Context(), c, true); err != nil || n != want {
		t.Errorf("counts are %+v (%v), want %+v", n, err, want)
	}
}

func checkHeld(t *testing.T, s *Store, claimant, item string) {
	t.Helper()
	held, _, err := s.HeldClaim(t.Context(), engine.ClaimKey{Scope: "c", Claimant: claimant, Slot: 1}, engine.Strong)
	if err != nil || held == nil || held.Item != item {
		t.Errorf("%q was told %s, the store says %+v (%v)", claimant, item, held, err)
	}
}
