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

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// halfRun is one run on a halfVisible engine. It can be repeated if the Banks draw their random numbers in the same
// order.
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

// start returns the engine that the clients use. It wraps the world's own engine, which sees all rows of every
// transaction. The world's clock and random numbers become those of this run.
func (r halfRun) start(w *World) engine.Store {
	w.clock, w.random = newBubbleClock(), seededBy(r.seed)
	w.newBank()
	return newHalfVisible(w.engine.Store, r.seed, halfWay, r.spread)
}

// begin waits until a client begins. Clients begin one after the other, so that a transaction may be running.
func (r halfRun) begin(client int) {
	random := rand.New(rand.NewPCG(r.seed, uint64(client)))
	time.Sleep(time.Duration(random.Int64N(int64(2*halfWay + r.spread))))
}

// seededBy returns a source of random bytes that depends only on the seed.
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

// halfSearches are the tests that RunHalfVisible runs on a halfVisible engine. Each returns the violation of a
// guarantee for a seed.
var halfSearches = map[string]func(t *testing.T, seed uint64, m *Mutant) error{
	"histories": func(t *testing.T, seed uint64, m *Mutant) error {
		return playInBubble(t, halfPrograms.Example(int(seed)), m)
	},
	"reconcile":              inBubbles(reconcileInAStorm),
	"load-repeated":          inBubbles(cut(killLoad, repeatLoad)),
	"load-given-up":          inBubbles(cut(killLoad, giveLoadUp)),
	"repair-killed":          inBubbles(cut(killRepair, openAndRepairAgain)),
	"repair-repeated":        inBubbles(cut(killRepair, repairAgainAndOpen)),
	"repair-beside-a-repair": inBubbles(cut(killRepairBesideAnother, openAndRepairAgain)),
	"replay-killed":          inBubbles(cut(killReplay, openAtOnce)),
	"claims-during-a-forget": inBubbles(forgetWhileClaiming),
	// If a claimant asks twice at the same time for the last item, both answers have the item. No answer is "sold
	// out".
	"last-item-asked-for-twice": halfScenario([][]op{
		{{kind: claimOp, claimant: "ann"}},
		{{kind: claimOp, claimant: "ann", bank: 1}},
	}),
	// A claimant releases a seat, and asks again at the same time. No answer names the seat after another claimant
	// got it.
	"seat-passed-on": halfScenario([][]op{
		{{kind: claimOp, claimant: "ann"}, {kind: releaseOp, claimant: "ann"}},
		slices.Repeat([]op{{kind: claimOp, claimant: "ann", bank: 1}}, 10),
		slices.Repeat([]op{{kind: claimOp, claimant: "bob"}}, 10),
	}),
	// A seat is claimed and released while it is being loaded. It stays consistent.
	"load-under-way": halfScenario([][]op{
		{{kind: loadOp, items: []string{"item-1", "item-2", "item-3"}}},
		slices.Repeat([]op{{kind: claimOp, claimant: "ann"}, {kind: releaseOp, claimant: "ann"}}, 10),
		slices.Repeat([]op{{kind: claimOp, claimant: "bob", bank: 1}, {kind: releaseOp, claimant: "bob", bank: 1}}, 10),
	}),
	// A seat is claimed while it is being loaded. The answer has its columns.
	"columns-under-way": halfScenario([][]op{
		{{kind: loadOp, items: []string{"item-2", "item-3", "item-4"}}},
		slices.Repeat([]op{{kind: claimOp, claimant: "ann"}}, 10),
		slices.Repeat([]op{{kind: claimOp, claimant: "bob", bank: 1}}, 10),
	}),
}

// inBubbles makes a search of a play on an engine in memory, in a synctest bubble.
func inBubbles(
	play func(context.Context, enginetest.Engine, uint64, *Mutant) error,
) func(*testing.T, uint64, *Mutant) error {
	return func(t *testing.T, seed uint64, m *Mutant) error {
		return inBubble(t, func(ctx context.Context, e enginetest.Engine) error { return play(ctx, e, seed, m) })
	}
}

// halfScenario plays clients that make fixed requests, without faults.
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

// RunHalfVisible uses an engine in memory whose transactions become visible row by row. On it, it plays the scenarios
// and random histories, and reconciles during a storm of requests. rapid's flag -rapid.checks sets the number of
// seeds.
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

// mostSeeds is the number of seeds after which a mutant counts as not found.
const mostSeeds = 20_000

// MustBeFoundByHalfVisible fails the test if a search of RunHalfVisible does not find the mutant. It skips random
// searches unless the tests play everything.
func (m Mutant) MustBeFoundByHalfVisible(t *testing.T, name string) {
	t.Helper()
	if random := name == "histories" || name == "reconcile"; random && !search.All() {
		t.Skip("it takes long: " + search.Replay(t))
	}
	search.First(t, mostSeeds, func(seed int) error { return halfSearches[name](t, uint64(seed), &m) })
}
