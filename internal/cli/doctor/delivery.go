package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	kinesistypes "github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/internal/claims/scratch"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// purgeTimeGap is the wait between two puts. It makes the purge time of the second record later than the first's, so
// that the function must change the first record's entry. Purge times are whole seconds.
const purgeTimeGap = 1100 * time.Millisecond

// putAll puts all records with one partition key, so that they are in one shard, in order.
func (r *recordsRun) putAll(ctx context.Context) (string, error) {
	all, err := r.payloads(ctx)
	if err != nil {
		return "", operatorError(err)
	}
	key := scratch.Prefix + r.suffix
	if _, err := r.putRecords(ctx, nil, key, all[first], all[firstCopy]); err != nil {
		return "", operatorError(err)
	}
	if err := pause.For(ctx, purgeTimeGap); err != nil {
		return "", err
	}
	// A request that is cancelled may still reach Kinesis, and then the name of its dead letter would not be known.
	// So it is not cancelled. It is sent once: if the reply to a first attempt was lost, a second one would put another
	// poison record, and the reply would name only that one.
	uncut, once := context.WithoutCancel(ctx), aws.NopRetryer{}
	at, err := r.putRecords(uncut, once, key, all[second], aggregate(key, all[third], all[fourth]), r.poisonPayload())
	if len(at) > 0 {
		r.poison = at[len(at)-1] // even if another record was not put
	} else if err != nil {
		r.lost = !awserror.IsRefusal(err)
	}
	if err != nil {
		return "", operatorError(err)
	}
	return fmt.Sprintf("6 records in %s, two of them in an aggregate, with the member %s=%s",
		r.stream.Name, marker, r.suffix), nil
}

// putRecords puts records and returns their positions. The position of a record that was not put is the zero value. If
// retryer is nil, the client's own retryer is used.
func (r *recordsRun) putRecords(ctx context.Context, retryer aws.Retryer, key string, payloads ...[]byte) (
	at []dedupe.Position, err error,
) {
	in := &kinesis.PutRecordsInput{StreamARN: &r.arn}
	for _, p := range payloads {
		in.Records = append(in.Records, kinesistypes.PutRecordsRequestEntry{Data: p, PartitionKey: &key})
	}
	out, err := r.Kinesis.PutRecords(ctx, in, func(o *kinesis.Options) {
		if retryer != nil {
			o.Retryer = retryer
		}
	})
	if err != nil {
		return nil, err
	}
	if r.begun.IsZero() {
		var known bool
		if r.begun, known = middleware.GetServerTime(out.ResultMetadata); !known {
			r.begun = time.Now()
		}
	}
	for _, put := range out.Records {
		if put.SequenceNumber == nil {
			at, err = append(at, dedupe.Position{}), fmt.Errorf("a record was not put: %s", aws.ToString(put.ErrorMessage))
			continue
		}
		p := dedupe.Position{Stream: r.stream, Shard: *put.ShardId, Sequence: *put.SequenceNumber, Sub: dedupe.Plain}
		at, r.put = append(at, p), append(r.put, p)
	}
	return at, err
}

// awaitAcks waits until an ack names each of the records.
func (r *recordsRun) awaitAcks(ctx context.Context) (string, error) {
	var left int
	err := r.await(ctx, r.maxWait, func() (bool, error) {
		var err error
		left, err = r.withoutAck(ctx)
		return left == 0, err
	})
	switch {
	case errors.Is(err, errLate):
		return "", r.stuck(ctx, fmt.Sprintf("%d of %d records were not done within %s", left, len(r.put), r.waited()))
	case err != nil:
		return "", operatorError(err)
	}
	return "acks name all: a record, its copy, another one with its id, two in an aggregate, and a poison record", nil
}

// withoutAck counts the records without an ack. A KPL aggregate counts as one record.
func (r *recordsRun) withoutAck(ctx context.Context) (n int, err error) {
	for _, p := range r.put {
		key := dedupe.AckKey{Scope: r.scope, Stream: r.stream, Shard: p.Shard, Sink: r.options.Sink.String()}
		acks, err := r.Acks.ReadAcks(ctx, key, p.Sequence, p.Sequence)
		if err != nil {
			return 0, err
		}
		if !named(acks, p) {
			n++
		}
	}
	return n, nil
}

