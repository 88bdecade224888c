// Package logfault plays the log ledger in several processes on the log of package memlog. Items past their purge time
// are deleted. It checks the guarantees G6 to G9 on the answers that callers got, and on the log, row by row.
//
//   - history.go makes histories at random from a seed: records, batches, processes.
//   - world.go plays a history. At every call of the storage, the seed decides which process goes on.
//   - port.go is the storage as a process sees it, with lost and late effects and stale reads.
//   - judge.go checks the guarantees.
//   - fits.go calculates whether the memory of a process is large enough.
//   - shrink.go makes a failing history smaller.
//   - mutants.go holds broken rules of the ledger. The search must find each of them.
package logfault
