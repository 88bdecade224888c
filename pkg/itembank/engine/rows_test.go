package engine_test

import (
	"slices"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestItemsOfAClaim: the items of a claim are one or several, and a block has none. One item takes one allocation.
func TestItemsOfAClaim(t *testing.T) {
	one := engine.Claim{Campaign: "c", Item: "a"}
	several := engine.Claim{Campaign: "c", Item: "a", More: engine.NewItemList("b", "d")}
	for _, test := range []struct {
		claim engine.Claim
		want  []string
	}{
		{one, []string{"a"}}, {several, []string{"a", "b", "d"}}, {engine.Claim{}, nil},
	} {
		if got := test.claim.Items(); !slices.Equal(got, test.want) {
			t.Errorf("%+v: want %q, got %q", test.claim, test.want, got)
		}
	}
	var items []string
	if got := testing.AllocsPerRun(100, func() { items = one.Items() }); got > 1 || len(items) != 1 {
		t.Errorf("one item takes %.0f allocations", got)
	}
}
