package dedupefault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/memlog"
	"github.com/oncebox/oncebox/internal/memobjects"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/format"
)

// The broken rules of Mutants.

// onCall makes a hook that breaks the calls of one method.
func onCall(method Method, h Hook) Hook {
	return func(ctx context.Context, c *Call) error {
		if c.Method != method {
			return c.Do(ctx)
		}
		return h(ctx, c)
	}
}

// onExisting makes a hook that changes the entries that puts find.
func onExisting(change func(i int, asked dedupe.Entry, existing *dedupe.Existing)) Hook {
	return onCall(PutIfAbsent, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		for i := range c.Puts {
			if existing := c.Puts[i].Existing; existing != nil {
				change(i, c.Entries[i], existing)
			}
		}
		return err
	})
}

// plainPut: an item is put, whatever is at its place.
func plainPut(env Env) Hook {
	return onCall(Append, func(ctx context.Context, c *Call) error {
		if err := c.Do(ctx); err != nil || c.Log.DataThere == nil {
			return err
		}
		log := env.Engine.(LogStore).Log.(*memlog.Log)
		log.Purge(math.MaxInt64, func(at logledger.Place) bool { return at == c.Log.Place })
		return c.Do(ctx)
	})
}

// lostIsSuccess: an append that may have had its effect is taken for one that had it.
func lostIsSuccess(Env) Hook {
	return onCall(Append, func(ctx context.Context, c *Call) error {
		if err := c.Do(ctx); !errors.Is(err, dedupe.ErrTryAgain) {
			return err
		}
		return nil
	})
}

// putAgain: rows are appended behind items by which they were not decided.
func putAgain(Env) Hook {
	return onCall(Append, func(ctx context.Context, c *Call) error {
		for {
			if err := c.Do(ctx); err != nil || c.Log.DataThere == nil {
				return err
			}
			c.Log.Place.Index++
		}
	})
}

// skipGaps: items are taken to follow one another.
func skipGaps(Env) Hook {
	return onCall(ReadLog, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		for n := range c.Log.Items {
			c.Log.Items[n].Index = c.Log.Place.Index + n
		}
		return err
	})
}

func twoInstances(s *Scenario) { s.Instances = 2 }

// anotherRecord is an owner that is none of the records.
var anotherRecord = dedupe.Owner{Source: "another record"}.Digest()

// allRaised is the answer that every purge time was raised.
func allRaised(n int) []dedupe.RaiseResult {
	return slices.Repeat([]dedupe.RaiseResult{{Raised: true}}, n)
}

// noTimeInCondition: an entry counts until it is deleted.
func noTimeInCondition(Env) Hook {
	seen := map[dedupe.Key]dedupe.Entry{}
	return onCall(PutIfAbsent, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		for i, e := range c.Entries[:len(c.Puts)] {
			if old, found := seen[e.Key]; found {
				existing := old.Existing()
				c.Puts[i] = dedupe.PutResult{Existing: &existing}
			} else {
				seen[e.Key] = e
			}
		}
		return err
	})
}

// ownerInCondition: the condition of a put has OR owner = mine.
func ownerInCondition(env Env) Hook {
	return onCall(PutIfAbsent, func(ctx context.Context, c *Call) error {
		for _, e := range c.Entries {
			probe := e
			probe.PurgeAt = 1 // if the key is free, this entry is over at once
			found, err := env.Engine.PutIfAbsent(ctx, []dedupe.Entry{probe})
			if err != nil || found[0].Existing == nil || found[0].Existing.Owner != e.Owner.Digest() {
				continue
			}
			if err := PurgeNow(ctx, env.Engine, e.Scope, e.Key); err != nil {
				return err
			}
		}
		return c.Do(ctx)
	})
}

// acksWithoutScope: all scopes share their acks.
func acksWithoutScope(Env) Hook {
	return func(ctx context.Context, c *Call) error {
		c.Key.Scope = "shared"
		return c.Do(ctx)
	}
}

