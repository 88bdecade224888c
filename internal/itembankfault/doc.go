// Package itembankfault breaks the calls of itembank's engines, and checks that the
// guarantees G1 to G5 (docs/guarantees.md) hold all the same.
//
//   - RunFaults fails every call of every Scenario, in every way.
//   - RunHistories records concurrent requests, with faults among them, and looks for
//     an order of the requests that explains all results.
//   - RunSequences plays random requests, one after the other, against a simple model.
//   - RunHalfVisible plays histories, and reconciles, on an engine whose transactions
//     become visible row by row.
//   - RunKills kills processes that work on an engine.
//   - Mutants are engines with one rule broken. Each says which tests find it.
//
// A client repeats its call until it has an answer, as real clients do. So no test
// checks that a call succeeds; they check what the answers say, and which rows are
// there when nothing moves.
//
// Store, the engine that fails, and Clock serve other tests of claims as well.
package itembankfault
