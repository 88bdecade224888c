package enginetest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Run runs all cases as parallel subtests of t. open returns the engine under test. It may return the same engine each
// time.
func Run(t *testing.T, open func(*testing.T) dedupe.Store) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}

// Case is one requirement on every engine.
type Case struct {
	Name string
	test func(*fixture)
}

// Cases returns all cases, for a test that runs them one by one.
func Cases() []Case { return append([]Case(nil), cases...) }

// Run runs the case on an engine. The case uses its own scope.
func (c Case) Run(t testing.TB, store dedupe.Store) {
	c.test(&fixture{TB: t, ctx: t.Context(), store: store, scope: newScope()})
}

// fixture is the environment of a case.
type fixture struct {
	testing.TB
	ctx   context.Context
	store dedupe.Store
	scope string
}

func newScope() string { return "t-" + strings.ToLower(rand.Text()) }

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}
