// Package idempotency runs a function once for a key, and gives its result to every later call with the key.
//
// The key names one operation. The caller chooses it: an order number, the id of a message, the Idempotency-Key of an
// HTTP request. The function can be any Go function: a handler of AWS Lambda, of HTTP, or of a queue.
//
// # What a crash can still do
//
// An effect outside of the store can happen twice. If the process dies after the function has charged a card, and
// before its result is stored, nobody knows of the charge. The next call runs the function again. The same happens if
// the process is frozen for longer than its lease. So give what the function calls one of these:
//
//   - an idempotency key: [Execution.KeyFor] is the same in every execution of the key;
//   - a fence: [Execution.Number] grows with every execution. What keeps the largest number that it has seen, and
//     refuses smaller ones, is safe from a process that wakes late.
//
// After a crash the key is blocked until the lease is over (30 seconds by default). Then the next call runs the
// function.
//
// # Use
//
//	runner, err := idempotency.New(store, "payments", idempotency.Settings{Window: 24 * time.Hour})
//	...
//	out, err := idempotency.Do(ctx, runner, request.Key, request.Order, pay)
//	// out.Value is the receipt, in every call with the key.
//
//	func pay(ctx context.Context, e idempotency.Execution, order Order) (Receipt, error) {
//		return bank.Charge(ctx, order.Card, order.Amount, e.KeyFor("charge"))
//	}
//
// [Do] stores results as JSON. [Runner.Do] stores bytes. A Runner needs an engine; package engine has the contract.
// [WithObserver] reports what happened in each call, and [LogTo] writes that as log lines and metrics. Packages oncehttp
// and oncelambda serve HTTP.
//
// A function must not call Do with its own key: it would wait for itself.
//
// # Effects in the store
//
// Writes in the database of the record need neither: they happen once if the store does them together with the result.
// [Execution.Commit] takes them from the function. See Effects in packages dynamostore and sqlitestore.
//
// # Words
//
//   - A key is a name within a namespace. The payload is the input of the call; only its hash is stored.
//   - An execution is one run of the function under a key. It has a random token, and a number.
//   - A lease is the time in which an execution holds the key. A heartbeat prolongs it.
//   - A record is the row of a key. It is in progress or completed.
//   - The window is how long a completed record counts, from its completion.
//   - A twin is another call with the key while an execution holds it.
//   - A replay is the answer from a completed record.
//   - A take-over is an execution that begins after the lease of another has ended.
//
// # Guarantees
//
//   - I1, one result. Within the window all calls of a key that get a result get the same one, byte for byte.
//   - I2, one at a time. A second execution begins only after the first has failed and said so, or after its lease.
//   - I3, what is completed stays. No late, failing or superseded execution overwrites or removes a completed record
//     within its window, or runs the function again.
//   - I4, a lost reply is no twin. An execution whose put took effect goes on, and one whose completion took effect has
//     completed, also if the reply was lost.
//   - I5, a result is never a reason to run again. A result that cannot be stored completes the record without it.
//     Later calls get [ErrResultNotStored].
//   - I6, another payload is refused while the record of a key counts: completed and within its window, or in progress
//     and within its lease.
//   - I7, effects in the same transaction happen once: they are written together with the result, or not at all
//     ([Execution.Commit]). A superseded execution has none.
//   - I8, failures free the key. An error of the function makes the next call run it again, unless the function says
//     that the failure is its result ([Final]). A panic frees the key and goes on.
//
// # Errors, and what is safe to repeat
//
// Every call is safe to repeat with the same key and payload.
//
//	error                  the function has run  a repeat
//	ErrInvalid             no                    fails until the input is corrected
//	ErrOtherPayload        no                    is refused while the record counts
//	ErrResultNotStored     yes, before           is refused within the window
//	ErrResultUnreadable    yes                   is refused within the window
//	FailedError            yes                   gets the same error within the window
//	ErrInProgress          another call runs it  gets its result when that call has completed
//	ErrLeaseLost           yes                   gets the result of another execution, or runs the function
//	ErrOutcomeUnknown      yes                   gets the result if it was stored, or runs the function
//	other ErrTryAgain      no                    does what the first call would have done
//	error of the function  yes                   runs the function
//	refused effects        yes                   runs the function
//	error of the context   no                    does what the first call would have done
//	error of the store     no                    fails until its cause is removed
//
// The last four can leave the key blocked until its lease is over, if a write took effect and its reply was lost.
//
// # Time
//
// All times of records come from the store: from the Date of its replies. The clock of the process only measures how
// much time has passed since a reply. It may be wrong, and may be set at any moment. Two bounds of the store's time are
// used. The early one decides whether the lease or the window of another is over. The late one decides how much is left
// of the own lease, and when a result expires. They are about two seconds apart, so everything that waits for an end
// waits up to two seconds longer.
//
// The context of the function ends when a tenth of the lease is left, at most 5 seconds. Its cause is [ErrLeaseLost].
// A function that goes on can still complete, as long as no other execution has the key.
//
// Choose a lease of at least ten times the slowest usual reply of the store. With a shorter lease, heartbeats come too
// late.
//
// # Operators
//
// [Runner.Explain] says what the next call of a key gets, and why. [Runner.Evict] frees a key before its window or its
// lease is over. Then I1 to I3 begin anew: the function runs again, and a second effect is possible. The commands
// "oncebox idempotency show", "explain" and "evict" call them.
//
// # Limits
//
//   - A namespace or a key: 1 to 1,024 bytes. A namespace has none of the characters # * ? and $ ([CheckNamespace]).
//   - A result: the engine's MaxResult. A larger one is not stored (I5).
//   - The content type of a result: valid UTF-8. A result with another one is not stored (I5).
//   - The text of a final failure: its first 4,096 bytes are stored, or as many as MaxResult.
//   - The window: a second to 10 years. The lease: 5 seconds to 24 hours.
//
// # Not promised
//
//   - That the function runs at most once. See "What a crash can still do".
//   - An order of calls.
//   - Anything about programs that write the rows without these rules.
//
// # Files
//
// To follow a call, read do.go, then call.go (begin: whose row is it?), hold.go (run, heartbeat, complete, release),
// effects.go (effects in the same transaction), turns.go (calls in one process), cache.go (copies of completed records)
// and times.go (leases, expiries and numbers from the store's time). observe.go reports calls, and operate.go is for
// operators.
package idempotency
