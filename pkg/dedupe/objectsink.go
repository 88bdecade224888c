package dedupe

import "context"

// ObjectSink is a sink that writes records into objects. Each object is written once or not at all. The objects show
// which records are done, so a Processor with an ObjectSink needs no acks, and each record is in one object. The
// mapping must deliver one batch of a shard at a time (parallelization 1), because an object covers all records from
// the first to the last sequence number that it has handled.
type ObjectSink interface {
	// Check is as in Sink.
	Check(ctx context.Context, o Output) error

	// Open finds the objects of a shard that overlap the sequence numbers from first to last.
	Open(ctx context.Context, key ChainKey, first, last string) (Chain, error)

	// CommitLetter writes the outputs of a dead letter, at least one, as a separate object with the letter's name. It
	// reports whether this call wrote the object: an existing object stays as it is.
	CommitLetter(ctx context.Context, key ChainKey, letter string, outputs []Output) (created bool, err error)
}

// ChainKey names the objects of a shard. It has the scope, so that a new scope replays a stream.
type ChainKey struct {
	Scope  string
	Stream Stream
	Shard  string
}

// Chain is the sequence of a shard's objects, for one batch. A Processor calls Done while a Commit is running: it
// decides the next records while it writes the records before. It does not call Commit twice at a time.
type Chain interface {
	// Done reports whether an object that Open found has handled the Kinesis record with this sequence number.
	Done(sequence string) bool

	// Commit writes records, in order, after the last object, in one object or several. It leaves out records that an
	// object of another writer has handled meanwhile. No other call is needed: there is nothing to undo after an
	// error or a crash.
	//
	// Errors: the family ErrTryAgain; an error of the context; any other error means that settings or rights are wrong.
	Commit(ctx context.Context, records []ChainRecord) (Committed, error)
}

// ChainRecord is a Kinesis record with its outputs. Outputs is empty if all of the record was dropped or
// dead-lettered. An aggregate is always in one object.
type ChainRecord struct {
	Sequence string
	Outputs  []Output
}

// Committed is the result of a Commit.
type Committed struct {
	// Done is the number of records that are done, from the first on. Without an error all are done.
	Done int
	// Written says for each record that is done whether this Commit wrote it. If not, an existing object had handled
	// it. nil means that this Commit wrote all.
	Written []bool
}
