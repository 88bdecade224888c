package dedupe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// DefaultChunk is how many user records are decided and sent at a time, so that
// a slow ledger makes progress before a deadline.
const DefaultChunk = 500

// Record is a record as a stream delivers it.
type Record struct {
	Sequence     string
	PartitionKey string
	Arrival      time.Time // ApproximateArrivalTimestamp
	Data         []byte
}

// Batch is what one invocation is given of one shard, in order.
type Batch struct {
	Stream  Stream
	Shard   string
	Records []Record
}

// Output is a record on its way to the sink.
type Output struct {
	ID              string
	PartitionKey    string
	ExplicitHashKey string // of a user record that has its own; else empty
	Data            []byte
}

// Sink is where unique records go.
type Sink interface {
	// Check returns a *PoisonError for a record that the sink can never take,
	// such as one that is too large.
	Check(o Output) error
	// Send delivers records in order. It returns how many of them, from the
	// first on, are delivered for sure; with fewer than all there is an error. Of
	// the others some may be delivered too: they will be sent again.
	Send(ctx context.Context, outputs []Output) (delivered int, err error)
}

// DeadLetter is a record that can never be processed.
type DeadLetter struct {
	Owner           string // names the object, so that keeping it again changes nothing
	Position        Position
	Reason          string // a fixed text
	PartitionKey    string // the user record's own, where it has one
	ExplicitHashKey string // as in Output
	Arrival         time.Time
	Data            []byte // the whole payload
}

// DeadLetterStore keeps such records whole.
type DeadLetterStore interface {
	// Put stores records, several at a time where it can. It returns how many of
	// them, from the first on, are kept for sure, now or before; with fewer than
	// all there is an error. Of the others some may be kept too. It is safe to
	// repeat.
	Put(ctx context.Context, failures []DeadLetter) (kept int, err error)
}

// Format reads and rewrites payloads; *format.JSON is one. Errors of type
// *format.BadRecord make a record poison.
type Format interface {
	Read(payload []byte) (format.Fields, error)
	Rename(payload []byte, oldID, newID string) ([]byte, error)
}

// Tally counts user records by what became of them:
// In = New + Retry + Natural + Synthetic + DeadLettered + Skipped + Failed.
type Tally struct {
	In           int64 `json:"in"`
	New          int64 `json:"new"`
	Retry        int64 `json:"retry"`
	Natural      int64 `json:"natural"`
	Synthetic    int64 `json:"synthetic"`
	DeadLettered int64 `json:"dead_lettered"` // kept in the failure store
	Skipped      int64 `json:"skipped"`       // at or below the checkpoint; aggregates count as one
	Failed       int64 `json:"failed"`        // and all after the first that failed, which come again; those not opened yet count as one
	Out          int64 `json:"out"`           // sent
}

// Settings are what a Processor needs besides its parts.
type Settings struct {
	Scope         string
	Retention     Retention
	Chunk         int  // user records at a time; DefaultChunk if not set
	PassNatural   bool // natural duplicates pass unchanged
	PassSynthetic bool // synthetic duplicates pass unchanged
	// Checkpoints turns the checkpoint on. It is right only where one shard
	// has one invocation at a time, and one consumer its scope and stream.
	Checkpoints Checkpoints
	Consumer    string // the function's name; with Checkpoints
}

// Processor takes batches from a stream to a sink. It is safe for concurrent use.
type Processor struct {
	settings Settings
	decider  Decider
	format   Format
	sink     Sink
	failures DeadLetterStore
}

// NewProcessor makes a Processor.
func NewProcessor(ledger Ledger, f Format, sink Sink, failures DeadLetterStore, s Settings) *Processor {
	if s.Chunk <= 0 {
		s.Chunk = DefaultChunk
	}
	d := Decider{Ledger: ledger, Scope: s.Scope, Retention: s.Retention, PassSynthetic: s.PassSynthetic}
	return &Processor{settings: s, decider: d, format: f, sink: sink, failures: failures}
}

// Result is what became of a batch.
type Result struct {
	// Failed is the sequence number of the first record that failed; it and all
	// after it are to be delivered again. Empty if none did.
	Failed string
	Err    error // why
	Tally  Tally
}

// Process takes one batch through all steps. It is safe to repeat at any time,
// with the same batch, a part of it, or a longer one.
func (p *Processor) Process(ctx context.Context, b Batch) Result {
	r := &run{Processor: p, batch: b}
	if len(b.Records) == 0 {
		return r.result
	}
	rest, err := r.skipDone(ctx)
	if err != nil {
		r.failFrom(0, 0, err)
		return r.result
	}
	for rest < len(b.Records) {
		next, failed, err := r.chunk(ctx, rest)
		if err != nil {
			r.failFrom(failed, next, err)
			return r.result
		}
		rest = next
	}
	return r.result
}

// run is one batch on its way.
type run struct {
	*Processor
	batch  Batch
	result Result
	users  []userRecord // of the chunk
	kpl    kpl.Decoder
}

// failFrom ends the batch before a record; those from unopened on were not looked at.
func (r *run) failFrom(record, unopened int, err error) {
	r.result.Failed, r.result.Err = r.batch.Records[record].Sequence, err
	left := int64(len(r.batch.Records) - unopened)
	r.result.Tally.In += left
	r.result.Tally.Failed += left
}

