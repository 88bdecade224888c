package eventsource_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

const firstShard = "shardId-000000000000"

// TestResumes: "Lambda keeps track of the last record processed and resumes processing
// from that point when it's reenabled" (Options, "Enabled").
func TestResumes(t *testing.T) {
	t.Parallel()
	for _, position := range []eventsource.StartingPosition{eventsource.TrimHorizon, eventsource.Latest} {
		t.Run(string(position), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.mapping.StartingPosition = position
			p := w.start()
			w.drain()
			w.send("0", "1")
			w.drain()
			p.Stop()
			w.send("2")
			w.start()
			w.drain()
			w.batches("0 1, 2")
			equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard).Sequence, w.put["2"])
		})
	}
}

// TestLatestIsSetAtTheFirstLook checks that a mapping that is restarted before its first record does not skip the
// records that arrived in the meantime (assumed).
func TestLatestIsSetAtTheFirstLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.StartingPosition = eventsource.Latest
	w.send("0")
	w.advance(time.Second)
	p := w.start()
	w.drain()
	p.Stop()
	w.advance(time.Minute)
	w.send("1")
	w.start()
	w.drain()
	w.batches("1")
}

// throttledOnce is a stream that throttles one read of a shard.
type throttledOnce struct {
	*eventsource.Stream
	done bool
}

func (s *throttledOnce) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, _ ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	if !s.done {
		s.done = true
		return nil, &types.ProvisionedThroughputExceededException{}
	}
	return s.Stream.GetRecords(ctx, in)
}

// TestLatestWhileTheParentIsRead: for a child that waits for its parent, LATEST is the end of the
// shard when the mapping finds it, not when it reads it (assumed).
func TestLatestWhileTheParentIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.StartingPosition, w.mapping.Client = eventsource.Latest, &throttledOnce{Stream: w.stream}
	must(t, w.stream.Split(w.stream.Open()[0]))
	w.send("0")
	w.advance(time.Second)
	w.start()
	w.advance(time.Millisecond)
	w.send("1")
	w.drain()
	w.batches("1")
}

// TestLatestAfterAnExpiredIterator: a new iterator does not move LATEST.
func TestLatestAfterAnExpiredIterator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.StartingPosition, w.mapping.PollPause = eventsource.Latest, time.Hour
	w.send("0")
	w.advance(time.Second)
	w.start()
	w.advance(time.Minute)
	w.send("1")
	w.drain()
	w.batches("1")
}

// TestCheckpointMoves: "Lambda checkpoints to the highest sequence number of a batch only
// when the batch is a complete success". After a partial failure it is at the lowest
// failed record (Partial), and after a discard it is behind the discarded records (Discarded).
func TestCheckpointMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	checkpoint := func(want string) {
		t.Helper()
		equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard).Sequence, w.put[want])
	}
	w.mapping.Retries = new(3)
	w.send("0", "1", "2", "3")
	w.answer = failing("2")
	w.start()
	w.advance(0)
	checkpoint("1")
	w.drain()
	w.discarded("2 3")
	checkpoint("3")
	w.send("4", "5")
	w.answer = throwing("5")
	w.advance(2 * time.Second)
	checkpoint("3")
}

// TestResumesAcrossResharding: no record of a finished parent is delivered again, and its children
// do not wait for it.
func TestResumesAcrossResharding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0")
	must(t, w.stream.Split(firstShard))
	p := w.start()
	w.drain()
	p.Stop()
	w.send("1")
	w.start()
	w.drain()
	w.batches("0, 1")
}

// TestCheckpointIsForwardOnly: a slower poller does not move the checkpoint back (assumed).
func TestCheckpointIsForwardOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.BatchSize = 1
	w.send("0", "1")
	w.sim.Fate = func(inv *eventsource.Invocation) eventsource.Fate {
		if inv.Number == 2 || inv.Number == 3 { // the invocations of the second poller
			return eventsource.Fate{}
		}
		return eventsource.Fate{Takes: 2 * time.Second}
	}
	behind := w.start()
	w.advance(time.Second)
	w.start()
	w.advance(500 * time.Millisecond)
	equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard).Sequence, w.put["1"])
	w.advance(500 * time.Millisecond)
	equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard).Sequence, w.put["1"])
	behind.Stop()
	w.drain()
}