// acksWithoutSink: what is done for one sink is done for all.
func acksWithoutSink(Env) Hook {
	return func(ctx context.Context, c *Call) error {
		c.Key.Sink = "shared"
		return c.Do(ctx)
	}
}

// acksAsText: acks are found by the text of a sequence number.
func acksAsText(Env) Hook {
	return onCall(ReadAcks, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		c.Acks = slices.DeleteFunc(c.Acks, func(a dedupe.Ack) bool { return a.Last < c.First || a.First > c.Last })
		return err
	})
}

// oneAckAnEnd: an ack replaces another one that ends at the same record.
func oneAckAnEnd(Env) Hook {
	ends := map[string]dedupe.Ack{}
	return func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		switch c.Method {
		case WriteAck:
			ends[c.Acks[0].Last] = c.Acks[0]
		case ReadAcks:
			c.Acks = slices.DeleteFunc(c.Acks, func(a dedupe.Ack) bool { return !bytes.Equal(ends[a.Last].Owners, a.Owners) })
		}
		return err
	}
}

// entriesWithoutOwner: every record that comes second is a copy.
func entriesWithoutOwner(Env) Hook {
	puts := onExisting(func(_ int, _ dedupe.Entry, existing *dedupe.Existing) { existing.Owner = dedupe.Digest{} })
	return func(ctx context.Context, c *Call) error {
		if c.Method == RaisePurge {
			c.Raised = allRaised(len(c.Raises)) // there is no owner to compare
			return nil
		}
		return puts(ctx, c)
	}
}

// ownerFromBatch: a record is known again only as the first of a batch.
func ownerFromBatch(Env) Hook {
	return onExisting(func(i int, asked dedupe.Entry, existing *dedupe.Existing) {
		if i > 0 && existing.Owner == asked.Owner.Digest() {
			existing.Owner = anotherRecord
		}
	})
}

// fingerprintFirst: the fingerprint is compared before the owner.
func fingerprintFirst(Env) Hook {
	return onExisting(func(_ int, asked dedupe.Entry, existing *dedupe.Existing) {
		if existing.Content == dedupe.ContentDigest(asked.Fingerprint) {
			existing.Owner = anotherRecord
		}
	})
}

// failedPutIsDuplicate: a put that failed found an entry.
func failedPutIsDuplicate(Env) Hook {
	return onCall(PutIfAbsent, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		if err != nil {
			c.Puts = slices.Repeat([]dedupe.PutResult{{Err: err}}, len(c.Entries))
		}
		for i, r := range c.Puts {
			if r.Err != nil {
				existing := c.Entries[i].Existing()
				existing.Owner = anotherRecord
				c.Puts[i] = dedupe.PutResult{Existing: &existing}
			}
		}
		return nil
	})
}

// syntheticInBatch: the second fingerprint of an id in one batch gets a new id, without a word of the ledger.
func syntheticInBatch(f dedupe.Format) dedupe.Format { return firstOfBatch{f, map[string]string{}} }

type firstOfBatch struct {
	dedupe.Format
	fingerprints map[string]string // by id
}

func (f firstOfBatch) Read(ctx context.Context, payload []byte) (format.Fields, error) {
	fields, err := f.Format.Read(ctx, payload)
	if err != nil {
		return fields, err
	}
	first, seen := f.fingerprints[fields.ID]
	if !seen {
		f.fingerprints[fields.ID] = fields.Fingerprint
	} else if first != fields.Fingerprint {
		fields.ID = format.DerivedID(fields.ID, fields.Fingerprint)
	}
	return fields, nil
}

// purgeAtWindowEnd: entries count for the window, without the horizon.
func purgeAtWindowEnd(env Env) Hook {
	return onCall(PutIfAbsent, func(ctx context.Context, c *Call) error {
		for i, e := range c.Entries {
			if e.PurgeAt != dedupe.Never {
				c.Entries[i].PurgeAt = e.PurgeAt - int64(env.Retention.Horizon.Seconds())
			}
		}
		return c.Do(ctx)
	})
}

