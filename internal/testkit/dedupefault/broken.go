package dedupefault

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// This file holds the broken rules of Mutants.

// onCall returns a hook that breaks the calls of one method.
func onCall(method Method, h Hook) Hook {
	return func(ctx context.Context, c *Call) error {
		if c.Method != method {
			return c.Do(ctx)
		}
		return h(ctx, c)
	}
}

// onExisting returns a hook that changes the existing entries that puts find.
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

// anotherRecord is an owner that belongs to no record.
var anotherRecord = dedupe.Owner{Source: "another record"}.Digest()

// allRaised is the answer that all purge times were raised.
func allRaised(n int) []dedupe.RaiseResult {
	return slices.Repeat([]dedupe.RaiseResult{{Raised: true}}, n)
}

// noTimeInCondition makes an entry count until it is deleted.
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

// ownerInCondition adds OR owner = mine to the condition of a put.
func ownerInCondition(env Env) Hook {
	return onCall(PutIfAbsent, func(ctx context.Context, c *Call) error {
		for _, e := range c.Entries {
			probe := e
			probe.PurgeAt = 1 // if the key is free, this entry ends at once
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

// acksWithoutScope makes all scopes share their acks.
func acksWithoutScope(Env) Hook {
	return func(ctx context.Context, c *Call) error {
		c.Key.Scope = "shared"
		return c.Do(ctx)
	}
}

// acksWithoutSink counts a record that is done for one sink as done for all sinks.
func acksWithoutSink(Env) Hook {
	return func(ctx context.Context, c *Call) error {
		c.Key.Sink = "shared"
		return c.Do(ctx)
	}
}

// acksAsText finds acks by comparing sequence numbers as text.
func acksAsText(Env) Hook {
	return onCall(ReadAcks, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		c.Acks = slices.DeleteFunc(c.Acks, func(a dedupe.Ack) bool { return a.Last < c.First || a.First > c.Last })
		return err
	})
}

// oneAckForEachEnd lets an ack replace another ack that ends at the same record.
func oneAckForEachEnd(Env) Hook {
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

// entriesWithoutOwner treats every repeated record as a duplicate, because entries have no owner.
func entriesWithoutOwner(Env) Hook {
	puts := onExisting(func(_ int, _ dedupe.Entry, existing *dedupe.Existing) { existing.Owner = dedupe.Digest{} })
	return func(ctx context.Context, c *Call) error {
		if c.Method == RaisePurge {
			c.Raised = allRaised(len(c.Raises)) // no entry has an owner to compare
			return nil
		}
		return puts(ctx, c)
	}
}

// ownerFromBatch derives the owner from the batch: only the first record of a batch is recognised as a retry.
func ownerFromBatch(Env) Hook {
	return onExisting(func(i int, asked dedupe.Entry, existing *dedupe.Existing) {
		if i > 0 && existing.Owner == asked.Owner.Digest() {
			existing.Owner = anotherRecord
		}
	})
}

// fingerprintFirst compares the fingerprint before the owner.
func fingerprintFirst(Env) Hook {
	return onExisting(func(_ int, asked dedupe.Entry, existing *dedupe.Existing) {
		if existing.Content == dedupe.ContentDigest(asked.Fingerprint) {
			existing.Owner = anotherRecord
		}
	})
}

// failedPutIsDuplicate counts a failed put as a put that found an entry.
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

// roomForEachFrame limits each frame alone, and not all frames of a Kinesis record together.
func roomForEachFrame(f dedupe.Framing) dedupe.Framing {
	return openWith{f, func(ctx context.Context, payload []byte, _ *dedupe.Room) ([][]byte, bool, error) {
		return f.Open(ctx, payload, dedupe.NewRoom())
	}}
}

// tooMuchIsOneFrame dead-letters the frame that has no room, and delivers the rest of its aggregate.
func tooMuchIsOneFrame(f dedupe.Framing) dedupe.Framing {
	return openWith{f, func(ctx context.Context, payload []byte, room *dedupe.Room) ([][]byte, bool, error) {
		records, framed, err := f.Open(ctx, payload, room)
		if err != nil {
			err = &format.BadRecord{Reason: "too much"}
		}
		return records, framed, err
	}}
}

// openWith is a Framing with another Open.
type openWith struct {
	dedupe.Framing
	open func(ctx context.Context, payload []byte, room *dedupe.Room) ([][]byte, bool, error)
}

func (o openWith) Open(ctx context.Context, payload []byte, room *dedupe.Room) ([][]byte, bool, error) {
	return o.open(ctx, payload, room)
}

// syntheticInBatch gives a record a new id if its batch has another fingerprint for the id, without asking the
// ledger.
func syntheticInBatch(f dedupe.Format) dedupe.Format { return firstOfBatch{f, map[string]string{}} }

type firstOfBatch struct {
	dedupe.Format
	fingerprints map[string]string // the first fingerprint of each id
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

// purgeAtWindowEnd keeps entries for the window only, without the horizon.
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

// noRaise never raises purge times.
func noRaise(Env) Hook {
	return onCall(RaisePurge, func(_ context.Context, c *Call) error {
		c.Raised = allRaised(len(c.Raises))
		return nil
	})
}

// failedRaiseIsRaised counts a failed raise as done.
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

// raisedForEveryOwner raises a purge time even if another record holds the entry now.
func raisedForEveryOwner(Env) Hook {
	return onCall(RaisePurge, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		c.Raised = allRaised(len(c.Raises))
		return err
	})
}

// newIDEachTime derives the new id also from the number of ids derived so far.
func newIDEachTime(f dedupe.Format) dedupe.Format { return &countingFormat{Format: f} }

type countingFormat struct {
	dedupe.Format
	renamed int
}

func (f *countingFormat) Rename(ctx context.Context, payload []byte, oldID, newID string) ([]byte, error) {
	f.renamed++
	return f.Format.Rename(ctx, payload, oldID, fmt.Sprint(newID, f.renamed))
}

// ledgerAhead decides the second half of a batch before the first half.
func ledgerAhead(w *World, f function, product handleFunc) handleFunc {
	f.sink, f.deadLetters, f.options.NoAcks = discardSink{}, discardSink{}, true
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
		_, _ = decides(ctx, later) // a failure here comes again in the function
		return product(ctx, raw)
	}
}

// discardSink is a sink that drops every record and reports success.
type discardSink struct{}

func (discardSink) Check(context.Context, dedupe.Output) error { return nil }

func (discardSink) Send(context.Context, []dedupe.Output) (dedupe.Sent, error) {
	return dedupe.Sent{}, nil
}

func (discardSink) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	return len(letters), nil
}

// sendAfterFailure sends the records of a Send that come after a failed record.
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

// partTakenAsDelivered counts every record of an answered request as delivered.
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

// neverIsNotNow takes a refused record for one that the sink does not take now.
func neverIsNotNow(Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		if slices.ContainsFunc(c.Sent.Refused, func(r *dedupe.PoisonError) bool { return r != nil }) {
			c.Sent.Refused, err = nil, errThrown
		}
		return err
	})
}

