// Package idempotencyfault plays random histories of calls of package idempotency in several processes, on a store in
// memory. Some calls have effects in the transaction of their completion, which the store may refuse, and some keys are
// evicted. It checks the guarantees I1 to I8 on the rows of the store, on the executions of the function, on their
// effects, and on what callers get.
//
//   - history.go makes a history from a seed: calls, their functions, processes, and what goes wrong.
//   - world.go plays a history: its time jumps from event to event. A process can freeze, crash, and have wrong clocks.
//   - port.go is the store as a process sees it, with lost, late and repeated requests and stale reads.
//   - judge.go checks the guarantees.
//   - mixed.go adds functions with Powertools, which have the same keys and look at no token.
//
// The broken rules in mutants_test.go are changes of the source of the package and of the store. The search must find
// each of them.
package idempotencyfault
