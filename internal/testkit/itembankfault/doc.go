// Package itembankfault breaks the calls of itembank's engines, and checks that the guarantees G1 to G5
// (docs/guarantees.md) still hold.
//
//   - RunFaults fails every call of every Scenario, in every way.
//   - RunHistories records concurrent requests, some of which fail, and looks for
//     an order of the requests in which the model of claims explains all results.
//   - RunSequences plays histories of one client, and compares the rows with the model of claims (model.go).
//   - RunHalfVisible plays histories, and reconciles, on an engine whose transactions
//     become visible row by row.
//   - RunPairs kills and suspends a command after each of its calls, and runs another command there.
//   - RunKills kills processes that work on an engine.
//   - Mutants are engines with one broken rule. Each mutant names the tests that find it.
//
// A client repeats its call until it has an answer, as real clients do. So the tests do not require that a call
// succeeds. They check the answers, and the rows after all calls have ended.
//
// Other tests of claims also use Store, the engine that fails, and Clock.
package itembankfault
