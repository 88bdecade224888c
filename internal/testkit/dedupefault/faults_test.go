package dedupefault

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/search"
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
				search.Some(t, shares.of(e), faultsOf(calls), make(chan struct{}, 1), func(f callFault) error {
					return playFault(t.Context(), play, f)
				})
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
			s.Instances = 2
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

type callFault = search.Injection[Method, Way]

// planOf plans a fault of one call. If it lasts, so many of the next calls of the method also fail.
func planOf(f callFault) Plan {
	left := 1 + lastingCalls
	return func(n int, method Method) Fault {
		if left == 0 || !f.Hits(n, method) {
			return Fault{}
		}
		left--
		return Fault{Way: f.Fault}
	}
}

// playFault plays a scenario with a fault.
func playFault(ctx context.Context, p Play, f callFault) error {
	p.Plan = planOf(f)
	calls, err := p.Run(ctx)
	if err == nil && len(calls) <= f.Call {
		err = fmt.Errorf("the fault was never met: the function made %d calls", len(calls))
	}
	return err
}

// faultsOf returns all faults of the calls.
func faultsOf(calls []Method) []callFault { return search.Injections(calls, waysOf, Way.lasts) }
