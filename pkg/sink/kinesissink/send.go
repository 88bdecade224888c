package kinesissink

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/internal/records/batchsink"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Send delivers records by PutRecords. All of them must have passed Check. Records that the stream refuses, or that
// get no answer, are sent again, with growing random pauses, until the deadline of the context. If it has no
// deadline, Send gives up after six attempts without progress. It gives up at once after an error that a later
// attempt cannot avoid.
//
// Sent names each record that is certainly delivered, also if there is an error. Some of the others may be in the
// stream. Sending them again is safe for readers that compare ids.
//
// Sent.Repeated counts the copies of records that were sent, and not refused, after an earlier request of this Send
// may have delivered them: a request without an answer or with a fault of the service as the answer, or an aggregate
// in another shard than planned.
//
// Errors: the family dedupe.ErrTryAgain; the error of the context if it was cancelled; any other error means that the
// settings of the stream or the client are wrong.
func (s *Sink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	d := newDelivery(s, outputs)
	err := s.attempts.Repeat(ctx, d.open, func(ctx context.Context) (open int, err error) {
		err = d.round(ctx)
		return d.open, err
	})
	return d.sent, err
}

// delivery is one Send.
type delivery struct {
	sink    *Sink
	outputs []dedupe.Output
	keys    []string // of the outputs
	maybe   []bool   // by output: an earlier request may have delivered it
	plain   []bool   // by output: it must not be aggregated
	open    int      // number of outputs that are not delivered
	sent    dedupe.Sent
}

func newDelivery(s *Sink, outputs []dedupe.Output) *delivery {
	n := len(outputs)
	d := &delivery{
		sink: s, outputs: outputs, keys: make([]string, n), maybe: make([]bool, n), plain: make([]bool, n),
		open: n, sent: dedupe.Sent{Delivered: make([]bool, n)},
	}
	for i, o := range outputs {
		d.keys[i] = keyOf(o)
	}
	return d
}

// round sends all outputs that are not delivered, except those that wait for a refused one. It returns why an output
// was refused. Without an error, all outputs are delivered, or some were in strays and have to be sent again at once.
func (d *delivery) round(ctx context.Context) error {
	shards := d.shards(ctx)
	records := newQueue(d.pack(shards), d.keys)
	refused := keySet{}
	var firstRefusal error
	for {
		request := records.next(refused)
		if len(request) == 0 {
			return firstRefusal
		}
		results, err := d.put(ctx, request)
		if err != nil {
			return err
		}
		astray, err := d.judge(request, results, refused)
		switch {
		case err != nil && !errors.Is(err, dedupe.ErrTryAgain):
			return err
		case len(astray) > 0:
			d.resolve(astray, d.sink.shards.next(ctx, shards))
			return nil
		case firstRefusal == nil:
			firstRefusal = err
		}
	}
}

// shards returns the shard map if any output is to be aggregated.
func (d *delivery) shards(ctx context.Context) *shardMap {
	for i, delivered := range d.sent.Delivered {
		if !delivered && d.wantsAggregate(i) {
			return d.sink.shards.get(ctx)
		}
	}
	return nil
}

// put sends one request, and returns a result for each record.
func (d *delivery) put(ctx context.Context, request []record) ([]types.PutRecordsResultEntry, error) {
	in := &kinesis.PutRecordsInput{
		StreamName: &d.sink.stream, Records: make([]types.PutRecordsRequestEntry, len(request)),
	}
	for i := range request {
		in.Records[i] = request[i].entry
	}
	out, err := d.sink.client.PutRecords(ctx, in)
	if err == nil && len(out.Records) != len(request) {
		err = batchsink.ErrMisfit
	}
	if err == nil {
		return out.Records, nil
	}
	if !awserror.IsRefusal(err) {
		for i := range request {
			d.countCopies(&request[i])
		}
	}
	return nil, d.sink.attempts.Translate(err)
}

// stray is an aggregate that the stream put into another shard than planned.
type stray struct {
	*record
	shardID string
}

// judge reads the results of a request. It records which outputs are delivered and which keys were refused. It
// returns the strays, and why a record was refused: preferably a reason that a later attempt cannot avoid.
func (d *delivery) judge(
	request []record, results []types.PutRecordsResultEntry, refused keySet,
) (astray []stray, err error) {
	for i, result := range results {
		r := &request[i]
		if result.ErrorCode == nil && result.SequenceNumber != nil {
			d.countCopies(r)
			if id := aws.ToString(result.ShardId); r.shard != nil && r.shard.id != id {
				astray = append(astray, stray{r, id})
			} else {
				d.setDelivered(r)
			}
			continue
		}
		why := refusal(aws.ToString(result.ErrorCode), aws.ToString(result.ErrorMessage))
		if !why.Certain {
			d.countCopies(r)
		}
		if err == nil || !why.Transient {
			err = d.sink.attempts.Translate(why)
		}
		refused.add(d.keys, r)
	}
	return astray, err
}

// resolve decides about strays. If the actual shard has all hash keys of the planned one, as after a merge, KCL
// accepts the aggregate. KCL drops other strays, so their outputs are sent again, plain: a plain record is never in a
// wrong shard.
func (d *delivery) resolve(astray []stray, now *shardMap) {
	for _, s := range astray {
		if now != nil && now.covers(s.shardID, s.shard) {
			d.setDelivered(s.record)
			continue
		}
		for _, i := range s.outputs {
			d.plain[i] = true
		}
	}
}

func (d *delivery) setDelivered(r *record) {
	for _, i := range r.outputs {
		d.sent.Delivered[i] = true
	}
	d.open -= len(r.outputs)
}

// countCopies records that a request may have delivered a record, and counts the outputs that may therefore be in the
// stream twice.
func (d *delivery) countCopies(r *record) {
	for _, i := range r.outputs {
		if d.maybe[i] {
			d.sent.Repeated++
		}
		d.maybe[i] = true
	}
}
