package eventsource_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// TestParentsBeforeChildren: a parent is read to its end before its children (Resharding), also if
// its records fail, and over two generations.
func TestParentsBeforeChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0", "1")
	must(t, w.stream.Split(w.stream.Open()[0]))
	w.send("2", "9")
	children := w.stream.Open()
	must(t, w.stream.Merge(children[0], children[1]))
	w.send("6")
	w.answer = func(call) (json.RawMessage, error) {
		if len(w.calls) < 3 {
			return nil, errBroken
		}
		return nil, nil
	}
	w.start()
	w.drain()
	var shards []string
	for _, c := range w.calls {
		shards = append(shards, strings.TrimLeft(strings.TrimPrefix(c.shard, "shardId-"), "0"))
	}
	equal(t, "parent's tries", strings.Join(shards[:3], ""), "")
	slices.Sort(shards[3:5])
	equal(t, "then the children, then theirs", strings.Join(shards[3:], " "), "1 2 3")
}

// TestAMergedShardHasTwoParents: a merged shard waits for both parents.
func TestAMergedShardHasTwoParents(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"0", "9"} { // in the upper and in the lower half of the hash keys
		w := newWorld(t, 2)
		w.mapping.Retries = new(3)
		w.send("0", "9")
		open := w.stream.Open()
		must(t, w.stream.Merge(open[0], open[1]))
		w.send("1")
		w.answer = throwing(bad)
		w.start()
		w.drain()
		if last := w.calls[len(w.calls)-1]; len(w.calls) != 6 || last.data[0] != "1" {
			t.Errorf("%d calls, the last with %v", len(w.calls), last.data)
		}
	}
}

// TestReshardingWhileRunning: the mapping finds children that do not exist at the start, and the
// records of a key stay in order.
func TestReshardingWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.mapping.BatchSize = 3
	w.start()
	w.advance(5 * time.Second)
	want := map[string]string{}
	for i := range 60 {
		key := fmt.Sprint("key-", i%7)
		w.stream.Put(key, []byte(fmt.Sprint(i)))
		want[key] += fmt.Sprint(i, " ")
		switch open := w.stream.Open(); i % 20 {
		case 5, 11:
			must(t, w.stream.Split(open[w.sim.Rand.IntN(len(open))]))
		case 15:
			must(t, w.stream.Merge(open[0], open[1]))
		}
		if i%4 == 0 {
			w.advance(time.Second)
		}
	}
	w.drain()
	got := map[string]string{}
	for _, c := range w.calls {
		for i, r := range c.event.Records {
			got[r.Kinesis.PartitionKey] += c.data[i] + " "
		}
	}
	equal(t, "records by key", fmt.Sprint(got), fmt.Sprint(want))
}

// TestParentThatIsGone: no shard waits for a parent that has outlived the retention.
func TestParentThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0")
	must(t, w.stream.Split(w.stream.Open()[0]))
	w.advance(eventsource.DefaultRetention + time.Second)
	w.send("1")
	w.start()
	w.drain()
	w.batches("1")
}

// TestTrimHorizonIsWhatIsLeft: records can be read until the end of the retention.
func TestTrimHorizonIsWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.send("0")
	w.advance(time.Hour)
	w.send("1")
	w.advance(eventsource.DefaultRetention - time.Minute)
	w.start()
	w.drain()
	w.batches("1")
}
