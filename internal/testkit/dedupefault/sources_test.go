package dedupefault

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/internal/testkit/search"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// sourceHistories are random histories of object sinks and of queues, by the names that mutants use. A seed gives the
// same history each time.
var sourceHistories = map[string]func(seed int) func(context.Context, dedupe.Store, *Mutant) error{
	"objects": func(seed int) func(context.Context, dedupe.Store, *Mutant) error {
		return objectHistories.Example(seed).play
	},
	"queues": func(seed int) func(context.Context, dedupe.Store, *Mutant) error {
		return queueHistories.Example(seed).play
	},
}

// TestQueues plays random histories of queues.
func TestQueues(t *testing.T) {
	t.Parallel()
	onEach(t, []Engine{Memory, MemoryLog, SQLiteMemory}, func(t *testing.T, e Engine) {
		store := e.Open(t)
		search.Histories(t, search.Anywhere(), 5*rapidChecks(), func(seed int) error { // they are quick
			return queueHistories.Example(seed).play(t.Context(), store, nil)
		})
	})
}

var queueHistories = rapid.Custom(func(t *rapid.T) (h queueHistory) {
	h.FIFO, h.Chunk = rapid.Bool().Draw(t, "fifo"), rapid.SampledFrom([]int{1, 2, 3, 500}).Draw(t, "chunk")
	messages := rapid.Custom(func(t *rapid.T) User {
		u := User{ID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id"), FP: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "fp")}
		u.Kind = rapid.SampledFrom(append(slices.Repeat([]Kind{Good}, 9), Broken, Refused)).Draw(t, "kind")
		return u
	})
	h.Messages = rapid.SliceOfN(messages, 1, 8).Draw(t, "messages")
	index := rapid.IntRange(0, len(h.Messages)-1)
	h.Batches = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) (b queueBatch) {
		b.From, b.Size = index.Draw(t, "from"), 1+index.Draw(t, "size")
		b.Fails = rapid.SliceOfN(index, 0, 3).Draw(t, "fails")
		for range rapid.IntRange(0, 3).Draw(t, "repeats") {
			b.Repeats = append(b.Repeats, [2]int{index.Draw(t, "repeated"), index.Draw(t, "behind")})
		}
		b.Stays = rapid.SliceOfN(index, 0, 2).Draw(t, "stays")
		b.Moved = rapid.SampledFrom([][]int{nil, nil, nil, {0}, {1}}).Draw(t, "moved")
		b.After = rapid.SampledFrom(queuePauses).Draw(t, "after")
		return b
	}), 0, 8).Draw(t, "batches")
	if h.NoAcks = rapid.IntRange(0, 3).Draw(t, "no acks") == 0; h.NoAcks {
		return h
	}
	seldom := func(ways ...Way) []Way { return append(slices.Repeat([]Way{None}, 2*len(ways)), ways...) }
	ways := rapid.SampledFrom(seldom(FailBefore, Throttle, LoseReply, CrashBefore, CrashAfter, EffectLater))
	h.Ways = rapid.SliceOfN(ways, 0, 17).Draw(t, "ways")
	h.Pauses = rapid.SliceOfN(rapid.SampledFrom(append([]time.Duration{0, 0, 0, 0}, queuePauses...)), 0, 13).Draw(t, "pauses")
	h.Within = rapid.SliceOfN(rapid.SampledFrom([]bool{false, true}), 0, 11).Draw(t, "within")
	skews := rapid.SampledFrom([]time.Duration{0, 0, time.Hour, -time.Hour, 90 * time.Second})
	h.Skews, h.Wakes = [2]time.Duration{skews.Draw(t, "skew"), skews.Draw(t, "other skew")}, rapid.Bool().Draw(t, "wakes")
	return h
})

// queuePauses are pauses in a history of a queue: short ones, and the edges of the lease.
var queuePauses = []time.Duration{
	0, 0, 300 * time.Millisecond, time.Second, 20 * time.Second, queueTimeout, queueTimeout + 2500*time.Millisecond,
	queueTimeout + 4*time.Second, 2 * queueTimeout,
}

// TestObjects plays random histories of object sinks.
func TestObjects(t *testing.T) {
	t.Parallel()
	store, plays := Memory.Open(t), 5*rapidChecks()
	if testing.Short() {
		plays = rapidChecks()
	}
	search.Histories(t, search.Anywhere(), plays, func(seed int) error {
		return objectHistories.Example(seed).searched(t, store)
	})
}

// TestObjectsOnS3 plays some of the histories of object sinks on an S3 server.
func TestObjectsOnS3(t *testing.T) {
	t.Parallel()
	plays := 100
	if testing.Short() {
		plays = 10
	}
	client, err := objectsink.NewS3Client(t.Context(), config(testengine.S3(t, bucket)))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range plays {
		play := objectHistories.Example(seed).playOn(Memory.Open(t), nil)
		play.Storage = objectsink.NewBucket(client, bucket, fmt.Sprint("seed-", seed, "/"))
		if _, err := play.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
