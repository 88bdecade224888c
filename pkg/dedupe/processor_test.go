package dedupe_test

import (
	"os"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// testCase is one requirement on a Processor, for every engine.
type testCase struct {
	name string
	run  func(*fixture)
}

var cases = slices.Concat(
	decodeCases, decideCases, deliverCases, ackCases, partCases, framingCases, orderCases, queueCases, refusedCases, txCases, objectCases, redriveCases,
)

// TestProcessor runs all cases, in memory and in `make check` on the other engines.
func TestProcessor(t *testing.T) {
	dedupefault.OnEngines(t, func(t *testing.T, e dedupefault.Engine) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(&fixture{TB: t, store: e.Open(t)})
			})
		}
	})
}

// TestMutants: each case finds the mutants that it must find.
func TestMutants(t *testing.T) {
	for _, m := range dedupefault.Mutants {
		for _, by := range m.CaughtBy {
			if by.Processor == "" {
				continue
			}
			t.Run(m.Name+"/"+by.Processor, func(t *testing.T) {
				t.Parallel()
				c := mutanttest.Named(t, cases, by.Processor, func(c testCase) string { return c.name })
				mutanttest.MustFail(t, func(tb testing.TB) {
					c.run(&fixture{TB: tb, store: dedupefault.Memory.Open(tb), mutant: &m})
				})
			})
		}
	}
}
