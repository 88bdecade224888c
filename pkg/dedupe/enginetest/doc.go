// Package enginetest is the test suite for engines of package dedupe. An engine must pass the suite of its kind.
// There are two kinds:
//
//   - Every engine is a dedupe.Ledger. RunLedger tests that its answers keep the guarantees of records. Rules says
//     which further guarantees this engine gives, such as entries that are kept for ever.
//   - An engine with one row for each key is also a dedupe.Store. Run tests its rows, acks, consumers and runs. Such an
//     engine passes both suites, RunLedger with the rules OneRowAKey.
//
// The other rules of records (poison, chunks, delivery) are not part of the suites, because package dedupe implements
// them, not the engine.
//
// The tests of an engine with one row for each key look like this:
//
//	func TestEngine(t *testing.T) {
//		enginetest.Run(t, func(t *testing.T) dedupe.Store { return open(t) })
//	}
//
//	func TestLedger(t *testing.T) {
//		enginetest.RunLedger(t, enginetest.OneRowAKey, func(t testing.TB, _ func() time.Time) dedupe.Ledger {
//			return open(t) // the same data each time
//		})
//	}
//
// An engine that stores entries in another way has only the second test, with its own Rules.
//
// RunStorage is the suite for storages of package logledger.
//
// The cases run in parallel, each in scopes of its own, so they may share one store or one server. They use arrivals
// from the year 2050 on, so that an engine that deletes by real time deletes nothing while they run. In the cases of
// consumers and in ledger/race an engine may return dedupe.ErrTryAgain: the case then repeats the call. In all other
// cases ErrTryAgain is a failure.
//
// The comments in ledgercases.go and cases.go say what each case requires. Some frequent mistakes of ledgers:
//
//   - A record must be compared with all entries of its id that count for it, its own first (ledger/derived,
//     ledger/owner-before-content).
//   - An entry also counts for a record that arrived before it (ledger/window).
//   - The answers must be the same as for the records one by one, in order (ledger/in-order, ledger/histories).
//   - A batch from days ago may come between current batches (ledger/late-batch).
//
// Some frequent mistakes of engines with one row for each key:
//
//   - The owner is not part of the condition of a put (case store/owner-is-not-a-condition).
//   - The purge time decides whether an entry counts, not whether the row still exists
//     (store/purged-entries-are-absent).
//   - Sequence numbers are compared as numbers of up to 128 digits (store/acks).
//   - Two acks may end at the same record, and neither replaces the other (store/acks-of-one-end).
//   - If several functions claim a stream at the same time, all get the same consumer (store/consumer-race).
package enginetest