// noRaise: purge times are never raised.
func noRaise(Env) Hook {
	return onCall(RaisePurge, func(_ context.Context, c *Call) error {
		c.Raised = allRaised(len(c.Raises))
		return nil
	})
}

// failedRaiseIsRaised: a raise that failed took place.
func failedRaiseIsRaised(Env) Hook {
	return onCall(RaisePurge, func(ctx context.Context, c *Call) error {
		if err := c.Do(ctx); err != nil {
			c.Raised = allRaised(len(c.Raises))
		}
		for i, r := range c.Raised {
			c.Raised[i] = dedupe.RaiseResult{Raised: r.Raised || r.Err != nil}
		}
		return nil
	})
}

// raisedForEveryOwner: a purge time is raised, whatever record holds the entry by now.
func raisedForEveryOwner(Env) Hook {
	return onCall(RaisePurge, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		c.Raised = allRaised(len(c.Raises))
		return err
	})
}

// anotherIDEachTime: the new id also comes from how many ids were asked for.
func anotherIDEachTime(f dedupe.Format) dedupe.Format { return &countingFormat{Format: f} }

type countingFormat struct {
	dedupe.Format
	renamed int
}

func (f *countingFormat) Rename(ctx context.Context, payload []byte, oldID, newID string) ([]byte, error) {
	f.renamed++
	return f.Format.Rename(ctx, payload, oldID, fmt.Sprint(newID, f.renamed))
}

// ledgerAhead: the later half of a batch is decided before the first.
func ledgerAhead(w *World, f function, product handleFunc) handleFunc {
	f.sink, f.deadLetters, f.options.NoAcks = nowhere{}, nowhere{}, true
	decides := f.handler(w).Handle
	return func(ctx context.Context, raw json.RawMessage) (answer events.KinesisEventResponse, err error) {
		var event events.KinesisEvent
		if err := json.Unmarshal(raw, &event); err != nil {
			return answer, err
		}
		event.Records = event.Records[len(event.Records)/2:]
		later, err := json.Marshal(event)
		if err != nil {
			return answer, err
		}
		_, _ = decides(ctx, later) // what fails here fails again in the function
		return product(ctx, raw)
	}
}

// nowhere takes everything and does nothing with it.
type nowhere struct{}

func (nowhere) Check(context.Context, dedupe.Output) error { return nil }

func (nowhere) Send(context.Context, []dedupe.Output) (dedupe.Sent, error) { return dedupe.Sent{}, nil }

func (nowhere) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	return len(letters), nil
}

// sendAfterFailure: the records after those of a Send that failed are sent too.
func sendAfterFailure(Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		outputs := c.Outputs
		err := c.Do(ctx)
		answer := c.Sent
		if err != nil && ctx.Err() == nil {
			c.Outputs = outputs[len(outputs)-1:]
			_ = c.Do(ctx)
		}
		c.Sent = answer
		return err
	})
}

// partTakenAsDelivered: a request that was answered has delivered all.
func partTakenAsDelivered(Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		if err := c.Do(ctx); err != nil && ctx.Err() != nil {
			c.Sent = dedupe.Sent{}
			return err
		}
		c.Sent = dedupe.Sent{}
		return nil
	})
}

// deadLetterTakenAsStored: a Put that failed has stored all.
func deadLetterTakenAsStored(Env) Hook {
	return onCall(PutDeadLetters, func(ctx context.Context, c *Call) error {
		n := len(c.Letters)
		_ = c.Do(ctx)
		c.Done = n
		return nil
	})
}

// overwritten: a dead letter that is stored already is stored as a new one.
func overwritten(w *World) deadletter.Objects { return overwrittenObjects{memoryObjects{w}} }

type overwrittenObjects struct{ memoryObjects }

func (m overwrittenObjects) Create(ctx context.Context, name string, content []byte) (bool, error) {
	delete(m.objects, name)
	return m.memoryObjects.Create(ctx, name, content)
}