// named reports whether acks name a record. If a KPL aggregate is completely done, they name the aggregate. Otherwise
// they name its parts.
func named(acks []dedupe.Ack, p dedupe.Position) bool {
	marks := map[dedupe.OwnerMark]bool{}
	for _, a := range acks {
		for mark := range a.Marks() {
			marks[mark] = true
		}
	}
	one, other := p, p
	one.Sub, other.Sub = 0, 1 // an aggregate of this run has two parts
	return marks[p.Owner().Mark()] || marks[one.Owner().Mark()] && marks[other.Owner().Mark()]
}

var errLate = errors.New("not in time")

// await calls done until it returns true, at least once. It returns errLate when the time has passed.
func (r *recordsRun) await(ctx context.Context, within time.Duration, done func() (bool, error)) error {
	for end := time.Now().Add(within); ; {
		ok, err := done()
		switch {
		case err != nil || ok:
			return err
		case time.Now().After(end):
			return errLate
		}
		if err := pause.For(ctx, between); err != nil {
			return err
		}
	}
}

// waited says how long the run has waited.
func (r *recordsRun) waited() string {
	if r.maxWait == r.Wait {
		return fmt.Sprintf("%s (--wait)", r.Wait)
	}
	return fmt.Sprintf("%s (--wait %s, and the batching window of the mapping)", r.maxWait, r.Wait)
}

// stuck adds Lambda's own report about the mapping to an error.
func (r *recordsRun) stuck(ctx context.Context, what string) error {
	what += "; the log group " + r.Function.Log + " says why"
	if mappings, err := Mappings(ctx, r.Lambda, r.Function); err == nil && len(mappings) > 0 {
		what += fmt.Sprintf("; the mapping is %s, its last result is %q", aws.ToString(mappings[0].State),
			aws.ToString(mappings[0].LastProcessingResult))
	}
	return &invocationError{what: what}
}

// findTail finds the places in the destination's shards from which the run's records may be. All records are
// delivered by now, so no newer shard has one.
func (r *recordsRun) findTail(ctx context.Context) error {
	const before = 10 * time.Second // because the clocks of two streams may differ
	from := r.begun.Add(-before)
	r.tail = map[string]string{}
	in := &kinesis.ListShardsInput{StreamName: &r.options.Sink.Stream.Stream}
	for {
		page, err := r.Kinesis.ListShards(ctx, in)
		if err != nil {
			return err
		}
		for _, s := range page.Shards {
			out, err := r.Kinesis.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
				StreamName: &r.options.Sink.Stream.Stream, ShardId: s.ShardId,
				ShardIteratorType: kinesistypes.ShardIteratorTypeAtTimestamp, Timestamp: &from,
			})
			if err != nil {
				return err
			}
			r.tail[*s.ShardId] = aws.ToString(out.ShardIterator)
		}
		if page.NextToken == nil {
			return nil
		}
		in = &kinesis.ListShardsInput{NextToken: page.NextToken}
	}
}

// expected returns how often each record is delivered if nothing failed.
func (r *recordsRun) expected() map[int]int {
	all := map[int]int{first: 1, second: 1, third: 1, fourth: 1}
	if r.options.PassNatural {
		all[firstCopy]++
	}
	return all
}

// readBack reads the delivered records. After a failure, a stream as the destination may get a record again, under
// the same id.
func (r *recordsRun) readBack(ctx context.Context) (string, error) {
	expected, begun := r.expected(), time.Now()
	if err := r.findTail(ctx); err != nil {
		return "", operatorError(err)
	}
	missing := func() (n int) {
		for record, times := range expected {
			n += max(0, times-len(r.seen[record]))
		}
		return n
	}
	err := r.await(ctx, r.maxWait, func() (bool, error) {
		all, err := r.readTail(ctx, begun)
		return all && missing() == 0, err
	})
	late := errors.Is(err, errLate)
	switch {
	case late && missing() > 0:
		what := fmt.Sprintf("%d deliveries are not in %s", missing(), r.options.Sink.Stream.Stream)
		return "", &invocationError{what: what}
	case err != nil && !late:
		return "", operatorError(err)
	}
	for n, times := range expected {
		if len(r.seen[n]) > times {
			r.Warn("repeated record", fmt.Sprintf("record %d is %d times in the destination", n, len(r.seen[n])),
				"After a failure or a timeout of the function that is normal (docs/guarantees.md, G11). "+
					"If it happens again, look for failures in the log of the function.")
		}
		if err := r.checkIDs(n); err != nil {
			return "", err
		}
	}
	if r.aggregates() && !r.packed {
		return "", &invocationError{
			what: "the records of the aggregate were delivered one by one: the function does not know the shards",
		}
	}
	return fmt.Sprintf("4 records in %s: %s", r.options.Sink.Stream.Stream, r.delivered(!late)), nil
}

