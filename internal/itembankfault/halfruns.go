package itembankfault

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// halfRun is a run on a halfVisible engine. It can be repeated, as far as the Banks draw their
// random numbers in the same order.
type halfRun struct {
	seed   uint64
	spread time.Duration // see halfVisible
}

// halfWay is the longest time that a request or a reply takes.
const halfWay = 4 * time.Millisecond

var halfSpreads = []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond}

func drawHalfRun(t *rapid.T) *halfRun {
	return &halfRun{seed: rapid.Uint64().Draw(t, "seed"), spread: rapid.SampledFrom(halfSpreads).Draw(t, "spread")}
}

// start returns the engine of the clients, over that of the world, which sees all of every
// transaction. The world's clock and random numbers become those of the run.
func (r halfRun) start(w *World) engine.Store {
	w.clock, w.random = newBubbleClock(), seededBy(r.seed)
	w.newBank()
	return newHalfVisible(w.engine.Store, r.seed, halfWay, r.spread)
}

// begin waits until a client begins: one after the other, while a transaction may be running.
func (r halfRun) begin(client int) {
	random := rand.New(rand.NewPCG(r.seed, uint64(client)))
	time.Sleep(time.Duration(random.Int64N(int64(2*halfWay + r.spread))))
}

// seededBy returns a source of random bytes.
func seededBy(seed uint64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return &lockedReader{r: rand.NewChaCha8(key)}
}

// inBubble runs f in a synctest bubble, with an engine in memory.
func inBubble(t *testing.T, f func(context.Context, enginetest.Engine) error) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.NewItems()
		err = f(t.Context(), enginetest.Engine{Store: s, Raw: s})
	})
	return err
}

// halfSearches are what is played on a halfVisible engine, by seed. Each returns the violation.
var halfSearches = map[string]func(t *testing.T, seed uint64, m *Mutant) error{
	"histories": func(t *testing.T, seed uint64, m *Mutant) error {
		return playInBubble(t, halfPrograms.Example(int(seed)), m)
	},
	"reconcile": func(t *testing.T, seed uint64, m *Mutant) error {
		return inBubble(t, func(ctx context.Context, e enginetest.Engine) error { return reconcileInAStorm(ctx, e, seed, m) })
	},
	// A claimant who asks twice at the same time for the last item gets it twice, and never hears
	// that it is sold out.
	"last-item-asked-for-twice": halfScenario([][]op{
		{{kind: claimOp, claimant: "ann"}},
		{{kind: claimOp, claimant: "ann", bank: 1}},
	}),
	// A claimant who releases a seat, and asks again beside it, is never told of the seat once
	// another claimant has it.
	"seat-passed-on": halfScenario([][]op{
		{{kind: claimOp, claimant: "ann"}, {kind: releaseOp, claimant: "ann"}},
		slices.Repeat([]op{{kind: claimOp, claimant: "ann", bank: 1}}, 10),
		slices.Repeat([]op{{kind: claimOp, claimant: "bob"}}, 10),
	}),
	// A seat that is claimed and released while it is being loaded is consistent.
	"load-under-way": halfScenario([][]op{
		{{kind: loadOp, items: []string{"item-1", "item-2", "item-3"}}},
		slices.Repeat([]op{{kind: claimOp, claimant: "ann"}, {kind: releaseOp, claimant: "ann"}}, 10),
		slices.Repeat([]op{{kind: claimOp, claimant: "bob", bank: 1}, {kind: releaseOp, claimant: "bob", bank: 1}}, 10),
	}),
	// A seat that is claimed while it is being loaded comes with its columns.
	"columns-under-way": halfScenario([][]op{
		{{kind: loadOp, items: []string{"item-2", "item-3", "item-4"}}},
		slices.Repeat([]op{{kind: claimOp, claimant: "ann"}}, 10),
		slices.Repeat([]op{{kind: claimOp, claimant: "bob", bank: 1}}, 10),
	}),
}

// halfScenario has clients that always ask for the same, without faults.
func halfScenario(clients [][]op) func(*testing.T, uint64, *Mutant) error {
	return func(t *testing.T, seed uint64, m *Mutant) error {
		return playInBubble(t, program{
			onEnd: itembank.Return, columns: true, loaded: []string{"item-0"}, clients: clients, faults: []Fault{None},
			half: &halfRun{seed, halfSpreads[seed%uint64(len(halfSpreads))]},
		}, m)
	}
}

func playInBubble(t *testing.T, p program, m *Mutant) error {
	return inBubble(t, func(ctx context.Context, e enginetest.Engine) error { return playProgram(ctx, e, p, m) })
}

// RunHalfVisible plays, on an engine in memory whose transactions become visible row by row, the
// scenarios and random programs of histories, and reconciles in a storm of requests. The number
// of seeds is rapid's flag -rapid.checks.
func RunHalfVisible(t *testing.T) {
	for name, play := range halfSearches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				if err := play(t, uint64(rapid.IntRange(0, 1<<62).Draw(rt, "seed")), nil); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// mostSeeds is the number of seeds that a mutant may survive.
const mostSeeds = 20_000

// MustBeFoundByHalfVisible fails the test if a search of RunHalfVisible does not find the mutant.
// Random searches are skipped unless everything is to be played.
func (m Mutant) MustBeFoundByHalfVisible(t *testing.T, search string) {
	t.Helper()
	if random := search == "histories" || search == "reconcile"; random && !playAll() {
		t.Skipf("%s=1 searches at random for the mutant", allVariable)
	}
	for seed := range uint64(mostSeeds) {
		if err := halfSearches[search](t, seed, &m); err != nil {
			t.Logf("found by seed %d: %s", seed, firstLine(err))
			return
		}
	}
	t.Errorf("survived %d seeds", mostSeeds)
}
