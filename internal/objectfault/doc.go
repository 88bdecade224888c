// Package objectfault plays the dedupe function with an object sink, in virtual time, and checks that each record is in
// one object (guarantee G11) and none is lost (G6).
//
//   - history.go: what happens, at random by a seed: producers, batches, redrives, restarts, faults of each call.
//   - world.go: the stream, the event source mapping, the function in several containers, and the redrive.
//   - judge.go: reads back all objects below the prefix.
//   - mutants.go: object sinks of which a rule is broken. The search must find each.
package objectfault
