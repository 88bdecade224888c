// Package dedupefault breaks the calls that the record function makes, and what
// befalls its invocations, and checks that the guarantees G6 to G11
// (docs/guarantees.md) hold whatever was broken. The whole handler runs, over an
// emulated event source in virtual time (package eventsource):
//
//   - Run fails every call of every Scenario once, in every way;
//   - RunHistories plays random scenarios with random faults;
//   - RunOneByOne compares what comes of any batches, chunks and aggregates with
//     deciding the records one at a time;
//   - RunMutants plays scenarios with a rule broken, which must be found.
//
// What is checked is in judge.go. A failure comes with all that happened, in order:
// scenarios are played alike each time, by their seed.
package dedupefault