// notNowIsNever takes every record of an answered request that is not delivered for a refused one.
func notNowIsNever(Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		n := len(c.Outputs)
		err := c.Do(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		sent := dedupe.Sent{Delivered: make([]bool, n), Refused: make([]*dedupe.PoisonError, n)}
		for i := range n {
			if sent.Delivered[i] = c.WasDelivered(i, err); !sent.Delivered[i] {
				sent.Refused[i] = &dedupe.PoisonError{Reason: "not now"}
			}
		}
		c.Sent = sent
		return nil
	})
}

// freesRefused deletes the entries of refused records.
func freesRefused(env Env) Hook {
	entries := map[string]dedupe.Entry{} // by the ids under which records are sent
	return func(ctx context.Context, c *Call) error {
		outputs := c.Outputs
		err := c.Do(ctx)
		for _, e := range c.Entries {
			entries[string(e.Key[:])] = e
		}
		for i, o := range outputs {
			key := format.KeyOf(o.ID)
			if e, found := entries[string(key[:])]; found && c.WasRefused(i) != nil {
				if err := PurgeNow(ctx, env.Engine, e.Scope, key); err != nil {
					return err
				}
			}
		}
		return err
	}
}

// deadLetterTakenAsStored counts every dead letter of a failed Put as stored.
func deadLetterTakenAsStored(Env) Hook {
	return onCall(PutDeadLetters, func(ctx context.Context, c *Call) error {
		n := len(c.Letters)
		_ = c.Do(ctx)
		c.Done = n
		return nil
	})
}

