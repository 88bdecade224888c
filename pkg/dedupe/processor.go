package dedupe

import (
	"context"
	"errors"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// DefaultChunk is how many user records are decided and delivered at a time. Each chunk is progress: with a slow
// ledger a batch gets further before the function's deadline.
const DefaultChunk = 500

// Record is a record as the stream delivers it.
type Record struct {
	Sequence     string
	PartitionKey string
	Arrival      time.Time // ApproximateArrivalTimestamp
	Data         []byte
}

// Batch is what one invocation gets: records of one shard, in order.
type Batch struct {
	Stream  Stream
	Shard   string
	Records []Record
}

// Output is a record on its way to the sink.
type Output struct {
	ID              string
	PartitionKey    string
	ExplicitHashKey string // of a user record in a KPL aggregate that has its own; else empty
	Data            []byte
}

// Sink is where unique records go.
type Sink interface {
	// Check returns a *PoisonError for a record that the sink can never take, such as one that is too large.
	Check(o Output) error
	// Send delivers records in order. It returns how many of them are delivered, counted from the first. With fewer
	// than all it returns an error. Some of the others may be delivered too: they will be sent again.
	Send(ctx context.Context, outputs []Output) (delivered int, err error)
}

// DeadLetter is a record that can never be processed, with the reason.
type DeadLetter struct {
	Owner           string // names the stored object, so that storing the record again changes nothing
	Position        Position
	Reason          string // a fixed text
	PartitionKey    string // of the user record, if it has its own
	ExplicitHashKey string // as in Output
	Arrival         time.Time
	Data            []byte // the whole payload
}

// DeadLetterStore stores records that can never be processed.
type DeadLetterStore interface {
	// Put stores dead letters. It may store several at a time. It returns how many of them are stored now, counted
	// from the first; one that was stored before counts. With fewer than all it returns an error. Some of the others
	// may be stored too. It is safe to repeat.
	Put(ctx context.Context, letters []DeadLetter) (stored int, err error)
}

// Format reads payloads and gives them new ids. *format.JSON is one. An error of type *format.BadRecord makes the
// record poison.
type Format interface {
	Read(payload []byte) (format.Fields, error)
	Rename(payload []byte, oldID, newID string) ([]byte, error)
}

// Settings are what a Processor needs besides its parts.
type Settings struct {
	Scope         string
	Retention     Retention
	Chunk         int  // user records at a time; 0 means DefaultChunk
	PassNatural   bool // natural duplicates pass unchanged
	PassSynthetic bool // synthetic duplicates pass unchanged
	// Checkpoints turns checkpoints on; nil turns them off. They are safe only where a shard has one invocation at a
	// time, and a scope and stream have one consumer.
	Checkpoints Checkpoints
	Consumer    string // the function's name, needed with Checkpoints
}

// Processor takes batches from a stream to a sink. It is safe for concurrent use.
type Processor struct {
	settings    Settings
	decider     Decider
	delivery    Delivery
	sink        Sink
	deadLetters DeadLetterStore
}

// NewProcessor makes a Processor.
func NewProcessor(ledger Ledger, f Format, sink Sink, deadLetters DeadLetterStore, s Settings) *Processor {
	if s.Chunk <= 0 {
		s.Chunk = DefaultChunk
	}
	return &Processor{
		settings:    s,
		decider:     Decider{Ledger: ledger, Scope: s.Scope, Retention: s.Retention, PassSynthetic: s.PassSynthetic},
		delivery:    Delivery{Format: f, PassNatural: s.PassNatural, Check: sink.Check},
		sink:        sink,
		deadLetters: deadLetters,
	}
}

// Result is what became of a batch.
type Result struct {
	// Failed is the sequence number of the first record that is not done. It and all records after it must be
	// delivered again. It is empty if the whole batch is done.
	Failed string
	Err    error // why
	Tally  Tally
}

// batchRun is one batch on its way through a Processor.
type batchRun struct {
	*Processor
	batch  Batch
	result Result
	users  []userRecord // of the chunk
	kpl    kpl.Decoder
}

// Process takes one batch through all steps. It is safe to repeat at any time, with the same batch, a part of it or a
// longer one.
func (p *Processor) Process(ctx context.Context, b Batch) Result {
	r := &batchRun{Processor: p, batch: b}
	if len(b.Records) == 0 {
		return r.result
	}
	next, err := r.skipDone(ctx)
	if err != nil {
		return r.failAt(0, 0, err)
	}
	for next < len(b.Records) {
		first := next
		next = r.decode(first)
		r.decide(ctx)
		done, err := r.deliver(ctx, next)
		if otherConsumer := r.advanceCheckpoint(ctx, first, done); otherConsumer != nil {
			done, err = first, errors.Join(err, otherConsumer)
		}
		r.count(done)
		if err != nil {
			return r.failAt(done, next, err)
		}
	}
	return r.result
}

// failAt ends the batch at the first record that is not done. Records from notDecoded on count as one each.
func (r *batchRun) failAt(failed, notDecoded int, err error) Result {
	r.result.Failed, r.result.Err = r.batch.Records[failed].Sequence, err
	left := int64(len(r.batch.Records) - notDecoded)
	r.result.Tally.In += left
	r.result.Tally.Failed += left
	return r.result
}

// count adds the user records of a chunk to the tally. Those of Kinesis records from done on will come again.
func (r *batchRun) count(done int) {
	for i := range r.users {
		u := &r.users[i]
		if u.record >= done {
			r.result.Tally.In++
			r.result.Tally.Failed++
			continue
		}
		r.result.Tally.Count(u.decision.Outcome, u.poison)
	}
}
