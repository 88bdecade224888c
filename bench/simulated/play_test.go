package simulated

import (
	"testing"

	"github.com/oncebox/oncebox/internal/enginerows"
)

// TestPlay: every item goes to one claimant, and the same seed makes the same requests.
func TestPlay(t *testing.T) {
	t.Parallel()
	var requests [2]int
	for i := range requests {
		s, err := Play(7, 2_000, 16, 32, func(int, *Store) {})
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
		if s.Lost == 0 {
			t.Error("no race was lost: the workers do not run at once")
		}
		requests[i] = s.Requests
	}
	if requests[0] != requests[1] {
		t.Errorf("the same seed took %d and %d requests", requests[0], requests[1])
	}
}
