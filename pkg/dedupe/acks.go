package dedupe

import (
	"context"
	"slices"
	"time"
)

// doneBefore says which records of a batch are done.
type doneBefore interface{ has(o Owner) bool }

// ackedOwners has the marks of the records that acks name.
type ackedOwners map[OwnerMark]struct{}

func (a ackedOwners) has(o Owner) bool {
	if len(a) == 0 {
		return false
	}
	_, found := a[o.Mark()]
	return found
}

// readAcks reads which records of the batch are done. If that fails, the batch goes on: its records are processed
// again, as retries.
func (r *batchRun) readAcks(ctx context.Context) {
	if !r.keepsAcks() {
		return
	}
	records := r.batch.Records
	acks, err := r.parts.Acks.ReadAcks(ctx, r.ackKey(), records[0].Sequence, records[len(records)-1].Sequence)
	if err != nil {
		r.result.AckErr = err
		return
	}
	if len(acks) == 0 {
		return
	}
	acked := ackedOwners{}
	for _, ack := range acks {
		for mark := range ack.Marks() {
			acked[mark] = struct{}{}
		}
	}
	r.before = acked
}

// keepsAcks reports whether acks can name the records of the batch. A dead letter that comes again is a batch without
// positions, and needs no ack: an ack may already name its record, as dead-lettered.
func (r *batchRun) keepsAcks() bool { return r.parts.Acks != nil && r.batch.Order == ByPosition }

func (r *batchRun) ackKey() AckKey {
	return AckKey{Scope: r.settings.Scope, Stream: r.batch.Stream, Shard: r.batch.Shard, Sink: r.settings.Sink}
}

// maxMarks limits the records of an ack, so that its row stays below the 400 KB of DynamoDB.
const maxMarks = 40_000

// acknowledge stores which of the user records are done, after the sink and the dead-letter store have confirmed
// them. If that fails, the batch goes on: records that come again are retries.
func (r *batchRun) acknowledge(ctx context.Context, users []userRecord) {
	if !r.keepsAcks() {
		return
	}
	for owners := range slices.Chunk(r.newlyDone(users), maxMarks) {
		if err := r.parts.Acks.WriteAck(ctx, r.ackKey(), r.ackOf(owners)); err != nil {
			r.result.AckErr = err
		}
	}
}

// doneRecord is a record that an ack names: a user record, or a whole Kinesis record.
type doneRecord struct {
	source *Record
	sub    int
}

// newlyDone returns the records that are done and that no ack names yet. If all user records of a Kinesis record are
// done, it returns only the Kinesis record, which is then not even opened when it comes again.
func (r *batchRun) newlyDone(users []userRecord) (records []doneRecord) {
	for begin := 0; begin < len(users); {
		end := begin + 1
		for end < len(users) && users[end].record == users[begin].record {
			end++
		}
		of := users[begin:end]
		begin = end
		switch {
		case !slices.ContainsFunc(of, func(u userRecord) bool { return u.done && !u.acked }):
		case !slices.ContainsFunc(of, func(u userRecord) bool { return !u.done }):
			records = append(records, doneRecord{of[0].source, Plain})
		default:
			for i := range of {
				if of[i].done && !of[i].acked {
					records = append(records, doneRecord{of[i].source, of[i].sub})
				}
			}
		}
	}
	return records
}

func (r *batchRun) ackOf(records []doneRecord) Ack {
	ack := Ack{
		First: records[0].source.Sequence, Last: records[len(records)-1].source.Sequence,
		Owners: make([]byte, 0, len(records)*OwnerMarkSize),
	}
	var latest time.Time
	for _, d := range records {
		mark := Owner{Source: r.source, Sequence: d.source.Sequence, Sub: d.sub}.Mark()
		ack.Owners = append(ack.Owners, mark[:]...)
		if d.source.Arrival.After(latest) {
			latest = d.source.Arrival
		}
	}
	ack.PurgeAt = r.settings.Retention.purgeAckAt(latest)
	return ack
}
