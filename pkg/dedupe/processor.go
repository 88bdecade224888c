package dedupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// DefaultChunk is how many user records are delivered and acknowledged at a time. Each chunk saves progress: with a
// slow ledger, a smaller chunk lets a batch get further before the function's deadline.
const DefaultChunk = 500

// Record is a record as the stream delivers it.
type Record struct {
	Sequence     string // a decimal of up to 128 digits
	PartitionKey string
	Arrival      time.Time // ApproximateArrivalTimestamp
	Data         []byte
}

// Order says whether the records of a batch have an order.
type Order int

const (
	// ByPosition is the order of a shard: sequence numbers are ascending numbers. After a record that failed, nothing
	// is sent.
	ByPosition Order = iota
	// AsGiven is the order of the batch itself, for example of a message group. Sequence numbers are texts. After a
	// record that failed, nothing is sent. There are no acks.
	//
	// Records with the same sequence number are the same message, which a queue has delivered twice: the second is done
	// with the first, and counts as skipped.
	AsGiven
	// None means that the records are independent, for example the messages of a queue. Sequence numbers are texts, which
	// may repeat as with AsGiven. If a record fails, the others are still sent. There are no acks.
	None
)

// Batch is the input of one invocation: records of one shard, or of another source.
type Batch struct {
	Stream  Stream
	Shard   string
	Order   Order
	Records []Record
	// Queue says that the records are messages of a queue, which come again until they are done. With a Sink and with Acks,
	// the entry of a message then says whether its effect is done: it is put in progress, for the time until the
	// context's deadline, and marked after the sink or the dead-letter store has confirmed. A message that is done does not
	// reach the sink again. A message or a copy that another run has in progress fails with ErrInWork, until the lease of
	// that run is over. The Ledger must implement Holds. It costs one more write for each message. With PassNatural, with
	// other sinks, and for dead letters it has no effect.
	Queue bool
}

// check refuses records that cannot be distinguished, or whose order is not known. It returns those that repeat others.
func (b Batch) check() (repeats, error) {
	if b.Order != ByPosition {
		return b.repeats()
	}
	return repeats{}, b.checkPositions()
}

func (b Batch) checkPositions() error {
	for i := range b.Records {
		sequence := b.Records[i].Sequence
		if !IsSequence(sequence) {
			return fmt.Errorf("%w: the sequence number of record %d is not a decimal of up to %d digits",
				ErrNotABatch, i, sequenceDigits)
		}
		if i == 0 {
			continue
		}
		switch order := CompareSequence(b.Records[i-1].Sequence, sequence); {
		case order == 0:
			return fmt.Errorf("%w (records %d and %d): Lambda opened their KPL aggregate; read the stream without enhanced fan-out",
				ErrSharedSequence, i-1, i)
		case order > 0:
			return fmt.Errorf("%w: the sequence number of record %d is below that of the record before", ErrNotABatch, i)
		}
	}
	return nil
}

// DeadLetter is a record that can never be processed, with its reason.
type DeadLetter struct {
	Owner           string // Owner.String: together with Data it determines the name of the stored object
	Scope           string // the scope in which the record was processed
	Position        Position
	Reason          string // a fixed text
	PartitionKey    string // of the user record, if it has its own
	ExplicitHashKey string // as in Output
	Arrival         time.Time
	Data            []byte // the whole payload
	// Unaggregated says that Position.Sub is an index in a frame, and that the Kinesis record is not a KPL aggregate.
	Unaggregated bool
}

// DeadLetterStore stores records that can never be processed.
type DeadLetterStore interface {
	// Put stores dead letters. It may store several at a time. It returns how many are stored now, counted from the
	// first. A letter that was stored before counts. If it is fewer than all, Put returns an error, and some of the
	// others may be stored too. Put is safe to repeat.
	Put(ctx context.Context, letters []DeadLetter) (stored int, err error)
}

// Format reads payloads and gives them new ids. *format.JSON is one. After an error of the family ErrTryAgain, of the
// context or of the network, the record fails and comes again. Every other error makes the record poison; if it is a
// *format.BadRecord, its reason is reported.
type Format interface {
	Read(ctx context.Context, payload []byte) (format.Fields, error)
	Rename(ctx context.Context, payload []byte, oldID, newID string) ([]byte, error)
}

