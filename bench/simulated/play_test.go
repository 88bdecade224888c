package simulated

import (
	"testing"
	"testing/synctest"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
)

// TestPlay: every item goes to one customer, and the same seed makes the same requests, since each container makes them
// one after the other.
func TestPlay(t *testing.T) {
	t.Parallel()
	var cost [2]Cost
	for i := range cost {
		synctest.Test(t, func(t *testing.T) {
			s, err := Play(Model{Seed: 7, Items: 2_000, Shards: 16, Latency: InRegion}, Customers(2_000), 32, nil)
			if err != nil {
				t.Fatal(err)
			}
			claims, _ := enginerows.List(enginerows.Rows{TB: t, Store: s}, s.Name(), s.ListClaims)
			given := map[string]bool{}
			for _, claim := range claims {
				given[claim.Item] = true
			}
			if len(claims) != 2_000 || len(given) != 2_000 {
				t.Errorf("want 2000 claims of as many items, got %d of %d", len(claims), len(given))
			}
			cost[i] = s.Cost()
		})
	}
	if cost[0].Lost == 0 {
		t.Error("no race was lost: the containers do not run at once")
	}
	if cost[0] != cost[1] {
		t.Errorf("the same seed made %+v and %+v", cost[0], cost[1])
	}
}
