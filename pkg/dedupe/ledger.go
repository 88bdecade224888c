package dedupe

import "context"

// Store is what an engine implements. Every engine passes the suite in package enginetest.
//
// For all methods: reads are strongly consistent. An engine that is busy, throttled or out of reach returns an error of
// the family ErrTryAgain; the call may have had its effect then. Every method is safe to repeat.
type Store interface {
	Ledger
	Checkpoints
	Runs
}

// Ledger stores entries.
type Ledger interface {
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

// PutResult is the answer to one put: the entry was put, or there was one already.
type PutResult struct {
	Existing *Entry // the entry that has the key; nil if the new one was put
	Err      error
}

// RaiseRequest asks for a later purge time.
type RaiseRequest struct {
	Scope   string
	Key     Key
	Owner   string
	PurgeAt int64 // epoch seconds, or Never
}

// RaiseResult is the answer to one RaiseRequest.
type RaiseResult struct {
	Raised bool // the entry belongs to the owner, and its purge time is now at least the one asked for
	Err    error
}

// Checkpoints store how far each shard is done.
type Checkpoints interface {
	// ReadCheckpoint returns the checkpoint of a shard, or nil if there is none.
	ReadCheckpoint(ctx context.Context, key CheckpointKey) (*Checkpoint, error)
	// AdvanceCheckpoint moves the checkpoint forward. A checkpoint that is further already stays as it is. If the
	// checkpoint belongs to another consumer it stays too, and the error is ErrOtherConsumer.
	AdvanceCheckpoint(ctx context.Context, key CheckpointKey, c Checkpoint) error
}

// CheckpointKey names a checkpoint. The scope is part of it, so that a new scope replays a stream.
type CheckpointKey struct {
	Scope  string
	Stream Stream
	Shard  string
}

// Checkpoint is a position in a shard. All records up to it are delivered, dropped as duplicates or dead-lettered.
type Checkpoint struct {
	Sequence string
	Consumer string // the function's name
}

// Runs store the progress of offline runs.
type Runs interface {
	// ReadRun returns a run by its digest, or nil if there is none.
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
}
