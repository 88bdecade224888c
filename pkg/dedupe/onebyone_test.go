package dedupe_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestDeciderOneByOne: deciding a batch gives the same result as deciding its records one after the other, whatever
// keys they share.
func TestDeciderOneByOne(t *testing.T) {
	dedupefault.OnEngines(t, func(t *testing.T, e dedupefault.Engine) {
		t.Parallel()
		f := &fixture{TB: t, store: e.Open(t)}
		e.Randomly(t, 1, f.oneByOne)
	})
}

func (f *fixture) oneByOne(t *rapid.T) {
	ay := format.DerivedID("a", "y")
	ids := []string{"a", "b", ay, format.DerivedID(ay, "y"), format.DerivedID("b", "x")}
	together, apart := f.bench().decider(f.store), f.bench().decider(f.store)
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		var batch []dedupe.Candidate
		for range rapid.IntRange(1, 10).Draw(t, "records") {
			batch = append(batch, dedupe.Candidate{
				ID:          rapid.SampledFrom(ids).Draw(t, "id"),
				Fingerprint: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "fp"),
				Owner:       ownerNamed(fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "owner"))),
				Arrival:     epoch.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "arrival")) * time.Second),
			})
		}
		got := together.Decide(f.Context(), batch)
		for i, c := range batch {
			if want := apart.Decide(f.Context(), []dedupe.Candidate{c})[0]; got[i] != want {
				t.Fatalf("record %d of %+v: want %+v, got %+v", i, batch, want, got[i])
			}
		}
	}
}