// KeyedFormat is a Format that finds the id of a record in its partition key. A Delivery calls these methods instead of
// Read and Rename. Their errors are as for Format.
type KeyedFormat interface {
	ReadKeyed(ctx context.Context, key string, payload []byte) (format.Fields, error)
	// RenameKeyed returns the partition key and the payload of the record under its new id.
	RenameKeyed(ctx context.Context, key string, payload []byte, oldID, newID string) (
		newKey string, renamed []byte, err error)
}

// Parts are the components of a Processor. Exactly one of Sink, Tx and Objects is set.
type Parts struct {
	Ledger      Ledger // nil with Tx
	Format      Format
	Sink        Sink
	Tx          TxSink
	Objects     ObjectSink
	DeadLetters DeadLetterStore
	Framing     Framing // nil: a payload is a record
	// Acks store which records are done, so that a batch that comes again does not send them again. nil: no acks.
	Acks Acks
	// Consumers refuse a second function for a stream and scope. nil: no function is refused.
	Consumers Consumers
}

// Settings are the settings of a Processor.
type Settings struct {
	Scope         string // the name space of the keys
	Retention     Retention
	PassNatural   bool // natural duplicates pass unchanged
	PassSynthetic bool // synthetic duplicates pass unchanged
	Derive        bool // every record is delivered under a derived id, so that ids do not depend on the order of records
	Unaggregated  bool // records are never opened as KPL aggregates
	PoisonLimit   PoisonLimit
	Sink          string // the sink's name, required with Acks: a record that is done for one sink is not done for another
	Consumer      string // the function's name, required with Consumers

	// Chunk is how many user records are delivered and acknowledged at a time. 0 means DefaultChunk, or 10,000 with
	// an ObjectSink, which writes an object for each chunk.
	Chunk int
	// Transactions is how many transactions run at the same time with a TxSink; 0 means DefaultTransactions.
	Transactions int
	// OpenedBytes is to how many bytes a record may open; 0 means MaxOpenedBytes, which is also the largest. While a
	// record is opened, a decoder may take as much again.
	OpenedBytes int
	// WholeBatch decides all records of a batch before the first one is sent, up to the limits of an opened record. By
	// default a chunk is decided while the chunk before is sent.
	WholeBatch bool
	Clock      Clock
}

// Processor takes batches from a stream to a sink. It is safe for concurrent use.
type Processor struct {
	parts     Parts
	settings  Settings
	clock     Clock
	level     level
	decider   Decider
	delivery  Delivery
	suspicion *suspicion // of what is read
	refusals  *suspicion // of what a Sink answers
	machine   func() serverclock.Moment

	claimed sync.Map // the Streams whose consumer is this function
}

// NewProcessor makes a Processor. Its error lists everything that is missing or wrong.
func NewProcessor(p Parts, s Settings) (*Processor, error) {
	if err := errors.Join(p.missing(), s.check(p)); err != nil {
		return nil, fmt.Errorf("dedupe: a Processor cannot be made: %w", err)
	}
	l := p.level()
	s.Chunk, s.Transactions = cmp.Or(s.Chunk, l.chunk()), cmp.Or(s.Transactions, DefaultTransactions)
	s.OpenedBytes = cmp.Or(s.OpenedBytes, MaxOpenedBytes)
	clock := s.Clock.OrReal()
	return &Processor{
		parts: p, settings: s, clock: clock, level: l, machine: clock.machine(),
		decider: Decider{
			Ledger: p.Ledger, Scope: s.Scope, Retention: s.Retention, PassSynthetic: s.PassSynthetic, Clock: s.Clock,
		},
		delivery:  Delivery{Format: p.Format, PassNatural: s.PassNatural, Check: l.Check},
		suspicion: newSuspicion(s.PoisonLimit), refusals: newSuspicion(s.PoisonLimit),
	}, nil
}

