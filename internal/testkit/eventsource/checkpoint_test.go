package eventsource_test

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

const firstShard = "shardId-000000000000"

// TestResumes: "Lambda keeps track of the last record processed and resumes processing
// from that point when it's reenabled" (Options, "Enabled").
func TestResumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p := w.start()
	w.drain()
	w.send("0", "1")
	w.drain()
	p.Stop()
	w.send("2")
	w.start()
	w.drain()
	w.batches("0 1, 2")
	equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard), w.put["2"])
}

// TestCheckpointMoves: "Lambda checkpoints to the highest sequence number of a batch only
// when the batch is a complete success". After a partial failure it is at the lowest
// failed record (Partial), and after a discard it is behind the discarded records (Discarded).
func TestCheckpointMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	checkpoint := func(want string) {
		t.Helper()
		equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard), w.put[want])
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
	equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard), w.put["1"])
	w.advance(500 * time.Millisecond)
	equal(t, "checkpoint", w.mapping.Checkpoint.Of(firstShard), w.put["1"])
	behind.Stop()
	w.drain()
}
