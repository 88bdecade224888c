// Package dedupefault tests the dedupe function for records: it breaks things, and checks that the guarantees G6 to
// G11 (docs/guarantees.md) still hold.
//
//   - hook.go watches and breaks the calls of a store, a sink and a dead-letter store. It is the only way to do so.
//     Tests of package dedupe and of internal/records/offline use it, too.
//   - engines.go lists the engines on which tests for records run.
//   - log.go is the log ledger. Its calls to its storage pass through the hook, too, and the judge reads its rows.
//   - mutants.go, broken.go and brokenobjects.go hold the rules that are broken on purpose, each with the tests that
//     must find it.
//   - objects.go is the object sink. The calls to its storage fail, too, and the judge reads all objects at the end.
//   - scenario.go, world.go and fault.go play an event source mapping and the dedupe function in virtual time
//     (package eventsource). They decide which calls of the function fail.
//   - judge.go checks the result for each record. It reports a violation with all events, in order. A seed plays a
//     scenario the same way each time.
//
// The tests of this package play the whole dedupe function:
//
//   - TestFaults fails every call of every scenario once, in every way.
//   - TestFaultsAtTheWire breaks the requests between the SDK and the services.
//   - TestSeeds plays random scenarios with random faults. The seed of a scenario decides everything: producers,
//     shards, event source, instances, sink, clock and faults. A failing scenario is made smaller, and can be kept in
//     testdata/histories.
//   - TestKept plays the kept histories.
//   - TestQueues plays histories of queues, and TestObjects those of object sinks.
//   - TestOneByOne compares batches of all shapes with deciding the records one at a time.
//   - TestMutants plays scenarios with a broken rule, which the judge must find.
package dedupefault