func (p Parts) missing() error {
	var missing []error
	for _, part := range []struct {
		name    string
		missing bool
	}{
		{"Ledger", p.Ledger == nil && p.Tx == nil}, {"Format", p.Format == nil},
		{"Sink, Tx or Objects", p.Sink == nil && p.Tx == nil && p.Objects == nil}, {"DeadLetters", p.DeadLetters == nil},
	} {
		if part.missing {
			missing = append(missing, fmt.Errorf("no %s among the parts", part.name))
		}
	}
	return errors.Join(missing...)
}

func (s Settings) check(p Parts) error {
	var wrong []error
	refuse := func(bad bool, what string) {
		if bad {
			wrong = append(wrong, errors.New(what))
		}
	}
	refuse(s.Scope == "", "Settings.Scope is empty")
	refuse(!s.Retention.ForGood && (s.Retention.Window <= 0 || s.Retention.Horizon <= 0),
		"Settings.Retention needs a Window and a Horizon above 0, or ForGood: without them every copy would be delivered")
	refuse(s.Chunk < 0, "Settings.Chunk is below 0")
	refuse(s.OpenedBytes < 0 || s.OpenedBytes > MaxOpenedBytes, "Settings.OpenedBytes is not between 0 and MaxOpenedBytes")
	refuse(s.Transactions < 0, "Settings.Transactions is below 0")
	refuse(s.PoisonLimit.Share < 0 || s.PoisonLimit.Share > 1, "Settings.PoisonLimit.Share is not between 0 and 1")
	refuse(s.PoisonLimit.Records < 0 || s.PoisonLimit.Records > DefaultChunk,
		fmt.Sprintf("Settings.PoisonLimit.Records is not between 0 and %d, the records of a chunk", DefaultChunk))
	refuse(p.Acks != nil && s.Sink == "", "Settings.Sink is empty: acks need the sink's name")
	refuse(p.Consumers != nil && s.Consumer == "", "Settings.Consumer is empty: consumers need the function's name")
	refuse(p.Sink != nil && (p.Tx != nil || p.Objects != nil) || p.Tx != nil && p.Objects != nil,
		"there are two sinks among the parts: choose one of Sink, Tx and Objects")
	refuse(p.Objects != nil && p.Acks != nil, "Acks are not for an ObjectSink: its objects say which records are done")
	refuse(p.Tx != nil && (s.PassNatural || s.PassSynthetic),
		"a TxSink excludes PassNatural and PassSynthetic: an effect needs an entry of its own")
	refuse(s.Derive && (s.PassNatural || s.PassSynthetic),
		"Settings.Derive excludes PassNatural and PassSynthetic, with which records pass under the id that they have")
	return errors.Join(wrong...)
}

// Result is the result of a batch.
type Result struct {
	// Done is how many Kinesis records are done, from the first on.
	Done int
	// Failed is the sequence number of the first record that is not done. This record and all after it must be
	// delivered again, although some of those may be done. Failed is empty if the whole batch is done. It is also
	// empty if the record has no sequence number; Err then says why the batch failed.
	Failed string
	// Undone has the sequence numbers of all records that are not done, each once. It is set only with the order None.
	Undone []string
	// Err says why a record failed. It is nil if and only if the whole batch is done, and ErrInWork only if nothing has
	// failed for another reason.
	Err error
	// AckErr says why acks could not be read or written. The batch does not fail because of this: records that come
	// again are processed again.
	AckErr error
	Tally  Tally
	// Reasons counts the dead-lettered records by reason.
	Reasons map[string]int64
	// Read has the fields of each record that Inspect or InspectLetter could read.
	Read []format.Fields
	// LedgerTime is how long the batch waited for the ledger. SinkTime is how long it waited for the sink and the
	// dead-letter store. The two may overlap. A TxSink decides and delivers a record in one transaction, so all its
	// time is SinkTime.
	LedgerTime, SinkTime time.Duration
}