// deadLetterNeverStored: there is no place for dead letters.
func deadLetterNeverStored(Env) Hook {
	return onCall(PutDeadLetters, func(context.Context, *Call) error { return errThrown })
}

// halfAggregate: an aggregate is done when a part of it is delivered.
func halfAggregate(env Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		outputs := c.Outputs
		err := c.Do(ctx)
		sequence := func(i int) string { return env.World.positionOf(outputs[i]).Sequence }
		for i := 1; i < len(c.Sent.Delivered); i++ {
			if c.Sent.Delivered[i-1] && sequence(i) == sequence(i-1) {
				c.Sent.Delivered[i] = true
			}
		}
		if !slices.Contains(c.Sent.Delivered, false) {
			err = nil
		}
		return err
	})
}

// ackBeforeSink: a record is acknowledged when the ledger has its entry.
func ackBeforeSink(env Env) Hook {
	return onCall(PutIfAbsent, func(ctx context.Context, c *Call) error {
		if err := c.Do(ctx); err != nil {
			return err
		}
		for _, e := range c.Entries {
			env.acknowledge(ctx, env.World.inputAt(e.Owner.String()).position)
		}
		return nil
	})
}

// ackOfFailed: all that was sent is acknowledged, whatever failed.
func ackOfFailed(env Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		outputs := c.Outputs
		err := c.Do(ctx)
		for _, o := range outputs {
			env.acknowledge(ctx, env.World.positionOf(o))
		}
		return err
	})
}

// acknowledge writes an ack of one record. It is the broken function's, so the judge looks at it as at every other.
func (env Env) acknowledge(ctx context.Context, p dedupe.Position) {
	mark := p.Owner().Mark()
	key := dedupe.AckKey{Scope: env.World.scope, Stream: p.Stream, Shard: p.Shard, Sink: "own:memory"}
	a := dedupe.Ack{First: p.Sequence, Last: p.Sequence, Owners: mark[:]}
	_ = env.Store.WriteAck(ctx, key, a)
}

// ackedRange: an ack stands for all records between its first and its last.
func ackedRange(env Env) Hook {
	return env.ackedToo(func(a dedupe.Ack, in *input) bool { return between(in.position.Sequence, a.First, a.Last) })
}

// wholeForPart: an ack of a part of an aggregate stands for the aggregate.
func wholeForPart(env Env) Hook {
	return env.ackedToo(func(a dedupe.Ack, in *input) bool {
		mark := in.mark()
		return bytes.Contains(a.Owners, mark[:])
	})
}

// ackedToo makes each ack that is read stand for more records of its shard.
func (env Env) ackedToo(standsFor func(dedupe.Ack, *input) bool) Hook {
	return onCall(ReadAcks, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		for i, a := range c.Acks {
			c.Acks[i].Owners = slices.Clone(a.Owners)
			for _, in := range env.World.inputs {
				if in.position.Shard == c.Key.Shard && standsFor(a, in) {
					mark := in.wholeMark()
					c.Acks[i].Owners = append(c.Acks[i].Owners, mark[:]...)
				}
			}
		}
		return err
	})
}

// acksNotRead: acks are written, and nobody reads them.
func acksNotRead(Env) Hook {
	return onCall(ReadAcks, func(context.Context, *Call) error { return nil })
}

// positionOf returns where an output comes from.
func (w *World) positionOf(o dedupe.Output) dedupe.Position {
	var p sentPayload
	_ = json.Unmarshal(o.Data, &p) // only good records are sent
	return w.inputOf(p.N).position
}

func noAcks(s *Scenario) { s.NoAcks = true }

