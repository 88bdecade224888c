package redrive_test

import (
	"context"
	"testing"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// mutantProcessor redrives poison records wrongly.
type mutantProcessor struct {
	redrive.Processor
	wrong func(ctx context.Context, d dedupe.DeadLetter, name string) dedupe.Result
}

func (p mutantProcessor) Redrive(ctx context.Context, d dedupe.DeadLetter, name string) dedupe.Result {
	return p.wrong(ctx, d, name)
}

// onProcessor returns a mutant that redrives a poison record wrongly.
func onProcessor(
	wrong func(ctx context.Context, right redrive.Processor, d dedupe.DeadLetter, name string) dedupe.Result,
) func(*world, *redrive.Job) {
	return func(_ *world, j *redrive.Job) {
		target := j.Target
		j.Target = func(ctx context.Context, s dedupe.Stream) (redrive.Processor, string, error) {
			right, scope, err := target(ctx, s)
			return mutantProcessor{right, func(ctx context.Context, d dedupe.DeadLetter, name string) dedupe.Result {
				return wrong(ctx, right, d, name)
			}}, scope, err
		}
	}
}

// batchOf returns the batch of a record that comes from the stream.
func batchOf(d dedupe.DeadLetter, sequence string) dedupe.Batch {
	return dedupe.Batch{Stream: stream, Shard: shard, Records: []dedupe.Record{
		{Sequence: sequence, PartitionKey: d.PartitionKey, Arrival: d.Arrival, Data: d.Data},
	}}
}

// mutants are broken rules of redrive, each with the level of the sinks on which the tests must find it.
var mutants = map[string]struct {
	level  string
	mutate func(*world, *redrive.Job)
}{
	// A crash between the two leaves a letter that is never delivered.
	"the marker comes before the sink": {"stream", func(_ *world, j *redrive.Job) {
		items := j.Items
		j.Items = func(yield func(redrive.Item, error) bool) {
			for item, err := range items {
				read := item.Letter
				item.Letter = func(ctx context.Context) (deadletter.Letter, error) {
					if _, err := j.Markers.MarkDone(ctx, item.Name, deadletter.Marker{}); err != nil {
						return deadletter.Letter{}, err
					}
					return read(ctx)
				}
				if !yield(item, err) {
					return
				}
			}
		}
	}},
	// The record's ack says that the record is done, but only as a dead letter.
	"a poison record is judged by acks": {"stream", onProcessor(judgedAsBatch)},
	// An object that reaches over the record's position has handled the records around it.
	"a poison record is judged by objects": {"objects", onProcessor(judgedAsBatch)},
	// The record finds its own entry, and counts as its own copy.
	"a new owner": {"stream", onProcessor(
		func(ctx context.Context, right redrive.Processor, d dedupe.DeadLetter, name string) dedupe.Result {
			d.Position.Sequence = "1000" + d.Position.Sequence
			return right.Redrive(ctx, d, name)
		})},
	// The record comes back with another position, as above.
	"put into the source stream again": {"stream", onProcessor(
		func(ctx context.Context, right redrive.Processor, d dedupe.DeadLetter, _ string) dedupe.Result {
			return right.Process(ctx, batchOf(d, "1000"+d.Position.Sequence))
		})},
}

func judgedAsBatch(
	ctx context.Context, right redrive.Processor, d dedupe.DeadLetter, _ string,
) dedupe.Result {
	return right.Process(ctx, batchOf(d, d.Position.Sequence))
}

// TestMutants checks that TestFaults finds each broken rule.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at, more := 0, true; more; at++ {
				w := newWorld(t, m.level, dedupefault.Memory.Open(t), newMemory())
				var problem string
				if more, problem = w.survives(at, false, m.mutate); problem != "" {
					t.Logf("found at call %d: %s", at, problem)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// TestOtherShard checks that a payload of another shard is refused, because its records would have other owners.
func TestOtherShard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
	name, _ := w.giveUp(record(11, "a", "x", false))
	j := w.job()
	items := j.Items
	j.Items = func(yield func(redrive.Item, error) bool) {
		for item, err := range items {
			read := item.Letter
			item.Letter = func(ctx context.Context) (deadletter.Letter, error) {
				l, err := read(ctx)
				l.Batch.Shard = "shardId-000000000009"
				return l, err
			}
			yield(item, err)
		}
	}
	reports, err := w.run(j)
	must(t, err)
	if r := reports[name]; r.Status != redrive.Refused || w.ids() != "" {
		t.Errorf("%s (%s), delivered %q", r.Status, r.Why, w.ids())
	}
}

// TestShortBatch checks that a batch with missing records does not count as done. The records that its payload lacks
// are read from the stream.
func TestShortBatch(t *testing.T) {
	t.Parallel()
	all := []dedupe.Record{record(11, "a", "x", false), record(12, "b", "x", false), record(13, "c", "x", false)}
	before, other := record(10, "e", "x", false), record(14, "d", "x", false)
	for name, test := range map[string]struct {
		payload, inStream []dedupe.Record // no records: there is no payload, or the records are lost
		status            redrive.Status
		delivered         string
		mutant            bool
	}{
		"whole":                        {all, nil, redrive.Done, "a:1 b:1 c:1", false},
		"short, and lost":              {all[:2], nil, redrive.Refused, "", false},
		"with a gap, and lost":         {[]dedupe.Record{all[0], all[2]}, nil, redrive.Refused, "", false},
		"another first record":         {[]dedupe.Record{before, all[1], all[2]}, nil, redrive.Refused, "", false},
		"short, and in the stream":     {all[:2], all, redrive.Done, "a:1 b:1 c:1", false},
		"only in the stream":           {nil, all, redrive.Done, "a:1 b:1 c:1", false},
		"partly in the stream":         {nil, all[1:], redrive.Refused, "", false},
		"other records in the stream":  {nil, append(all[1:3:3], other), redrive.Refused, "", false},
		"lost":                         {nil, nil, redrive.Lost, "", false},
		"mutant: any number is enough": {all[:2], nil, redrive.Done, "a:1 b:1", true},
	} {
		w := newWorld(t, "stream", dedupefault.Memory.Open(t), newMemory())
		name0, _ := w.giveUp(all...)
		j := w.job()
		items := j.Items
		j.Items = func(yield func(redrive.Item, error) bool) {
			for item, err := range items {
				read := item.Letter
				item.Letter = func(ctx context.Context) (deadletter.Letter, error) {
					l, err := read(ctx)
					if l.Batch.Event = nil; test.payload != nil {
						l.Batch.Event = eventOf(t, test.payload)
					}
					if test.mutant {
						l.Batch.Size, l.Batch.Last = len(test.payload), test.payload[len(test.payload)-1].Sequence
					}
					return l, err
				}
				yield(item, err)
			}
		}
		j.Records = func(context.Context, *deadletter.GivenUp) ([]dedupe.Record, error) {
			if test.inStream == nil {
				return nil, redrive.ErrLost
			}
			return test.inStream, nil
		}
		reports, err := w.run(j)
		must(t, err)
		if r := reports[name0]; r.Status != test.status || w.ids() != test.delivered {
			t.Errorf("%s: %s (%s), delivered %q", name, r.Status, r.Why, w.ids())
		}
	}
}
