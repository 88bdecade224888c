// Package sinktest is the conformance suite of sinks. It is for authors of sinks. A sink has one of three levels, and
// its documentation says which:
//
//   - at least once, a dedupe.Sink: AtLeastOnce. A record that is reported as delivered is in the sink. It may be
//     there
//     several times, always with the same id.
//   - objects, a dedupe.ObjectSink: each record is in exactly one committed object.
//   - transactional, a dedupe.TxSink: Transactional. The effect of a record happens once.
//
// A test of a transactional sink looks like this:
//
//	func TestConformance(t *testing.T) {
//		sinktest.Transactional(t, func(t testing.TB) sinktest.TxTarget {
//			store := openStore(t)
//			return sinktest.TxTarget{Sink: mysink.New(store), Entries: store, Effects: countRows(store)}
//		})
//	}
//
// The cases do not need an empty store, because their ids and scopes are random.
package sinktest