// batchRun processes one batch.
type batchRun struct {
	*Processor
	level   level // of the Processor, or for a dead letter
	batch   Batch
	source  string    // Owner.Source of the records
	letter  *redriven // set if the batch is a dead letter that comes again
	before  doneBefore
	hold    *holding // of the entries of messages of a queue; nil: entries do not say whether they are done
	chain   Chain    // set with an ObjectSink
	repeats repeats
	reserve time.Duration // kept at the end of the time: once for the acks, and once for what the sink refuses
	size    int           // number of user records in the next chunk
	result  Result
	spare   []userRecord // memory of an earlier chunk, for the next one
	kpl     kpl.Decoder
	room    Room // of the Kinesis record that is being opened

	suspicion, refusals *suspicion // of the Processor; nil for a dead letter, which says nothing about the settings
}

func (p *Processor) batchRun(b Batch) *batchRun {
	return &batchRun{
		Processor: p, level: p.level, batch: b, source: sourceOf(b.Stream, b.Shard), before: ackedOwners(nil),
		size: p.settings.Chunk, kpl: kpl.Decoder{Most: MaxOpenedRecords}, suspicion: p.suspicion, refusals: p.refusals,
	}
}

// Process takes one batch through all steps. It is safe to repeat at any time, with the same batch, with a part of
// it, or with a longer one.
func (p *Processor) Process(ctx context.Context, b Batch) Result {
	r := p.batchRun(b)
	if len(b.Records) == 0 {
		return r.result
	}
	return r.process(ctx)
}

func (r *batchRun) process(ctx context.Context) Result {
	if err := r.begin(ctx); err != nil {
		r.fail(0, err)
		return r.failRest(0)
	}
	return r.run(ctx)
}

// begin checks the batch before any step, and finds out which of its records are done.
func (r *batchRun) begin(ctx context.Context) (err error) {
	if r.repeats, err = r.batch.check(); err != nil {
		return err
	}
	if err := r.claim(ctx, r.batch.Stream); err != nil {
		return err
	}
	r.reserve = r.reserveOf(ctx)
	if r.hold, err = r.holdOf(ctx); err != nil {
		return err
	}
	return r.level.open(ctx, r)
}

// ordered reports whether nothing may be sent after a record that failed.
func (r *batchRun) ordered() bool { return r.batch.Order != None }

// endsAt reports whether the batch ends at a record with this error, which may be nil.
func (r *batchRun) endsAt(err error) bool { return err != nil && r.ordered() }

// run takes the batch through its steps, chunk by chunk.
func (r *batchRun) run(ctx context.Context) Result {
	for c := r.nextChunk(ctx, 0); c != nil; {
		var err error
		var following *chunk
		// The ledger step of the next chunk begins after the ledger step of this one. It may run while this one is
		// sent.
		ahead, stop := context.WithCancel(ctx)
		r.clock.Both(
			func() {
				if err = r.deliver(ctx, c); r.endsAt(err) {
					stop() // this is the last chunk of the batch
				}
			},
			func() { following = r.chunkAfter(ahead, c) },
		)
		stop()
		if failed := r.count(c); failed < c.next {
			r.fail(failed, cmp.Or(err, errIncomplete))
			if r.ordered() || c.err != nil {
				return r.failRest(c.next)
			}
		}
		if r.result.Err == nil {
			r.result.Done = c.next
		}
		r.spare = c.users
		c = following
	}
	if done := r.result.Done; r.result.Err == nil && done < len(r.batch.Records) {
		r.fail(done, errCutShort)
		return r.failRest(done)
	}
	return r.result
}

// claim makes this function the consumer of a stream in the scope, once in each Processor. Two claims at the same
// time do no harm.
func (p *Processor) claim(ctx context.Context, s Stream) error {
	if p.parts.Consumers == nil {
		return nil
	}
	if _, claimed := p.claimed.Load(s); claimed {
		return nil
	}
	consumer, err := p.parts.Consumers.ClaimConsumer(ctx, p.settings.Scope, s, p.settings.Consumer)
	if err != nil {
		return err
	}
	if consumer != p.settings.Consumer {
		return fmt.Errorf("%w (it is %q)", ErrOtherConsumer, consumer)
	}
	p.claimed.Store(s, true)
	return nil
}

