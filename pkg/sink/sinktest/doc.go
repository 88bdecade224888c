// Package sinktest is the conformance suite of sinks. It has three levels; each sink says which one it has:
//
//   - transactional (dedupe.TxSink): the effect of each record once;
//   - objects (dedupe.ObjectSink): each record in one committed object;
//   - at least once (dedupe.Sink): each record with one id, however often it comes.
package sinktest