// overwritten stores a dead letter that is already stored again, and reports it as new.
func overwritten(w *World) deadletter.Objects { return overwrittenObjects{memoryObjects{w}} }

type overwrittenObjects struct{ memoryObjects }

func (m overwrittenObjects) Create(ctx context.Context, name string, content []byte) (bool, error) {
	delete(m.objects, name)
	return m.memoryObjects.Create(ctx, name, content)
}

// deadLetterNeverStored makes every Put of dead letters fail.
func deadLetterNeverStored(Env) Hook {
	return onCall(PutDeadLetters, func(context.Context, *Call) error { return errThrown })
}

// halfAggregate counts an aggregate as done when a part of it is delivered.
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

// ackBeforeSink acknowledges a record as soon as the ledger has its entry.
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

// ackOfFailed acknowledges every record that was sent, even if it failed.
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

// acknowledge writes an ack of one record. The broken function does so, and the judge checks the ack as it checks all
// others.
func (env Env) acknowledge(ctx context.Context, p dedupe.Position) {
	mark := p.Owner().Mark()
	key := dedupe.AckKey{Scope: env.World.scope, Stream: p.Stream, Shard: p.Shard, Sink: "own:memory"}
	a := dedupe.Ack{First: p.Sequence, Last: p.Sequence, Owners: mark[:]}
	_ = env.Store.WriteAck(ctx, key, a)
}

// ackedRange reads an ack as if it named all records between its first and its last.
func ackedRange(env Env) Hook {
	return env.extendAcks(func(a dedupe.Ack, in *input) bool { return between(in.position.Sequence, a.First, a.Last) })
}

// wholeForPart reads an ack of a part of an aggregate as if it named the whole aggregate.
func wholeForPart(env Env) Hook {
	return env.extendAcks(func(a dedupe.Ack, in *input) bool {
		mark := in.mark()
		return bytes.Contains(a.Owners, mark[:])
	})
}

// extendAcks makes each ack name more records of its shard: those for which the function returns true.
func (env Env) extendAcks(names func(dedupe.Ack, *input) bool) Hook {
	return onCall(ReadAcks, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		for i, a := range c.Acks {
			c.Acks[i].Owners = slices.Clone(a.Owners)
			for _, in := range env.World.inputs {
				if in.position.Shard == c.Key.Shard && names(a, in) {
					mark := in.wholeMark()
					c.Acks[i].Owners = append(c.Acks[i].Owners, mark[:]...)
				}
			}
		}
		return err
	})
}

// acksNotRead writes acks and never reads them.
func acksNotRead(Env) Hook {
	return onCall(ReadAcks, func(context.Context, *Call) error { return nil })
}

// positionOf returns the position of the record of an output.
func (w *World) positionOf(o dedupe.Output) dedupe.Position {
	var p sentPayload
	_ = json.Unmarshal(o.Data, &p) // cannot fail: only good records are sent
	return w.inputOf(p.N).position
}

func noAcks(s *Scenario) { s.NoAcks = true }

