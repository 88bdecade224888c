package eventsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// lanes returns a world whose shard has four lanes, and two keys of different lanes.
func lanes(t *testing.T) (w *world, slow, fast string) {
	t.Helper()
	w = newWorld(t, 1)
	w.mapping.Parallelization = 4
	w.mapping.Timeout = 15 * time.Minute
	return w, "a", "b"
}

// TestAtMostSoManyBatches: "the number of concurrent batches that Lambda polls from a
// shard via a parallelization factor from 1 (default) to 10" (Using).
func TestAtMostSoManyBatches(t *testing.T) {
	t.Parallel()
	for _, parallelization := range []int{0, 1, 2, 10} {
		t.Run(fmt.Sprint(parallelization), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.mapping.Parallelization, w.mapping.BatchSize = parallelization, 2
			now, most := 0, 0
			w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
				now++
				most = max(most, now)
				eventsource.Wait(ctx, time.Second)
				now--
				return w.handle(ctx, event)
			}
			w.send(numbers(200)...)
			w.start()
			w.drain()
			equal(t, "batches at a time", most, max(parallelization, 1))
		})
	}
}

// TestOrderOfAKey: "Lambda still ensures in-order processing at the partition-key
// level" (Using), also with failures and retries.
func TestOrderOfAKey(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(t, 2)
		w.sim = eventsource.NewSim(start, seed)
		t.Cleanup(w.sim.Close)
		w.stream = eventsource.NewStream(2, w.sim.Now)
		w.mapping.Client, w.mapping.Parallelization, w.mapping.BatchSize, w.mapping.Bisect = w.stream, 10, 3, true
		w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
			eventsource.Wait(ctx, time.Duration(w.sim.Rand.IntN(2000))*time.Millisecond)
			return w.handle(ctx, event)
		}
		w.answer = func(c call) (json.RawMessage, error) {
			switch w.sim.Rand.IntN(4) {
			case 0:
				return nil, errBroken
			case 1:
				return failed(c.event.Records[w.sim.Rand.IntN(len(c.data))].Kinesis.SequenceNumber), nil
			}
			return nil, nil
		}
		w.sim.Fate = func(*eventsource.Invocation) eventsource.Fate {
			return eventsource.Fate{Throttle: w.sim.Rand.IntN(5) == 0}
		}
		for i := range 100 {
			w.stream.Put(fmt.Sprint("key-", i%9), []byte(fmt.Sprint(i)))
		}
		w.start()
		w.drain()
		next := map[string]int{}
		for _, c := range w.calls {
			for i, r := range c.event.Records {
				var n int
				_, err := fmt.Sscan(c.data[i], &n)
				must(t, err)
				key := r.Kinesis.PartitionKey
				if first, seen := next[key]; !seen && n >= 9 || seen && n > first {
					t.Errorf("seed %d: %s has %d where %d is next", seed, key, n, first)
				}
				next[key] = max(next[key], n+9)
			}
		}
		for key, n := range next {
			if n < 100 {
				t.Errorf("seed %d: %s ends at %d", seed, key, n-9)
			}
		}
		equal(t, "keys", len(next), 9)
	}
}

// TestAKeyBlocksItsLaneOnly: other lanes continue, up to the limit of unfinished records.
func TestAKeyBlocksItsLaneOnly(t *testing.T) {
	t.Parallel()
	w, slow, fast := lanes(t)
	w.mapping.BatchSize = 1
	w.stream.Put(slow, []byte("bad"))
	for i := range 20 {
		w.stream.Put(fast, []byte(fmt.Sprint(i)))
	}
	w.answer = throwing("bad")
	w.start()
	w.advance(10 * time.Second)
	good := 0
	for _, c := range w.calls {
		if c.data[0] != "bad" {
			good++
		}
	}
	equal(t, "records of the other lane", good, 20)
}

// TestReadingStopsAtTheLimit: one failing lane stops the reading at the limit (assumed).
func TestReadingStopsAtTheLimit(t *testing.T) {
	t.Parallel()
	for records, want := range map[int]bool{100: true, 21_000: false} {
		w, slow, fast := lanes(t)
		w.mapping.BatchSize = 5_000
		w.stream.Put(slow, []byte("bad"))
		for range records {
			w.stream.Put(slow, nil)
		}
		w.stream.Put(fast, []byte("good"))
		w.answer = throwing("bad")
		w.start()
		w.advance(time.Minute)
		delivered := false
		for _, c := range w.calls {
			delivered = delivered || c.data[0] == "good"
		}
		equal(t, fmt.Sprint("delivered behind ", records), delivered, want)
	}
}

// TestIteratorExpiresWhileALaneIsBusy: reading continues after the last record that was read, not
// after the checkpoint.
func TestIteratorExpiresWhileALaneIsBusy(t *testing.T) {
	t.Parallel()
	w, slow, fast := lanes(t)
	w.mapping.Parallelization, w.mapping.BatchSize = 2, 1
	w.sim.Fate = func(inv *eventsource.Invocation) eventsource.Fate {
		switch string(inv.Records[0].Data) {
		case "slow":
			return eventsource.Fate{Takes: 12 * time.Minute}
		case "fast":
			return eventsource.Fate{Takes: 6 * time.Minute}
		}
		return eventsource.Fate{}
	}
	w.stream.Put(slow, []byte("slow"))
	w.stream.Put(fast, []byte("fast"))
	w.start()
	w.advance(time.Minute) // both lanes are busy, and the mapping reads nothing for five more minutes
	w.stream.Put(fast, []byte("more"))
	w.drain()
	equal(t, "batches", len(w.calls), 3)
	equal(t, "last", w.calls[2].data[0], "more")
}

// TestCheckpointOfSeveralLanes checks that the checkpoint is at the first unfinished record. A restarted mapping
// delivers records again that a faster lane had finished after it. This is assumed.
func TestCheckpointOfSeveralLanes(t *testing.T) {
	t.Parallel()
	w, slow, fast := lanes(t)
	put := func(key, data string) { _, w.put[data] = w.stream.Put(key, []byte(data)) }
	put(fast, "0")
	put(slow, "1")
	put(fast, "2")
	put(slow, "3")
	w.mapping.BatchSize = 1
	w.answer = throwing("1")
	p := w.start()
	w.advance(time.Minute)
	checkpoint := func() string { return w.mapping.Checkpoint.Of(firstShard) }
	equal(t, "checkpoint", checkpoint(), w.put["0"])
	p.Stop()
	w.answer, w.calls = nil, nil
	w.start()
	w.drain()
	delivered := map[string]bool{}
	for _, c := range w.calls {
		delivered[c.data[0]] = true
	}
	equal(t, "delivered after the restart", fmt.Sprint(delivered), "map[1:true 2:true 3:true]")
	equal(t, "checkpoint", checkpoint(), w.put["3"])
}
