package dedupefault

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
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
func onExisting(change func(i int, asked dedupe.Entry, existing *dedupe.Entry)) Hook {
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
				c.Puts[i] = dedupe.PutResult{Existing: &old}
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
			if err != nil || found[0].Existing == nil || found[0].Existing.Owner != e.Owner {
				continue
			}
			if err := PurgeNow(ctx, env.Engine, e.Scope, e.Key); err != nil {
				return err
			}
		}
		return c.Do(ctx)
	})
}

// checkpointWithoutScope: all scopes share one checkpoint.
func checkpointWithoutScope(Env) Hook {
	return func(ctx context.Context, c *Call) error {
		c.Key.Scope = "shared"
		return c.Do(ctx)
	}
}

// sequencesAsText: a checkpoint moves to a text that is later.
func sequencesAsText(env Env) Hook {
	return onCall(AdvanceCheckpoint, func(ctx context.Context, c *Call) error {
		old, err := env.Store.ReadCheckpoint(ctx, c.Key)
		if err != nil || old != nil && c.Checkpoint.Sequence <= old.Sequence {
			return err
		}
		return c.Do(ctx)
	})
}

// entriesWithoutOwner: every record that comes second is a copy.
func entriesWithoutOwner(Env) Hook {
	puts := onExisting(func(_ int, _ dedupe.Entry, existing *dedupe.Entry) { existing.Owner = "" })
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
	return onExisting(func(i int, asked dedupe.Entry, existing *dedupe.Entry) {
		if i > 0 && existing.Owner == asked.Owner {
			existing.Owner = "another batch"
		}
	})
}

// fingerprintFirst: the fingerprint is compared before the owner.
func fingerprintFirst(Env) Hook {
	return onExisting(func(_ int, asked dedupe.Entry, existing *dedupe.Entry) {
		if existing.Fingerprint == asked.Fingerprint {
			existing.Owner = "another record"
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
				existing := c.Entries[i]
				existing.Owner = "another record"
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

func (f firstOfBatch) Read(payload []byte) (format.Fields, error) {
	fields, err := f.Format.Read(payload)
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

func (f *countingFormat) Rename(payload []byte, oldID, newID string) ([]byte, error) {
	f.renamed++
	return f.Format.Rename(payload, oldID, fmt.Sprint(newID, f.renamed))
}

// ledgerAhead: the later half of a batch is decided before the first.
func ledgerAhead(w *World, f function, product handleFunc) handleFunc {
	f.sink, f.deadLetters, f.options.Checkpoint = nowhere{}, nowhere{}, false
	decides := f.handler(w)
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

func (nowhere) Check(dedupe.Output) error { return nil }

func (nowhere) Send(_ context.Context, outputs []dedupe.Output) (int, error) {
	return len(outputs), nil
}

func (nowhere) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	return len(letters), nil
}

// sendAfterFailure: the records after the one that failed are sent too.
func sendAfterFailure(Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		outputs := c.Outputs
		err := c.Do(ctx)
		done, answer := c.Done, err
		for sent := done; err != nil && sent+1 < len(outputs); {
			outputs = outputs[sent+1:]
			c.Outputs = outputs
			err = c.Do(ctx)
			sent = c.Done
		}
		c.Done = done
		return answer
	})
}

// partTakenAsDelivered: a request that was answered has delivered all.
func partTakenAsDelivered(Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		n := len(c.Outputs)
		if err := c.Do(ctx); err != nil && ctx.Err() != nil {
			c.Done = 0
			return err
		}
		c.Done = n
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
		for err != nil && c.Done > 0 && sequence(c.Done) == sequence(c.Done-1) {
			if c.Done++; c.Done == len(outputs) {
				err = nil
			}
		}
		return err
	})
}

// checkpointBeforeSink: the checkpoint moves when the ledger has the entries.
func checkpointBeforeSink(env Env) Hook {
	return onCall(PutIfAbsent, func(ctx context.Context, c *Call) error {
		if err := c.Do(ctx); err != nil {
			return err
		}
		return env.advanceTo(ctx, env.World.inputAt(c.Entries[len(c.Entries)-1].Owner).position)
	})
}

// checkpointAfterFailure: the checkpoint moves past all that was sent, whatever failed.
func checkpointAfterFailure(env Env) Hook {
	return onCall(Send, func(ctx context.Context, c *Call) error {
		last := c.Outputs[len(c.Outputs)-1]
		err := c.Do(ctx)
		if err != nil {
			_ = env.advanceTo(ctx, env.World.positionOf(last))
		}
		return err
	})
}

func (env Env) advanceTo(ctx context.Context, p dedupe.Position) error {
	key := dedupe.CheckpointKey{Scope: env.World.scope, Stream: p.Stream, Shard: p.Shard}
	return env.Store.AdvanceCheckpoint(ctx, key, dedupe.Checkpoint{Sequence: p.Sequence, Consumer: consumer})
}

// positionOf returns where an output comes from.
func (w *World) positionOf(o dedupe.Output) dedupe.Position {
	var p sentPayload
	_ = json.Unmarshal(o.Data, &p) // only good records are sent
	return w.inputOf(p.N).position
}

func noCheckpoint(s *Scenario) { s.Checkpoint = false }

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