// answerWith makes the answer name records other than the first that failed.
func answerWith(pick func(all []string, failed int) []string) func(*World, function, handleFunc) handleFunc {
	return func(_ *World, _ function, product handleFunc) handleFunc {
		return func(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
			answer, err := product(ctx, raw)
			if err != nil || len(answer.BatchItemFailures) == 0 {
				return answer, err
			}
			all, first := sequencesOf(invocationOf(ctx)), answer.BatchItemFailures[0].ItemIdentifier
			answer.BatchItemFailures = nil
			for _, sequence := range pick(all, slices.Index(all, first)) {
				failure := events.KinesisBatchItemFailure{ItemIdentifier: sequence}
				answer.BatchItemFailures = append(answer.BatchItemFailures, failure)
			}
			return answer, nil
		}
	}
}

func transactional(s *Scenario) { s.Sink, s.NoAcks = Transactional, true }

// ownEntryIsDone counts a record that holds its entry as done, even if the entry is not marked as done.
func ownEntryIsDone(Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		if existing := c.TxResult.Existing; existing != nil && existing.Owner == c.Tx.Entry.Owner.Digest() {
			existing.Done = true
		}
		return err
	})
}

// ownerInTxCondition adds OR owner = mine to the condition of a transaction.
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

// withUniqueKey makes a transaction put its entry under a key that no other entry has.
func withUniqueKey(t dedupe.Transaction) dedupe.Transaction {
	t.Entry.Key = format.KeyOf(fmt.Sprint("aside ", t.Entry.Owner, t.Output.ID))
	return t
}

// entryFirst puts the entry and then does the effect, in two calls.
func entryFirst(env Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		if err := env.putEntry(ctx, c, c.Tx.Entry); err != nil || c.TxResult.Existing != nil {
			return err
		}
		c.Tx = withUniqueKey(c.Tx)
		return c.Do(ctx)
	})
}

// effectFirst does the effect and then puts the entry, in two calls.
func effectFirst(env Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		entry := c.Tx.Entry
		c.Tx = withUniqueKey(c.Tx)
		if err := c.Do(ctx); err != nil {
			return err
		}
		return env.putEntry(ctx, c, entry)
	})
}

// putEntry puts the entry of a transaction without its effect.
func (e Env) putEntry(ctx context.Context, c *Call, entry dedupe.Entry) error {
	put, err := e.Store.PutIfAbsent(ctx, []dedupe.Entry{entry})
	if err != nil {
		return err
	}
	c.TxResult.Existing = put[0].Existing
	return put[0].Err
}

// keysRestored gives the outputs of uniqueKeys back the partition keys of their records.
func keysRestored(env Env) Hook {
	return onCall(Transact, func(ctx context.Context, c *Call) error {
		if c.Tx.Output.PartitionKey != aggregateKey {
			c.Tx.Output.PartitionKey = env.World.inputAt(c.Tx.Entry.Owner.String()).partitionKey
		}
		return c.Do(ctx)
	})
}

// uniqueKeys gives every record its own partition key, so that no record waits for another.
func uniqueKeys(_ *World, _ function, product handleFunc) handleFunc {
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

// anotherOwner gives a dead letter another owner each time it comes again.
func anotherOwner(w *World, d dedupe.DeadLetter) dedupe.DeadLetter {
	d.Position.Sequence += fmt.Sprint(w.tick())
	return d
}

// heldNow returns what is stored under a key, or nil.
func heldNow(ctx context.Context, env Env, scope string, key dedupe.Key) *dedupe.Existing {
	found, err := env.Engine.(dedupe.Finder).Find(ctx, scope, []dedupe.Key{key})
	if err != nil {
		panic(err) // cannot happen: the engine is in memory
	}
	return found[0]
}

// takenOverInAnyCase takes an entry over, whatever has changed since it was read.
func takenOverInAnyCase(env Env) Hook {
	return onCall(TakeOver, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		for i, r := range c.Taken {
			if o := c.TakeOvers[i]; !r.Taken && r.Err == nil {
				if now := heldNow(ctx, env, o.Entry.Scope, o.Entry.Key); now != nil {
					var one []dedupe.TakeOverResult
					o.Old = *now
					if one, err = env.Engine.TakeOver(ctx, []dedupe.TakeOverRequest{o}); err == nil {
						c.Taken[i] = one[0]
					}
				}
			}
		}
		return err
	})
}

