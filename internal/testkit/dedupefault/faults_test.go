package dedupefault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFaults plays each scenario without a fault, and then again for each call of the function and each way in which
// that call can fail.
func TestFaults(t *testing.T) {
	shares := shares{
		SQLiteMemory.Name: 12, SQLiteFile.Name: 80, Dynoxide.Name: 250, DynamoDBLocal.Name: 2000,
		DynoxideLog.Name: 250, DynamoDBLocalLog.Name: 2000,
	}
	if testing.Short() {
		shares[Memory.Name], shares[MemoryLog.Name] = 16, 24 // make check plays all
	}
	OnEveryEngine(t, func(t *testing.T, e Engine) {
		for _, s := range e.scenarios() {
			t.Run(s.Name+string(s.Sink), func(t *testing.T) {
				t.Parallel()
				play := Play{Scenario: s, Engine: e.Open(t)}
				calls, err := play.Run(t.Context())
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				played := 0
				for _, f := range faultsOf(calls) {
					if rand.IntN(shares.of(e)) > 0 {
						continue
					}
					played++
					if err := f.play(t.Context(), play); err != nil {
						t.Errorf("%s (%s): %v", f, calls[f.at], err)
					}
				}
				t.Logf("%d calls, %d faults", len(calls), played)
			})
		}
	})
}

// scenarios lists the scenarios that run on an engine. Each runs with a sink of every level that the engine has. If
// the processes of the engine remember records, it also runs with several processes.
func (e Engine) scenarios() (all []Scenario) {
	for _, s := range Scenarios {
		if s.needsTx() && !e.hasTx() {
			continue
		}
		if slices.ContainsFunc(LogEngines, func(log Engine) bool { return log.Name == e.Name }) {
			twoInstances(&s)
		}
		all = append(all, s)
		if !e.hasTx() {
			continue
		}
		s.Sink = Transactional
		all = append(all, s)
		if s.Parallel <= 1 && !slices.ContainsFunc(s.Steps, func(step Step) bool { return step.Do == Switch }) {
			s.Sink = Objects
			all = append(all, s)
		}
	}
	return all
}

// callFault is the fault of one call of a scenario.
type callFault struct {
	at    int // the number of the call, from 0
	way   Way
	lasts bool // the next calls of the method also fail
}

func (f callFault) String() string {
	if f.lasts {
		return fmt.Sprintf("%s at call %d and the next", f.way, f.at)
	}
	return fmt.Sprintf("%s at call %d", f.way, f.at)
}

func (f callFault) plan() Plan {
	left, failing := lastingCalls, Method("")
	return func(n int, method Method) Fault {
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

// play plays a scenario with the fault.
func (f callFault) play(ctx context.Context, p Play) error {
	p.Plan = f.plan()
	calls, err := p.Run(ctx)
	if err == nil && len(calls) <= f.at {
		err = fmt.Errorf("the fault was never met: the function made %d calls", len(calls))
	}
	return err
}

// faultsOf returns all faults of the calls.
func faultsOf(calls []Method) (all []callFault) {
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
