package itembankfault

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

// Play is how a scenario is played.
type Play struct {
	Scenario Scenario
	Engine   itembanktest.Engine // prepares and checks
	Through  engine.Store        // acts; the engine's own if nil
	Random   io.Reader           // of the Banks; unpredictable if nil
	Fresh    bool                // a Bank that failed is replaced
	Full     bool                // read all rows in the end
	over     func()
	mutant   *mutant // breaks a rule, in Prepare too
}

// Run plays the scenario and returns the first violation of a guarantee.
func (p Play) Run(ctx context.Context) error {
	w := newWorld(ctx, p.Engine)
	if p.Random != nil {
		w.random = p.Random
		w.newBank()
	}
	if faulty, ok := p.Through.(*Faulty); ok {
		faulty.Slow = w.slow
		if p.mutant != nil {
			p.Through = w.mutate(p.mutant, faulty)
		}
	}
	return w.caught(func() {
		p.Scenario.Prepare(w)
		w.fresh, w.trace = p.Fresh, nil
		if p.over != nil {
			w.over = p.over
		}
		if p.Through != nil {
			w.through = p.Through
		}
		w.newBank() // a cold one
		p.Scenario.Act(w)
		w.rest(p.Full)
	})
}

// fullCheckEvery so many runs all rows are read. Scenarios of a wire engine would
// take most of their time with it.
const fullCheckEvery = 16

// Run plays each scenario without a fault, counts the calls that it makes, and then
// plays it again for each call and each way of failing: once and, where the engine
// just refuses, for as long as the client's call lasts; with the same Bank after it
// or with a fresh one. It plays one in n of these, chosen at random; where all is to be
// played (see Share), each, and with either Bank.
func Run(t *testing.T, newEngine func(*testing.T) itembanktest.Engine, n int) {
	n = Share(n)
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			calls, err := countCalls(t.Context(), s, e)
			if err != nil {
				t.Fatal(err)
			}
			played := 0
			one := n // in so many; fewer of what takes long
			if n > 1 {
				one += n * len(calls) / listParts
			}
			for _, f := range faultsOf(calls) {
				coin := rand.IntN(2) == 0
				for _, fresh := range []bool{false, true} {
					if rand.IntN(one) > 0 || !playAll() && fresh != coin {
						continue
					}
					played++
					if err := playFault(t.Context(), s, e, f, fresh, played%fullCheckEvery == 0); err != nil {
						t.Errorf("%s at call %d, %s (lasting %t, fresh Bank %t): %v\n%s", f.Way, f.At, calls[f.At], f.Lasting, fresh, err, Replay(t))
					}
				}
			}
			t.Logf("%d calls, %d faults", len(calls), played)
		})
	}
}

// allVariable in the environment has all faults played, whatever the share.
const allVariable = "ITEMBANKFAULT_ALL"

// Share returns n, or 1 if all faults are to be played.
func Share(n int) int {
	if playAll() {
		return 1
	}
	return n
}

// Replay says how to play all of what a test chose from at random.
func Replay(t *testing.T) string {
	return fmt.Sprintf("replay: %s=1 go test -run '%s'", allVariable, t.Name())
}

func playAll() bool { return os.Getenv(allVariable) != "" }

// countCalls plays a scenario without a fault.
func countCalls(ctx context.Context, s Scenario, e itembanktest.Engine) ([]string, error) {
	counting := &Faulty{Store: e.Store}
	if err := (Play{Scenario: s, Engine: e, Through: counting, Random: Seeded(), Full: true}).Run(ctx); err != nil {
		return nil, fmt.Errorf("without a fault: %w", err)
	}
	return counting.Calls(), nil
}

// faultsOf names all faults. Of a listing that takes an engine hundreds of reads in a
// row, the first, the last and one between stand for all.
func faultsOf(calls []string) (all []Fault) {
	for i, method := range calls {
		if inside(calls, i) && rand.IntN(listParts) > 0 {
			continue
		}
		for _, way := range waysOf(method) {
			all = append(all, Fault{At: i, Way: way})
			if way.refuses() {
				all = append(all, Fault{At: i, Way: way, Lasting: true})
			}
		}
	}
	return all
}

// listParts is how many reads a listing takes on DynamoDB.
const listParts = 64

// inside reports that a call is one of a listing, and not at its ends.
func inside(calls []string, i int) bool {
	method := calls[i]
	return (method == "ListClaims" || method == "ListItemRows") &&
		i > 0 && i < len(calls)-1 && calls[i-1] == method && calls[i+1] == method
}

func playFault(ctx context.Context, s Scenario, e itembanktest.Engine, f Fault, fresh, full bool) error {
	plan, over := failOnce(f)
	faulty := &Faulty{Store: e.Store, Plan: plan}
	err := Play{Scenario: s, Engine: e, Through: faulty, Random: Seeded(), Fresh: fresh, Full: full, over: over}.Run(ctx)
	if made := len(faulty.Calls()); err == nil && made <= f.At {
		err = fmt.Errorf("the fault was never met: the scenario made %d calls", made)
	}
	return err
}

// Seeded is a source of the same bytes for every play, so that all plays make the
// same calls until one fails.
func Seeded() io.Reader { return &lockedReader{r: rand.NewChaCha8([32]byte{6})} }

type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}
