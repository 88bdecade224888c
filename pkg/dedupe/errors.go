package dedupe

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrTryAgain is the family of errors that may pass by themselves: the ledger, the sink or the dead-letter store
	// was busy, throttled or out of reach. The call may have had its effect. It is safe to repeat.
	ErrTryAgain = errors.New("dedupe: try again")

	// ErrOtherConsumer says that another function reads the stream in the same scope. Each function would take the
	// entries of the other for its own, so each record would be delivered twice.
	ErrOtherConsumer = errors.New("dedupe: another function reads this stream in the same scope; " +
		"give each consumer a scope of its own")

	// ErrOtherLedger says that the stream was read with another kind of ledger in the same scope. A ledger does not see
	// the entries of another one, so copies of earlier records would be delivered.
	ErrOtherLedger = errors.New("dedupe: this stream was read with another ledger in the same scope, and this ledger does " +
		"not see its entries; set ONCEBOX_LEDGER to the former ledger, or choose a new scope")

	// ErrWrongSetting says that nearly all records are poison for one reason. Then a setting is wrong, such as the
	// path of the id or the address of an API, and not the records. The batch fails, and nothing is dead-lettered.
	ErrWrongSetting = errors.New("dedupe: nearly all records are poison for one reason, so a setting is wrong; " +
		"check the format, the path of the id and the sink")

	// ErrSharedSequence says that two records of a batch have the same sequence number, so that they cannot be
	// distinguished. Lambda sends such records of a stream under enhanced fan-out, because it then opens KPL aggregates
	// itself. The same message twice in a batch of a queue is no error.
	ErrSharedSequence = errors.New("dedupe: two records of the batch share a sequence number")

	// ErrInWork says that a message, or a copy of it, is in progress until a lease ends: another run of a batch holds it, or
	// the copy is in this batch and has failed. The message comes again, and is decided then. That is no failure: a queue
	// delivers messages at least once.
	ErrInWork = errors.New("dedupe: this message or a copy of it is in progress, and not known to be done; it comes again")

	// ErrNoHolds says that the ledger does not store whether the effect of a message of a queue is done.
	ErrNoHolds = errors.New("dedupe: this ledger does not store which messages of a queue are done; set ONCEBOX_LEDGER to " +
		"keys and choose a new scope, or set ONCEBOX_ACKS=off")

	// errLeaseOver says that a run of a batch of a queue has stood still past its lease.
	errLeaseOver = fmt.Errorf("%w: the lease of the invocation is over, and another one may send the message", ErrTryAgain)

	// errTakenOver says that the entry of a message whose effect is done belongs to another run, or to another message whose
	// id is the same.
	errTakenOver = fmt.Errorf("%w: another invocation or message has the entry of this message now, so its effect may come "+
		"again", ErrTryAgain)

	// ErrNotABatch says that the sequence numbers of a batch are not ascending numbers.
	ErrNotABatch = errors.New("dedupe: the records are not a batch of one shard in order")

	// ErrForgotten makes a record poison whose Answer would be Forgotten. It is for engines with transactions.
	ErrForgotten error = &PoisonError{reasonTooOld}

	// errIncomplete says that a sink or a dead-letter store did not do all of its work, but returned no error.
	errIncomplete = errors.New("dedupe: the sink or the dead-letter store did only a part and returned no error")

	// errCutShort says that a batch ended before its last record, but without a failure.
	errCutShort = errors.New("dedupe: the batch ended before its last record: a part has ended its goroutine")

	// errNoWindow says that the Decider has no window. It would decide every copy as a new record.
	errNoWindow = errors.New("dedupe: the Decider has no Retention: it needs a Window above 0, or ForGood")

	// errNoIdentity says that a candidate lacks its id, fingerprint or owner. It would be confused with other records.
	errNoIdentity = errors.New("dedupe: a Candidate needs an ID, a Fingerprint and an Owner with a Sequence")

	// errMisfit says that an answer of a ledger or a sink does not fit what it was asked.
	errMisfit = errors.New("dedupe: the answer does not fit the question")
)

// checkNumber returns an error unless there are as many answers as records were asked about.
func checkNumber(answers, asked int, err error) error {
	if err == nil && answers != asked {
		err = fmt.Errorf("%w: %d answers for %d records", errMisfit, answers, asked)
	}
	return err
}

// graver returns the first of two errors that is a failure, unlike nil and ErrInWork.
func graver(first, then error) error {
	if then != nil && (first == nil || errors.Is(first, ErrInWork)) {
		return then
	}
	return first
}

// networkError is net.Error, without package net.
type networkError interface {
	error
	Timeout() bool
	Temporary() bool
}

// mayPass reports whether an error of a format or a sink says nothing about the record, so that the record is tried
// again.
func mayPass(err error) bool {
	_, network := errors.AsType[networkError](err)
	return network || errors.Is(err, ErrTryAgain) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