// naming: the answer names other records than the first that failed.
func naming(which func(all []string, failed int) []string) func(*World, function, handleFunc) handleFunc {
	return func(_ *World, _ function, product handleFunc) handleFunc {
		return func(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
			answer, err := product(ctx, raw)
			if err != nil || len(answer.BatchItemFailures) == 0 {
				return answer, err
			}
			all, first := sequencesOf(invocationOf(ctx)), answer.BatchItemFailures[0].ItemIdentifier
			answer.BatchItemFailures = nil
			for _, sequence := range which(all, slices.Index(all, first)) {
				failure := events.KinesisBatchItemFailure{ItemIdentifier: sequence}
				answer.BatchItemFailures = append(answer.BatchItemFailures, failure)
			}
			return answer, nil
		}
	}
}

func transactional(s *Scenario) { s.Sink, s.NoAcks = Transactional, true }

// mineIsDone: a record that holds its entry counts as done, whatever the entry says.
func mineIsDone(Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		if existing := c.TxResult.Existing; existing != nil && existing.Owner == c.Tx.Entry.Owner.Digest() {
			existing.Done = true
		}
		return err
	})
}

// ownerInTxCondition: the condition of a transaction has OR owner = mine.
func ownerInTxCondition(env Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		existing := c.TxResult.Existing
		if err != nil || existing == nil || existing.Owner != c.Tx.Entry.Owner.Digest() {
			return err
		}
		if err := PurgeNow(ctx, env.Engine, c.Tx.Entry.Scope, c.Tx.Entry.Key); err != nil {
			return err
		}
		return c.Do(ctx)
	})
}

// aside makes a transaction put its entry under a key that no other one has.
func aside(t dedupe.Transaction) dedupe.Transaction {
	t.Entry.Key = format.KeyOf(fmt.Sprint("aside ", t.Entry.Owner, t.Output.ID))
	return t
}

// entryFirst: the entry and the effect are two calls. The entry comes first.
func entryFirst(env Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		if err := env.putEntry(ctx, c, c.Tx.Entry); err != nil || c.TxResult.Existing != nil {
			return err
		}
		c.Tx = aside(c.Tx)
		return c.Do(ctx)
	})
}

// effectFirst: the entry and the effect are two calls. The effect comes first.
func effectFirst(env Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		entry := c.Tx.Entry
		c.Tx = aside(c.Tx)
		if err := c.Do(ctx); err != nil {
			return err
		}
		return env.putEntry(ctx, c, entry)
	})
}

// putEntry puts the entry of a transaction alone.
func (e Env) putEntry(ctx context.Context, c *Call, entry dedupe.Entry) error {
	put, err := e.Store.PutIfAbsent(ctx, []dedupe.Entry{entry})
	if err != nil {
		return err
	}
	c.TxResult.Existing = put[0].Existing
	return put[0].Err
}

// keysRestored gives the outputs of keysOfTheirOwn the partition keys of their records.
func keysRestored(env Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		if c.Tx.Output.PartitionKey != aggregateKey {
			c.Tx.Output.PartitionKey = env.World.inputAt(c.Tx.Entry.Owner.String()).partitionKey
		}
		return c.Do(ctx)
	})
}

// keysOfTheirOwn: no two records have a partition key in common, so that none waits for another.
func keysOfTheirOwn(_ *World, _ function, product handleFunc) handleFunc {
	return func(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
		var event events.KinesisEvent
		if err := json.Unmarshal(raw, &event); err != nil {
			return events.KinesisEventResponse{}, err
		}
		for i := range event.Records {
			event.Records[i].Kinesis.PartitionKey = fmt.Sprint("key-of-", i)
		}
		changed, err := json.Marshal(event)
		if err != nil {
			return events.KinesisEventResponse{}, err
		}
		return product(ctx, changed)
	}
}

func intoObjects(s *Scenario) { s.Sink, s.Parallel = Objects, 1 }

// noFence: a PUT replaces the object that has the name.
func noFence(ctx context.Context, c *memobjects.Call) error {
	c.Replace = c.Method == memobjects.PutIfAbsent
	return c.Do(ctx)
}

// anotherOwner: a dead letter comes again as another record each time.
func anotherOwner(w *World, d dedupe.DeadLetter) dedupe.DeadLetter {
	d.Position.Sequence += fmt.Sprint(w.tick())
	return d
}
