package dedupe

import (
	"context"
	"iter"
)

// Store is what the engines of this module offer, each with one row a key. Nothing needs all of it.
type Store interface {
	Ledger
	Entries
	Acks
	Consumers
	Runs
}

// Ledger says of records whether they were seen before. An engine is a Ledger; package enginetest has its suite.
type Ledger interface {
	// Enter enters records, with the result of entering them one by one, in order. The answers are in the order of the
	// records. A record whose answer has an error is not decided, and says nothing about the others. If the call returns
	// an error, no record is decided. In both cases some may have been entered.
	//
	// Entering a record again is safe at any time: it finds its own entry. An engine that is busy, throttled or out of
	// reach returns an error of the family ErrTryAgain.
	Enter(ctx context.Context, q Question) ([]Answer, error)
}

// Question is what a Ledger is asked.
type Question struct {
	Scope     string // name space of keys
	Retention Retention
	// KeepIDs says that no id is derived: a record whose key has an entry with another fingerprint is answered with
	// Other at once.
	KeepIDs bool
	// Records are the records in order. Of a poison record only the owner is set: it is not entered, and its answer is
	// not read.
	Records []Candidate
}

// Found says what a Ledger has found under the key of a record.
type Found int

// What a Ledger finds.
const (
	NotKnown Found = iota // the engine failed: Answer.Err says why
	Put                   // nothing: the entry is now this record's
	Mine                  // an entry of this record
	Same                  // an entry of another record with the same fingerprint
	Other                 // entries with other fingerprints, under all ids that may be derived
)

// Answer is what a Ledger has found for one record.
type Answer struct {
	Found Found
	// Derived is how many ids were derived for the record, up to MaxDerivations, before the one under which this was
	// found: 0 is its own id. With Same it may be 0 in any case, since a copy is not delivered.
	Derived int
	Err     error // with NotKnown
}

// Entries is what an engine implements that stores one row a key. EnterByKey makes the answers of a Ledger of it.
//
// For both methods: reads are strongly consistent. An engine that is busy, throttled or out of reach returns an error
// of the family ErrTryAgain; the call may have had its effect then. Both methods are safe to repeat.
type Entries interface {
	// PutIfAbsent puts each entry whose key is free in its scope. A key is free if it has no entry, or one whose purge
	// time is before the arrival of the new entry. The owner is not part of the condition: the record that holds an
	// entry finds it like every other record.
	//
	// The keys of one call differ. The results are in the order of the entries. An entry that fails says nothing about
	// the others. If the call returns an error, nothing is known about any entry.
	PutIfAbsent(ctx context.Context, entries []Entry) ([]PutResult, error)

	// RaisePurge raises the purge time of each entry to at least the one given, if the entry still belongs to the owner
	// given. A purge time is never lowered. Results and errors are as those of PutIfAbsent.
	RaisePurge(ctx context.Context, raises []RaiseRequest) ([]RaiseResult, error)
}

// Finder is what an engine with one row a key implements for a preview: it reads entries and changes nothing.
type Finder interface {
	// Find returns the entries of keys, in their order, and nil for a key without an entry. It reads consistently. An
	// entry that is purged but not deleted may be returned. An engine that is busy, throttled or out of reach returns an
	// error of the family ErrTryAgain.
	Find(ctx context.Context, scope string, keys []Key) ([]*Existing, error)
}

// PutResult is the answer to one put: the entry was put, or there was one already.
type PutResult struct {
	Existing *Existing // the entry that has the key; nil if the new one was put
	Err      error
}

// RaiseRequest asks for a later purge time.
type RaiseRequest struct {
	Scope   string
	Key     Key
	Owner   Digest // of the record that holds the entry
	PurgeAt int64  // epoch seconds, or Never
}

// RaiseResult is the answer to one RaiseRequest.
type RaiseResult struct {
	Raised bool // the entry belongs to the owner, and its purge time is now at least the one asked for
	Err    error
}

// Warmer is a Ledger that can prepare for a scope before its first batch: it loads what it keeps in memory, or opens
// connections. Package kinesishandler calls it. Who opens a ledger closes it.
type Warmer interface {
	// Warm prepares the ledger. Without it, or after an error, the first batch takes longer.
	Warm(ctx context.Context, scope string, r Retention) error
}

// Acks store which records are done. They save work and repeats: a record whose ack is lost is processed again.
type Acks interface {
	// ReadAcks returns the acks of a shard and sink that reach into the sequence numbers from first to last. It reads
	// consistently. It may return others as well.
	ReadAcks(ctx context.Context, key AckKey, first, last string) ([]Ack, error)
	// WriteAck stores an ack. It changes no other. It is safe to repeat.
	WriteAck(ctx context.Context, key AckKey, a Ack) error
}

// AckKey names the acks of a shard. The sink is part of it, since a record that is done for one is not done for
// another, and the scope, so that a new scope replays a stream.
type AckKey struct {
	Scope  string
	Stream Stream
	Shard  string
	Sink   string
}

// Ack says which records of a chunk are done: delivered, dropped as duplicates, or dead-lettered. It names each of
// them; a range would also cover records that are not done.
type Ack struct {
	First, Last string // the lowest and the highest sequence number among the records
	Owners      []byte // OwnerMark of each record, one after the other
	PurgeAt     int64  // epoch seconds, or Never
}

// OwnerMarkSize is the length of an OwnerMark in bytes.
const OwnerMarkSize = 8

// OwnerMark is what an Ack stores of an owner. With 64 bits, a batch of 10,000 records that comes again together with
// 10,000 others skips one of these wrongly once in 10^11 times.
type OwnerMark [OwnerMarkSize]byte

// Marks are the marks in Owners.
func (a Ack) Marks() iter.Seq[OwnerMark] {
	return func(yield func(OwnerMark) bool) {
		for rest := a.Owners; len(rest) >= OwnerMarkSize; rest = rest[OwnerMarkSize:] {
			if !yield(OwnerMark(rest)) {
				return
			}
		}
	}
}

// Mark returns the owner's mark.
func (o Owner) Mark() OwnerMark {
	digest := o.Digest()
	return OwnerMark(digest[:OwnerMarkSize])
}

// Consumers remember which function reads a stream in a scope.
type Consumers interface {
	// ClaimConsumer makes a function the consumer of a scope and stream, unless there is one, and returns the consumer.
	ClaimConsumer(ctx context.Context, scope string, stream Stream, function string) (consumer string, err error)
}

// Runs store the progress of offline runs.
type Runs interface {
	// ReadRun returns the latest run with a digest, or nil if there is none.
	ReadRun(ctx context.Context, scope, digest string) (*Run, error)
	// SaveRun stores a run, or replaces it.
	SaveRun(ctx context.Context, scope string, r Run) error
}

// Run is the progress of an offline run. A run that was cut off continues from here under the same id, after its files
// were cut to these sizes.
type Run struct {
	Digest      string // of inputs and options
	ID          string // part of the owners of its records
	Finished    bool
	Input       int64 // bytes of the inputs that are done
	Lines       int64 // lines of the inputs that are done
	Output      int64 // bytes of the output file
	DeadLetters int64 // bytes of the dead-letter file
	Tally       Tally
	// About is what the program of the run says of it, for the history of an engine that has one. Other engines do not
	// store it.
	About string
}
