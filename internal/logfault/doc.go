// Package logfault plays the log ledger in several processes on a storage in memory, and checks the guarantees G6 to G9
// by what its callers were told, and the log row by row.
//
//   - history.go: what happens, at random by a seed: records, batches, processes.
//   - world.go: plays a history. Every call of the storage is a point where the seed says which process goes on.
//   - port.go: the storage as a process sees it, with lost and late effects and stale reads.
//   - store.go: the storage, which deletes what is past its purge time.
//   - judge.go: the guarantees.
//   - fits.go: whether the memory of a process suffices.
//   - shrink.go: makes a history smaller that breaks one.
//   - mutants.go: rules of the ledger that are broken. The search must find each.
package logfault