// checkIDs checks the ids under which a record was delivered.
func (r *recordsRun) checkIDs(n int) error {
	ids := slices.Compact(slices.Sorted(slices.Values(r.seen[n])))
	own, kept := r.id(n), !r.options.Derive
	if n == second {
		own, kept = r.id(first), r.options.PassSynthetic
	}
	switch {
	case len(ids) > 1:
		return &invocationError{what: fmt.Sprintf("record %d was delivered under %d ids", n, len(ids))}
	case kept && ids[0] != own:
		return &invocationError{what: fmt.Sprintf("record %d was delivered under another id than its own", n)}
	case !kept && ids[0] == own:
		return &invocationError{what: fmt.Sprintf("record %d was delivered under its own id, and not a derived one", n)}
	}
	return nil
}

// delivered reports what happened to the copy and to the record with the same id, if the destination was read to its
// end.
func (r *recordsRun) delivered(toEnd bool) string {
	text := "the copy was dropped, "
	switch times := len(r.seen[firstCopy]); {
	case r.options.PassNatural:
		text = "the copy was delivered (ONCEBOX_NATURAL is off), "
	case times > 1 || !toEnd:
		text = "" // the copy may have been delivered, which looks like a second delivery of the record
	}
	switch {
	case r.options.Derive:
		return text + "each record has a derived id (ONCEBOX_IDS is derived)"
	case r.options.PassSynthetic:
		return text + "the other record with its id has kept it (ONCEBOX_SYNTHETIC is off)"
	}
	return text + "the other record with its id has a new id"
}

// aggregates reports whether the function delivers the records of an aggregate in an aggregate. To do so, it must
// know the shards of the destination. Otherwise it delivers them one by one.
func (r *recordsRun) aggregates() bool {
	s := r.options.Sink.Stream
	return s != nil && s.Aggregation != kinesissink.AggregateNever
}

// readTail reads the next records of all shards. It reports whether it has read all records that the shards had at
// that time.
func (r *recordsRun) readTail(ctx context.Context, until time.Time) (all bool, err error) {
	all = true
	for shard, at := range r.tail {
		if at == "" {
			continue // the shard is closed, and was read to its end
		}
		out, err := r.Kinesis.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: &at})
		if _, throttled := errors.AsType[*kinesistypes.ProvisionedThroughputExceededException](err); throttled {
			all = false // throttled, because other consumers read, too
			continue
		}
		if err != nil {
			return false, err
		}
		r.tail[shard] = aws.ToString(out.NextShardIterator)
		behind := time.Duration(aws.ToInt64(out.MillisBehindLatest)) * time.Millisecond
		all = all && (r.tail[shard] == "" || behind < time.Since(until))
		for _, record := range out.Records {
			parts, aggregated := userRecords(record.Data)
			for _, data := range parts {
				r.packed = r.note(ctx, data) && aggregated || r.packed
			}
		}
	}
	return all, nil
}

// note records a record of the destination if it belongs to this run.
func (r *recordsRun) note(ctx context.Context, data []byte) (mine bool) {
	var found struct {
		Marker string `json:"oncebox_doctor"`
		N      int    `json:"n"`
	}
	if json.Unmarshal(data, &found) != nil || found.Marker != r.suffix {
		return false
	}
	if fields, err := r.options.Format.Read(ctx, data); err == nil {
		r.seen[found.N] = append(r.seen[found.N], fields.ID)
	}
	return true
}
