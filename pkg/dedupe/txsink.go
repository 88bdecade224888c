package dedupe

import "context"

// TxSink is a sink whose store has transactions. The entry of a record and its effect are one transaction, so the
// effect happens once: a crash leaves both or neither.
//
// A Processor with a TxSink has no Ledger. It processes records with the same partition key or id one after the
// other, and all others at the same time.
type TxSink interface {
	// Check is as in Sink.
	Check(ctx context.Context, o Output) error

	// Transact puts the entry of a record and does the effect of its output, both or neither. It must check the entry
	// first: if the entry exists, the effect is not done, whatever the conditions of the effect say.
	//
	// Errors: a *PoisonError for an effect that can never be done, for example because an item is too large or
	// because a condition fails for another reason than a newer version; the family ErrTryAgain; any other error
	// means that settings or rights are wrong. After an error that is not a *PoisonError, the transaction may have
	// taken effect. It is safe to repeat: the repeat finds the entry.
	Transact(ctx context.Context, t Transaction) (TxResult, error)

	// RaisePurge is as in Entries.
	RaisePurge(ctx context.Context, raises []RaiseRequest) ([]RaiseResult, error)
}

// Transaction is the request to a TxSink for one record.
type Transaction struct {
	// Entry is put under the condition of Entries.PutIfAbsent. Its Done is set.
	Entry Entry
	// Finish says that the record already holds the entry, but that the entry is not Done: a function with another sink
	// put it. The condition is then that the entry belongs to Entry.Owner and is not Done.
	Finish bool
	Output Output
}

// TxResult is the result of a Transaction.
type TxResult struct {
	// Existing is the entry that was found, if the transaction had no effect. nil: it had its effect. With Finish, it
	// is the zero Existing if the entry is gone.
	Existing *Existing
	// Superseded says that the effect was not needed, because the store has a version of the same thing that is not
	// older. The entry is put, and is Done.
	Superseded bool
}
