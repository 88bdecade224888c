package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
)

// Injection is the fault of one call of a play. If it lasts, later calls of the method have it, too.
type Injection[Method, Fault ~string] struct {
	Call   int // its number, from 0
	Method Method
	Fault  Fault
	Lasts  bool
}

func (i Injection[M, F]) String() string {
	text := fmt.Sprintf("%s at call %d", i.Fault, i.Call)
	if i.Lasts {
		text += " and the next"
	}
	return fmt.Sprintf("%s (%s)", text, i.Method)
}

// Injections lists every fault for every call of a play. Some may last.
func Injections[M, F ~string](calls []M, faultsOf func(M) []F, mayLast func(F) bool) (all []Injection[M, F]) {
	for n, method := range calls {
		for _, fault := range faultsOf(method) {
			all = append(all, Injection[M, F]{n, method, fault, false})
			if mayLast(fault) {
				all = append(all, Injection[M, F]{n, method, fault, true})
			}
		}
	}
	return all
}

// Hits reports whether a call has the fault, as long as it lasts.
func (i Injection[M, F]) Hits(call int, method M) bool {
	return call == i.Call || i.Lasts && call > i.Call && method == i.Method
}

const allVariable = "ONCEBOX_PLAY"

// All reports whether the tests play everything, whatever their share is: ONCEBOX_PLAY=all.
func All() bool { return os.Getenv(allVariable) == "all" }

// Share returns n, or 1 if the tests play everything. A test picks one play in so many.
func Share(n int) int {
	if All() {
		return 1
	}
	return n
}

// Some plays one in share of the faults, picked at random, and as many at a time as there are turns. It fails the test
// for each with which something is wrong.
func Some[F fmt.Stringer](t testing.TB, share int, faults []F, turns chan struct{}, play func(F) error) {
	t.Helper()
	var all sync.WaitGroup
	played := 0
	for _, f := range faults {
		if rand.IntN(share) > 0 {
			continue
		}
		played++
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := play(f); err != nil {
				t.Errorf("%s: %v\n%s", f, err, Replay(t))
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d faults", played, len(faults))
}

// Replay returns the command that plays everything of a test that picks plays at random.
func Replay(t testing.TB) string {
	return fmt.Sprintf("replay: %s=all go test -run '^%s$'", allVariable, t.Name())
}
