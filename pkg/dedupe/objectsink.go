package dedupe

import "context"

// ObjectSink is a sink that writes records into objects, each of which is written once or not at all. The objects say
// by themselves which records are done, so a Processor with an ObjectSink needs no acks, and each record is in one
// object. The mapping must deliver one batch of a shard at a time (parallelization 1): an object says what is done by
// the first and the last sequence number that it has handled.
type ObjectSink interface {
	// Check is that of Sink.
	Check(ctx context.Context, o Output) error

	// Open finds the objects of a shard that reach into the sequence numbers from first to last.
	Open(ctx context.Context, key ChainKey, first, last string) (Chain, error)

	// CommitLetter writes the outputs of a dead letter, of which there is at least one, as an object of their own, which
	// has the letter's name. It reports whether this call wrote it: an object that is there stays as it is.
	CommitLetter(ctx context.Context, key ChainKey, letter string, outputs []Output) (created bool, err error)
}

// ChainKey names the objects of a shard. The scope is part of it, so that a new scope replays a stream.
type ChainKey struct {
	Scope  string
	Stream Stream
	Shard  string
}

// Chain is the objects of a shard, as one batch sees them. A Processor calls Done while a Commit is running: the next
// records are decided while those before are written. It does not call Commit twice at a time.
type Chain interface {
	// Done reports whether an object that Open has found has handled the Kinesis record with a sequence number.
	Done(sequence string) bool

	// Commit writes records, in order, behind the last object, in one object or several. What another writer's object
	// has handled in the meantime is left out. Commit is all it takes: there is nothing to be undone after an error or a
	// crash.
	//
	// Errors: the family ErrTryAgain; an error of the context; any other error means that settings or rights are wrong.
	Commit(ctx context.Context, records []ChainRecord) (Committed, error)
}

// ChainRecord is a Kinesis record with what is to be delivered of it. Outputs is empty if all of it was dropped or
// dead-lettered. An aggregate is in an object as a whole.
type ChainRecord struct {
	Sequence string
	Outputs  []Output
}

// Committed says what became of the records of a Commit.
type Committed struct {
	// Done is how many records are done, counted from the first one: all of them without an error.
	Done int
	// Written says of the records that are done whether this Commit wrote them, or an object that was there had handled
	// them. nil stands for all.
	Written []bool
}
