// Package objectfault plays the dedupe function with an object sink in virtual time. It checks that each record is in
// one object (guarantee G11) and that no record is lost (G6).
//
//   - history.go makes histories at random from a seed: producers, batches, redrives, restarts, and faults of each
//     call.
//   - world.go plays the stream, the event source mapping, the function in several containers, and the redrive.
//   - judge.go reads all objects below the prefix.
//   - mutants.go holds object sinks with a broken rule. The search must find each of them.
package objectfault
