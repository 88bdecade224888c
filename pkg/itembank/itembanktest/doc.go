// Package itembanktest is the conformance suite of itembank's engines, with
// what tests need around a store: one that counts calls, one that fails them,
// a clock to move by hand, and the mutants that the suite must catch.
//
// An engine's own test is a few lines:
//
//	func TestConformance(t *testing.T) { itembanktest.Run(t, newEngine) }
//	func TestMutants(t *testing.T)     { itembanktest.RunMutants(t, newEngine) }
package itembanktest

import (
	"context"
	"slices"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Engine is a store under test, with a way round its rules.
type Engine struct {
	Store engine.Store
	Raw   Raw
}

// Raw writes single rows without any condition. The suite plants contradictions
// with it, and mutants undo a condition just before the store tests it.
type Raw interface {
	PutBankRow(ctx context.Context, item engine.FreeItem) error
	DropBankRow(ctx context.Context, item engine.FreeItem) error
	PutItemRow(ctx context.Context, campaign string, row engine.ListedItem) error
	DropItemRow(ctx context.Context, campaign string, h engine.Hash) error
	PutClaim(ctx context.Context, claim engine.Claim) error
	DropClaim(ctx context.Context, scope, claimant string) error
}

// Run runs the suite. newEngine may return the same engine for several cases: each
// works on campaigns of its own, and all run in parallel.
func Run(t *testing.T, newEngine func(*testing.T) Engine) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			engine := mutated(t, newEngine(t))
			c.run(&fixture{T: t, Engine: engine, ctx: t.Context(), name: freshName()})
		})
	}
}

// testCase is one thing that a store, or a Bank on it, must do.
type testCase struct {
	name string
	run  func(*fixture)
}

var cases = slices.Concat(storeCases, endStoreCases, repairStoreCases, claimCases, loadCases, endCases, withdrawCases, reconcileCases, repairCases)
