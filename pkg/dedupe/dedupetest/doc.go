// Package dedupetest is the conformance suite of dedupe's engines, with the
// random histories that try to break the guarantees, and the mutants that the
// suite must catch.
package dedupetest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Engine is a store under test, with a way round its rules.
type Engine struct {
	Store dedupe.Store
	Raw   Raw
}

// Raw does what only an engine's broom does.
type Raw interface {
	// DropEntry deletes an entry, as TTL deletion does.
	DropEntry(ctx context.Context, scope string, key dedupe.Key) error
}

// Run runs the suite. newEngine may return the same engine for several cases:
// each works in scopes of its own, and all run in parallel.
func Run(t *testing.T, newEngine func(*testing.T) Engine) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(&fixture{T: t, Engine: mutated(t, newEngine(t)), ctx: t.Context(), scope: freshScope()})
		})
	}
}

// testCase is one thing that an engine, or a Processor on it, must do.
type testCase struct {
	name string
	run  func(*fixture)
}

var cases = append(append(storeCases, processorCases...), historyCases...)

// fixture is what a case works with: the engine and a scope of its own.
type fixture struct {
	*testing.T
	Engine
	ctx   context.Context
	scope string
}

func freshScope() string { return "t-" + strings.ToLower(rand.Text()) }

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}