// finishedByAll marks an entry as done, whichever run holds it.
func finishedByAll(env Env) Hook {
	return onCall(Finish, func(ctx context.Context, c *Call) error {
		err := c.Do(ctx)
		for i, r := range c.Finished {
			if o := c.Finishes[i]; !r.Finished && r.Err == nil {
				if now := heldNow(ctx, env, o.Scope, o.Key); now != nil {
					o.Owner, o.Token = now.Owner, now.Hold.Token
					var one []dedupe.FinishResult
					if one, err = env.Engine.Finish(ctx, []dedupe.FinishRequest{o}); err == nil {
						c.Finished[i] = one[0]
					}
				}
			}
		}
		return err
	})
}

// finishedForAll marks an entry as done that the run holds, if another of its records had the key before.
func finishedForAll(env Env) Hook {
	return onCall(Finish, func(ctx context.Context, c *Call) error {
		c.Finishes = slices.Clone(c.Finishes)
		for i := range c.Finishes {
			f := &c.Finishes[i]
			if now := heldNow(ctx, env, f.Scope, f.Key); now != nil && now.Hold.Token == f.Token {
				f.Owner = now.Owner
			}
		}
		return c.Do(ctx)
	})
}

// noLease lets the lease of each entry end at once.
func noLease(Env) Hook {
	return func(ctx context.Context, c *Call) error {
		c.Entries, c.TakeOvers = slices.Clone(c.Entries), slices.Clone(c.TakeOvers)
		for i := range c.Entries {
			c.Entries[i].Hold.Ends = 1
		}
		for i := range c.TakeOvers {
			c.TakeOvers[i].Entry.Hold.Ends = 1
		}
		return c.Do(ctx)
	}
}

// markedBeforeTheSink marks messages as done before they are sent.
func markedBeforeTheSink(env Env) Hook {
	scope := ""
	return func(ctx context.Context, c *Call) error {
		for _, e := range c.Entries {
			scope = e.Scope
		}
		if c.Method == Send {
			for _, o := range c.Outputs {
				key := format.KeyOf(o.ID)
				if now := heldNow(ctx, env, scope, key); now != nil {
					mark := []dedupe.FinishRequest{
						{Scope: scope, Key: key, Owner: now.Owner, Token: now.Hold.Token},
					}
					if _, err := env.Engine.Finish(ctx, mark); err != nil {
						return err
					}
				}
			}
		}
		return c.Do(ctx)
	}
}

// markTakenAsStored takes a mark as stored whose reply says something else.
func markTakenAsStored(Env) Hook {
	return onCall(Finish, func(ctx context.Context, c *Call) error {
		_ = c.Do(ctx)
		c.Finished = slices.Repeat([]dedupe.FinishResult{{Finished: true}}, len(c.Finishes))
		return nil
	})
}

// notMarked stores no mark.
func notMarked(Env) Hook {
	return onCall(Finish, func(_ context.Context, c *Call) error {
		c.Finished = slices.Repeat([]dedupe.FinishResult{{Finished: true}}, len(c.Finishes))
		return nil
	})
}

// purgeTimeLowered gives an entry the purge time of the message that takes it over.
func purgeTimeLowered(env Env) Hook {
	return onCall(TakeOver, func(ctx context.Context, c *Call) error {
		c.TakeOvers = slices.Clone(c.TakeOvers)
		for i := range c.TakeOvers {
			c.TakeOvers[i].Entry.PurgeAt = env.Retention.PurgeAt(c.TakeOvers[i].Entry.Arrival)
		}
		return c.Do(ctx)
	})
}
