// Package enginetest is the test suite for engines of package dedupe that store one row a key: see dedupe.Store. An
// engine is right if it passes the suite. The rules of records (retries, duplicates, poison, chunks) are not part of
// it, since package dedupe has them and no engine.
//
// An engine's test looks like this:
//
//	func TestEngine(t *testing.T) {
//		enginetest.Run(t, func(t *testing.T) dedupe.Store {
//			store, err := myengine.Open(t.Context(), filepath.Join(t.TempDir(), "ledger"))
//			if err != nil {
//				t.Fatal(err)
//			}
//			return store
//		})
//	}
//
// The cases run in parallel, each in scopes of its own, so they may share one store or one server. They use arrivals in
// the year 2050, so that an engine that deletes by the real clock deletes nothing while they run. In the cases of
// consumers an engine may return dedupe.ErrTryAgain: the case then repeats the call. In all other cases ErrTryAgain is
// a failure.
//
// What each case wants is in cases.go. Some points that engines get wrong:
//
//   - The owner is not part of the condition of a put (case store/owner-is-not-a-condition).
//   - The purge time decides whether an entry counts, not whether the row is still there
//     (store/purged-entries-are-absent).
//   - Sequence numbers are compared as numbers of up to 128 digits (store/acks).
//   - Two acks may end at the same record, and neither replaces the other (store/acks-of-one-end).
//   - Of several functions that claim a stream at the same time, all learn the same one (store/consumer-race).
package enginetest