// nextChunk reads and decides the chunk that begins at a Kinesis record.
func (r *batchRun) nextChunk(ctx context.Context, first int) *chunk {
	size := r.size
	if r.settings.WholeBatch {
		size = MaxOpenedRecords
	}
	c := r.decode(ctx, first, size)
	if c.err == nil {
		took := r.level.decide(ctx, r, c.users)
		r.result.LedgerTime += took
		r.grow(ctx, took)
	}
	c.ends = c.err != nil || slices.ContainsFunc(c.users, func(u userRecord) bool { return r.endsAt(u.err) })
	return c
}

// chunkAfter reads and decides the chunk after c. It returns nil if c is the last one.
func (r *batchRun) chunkAfter(ctx context.Context, c *chunk) *chunk {
	if c.next == len(r.batch.Records) || c.ends {
		return nil
	}
	return r.nextChunk(ctx, c.next)
}

// The ledger waits for the last request of a chunk before it begins with the next chunk. So chunks grow while the
// remaining time is at least muchMore times the time of a chunk.
const (
	muchMore  = 16
	mostTimes = 8 // the largest chunk, as a multiple of settings.Chunk
)

func (r *batchRun) grow(ctx context.Context, took time.Duration) {
	deadline, ok := ctx.Deadline()
	if ok && muchMore*took < deadline.Sub(r.clock.Now()) {
		r.size = min(2*r.size, mostTimes*r.settings.Chunk)
	}
}

// longestReserve is the most time that is kept for the dead letters of a Send, and for an ack after that.
const longestReserve = 500 * time.Millisecond

func (r *batchRun) reserveOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return min(longestReserve, deadline.Sub(r.clock.Now())/8)
}

// workTime returns the context of the sink and of the dead-letter store. It ends early enough for an ack.
func (r *batchRun) workTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.parts.Acks == nil {
		return ctx, func() {}
	}
	return r.earlier(ctx)
}

// earlier returns a context that ends before ctx by the reserve.
func (r *batchRun) earlier(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-r.reserve))
}

// fail records the first record that is not done, and the first failure.
func (r *batchRun) fail(record int, err error) {
	if r.result.Err == nil {
		r.result.Done, r.result.Failed = record, r.batch.Records[record].Sequence
	}
	r.result.Err = graver(r.result.Err, err)
}

// failRest ends the batch. Each Kinesis record that was not decoded, from index notDecoded on, counts as one user
// record.
func (r *batchRun) failRest(notDecoded int) Result {
	for i := notDecoded; i < len(r.batch.Records); i++ {
		r.result.Tally.In++
		if r.repeats.isDone(i, notDecoded) {
			r.result.Tally.Skipped++
		} else {
			r.result.Tally.Failed++
			r.undone(i)
		}
	}
	return r.result
}

// undone records that a record has to come again, without its neighbours. A record that is in the batch before is named
// by that one.
func (r *batchRun) undone(record int) {
	r.repeats.fail(record)
	list, sequence := r.result.Undone, r.batch.Records[record].Sequence
	if !r.ordered() && !r.repeats.has(record) && (len(list) == 0 || list[len(list)-1] != sequence) {
		r.result.Undone = append(list, sequence)
	}
}

// count adds the user records of a chunk to the tally. It returns the index of the first Kinesis record that is not
// done, or c.next if all are done.
func (r *batchRun) count(c *chunk) (failed int) {
	failed = c.next
	t, now := &r.result.Tally, r.clock.Now()
	for i := range c.users {
		u := &c.users[i]
		switch {
		case u.acked && (!r.repeats.has(u.record) || r.repeats.isDone(u.record, c.next)):
			t.In++
			t.Skipped++
			continue
		case u.done && !u.acked:
			t.Count(u.decision.Outcome, u.poison)
			r.countReason(u.poison)
		default:
			t.In++
			t.Failed++
			failed = min(failed, u.record)
			r.undone(u.record)
		}
		if r.settings.Retention.PastHorizon(u.source.Arrival, now) {
			t.PastHorizon++
		}
	}
	return failed
}

func (r *batchRun) countReason(poison *PoisonError) {
	if poison == nil {
		return
	}
	if r.result.Reasons == nil {
		r.result.Reasons = map[string]int64{}
	}
	r.result.Reasons[poison.Reason]++
}
