package dedupe

import "context"

// Store is what an engine implements, with few methods each. Every engine
// implements all of them and passes dedupetest.Run.
//
// Common to all: reads are strongly consistent; an engine that is busy,
// throttled or out of reach answers an error of the family ErrTryAgain, after
// which the effect is unknown; every method is safe to call again.
type Store interface {
	Ledger
	Checkpoints
	Runs
}

// Ledger keeps entries.
type Ledger interface {
	// PutIfAbsent puts each entry, if its key is free in its scope: absent, or
	// purged before the entry's arrival. Nothing else is asked, and not who holds
	// the key. The keys of one call differ. The answers are in the order of the
	// entries; one that failed says nothing about the others. An error says
	// that nothing is known of any.
	PutIfAbsent(ctx context.Context, entries []Entry) ([]PutResult, error)

	// RaisePurge lifts the purge time of entries to at least the one given, if
	// they are still held by the owner given. Answers as of PutIfAbsent.
	RaisePurge(ctx context.Context, raises []RaiseRequest) ([]RaiseResult, error)
}

// PutResult is the answer to one put: it took place, or there was an entry.
type PutResult struct {
	Existing *Entry // what was there; nil if the entry was put
	Err      error
}

// RaiseRequest asks for a later purge time.
type RaiseRequest struct {
	Scope   string
	Key     Key
	Owner   string
	PurgeAt int64
}

// RaiseResult is the answer to one raise.
type RaiseResult struct {
	Raised bool // the entry is the owner's, and its purge time is late enough
	Err    error
}

// Checkpoints keep how far a shard is done.
type Checkpoints interface {
	// ReadCheckpoint returns the checkpoint of a shard; nil if there is none.
	ReadCheckpoint(ctx context.Context, key CheckpointKey) (*Checkpoint, error)
	// AdvanceCheckpoint moves it forward; a later one, found there, stays. The row
	// of another consumer is ErrOtherConsumer and stays as well.
	AdvanceCheckpoint(ctx context.Context, key CheckpointKey, c Checkpoint) error
}

// CheckpointKey names a checkpoint. It holds the scope, so that a new scope
// replays a stream on purpose.
type CheckpointKey struct {
	Scope  string
	Stream Stream
	Shard  string
}

// Checkpoint is a position in a shard through which every record is delivered,
// dropped or kept.
type Checkpoint struct {
	Sequence string
	Consumer string // the function's name
}

// Runs keep the progress of offline runs.
type Runs interface {
	// ReadRun returns a run by its digest; nil if there is none.
	ReadRun(ctx context.Context, scope, digest string) (*Run, error)
	// SaveRun puts or replaces a run.
	SaveRun(ctx context.Context, scope string, r Run) error
}

// Run is how far an offline run has come. A cut run goes on from here under its
// id, after cutting its files to these sizes.
type Run struct {
	Digest      string // of inputs and options
	ID          string // part of the owners of its records
	Finished    bool
	Input       int64 // bytes of the inputs done
	Lines       int64 // lines of the inputs done
	Output      int64 // bytes of the output
	DeadLetters int64 // bytes of the dead-letter file
	Tally       Tally
}
