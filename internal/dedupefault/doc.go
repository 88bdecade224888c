// Package dedupefault is the harness of the tests for records: it breaks things, and checks that the guarantees G6 to
// G11 (docs/guarantees.md) hold all the same.
//
//   - hook.go: the one way to watch and to break the calls of a store, a sink and a dead-letter store. Tests of package
//     dedupe and of internal/offline use it too.
//   - engines.go: the engines on which tests for records run.
//   - log.go: the log ledger. Its calls to its storage pass through the hook as well, and the judge reads what is in it.
//   - mutants.go, broken.go: the rules that are broken on purpose, each with the tests that must find it.
//   - scenario.go, world.go, fault.go: what happens to an event source mapping and to the dedupe function, in virtual
//     time (package eventsource), and which calls of the function fail.
//   - judge.go: checks what became of the records. A violation is reported with all that happened, in order; a scenario
//     is played the same way each time, by its seed.
//
// The tests of this package play the whole dedupe function:
//
//   - TestFaults fails every call of every scenario once, in every way.
//   - TestFaultsAtTheWire breaks the requests between the SDK and the services.
//   - TestSeeds plays random scenarios with random faults. A seed decides all of one: producers, shards, event source,
//     instances, sink, clock and faults. What fails is made smaller, and can be kept in testdata/histories.
//   - TestKept plays the histories that are kept.
//   - TestOneByOne compares batches of all shapes with deciding the records one at a time.
//   - TestMutants plays scenarios with a rule broken, which the judge must find.
package dedupefault