// skipDone returns the first record above the shard's checkpoint. Sequence
// numbers only grow in a shard, so those below it need no decoding.
func (r *run) skipDone(ctx context.Context) (first int, err error) {
	if r.settings.Checkpoints == nil {
		return 0, nil
	}
	done, err := r.settings.Checkpoints.ReadCheckpoint(ctx, r.checkpointKey())
	if err != nil || done == nil {
		return 0, err
	}
	if done.Consumer != r.settings.Consumer {
		return 0, fmt.Errorf("%w (it is %q's)", ErrOtherConsumer, done.Consumer)
	}
	for first < len(r.batch.Records) && CompareSequence(r.batch.Records[first].Sequence, done.Sequence) <= 0 {
		first++
	}
	r.result.Tally.In += int64(first)
	r.result.Tally.Skipped += int64(first)
	return first, nil
}

// chunk takes the records from first on, as many as make a chunk, through the
// steps after decoding. With an error it returns the record that failed;
// everything before that one is done.
func (r *run) chunk(ctx context.Context, first int) (next, failed int, err error) {
	next = r.decode(first)
	r.decide(ctx)
	outputs, failed, err := r.keepAndCollect(ctx)
	sent, sendErr := r.send(ctx, outputs)
	if sendErr != nil {
		failed, err = sent, sendErr
	}
	if err == nil {
		failed = next
	}
	if moved := r.advance(ctx, first, failed); moved != nil {
		failed, err = first, errors.Join(err, moved)
	}
	r.count(failed)
	return next, failed, err
}

// keepAndCollect keeps poison records and collects those to be sent, in order,
// up to the first record that failed.
func (r *run) keepAndCollect(ctx context.Context) (outputs []*userRecord, failed int, err error) {
	ready, err := r.prepare()
	if unkept, keepErr := r.keep(ctx, ready); keepErr != nil {
		ready, err = unkept, keepErr
	}
	if err != nil {
		failed = r.users[ready].record
	}
	outputs = make([]*userRecord, 0, ready)
	for i := range r.users[:ready] {
		if u := &r.users[i]; u.deliver && u.poison == nil {
			outputs = append(outputs, u)
		}
	}
	return outputs, failed, err
}

// prepare does for the records what their decisions ask for, short of keeping and
// sending them, up to the first that has no decision.
func (r *run) prepare() (ready int, err error) {
	for i := range r.users {
		u := &r.users[i]
		if u.poison == nil && u.decision.Outcome == Undecided {
			return i, u.decision.Err
		}
		u.prepare(r.Processor)
	}
	return len(r.users), nil
}

// keep keeps the poison among the first records, a chunk of it at a time: an
// aggregate may be of nothing else. With an error it returns the first that is not
// kept.
func (r *run) keep(ctx context.Context, ready int) (unkept int, err error) {
	var poison []int
	for i := range r.users[:ready] {
		if r.users[i].poison != nil {
			poison = append(poison, i)
		}
	}
	failures := make([]DeadLetter, 0, min(len(poison), r.settings.Chunk))
	for places := range slices.Chunk(poison, r.settings.Chunk) {
		failures = failures[:0]
		for _, place := range places {
			failures = append(failures, r.failure(&r.users[place]))
		}
		kept, err := r.failures.Put(ctx, failures)
		if kept, err = sure(kept, len(failures), err); err != nil {
			return places[min(kept, len(places)-1)], err
		}
	}
	return ready, nil
}

// sure checks what a sink or failure store says that it has done.
func sure(done, of int, err error) (int, error) {
	done = min(max(done, 0), of)
	if err == nil && done < of {
		err = errShort
	}
	return done, err
}

// send sends what is to be delivered. With an error it returns the record
// before which everything is delivered.
func (r *run) send(ctx context.Context, users []*userRecord) (failed int, err error) {
	if len(users) == 0 {
		return 0, nil
	}
	outputs := make([]Output, len(users))
	for i, u := range users {
		outputs[i] = u.output
	}
	delivered, err := r.sink.Send(ctx, outputs)
	delivered, err = sure(delivered, len(users), err)
	r.result.Tally.Out += int64(delivered)
	if err != nil {
		// An aggregate is the record of all its parts, those sent included.
		return users[min(delivered, len(users)-1)].record, err
	}
	return 0, nil
}

// count adds the user records of a chunk to the tally. Those from the failed
// record on will come again.
func (r *run) count(failed int) {
	t := &r.result.Tally
	for i := range r.users {
		u := &r.users[i]
		t.In++
		switch {
		case u.record >= failed:
			t.Failed++
		case u.poison != nil:
			t.DeadLettered++
		default:
			u.decision.Outcome.count(t)
		}
	}
}

func (o Outcome) count(t *Tally) {
	switch o {
	case New:
		t.New++
	case Retry:
		t.Retry++
	case Natural:
		t.Natural++
	case Synthetic:
		t.Synthetic++
	}
}

// advance moves the checkpoint to before the record that failed, if there is
// one done since first. It only saves work, so its failure is none of the
// batch's; but another consumer's row means that records would be skipped.
func (r *run) advance(ctx context.Context, first, failed int) error {
	if r.settings.Checkpoints == nil || failed == first {
		return nil
	}
	err := r.settings.Checkpoints.AdvanceCheckpoint(ctx, r.checkpointKey(),
		Checkpoint{Sequence: r.batch.Records[failed-1].Sequence, Consumer: r.settings.Consumer})
	if errors.Is(err, ErrOtherConsumer) {
		return err
	}
	return nil
}

func (r *run) checkpointKey() CheckpointKey {
	return CheckpointKey{Scope: r.settings.Scope, Stream: r.batch.Stream, Shard: r.batch.Shard}
}
