package dedupe

import (
	"context"
	"iter"
	"time"
)

// Store has all interfaces that this module's engines with one row for each key implement. No caller needs all of them.
// ByKey makes a Ledger of them.
type Store interface {
	Ledger
	Entries
	Holds
	Acks
	Consumers
	Runs
}

// Ledger decides whether records were seen before. An engine implements it. Package enginetest has the suite.
type Ledger interface {
	// Enter enters records, with the same result as entering them one by one, in order. The answers are in the order of
	// the records. If an answer has an error, its record is not decided; the other records are. If the call returns an
	// error, no record is decided. In both cases some records may have been entered.
	//
	// Entering a record again is safe at any time: it finds its own entry. An engine that is busy, throttled or out of
	// reach returns an error of the family ErrTryAgain.
	Enter(ctx context.Context, q Question) ([]Answer, error)
}

// Question is a request to a Ledger.
type Question struct {
	Scope     string // the name space of the keys
	Retention Retention
	// KeepIDs says that no id is derived. If the entry of a record's key has another fingerprint, the answer is Other
	// at once.
	KeepIDs bool
	// Records are the records in order. A poison record is not entered: only its owner is set, and its answer is
	// ignored.
	Records []Candidate

	hold *holding // of the run of a batch that asks; nil: it needs none
}

// Found is the entry that a Ledger found under the key of a record.
type Found int

// The values of Found.
const (
	NotKnown  Found = iota // the engine failed; Answer.Err has the error
	Put                    // no entry: the record now holds a new one
	Mine                   // an entry of this record
	Same                   // an entry of another record with the same fingerprint
	Other                  // entries with other fingerprints, under its id and all ids that may be derived
	Forgotten              // no entry; entries that counted for its arrival may have been deleted. None was put.
)

// Answer is the answer of a Ledger for one record.
type Answer struct {
	Found Found
	// Derived is the number of ids that were derived for the record, up to MaxDerivations; 0: the entry is under its
	// own id. With Same it may be 0 in any case, because a copy is not delivered.
	Derived int
	Err     error // if NotKnown

	state *state
}

// state is what a Ledger made by ByKey adds to an answer, if the question has a hold. It is behind a pointer, so that
// records of other sources take no memory for it.
type state struct {
	held     bool   // the record holds its entry, for this run
	done     bool   // the effect of this record is done
	waitsFor Digest // this run holds the entry for another record with the same content: its owner
}

// value returns the state, or the zero state if there is none.
func (s *state) value() state {
	if s == nil {
		return state{}
	}
	return *s
}

// Entries is implemented by an engine that stores one row for each key. ByKey makes a Ledger of it.
//
// For both methods: reads are strongly consistent. An engine that is busy, throttled or out of reach returns an error
// of the family ErrTryAgain. The call may then have taken effect. Both methods are safe to repeat.
type Entries interface {
	// PutIfAbsent puts each entry whose key is free in its scope. A key is free if it has no entry, or an entry whose
	// purge time is before the arrival of the new entry, or a void entry of a run over files: see RunWatch. A void
	// entry is replaced only if it still has the owner that was read. Otherwise the owner is not part of the
	// condition: the record that holds an entry finds it like any other record.
	//
	// An engine whose entries can be deleted before a time puts no entry of an earlier arrival: see PutResult.Forgotten.
	//
	// The keys of one call differ. The results are in the order of the entries. If a result has an error, the others
	// are still valid. If the call returns an error, the state of all entries is unknown.
	PutIfAbsent(ctx context.Context, entries []Entry) ([]PutResult, error)

	// RaisePurge raises the purge time of each entry to at least the given time, if the entry still belongs to the
	// given owner. It never lowers a purge time. Results and errors are as for PutIfAbsent.
	RaisePurge(ctx context.Context, raises []RaiseRequest) ([]RaiseResult, error)
}

// Finder is implemented by an engine with one row for each key, for previews. It reads entries and changes nothing.
type Finder interface {
	// Find returns the entries of keys in their order, and nil for a key without an entry. It reads consistently. It
	// leaves out entries of runs over files whose lines are not saved. It may return an entry that is purged but not
	// deleted. An engine that is busy, throttled or out of reach returns an error of the family ErrTryAgain.
	Find(ctx context.Context, scope string, keys []Key) ([]*Existing, error)
}

// PutResult is the result of one put.
type PutResult struct {
	Existing *Existing // the existing entry of the key; nil if the new entry was put, or is Forgotten
	// Forgotten says that the key is free, but the new entry was not put: an entry that counted for its arrival may have
	// been deleted.
	Forgotten bool
	// Date is the engine's time when it replied, in whole seconds, rounded or cut off. It may be zero if the new entry has no
	// Hold.
	Date time.Time
	Err  error
}

// RaiseRequest is a request to raise a purge time.
type RaiseRequest struct {
	Scope   string
	Key     Key
	Owner   Digest // of the record that holds the entry
	PurgeAt int64  // epoch seconds, or Never
}

// RaiseResult is the result of one RaiseRequest.
type RaiseResult struct {
	Raised bool // the entry belongs to the owner, and its purge time is now at least the requested one
	Err    error
}

// Warmer is a Ledger that can prepare for a scope before its first batch: it loads its entries into memory, or opens
// connections. Package recordhandler calls it. The code that opened the ledger must close it.
type Warmer interface {
	// Warm prepares the ledger. Without this call, or if it fails, the first batch takes longer.
	Warm(ctx context.Context, scope string, r Retention) error
}

// Acks store which records are done. They save work and repeats. If an ack is lost, its records are processed again.
type Acks interface {
	// ReadAcks returns the acks of a shard and sink that overlap the sequence numbers from first to last. It reads
	// consistently. It may also return other acks.
	ReadAcks(ctx context.Context, key AckKey, first, last string) ([]Ack, error)
	// WriteAck stores an ack. It changes no other ack. It is safe to repeat.
	WriteAck(ctx context.Context, key AckKey, a Ack) error
}

// AckKey names the acks of a shard. It has the sink, because a record that is done for one sink is not done for
// another. It has the scope, so that a new scope replays a stream.
type AckKey struct {
	Scope  string
	Stream Stream
	Shard  string
	Sink   string
}

// Ack names the records of a chunk that are done: delivered, dropped as duplicates, or dead-lettered. It names each of
// them, because a range would also cover records that are not done.
type Ack struct {
	First, Last string // the lowest and the highest sequence number among the records
	Owners      []byte // OwnerMark of each record, one after the other
	PurgeAt     int64  // epoch seconds, or Never
}

// OwnerMarkSize is the length of an OwnerMark in bytes.
const OwnerMarkSize = 8

// OwnerMark is the form in which an Ack stores an owner. It has 64 bits. If a batch of 10,000 records comes again
// together with 10,000 other records, the probability that one of the others is skipped wrongly is 1 in 10^11.
type OwnerMark [OwnerMarkSize]byte

// Marks returns the marks in Owners.
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
	// ClaimConsumer makes a function the consumer of a scope and stream, if they have none, and returns their consumer.
	ClaimConsumer(ctx context.Context, scope string, stream Stream, function string) (consumer string, err error)
}
