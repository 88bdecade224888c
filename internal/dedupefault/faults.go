package dedupefault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe/dedupetest"
)

// allVariable in the environment has all faults played, whatever the share.
const allVariable = "DEDUPEFAULT_ALL"

// Share returns n, or 1 if all faults are to be played.
func Share(n int) int {
	if PlayAll() {
		return 1
	}
	return n
}

// PlayAll reports that all faults are to be played.
func PlayAll() bool { return os.Getenv(allVariable) != "" }

// failure is the fault of one call of a scenario, by its number from 0.
type callFault struct {
	at    int
	way   Way
	lasts bool // and so do the method's next calls
}

// lastingCalls is how many calls of a method a fault lasts that does.
const lastingCalls = 6

func (f callFault) String() string {
	if f.lasts {
		return fmt.Sprintf("%s at call %d and the next", f.way, f.at)
	}
	return fmt.Sprintf("%s at call %d", f.way, f.at)
}

func (f callFault) plan() func(n int, method string) Fault {
	left, failing := lastingCalls, ""
	return func(n int, method string) Fault {
		switch {
		case n == f.at:
			failing = method
			return Fault{Way: f.way}
		case f.lasts && method == failing && left > 0:
			left--
			return Fault{Way: f.way}
		}
		return Fault{}
	}
}

// faultsOf names all faults of the calls.
func faultsOf(calls []string) (all []callFault) {
	for i, method := range calls {
		for _, way := range waysOf(method) {
			all = append(all, callFault{at: i, way: way})
			if way.lasts() {
				all = append(all, callFault{at: i, way: way, lasts: true})
			}
		}
	}
	return all
}

// Run plays each scenario without a fault, counts the function's calls, and then
// plays it again for each call and each way in which it fails: one in n of these,
// chosen at random, or all (see Share).
func Run(t *testing.T, newEngine func(*testing.T) dedupetest.Engine, n int) {
	n = Share(n)
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			calls, err := Play{Scenario: s, Engine: e}.Run(t.Context())
			if err != nil {
				t.Fatalf("without a fault: %v", err)
			}
			played := 0
			for _, f := range faultsOf(calls) {
				if rand.IntN(n) > 0 {
					continue
				}
				played++
				if err := playFault(t.Context(), Play{Scenario: s, Engine: e}, f); err != nil {
					t.Errorf("%s (%s): %v", f, calls[f.at], err)
				}
			}
			t.Logf("%d calls, %d faults", len(calls), played)
		})
	}
}

func playFault(ctx context.Context, p Play, f callFault) error {
	p.Plan = f.plan()
	calls, err := p.Run(ctx)
	if err == nil && len(calls) <= f.at {
		err = fmt.Errorf("the fault was never met: the function made %d calls", len(calls))
	}
	return err
}
