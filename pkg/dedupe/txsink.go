package dedupe

import "context"

// TxSink is a sink whose store has transactions. The entry of a record and the effect of the record are one
// transaction, so the effect happens once: there is no moment at which a crash leaves one without the other.
//
// A Processor with a TxSink asks no Ledger. It deals with one record after the other where they depend on each other,
// because they have a partition key or an id in common, and with the others at the same time.
type TxSink interface {
	// Check is that of Sink.
	Check(ctx context.Context, o Output) error

	// Transact puts the entry of a record and does the effect of its output, both or none. It must find out first what
	// became of the entry: if the entry is there already, the effect is no concern of this record, whatever its own
	// conditions say.
	//
	// Errors: a *PoisonError for an effect that can never be done, such as an item that is too large, or a condition
	// that fails for another reason than a newer version; the family ErrTryAgain; any other error means that settings
	// or rights are wrong. After an error that is not a *PoisonError the transaction may have had its effect. Repeating
	// it is safe: it finds the entry.
	Transact(ctx context.Context, t Transaction) (TxResult, error)

	// RaisePurge is that of Entries.
	RaisePurge(ctx context.Context, raises []RaiseRequest) ([]RaiseResult, error)
}

// Transaction is what a TxSink does for one record.
type Transaction struct {
	// Entry is put under the condition of Entries.PutIfAbsent. It says that its effect is done.
	Entry Entry
	// Finish says that the record holds the entry already, and that the entry does not say that its effect is done: a
	// function put it that had another sink. The condition is then: the entry belongs to Entry.Owner, and is not done.
	Finish bool
	Output Output
}

// TxResult says what became of a Transaction.
type TxResult struct {
	// Existing is the entry that was found. The transaction had no effect then. nil: it had its effect. With Finish, an
	// entry that is gone is the zero Existing.
	Existing *Existing
	// Superseded says that the effect was not needed: the store has a version of the same thing that is not older. The
	// entry is there, and done.
	Superseded bool
}
