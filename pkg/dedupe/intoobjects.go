package dedupe

import (
	"context"
	"fmt"
)

// objectChunk is the largest number of user records in an object, unless a single Kinesis record has more. It is the
// largest batch of an event source mapping (Lambda Developer Guide, "Lambda quotas").
const objectChunk = 10_000

// intoObjects is the level of an ObjectSink: each record is in one object.
type intoObjects struct {
	ObjectSink
	byLedger
}

func (intoObjects) chunk() int { return objectChunk }

func (s intoObjects) forLetter(name string) level { return intoLetterObject{s, name} }

// open reads which records of the batch are in objects. Without this knowledge the batch fails, unlike without acks.
func (s intoObjects) open(ctx context.Context, r *batchRun) error {
	if r.batch.Order != ByPosition {
		return fmt.Errorf("%w: an object sink takes records of shards only", ErrNotABatch)
	}
	records := r.batch.Records
	chain, err := s.Open(ctx, r.chainKey(), records[0].Sequence, records[len(records)-1].Sequence)
	r.chain, r.before = chain, inChain{chain}
	return err
}

// inChain are the records that objects have handled.
type inChain struct{ Chain }

func (c inChain) has(o Owner) bool { return c.Done(o.Sequence) }

func (r *batchRun) chainKey() ChainKey {
	return ChainKey{Scope: r.settings.Scope, Stream: r.batch.Stream, Shard: r.batch.Shard}
}

// deliver dead-letters the poison among user records, and then writes the others into an object. The object has whole
// Kinesis records only: it ends before the first Kinesis record that is not completely ready.
func (s intoObjects) deliver(ctx context.Context, r *batchRun, users []userRecord) error {
	ready, err := r.makeReady(ctx, users)
	for ready > 0 && ready < len(users) && users[ready].record == users[ready-1].record {
		ready--
	}
	if commitErr := r.commit(ctx, users[:ready]); commitErr != nil {
		return commitErr
	}
	return err
}

// intoLetterObject is the level of an ObjectSink for a dead letter that comes again. It ignores which positions objects
// cover: the record counted as handled there when it was dead-lettered.
type intoLetterObject struct {
	intoObjects
	name string
}

func (intoLetterObject) open(context.Context, *batchRun) error { return nil }

// deliver writes the records of the letter that are to be delivered. The object of a letter is written once, so all of
// the letter must be ready.
func (s intoLetterObject) deliver(ctx context.Context, r *batchRun, users []userRecord) error {
	if _, err := r.makeReady(ctx, users); err != nil {
		return err
	}
	var outputs []Output
	for i := range users {
		if users[i].deliver {
			outputs = append(outputs, users[i].output)
		}
	}
	if len(outputs) == 0 { // duplicates need no object: they will be dropped again
		return nil
	}
	created, err := s.CommitLetter(ctx, r.chainKey(), s.name, outputs)
	if err != nil {
		return err
	}
	for i := range users {
		if u := &users[i]; u.deliver {
			u.done, u.acked = true, !created
			if created {
				r.result.Tally.Out++
			}
		}
	}
	return nil
}

// commit writes user records into an object.
func (r *batchRun) commit(ctx context.Context, users []userRecord) error {
	records, begins := chainRecords(users)
	if len(records) == 0 {
		return nil
	}
	committed, err := r.chain.Commit(ctx, records)
	done := min(max(committed.Done, 0), len(records))
	if err == nil && done < len(records) {
		err = errIncomplete
	}
	for i := range done {
		end := len(users)
		if i+1 < len(begins) {
			end = begins[i+1]
		}
		written := committed.Written == nil || i < len(committed.Written) && committed.Written[i]
		for j := begins[i]; j < end; j++ {
			u := &users[j]
			u.done = true
			if u.deliver && written {
				r.result.Tally.Out++
			}
			u.acked = u.acked || u.deliver && !written // another invocation delivered it
		}
	}
	return err
}

// chainRecords returns the records of an object for user records. begins has the index of the first user record of
// each. It returns no records if nothing is to be delivered: duplicates need no object.
func chainRecords(users []userRecord) (records []ChainRecord, begins []int) {
	some := false
	for i := range users {
		u := &users[i]
		if u.acked {
			continue
		}
		if i == 0 || users[i-1].record != u.record {
			records, begins = append(records, ChainRecord{Sequence: u.source.Sequence}), append(begins, i)
		}
		if u.deliver {
			some = true
			last := &records[len(records)-1]
			last.Outputs = append(last.Outputs, u.output)
		}
	}
	if !some {
		return nil, nil
	}
	return records, begins
}
