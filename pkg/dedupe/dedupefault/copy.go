package dedupefault

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// broken are the rules that a copy of the function breaks.
type broken struct {
	continues      bool // work goes on after the first failure
	namesAll       bool // all records that failed are named, and not the lowest
	namesNext      bool // the record after the failed one is named
	namesBatch     bool // the first record of the batch is named, whatever is done
	halfAggregate  bool // an aggregate counts as done with its first part
	ledgerAhead    bool // the next chunk's ledger step comes before this one's
	checkpointLast bool // the checkpoint moves to the chunk's last record, whatever failed
}

// copied is the way of a batch once more, in the simplest words: what its mutants
// break cannot be broken from outside of the function. With no rule broken it must
// do as well as the function.
type copied struct {
	function
	broken
}

// part is a user record on its way.
type part struct {
	record, sub int
	in          dedupe.Record
	payload     []byte
	id, fp      string
	poison      bool
	decision    dedupe.Decision
	keys        kpl.UserRecord
}

func (c copied) handle(ctx context.Context, raw json.RawMessage) (answer events.KinesisEventResponse, err error) {
	var event events.KinesisEvent
	if err := json.Unmarshal(raw, &event); err != nil {
		return answer, err
	}
	shard := event.Records[0].EventID[:len("shardId-000000000000")]
	name := func(sequence string) {
		answer.BatchItemFailures = append(answer.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: sequence})
	}
	sequence := func(i int) string { return event.Records[i].Kinesis.SequenceNumber }
	key := dedupe.CheckpointKey{Scope: c.options.Scope, Stream: streamName, Shard: shard}
	first := 0
	if c.options.Checkpoint {
		done, err := c.store.ReadCheckpoint(ctx, key)
		if err != nil {
			name(sequence(0))
			return answer, nil //nolint:nilerr // a failure is told by the answer
		}
		for done != nil && first < len(event.Records) && dedupe.CompareSequence(sequence(first), done.Sequence) <= 0 {
			first++
		}
	}
	var chunks [][]*part
	for next := first; next < len(event.Records); {
		var chunk []*part
		for ; next < len(event.Records) && len(chunk) < c.options.Chunk; next++ {
			chunk = append(chunk, c.open(next, event.Records[next].Kinesis)...)
		}
		chunks = append(chunks, chunk)
	}
	for i, chunk := range chunks {
		if !c.ledgerAhead || i%2 == 0 {
			if c.ledgerAhead && i+1 < len(chunks) {
				c.decide(ctx, shard, chunks[i+1])
			}
			c.decide(ctx, shard, chunk)
		}
		last := chunk[len(chunk)-1].record
		failed := c.work(ctx, shard, chunk)
		upTo := last
		if len(failed) > 0 && !c.checkpointLast {
			upTo = failed[0] - 1
		}
		if c.options.Checkpoint && upTo >= first {
			_ = c.store.AdvanceCheckpoint(ctx, key, dedupe.Checkpoint{Sequence: sequence(upTo), Consumer: c.options.Consumer})
		}
		if len(failed) == 0 {
			continue
		}
		switch {
		case c.namesNext && failed[0]+1 < len(event.Records):
			name(sequence(failed[0] + 1))
		case c.namesNext:
		case c.namesBatch:
			name(sequence(0))
		case c.namesAll:
			for record := failed[0]; record < len(event.Records); record++ {
				name(sequence(record))
			}
		default:
			name(sequence(failed[0]))
		}
		return answer, nil
	}
	return answer, nil
}

// open makes the parts of one record.
func (c copied) open(record int, k events.KinesisRecord) (parts []*part) {
	in := dedupe.Record{
		Sequence: k.SequenceNumber, PartitionKey: k.PartitionKey, Arrival: k.ApproximateArrivalTimestamp.UTC(), Data: k.Data,
	}
	var d kpl.Decoder
	users, aggregated, err := d.Decode(k.Data)
	if !aggregated || err != nil {
		return []*part{c.read(&part{record: record, sub: dedupe.Plain, in: in, payload: k.Data, poison: err != nil})}
	}
	for i, u := range users {
		parts = append(parts, c.read(&part{record: record, sub: i, in: in, payload: u.Data, keys: u}))
	}
	return parts
}

func (c copied) read(p *part) (same *part) {
	same = p
	defer func() {
		if recover() != nil {
			p.poison = true
		}
	}()
	fields, err := c.format.Read(p.payload)
	p.id, p.fp, p.poison = fields.ID, fields.Fingerprint, p.poison || err != nil
	return p
}

func (p *part) position(shard string) dedupe.Position {
	return dedupe.Position{Stream: streamName, Shard: shard, Sequence: p.in.Sequence, Sub: p.sub}
}

func (c copied) decide(ctx context.Context, shard string, chunk []*part) {
	d := dedupe.Decider{Ledger: c.store, Scope: c.options.Scope, Retention: c.options.Retention}
	var candidates []dedupe.Candidate
	var good []*part
	for _, p := range chunk {
		if !p.poison {
			good = append(good, p)
			candidates = append(candidates, dedupe.Candidate{
				ID: p.id, Owner: p.position(shard).String(), Fingerprint: p.fp, Arrival: p.in.Arrival,
			})
		}
	}
	if len(good) == 0 {
		return
	}
	for i, decision := range d.Decide(ctx, candidates) {
		good[i].decision = decision
	}
}

// work keeps and sends a chunk, and returns the records that failed, in order.
func (c copied) work(ctx context.Context, shard string, chunk []*part) (failed []int) {
	var outputs []dedupe.Output
	var of []int
	for _, p := range chunk {
		o, err := c.settle(ctx, shard, p)
		if err != nil {
			failed = append(failed, p.record)
			if !c.continues {
				break
			}
			continue
		}
		if o != nil {
			outputs, of = append(outputs, *o), append(of, p.record)
		}
	}
	for len(outputs) > 0 {
		n, err := c.sink.Send(ctx, outputs)
		if err == nil {
			break
		}
		if !c.halfAggregate || of[n] != of[0] || n == 0 {
			failed = append([]int{of[n]}, failed...)
		}
		if !c.continues {
			break
		}
		outputs, of = outputs[n+1:], of[n+1:] // the others may get through
	}
	return failed
}

// settle does what a decision asks for, short of sending; nil: nothing to send.
func (c copied) settle(ctx context.Context, shard string, p *part) (*dedupe.Output, error) {
	o := &dedupe.Output{ID: p.id, PartitionKey: p.in.PartitionKey, Data: p.payload}
	if p.sub != dedupe.Plain {
		o.PartitionKey = string(p.keys.PartitionKey)
	}
	if !p.poison {
		switch p.decision.Outcome {
		case dedupe.Undecided:
			return nil, errors.Join(errors.New("undecided"), p.decision.Err)
		case dedupe.Natural:
			return nil, nil
		case dedupe.NoID:
			p.poison = true
		default:
			if o.ID = p.decision.ID; o.ID != p.id {
				data, err := c.format.Rename(p.payload, p.id, o.ID)
				o.Data, p.poison = data, err != nil
			}
			p.poison = p.poison || c.sink.Check(*o) != nil
		}
	}
	if !p.poison {
		return o, nil
	}
	position := p.position(shard)
	return nil, c.failures.Keep(ctx, dedupe.Failure{
		Owner: position.String(), Position: position, Reason: "poison", PartitionKey: o.PartitionKey, Arrival: p.in.Arrival, Data: p.payload,
	})
}
